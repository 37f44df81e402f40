"""The checks of chapter 6: each usual mistake is made, and must be named."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from attention_lib.block import TinyBlock
from attention_lib.course.exercises import ch06
from attention_lib.masks import causal_mask
from tests.answers import as_numbers, solution

ATTENTION, MLP, NORMS = 1_049_088, 2_099_712, 2_048
BLOCK = ATTENTION + MLP + NORMS


# What readers write: each solution, and below it with pieces of its text replaced.

norm, block = ch06.check_layer_norm.made, ch06.check_pre_norm.made
sizes = ch06.check_write_sizes.made
tiny = solution(
    ch06.check_tiny_block.solution, TinyBlock=TinyBlock, causal_mask=causal_mask
)
FIRST, THEN = "x = x + attend(norm_1(x))", "x + think(norm_2(x))"
ATTEND = "self.dropout(self.attention(h, mask, causal=causal))"
OWN_THEN = "x + think(self.feed_forward_norm(x))"
# The mask that `causal` asks for.
MADE = "if causal: mask = causal_mask(x.shape[1]) & (True if mask is None else mask)"


MISTAKES = {
    "block_parameters": [
        (7, "That is not the number: list"),
    ],
    "layer_norm": [
        (norm("dim=-1", "dim=2"), "For a single token, (4,): Your code raised"),
        (norm("* weight", "* weight.abs()"), "look at [0, 0, "),
        (norm("x.mean(dim=-1,", "0.25 * x.sum(dim=-1,"), "For (1, 2, 3, 5): The sh"),
    ],
    "tiny_block": [
        (tiny("self.dropout", "nn.Identity()"), "should pass unchanged, but 0.00"),
        (
            tiny("self.dropout(self.feed_forward(h))", "self.feed_forward(h)"),
            "should pass unchanged, but 0.00",
        ),
        (tiny(ATTEND, f"self.dropout({ATTEND})"), "what each layer adds, once"),
        (tiny("(h, mask", "(self.dropout(h), mask"), "what a layer reads is dropped"),
        (
            tiny("feed_forward(h)", "feed_forward(self.dropout(h))"),
            "what a layer reads is dropped",
        ),
        (
            tiny("self.dropout", "(lambda h: F.dropout(h, 0.5, self.training))"),
            "0.26",
        ),
        (tiny(OWN_THEN, f"self.dropout({OWN_THEN})"), "itself"),
        (
            tiny("self.dropout", "(lambda h: F.dropout(h, self.dropout.p))"),
            "In evaluation",
        ),
        (
            tiny("return self.feed_forward_norm(x + think(x))", "return"),
            "your code gives nothing back",
        ),
    ],
    "write_sizes": [
        (sizes("feed_forward_norm", "attention_norm"), "look at [0, 1] first"),
    ],
}


# What is right, in the book's way and in others.


def norm_by_var_mean(x, weight, bias):
    variance, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def block_by_module(attend, think, norm_1, norm_2, x):
    for norm, layer in [(norm_1, attend), (norm_2, think)]:
        x = x + layer(norm(x))
    return x


class ByLoop(TinyBlock):
    def forward(self, x, mask=None, *, causal=False):
        attend = partial(self.attention, mask=mask, causal=causal)
        layers = [attend, self.feed_forward]
        norms = [self.attention_norm, self.feed_forward_norm]
        for layer, norm in zip(layers, norms, strict=True):
            if self.norm == "pre":
                x = x + self.dropout(layer(norm(x)))
            else:
                x = norm(x + self.dropout(layer(x)))
        return x


def sizes_by_hooks(blocks, x, mask):
    written = []
    layers = [part for each in blocks for part in (each.attention, each.feed_forward)]
    for layer in layers:
        layer.register_forward_hook(lambda _, __, output: written.append(output))
    for each in blocks:
        x = each(x, mask)
    return torch.stack([h.square().sum(-1).sqrt().mean() for h in written]).view(-1, 2)


def sizes_by_difference(blocks, x, mask):
    rows = []
    for each in blocks:
        half = x + each.attention(each.attention_norm(x), mask)
        whole = each(x, mask)
        rows.append([part.norm(dim=2).mean() for part in (half - x, whole - half)])
        x = whole
    return torch.tensor(rows)


RIGHT = {
    "block_parameters": [
        *as_numbers(BLOCK),
        12 * 512**2 + 10 * 512,
        sum(p.numel() for p in TinyBlock(512, 8).parameters()),
        len(nn.utils.parameters_to_vector(TinyBlock(512, 8).parameters())),
        sum(math.prod(p.shape) for p in TinyBlock(512, 8).state_dict().values()),
    ],
    "layer_norm": [
        norm_by_var_mean,
        lambda x, w, b: torch.vmap(norm(), (0, None, None))(x[None], w, b)[0],
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda x, w, b: torch.layer_norm(x, w.shape) * w + b,
        norm(ch06.VARIANCE, "(x * x).mean(dim=-1, keepdim=True) - mean**2"),
        norm(ch06.VARIANCE, "(x - mean).square().mean(dim=-1, keepdim=True)"),
        norm("(variance + 1e-5).sqrt()", "(variance + 1e-5) ** 0.5"),
        norm("return", "return bias + weight *", " * weight + bias", ""),
        lambda x, w, b: norm()(x.double(), w.double(), b.double()).to(x.dtype),
    ],
    "pre_norm": [
        block_by_module,
        block("x = x + ", "x = x.clone()\n    x += "),
        block(FIRST, "x = x.add(attend(norm_1(x)))"),
        block(FIRST, "f = attend(norm_1(x))", THEN, "x + f + think(norm_2(x + f))"),
        block("x = ", "y = ", THEN, "sum([y, think(norm_2(y))])"),
        lambda a, t, n, m, x: x + a(n(x)) + t(m(x + a(n(x)))),
        lambda a, t, n, m, x: torch.stack([y := x + a(n(x)), t(m(y))]).sum(0),
        lambda a, t, n, m, x: torch.add(y := torch.add(x, a(n(x))), t(m(y))),
        lambda *parts: block()(*parts[:4], x=parts[4].clone()),
    ],
    "tiny_block": [
        TinyBlock,
        tiny(
            "x = x + a", "h = x + a", OWN_THEN, "h + think(self.feed_forward_norm(h))"
        ),
        tiny("x + attend(x)", "attend(x) + x", "x + think(x)", "think(x) + x"),
        tiny(
            "x + attend(self.attention_norm(x))",
            "torch.stack([x, attend(self.attention_norm(x))]).sum(0)",
        ),
        tiny("self.dropout", "(lambda h: F.dropout(h, self.dropout.p, self.training))"),
        tiny("self.dropout", "(lambda h: h * self.dropout(torch.ones_like(h)))"),
        ByLoop,
        tiny(
            *(", causal=causal", ""),
            *("        def attend", f"        {MADE}\n\n        def attend"),
        ),
        tiny(
            "x, mask=None, *, causal=False):",
            "s, mask=None, causal=False):\n        x = s",
        ),
    ],
    "write_sizes": [
        sizes_by_hooks,
        sizes_by_difference,
        sizes(
            *("rows = []", "rows = torch.zeros(len(blocks), 2)"),
            *("for block in blocks", "for row, block in zip(rows, blocks)"),
            *("rows.append(", "row[:] = torch.tensor("),
            *(ch06.ROWS, "rows"),
        ),
        sizes(
            ".item()", "", ch06.ROWS, "torch.stack([torch.stack(row) for row in rows])"
        ),
        sizes(ch06.ROWS, f"{ch06.ROWS}.float()"),
        lambda *given: sizes_by_difference(*given).T.contiguous().T,
        sizes("h.norm(dim=-1)", "h.square().sum(dim=2).sqrt()"),
        sizes("h.norm(dim=-1)", "h.flatten(0, 1).norm(dim=1)"),
        sizes(".norm(dim=-1).mean()", ".square().sum(-1).sqrt().sum().div(8)"),
    ],
}
