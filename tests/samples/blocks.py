# ruff: noqa: E501
"""A block as text, right variants of it, and faults of its norms and its sums."""

BLOCK = """
import torch
from torch import nn
import torch.nn.functional as F

class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
    def forward(self, x):
        f = x.float() if x.dtype.itemsize < 4 else x
        return self.gain * (f * (f.square().mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype)

class Mine(nn.Module):
    def __init__(self, d_model=12, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = Rms(d_model), Rms(d_model)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, 20), nn.Linear(20, d_model)
        self.drop = nn.Dropout(0.1)

    def attend(self, x):
        q, k, v = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(found.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.drop(self.attend(self.norm1(x)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))
"""
FIRST = "x = x + self.drop(self.attend(self.norm1(x)))"
LAST = "return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))"
BLOCKS = {
    "before": (),
    "after": (
        *(FIRST, "x = self.norm1(x + self.drop(self.attend(x)))"),
        *(LAST, "return self.norm2(x + self.drop(self.down(F.gelu(self.up(x)))))"),
    ),
    "both": (FIRST, "x = x + self.norm2(self.drop(self.attend(self.norm1(x))))"),
    "scaled": ("x = x +", "x = 0.7 * x +"),
    "side by side": (FIRST, FIRST.replace("x =", "y ="), "return x", "return y"),
}
# What the check of the name must say.
BLOCK_FAULTS = {
    "parts": {
        "norm1 is a norm over more than one token": ("mean(-1", "mean((-2, -1)"),
        "the sum begins at what a norm gives": (
            LAST,
            f"x = self.norm2(x)\n        {LAST.replace('self.norm2(x)', 'x')}",
        ),
        "dropout drops the input itself": (
            FIRST,
            "x = self.drop(x + self.attend(self.norm1(x)))",
        ),
    },
    "half precision": {
        "the square of 400 is infinite": (
            "x.float() if x.dtype.itemsize < 4 else x",
            "x",
        )
    },
    "deterministic": {
        "draws random numbers in evaluation mode": (
            "is_causal=True",
            "is_causal=True, dropout_p=0.1",
        )
    },
}
