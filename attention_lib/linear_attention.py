"""Linear attention and the gated delta rule: a state of fixed size instead of all keys.

Both are causal, and each is computed in three forms that are equal: "parallel" (a table
of all queries and keys at once), "recurrent" (one token at a time, with a state), and
"chunked" (a table within each chunk, the state between chunks). Shapes: B batch and
heads, T length, D width of queries and keys, V of values.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attention_lib.precision import no_autocast, widened
from attention_lib.validation import (
    require_choice,
    require_floats,
    require_positive,
    require_range,
    require_sequence,
    require_state,
)

FORMS = ("parallel", "chunked", "recurrent")


def linear_attention(
    query: Float[Tensor, "*B T D"],
    key: Float[Tensor, "*B T D"],
    value: Float[Tensor, "*B T V"],
    *,
    form: str = "parallel",
    chunk_len: int = 64,
) -> Float[Tensor, "*B T V"]:
    """Mix the values by φ(query)·φ(key) instead of exp(query·key), φ(x) = elu(x) + 1.

    Katharopoulos et al. (2020). Without the exponential, the brackets may move:
    (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V). Half precision is summed in float32.

    Args:
        query: what each row looks for.
        key: what each entry is found by.
        value: the content of each entry.
        form: how it is computed; the results are equal up to rounding.
        chunk_len: tokens per chunk, for the form "chunked".

    Raises:
        TypeError: types that differ; a chunk_len that is not an int.
        ValueError: shapes that differ; an unknown form; a chunk_len below 1.
    """
    require_sequence(query, key, value)
    length, dtype = _chunk_len(form, chunk_len, query.shape[-2]), query.dtype
    query, key, value = widened(query, key, value)
    query, key = elu_plus_one(query), elu_plus_one(key)
    # A column of ones sums the weights along with the values.
    value = F.pad(value, (0, 1), value=1.0)  # (..., T, V + 1)
    state = value.new_zeros(*query.shape[:-2], query.shape[-1], value.shape[-1])
    out = []
    with no_autocast(query):
        for q, k, v in _chunks(length, query, key, value):
            if form == "recurrent":
                state = state + k.mT @ v  # (..., D, V + 1)
                out.append(q @ state)
            else:
                out.append((q @ k.mT).tril() @ v + q @ state)
                state = state + k.mT @ v
    mixed, total = torch.cat(out, dim=-2).split([value.shape[-1] - 1, 1], dim=-1)
    return (mixed / total.where(total > 0, 1)).to(dtype)


def elu_plus_one(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Make numbers positive: x + 1 above 0, eˣ below, exact where elu rounds to -1."""
    require_floats("x", x)
    return x.clamp(max=0).exp() + x.relu()


def gated_delta_rule(
    query: Float[Tensor, "*B T D"],
    key: Float[Tensor, "*B T D"],
    value: Float[Tensor, "*B T V"],
    log_decay: Float[Tensor, "*B T"],
    beta: Float[Tensor, "*B T"],
    *,
    form: str = "chunked",
    chunk_len: int = 64,
) -> Float[Tensor, "*B T V"]:
    """Update a state with the delta rule, token by token, and read it with the queries.

    For each token, S ← exp(log_decay) S; S ← S + β k (v - Sᵀk)ᵀ; out = Sᵀq: the gated
    delta rule of Yang et al. (2025). Half precision is computed in float32.

    Args:
        query: reads from the state; scaled by the caller.
        key: where to write; of length 1, or the state may grow without end.
        value: what to write.
        log_decay: at most 0; how much of the state is kept, as a logarithm; -inf clears
            it.
        beta: how much of the value stored at the key is replaced, from 0 to 1; above
            1, up to 2, what was stored changes its sign (Grazzi et al., 2025).
        form: how it is computed; the results are equal up to rounding.
        chunk_len: tokens per chunk, for the form "chunked".

    Raises:
        TypeError: types that differ; a chunk_len that is not an int.
        ValueError: shapes that differ; an unknown form; a chunk_len below 1; on the
            CPU, a log_decay or a beta out of its range.
    """
    require_sequence(query, key, value, log_decay=log_decay, beta=beta)
    require_range(-math.inf, 0.0, log_decay=log_decay)
    require_range(0.0, 2.0, beta=beta)
    length, dtype = _chunk_len(form, chunk_len, query.shape[-2]), query.dtype
    columns = log_decay.unsqueeze(-1), beta.unsqueeze(-1)  # (..., T, 1)
    tensors = widened(query, key, value, *columns)
    state = tensors[2].new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])
    out = []
    step = delta_step if form == "recurrent" else delta_chunk
    for q, k, v, decay, share in _chunks(length, *tensors):
        context, state = step(q, k, v, decay, share, state)
        out.append(context)
    return torch.cat(out, dim=-2).to(dtype)


def delta_step(
    query: Float[Tensor, "*B 1 D"],
    key: Float[Tensor, "*B 1 D"],
    value: Float[Tensor, "*B 1 V"],
    log_decay: Float[Tensor, "*B 1 1"],
    beta: Float[Tensor, "*B 1 1"],
    state: Float[Tensor, "*B D V"],
) -> tuple[Float[Tensor, "*B 1 V"], Float[Tensor, "*B D V"]]:
    """Return what one token reads and the state after it, in float32 at least."""
    require_state(query, key, value, state, log_decay=log_decay, beta=beta)
    numbers = query, key, value, log_decay, beta, state
    query, key, value, log_decay, beta, state = widened(*numbers)
    with no_autocast(query):
        state = state * log_decay.exp()
        stored = key @ state  # (..., 1, V)
        state = state + key.mT @ (beta * (value - stored))
        return query @ state, state


def delta_chunk(
    query: Float[Tensor, "*B C D"],
    key: Float[Tensor, "*B C D"],
    value: Float[Tensor, "*B C V"],
    log_decay: Float[Tensor, "*B C 1"],
    beta: Float[Tensor, "*B C 1"],
    state: Float[Tensor, "*B D V"],
) -> tuple[Float[Tensor, "*B C V"], Float[Tensor, "*B D V"]]:
    """Return what C tokens read and the state after them, in float32 at least.

    What each token writes depends on what earlier ones wrote: C equations, solved as
    one triangular system.
    """
    require_state(query, key, value, state, log_decay=log_decay, beta=beta)
    size = log_decay.shape[-2]
    numbers = query, key, value, log_decay, beta, state
    query, key, value, log_decay, beta, state = widened(*numbers)
    log_decay = log_decay.clamp(min=-1000)  # also 0 as a factor, and 0 · -inf is nan
    sums = log_decay.new_ones(size, size).tril()  # cumsum is not repeatable on a GPU
    # From token j to token i: the sum of those after j, up to i. A difference of two
    # sums from the start would be less exact.
    steps = log_decay.expand(*log_decay.shape[:-1], size).tril(-1)
    with no_autocast(query):
        start = (sums @ log_decay).exp()  # (..., C, 1), from before the chunk
        decay = (sums @ steps).exp().tril()  # (..., C, C)
        overlap = (beta * key @ key.mT * decay).tril(-1)
        new = value - start * key @ state  # as if no token of the chunk wrote
        written = torch.linalg.solve_triangular(
            overlap, beta * new, upper=False, unitriangular=True
        )  # (I + overlap) written = β new
        context = start * query @ state + query @ key.mT * decay @ written
        left = decay[..., -1:, :].mT  # (..., C, 1), of each at the chunk's end
        return context, start[..., -1:, :] * state + (left * key).mT @ written


def _chunk_len(form: str, chunk_len: int, length: int) -> int:
    require_choice("form", form, FORMS)
    require_positive(chunk_len=chunk_len)
    return {"parallel": length, "chunked": chunk_len, "recurrent": 1}[form]


def _chunks(length: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(x.split(length, dim=-2) for x in tensors), strict=True)
