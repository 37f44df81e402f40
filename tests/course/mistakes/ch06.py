"""The checks of chapter 6: each usual mistake is made, and must be named."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from attention_lib.block import TinyBlock
from attention_lib.masks import causal_mask
from tests.answers import as_numbers, solution

ATTENTION, MLP, NORMS = 1_049_088, 2_099_712, 2_048
BLOCK = ATTENTION + MLP + NORMS


# What readers write: each solution, and below it with pieces of its text replaced.

norm = solution("""
def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / (variance + 1e-5).sqrt() * weight + bias
""")
# Attend, think, and the norms n and m.
block = solution("""
def block(a, t, n, m, x):
    x = x + a(n(x))
    return x + t(m(x))
""")
names = {"TinyBlock": TinyBlock, "causal_mask": causal_mask, "partial": partial}
tiny = partial(solution, **names)("""
class Block(TinyBlock):
    def forward(self, x, mask=None, *, causal=False):
        a, t = partial(self.attention, mask=mask, causal=causal), self.feed_forward
        n, m, d = self.attention_norm, self.feed_forward_norm, self.dropout
        if self.norm == "pre":
            x = x + d(a(n(x)))
            return x + d(t(m(x)))
        x = n(x + d(a(x)))
        return m(x + d(t(x)))
""")
# The mask that `causal` asks for.
MADE = "if causal: mask = causal_mask(x.shape[1]) & (True if mask is None else mask)"
sizes = solution("""
def write_sizes(blocks, x, mask):
    rows = []
    for each in blocks:
        found = each.attention(each.attention_norm(x), mask)
        x = x + found
        thought = each.feed_forward(each.feed_forward_norm(x))
        x = x + thought
        rows.append(torch.stack([h.norm(dim=-1).mean() for h in (found, thought)]))
    return torch.stack(rows)
""")


def sizes_then(formula):
    """What each layer writes, and one step more."""
    return sizes("torch.stack(rows)", formula)


MISTAKES = {
    "block_parameters": [
        (7, "That is not the number: list"),
    ],
    "layer_norm": [
        (norm("-1", "2"), "For a single token, (4,): Your code raised"),
        (norm("centred = x - x", "x -= x", "centred", "x"), "changes its input"),
        (norm("* weight", "* weight.abs()"), "look at [0, 0, "),
        (norm(".mean(-1", ".sum(-1", "True)", "True) / 4"), "For (1, 2, 3, 5): The sh"),
    ],
    "pre_norm": [
        (block("x = x + a", "x += a"), "changes its input"),
    ],
    "tiny_block": [
        (tiny("self.dropout", "nn.Identity()"), "should pass unchanged, but 0.00"),
        (tiny("d(t(m(x)))", "t(m(x))"), "should pass unchanged, but 0.00"),
        (tiny("x + d(a", "x + (lambda h: d(d(h)))(a"), "what each layer adds, once"),
        (tiny("d(a(n(x)))", "d(a(d(n(x))))"), "what a layer reads is dropped"),
        (tiny("d(t(m(x)))", "d(t(d(m(x))))"), "what a layer reads is dropped"),
        (tiny("self.dropout", "lambda h: F.dropout(h, 0.5, self.training)"), "0.26"),
        (tiny("x + d(t(m(x)))", "d(x + t(m(x)))"), "itself"),
        (tiny("self.dropout", "partial(F.dropout, p=self.dropout.p)"), "In evaluation"),
        (tiny("return m(x + d(t(x)))", "return"), "your code gives nothing back"),
        (lambda d_model, num_heads: nn.Linear, "Your function returns a type"),
    ],
    "write_sizes": [
        (sizes("feed_forward_norm", "attention_norm"), "look at [0, 1] first"),
        (sizes("x = x + found", "x += found"), "changes its input"),
        (sizes_then("torch.stack(rows).tolist()"), "returns a list"),
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
        norm(),
        norm_by_var_mean,
        lambda x, w, b: torch.vmap(norm(), (0, None, None))(x[None], w, b)[0],
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda x, w, b: torch.layer_norm(x, w.shape) * w + b,
        norm("centred.square()", "(x * x)", "+ 1e-5", "- x.mean(-1, True)**2 + 1e-5"),
        norm("centred.square().mean(-1", "x.var(-1, correction=0"),
        norm("(variance + 1e-5).sqrt()", "(variance + 1e-5) ** 0.5"),
        norm("return", "return bias + weight *", " * weight + bias", ""),
        lambda x, w, b: norm()(x.double(), w.double(), b.double()).to(x.dtype),
    ],
    "pre_norm": [
        block(),
        block_by_module,
        block("x = x + ", "x = x.clone()\n    x += "),
        block("x = x + a(n(x))", "x = x.add(a(n(x)))"),
        block("x = x + a(n(x))", "f = a(n(x))", "x + t(m(x))", "x + f + t(m(x + f))"),
        block("x = ", "y = ", "x + t(m(x))", "sum([y, t(m(y))])"),
        lambda a, t, n, m, x: x + a(n(x)) + t(m(x + a(n(x)))),
        lambda a, t, n, m, x: torch.stack([y := x + a(n(x)), t(m(y))]).sum(0),
        lambda a, t, n, m, x: torch.add(y := torch.add(x, a(n(x))), t(m(y))),
        lambda *parts: block()(*parts[:4], x=parts[4].clone()),
    ],
    "tiny_block": [
        TinyBlock,
        tiny(),
        tiny("x = x + d(a", "h = x + d(a", "x + d(t(m(x)))", "h + d(t(m(h)))"),
        tiny("x = n(x + d(a(x)))", "h = n(d(a(x)) + x)", "x + d(t(x))", "d(t(h)) + h"),
        tiny("x = x + d(a(n(x)))", "x = torch.stack([x, d(a(n(x)))]).sum(0)"),
        tiny("self.dropout", "lambda h: F.dropout(h, self.dropout.p, self.training)"),
        tiny("self.dropout", "lambda h: h * self.dropout(torch.ones_like(h))"),
        ByLoop,
        tiny(
            *("mask=mask, causal=causal", "mask=mask"),
            *("        a, t", f"        {MADE}\n        a, t"),
        ),
        tiny(
            "x, mask=None, *, causal=False):",
            "s, mask=None, causal=False):\n        x = s",
        ),
    ],
    "write_sizes": [
        sizes(),
        sizes_by_hooks,
        sizes_by_difference,
        sizes(
            *("rows = []", "rows = torch.zeros(len(blocks), 2)"),
            *("torch.stack(rows)", "rows"),
            *("for each in blocks", "for row, each in zip(rows, blocks)"),
            *("rows.append(", "row.copy_("),
        ),
        sizes_then("torch.tensor(torch.stack(rows).tolist())"),
        sizes_then("torch.stack(rows).float()"),
        lambda *given: sizes_by_difference(*given).T.contiguous().T,
        sizes("h.norm(dim=-1)", "h.square().sum(dim=2).sqrt()"),
        sizes("h.norm(dim=-1)", "h.flatten(0, 1).norm(dim=1)"),
        sizes(".norm(dim=-1).mean()", ".square().sum(-1).sqrt().sum().div(8)"),
    ],
}
