"""The checks of chapter 6: each usual mistake is made, and must be named."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attention_lib.block import TinyBlock
from attention_lib.masks import causal_mask

ATTENTION, MLP, NORMS = 1_049_088, 2_099_712, 2_048
BLOCK = ATTENTION + MLP + NORMS


# What readers write. Each function is named in MISTAKES with the words it must meet.


def norm(dim=-1, correction=0, then=lambda x, w, b: x * w + b, eps=1e-5):
    """A layer norm, with one step another."""

    def answer(x, weight, bias):
        axes = dim if x.ndim == 3 else -1
        variance = x.var(axes, correction=correction, keepdim=True)
        normed = (x - x.mean(axes, keepdim=True)) / (variance + eps).sqrt()
        return then(normed, weight, bias)

    return answer


def centred(x):
    return x - x.mean(-1, keepdim=True)


def deviation(x):
    return x.std(-1, correction=0, keepdim=True)


def norm_of_four(x, weight, bias):
    y = x - x.sum(-1, keepdim=True) / 4
    return y / (y.square().sum(-1, keepdim=True) / 4 + 1e-5).sqrt() * weight + bias


def norm_in_place(x, weight, bias):
    x -= x.mean(-1, keepdim=True)
    return norm()(x, weight, bias)


def norm_for_three_axes(x, weight, bias):
    mean = torch.einsum("btm->bt", x) / x.shape[2]
    return norm()(x, weight, bias) + 0 * mean[..., None]


def block(formula):
    """A block of the parts that it is given: attend a, think t, norms n and m."""
    return lambda a, t, n, m, x: formula(a, t, n, m, x)


def second(first, t, m):
    return first + t(m(first))


def pre(a, t, n, m, x):
    return second(x + a(n(x)), t, m)


def sizes(
    norms=True, mask_used=True, mlp_first=False, add=True, of=None, length=None,
    masked=None,
):  # fmt: skip
    """What each layer writes, with one step another."""

    def answer(blocks, x, mask):
        rows = []
        for each in blocks:
            before = x
            seen = mask if mask_used else None
            found = each.attention(each.attention_norm(x) if norms else x, seen)
            x = x + found if add else x
            first = x
            read = before if mlp_first else x
            thought = each.feed_forward(each.feed_forward_norm(read) if norms else read)
            x = x + thought if add else x
            shown = [first, x] if of == "stream" else [found, thought]
            size = length or (lambda h: h.norm(dim=-1).mean())
            rows.append(torch.stack([size(h) for h in shown]))
        return torch.stack(rows)

    return answer


def sizes_with_one_norm(blocks, x, mask):
    for each in blocks:
        each.feed_forward_norm = each.attention_norm
    return sizes()(blocks, x, mask)


def sizes_in_place(blocks, x, mask):
    result = sizes()(blocks, x, mask)
    x += 1
    return result


def tiny(pre, post=None):
    """A block whose ``forward`` is a formula of attend, think, norms, drop and x."""

    class Block(TinyBlock):
        def forward(self, x, mask=None, *, causal=False):
            def attend(h, mask=mask, causal=causal):
                return self.attention(h, mask, causal=causal)

            parts = attend, self.feed_forward, self.attention_norm
            formula = pre if self.norm == "pre" else post or right_post
            return formula(*parts, self.feed_forward_norm, self.dropout, x)

    return Block


def right_pre(a, t, n, m, d, x):
    x = x + d(a(n(x)))
    return x + d(t(m(x)))


def right_post(a, t, n, m, d, x):
    x = n(x + d(a(x)))
    return m(x + d(t(x)))


def tiny_post(formula):
    return tiny(right_pre, formula)


def tiny_with(drop):
    """A right block, with another way to drop: ``drop(h, d)``."""
    return tiny(
        lambda a, t, n, m, d, x: right_pre(a, t, n, m, lambda h: drop(h, d), x),
        lambda a, t, n, m, d, x: right_post(a, t, n, m, lambda h: drop(h, d), x),
    )


MISTAKES = {
    "block_parameters": [
        (ATTENTION, "attention alone"),
        (MLP, "MLP alone"),
        (ATTENTION + MLP, "2,048 are missing"),
        (BLOCK - 1024, "half is missing"),
        (12 * 512**2, "biases and norms are missing"),
        (12 * 512**2 + NORMS, "biases of the linear layers"),
        (BLOCK - 512, "bias of attention's output is missing"),
        (BLOCK - 2560, "two biases of the MLP are missing"),
        (BLOCK - 1536, "as long as its output"),
        (BLOCK + 1536, "have no bias here"),
        (BLOCK + 7 * ATTENTION, "heads share the width"),
        (BLOCK - MLP + MLP // 4, "MLP is four times as wide"),
        (7, "That is not the number: list"),
    ],
    "layer_norm": [
        (norm(correction=1), "divided by one less than the count"),
        (norm(dim=1), "The mean runs over the tokens"),
        (norm(dim=0), "The mean runs over the batch"),
        (norm(dim=(1, 2)), "One mean serves a whole text"),
        (norm(dim=(0, 1)), "that is BatchNorm"),
        (norm(dim=(0, 1, 2)), "One mean serves all tokens"),
        (lambda x, w, b: F.rms_norm(x, x.shape[-1:], eps=1e-5) * w + b, "The mean is"),
        (lambda x, w, b: centred(x) * w + b, "not divided by the standard"),
        (
            lambda x, w, b: centred(x) / (deviation(x) ** 2 + 1e-5) * w + b,
            "divides by the variance",
        ),
        (norm(then=lambda x, w, b: x), "weight and the bias are not used"),
        (norm(then=lambda x, w, b: x * w), "The bias is not added"),
        (norm(then=lambda x, w, b: x + b), "The weight is not used"),
        (norm(then=lambda x, w, b: (x + b) * w), "Scale first, then shift"),
        (norm(eps=0.0), "alike: 0 is divided by 0"),
        (lambda x, w, b: centred(x) / (deviation(x) + 1e-5) * w + b, "eps is added to"),
        (
            lambda x, w, b: (centred(x) / deviation(x)).nan_to_num() * w + b,
            "eps is not added",
        ),
        (norm_for_three_axes, "For a single token, (4,): Your code raised"),
        (norm_in_place, "changes its input"),
        (lambda x, w, b: norm()(x, w.abs(), b), "look at [0, 0, "),
        (norm_of_four, "For (1, 2, 3, 5): The shape is right"),
    ],
    "pre_norm": [
        (
            block(
                lambda a, t, n, m, x: second(m(y := n(x) + a(n(x))), t, lambda _: m(y))
            ),
            "Both norms still stand on the stream",
        ),
        (block(lambda a, t, n, m, x: second(n(x) + a(n(x)), t, m)), "first norm still"),
        (
            block(lambda a, t, n, m, x: m(y := x + a(n(x))) + t(m(y))),
            "The second norm still stands",
        ),
        (block(lambda a, t, n, m, x: m((y := n(x + a(x))) + t(y))), "is post-norm"),
        (block(lambda a, t, n, m, x: second(x + a(x), t, lambda y: y)), "no norm left"),
        (
            block(lambda a, t, n, m, x: second(x + a(n(x)), t, lambda y: y)),
            "The second norm is missing",
        ),
        (block(lambda a, t, n, m, x: second(x + a(x), t, m)), "first norm is missing"),
        (block(lambda a, t, n, m, x: second(x + a(n(x)), t, n)), "norm is used twice"),
        (block(lambda a, t, n, m, x: x + a(n(x)) + t(m(x))), "attention has written"),
        (block(lambda a, t, n, m, x: x + t(m(x + a(n(x))))), "What attention added is"),
        (block(lambda a, t, n, m, x: second(a(n(x)), t, m)), "The first plus sign is"),
        (block(lambda a, t, n, m, x: t(m(x + a(n(x))))), "second plus sign is missing"),
        (block(lambda a, t, n, m, x: x + a(n(x))), "The MLP is missing"),
        (block(lambda a, t, n, m, x: pre(a, t, m, n, x)), "norms have changed places"),
        (block(lambda a, t, n, m, x: pre(t, a, m, n, x)), "Attention comes first"),
        (
            block(lambda a, t, n, m, x: pre(a, t, n, m, x.mul_(1)) + x.add_(1) * 0),
            "changes its input",
        ),
    ],
    "tiny_block": [
        (tiny(right_post), "That is post-norm"),
        (tiny_post(right_pre), "For post-norm: That is pre-norm"),
        (tiny(lambda a, *rest: right_pre(lambda h: a(h, None), *rest)), "The mask is"),
        (
            tiny(lambda a, *rest: right_pre(lambda h: a(h, causal=False), *rest)),
            "`causal` is not passed on",
        ),
        (
            tiny_post(lambda a, *rest: right_post(lambda h: a(h, None), *rest)),
            "For post-norm: The mask is not",
        ),
        (tiny(lambda a, t, n, m, d, x: x + n(a(x)) + m(t(x + n(a(x))))), "on what is"),
        (tiny(lambda a, t, n, m, d, x: x + a(n(x)) + t(m(x))), "attention has written"),
        (tiny(lambda a, t, n, m, d, x: right_pre(a, t, n, n, d, x)), "used twice"),
        (tiny_post(lambda a, t, n, m, d, x: (y := x + a(x)) + t(y)), "no norm left"),
        (tiny_post(lambda a, t, n, m, d, x: (y := n(x + a(x))) + t(y)), "second norm"),
        (tiny_post(lambda a, t, n, m, d, x: m((y := x + a(x)) + t(y))), "first norm"),
        (tiny_post(lambda a, t, n, m, d, x: right_post(a, t, n, n, d, x)), "same norm"),
        (tiny_post(lambda a, t, n, m, d, x: m(n(x + a(x)) + t(x))), "must read what"),
        (tiny_post(lambda a, t, n, m, d, x: m(t(n(x + a(x))))), "second plus sign"),
        (tiny_post(lambda a, t, n, m, d, x: n(x + a(x))), "The MLP is missing"),
        (tiny_with(lambda h, d: h), "should pass unchanged, but 0.00"),
        (
            tiny(lambda a, t, n, m, d, x: (y := x + d(a(n(x)))) + t(m(y))),
            "should pass unchanged, but 0.00",
        ),
        (tiny_with(lambda h, d: d(d(h))), "what each layer adds, once"),
        (tiny(lambda a, t, n, m, d, x: d((y := d(x + a(n(x)))) + t(m(y)))), "itself"),
        (
            tiny_with(lambda h, d: F.dropout(h, d.p)),
            "In evaluation nothing",
        ),
        (tiny_post(lambda *given: None), "your code gives nothing back"),
        (lambda d_model, num_heads: nn.Linear, "Your function returns a type"),
    ],
    "write_sizes": [
        (sizes(mask_used=False), "The mask is not used"),
        (sizes_with_one_norm, "look at [0, 1] first"),
        (sizes(norms=False), "reads the normalised stream"),
        (sizes(mlp_first=True), "after attention has written to it"),
        (sizes(add=False), "the stream must grow"),
        (sizes(of="stream"), "sizes of the stream"),
        (lambda *given: sizes()(*given).T, "Yours is transposed"),
        (lambda *given: sizes()(*given).flip(1), "Attention comes first"),
        (lambda *given: sizes()(*given) ** 2, "The length of a vector"),
        (lambda *given: sizes()(*given) / math.sqrt(6), "root mean squares"),
        (sizes(length=lambda h: h.norm(dim=-1).sum()), "sums over the tokens"),
        (sizes(length=torch.Tensor.norm), "the length of the whole array"),
        (sizes_in_place, "changes its input"),
        (lambda *given: sizes()(*given).tolist(), "returns a list"),
    ],
}


# What is right, in the book's way and in others.


def moments(x):
    return (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


def mean_square(y):
    return torch.einsum("...m,...m->...", y, y)[..., None] / y.shape[-1]


def norm_by_var_mean(x, weight, bias):
    variance, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def norm_by_rows(x, weight, bias):
    rows = [norm()(row, weight, bias) for row in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).view_as(x)


def block_by_module(attend, think, norm_1, norm_2, x):
    for norm, layer in [(norm_1, attend), (norm_2, think)]:
        x = x + layer(norm(x))
    return x


def block_in_place(attend, think, norm_1, norm_2, x):
    x = x.clone()
    x += attend(norm_1(x))
    x += think(norm_2(x))
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


class ByMask(TinyBlock):
    """Makes a mask of ``causal`` itself."""

    def forward(self, x, mask=None, *, causal=False):
        if causal:
            past = causal_mask(x.shape[1])
            mask = past if mask is None else mask & past
        before = [self.attention_norm, self.feed_forward_norm]
        after = [nn.Identity(), nn.Identity()]
        if self.norm == "post":
            before, after = after, before
        x = after[0](x + self.dropout(self.attention(before[0](x), mask)))
        return after[1](x + self.dropout(self.feed_forward(before[1](x))))


class Positional(TinyBlock):
    def forward(self, stream=None, mask=None, causal=False):
        return super().forward(stream, mask=mask, causal=causal)


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


def sizes_in_a_table(blocks, x, mask):
    table = torch.zeros(len(blocks), 2)
    for row, each in zip(table, blocks, strict=True):
        for i, (norm, layer) in enumerate(
            [
                (each.attention_norm, partial(each.attention, mask=mask)),
                (each.feed_forward_norm, each.feed_forward),
            ]
        ):
            added = layer(norm(x))
            row[i] = added.norm(dim=-1).mean()
            x = x + added
    return table


RIGHT = {
    "block_parameters": [
        BLOCK,
        float(BLOCK),
        np.int64(BLOCK),
        np.array(BLOCK),
        torch.tensor(BLOCK),
        torch.tensor(float(BLOCK), dtype=torch.float64),
        12 * 512**2 + 10 * 512,
        sum(p.numel() for p in TinyBlock(512, 8).parameters()),
        len(nn.utils.parameters_to_vector(TinyBlock(512, 8).parameters())),
        sum(math.prod(p.shape) for p in TinyBlock(512, 8).state_dict().values()),
    ],
    "layer_norm": [
        norm(),
        norm_by_var_mean,
        norm_by_rows,
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda x, w, b: torch.layer_norm(x, w.shape) * w + b,
        lambda x, w, b: centred(x) * (moments(x) + 1e-5).rsqrt() * w + b,
        lambda x, w, b: centred(x) / (mean_square(centred(x)) + 1e-5).sqrt() * w + b,
        lambda x, w, b: b.addcmul(centred(x) / (deviation(x) ** 2 + 1e-5) ** 0.5, w),
        lambda x, w, b: norm()(x.double(), w.double(), b.double()).to(x.dtype),
        lambda x, w, b: torch.nn.functional.rms_norm(centred(x), w.shape, w, 1e-5) + b,
    ],
    "pre_norm": [
        pre,
        block_by_module,
        block_in_place,
        lambda a, t, n, m, x: second(x.add(a(n(x))), t, m),
        lambda a, t, n, m, x: x + a(n(x)) + t(m(x + a(n(x)))),
        lambda a, t, n, m, x: (y := a(n(x)) + x) + t(m(y)),
        lambda a, t, n, m, x: torch.stack([y := x + a(n(x)), t(m(y))]).sum(0),
        lambda a, t, n, m, x: sum([x, f := a(n(x)), t(m(x + f))]),
        lambda a, t, n, m, x: torch.add(y := torch.add(x, a(n(x))), t(m(y))),
        lambda *parts: pre(*parts[:4], x=parts[4].clone()),
    ],
    "tiny_block": [
        TinyBlock,
        tiny(right_pre),
        tiny(lambda a, t, n, m, d, x: x + (h := d(a(n(x)))) + d(t(m(x + h)))),
        tiny_post(lambda a, t, n, m, d, x: m((h := n(d(a(x)) + x)) + d(t(h)))),
        tiny(lambda a, t, n, m, d, x: block_by_module(
            lambda h: d(a(h)), lambda h: d(t(h)), n, m, x)),
        tiny_with(lambda h, d: F.dropout(h, d.p, d.training)),
        tiny_with(lambda h, d: h * ((d.p < torch.rand_like(h)) / (1 - d.p) if d.training
                                    else 1)),
        ByLoop,
        ByMask,
        Positional,
    ],
    "write_sizes": [
        sizes(),
        sizes_by_hooks,
        sizes_by_difference,
        sizes_in_a_table,
        lambda *given: torch.tensor(sizes()(*given).tolist()),
        lambda *given: sizes()(*given).float(),
        lambda *given: sizes_by_difference(*given).T.contiguous().T,
        sizes(length=lambda h: h.square().sum(dim=2).sqrt().mean()),
        sizes(length=lambda h: h.flatten(0, 1).norm(dim=1).mean()),
        sizes(length=lambda h: sum(row.norm() for text in h for row in text) / 8),
    ],
}  # fmt: skip
