"""Faults in ``plain_layer.BASE``: the check that fails, what it must say, pieces."""

from tests.samples.plain_layer import (
    APPEND,
    CAUSAL,
    DROP,
    FILL,
    KEYS,
    LAST,
    LINEAR,
    MASK,
    MASKED,
    ONES,
    OUT,
    OWN,
    PRODUCT,
    QUERIES,
    RETURN,
    SCORES,
    SOFTMAX,
    START,
    TRIL,
    VALUES,
    after,
    before,
    ends,
    hides,
    masks_if,
)
from tests.samples.right_layers import NO_CAUSAL, ROPE, VARIANTS

ROOT = "math.sqrt(self.head_dim)"
SPLIT = ".view(B, T, self.num_heads, self.head_dim).transpose(1, 2)"
SPLIT_KEYS = ".view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)"
MERGE = "out.transpose(1, 2).reshape"
K_SPLIT = "k = self.k_proj(x).view(B, T, self.num_kv_heads, self.head_dim)"
GROUPS = "num_heads=3, num_kv_heads=3", "num_heads=6, num_kv_heads=2"
K_GROUPS, V_GROUPS = (f"{name}.repeat_interleave(groups, dim=1)" for name in "kv")
READ = f"seen & {MASK}"
ADDED = f"{MASKED.partition('seen')[0]}scores = scores + (1 - {MASK}.to(x.dtype))"
PLACES = "torch.arange(S, device=x.device)"
OTHERS = "torch.arange(T, device=x.device)[:, None]"
TURN = "turn = lambda a: torch.cat(["
PAIRS = ".unflatten(-1, (2, 2)).mT.flatten(-2)"
FAR = "seen = seen & (torch.arange(S, device=x.device) < 32)"
FAULTS = {
    "shape": {
        "from torch.float64 comes torch.float32": (RETURN, f"{RETURN}.float()"),
        "raised IndexError": (OUT, "out = (weights @ v).squeeze()"),
        "where a token is all zeros": after(
            START, "x = x / x.norm(dim=-1, keepdim=True)"
        ),
        "raised AssertionError: in forward": after(START, "assert T != 6"),
        "comes (7, 12, 6)": ends("out = out.mT"),
        "nan or infinity at (1, 1, 12)": ends("out = out / (T > 1)"),
        "not contiguous": after(START, "x = x.as_strided((B, T, M), (T * M, M, 1))"),
    },
    "deterministic": {
        "it drops 10% in evaluation mode": (DROP, "weights = F.dropout(weights, 0.1)"),
        "a second call differs by 0.02": (
            *before(START, "self.n = getattr(self, 'n', 0) + 1"),
            *after(START, "x = x * (1 + 0.01 * self.n)"),
        ),
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
        "add(x, 1)": before(START, "x += 1"),
    },
    "future": {
        "output 2 changes by 5.07": (TRIL, "seen = seen.triu(S - T)"),
        "output 0 does not depend on token 0": (TRIL, "seen = seen.tril(S - T - 1)"),
        "output 2 changes by 4.62": (CAUSAL, ""),
        "output 2 changes by 3.00": (FILL, "pass"),
        "the last one alone shows, in all outputs": (
            OUT,
            f"{OUT} + 0.001 * v[:, :, -1:]",
        ),
        "a fill too near 0": (
            *OWN,
            *hides("scores.masked_fill(~seen, -10.0)"),
        ),
        "10 of 15": (
            *NO_CAUSAL,
            *before("scores = scores.masked", "seen = seen.tril(S - T + 1)"),
        ),
        "in 40 tokens, output 30 does not depend on earlier token 0": (
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
        "it takes the mean over tokens: mean(x, 1, keepdim=True)": (
            "self.q_proj(x)",
            "self.q_proj(x - x.mean(1, keepdim=True))",
        ),
        "472 outputs, from 128 to 599, do not depend on earlier token 100": before(
            SOFTMAX, "scores[:, :, 128:, 90:110] = -1e30"
        ),
        # The last of a block of 512 is lost to those behind it.
        "from 512 to 599, do not depend on earlier token 511": before(
            SOFTMAX, "scores[:, :, 512:, 511:512] = -1e30"
        ),
        "600 outputs, from 0 to 599, do not depend": ends("out = out - out.mean(0)"),
        "sees the next token, too": ("tril(S - T)", "tril(S - T + 1)"),
    },
    "padding": {
        "right padding, told causal: the mask is ignored": (
            "if mask is not None:",
            "elif mask is not None:",
        ),
        "the other way round": (MASK, f"~{MASK}"),
        "by (key, query)": ("mask[:, None] if", "mask[:, None].mT if"),
        "the mask of the first text": ("mask[:, None] if", "mask[:1, None] if"),
        "right padding: the mask is ignored": (MASKED, ""),
        "changes by 0.91 with hidden token 4": hides("scores * seen"),
        "below 0.01 with hidden token 4": hides("scores.masked_fill(~seen, -10.0)"),
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
    "batch": {
        "the softmax runs over axis 0, neither": ("softmax(dim=-1)", "softmax(dim=0)"),
        "text 2 alone is": ("scores = q @ k.", "scores = q @ k[:1]."),
        "attends over the texts": (
            *(START, f"x = x.transpose(0, 1)\n        {START}"),
            *ends("out = out.transpose(0, 1)"),
        ),
        "changing text 3": ends("if B > 3: out[1:2] += x[3:4]"),
        "text 0 alone is nan apart": ends("out = out.squeeze(0)"),
    },
    "order": {
        "or rows mixed up": (MERGE, "out.reshape"),
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
    "offset": {
        "values carry positions": (
            *ROPE,
            *("        if cache", "        v = turn(v)\n        if cache"),
        ),
        "not distances alone": (*ROPE, "q @ k.trans", "(q + T) @ k.trans"),
    },
    "empty rows": {
        "changes by 1.07 with hidden keys": hides("scores.masked_fill(~seen, -1e9)"),
        "that sees nothing is nan": hides("scores.masked_fill(~seen, -torch.inf)"),
        "its gradient is nan": (
            *(FILL, "scores = scores + torch.where(seen, 0, -torch.inf).to(scores)"),
            *("weights.masked_fill(~seen, 0.0)", "weights.nan_to_num(0.0)"),
        ),
    },
    "large scores": {
        "300 times as large: the future": hides("scores.masked_fill(~seen, -1e4)"),
        "30 times as large: nan": (
            SOFTMAX,
            "e = scores.exp()\n        weights = e / e.sum(-1, keepdim=True)",
        ),
        "padding shows": (MASKED, "", FILL, f"{FILL}\n{ADDED} * -1e4"),
        "is a maximum taken of the whole batch": (
            *(SOFTMAX, "weights = (scores - scores.max()).exp()"),
            *after(".exp()", "weights = weights / weights.sum(-1, True)"),
        ),
        "no larger than 1, though it names a cap of 9": (
            *before("self.drop = nn", "self.softcap = 9"),
            *before("scores = scores.masked", "scores = scores.tanh()"),
        ),
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
    "gradients": {
        "k_proj.weight has no effect": ("k = self.k_proj(x)", "k = self.q_proj(x)"),
        "out_proj.weight has no effect": (RETURN, "return out"),
        "q_proj.weight changes the output": (
            DROP,
            "weights = self.drop(weights.detach())",
        ),
        "it trains a tensor of (12, 12)": (
            VALUES,
            f"self.vs = [{LINEAR}]\n        self.v_proj = lambda x: self.vs[0](x)",
        ),
        "extra.weight has no effect": after(
            LAST, "self.extra = nn.Linear(d_model, d_model)"
        ),
        "4 of 12 rows of q_proj.weight have no effect": after(
            OUT, "out = torch.cat([out[:, :1] * 0, out[:, 1:]], 1)"
        ),
        "no gradient comes back": ends("out = out.detach()"),
        "the gradient of the input is nan": ends("out = out + 0 * (x - x).sqrt()"),
        "a small step shows": ends("out = 2 * out - out.detach()"),
        "changes the output, and gets no gradient": before(SCORES, "k = k.detach()"),
        "q_proj.weight has no effect": ("scores = q @", "scores = 0 * q @"),
    },
    "trainable": {
        "2 of 8 weights are frozen: k_proj.weight, k_proj.bias": after(
            LAST, "self.k_proj.requires_grad_(False)"
        ),
    },
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
        "padding changes outputs": masks_if("not self.training"),
        "changing text 3": (
            *after(LAST, "self.norm = nn.BatchNorm1d(d_model)"),
            *("self.q_proj(x)", "self.q_proj(self.norm(x.mT).mT)"),
        ),
        "drops 90%": ("nn.Dropout(dropout)", "nn.Dropout(1 - dropout)"),
        "nothing is dropped": (DROP, "weights = weights * (2 if self.training else 1)"),
        "in training mode alone, no gradient reaches k_proj.bias": before(
            SCORES, "k = k.detach() if self.training else k"
        ),
        "scores are dropped, not weights: dropout(17×3×13×13, p=0.1": before(
            SOFTMAX, "scores = self.drop(scores)"
        ),
    },
    "cache": {
        "a triangle from the top left": (TRIL, "seen = seen.tril()"),
        "with a cache, in one piece": ("return k, v\n", "return v, k\n"),
        "in pieces of 2, 1, 3": (
            *("[self.k, k]", "[k, self.k]"),
            *("[self.v, v]", "[v, self.v]"),
        ),
        "one by one": ("[self.v,", "[self.v[:, :, -1:].expand_as(self.v),"),
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
        "beside a cache the mask is ignored": masks_if("cache is None"),
        "40 tokens, in pieces of 31, 7, 1, 1": before(
            "if causal:", "if S > T > 5: seen[:, :9] = 0"
        ),
        "positions begin at 0 again": (*ROPE, "else cache.length\n", "else 0\n"),
    },
    "formula": {
        "the scores are not scaled": (f" / {ROOT}", ""),
        "divided by √d_model": (ROOT, "math.sqrt(M)"),
        "divided by D, not √D": (ROOT, "self.head_dim"),
        "multiplied by √D": (f" / {ROOT}", f" * {ROOT}"),
        "0.30 apart from softmax": (ROOT, f"1.1 / {ROOT} ** -1"),
        "the softmax runs over the queries": ("softmax(dim=-1)", "softmax(dim=-2)"),
        "the softmax runs over the heads": ("softmax(dim=-1)", "softmax(dim=1)"),
        "heads are cut and merged by a reshape": (
            *(SPLIT, ".view(B, self.num_heads, T, self.head_dim)"),
            *(SPLIT_KEYS, ".view(B, self.num_kv_heads, T, self.head_dim)"),
            *(MERGE, "out.reshape"),
        ),
        "0.52 apart from softmax": (
            K_SPLIT,
            "k = self.k_proj(x).view(B, T, self.head_dim, self.num_kv_heads).mT",
        ),
        "keys serve as values, too": ("v = self.v_proj(x)", "v = self.k_proj(x)"),
        "keys and values are swapped": (OUT, "out = weights @ k", "= q @ k", "= q @ v"),
        "queries and keys are swapped": ("scores = q @ k", "scores = k @ q"),
        "the bias of the output is not used": (
            RETURN,
            "return F.linear(out, self.out_proj.weight)",
        ),
        "0.78 apart from softmax": (
            OUT,
            "out = (weights @ v).mean(1, True).expand_as(q)",
        ),
        "0.22 apart from softmax": after(PRODUCT, "scores = scores.clamp(-1, 1)"),
        "share keys in turn, not as neighbours": (
            *GROUPS,
            *(K_GROUPS, "k.repeat(1, groups, 1, 1)"),
            *(V_GROUPS, "v.repeat(1, groups, 1, 1)"),
        ),
        "share values in turn, and keys as neighbours": (
            *GROUPS,
            V_GROUPS,
            "v.repeat(1, groups, 1, 1)",
        ),
        "0.27 apart from softmax": (
            *GROUPS,
            K_GROUPS,
            "k[:, :1].repeat_interleave(6, dim=1)",
        ),
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
        "sets scores to 0": (
            *OWN,
            *hides("scores * seen"),
        ),
        "hides each token from itself": (TRIL, "seen = seen.tril(S - T - 1)"),
    },
    "parameters": {
        "q_proj.weight starts with the same numbers as k_proj.weight": (
            *before("self.q_proj = nn", "torch.manual_seed(0)"),
            *before("self.k_proj = nn", "torch.manual_seed(0)"),
        ),
        "k_proj.weight is q_proj.weight": after(LAST, "self.k_proj = self.q_proj"),
    },
    "flops": {
        "1,440·T + 48·T²": (RETURN, "return self.out_proj(self.out_proj(out))"),
        "the formula says 1,152·T + 48·T²": (
            "q_proj(x)",
            "q_proj(x + 0 * self.k_proj(x).sum())",
        ),
    },
    "device": {
        "is not on the expected device cpu": (
            "torch.bool, device=x.device",
            "torch.bool, device='cpu'",
        ),
        "the output lies on cpu": ends("out = torch.zeros(x.shape)"),
    },
    "compile": {
        "raised UserError": after(START, "if x.abs().max().item() > 1e6: x = x / 2"),
        "compiled, it is": ends(
            "out = out * (2 if torch.compiler.is_compiling() else 1)"
        ),
    },
    "export": {
        "UserError: Constraints violated": (
            *after(LAST, "self.register_buffer('tri', torch.ones(16, 16).tril() > 0)"),
            *(TRIL, "seen = seen & self.tri[S - T:S, :S] if S <= 16 else seen"),
        ),
        "exported, it is": ends(
            "out = out * (2 if torch.compiler.is_exporting() else 1)"
        ),
        "refused for open sizes: ": after(START, "if T > 16: x = x * 2"),
    },
}
# Of a layer that always hides the future.
OWN_MASKS = {
    "future": {
        "later token 1; 10 of 15": ("(S - T)", "(S - T + 1)"),
        "output 0 does not depend on token 0": ("(S - T)", "(S - T - 1)"),
        "True everywhere, output": ("seen & (mask", "(mask"),
        "only the last 8 count": after(TRIL, "seen = seen.triu(S - T - 7)"),
        "do not depend on earlier token 32": after(TRIL, FAR),
        "in 40 tokens, output": (TRIL, f"{TRIL} if S < 20 else seen"),
    },
    "padding": {
        "takes the place of the causal one": ("seen & (mask", "(mask"),
        "the mask is ignored": (
            "if mask is not None:",
            "if mask is None:",
            MASK,
            "seen",
        ),
        "the other way round": (MASK, "~mask[:, None]"),
        "mask of the first text": ("mask[:, None]", "mask[:1, None]"),
        "by (key, query)": ("mask[:, None] if", "mask[:, None].mT if"),
    },
    "cache": {
        "with later token": after(
            TRIL, "seen = seen if cache is None else seen | True"
        ),
        "does not depend on token 1": ("tril(S - T)", "tril()"),
    },
}
# Where no names tell queries, keys, values and output apart.
UNNAMED = {
    "two outputs": after(LAST, "self.o_proj = nn.Linear(1, 1)"),
    "no keys": (
        *(KEYS, QUERIES.replace("q_proj", "q"), "self.k_proj(x)", "self.q(x)"),
    ),
    "odd rows": after(LAST, "self.in_proj = nn.Linear(1, 15)"),
}
