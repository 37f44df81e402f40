"""Attention in tiles: the same result, without a table of scores.

Softmax over pieces: Milakov and Gimelshein (2018), algorithm 3. Forward and backward in
tiles: Dao (2023), algorithms 1 and 2. Shapes as in ``attention``. Masks are boolean,
True means "may attend", and an empty row gets zeros.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lib.precision import no_autocast, widened
from attention_lib.validation import (
    require_context,
    require_dtype,
    require_flags,
    require_function,
    require_inputs,
    require_piece,
    require_positive,
    require_tile,
    require_value,
)


class OnlineSoftmax:
    """Mix values by softmax weights while the scores arrive in pieces.

    For each query it keeps the largest score so far, the sum of the exponentials, and
    the sum of the values times them. When a larger score arrives, both sums are
    rescaled to it.

    Args:
        shape: of the result, (..., Q, V).
        dtype: the type of the sums; float32 when left out.
        device: where the sums are kept.

    Raises:
        TypeError: not a shape, or not a dtype.
        ValueError: a shape of fewer than two axes, or with a size below 1; scores or
            values that do not fit it; a dtype that is not a float type.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        require_context(shape)
        if dtype is not None:
            require_dtype(dtype)
        self.context = torch.zeros(shape, dtype=dtype, device=device)  # undivided
        self.total = self.context.new_zeros(*shape[:-1], 1)
        self.largest = self.total.new_full(self.total.shape, -torch.inf)

    def add(
        self, scores: Float[Tensor, "*B Q K"], value: Float[Tensor, "*#B K V"]
    ) -> None:
        """Add the scores of some keys, and the values of these keys.

        Args:
            scores: scaled; -inf where a query may not attend.
            value: one row for each column of the scores.
        """
        require_piece(scores, value, self.context)
        self.add_checked(scores, value)

    def add_checked(self, scores: Tensor, value: Tensor) -> None:
        """Do the same without the check, for pieces that are known to fit."""
        largest = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))
        # For a row that has seen nothing, -inf - -inf would be NaN.
        level = largest.where(largest > -torch.inf, 0)
        shrink = (self.largest - level).exp()  # 1 where the largest stayed
        weights = (scores - level).exp()
        self.total = self.total * shrink + weights.sum(dim=-1, keepdim=True)
        with no_autocast(value):
            self.context = self.context * shrink + weights @ value.to(weights.dtype)
        self.largest = largest

    def result(self) -> tuple[Float[Tensor, "*B Q V"], Float[Tensor, "*B Q"]]:
        """Return the mixed values and, for each query, log Σ exp(score).

        A query that could attend to nothing gets zeros, and -inf.
        """
        seen = self.total != 0
        context = self.context / self.total.where(seen, 1)
        return context, (self.largest + self.total.log()).squeeze(-1)


def flash_attention(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    value: Float[Tensor, "*#B K V"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    tile: int | tuple[int, int] = 64,
) -> Float[Tensor, "*B Q V"]:
    """Mix the values by the attention weights, tile by tile, forward and backward.

    Equal to ``scaled_dot_product_attention`` up to rounding. The backward pass keeps
    the inputs, the result and one number per query: that grows with Q + K, not with
    Q · K. A mask is kept as it was given. Use leading axes instead of ``torch.vmap``,
    which is refused, like the other transforms of ``torch.func`` and second
    derivatives.

    Args:
        query: what each row looks for.
        key: what each entry is found by.
        value: the content of each entry.
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).
        causal: hides the future as well, aligned as ``causal_mask``; tiles that are
            entirely in the future are not computed.
        scale: multiplies the scores; 1/√D when left out.
        tile: rows and columns of a tile: one number, or (queries, keys). A last tile
            is smaller where the tile does not divide the length.

    Raises:
        TypeError: a mask that is not boolean; types or devices that differ.
        ValueError: shapes that do not fit together; an axis of length zero; a tile
            below 1.
    """
    inputs = query, key, value, mask
    return attend_in_tiles(
        flash_forward, *inputs, causal=causal, scale=scale, tile=tile
    )


class TilePlan(NamedTuple):
    """What both passes share: the mask, the scale, and the tiles."""

    mask: Tensor | None  # (..., Q, K)
    causal: bool
    scale: float
    tile: tuple[int, int]

    def tiles(self, rows: slice, key_len: int, ahead: int) -> Iterator[slice]:
        """Return the pieces of the keys that some of these queries may attend to.

        Args:
            rows: a piece of the queries.
            key_len: the number of keys.
            ahead: the position of a query, counted in keys, minus its row: K - Q,
                since the last query is aligned with the last key.
        """
        end = min(key_len, rows.stop + ahead) if self.causal else key_len
        return pieces(max(end, 0), self.tile[1])

    def scores(
        self, query: Tensor, key: Tensor, rows: slice, columns: slice
    ) -> Float[Tensor, "*B q k"]:
        """Compute one tile of scores, -inf where a query may not attend."""
        scores = query[..., rows, :] @ key[..., columns, :].mT * self.scale
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask[..., rows, columns], -torch.inf)
        ahead = key.shape[-2] - query.shape[-2]
        if self.causal and columns.stop > rows.start + ahead + 1:  # partly future
            position = torch.arange(rows.start, rows.stop, device=key.device) + ahead
            future = torch.arange(columns.start, columns.stop, device=key.device)
            scores = scores.masked_fill(future > position[:, None], -torch.inf)
        return scores


def attend_in_tiles(
    forward: Callable[[Tensor, Tensor, Tensor, TilePlan], tuple[Tensor, Tensor]],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
    scale: float | None,
    tile: int | tuple[int, int],
) -> Tensor:
    """Check the arguments of ``flash_attention``, and run one kind of forward pass.

    Args:
        forward: as ``flash_forward``; the backward pass is always ``flash_backward``.
        query: and the rest: as in ``flash_attention``.
    """
    require_function("forward", forward)
    require_inputs(query, key, value, mask, scale=scale)
    require_value(query, key, value)
    require_flags(causal=causal)
    leading, scores_shape = query.shape[:-2], (*query.shape[:-1], key.shape[-2])
    plan = TilePlan(
        None if mask is None else mask.broadcast_to(scores_shape),
        causal,
        query.shape[-1] ** -0.5 if scale is None else scale,
        require_tile(tile),
    )
    key, value = (x.expand(*leading, *x.shape[-2:]) for x in (key, value))
    apply: Callable[..., tuple[Tensor, Tensor]] = _Flash.apply
    return apply(forward, query, key, value, plan)[0]


def pieces(length: int, size: int) -> Iterator[slice]:
    """Cut a length into slices of one size; the last may be smaller."""
    require_positive(size=size)
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def flash_forward(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*B K D"],
    value: Float[Tensor, "*B K V"],
    plan: TilePlan,
) -> tuple[Float[Tensor, "*B Q V"], Float[Tensor, "*B Q"]]:
    """Return the context and, for each query, log Σ exp(score).

    Dao (2023), algorithm 1.
    """
    query, key, value = widened(query, key, value)
    query_len, key_len = query.shape[-2], key.shape[-2]
    contexts, log_sums = [], []
    for rows in pieces(query_len, plan.tile[0]):
        shape = (*query.shape[:-2], rows.stop - rows.start, value.shape[-1])
        online = OnlineSoftmax(shape, dtype=value.dtype, device=value.device)
        for columns in plan.tiles(rows, key_len, key_len - query_len):
            scores = plan.scores(query, key, rows, columns)
            online.add_checked(scores, value[..., columns, :])
        context, log_sum = online.result()
        contexts.append(context)
        log_sums.append(log_sum)
    return torch.cat(contexts, dim=-2), torch.cat(log_sums, dim=-1)


def flash_backward(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*B K D"],
    value: Float[Tensor, "*B K V"],
    context: Float[Tensor, "*B Q V"],
    log_sum: Float[Tensor, "*B Q"],
    grad_context: Float[Tensor, "*B Q V"],
    plan: TilePlan,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value: Dao (2023), algorithm 2.

    Each tile of weights is recomputed as exp(score - log Σ exp(score)), used, and
    dropped.
    """
    query_len, key_len = query.shape[-2], key.shape[-2]
    grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    grad_query, grad_key, grad_value = grads
    # The part of each row's gradient that softmax subtracts from all its scores.
    mean = (grad_context * context).sum(dim=-1, keepdim=True)  # (..., Q, 1)
    level = log_sum.where(log_sum > -torch.inf, 0).unsqueeze(-1)
    for rows in pieces(query_len, plan.tile[0]):
        grad_rows = grad_context[..., rows, :]
        for columns in plan.tiles(rows, key_len, key_len - query_len):
            scores = plan.scores(query, key, rows, columns)
            weights = (scores - level[..., rows, :]).exp()  # (..., q, k)
            grad_value[..., columns, :] += weights.mT @ grad_rows
            grad_weights = grad_rows @ value[..., columns, :].mT
            grad_scores = weights * (grad_weights - mean[..., rows, :]) * plan.scale
            grad_query[..., rows, :] += grad_scores @ key[..., columns, :]
            grad_key[..., columns, :] += grad_scores.mT @ query[..., rows, :]
    return grads


class _OfFirstOrder(torch.autograd.Function):
    """Pass gradients through, and refuse to differentiate them."""

    @staticmethod
    def forward(ctx: Any, grads: tuple[Any, ...], *_: Any) -> tuple[Any, ...]:
        return grads

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(
            "attention in tiles has no second derivative: use "
            "scaled_dot_product_attention"
        )


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse second derivatives; ``once_differentiable`` would make some of them 0."""

    @wraps(backward)
    def checked(ctx: Any, *grads: Tensor) -> Any:
        with torch.no_grad():
            found = backward(ctx, *grads)
        if torch.is_grad_enabled():  # with create_graph=True
            given = *ctx.saved_tensors, *grads
            found = _OfFirstOrder.apply(found, *given)  # type: ignore[no-untyped-call]
        return found

    return checked


class _Flash(torch.autograd.Function):
    """Connect the two passes for autograd; sums are in float32 at least."""

    @staticmethod
    def forward(
        ctx: Any,
        forward: Callable[..., tuple[Tensor, Tensor]],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: TilePlan,
    ) -> tuple[Tensor, Tensor]:
        with no_autocast(query):
            context, log_sum = forward(query, key, value, plan)
        context = context.to(query.dtype)
        ctx.save_for_backward(query, key, value, context, log_sum)
        ctx.plan = plan
        ctx.mark_non_differentiable(log_sum)
        return context, log_sum

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_context: Tensor, _: Tensor) -> tuple[Any, ...]:
        query, key, value, context, log_sum, grad = widened(
            *ctx.saved_tensors, grad_context
        )
        with no_autocast(grad_context):
            grads = flash_backward(query, key, value, context, log_sum, grad, ctx.plan)
        return None, *(grad.to(grad_context.dtype) for grad in grads), None
