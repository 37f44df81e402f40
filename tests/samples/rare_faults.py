# ruff: noqa: E501
"""Faults that few checks see, in ``faulty_layers.BASE``: check, its words, pieces."""

from tests.samples.faulty_masks import OWN
from tests.samples.right_layers import (
    LAST,
    MASK,
    NO_CAUSAL,
    SCORES,
    START,
    TURN,
    VARIANTS,
)

CACHED = "        if cache is not None:\n"
RETURN = "return self.out_proj(out)"
MASKED = "        if mask is not None:\n            seen = seen & " + MASK
FILL = "        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)\n"
SOFT = "        weights = scores.softmax(dim=-1)\n        weights = weights.masked_fill(~seen, 0.0)\n"
ADDED = "        if mask is not None:\n            scores = scores + (1 - (mask[:, None] if mask.ndim == 3 else mask).to(x.dtype)) * {fill}\n"
PRODUCTS = "weights.masked_fill(~seen, 0.0)"


def ends(words):
    """The output as ``out``, changed."""
    return [(RETURN, f"out = self.out_proj(out)\n        {words}\n        return out")]


def starts(words):
    return [(START, f"{START}\n        {words}")]


WAVE = "q, k = turn(q).to"
APPEND = "self.k, self.v, self.length = k, v, k.shape[2]"
RARE = {
    "zeros": (
        "shape",
        "where a token is all zeros",
        starts("x = x / x.norm(dim=-1, keepdim=True)"),
    ),
    "one weight twice": (
        "parameters",
        "k_proj.weight is q_proj.weight",
        [(LAST, LAST + "\n        self.k_proj = self.q_proj")],
    ),
    "two caches": (
        "cache",
        "do two caches share memory",
        [
            ("if self.k is not None", "if self.length"),
            ("torch.cat([self.k, k]", "torch.cat([Cache.k, k]"),
            ("torch.cat([self.v, v]", "torch.cat([Cache.v, v]"),
            (APPEND, APPEND.replace("self.k, self.v", "Cache.k, Cache.v")),
        ],
    ),
    "no room": (
        "cache",
        "more tokens than it has room for",
        [
            ("return Cache()", "self.room = max_len\n        return Cache()"),
            (
                "k, v = cache.append(k, v)",
                "k, v = cache.append(k, v)\n            cache.k, cache.v = k, v = k[:, :, -self.room:], v[:, :, -self.room:]",
            ),
        ],
    ),
    "16 bits kept": (
        "cache",
        "it keeps 16 bits",
        [(APPEND, APPEND + "\n        self.k = k.half().to(k.dtype)")],
    ),
    "low scores": (
        "formula",
        "of large scores",
        [
            (
                "        weights = scores.softmax(dim=-1)\n",
                "        weights = (scores - scores.amax(-1, keepdim=True).clamp(min=0)).exp()\n        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)\n",
            )
        ],
    ),
    "sums": (
        "order",
        "weights that do not sum to 1",
        [("weights = self.drop(weights)", "weights = self.drop(weights).tril(S - T)")],
    ),
    "no words": (
        "shape",
        "raised AssertionError: in forward",
        starts("assert T != 6"),
    ),
    "turned": ("shape", "comes (7, 12, 6)", ends("out = out.mT")),
    "nan": ("shape", "nan or infinity at (1, 1, 12)", ends("out = out / (T > 1)")),
    "no gradients": (
        "deterministic",
        "without gradients",
        ends("out = out * (1 if torch.is_grad_enabled() else 2)"),
    ),
    "its input": (
        "deterministic",
        "changes its input",
        starts("x.clamp_(-1, 1)"),
    ),
    "its mask": (
        "deterministic",
        "changes its mask",
        [("seen = seen & (mask", "seen = seen & mask.logical_not_()[:, None] & (mask")],
    ),
    "old mask": (
        "deterministic",
        "after a call with a mask",
        starts(
            "mask = getattr(self, 'old', None) if mask is None else mask\n        self.old = mask if T == 6 and B == 7 else None"
        ),
    ),
    "counts": (
        "deterministic",
        "changes calls",
        [
            (LAST, LAST + "\n        self.register_buffer('calls', torch.zeros(1))"),
            *starts("self.calls += 1"),
        ],
    ),
    "time first": (
        "batch",
        "attends over the texts",
        [
            *starts("x = x.transpose(0, 1)\n        B, T, M = x.shape"),
            *ends("out = out.transpose(0, 1)"),
        ],
    ),
    "text 3": (
        "batch",
        "changing text 3",
        ends(
            "out = torch.cat([out[:1], out[1:2] + x[3:4], out[2:]]) if B > 3 else out"
        ),
    ),
    "squeezed": ("batch", "text 0 alone is nan apart", ends("out = out.squeeze(0)")),
    "turned by head": (
        "order",
        "computes sines and cosines",
        [
            (
                SCORES,
                "        angle = torch.arange(3, device=x.device, dtype=x.dtype)[:, None, None]\n        q, k = (torch.cat([t[..., :2] * angle.cos() - t[..., 2:] * angle.sin(), t[..., 2:] * angle.cos() + t[..., :2] * angle.sin()], -1) for t in (q, k))\n"
                + SCORES,
            )
        ],
    ),
    "16 bits": (
        "half precision",
        "16 bits inside, for softmax",
        [("scores.softmax(dim=-1)", "scores.bfloat16().softmax(dim=-1).to(v.dtype)")],
    ),
    "wider": (
        "half precision",
        "from bfloat16 comes float32",
        ends("out = out.float() if x.dtype == torch.bfloat16 else out"),
    ),
    "rounded": ("half precision", "bfloat16 is", ends("out = out + 1000 - 1000")),
    "nan in halves": (
        "half precision",
        "float16 with a mask: nan",
        [
            (MASKED, "        pass"),
            (FILL, FILL + ADDED.format(fill="torch.tensor(-1e9).to(x.dtype)")),
        ],
    ),
    "low padding": (
        "large scores",
        "padding shows",
        [(MASKED, "        pass"), (FILL, FILL + ADDED.format(fill="-1e4"))],
    ),
    "short fill": (
        "future",
        "a fill too near 0",
        [
            *OWN,
            (FILL, "        scores = scores.masked_fill(~seen, -10.0)\n"),
            (SOFT, "        weights = scores.softmax(dim=-1)\n"),
        ],
    ),
    "half a mask": (
        "padding",
        "may see",
        [
            (
                "seen = seen & (mask",
                "seen = seen & (torch.arange(S, device=x.device) != 1) & (mask",
            )
        ],
    ),
    "a little of padding": (
        "padding",
        "with hidden token",
        [
            (
                "weights = self.drop(weights)",
                "weights = self.drop(weights) + 0.01 * v.mean()",
            )
        ],
    ),
    "pairs": (
        "padding",
        "a mask of any pairs",
        [
            (
                "seen = seen & (mask[:, None] if mask.ndim == 3 else mask)",
                "seen = seen & mask[:, None, :1]",
            )
        ],
    ),
    "from the right": (
        "padding",
        "left padding",
        [
            *OWN,
            (
                SCORES,
                "        q = q * (1 + torch.arange(T, device=x.device)[:, None])\n"
                + SCORES,
            ),
        ],
    ),
    "nan behind": (
        "empty rows",
        "its gradient is nan",
        [
            (
                FILL,
                "        scores = scores + torch.zeros_like(scores).masked_fill(~seen, -torch.inf)\n",
            ),
            (PRODUCTS, "weights.nan_to_num(0.0)"),
        ],
    ),
    "no way back": ("gradients", "no gradient comes back", ends("out = out.detach()")),
    "nan back": (
        "gradients",
        "the gradient of the input is nan",
        ends("out = out + 0 * (x - x).sqrt()"),
    ),
    "another slope": (
        "gradients",
        "a small step shows",
        ends("out = 2 * out - out.detach()"),
    ),
    "no gradient": (
        "gradients",
        "changes the output, and gets no gradient",
        [(SCORES, "        k = k.detach()\n" + SCORES)],
    ),
    "no effect": (
        "gradients",
        "q_proj.weight has no effect",
        [("scores = q @", "scores = 0 * q @")],
    ),
    "compiled": (
        "compile",
        "compiled, it is",
        ends("out = out * (2 if torch.compiler.is_compiling() else 1)"),
    ),
    "exported": (
        "export",
        "exported, it is",
        ends("out = out * (2 if torch.compiler.is_exporting() else 1)"),
    ),
    "refused": (
        "export",
        "refused for open sizes: ",
        starts("if T > 16: x = x * 2"),
    ),
    "elsewhere": (
        "device",
        "the output lies on cpu",
        ends("out = torch.zeros(x.shape)"),
    ),
    "half a triangle": (
        "future",
        "10 of 15",
        [
            *NO_CAUSAL,
            (
                "seen = torch.ones(T, S, dtype=torch.bool, device=x.device)",
                "seen = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T + 1)",
            ),
        ],
    ),
    "a hole": (
        "future",
        "in 40 tokens, output 30 does not depend on token 0",
        [
            *NO_CAUSAL,
            (
                MASKED,
                MASKED
                + "\n        seen = seen & (torch.arange(S, device=x.device) + 30 != torch.arange(T, device=x.device)[:, None])",
            ),
        ],
    ),
    "turns queries": (
        "formula",
        "RoPE turns the queries, and not the keys",
        [(CACHED, TURN.replace("turn(k)", "k"))],
    ),
    "turns values": (
        "formula",
        "RoPE turns the values, too",
        [
            *OWN,
            (
                CACHED,
                TURN.replace(
                    "        if cache", "        v = turn(v)\n        if cache"
                ),
            ),
        ],
    ),
    "RoPE mirrored": (
        "formula",
        "RoPE does not rotate",
        [
            (
                CACHED,
                TURN.replace(
                    "+ a[..., :2] * angles.sin()", "- a[..., :2] * angles.sin()"
                ),
            )
        ],
    ),
    "RoPE of half exponents": (
        "formula",
        "half as large: i/D",
        [
            (
                CACHED,
                TURN.replace(
                    "0, 4, 2, device=x.device) / 4", "0, 2, device=x.device) / 4"
                ),
            )
        ],
    ),
    "RoPE of other pairs": (
        "formula",
        "pairs the features of keys otherwise",
        [
            *OWN,
            (
                CACHED,
                TURN.replace(
                    WAVE,
                    "k = k.unflatten(-1, (2, 2)).mT.flatten(-2)\n        q, k = turn(q), turn(k).unflatten(-1, (2, 2)).mT.flatten(-2)\n        q, k = q.to",
                ).replace("turn(k).to(x.dtype)", "k.to(x.dtype)"),
            ),
        ],
    ),
    "positions of 16 bits": (
        "half precision",
        "bfloat16 at T = 600 is",
        [(CACHED, TURN.replace("double()", "to(x.dtype)"))],
    ),
    "longest mask": (
        "deterministic",
        "after a longer text",
        [
            *OWN,
            (
                FILL,
                "        self.most = max(S, getattr(self, 'most', S))\n        seen = seen | (self.most > S)\n"
                + FILL,
            ),
        ],
    ),
    "the first mask stays": (
        "deterministic",
        "after another mask",
        starts(
            "mask = self.__dict__.setdefault('first', mask) if mask is not None else None"
        ),
    ),
    "one piece of memory": (
        "shape",
        "not contiguous",
        starts("x = x.as_strided((B, T, M), (T * M, M, 1))"),
    ),
    "a cache of its own type": (
        "half precision",
        "with a cache gives float32",
        [
            ("return k, v\n", "return k.float(), v.float()\n"),
            ("scores = q @ k", "q = q.to(k.dtype)\n        scores = q @ k"),
            (
                "return self.out_proj(out)",
                "return F.linear(out, self.out_proj.weight.to(out.dtype), self.out_proj.bias.to(out.dtype))",
            ),
            ("scores.masked_fill", "scores.masked_fill"),
        ],
    ),
    "kept from a cache": (
        "deterministic",
        "after a call with a cache",
        [
            (
                CACHED,
                "        self.cached = getattr(self, 'cached', False) or cache is not None\n        q = q * (2 if self.cached else 1)\n"
                + CACHED,
            ),
        ],
    ),
    "masks of other texts": (
        "padding",
        "3 heads get masks of other texts",
        [
            (
                MASKED,
                "        if mask is not None:\n            mask = mask.expand(B, T, S)\n            seen = seen & mask.repeat(3, 1, 1).view(B, 3, T, S)",
            )
        ],
    ),
    "near the padding": (
        "padding",
        "left padding: output",
        [
            (LAST, LAST + "\n        self.window = 9"),
            (
                MASKED,
                MASKED
                + "\n            seen = seen & (torch.arange(S, device=x.device) < mask.sum(-1).amax())",
            ),
        ],
    ),
    "far tokens": (
        "order",
        "far tokens count more than near ones",
        [
            (
                "        seen = torch.ones",
                "        scores = scores + 0.2 * (torch.arange(T, device=x.device)[:, None] - torch.arange(S, device=x.device)).abs()\n        seen = torch.ones",
            )
        ],
    ),
    "kept, not dropped": (
        "training",
        "drops 90%: is that what should be kept",
        [
            (
                LAST,
                "        self.drop = lambda w: F.dropout(w, 1 - dropout, self.training)",
            ),
        ],
    ),
    "one draw for all texts": (
        "training",
        "the same in all texts of a batch",
        [
            (
                "weights = self.drop(weights)",
                "weights = weights * self.drop(torch.ones_like(weights[:1]))",
            )
        ],
    ),
    "a triangle": (
        "future",
        "with later token",
        [
            *VARIANTS["embedded positions, no mask"],
            (
                "        scores = q @ k",
                "        keep = torch.ones(T, S, device=x.device).tril().to(x.dtype)\n        v = v + 0 * keep.sum()\n        scores = q @ k",
            ),
        ],
    ),
    "mask after": ("formula", "the mask comes after the softmax", [*OWN, (FILL, "")]),
    "mask to 0": (
        "formula",
        "sets scores to 0",
        [
            *OWN,
            (FILL, "        scores = scores * seen\n"),
            (SOFT, "        weights = scores.softmax(dim=-1)\n"),
        ],
    ),
    "behind": (
        "formula",
        "hides each token from itself",
        [("seen.tril(S - T)", "seen.tril(S - T - 1)")],
    ),
}
# What a check cannot judge.
UNKNOWN = {
    "two outputs": (
        "formula",
        "no names tell",
        [(LAST, LAST + "\n        self.o_proj = nn.Linear(1, 1)")],
    ),
    "no keys": (
        "formula",
        "no names tell",
        [
            (
                "self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)",
                "self.q = nn.Linear(d_model, d_model)",
            ),
            ("self.k_proj(x)", "self.q(x)"),
        ],
    ),
    "odd rows": (
        "formula",
        "no names tell",
        [(LAST, LAST + "\n        self.in_proj = nn.Linear(1, 15)")],
    ),
}
