"""Checks of chapter 11: a cache counted, heads averaged, a sink, a layer built."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    judge,
    judge_number,
    run,
)
from attention_lib.masks import causal_mask
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded

_NAMES = ("q", "k", "v", "out")


def check_shared_bytes(answer: object) -> Verdict:
    """Checks the bytes of a cache: 24 layers, half of them with a window of 128."""
    layers, heads, shared, head_dim, tokens, window, size = 24, 16, 4, 64, 1024, 128, 2
    row = 2 * shared * head_dim * size  # of one token in one layer
    right = layers // 2 * (tokens + window) * row
    mistakes = [
        (layers * tokens * row, "The layers with a window keep 128 tokens only."),
        (layers * window * row, "Only every other layer has a window."),
        (right // 2, "Keys and values are both kept, and each number takes 2 bytes."),
        (right // 4, "Keys and values are both kept, and each number takes 2 bytes."),
        (right * heads // shared, "The cache holds the 4 heads of keys and values, not "
         "the 16 of the queries."),
        (layers // 2 * tokens * row, "The layers with a window keep something, too."),
        (layers // 2 * row + layers // 2 * window * row, "That is one token in the "
         "layers without a window: there are 1,024."),
        (layers * row, "That is what one token adds: there are 1,024."),
        (right // layers, "That is one layer's share: there are 24."),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "12 layers keep 1,024 tokens, 12 keep 128: 1,024 bytes per token and layer.",
        mistakes,
        "Not that many: first the bytes of one token in one layer, then the tokens.",
    )


def check_to_groups(answer: object) -> Verdict:
    """Checks a projection whose heads become fewer: the means of neighbours."""
    rng = seeded(0)
    for heads, shared, head_dim, width, so_far in [
        (6, 2, 2, 5, ""),
        (4, 4, 3, 5, "Right for six heads that become two. For four that stay four:"),
        (4, 1, 3, 7, "Right for several groups. For a single one:"),
    ]:
        weight = torch.randn(heads * head_dim, width, generator=rng)
        own = weight.view(heads, head_dim, width)
        cut = own.view(shared, heads // shared, head_dim, width)
        strided = own.view(heads // shared, shared, head_dim, width)
        rows = weight.view(shared * head_dim, heads // shared, width)
        mistakes = [
            (cut.sum(1).flatten(0, 1), "The heads are added: a mean is wanted."),
            (cut[:, 0].flatten(0, 1), "The first head of each group is taken: where "
             "are the others?"),
            (cut[:, -1].flatten(0, 1), "The last head of each group is taken: where "
             "are the others?"),
            (strided.mean(0).flatten(0, 1), "Heads far from each other are averaged: "
             "neighbours share a head of keys."),
            (rows.mean(1), "Single rows are averaged, not whole heads: a head is "
             "head_dim rows."),
            (cut.mean(1), "The heads stand apart: put their rows below each other."),
            (own.mean(0).repeat(shared, 1), "All heads are averaged: each group has a "
             "mean of its own."),
            (cut.mean(1, keepdim=True).expand(cut.shape).reshape(weight.shape), "Each "
             "mean is repeated for its group: one copy is enough."),
            (cut.median(1).values.flatten(0, 1), "This is a median: a mean is wanted."),
            (cut.mean(2).flatten(0, 1), "The rows inside a head are averaged: average "
             "the heads of a group, row by row."),
        ]  # fmt: skip
        right, given = cut.mean(1).flatten(0, 1), (weight, heads, shared)
        if wrong := judge(answer, given, right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "Each group's mean: the start that Ainslie et al. found best.")


def check_sink_weights(answer: object) -> Verdict:
    """Checks a softmax with one learned score per head that brings no value."""
    rng = seeded(0)
    # Exponentials of 1,000 overflow in float64, too.
    none, high = torch.zeros(1), torch.tensor(1e3)
    apart, single = torch.tensor([[1e3], [-1e3]]), 1e3 * (torch.arange(4) == 1)
    for heads, queries, keys, level, low, so_far in [
        (3, 4, 5, none, none, ""),
        (2, 2, 2, high, high, "Right for small scores. For scores near 1,000:"),
        (2, 2, 3, apart, -high, "Right where all are large. Where one row is near "
         "1,000 and another near -1,000:"),
        (3, 2, 4, single, none, "Right where a row's scores are alike. Where one of "
         "them is near 1,000:"),
    ]:  # fmt: skip
        scores = torch.randn(2, heads, queries, keys, generator=rng) + level
        sinks = torch.randn(heads, generator=rng) + low
        column = sinks[:, None, None].expand(2, heads, queries, 1)
        whole = torch.cat((scores, column), dim=-1).softmax(dim=-1)
        right = whole[..., :-1]
        plain = scores.softmax(dim=-1)
        total = scores.exp().sum(-1, keepdim=True)
        mistakes = [
            (plain, "The rows sum to 1, as without a sink: its score takes part in the "
             "softmax, and its share is lost."),
            (whole, "The sink's own column is still there: it brings no value."),
            (torch.cat((column, scores), -1).softmax(-1)[..., :-1], "The last key is "
             "cut off, and the sink is kept."),
            (plain * column.sigmoid(), "This multiplies each row by a number that does "
             "not look at the scores."),
            (scores.exp() / (total + column), "The sink itself is added to the sum: "
             "its exponential belongs there."),
            (scores.exp() / (total + 1), "A sink of 0 for all heads: use those given."),
            (torch.cat((scores, torch.zeros_like(column)), -1).softmax(-1)[..., :-1],
             "A sink of 0 for all heads: use those given."),
            (torch.cat((scores, -column), -1).softmax(-1)[..., :-1], "The sign of the "
             "sinks is turned."),
            (torch.cat((scores, column.exp()), -1).softmax(-1)[..., :-1], "The sinks "
             "are scores: the softmax takes their exponential itself."),
            ((top := scores - scores.amax(-1, keepdim=True)).exp()
             / (top.exp().sum(-1, keepdim=True) + column.exp()), "The scores are "
             "shifted by their maximum, the sink is not: shift both."),
            (torch.cat((scores, column.flip(1)), -1).softmax(-1)[..., :-1], "The heads "
             "get each other's sinks."),
        ]  # fmt: skip
        if wrong := judge(answer, (scores, sinks), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "The rows sum to less than 1: the sink keeps the rest.")


def check_grouped_query(answer: object) -> Verdict:
    """Checks a class of causal attention with grouped queries, built by the reader."""
    if isinstance(answer, nn.Module):
        return Verdict(False, "Give the class itself, not a layer that it makes.")
    for d_model, heads, shared, so_far in [
        (18, 6, 2, ""),
        (8, 2, 2, "Right for groups of three. For as many heads of keys as queries:"),
        (8, 4, 1, "Right for several heads of keys. For a single one:"),
    ]:
        with torch.random.fork_rng(devices=[]):
            layer = run(answer, d_model, heads, shared)
        if isinstance(layer, Verdict):
            return layer
        if not isinstance(layer, nn.Module):
            came = type(layer).__name__
            return Verdict(False, f"Your function returns a {came}: a layer is wanted.")
        wrong = _parameters(layer, d_model, heads, shared) or _results(
            layer, d_model, heads, shared
        )
        if wrong is not None:
            if wrong is NOT_YET or not so_far:
                return wrong
            return Verdict(False, f"{so_far} {wrong.message}")
    return Verdict(True, "Multi-head, grouped and multi-query attention in one class.")


def _parameters(
    layer: nn.Module, d_model: int, heads: int, shared: int
) -> Verdict | None:
    """Says which parameter is missing, too many, or of a wrong shape."""
    kept = d_model // heads * shared
    rows = {"q": d_model, "k": kept, "v": kept, "out": d_model}
    wanted = {f"{name}_proj.weight": (rows[name], d_model) for name in _NAMES}
    found = {name: tuple(own.shape) for name, own in layer.named_parameters()}
    if not found and run(layer.forward, torch.zeros(2, 5, d_model)) is NOT_YET:
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


def _results(layer: nn.Module, d_model: int, heads: int, shared: int) -> Verdict | None:
    """Compares the output with the right one, and with those that mistakes give."""
    own, rng = dict(layer.eval().named_parameters()), seeded(0)
    with torch.no_grad():
        for name in sorted(own):
            own[name].copy_(torch.randn(own[name].shape, generator=rng))
    weights = [own[f"{name}_proj.weight"].detach().T for name in _NAMES]
    x = torch.randn(2, 5, d_model, generator=rng)
    given: Any = (x, *weights, heads, shared)
    identity: Any = (*given[:4], torch.eye(d_model), heads, shared)
    mistakes: Mistakes = [
        (_grouped(*given, order="repeat"), "The query heads read the wrong heads of "
         "keys: neighbours share one."),
        (_grouped(*given, values="repeat"), "Keys and values are shared out in "
         "different orders."),
        (_grouped(*given, causal=False), "A token sees the future: where is the mask?"),
        (_grouped(*given, flipped=True), "A token sees the future, not the past: is "
         "the triangle flipped?"),
        (_grouped(*given, scaled_by=1), "The scores are not scaled."),
        (_grouped(*given, scaled_by=d_model), "The scale takes the width of the model, "
         "not of a head."),
        (_grouped(*given, scaled_by=d_model // heads * shared), "The scale takes the "
         "width of all shared heads together, not of one."),
        (_grouped(*given, scaled_by=(d_model // heads) ** 2), "The scores are divided "
         "by the width of a head: by its square root is meant."),
        (_grouped(*given, hidden=0.0), "Hidden scores are 0, and e⁰ is 1: they still "
         "get weight."),
        (_grouped(*given, late=True), "The mask comes after the softmax: the other "
         "weights then sum to less than 1."),
        (_grouped(*given, over=-2), "The softmax goes over the queries: each query's "
         "weights sum to 1, so it goes over the keys."),
        (x + _grouped(*given), "The input is added: that is the block's work."),
        (_grouped(*given, back=True), "The way back mixes tokens and heads: which axes "
         "change places before the heads stand side by side?"),
        (_grouped(*identity), "What the heads found stands side by side: what mixes "
         "it?"),
        (_grouped(x, weights[0], weights[2], weights[1], weights[3], heads, shared),
         "Keys and values have changed places."),
    ]  # fmt: skip
    return judge(layer.forward, (x,), _grouped(*given), mistakes)


def _grouped(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    heads: int,
    shared: int,
    *,
    order: str = "",
    values: str = "",
    causal: bool = True,
    flipped: bool = False,
    scaled_by: int = 0,
    hidden: float = -math.inf,
    late: bool = False,
    over: int = -1,
    back: bool = False,
) -> Tensor:
    """Attention with grouped queries, in which one step or more may be another."""
    query = split_heads(x @ w_q, heads)
    key = _shared_out(split_heads(x @ w_k, shared), heads // shared, order)
    value = _shared_out(split_heads(x @ w_v, shared), heads // shared, values or order)
    scores = query @ key.mT / math.sqrt(scaled_by or query.shape[-1])
    mask = causal_mask(x.shape[1])
    mask = mask.T if flipped else mask
    if causal and not late:
        scores = scores.masked_fill(~mask, hidden)
    weights = scores.softmax(dim=over)
    context = (weights * mask if late else weights) @ value
    joined = context.reshape(*x.shape[:2], -1) if back else merge_heads(context)
    return joined @ w_o


def _shared_out(x: Tensor, groups: int, order: str) -> Tensor:
    if order == "repeat":
        return x.repeat(1, groups, 1, 1)
    return x.repeat_interleave(groups, dim=1)
