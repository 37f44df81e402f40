"""The checks of chapter 6: each usual mistake is made, and must be named."""

import math

import torch
import torch.nn.functional as F
from torch import nn

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


def sizes_in_place(blocks, x, mask):
    result = sizes()(blocks, x, mask)
    x += 1
    return result


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
        (BLOCK + 7 * ATTENTION, "heads share out the width"),
        (BLOCK - MLP + MLP // 4, "four times as wide within"),
        (7, "Not that many: list"),
    ],
    "layer_norm": [
        (norm(correction=1), "divided by one less than the count"),
        (norm(dim=1), "The mean runs over the tokens"),
        (norm(dim=0), "The mean runs over the batch"),
        (norm(dim=(1, 2)), "One mean serves a whole text"),
        (norm(dim=(0, 1)), "that is BatchNorm"),
        (norm(dim=(0, 1, 2)), "One mean serves all tokens"),
        (lambda x, w, b: F.rms_norm(x, x.shape[-1:], eps=1e-5) * w + b, "The mean is"),
        (lambda x, w, b: centred(x) * w + b, "deviation is not divided by"),
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
    ],
    "gelu": [
        (lambda x: F.gelu(x, approximate="tanh"), "approximation by tanh"),
        (lambda x: x * (1.702 * x).sigmoid(), "approximation by a sigmoid"),
        (F.silu, "called SiLU"),
        (F.relu, "That is ReLU"),
        (lambda x: x / 2 * (1 + x.erf()), "What is x divided by, inside erf"),
        (lambda x: x / 2 * (1 + (x / 2).erf()), "divided by the root of 2"),
        (lambda x: x / 2 * (x / 2**0.5).erf(), "The 1 is missing"),
        (lambda x: x * (x / 2**0.5).erf(), "erf lies between -1 and 1"),
        (lambda x: x * (1 + (x / 2**0.5).erf()), "Twice too large"),
        (lambda x: torch.special.ndtr(x), "what does it multiply"),
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
        (
            block(lambda a, t, n, m, x: pre(a, t, n, m, x.mul_(1)) + x.add_(1) * 0),
            "changes its input",
        ),
    ],
    "write_sizes": [
        (sizes(mask_used=False), "The mask is not used"),
        (sizes(norms=False), "reads the normalised stream"),
        (sizes(mlp_first=True), "after attention has written to it"),
        (sizes(add=False), "the stream must grow"),
        (sizes(of="stream"), "sizes of the stream"),
        (lambda *given: sizes()(*given).T, "the other way round"),
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


def norm_by_torch(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def gelu_by_distribution(x):
    return x * torch.distributions.Normal(0, 1).cdf(x)


def block_by_module(attend, think, norm_1, norm_2, x):
    for norm, layer in [(norm_1, attend), (norm_2, think)]:
        x = x + layer(norm(x))
    return x


def sizes_by_hooks(blocks, x, mask):
    written = []
    layers = [part for each in blocks for part in (each.attention, each.feed_forward)]
    for layer in layers:
        layer.register_forward_hook(lambda _, __, output: written.append(output))
    for each in blocks:
        x = each(x, mask)
    return torch.stack([h.square().sum(-1).sqrt().mean() for h in written]).view(-1, 2)


RIGHT = {
    "block_parameters": [
        BLOCK,
        torch.tensor(BLOCK),
    ],
    "layer_norm": [
        norm(),
        norm_by_torch,
    ],
    "gelu": [
        F.gelu,
        nn.GELU(),
        gelu_by_distribution,
    ],
    "pre_norm": [
        pre,
        block_by_module,
    ],
    "write_sizes": [
        sizes(),
        sizes_by_hooks,
    ],
}
