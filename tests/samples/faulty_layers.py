# ruff: noqa: E501
"""A plain layer as text, and faults that people put in, as replacements in it.

Each fault stands with the check of ``examine`` that must name it. Those of masks, and
those of what lasts longer than a call, have files of their own.
"""

from tests.tensors import global_seed

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


def made(pieces, code=BASE, **options):
    """The layer of this text, with these pieces replaced."""
    for old, new in pieces:
        assert old in code
        code = code.replace(old, new)
    names = {}
    exec(code, names)
    with global_seed(0):
        return names["Mine"](**options)


FORMULAS = {
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
    "v from k": ("formula", [("v = self.v_proj(x)", "v = self.k_proj(x)")]),
    "swapped kv": (
        "formula",
        [
            ("out = weights @ v", "out = weights @ k"),
            ("scores = q @ k", "scores = q @ v"),
        ],
    ),
    "q not k": ("formula", [("scores = q @ k", "scores = k @ q")]),
    "no bias": (
        "formula",
        [("return self.out_proj(out)", "return F.linear(out, self.out_proj.weight)")],
    ),
    "batch first": ("batch", [("scores = q @ k.", "scores = q @ k[:1].")]),
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
