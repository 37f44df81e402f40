"""Checks of chapter 4: heads counted, built, mended, left out and masked."""

import math
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    after,
    judge,
    judge_number,
    make_layer,
    run,
)
from attention_lib.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    sliding_window_mask,
)
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded

_PROJECTIONS = ("q", "k", "v", "out")
_UNMIXED = "The outputs of the heads stand side by side: what mixes them?"


def check_multi_head_count(answer: object) -> Verdict:
    """Checks the parameters of a layer from 512 by 8 heads of 32 to 100, biases too."""
    d_model, width, d_out = 512, 8 * 32, 100
    projection, output = d_model * width + width, width * d_out + d_out
    square = "A projection goes from 512 to the inner width, which is not 512."
    mistakes = [
        (3 * d_model * width + width * d_out, "The biases are missing."),
        (3 * d_model * width + output, "The biases of the three projections are "
         "missing."),
        (3 * projection + width * d_out, "The output projection has a bias, too."),
        (3 * projection, "The output projection is missing."),
        (3 * projection + width * d_model + d_model, "The output is 100 wide."),
        (3 * projection + d_model * d_out + d_out, "The output projection starts where "
         "the heads stand side by side, not at the input's width."),
        (3 * (d_model * 32 + 32) + output, "These are the projections of one head."),
        (8 * (3 * (d_model * 32 + 32) + 32 * d_out + d_out), "Each head has an output "
         "bias of its own here: the layer has one for all."),
        (projection + output, "Queries, keys and values have a projection each."),
        (3 * (d_model**2 + d_model) + output, square),
        (3 * (d_model**2 + d_model) + d_model * d_out + d_out, square),
        (4 * (d_model**2 + d_model), square),
    ]  # fmt: skip
    return judge_number(
        answer,
        3 * projection + output,
        "There are three times 256 × 512 + 256, and then 100 × 256 + 100.",
        mistakes,
        "That is not the number: list each weight and each bias with its shape.",
    )


def check_multi_head_layer(answer: object) -> Verdict:
    """Checks a class of multi-head attention, filled in by the reader."""
    for d_model, num_heads, so_far in [
        (6, 3, ""),
        (8, 2, "This is right for three heads of width 2. For two of width 4:"),
    ]:
        layer = make_layer(answer, d_model, num_heads)
        if isinstance(layer, Verdict):
            return layer
        wrong = _wrong_parameters(layer, d_model) or _wrong_results(layer, num_heads)
        if wrong is not None:
            return after(so_far, wrong)
    return Verdict(True, "Your multi-head attention equals the library's.")


def check_multi_head(answer: object) -> Verdict:
    """Checks multi-head attention with four given weights, stored as (in, out)."""
    rng = seeded(0)
    wider = (
        "This is right where the heads together are as wide as the input. For "
        "wider ones:"
    )
    for inner, so_far in [(6, ""), (12, wider)]:
        x = torch.randn(2, 5, 6, generator=rng)
        projections = torch.randn(3, 6, inner, generator=rng).unbind()
        given: tuple[Any, ...] = (
            x,
            *projections,
            torch.randn(inner, 6, generator=rng),
            3,
        )
        mistakes = _wrong_layers(*given)
        if wrong := judge(answer, given, _layer(*given), mistakes, so_far=so_far):
            return wrong
    with redirect_stdout(StringIO()) as printed:
        run(answer, *given)
    if printed.getvalue():
        return Verdict(False, "The numbers are right, but your function prints.")
    return Verdict(True, "Your function equals the library's, and prints nothing.")


def check_pruned(answer: object) -> Verdict:
    """Checks the output of a layer of which only some heads are kept."""
    rng = seeded(0)
    found = torch.randn(2, 3, 5, 4, generator=rng)  # (B, H, T, D)
    w_o = torch.randn(12, 6, generator=rng)
    for keep, so_far in [
        ([True, False, True], ""),
        ([False, True, False], "This is right for two heads of three. With one kept:"),
        ([True, True, True], "This is right for some heads of three. With all kept:"),
    ]:
        chosen = torch.tensor(keep)
        kept = found * chosen[:, None, None]
        right, everything = merge_heads(kept) @ w_o, merge_heads(found) @ w_o
        average = "This is an average: the terms must be added."
        mistakes = [
            (everything, "No head is left out."),
            (everything - right, "The heads to keep are left out, and the others "
             "kept."),
            (right / 3, average),
            (right / 2, average),
            (merge_heads(kept), "The heads stand side by side: what mixes them?"),
            (_view_back(kept) @ w_o, "Heads and tokens are mixed: which axes change "
             "places before the heads stand side by side?"),
            (found[:, chosen].sum(1), "The heads are added before they are projected: "
             "each has its own block."),
        ]  # fmt: skip
        if wrong := judge(answer, (found, w_o, keep), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "This is the sum of the terms of the heads that are kept.")


def check_head_windows(answer: object) -> Verdict:
    """Checks a causal window of its own width for each head, (1, H, T, T)."""
    for length, windows, so_far in [
        (6, [1, 4, 2], ""),
        (5, [3, 1], "This is right for three heads and six tokens. For two and five:"),
    ]:
        right = _windows(length, windows)
        too_wide = _windows(length, [width + 1 for width in windows])
        too_narrow = _windows(length, [max(width - 1, 1) for width in windows])
        mistakes = [
            (right[0], "The axis of the texts is missing in front."),
            (right.transpose(0, 1), "The heads stand where the texts belong."),
            (~right, "True means blocked here: it must mean 'may attend'."),
            (right.mT, "Each head sees what is to come: is the triangle flipped?"),
            (right | right.mT, "What is to come can be seen as well."),
            (too_wide, "Each head sees one place too many: its own counts, too."),
            (too_narrow, "Each head sees one place too few."),
            (right.flip(1), "The windows stand in reverse order."),
            (causal_mask(length).expand_as(right), "Every head sees the whole past."),
        ]
        given = (length, windows)
        if wrong := judge(answer, given, right, mistakes, so_far=so_far):
            return wrong
    return Verdict(
        True, "Each head has its window, and the axis of the texts broadcasts."
    )


def _wrong_parameters(layer: nn.Module, d_model: int) -> Verdict | None:
    """Says which parameter is missing, too many, or of a wrong shape."""
    wanted: dict[str, tuple[int, ...]] = {
        **{f"{name}_proj.weight": (d_model, d_model) for name in _PROJECTIONS},
        "out_proj.bias": (d_model,),
    }
    found = {name: tuple(own.shape) for name, own in layer.named_parameters()}
    if not found and run(layer.forward, torch.zeros(2, 5, d_model)) is NOT_YET:
        return NOT_YET
    for name in [*wanted, *found]:
        if name not in found:
            return Verdict(False, f"The layer has no parameter {name}: is it an "
                           "attribute of self, and in no plain list?")  # fmt: skip
        if name not in wanted:
            return Verdict(False, f"There are too many parameters: {name}. Four "
             f"weights "
                           "and the bias of out_proj are all.")  # fmt: skip
        if found[name] != wanted[name]:
            return Verdict(False, f"{name} is {found[name]}; it must be "
                           f"{wanted[name]} here.")  # fmt: skip
    return None


def _wrong_results(layer: nn.Module, num_heads: int) -> Verdict | None:
    """Compares the outputs, without and with masks; then asks for gradients."""
    own, rng = dict(layer.eval().named_parameters()), seeded(0)
    with torch.no_grad():
        for name in sorted(own):
            own[name].copy_(torch.randn(own[name].shape, generator=rng))
    weights = [own[f"{name}_proj.weight"].detach().T for name in _PROJECTIONS]
    bias = own["out_proj.bias"].detach()
    x = torch.randn(4, 5, len(bias), generator=rng)
    given: Any = (x, *weights, num_heads)
    unmixed: Any = (*given[:4], torch.eye(len(bias)), num_heads)
    mistakes = [
        *((found + bias, message) for found, message in _wrong_layers(*given)),
        (_layer(*given), "The bias of the output projection is missing."),
        (_layer(*unmixed), _UNMIXED),
    ]
    if wrong := judge(layer.forward, (x,), _layer(*given) + bias, mistakes):
        return wrong
    # As many texts as heads: a mask without an axis for the heads broadcasts.
    if wrong := _wrong_with_masks(layer, bias, x[:num_heads], *weights, num_heads):
        return wrong
    output = layer.forward(x)
    if output.requires_grad:
        output.sum().backward()
    for name, weight in own.items():
        if weight.grad is None:
            return Verdict(False, f"The numbers are right, but no gradient reaches "
                           f"{name}: it would never learn.")  # fmt: skip
    return None


def _wrong_with_masks(layer: nn.Module, bias: Tensor, *given: Any) -> Verdict | None:
    """Compares the outputs under masks of each shape that the exercise names."""
    x = given[0]
    padding, causal = padding_mask(torch.tensor([2, 5, 4])[: len(x)], 5), causal_mask(5)
    inverted = "True means blocked here: it must mean 'may attend'."
    for shape, mask in [
        ("(Q, K)", causal),
        ("(B, 1, K)", padding),
        ("(B, Q, K)", combine_masks(causal, padding)),
    ]:
        own = mask if mask.ndim == 2 else mask[:, None]
        mistakes = [
            (_layer(*given) + bias, "The mask changes nothing."),
            (_layer(*given, mask=~own) + bias, inverted),
            (_layer(*given, mask=~own, low=-1e9) + bias, inverted),
            (_layer(*given, mask=mask) + bias, "The texts stand where the heads are: "
             "which axis does the mask lack?"),
            (_layer(*given, mask=own, after=True) + bias, "The mask acts after the "
             "softmax: the weights that are left do not sum to 1."),
        ]  # fmt: skip
        right = _layer(*given, mask=own) + bias
        so_far = f"This is right without a mask. With a mask {shape}:"
        if wrong := judge(layer.forward, (x, mask), right, mistakes, so_far=so_far):
            return wrong
    return None


def _windows(length: int, windows: list[int]) -> Tensor:
    return torch.stack([sliding_window_mask(length, width) for width in windows])[None]


def _layer(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    num_heads: int,
    *,
    cut: Callable[[Tensor, int], Tensor] = split_heads,
    join: Callable[[Tensor], Tensor] = merge_heads,
    scaled_by: int | None = None,
    mask: Tensor | None = None,
    low: float = -math.inf,
    after: bool = False,
) -> Tensor:
    """Multi-head attention, in which one step or more may be another."""
    query, key, value = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    scores = query @ key.mT / math.sqrt(scaled_by or query.shape[-1])
    if mask is not None and not after:
        scores = scores.masked_fill(~mask, low)
    weights = scores.softmax(dim=-1)
    if mask is not None and after:
        weights = weights * mask
    return join(weights @ value) @ w_o


def _wrong_layers(*given: Any) -> Mistakes:
    x, w_q, w_k, w_v, w_o, num_heads = given
    d_model, inner = w_q.shape
    there = "On the way to the heads, tokens and heads are mixed"
    back = "on the way back, tokens and heads are mixed"
    scale = "the scale takes a width that is not the head's."
    by_input = {"scaled_by": d_model}
    cut, join = {"cut": _view_alone}, {"join": _view_back}
    ways: list[tuple[dict[str, Any], str]] = [
        (cut | join | by_input, f"{there}, {back}, and {scale}"),
        (cut | join, f"{there}, and {back}: a view alone moves nothing."),
        (cut | by_input, f"{there}, and {scale}"),
        (cut, f"{there}: a view alone moves nothing."),
        (join | by_input, f"The way there is right; but {back}, and {scale}"),
        (join, f"The way there is right; but {back}."),
        (by_input, "The heads are right; but the scale takes a width that is not the "
         "head's: how many products does a score sum?"),
        ({"scaled_by": inner}, "The scale takes the width of all heads together: how "
         "many products does a score sum?"),
        ({"scaled_by": 1}, "The scores are not scaled."),
    ]  # fmt: skip
    weights = w_q, w_k, w_v
    identity = torch.eye(inner)
    return [
        *((_layer(*given, **way), message) for way, message in ways),
        (_layer(x, *weights, w_o, 1), "This is one wide head, not several."),
        (_layer(x, *weights, identity, num_heads), _UNMIXED),
        (_layer(x, w_k, w_q, w_v, w_o, num_heads), "Queries and keys have changed "
         "places."),
    ]  # fmt: skip


def _view_alone(x: Tensor, num_heads: int) -> Tensor:
    batch, length, width = x.shape
    return x.view(batch, num_heads, length, width // num_heads)


def _view_back(context: Tensor) -> Tensor:
    batch, _, length, _ = context.shape
    return context.reshape(batch, length, -1)
