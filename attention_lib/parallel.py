"""One long text over several processes: keys and values travel round a ring.

Each of N processes keeps the queries of its own tokens. In N steps it receives the keys
and values of all: Liu, Zaharia and Abbeel (2023). Shapes as in ``attention``, with a
process's own tokens for Q and K.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from attention_lib.flash_attention import (
    OnlineSoftmax,
    TilePlan,
    first_derivative_only,
    flash_backward,
)
from attention_lib.masks import causal_mask
from attention_lib.precision import no_autocast
from attention_lib.validation import (
    require_choice,
    require_dim,
    require_flags,
    require_inputs,
    require_instance,
    require_not_negative,
    require_positive,
    require_value,
)

Order = Literal["zigzag", "plain"]


def rank_ranges(
    length: int, rank: int, num_processes: int, order: Order = "zigzag"
) -> list[range]:
    """Return the ranges of tokens that a process holds, in order.

    ``plain`` cuts the text into N pieces. ``zigzag`` cuts it into 2N, and process r
    gets pieces r and 2N - 1 - r, so that under a causal mask all processes have equally
    many keys to attend to: Grattafiori et al. (2024), section 3.3.2.

    Args:
        length: of the whole text; N divides it, and 2N if the order is ``zigzag``.
        rank: of the process, from 0.
        num_processes: N.
        order: ``zigzag`` or ``plain``.

    Raises:
        TypeError: a number that is not an int.
        ValueError: a length that cannot be cut evenly; a rank that does not exist; an
            unknown order.
    """
    require_positive(length=length, num_processes=num_processes)
    require_not_negative(rank=rank)
    require_choice("order", order, get_args(Order))
    if rank >= num_processes:
        raise ValueError(f"rank must be below {num_processes}; got {rank}")
    if num_processes == 1:
        return [range(length)]
    count = num_processes * (2 if order == "zigzag" else 1)
    if length % count:
        raise ValueError(
            f"length must be a multiple of {count}, for {num_processes} processes in "
            f"{order} order; got {length}"
        )
    size = length // count
    numbers = [rank] if order == "plain" else [rank, count - 1 - rank]
    return [range(number * size, (number + 1) * size) for number in numbers]


def shard_tokens(
    x: Tensor, rank: int, num_processes: int, *, order: Order = "zigzag", dim: int = 1
) -> Tensor:
    """Return a process's part of a whole text: see ``rank_ranges``.

    Args:
        x: with the tokens along ``dim``.
        rank: and the rest, as in ``rank_ranges``.
    """
    require_instance("x", x, Tensor)
    require_dim(x, dim)
    pieces = rank_ranges(x.shape[dim], rank, num_processes, order)
    return torch.cat([x.narrow(dim, part.start, len(part)) for part in pieces], dim)


def ring_pair_counts(
    length: int, num_processes: int, order: Order = "zigzag", *, causal: bool = True
) -> list[list[int]]:
    """Count the query–key pairs that each process computes in each step.

    In step s, process r attends to the keys of process (r - s) mod N.

    Args:
        length: and the rest: as in ``rank_ranges``.
        causal: whether a query attends to earlier keys only.

    Returns:
        One list per process, with one number per step.
    """
    require_flags(causal=causal)
    require_positive(num_processes=num_processes)
    ranks = range(num_processes)
    held = [rank_ranges(length, rank, num_processes, order) for rank in ranks]
    return [
        [
            sum(
                _pairs(query, key) if causal else len(query) * len(key)
                for query in held[rank]
                for key in held[(rank - step) % num_processes]
            )
            for step in ranks
        ]
        for rank in ranks
    ]


def _pairs(query: range, key: range) -> int:
    """Count the pairs in which the key does not come after the query."""
    return sum(min(max(position - key.start + 1, 0), len(key)) for position in query)


def ring_attention(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    value: Float[Tensor, "*#B K V"],
    *,
    causal: bool = False,
    order: Order = "zigzag",
    scale: float | None = None,
    group: Any = None,
) -> Float[Tensor, "*B Q V"]:
    """Mix the values of a text that is spread over processes, forward and backward.

    All processes of the group call it, with tensors of the same shapes. Each gets what
    ``scaled_dot_product_attention`` would return for its queries on the whole text.
    Keys and values are sent N - 1 times; in the backward pass again, and their
    gradients N times. Without a process group it is a ring of one.

    Args:
        query: of this process's tokens: see ``shard_tokens``.
        key: of the same tokens.
        value: of the same tokens.
        causal: hides the future, in the order of the whole text; keys that are entirely
            in the future are not computed.
        order: which tokens the processes hold.
        scale: multiplies the scores; 1/√D when left out.
        group: the processes, as returned by ``torch.distributed.new_group``; all when
            left out.

    Raises:
        TypeError: types or devices that differ.
        ValueError: shapes that do not fit together; with ``causal``, different numbers
            of queries and keys, or one that the order cannot cut; an unknown order.
    """
    require_inputs(query, key, value, None, scale=scale)
    require_value(query, key, value)
    require_flags(causal=causal)
    require_choice("order", order, get_args(Order))
    leading, length = query.shape[:-2], key.shape[-2]
    if causal and query.shape[-2] != length:
        raise ValueError(
            f"query and key must have the same length with causal=True; got "
            f"{query.shape[-2]} and {length}"
        )
    rank, size = _rank_and_size(group)
    ring = Ring(group, rank, size, query.shape[-2], length, causal, order,
                 query.shape[-1] ** -0.5 if scale is None else scale)  # fmt: skip
    if causal:
        rank_ranges(length * size, rank, size, order)  # raises where it cannot be cut
    key, value = (x.expand(*leading, *x.shape[-2:]) for x in (key, value))
    apply: Callable[..., Tensor] = _RingAttention.apply
    return apply(query, key, value, ring)


class Ring(NamedTuple):
    """A process's rank in the ring, and the settings that all processes share."""

    group: Any
    rank: int
    size: int
    query_len: int
    key_len: int
    causal: bool
    order: Order
    scale: float

    def tiles(self, step: int) -> Iterator[tuple[slice, slice, bool]]:
        """Yield own rows and held columns that meet, and whether some are future."""
        if not self.causal:
            yield slice(0, self.query_len), slice(0, self.key_len), False
            return
        origin = (self.rank - step) % self.size
        length = self.key_len * self.size
        for rows, query in _located(
            rank_ranges(length, self.rank, self.size, self.order)
        ):
            for columns, key in _located(
                rank_ranges(length, origin, self.size, self.order)
            ):
                if key.start < query.stop:  # otherwise all of it is in the future
                    # Pieces have one length: they are the same, or do not overlap.
                    yield rows, columns, key.start == query.start

    def send_to_next(self, x: Tensor) -> tuple[Tensor, list[Any]]:
        """Start sending to the next rank and receiving from the previous one."""
        incoming, group = torch.empty_like(x), self.group
        world: Any = dist.group.WORLD if group is None else group
        following, previous = (
            dist.get_global_rank(world, (self.rank + step) % self.size)
            for step in (1, -1)
        )
        both = [
            dist.P2POp(dist.isend, x, following, group),
            dist.P2POp(dist.irecv, incoming, previous, group),
        ]
        return incoming, dist.batch_isend_irecv(both)


def _located(pieces: Sequence[range]) -> Iterator[tuple[slice, range]]:
    """Yield each piece with its slice of the process's tokens."""
    start = 0
    for piece in pieces:
        yield slice(start, start + len(piece)), piece
        start += len(piece)


def _rank_and_size(group: Any) -> tuple[int, int]:
    if not (dist.is_available() and dist.is_initialized()):
        if group is not None:
            raise ValueError("group must be None: no process group was initialised")
        return 0, 1
    return dist.get_rank(group), dist.get_world_size(group)


def ring_forward(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*B K D"],
    value: Float[Tensor, "*B K V"],
    ring: Ring,
) -> tuple[Float[Tensor, "*B Q V"], Float[Tensor, "*B Q"]]:
    """Return the context and, for each query, log Σ exp(score).

    Liu, Zaharia and Abbeel (2023), section 3; sums in float32 at least.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    widths = key.shape[-1], value.shape[-1]
    held = torch.cat((key, value), dim=-1)  # sent as one tensor
    online: dict[int, OnlineSoftmax] = {}  # by the first row of a piece
    for step in range(ring.size):
        last = step == ring.size - 1
        incoming, waiting = (held, []) if last else ring.send_to_next(held)
        keys, values = held.to(wide).split(widths, dim=-1)
        for rows, columns, diagonal in ring.tiles(step):
            chunk = query[..., rows, :].to(wide)
            scores = chunk @ keys[..., columns, :].mT * ring.scale
            if diagonal:
                mask = causal_mask(chunk.shape[-2], device=chunk.device)
                scores = scores.masked_fill(~mask, -torch.inf)
            if rows.start not in online:
                online[rows.start] = OnlineSoftmax(
                    (*chunk.shape[:-1], widths[1]), dtype=wide, device=chunk.device
                )
            online[rows.start].add(scores, values[..., columns, :])
        for each in waiting:
            each.wait()
        held = incoming
    results = [online[start].result() for start in sorted(online)]
    context = torch.cat([each for each, _ in results], dim=-2)
    log_sum = torch.cat([each for _, each in results], dim=-1)
    return context, log_sum


class _RingAttention(torch.autograd.Function):
    """Connect the two passes for autograd; sums are in float32 at least."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, ring: Ring
    ) -> Tensor:
        with no_autocast(query):
            context, log_sum = ring_forward(query, key, value, ring)
        ctx.save_for_backward(query, key, value, context, log_sum)
        ctx.ring = ring
        return context.to(query.dtype)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        query, key, value, context, log_sum = ctx.saved_tensors
        ring, wide, widths = ctx.ring, context.dtype, (key.shape[-1], value.shape[-1])
        query, wide_grad = query.to(wide), grad.to(wide)
        grad_query = torch.zeros_like(query)
        held = torch.cat((key, value), dim=-1)
        grad_held = torch.zeros_like(held, dtype=wide)  # travels with its keys
        with no_autocast(query):
            for step in range(ring.size):
                last = step == ring.size - 1
                incoming, waiting = (held, []) if last else ring.send_to_next(held)
                keys, values = held.to(wide).split(widths, dim=-1)
                for rows, columns, diagonal in ring.tiles(step):
                    parts = flash_backward(
                        query[..., rows, :],
                        keys[..., columns, :],
                        values[..., columns, :],
                        context[..., rows, :],
                        log_sum[..., rows],
                        wide_grad[..., rows, :],
                        TilePlan(None, diagonal, ring.scale, (64, 64)),
                    )
                    grad_query[..., rows, :] += parts[0]
                    grad_held[..., columns, :] += torch.cat(parts[1:], dim=-1)
                for each in waiting:
                    each.wait()
                if ring.size > 1:  # after the last step each is back at its process
                    grad_held, waiting = ring.send_to_next(grad_held)
                    for each in waiting:
                        each.wait()
                held = incoming
        grad_key, grad_value = grad_held.split(widths, dim=-1)
        grads = (x.to(grad.dtype) for x in (grad_query, grad_key, grad_value))
        return *grads, None
