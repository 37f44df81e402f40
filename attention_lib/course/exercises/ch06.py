"""Checks of chapter 6: layer norm, blocks, and what they add to the stream."""

import math
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.block import TinyBlock, layer_norm
from attention_lib.course.exercises.verdict import (
    Mistakes,
    Verdict,
    judge,
    judge_number,
    make_layer,
)
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded

Layer = Callable[[Tensor], Tensor]


def check_block_parameters(answer: object) -> Verdict:
    """Checks the parameters of ``TinyBlock(512, 8)``."""
    width, hidden = 512, 4 * 512
    attention = 4 * width**2 + width
    mlp = 2 * width * hidden + hidden + width
    norms = 4 * width
    right = attention + mlp + norms
    mistakes = [
        (attention, "That is attention alone: what else is in a block?"),
        (mlp, "That is the MLP alone: what else is in a block?"),
        (attention + mlp, "2,048 are missing: the two norms, each with scale and "
         "shift, or the bias of the MLP's first layer."),
        (right - norms // 2, "Each norm has a scale and a shift: half is missing."),
        (12 * width**2, "The matrices are right: biases and norms are missing."),
        (12 * width**2 + norms, "The biases of the linear layers are missing."),
        (right - width, "The bias of attention's output is missing."),
        (right - hidden - width, "The two biases of the MLP are missing."),
        (right - hidden + width, "The bias of the MLP's first layer is as long as its "
         "output."),
        (right + 3 * width, "Queries, keys and values have no bias here."),
        (right + 8 * attention - attention, "The heads share the width: eight of "
         "them have no more weights than one."),
        (right - mlp + mlp // 4, "The hidden layer of the MLP is four times as wide."),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "Attention has 1,049,088, the MLP 2,099,712, and the norms 2,048.",
        mistakes,
        "That is not the number: list attention, MLP and both norms, each with its "
        "biases.",
    )


def check_layer_norm(answer: object) -> Verdict:
    """Checks ``layer_norm(x, weight, bias)``, with an eps of 1e-5."""
    rng = seeded(0)
    x = 3 * torch.randn(2, 3, 4, generator=rng) + 1
    weight, bias = torch.randn(2, 4, generator=rng)
    given = (x, weight, bias)
    wider = torch.randn(1, 2, 3, 5, generator=rng)
    vectors = torch.randn(2, 5, generator=rng).unbind()
    flat = torch.full_like(x, 7.0)
    small = x / 1000  # here eps counts
    return (
        judge(answer, given, layer_norm(*given), _norm_mistakes(*given))
        or judge(
            answer,
            (flat, weight, bias),
            layer_norm(flat, weight, bias),
            [(torch.full_like(x, math.nan), "0 is divided by 0: what is eps for?")],
            so_far="This is right for random tokens. For tokens whose numbers are all "
            "alike:",
        )
        or judge(
            answer,
            (small, weight, bias),
            layer_norm(small, weight, bias),
            _eps_mistakes(small, weight, bias),
            so_far="This is right for large numbers. For tokens that hardly vary:",
        )
        or judge(
            answer,
            (x[0, 0], weight, bias),
            layer_norm(x[0, 0], weight, bias),
            so_far="This is right for (2, 3, 4). For a single token, (4,):",
        )
        or judge(
            answer,
            (wider, *vectors),
            layer_norm(wider, *vectors),
            so_far="This is right for (2, 3, 4). For (1, 2, 3, 5):",
        )
        or Verdict(True, "Your function equals nn.LayerNorm, with eps and any axes.")
    )


def check_pre_norm(answer: object) -> Verdict:
    """Checks a pre-norm block made of two layers and two norms."""
    rng = seeded(0)
    x = torch.randn(2, 3, 4, generator=rng)
    mixes = torch.randn(2, 3, 3, generator=rng)  # two layers, told apart by their mix
    attend, think = (_layer(mix) for mix in mixes)
    norm_1, norm_2 = _norm(2.0, 0.5), _norm(0.5, -1.0)
    parts = (attend, think, norm_1, norm_2)
    first = x + attend(norm_1(x))
    right = first + think(norm_2(first))
    mistakes = _block_mistakes(x, *parts)
    return judge(_given(answer, *parts), (x,), right, mistakes) or Verdict(
        True, "Only plus signs stand on the stream: this is pre-norm."
    )


def check_tiny_block(answer: object) -> Verdict:
    """Checks a ``TinyBlock`` whose ``forward`` the reader wrote, pre- and post-norm."""
    x = torch.randn(2, 4, 6, generator=seeded(2), dtype=torch.float64)
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[3, 1] = mask[1, 0] = False
    for norm, so_far in [("pre", ""), ("post", "Pre-norm is right. For post-norm:")]:
        block, made = make_layer(TinyBlock, 6, 2), make_layer(answer, 6, 2)
        if isinstance(made, Verdict):
            return made
        assert isinstance(block, TinyBlock)
        _unsettle(block)
        _unsettle(made)
        vars(block)["norm"] = vars(made)["norm"] = norm
        for seen, causal in [(None, False), (mask, False), (None, True), (mask, True)]:
            forward = partial(made.forward, mask=seen, causal=causal)
            right = block(x, seen, causal=causal)
            mistakes = _forward_mistakes(block, x, seen, causal)
            if wrong := judge(forward, (x,), right, mistakes, so_far=so_far):
                return wrong
        if words := _dropped(made, block, x):
            return Verdict(False, f"{so_far} {words}".strip())
    return Verdict(True, "Your block equals the library's, with masks and dropout.")


def check_write_sizes(answer: object) -> Verdict:
    """Checks ``write_sizes(blocks, x, mask)``, for a stack of pre-norm blocks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        blocks = nn.ModuleList(TinyBlock(6, 2) for _ in range(3))
    _unsettle(blocks)
    x = torch.randn(2, 4, 6, generator=seeded(2), dtype=torch.float64)
    mask = causal_mask(4)
    mask[3, 1] = False  # not what a layer calls causal
    right = _sizes(blocks, x, mask)
    mistakes = [
        (_sizes(blocks, x, None), "The mask is not used: every block needs it."),
        (_sizes(blocks, x, mask, norms=False), "A layer of a pre-norm block reads the "
         "normalised stream, not the stream itself."),
        (_sizes(blocks, x, mask, attention_first=False), "The MLP reads the stream "
         "after attention has written to it."),
        (_sizes(blocks, x, mask, add=False), "Each layer reads what all before it have "
         "added: the stream must grow from block to block."),
        (_sizes(blocks, x, mask, after=True), "These are sizes of the stream, not of "
         "what is added to it."),
        (right.T, "Yours is transposed: each row belongs to a block."),
        (right.flip(1), "Attention comes first, then the MLP."),
        (right**2, "The length of a vector is the root of the sum of its squares."),
        (right / 6**0.5, "These are root mean squares: the length of a vector is the "
         "root of the sum of its squares."),
        (right * 8, "These are sums over the tokens: take their mean."),
        (_sizes(blocks, x, mask, whole=True), "This is the length of the whole array: "
         "take each token's length, then their mean."),
    ]  # fmt: skip
    given = _given(answer, deepcopy(blocks))
    return judge(given, (x, mask), right, mistakes) or Verdict(
        True, "These are the sizes of what each layer adds."
    )


def _given(answer: object, *parts: Any) -> object:
    """Gives the reader's function its first arguments, and leaves a stub alone."""
    return partial(answer, *parts) if callable(answer) else answer


def _norm_mistakes(x: Tensor, weight: Tensor, bias: Tensor) -> Mistakes:
    def normed(dim: int | tuple[int, ...], correction: int = 0) -> Tensor:
        variance = x.var(dim, correction=correction, keepdim=True)
        return (x - x.mean(dim, keepdim=True)) / (variance + 1e-5).sqrt()

    right, last = normed(-1), normed(-1) * weight
    centred = x - x.mean(-1, keepdim=True)
    variance = x.var(-1, correction=0, keepdim=True)
    tokens = "The mean runs over the tokens: each token has its own."
    return [
        (normed(-1, 1) * weight + bias, "The variance is divided by one less than the "
         "count: LayerNorm divides by the count."),
        (normed(1) * weight + bias, tokens),
        (normed(1, 1) * weight + bias, tokens),
        (normed(0) * weight + bias, "The mean runs over the batch: each token has its "
         "own."),
        (normed((1, 2)) * weight + bias, "One mean serves a whole text: each token has "
         "its own."),
        (normed((0, 1)) * weight + bias, "The mean runs over all tokens of the batch: "
         "that is BatchNorm."),
        (normed((0, 1, 2)) * weight + bias, "One mean serves all tokens: each has its "
         "own."),
        (x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias,
         "The mean is not subtracted."),
        (x / (variance + 1e-5).sqrt() * weight + bias, "The mean is not subtracted."),
        (centred * weight + bias, "The numbers are not divided by the standard "
         "deviation."),
        (centred / (variance + 1e-5) * weight + bias, "This divides by the variance: "
         "its root is wanted."),
        (right, "The weight and the bias are not used."),
        (last, "The bias is not added."),
        (right + bias, "The weight is not used."),
        ((right + bias) * weight, "Scale first, then shift."),
    ]  # fmt: skip


def _eps_mistakes(x: Tensor, weight: Tensor, bias: Tensor) -> Mistakes:
    centred = x - x.mean(-1, keepdim=True)
    deviation = x.std(-1, correction=0, keepdim=True)
    return [
        (centred / (deviation + 1e-5) * weight + bias, "eps is added to the deviation: "
         "it belongs to the variance, under the root."),
        (centred / deviation * weight + bias, "eps is not added."),
    ]  # fmt: skip


def _layer(mix: Tensor) -> Layer:
    """Makes a layer that mixes the tokens, so that order and place show."""
    return lambda x: (mix @ x).tanh()


def _norm(weight: float, bias: float) -> Layer:
    """Makes a norm that differs from others by its scale and shift."""
    return lambda x: F.layer_norm(x, x.shape[-1:]) * weight + bias


def _block_mistakes(
    x: Tensor, attend: Layer, think: Layer, norm_1: Layer, norm_2: Layer
) -> Mistakes:
    first = x + attend(norm_1(x))
    on_stream = norm_1(x) + attend(norm_1(x))
    post = norm_1(x + attend(x))
    plain = x + attend(x)
    replaced = attend(norm_1(x))
    return [
        (norm_2(on_stream) + think(norm_2(on_stream)), "Both norms still stand on the "
         "stream: what is added to must not be normalised."),
        (on_stream + think(norm_2(on_stream)), "The first norm still stands on the "
         "stream."),
        (norm_2(first) + think(norm_2(first)), "The second norm still stands on the "
         "stream."),
        (norm_2(post + think(post)), "This is post-norm: it normalises after adding."),
        (plain + think(plain), "There is no norm left: each layer must read through "
         "one."),
        (first + think(first), "The second norm is missing."),
        (plain + think(norm_2(plain)), "The first norm is missing."),
        (first + think(norm_1(first)), "The same norm is used twice."),
        (first + think(norm_2(x)), "The MLP reads the stream before attention has "
         "written to it."),
        (x + think(norm_2(first)), "What attention added is lost."),
        (replaced + think(norm_2(replaced)), "The first plus sign is missing."),
        (think(norm_2(first)), "The second plus sign is missing."),
        (first, "The MLP is missing."),
        (_pre(x, attend, think, norm_2, norm_1), "The norms have changed places."),
        (_pre(x, think, attend, norm_2, norm_1), "Attention comes first, then the "
         "MLP."),
    ]  # fmt: skip


def _pre(
    x: Tensor, attend: Layer, think: Layer, norm_1: Layer, norm_2: Layer
) -> Tensor:
    x = x + attend(norm_1(x))
    return x + think(norm_2(x))


def _unsettle(module: nn.Module) -> None:
    """Moves all weights, so that no norm is the neutral one, or like another."""
    rng = seeded(1)
    for parameter in module.double().eval().requires_grad_(False).parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape, generator=rng))


def _forward_mistakes(
    block: TinyBlock, x: Tensor, mask: Tensor | None, causal: bool
) -> Mistakes:
    think, norms = block.feed_forward, (block.attention_norm, block.feed_forward_norm)

    def attend(h: Tensor) -> Tensor:
        return block.attention(h, mask, causal=causal)

    def without(mask: Tensor | None, causal: bool) -> Tensor:
        return block(x, mask, causal=causal)

    pre = x + attend(norms[0](x))
    first = norms[0](x + attend(x))
    kinds = {"pre": pre + think(norms[1](pre)), "post": norms[1](first + think(first))}
    del kinds[block.norm]
    ((other, swapped),) = kinds.items()
    common = [
        (swapped, f"That is {other}-norm: what does `self.norm` say?"),
        *([(without(None, causal), "The mask is not passed on to attention.")]
          if mask is not None else []),
        *([(without(mask, False), "`causal` is not passed on to attention.")]
          if causal else []),
        (_sandwiched(x, attend, think, *norms), "The norms stand on what is added: "
         "that is neither pre-norm nor post-norm."),
    ]  # fmt: skip
    if block.norm == "pre":
        return [*common, *_block_mistakes(x, attend, think, *norms)]
    plain = x + attend(x)
    return [
        *common,
        (plain + think(plain), "There is no norm left."),
        (first + think(first), "The second norm is missing."),
        (norms[1](plain + think(plain)), "The first norm is missing."),
        (norms[0](first + think(first)), "The same norm is used twice."),
        (norms[1](first + think(x)), "The MLP must read what the first norm gave."),
        (norms[1](think(first)), "The second plus sign is missing."),
        (first, "The MLP is missing."),
    ]


def _sandwiched(
    x: Tensor, attend: Layer, think: Layer, norm_1: Layer, norm_2: Layer
) -> Tensor:
    x = x + norm_1(attend(x))
    return x + norm_2(think(x))


def _dropped(made: nn.Module, block: TinyBlock, x: Tensor) -> str:
    """Says what is wrong with a block's dropout; nothing where it is right."""
    read: list[Tensor] = []
    for name, layer in made.named_children():  # a class of one's own has other names
        if name in ("attention", "feed_forward"):
            layer.register_forward_pre_hook(lambda _, given: read.extend(given[:1]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for part in made.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.3
        if not torch.allclose(made.forward(x), block(x)):
            return "In evaluation nothing may be dropped."
        made.train()
        read.clear()
        made.attention_norm = made.feed_forward_norm = nn.Identity()
        many = torch.randn(60, 20, 6, dtype=x.dtype)
        result = made.forward(many)
    if any((given == 0).double().mean() > 0.1 for given in read):
        return "While training, what a layer reads is dropped: drop what it adds."
    unchanged = (result == many).double().mean().item()
    if abs(unchanged - 0.09) < 0.02:
        return ""
    if (result == 0).double().mean() > 0.1:
        return "While training, the stream itself is dropped: drop what is added to it."
    return (
        "While training with a dropout of 0.3, 0.09 of the numbers should pass "
        f"unchanged, but {unchanged:.2f} of them do. Drop what each layer adds, once."
    )


def _sizes(
    blocks: nn.ModuleList,
    x: Tensor,
    mask: Tensor | None,
    *,
    norms: bool = True,
    attention_first: bool = True,
    add: bool = True,
    after: bool = False,
    whole: bool = False,
) -> Tensor:
    """Gives the mean length of what each layer adds, with one step another."""
    rows = []
    for block in blocks:
        assert isinstance(block, TinyBlock)
        before, row = x, []
        parts: list[tuple[nn.Module, Layer]] = [
            (block.attention_norm, partial(block.attention, mask=mask)),
            (block.feed_forward_norm, block.feed_forward),
        ]
        for norm, layer in parts:
            read = x if attention_first else before
            added = layer(norm(read) if norms else read)
            x = x + added if add else x
            shown = x if after else added
            row.append(shown.norm() if whole else shown.norm(dim=-1).mean())
        rows.append(torch.stack(row))
    return torch.stack(rows)
