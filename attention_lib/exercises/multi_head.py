"""Checks of chapter 4: heads split, joined, left out, masked and counted."""

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.exercises.verdict import (
    Mistakes,
    Verdict,
    judge,
    judge_number,
    run,
)
from attention_lib.masks import causal_mask, sliding_window_mask
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded


def check_multi_head_count(answer: object) -> Verdict:
    """Checks the parameters of a layer from 512 by 8 heads of 32 to 100, biases too."""
    d_model, width, d_out = 512, 8 * 32, 100
    projection, output = d_model * width + width, width * d_out + d_out
    square = "A projection goes from 512 to the inner width, which is not 512."
    mistakes = [
        (3 * d_model * width + width * d_out, "The biases are missing."),
        (3 * d_model * width + output, "The biases of the three projections: missing."),
        (3 * projection + width * d_out, "The output projection has a bias, too."),
        (3 * projection, "The output projection is missing."),
        (3 * projection + width * d_model + d_model, "The output is 100 wide."),
        (3 * projection + d_model * d_out + d_out, "The output projection starts where "
         "the heads stand side by side, not at the input's width."),
        (3 * (d_model * 32 + 32) + output, "That is one head's queries, keys, values."),
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
        "Three weights of 256 × 512, three biases of 256, then 100 × 256 and 100.",
        mistakes,
        "Not that many: list each weight and each bias with its shape.",
    )


def check_split_heads(answer: object) -> Verdict:
    """Checks a split of (B, T, H·D) into (B, H, T, D)."""
    tokens = torch.randn(2, 5, 12, generator=seeded(0))
    for num_heads, so_far in [(3, ""), (1, "Right for three heads. For a single one:")]:
        mistakes = _wrong_splits(tokens, num_heads)
        right = split_heads(tokens, num_heads)
        if wrong := judge(answer, (tokens, num_heads), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "Each head has every token, in order, and its own features.")


def check_multi_head(answer: object) -> Verdict:
    """Checks multi-head attention with four given weights, stored as (in, out)."""
    rng = seeded(0)
    wider = "Right where the heads together are as wide as the input. For wider ones:"
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
        return Verdict(False, "The numbers are right. One bug is left: it prints.")
    return Verdict(True, "Equal to the library, for any inner width, and silent.")


def check_pruned(answer: object) -> Verdict:
    """Checks the output of a layer of which only some heads are kept."""
    rng = seeded(0)
    found = torch.randn(2, 3, 5, 4, generator=rng)  # (B, H, T, D)
    w_o = torch.randn(12, 6, generator=rng)
    for keep, so_far in [
        ([True, False, True], ""),
        ([False, False, False], "Right for two heads of three. With none kept:"),
    ]:
        chosen = torch.tensor(keep)
        kept = found * chosen[:, None, None]
        right, everything = merge_heads(kept) @ w_o, merge_heads(found) @ w_o
        average = "This averages: the terms are added, not shared out."
        mistakes = [
            (everything, "No head is left out."),
            (everything - right, "The heads to keep are left out, the others kept."),
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
    return Verdict(True, "The sum of the kept heads' terms, and zeros if none is kept.")


def check_head_windows(answer: object) -> Verdict:
    """Checks a causal window of its own width for each head, (1, H, T, T)."""
    windows = [1, 4, 2]
    right = torch.stack([sliding_window_mask(6, n) for n in windows])[None]
    too_wide = torch.stack([sliding_window_mask(6, n + 1) for n in windows])[None]
    both_sides = right | right.mT
    mistakes = [
        (right[0], "The axis of the texts is missing in front."),
        (right.transpose(0, 1), "The heads stand where the texts belong."),
        (~right, "True means blocked here: it must mean 'may attend'."),
        (right.mT, "Each head sees what is to come: is the triangle flipped?"),
        (both_sides, "What is to come is in sight as well."),
        (too_wide, "Each head sees one place too many: its own counts."),
        (right.flip(1), "The windows stand in reverse order."),
        (causal_mask(6).expand_as(right), "Every head sees the whole past."),
    ]
    return judge(answer, (6, windows), right, mistakes) or Verdict(
        True, "One window a head; the texts broadcast."
    )


def _wrong_splits(x: Tensor, num_heads: int) -> Mistakes:
    batch, length, width = x.shape
    by_token = x.view(batch, length, num_heads, width // num_heads)
    apart = x.view(batch, length, width // num_heads, num_heads)
    return [
        (_view_alone(x, num_heads), "The shape is right, but tokens and heads are "
         "mixed: a view alone moves nothing."),
        (by_token, "Nearly: the heads do not stand before the tokens yet."),
        (apart.permute(0, 3, 1, 2), "A head's features should be neighbours: which of "
         "the two new axes changes slower?"),
        (apart, "The heads are the last axis: where do they belong?"),
        (by_token.permute(0, 2, 3, 1), "Tokens and features have changed places."),
        (by_token.transpose(0, 2), "The batch and the heads have changed places."),
        (by_token.permute(2, 0, 1, 3), "The heads stand before the batch."),
    ]  # fmt: skip


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
) -> Tensor:
    """Multi-head attention, in which one step or more may be another."""
    query, key, value = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    width = scaled_by or query.shape[-1]
    context = scaled_dot_product_attention(query, key, value, scale=width**-0.5)
    return join(context) @ w_o


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
        (join | by_input, f"One step is right; but {back}, and {scale}"),
        (join, f"Nearly: {back}."),
        (by_input, "One bug is left: the scale. How many products does a score sum?"),
        ({"scaled_by": inner}, "The scale takes the width of all heads together: how "
         "many products does a score sum?"),
        ({"scaled_by": 1}, "The scores are not scaled."),
    ]  # fmt: skip
    weights = w_q, w_k, w_v
    identity = torch.eye(inner)
    return [
        *((_layer(*given, **way), message) for way, message in ways),
        (_layer(x, *weights, w_o, 1), "This is one wide head, not several."),
        (_layer(x, *weights, identity, num_heads), "What the heads found stands side "
         "by side: what mixes it?"),
        (_layer(x, w_k, w_q, w_v, w_o, num_heads), "Queries and keys have changed "
         "places."),
    ]  # fmt: skip


def _view_alone(x: Tensor, num_heads: int) -> Tensor:
    batch, length, width = x.shape
    return x.view(batch, num_heads, length, width // num_heads)


def _view_back(context: Tensor) -> Tensor:
    batch, _, length, _ = context.shape
    return context.reshape(batch, length, -1)
