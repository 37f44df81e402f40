"""Checks of chapter 13: bytes, matrices absorbed and shrunk, a layer built."""

import math
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
from attention_lib.masks import causal_mask
from attention_lib.multi_head import merge_heads
from attention_lib.reproducibility import seeded
from attention_lib.rope import apply_rope, rope_angles

_NAMES = "q_proj", "kv_down_proj", "kv_up_proj", "out_proj"


def check_latent_bytes(answer: object) -> Verdict:
    """Checks the bytes of a cache of latents: 24 layers, 4,096 tokens."""
    layers, heads, head, rope, latent, queries, tokens = 24, 16, 64, 32, 192, 384, 4096
    one = layers * tokens * 2  # the bytes of one number per token and layer
    right = one * (latent + rope)
    mistakes = [
        (one * latent, "The rotated key is kept as well: it is no part of the latent."),
        (one * (latent + heads * rope), "All heads share one rotated key."),
        (one * heads * (latent + rope), "All heads share the latent and the rotated "
         "key."),
        (one * heads * (2 * head + rope), "Those are the keys and values of all heads: "
         "they are made of the latent and not kept."),
        (one * heads * 2 * head, "Those are the keys and values of all heads: they are "
         "made of the latent and not kept."),
        (one * (latent + rope + queries), "The latent of the queries is not kept: old "
         "queries are never needed."),
        (2 * right, "Twice that many. Keys and values come from the same latent, which "
         "is kept once; and a number takes 2 bytes, not 4."),
        (one * (2 * latent + rope), "Keys and values come from the same latent, which "
         "is kept once; the latent of the queries is not kept."),
        (right // 2, "Each number takes 2 bytes."),
        (right / 2**10, "Right in KiB: the question is for bytes."),
        (right / 2**20, "Right in MiB: the question is for bytes."),
        (right // layers, "That is one layer: there are 24."),
        (right // tokens, "That is one token: there are 4,096."),
        (one * rope, "That is the rotated key alone: where is the latent?"),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "192 + 32 numbers per token and layer, whatever the number of heads.",
        mistakes,
        "Not that many: first the numbers of one token in one layer.",
    )


def check_absorbed(answer: object) -> Verdict:
    """Checks the matrices that take a token straight to scores with latents."""
    rng = seeded(0)
    for width, latent, heads, head, so_far in [
        (5, 4, 2, 3, ""),
        (7, 3, 3, 2, "Right for two heads. For three:"),
        (4, 6, 1, 5, "Right for several heads. For a single one:"),
    ]:
        w_q = torch.randn(width, heads * head, generator=rng)
        w_uk = torch.randn(latent, heads * head, generator=rng)
        own = w_q.view(width, heads, head).transpose(0, 1)  # (H, M, D)
        up = w_uk.view(latent, heads, head).transpose(0, 1)  # (H, C, D)
        far = w_q.view(width, head, heads).permute(2, 0, 1)
        far_up = w_uk.view(latent, head, heads).permute(2, 0, 1)
        cut = w_q.reshape(heads, width, head), w_uk.reshape(heads, latent, head)
        right, joined = own @ up.mT, w_q @ w_uk.T
        mistakes = [
            (right.mT, "Each matrix is turned round: a token comes from the left, a "
             "latent from the right."),
            (joined, "The heads are added up: each has a matrix of its own."),
            (joined.expand(heads, -1, -1), "Every head gets the sum over all heads."),
            (right.transpose(0, 1), "The axis of the heads comes first."),
            (far @ far_up.mT, "The columns of a head stand side by side: head 0 comes "
             "first."),
            (far @ up.mT, "The columns of w_q belong to other heads: head 0 comes "
             "first."),
            (own @ far_up.mT, "The columns of w_uk belong to other heads: head 0 comes "
             "first."),
            (cut[0] @ up.mT, "w_q is cut along its rows: the heads are in its "
             "columns."),
            (own @ cut[1].mT, "w_uk is cut along its rows: the heads are in its "
             "columns."),
            (cut[0] @ cut[1].mT, "Both are cut along their rows: the heads are in "
             "their columns."),
            (right / math.sqrt(head), "The scores are not scaled here."),
            (own @ up.flip(0).mT, "The heads get each other's up-projections."),
        ]  # fmt: skip
        if wrong := judge(answer, (w_q, w_uk, heads), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "One matrix per head, from a token to what latents are for.")


def check_low_rank(answer: object) -> Verdict:
    """Checks the best approximation of a matrix through so many numbers."""
    rng = seeded(0)
    for rows, columns, width, so_far in [
        (5, 7, 2, ""),
        (6, 4, 1, "Right for a wide matrix. For a tall one:"),
        (4, 5, 3, "Right for one and two numbers. For three:"),
    ]:
        weight = torch.randn(rows, columns, generator=rng)
        u, s, vh = torch.linalg.svd(weight, full_matrices=False)

        def made(s: Tensor, cut: Any, *, u: Tensor = u, vh: Tensor = vh) -> Tensor:
            return u[:, cut] * s[cut] @ vh[cut]

        kept, rest = slice(width), slice(width, None)
        columns_kept = torch.arange(columns) < width
        rows_kept = (torch.arange(rows) < width)[:, None]
        mistakes = [
            (weight, "Nothing is left out: keep so many directions only."),
            (made(s, rest), "That is what is to be left out: keep the largest singular "
             "values."),
            (made(s, slice(-width, None)), "The smallest singular values are kept: "
             "they come last."),
            (made(torch.ones_like(s), kept), "The singular values are missing between "
             "the two sides."),
            (made(s.sqrt(), kept), "The roots of the singular values: both sides "
             "together must hold the whole value."),
            (made(s.square(), kept), "The singular values enter twice."),
            (made(s, slice(width + 1)), "One direction too many."),
            (made(s, slice(width - 1)), "One direction too few."),
            (weight * columns_kept, "The first columns of the matrix itself are kept: "
             "find the best directions."),
            (weight * rows_kept, "The first rows of the matrix itself are kept: find "
             "the best directions."),
            (u[:, kept] * s[kept], "That is the way down alone: multiply by the way "
             "up."),
            (vh[kept], "That is the way up alone: the way down comes first."),
            (made(s, kept).T, "The matrix is turned round."),
        ]  # fmt: skip
        right = made(s, kept)
        if wrong := judge(answer, (weight, width), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "No other matrix through so few numbers is closer.")


def check_latent_attention(answer: object) -> Verdict:
    """Checks a class of causal latent attention, built by the reader."""
    for sizes, so_far in [
        ((10, 3, 4, 5, 4), ""),
        ((7, 1, 3, 2, 4), "Right for three heads. For a single one:"),
        ((6, 2, 9, 3, 6), "Right for small latents. For a latent wider than a token:"),
    ]:
        layer = make_layer(answer, *sizes)
        if isinstance(layer, Verdict):
            return layer if layer is NOT_YET or not so_far else after(so_far, layer)
        wrong = _parameters(layer, *sizes) or _results(layer, *sizes)
        if wrong is not None:
            return wrong if wrong is NOT_YET or not so_far else after(so_far, wrong)
    return Verdict(True, "Latent attention: what DeepSeek-V3 does, without its norms.")


def _parameters(
    layer: nn.Module, d_model: int, heads: int, latent: int, head: int, rope: int
) -> Verdict | None:
    """Says which parameter is missing, too many, or of a wrong shape."""
    shapes = [
        (heads * (head + rope), d_model),
        (latent + rope, d_model),
        (heads * 2 * head, latent),
        (d_model, heads * head),
    ]
    wanted = dict(zip((f"{name}.weight" for name in _NAMES), shapes, strict=True))
    found = {name: tuple(own.shape) for name, own in layer.named_parameters()}
    given = torch.zeros(2, 5, d_model), torch.zeros(5, rope // 2)
    if not found and run(layer.forward, *given) is NOT_YET:
        return NOT_YET
    for name in [*wanted, *found]:
        if name not in found:
            return Verdict(False, f"The layer has no parameter {name}: is it an "
                           "attribute of self?")  # fmt: skip
        if name not in wanted:
            return Verdict(False, f"Too many parameters: {name}. Four weights without "
                           "a bias are all.")  # fmt: skip
        if found[name] != wanted[name]:
            return Verdict(False, f"{name} is {found[name]}; it must be "
                           f"{wanted[name]} here.")  # fmt: skip
    return None


def _results(
    layer: nn.Module, d_model: int, heads: int, latent: int, head: int, rope: int
) -> Verdict | None:
    """Compares the output with the right one, and with those that mistakes give."""
    own, rng = dict(layer.eval().named_parameters()), seeded(0)
    with torch.no_grad():
        for name in sorted(own):
            own[name].copy_(torch.randn(own[name].shape, generator=rng) / 2)
    weights = [own[f"{name}.weight"].detach().T for name in _NAMES]
    x = torch.randn(2, 5, d_model, generator=rng)
    angles = rope_angles(torch.arange(5), rope)
    given: Any = (x, angles, *weights, heads, head)
    mistakes: Mistakes = [
        (_latent(*given, causal=False), "A token sees the future: where is the mask?"),
        (_latent(*given, flipped=True), "A token sees the future, not the past: is the "
         "triangle flipped?"),
        (_latent(*given, scaled_by=1), "The scores are not scaled."),
        (_latent(*given, scaled_by=head), "The scale forgets the rotated part: a key "
         "has head_dim + rope_dim numbers."),
        (_latent(*given, scaled_by=latent), "The scale takes the width of the latent: "
         "it is that of a key, head_dim + rope_dim."),
        (_latent(*given, scaled_by=latent + rope), "The scale takes the width of the "
         "latent: it is that of a key, head_dim + rope_dim."),
        (_latent(*given, turn_query=False), "The queries' rotated part is not turned."),
        (_latent(*given, turn_key=False), "The shared key is not turned."),
        (_latent(*given, turn_query=False, turn_key=False), "Nothing is turned: where "
         "do the angles go?"),
        (_latent(*given, layout="half"), "The pairs are i and i + R/2: take "
         'layout="interleaved".'),
        (_latent(*given, swapped=True), "Keys and values have changed places in the "
         "up-projection: the key's rows come first in each head."),
        (_latent(*given, rope_first=True), "The parts of a query have changed places: "
         "first what is not turned, then what is."),
        (_latent(*given, key_first=True), "The parts of kv_down_proj have changed "
         "places: first the latent, then the key that is turned."),
        (_latent(*given, apart=True), "The rows of the up-projection stand head after "
         "head, not all keys first."),
        (_latent(*given, shared=False), "The scores miss the rotated part."),
        (_latent(*given, back=True), "The way back mixes tokens and heads: which axes "
         "change places before the heads stand side by side?"),
    ]  # fmt: skip
    return judge(layer.forward, (x, angles), _latent(*given), mistakes)


def _latent(
    x: Tensor,
    angles: Tensor,
    w_q: Tensor,
    w_down: Tensor,
    w_up: Tensor,
    w_o: Tensor,
    heads: int,
    head: int,
    *,
    causal: bool = True,
    flipped: bool = False,
    scaled_by: int = 0,
    turn_query: bool = True,
    turn_key: bool = True,
    layout: Any = "interleaved",
    swapped: bool = False,
    rope_first: bool = False,
    key_first: bool = False,
    apart: bool = False,
    shared: bool = True,
    back: bool = False,
) -> Tensor:
    """Latent attention in which one step or more may be another."""
    rope, latent_dim = 2 * angles.shape[-1], w_up.shape[0]
    query = (x @ w_q).unflatten(-1, (heads, -1)).transpose(1, 2)
    cut = [rope, head] if rope_first else [head, rope]
    plain, turned = query.split(cut, dim=-1)[:: -1 if rope_first else 1]
    cut = [rope, latent_dim] if key_first else [latent_dim, rope]
    latent, one = (x @ w_down).split(cut, dim=-1)[:: -1 if key_first else 1]
    if apart:
        grown = (latent @ w_up).unflatten(-1, (2, heads, head)).permute(2, 0, 3, 1, 4)
    else:
        grown = (latent @ w_up).unflatten(-1, (heads, 2, head)).permute(3, 0, 2, 1, 4)
    key, value = grown.flip(0) if swapped else grown  # (B, H, T, D) each
    one = one[:, None]
    if turn_query:
        turned = apply_rope(turned, angles, layout=layout)
    if turn_key:
        one = apply_rope(one, angles, layout=layout)
    scores = plain @ key.mT + (turned @ one.mT if shared else 0)
    scores = scores / math.sqrt(scaled_by or head + rope)
    if causal:
        mask = causal_mask(x.shape[1])
        scores = scores.masked_fill(~(mask.T if flipped else mask), -math.inf)
    context = scores.softmax(dim=-1) @ value
    joined = context.reshape(*x.shape[:2], -1) if back else merge_heads(context)
    return joined @ w_o
