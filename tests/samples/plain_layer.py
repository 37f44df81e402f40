"""A plain layer as text, its lines by name, and layers of it with some lines replaced.

The other files hold replacements: faults that people put in, and what is right as well.
"""

from attention_lib.course.edits import defined, edited
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
QUERIES = "self.q_proj = nn.Linear(d_model, d_model)"
LINEAR = "nn.Linear(d_model, num_kv_heads * self.head_dim)"
KEYS, VALUES = f"self.k_proj = {LINEAR}", f"self.v_proj = {LINEAR}"
LAST = "self.drop = nn.Dropout(dropout)"  # of __init__
START = "B, T, M = x.shape"
CACHED = "        if cache is not None:\n"
SCORES = "scores = q @ k."
PRODUCT = "scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)"
ONES = "seen = torch.ones"
TRIL = "seen = seen.tril(S - T)"
CAUSAL = f"        if causal:\n            {TRIL}\n"
MASK = "(mask[:, None] if mask.ndim == 3 else mask)"
MASKED = f"        if mask is not None:\n            seen = seen & {MASK}"
FILL = "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)"
SOFTMAX = "weights = scores.softmax(dim=-1)"
ZEROS = "        weights = weights.masked_fill(~seen, 0.0)\n"
DROP = "weights = self.drop(weights)"
OUT = "out = weights @ v"
RETURN = "return self.out_proj(out)"
APPEND = "self.k, self.v, self.length = k, v, k.shape[2]"
# The same layer, which always hides the future and takes no word for it.
OWN = "*, causal=False, cache=None", "cache=None"
OWN += "        if causal:\n            seen", "        seen"


def made(*pieces, code=BASE, **options):
    """The layer of this text, with these pieces replaced: old, new, old, new, …"""
    with global_seed(0):
        return defined(edited(code, *pieces))(**options)


def before(line, more):
    """A line of a function, or its beginning, with another line before it."""
    return line, f"{more}\n        {line}"


def after(line, more):
    return line, f"{line}\n        {more}"


def ends(line):
    """The output as ``out``, changed."""
    return RETURN, f"out = self.out_proj(out)\n        {line}\n        return out"


def hides(scores):
    """Hidden scores made in another way, and no zeros after the softmax."""
    return FILL, f"scores = {scores}", ZEROS, ""


def masks_if(condition):
    """The mask, only where this holds."""
    return "if mask is not None:", f"if mask is not None and {condition}:"
