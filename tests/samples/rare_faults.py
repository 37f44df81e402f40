"""Faults that few checks see, in ``plain_layer.BASE``: check, its words, pieces."""

from tests.samples.plain_layer import (
    APPEND,
    DROP,
    FILL,
    KEYS,
    LAST,
    MASK,
    MASKED,
    ONES,
    OWN,
    QUERIES,
    RETURN,
    SCORES,
    SOFTMAX,
    START,
    TRIL,
    ZEROS,
    after,
    before,
    ends,
)
from tests.samples.right_layers import NO_CAUSAL, ROPE, VARIANTS

READ = f"seen & {MASK}"
ADDED = f"{MASKED.partition('seen')[0]}scores = scores + (1 - {MASK}.to(x.dtype))"
PLACES = "torch.arange(S, device=x.device)"
OTHERS = "torch.arange(T, device=x.device)[:, None]"
TURN = "turn = lambda a: torch.cat(["
PAIRS = ".unflatten(-1, (2, 2)).mT.flatten(-2)"
RARE = {
    "shape": {
        "where a token is all zeros": after(
            START, "x = x / x.norm(dim=-1, keepdim=True)"
        ),
        "raised AssertionError: in forward": after(START, "assert T != 6"),
        "comes (7, 12, 6)": ends("out = out.mT"),
        "nan or infinity at (1, 1, 12)": ends("out = out / (T > 1)"),
        "not contiguous": after(START, "x = x.as_strided((B, T, M), (T * M, M, 1))"),
    },
    "parameters": {
        "k_proj.weight is q_proj.weight": after(LAST, "self.k_proj = self.q_proj")
    },
    "cache": {
        "do two caches share memory": (
            *("if self.k is not None", "if self.length"),
            *("[self.k, k]", "[Cache.k, k]", "[self.v, v]", "[Cache.v, v]"),
            *(APPEND, APPEND.replace("self.k, self.v", "Cache.k, Cache.v")),
        ),
        "more tokens than it has room for": (
            *("return Cache()", "self.room = max_len\n        return Cache()"),
            "k, v = cache.append(k, v)",
            "k, v = (each[:, :, -self.room:] for each in cache.append(k, v))\n"
            "            cache.k, cache.v = k, v",
        ),
        "it keeps 16 bits": after(APPEND, "self.k = k.half().to(k.dtype)"),
        "a new cache is not empty": (
            *after(LAST, "self.cache = Cache()"),
            *("return Cache()", "return self.cache"),
        ),
        "one text shows in another": (
            "= k, v, k.shape",
            "= k[:1].expand_as(k), v, k.shape",
        ),
        "wrong positions or values": ("= k, v, k.shape", "= k, 2 * v, k.shape"),
    },
    "formula": {
        "of large scores": (
            SOFTMAX,
            "weights = (scores - scores.amax(-1, True).clamp(min=0)).exp()\n"
            "        weights = weights / weights.sum(-1, True).clamp(min=1e-30)",
        ),
        "RoPE turns the queries, and not the keys": (*ROPE, "turn(k)", "k"),
        "RoPE turns the values, too": (
            *(*OWN, *ROPE, "        if cache", "        v = turn(v)\n        if cache"),
        ),
        "RoPE does not rotate": (
            *ROPE,
            "+ a[..., :2] * angles.sin()",
            "- a[..., :2] * angles.sin()",
        ),
        "half as large: i/D": (
            *ROPE,
            "0, 4, 2, device=x.device) / 4",
            "0, 2, device=x.device) / 4",
        ),
        "pairs the features of keys otherwise": (
            *(*OWN, *ROPE, "turn(k)", f"turn(k{PAIRS}){PAIRS}"),
        ),
        "the mask comes after the softmax": (*OWN, FILL, "pass"),
        "sets scores to 0": (*OWN, FILL, "scores = scores * seen", ZEROS, ""),
        "hides each token from itself": (TRIL, "seen = seen.tril(S - T - 1)"),
    },
    "order": {
        "weights that do not sum to 1": (DROP, f"{DROP}.tril(S - T)"),
        "computes sines and cosines": (
            *before(SCORES, "q, k = turn(q), turn(k)"),
            *before("q, k =", f"{TURN}a * angle.cos(), a * angle.sin()], -1)"),
            *before(TURN, "angle = torch.arange(3).to(x)[:, None, None]"),
        ),
        "far tokens count more than near ones": before(
            ONES, f"scores = scores + 0.2 * ({OTHERS} - {PLACES}).abs()"
        ),
    },
    "deterministic": {
        "without gradients": ends("out = out * (1 if torch.is_grad_enabled() else 2)"),
        "changes its input": after(START, "x.clamp_(-1, 1)"),
        "changes its mask": (
            "seen & (mask",
            "seen & mask.logical_not_()[:, None] & (mask",
        ),
        "after a call with a mask": (
            *after(START, "self.old = mask if T == 6 and B == 7 else None"),
            *after(
                START, "mask = getattr(self, 'old', None) if mask is None else mask"
            ),
        ),
        "changes calls": (
            *after(LAST, "self.register_buffer('calls', torch.zeros(1))"),
            *after(START, "self.calls += 1"),
        ),
        "after a longer text": (
            *OWN,
            *before(FILL, "seen = seen | (self.most > S)"),
            *before("seen = seen |", "self.most = max(S, getattr(self, 'most', S))"),
        ),
        "after another mask": after(
            START, "if mask is not None: mask = vars(self).setdefault('m', mask)"
        ),
        "after a call with a cache": (
            *before("S = k.shape[2]", "q = q * (2 if self.cached else 1)"),
            *before(
                "q = q *", "self.cached = bool(cache or getattr(self, 'cached', 0))"
            ),
        ),
    },
    "batch": {
        "attends over the texts": (
            *(START, f"x = x.transpose(0, 1)\n        {START}"),
            *ends("out = out.transpose(0, 1)"),
        ),
        "changing text 3": ends("if B > 3: out[1:2] += x[3:4]"),
        "text 0 alone is nan apart": ends("out = out.squeeze(0)"),
    },
    "half precision": {
        "16 bits inside, for softmax": (
            "scores.softmax(dim=-1)",
            "scores.bfloat16().softmax(dim=-1).to(v.dtype)",
        ),
        "from bfloat16 comes float32": ends(
            "out = out.float() if x.dtype == torch.bfloat16 else out"
        ),
        "bfloat16 is": ends("out = out + 1000 - 1000"),
        "float16 with a mask: nan": (
            MASKED,
            "",
            FILL,
            f"{FILL}\n{ADDED} * torch.tensor(-1e9).to(x)",
        ),
        "bfloat16 at T = 600 is": (*ROPE, "double()", "to(x.dtype)"),
        "with a cache gives float32": (
            *("return k, v\n", "return k.float(), v.float()\n"),
            *before("scores = q @ k", "q = q.to(k.dtype)"),
            *(RETURN, "W = [w.to(out.dtype) for w in self.out_proj.parameters()]"),
            *after("self.out_proj.parameters()]", "return F.linear(out, *W)"),
        ),
    },
    "large scores": {"padding shows": (MASKED, "", FILL, f"{FILL}\n{ADDED} * -1e4")},
    "future": {
        "a fill too near 0": (
            *OWN,
            *(FILL, "scores = scores.masked_fill(~seen, -10.0)", ZEROS, ""),
        ),
        "10 of 15": (
            *NO_CAUSAL,
            *before("scores = scores.masked", "seen = seen.tril(S - T + 1)"),
        ),
        "in 40 tokens, output 30 does not depend on token 0": (
            *NO_CAUSAL,
            *before(
                "scores = scores.masked", f"seen = seen & ({PLACES} + 30 != {OTHERS})"
            ),
        ),
        "with later token": (
            *VARIANTS["embedded positions, no mask"],
            *before("scores = q @ k", "v = v + 0 * keep.sum()"),
            *before("v = v +", "keep = torch.ones(T, S).tril().to(x)"),
        ),
    },
    "padding": {
        "may see": (READ, f"({PLACES} != 1) & {READ}"),
        "with hidden token": (DROP, f"{DROP} + 0.01 * v.mean()"),
        "a mask of any pairs": (READ, "seen & mask[:, None, :1]"),
        "left padding": (*OWN, *before(SCORES, f"q = q * (1 + {OTHERS})")),
        "3 heads get masks of other texts": (
            READ,
            "seen & mask.expand(B, T, S).repeat(3, 1, 1).view(B, 3, T, S)",
        ),
        "left padding: output": (
            *after(LAST, "self.window = 9"),
            *(READ, f"{READ} & ({PLACES} < mask.sum(-1).amax())"),
        ),
    },
    "empty rows": {
        "its gradient is nan": (
            *(FILL, "scores = scores + torch.where(seen, 0, -torch.inf).to(scores)"),
            *("weights.masked_fill(~seen, 0.0)", "weights.nan_to_num(0.0)"),
        )
    },
    "gradients": {
        "no gradient comes back": ends("out = out.detach()"),
        "the gradient of the input is nan": ends("out = out + 0 * (x - x).sqrt()"),
        "a small step shows": ends("out = 2 * out - out.detach()"),
        "changes the output, and gets no gradient": before(SCORES, "k = k.detach()"),
        "q_proj.weight has no effect": ("scores = q @", "scores = 0 * q @"),
    },
    "compile": {
        "compiled, it is": ends(
            "out = out * (2 if torch.compiler.is_compiling() else 1)"
        )
    },
    "export": {
        "exported, it is": ends(
            "out = out * (2 if torch.compiler.is_exporting() else 1)"
        ),
        "refused for open sizes: ": after(START, "if T > 16: x = x * 2"),
    },
    "device": {"the output lies on cpu": ends("out = torch.zeros(x.shape)")},
    "training": {
        "drops 90%: is that what should be kept": (
            LAST,
            "self.drop = lambda w: F.dropout(w, 1 - dropout, self.training)",
        ),
        "the same in all texts of a batch": (
            DROP,
            "weights = weights * self.drop(torch.ones_like(weights[:1]))",
        ),
        "must be divided by 1 - p": (
            DROP,
            "weights = weights * (self.drop(torch.ones_like(weights)) > 0)",
        ),
        "with later token": ("if causal:", "if causal and not self.training:"),
        "padding changes outputs": (
            "if mask is not None:",
            "if mask is not None and not self.training:",
        ),
        "changing text 3": (
            *after(LAST, "self.norm = nn.BatchNorm1d(d_model)"),
            *("self.q_proj(x)", "self.q_proj(self.norm(x.mT).mT)"),
        ),
        "drops 90%": ("nn.Dropout(dropout)", "nn.Dropout(1 - dropout)"),
        "nothing is dropped": (DROP, "weights = weights * (2 if self.training else 1)"),
        "in training mode alone, no gradient reaches k_proj.bias": before(
            SCORES, "k = k.detach() if self.training else k"
        ),
    },
    "trainable": {
        "2 of 8 weights are frozen: k_proj.weight, k_proj.bias": after(
            LAST, "self.k_proj.requires_grad_(False)"
        )
    },
}
# What a check cannot judge.
UNKNOWN = {
    "two outputs": (
        "formula",
        "no names tell",
        *after(LAST, "self.o_proj = nn.Linear(1, 1)"),
    ),
    "no keys": (
        "formula",
        "no names tell",
        *(KEYS, QUERIES.replace("q_proj", "q"), "self.k_proj(x)", "self.q(x)"),
    ),
    "odd rows": (
        "formula",
        "no names tell",
        *after(LAST, "self.in_proj = nn.Linear(1, 15)"),
    ),
}
