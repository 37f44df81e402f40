# ruff: noqa: E501
"""A plain layer as text, and faults that people put in, as replacements in it.

Each fault stands with the check of ``examine`` that must name it.
"""

BASE = """
import math
import torch
from torch import nn
import torch.nn.functional as F

class Cache:
    def __init__(self):
        self.k = self.v = None
        self.length = 0
    def append(self, k, v):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v, self.length = k, v, k.shape[2]
        return k, v

class Mine(nn.Module):
    def __init__(self, d_model=12, num_heads=3, num_kv_heads=3, dropout=0.1):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)
        self.out_proj = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def new_cache(self, batch_size, max_len):
        return Cache()

    def forward(self, x, mask=None, *, causal=False, cache=None):
        B, T, M = x.shape
        q = self.q_proj(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        S = k.shape[2]
        groups = self.num_heads // self.num_kv_heads
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        seen = torch.ones(T, S, dtype=torch.bool, device=x.device)
        if causal:
            seen = seen.tril(S - T)
        if mask is not None:
            seen = seen & (mask[:, None] if mask.ndim == 3 else mask)
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        weights = weights.masked_fill(~seen, 0.0)
        weights = self.drop(weights)
        out = weights @ v
        out = out.transpose(1, 2).reshape(B, T, M)
        return self.out_proj(out)
"""

FAULTS = {
    "scale missing": ("formula", [(" / math.sqrt(self.head_dim)", "")]),
    "scale d_model": ("formula", [("math.sqrt(self.head_dim)", "math.sqrt(M)")]),
    "scale by D": ("formula", [("math.sqrt(self.head_dim)", "self.head_dim")]),
    "scale times": (
        "formula",
        [(" / math.sqrt(self.head_dim)", " * math.sqrt(self.head_dim)")],
    ),
    "scale 1.1": (
        "formula",
        [("math.sqrt(self.head_dim)", "1.1 / math.sqrt(self.head_dim) ** -1")],
    ),
    "softmax queries": ("formula", [("softmax(dim=-1)", "softmax(dim=-2)")]),
    "softmax heads": ("formula", [("softmax(dim=-1)", "softmax(dim=1)")]),
    "softmax batch": ("batch", [("softmax(dim=-1)", "softmax(dim=0)")]),
    "triu": ("future", [("seen.tril(S - T)", "seen.triu(S - T)")]),
    "diagonal 1": ("future", [("seen.tril(S - T)", "seen.tril(S - T + 1)")]),
    "diagonal -1": ("future", [("seen.tril(S - T)", "seen.tril(S - T - 1)")]),
    "top left": ("cache", [("seen.tril(S - T)", "seen.tril()")]),
    "causal ignored": (
        "future",
        [("        if causal:\n            seen = seen.tril(S - T)\n", "")],
    ),
    "causal or mask": ("padding", [("if mask is not None:", "elif mask is not None:")]),
    "mask arg inverted": (
        "padding",
        [
            (
                "(mask[:, None] if mask.ndim == 3 else mask)",
                "~(mask[:, None] if mask.ndim == 3 else mask)",
            )
        ],
    ),
    "mask after softmax": (
        "future",
        [
            (
                "        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)\n",
                "",
            )
        ],
    ),
    "mask rows": (
        "padding",
        [
            (
                "(mask[:, None] if mask.ndim == 3 else mask)",
                "(mask[:, None].transpose(-1, -2) if mask.ndim == 3 else mask)",
            )
        ],
    ),
    "mask first text": (
        "padding",
        [
            (
                "(mask[:, None] if mask.ndim == 3 else mask)",
                "(mask[:1, None] if mask.ndim == 3 else mask)",
            )
        ],
    ),
    "mask ignored": (
        "padding",
        [("seen = seen & (mask[:, None] if mask.ndim == 3 else mask)", "pass")],
    ),
    "mask times score": (
        "padding",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores * seen",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "small fill": (
        "padding",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores.masked_fill(~seen, -10.0)",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "-1e4 fill": (
        "large scores",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores.masked_fill(~seen, -1e4)",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "-1e9 fill": (
        "empty rows",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores.masked_fill(~seen, -1e9)",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "-inf nan": (
        "empty rows",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                'scores = scores.masked_fill(~seen, float("-inf"))',
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "merge no transpose": ("order", [("out.transpose(1, 2).reshape", "out.reshape")]),
    "split all no transpose": (
        "formula",
        [
            (
                ".view(B, T, self.num_heads, self.head_dim).transpose(1, 2)",
                ".view(B, self.num_heads, T, self.head_dim)",
            ),
            (
                ".view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)",
                ".view(B, self.num_kv_heads, T, self.head_dim)",
            ),
            ("out.transpose(1, 2).reshape", "out.reshape"),
        ],
    ),
    "split k odd": (
        "formula",
        [
            (
                "k = self.k_proj(x).view(B, T, self.num_kv_heads, self.head_dim)",
                "k = self.k_proj(x).view(B, T, self.head_dim, self.num_kv_heads).transpose(-1, -2)",
            )
        ],
    ),
    "dropout always": (
        "deterministic",
        [("weights = self.drop(weights)", "weights = F.dropout(weights, 0.1)")],
    ),
    "k from q": ("gradients", [("k = self.k_proj(x)", "k = self.q_proj(x)")]),
    "v from k": ("formula", [("v = self.v_proj(x)", "v = self.k_proj(x)")]),
    "swapped kv": (
        "formula",
        [
            ("out = weights @ v", "out = weights @ k"),
            ("scores = q @ k", "scores = q @ v"),
        ],
    ),
    "q not k": ("formula", [("scores = q @ k", "scores = k @ q")]),
    "no out": ("gradients", [("return self.out_proj(out)", "return out")]),
    "no bias": (
        "formula",
        [("return self.out_proj(out)", "return F.linear(out, self.out_proj.weight)")],
    ),
    "detach": (
        "gradients",
        [("weights = self.drop(weights)", "weights = self.drop(weights.detach())")],
    ),
    "detach k": ("gradients", [("scores = q @ k", "scores = q @ k.detach()")]),
    "cache kv swapped": ("cache", [("return k, v\n", "return v, k\n")]),
    "cache order": (
        "cache",
        [
            ("torch.cat([self.k, k], dim=2)", "torch.cat([k, self.k], dim=2)"),
            ("torch.cat([self.v, v], dim=2)", "torch.cat([v, self.v], dim=2)"),
        ],
    ),
    "cache shared": (
        "cache",
        [
            (
                "        self.drop = nn.Dropout(dropout)",
                "        self.drop = nn.Dropout(dropout)\n        self.cache = Cache()",
            ),
            ("return Cache()", "return self.cache"),
        ],
    ),
    "cache last only": (
        "cache",
        [
            (
                "v = torch.cat([self.v, v], dim=2)",
                "v = torch.cat([self.v[:, :, -1:].expand(-1, -1, self.v.shape[2], -1), v], dim=2)",
            )
        ],
    ),
    "batch first": ("batch", [("scores = q @ k.", "scores = q @ k[:1].")]),
    "float32 out": (
        "shape",
        [("return self.out_proj(out)", "return self.out_proj(out).float()")],
    ),
    "device": (
        "device",
        [("dtype=torch.bool, device=x.device", "dtype=torch.bool, device='cpu'")],
    ),
    "item": (
        "compile",
        [
            (
                "        if cache is not None:",
                "        if x.abs().max().item() > 1e6: x = x / 2\n        if cache is not None:",
            )
        ],
    ),
    "T frozen": (
        "export",
        [
            (
                "        self.drop = nn.Dropout(dropout)",
                "        self.drop = nn.Dropout(dropout)\n        self.register_buffer('tri', torch.ones(16, 16, dtype=torch.bool).tril())",
            ),
            (
                "seen = seen.tril(S - T)",
                "seen = seen & self.tri[S - T:S, :S] if S <= 16 else seen",
            ),
        ],
    ),
    "squeeze": ("shape", [("out = weights @ v", "out = (weights @ v).squeeze()")]),
    "inplace": (
        "deterministic",
        [
            (
                "        B, T, M = x.shape",
                "        x.mul_(0.5)\n        B, T, M = x.shape",
            )
        ],
    ),
    "state": (
        "deterministic",
        [
            (
                "        B, T, M = x.shape",
                "        self.n = getattr(self, 'n', 0) + 1\n        x = x * (1 + 0.01 * self.n)\n        B, T, M = x.shape",
            )
        ],
    ),
    "list": (
        "gradients",
        [
            (
                "self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)",
                "self.vs = [nn.Linear(d_model, num_kv_heads * self.head_dim)]\n        self.v_proj = self.vs[0].__call__ if False else (lambda x: self.vs[0](x))",
            )
        ],
    ),
    "seed in init": (
        "parameters",
        [
            (
                "        self.q_proj = nn.Linear",
                "        torch.manual_seed(0)\n        self.q_proj = nn.Linear",
            ),
            (
                "        self.k_proj = nn.Linear",
                "        torch.manual_seed(0)\n        self.k_proj = nn.Linear",
            ),
        ],
    ),
    "unused": (
        "gradients",
        [
            (
                "        self.drop = nn.Dropout(dropout)",
                "        self.drop = nn.Dropout(dropout)\n        self.extra = nn.Linear(d_model, d_model)",
            )
        ],
    ),
    "exp unsafe": (
        "large scores",
        [
            (
                "weights = scores.softmax(dim=-1)",
                "e = scores.exp()\n        weights = e / e.sum(-1, keepdim=True)",
            )
        ],
    ),
    "one head dead": (
        "gradients",
        [
            (
                "out = weights @ v",
                "out = weights @ v\n        out = torch.cat([out[:, :1] * 0, out[:, 1:]], 1)",
            )
        ],
    ),
    "heads averaged": (
        "formula",
        [
            (
                "out = weights @ v",
                "out = (weights @ v).mean(1, keepdim=True).expand(-1, self.num_heads, -1, -1)",
            )
        ],
    ),
    "out twice": (
        "flops",
        [("return self.out_proj(out)", "return self.out_proj(self.out_proj(out))")],
    ),
    "clamp": (
        "formula",
        [
            (
                "scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)",
                "scores = (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)).clamp(-1, 1)",
            )
        ],
    ),
    "eps": (
        "formula",
        [
            (
                "weights = self.drop(weights)",
                "weights = weights / (weights.sum(-1, keepdim=True) + 0.1)",
            )
        ],
    ),
    "last leaks": (
        "future",
        [("out = weights @ v", "out = weights @ v + 0.001 * v[:, :, -1:]")],
    ),
    "quadratic waste": (
        "flops",
        [("q = self.q_proj(x)", "q = (self.q_proj(x) + 0 * self.k_proj(x).sum())")],
    ),
}
# With 6 query heads and 2 heads of keys.
GROUPED = {
    "tile": (
        "formula",
        [
            ("k.repeat_interleave(groups, dim=1)", "k.repeat(1, groups, 1, 1)"),
            ("v.repeat_interleave(groups, dim=1)", "v.repeat(1, groups, 1, 1)"),
        ],
    ),
    "tile v": (
        "formula",
        [("v.repeat_interleave(groups, dim=1)", "v.repeat(1, groups, 1, 1)")],
    ),
    "first kv": (
        "formula",
        [
            (
                "k.repeat_interleave(groups, dim=1)",
                "k[:, :1].repeat_interleave(self.num_heads, dim=1)",
            )
        ],
    ),
}
