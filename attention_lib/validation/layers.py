"""What layers and models get: shapes, types and devices only, never values."""

import math
from typing import Any

from torch import Tensor

from attention_lib.validation._words import (
    check_floats,
    check_kind,
    check_number,
    check_same_device,
    check_same_type,
    check_whole,
    refuse_axes,
)


def check_tokens(x: Any, weight: Tensor, *, name: str = "x") -> None:
    """Checks that ``x`` is (B, T, M), ready for a layer with this (out, M) weight."""
    check_kind(name, x, Tensor)
    check_same_type(name, x, "the layer", weight)
    shape, width = x.shape, weight.shape[-1]
    if len(shape) != 3 or shape[-1] != width:
        raise ValueError(
            f"{name} must be (batch, length, {width}); got {tuple(shape)}: "
            f"this layer was built for d_model={width}"
        )
    if 0 in shape:
        refuse_axes(name, x)


def check_source(x: Any, memory: Any, weight: Tensor) -> Tensor:
    """Checks what a layer gets, and gives what its keys and values are made of.

    Args:
        x: (B, T, M), see ``check_tokens``.
        memory: (B, S, M), where keys and values come from elsewhere.
        weight: one of the layer's, (out, M).
    """
    check_tokens(x, weight)
    if memory is None:
        return x
    check_tokens(memory, weight, name="memory")
    if memory.shape[0] != x.shape[0]:
        raise ValueError(
            f"memory must hold as many texts as x; got memory {tuple(memory.shape)} "
            f"and x {tuple(x.shape)}"
        )
    return memory


def check_layout(x: Any, *axes: str) -> None:
    """Checks that ``x`` is a tensor with these axes."""
    check_kind("x", x, Tensor)
    if x.ndim != len(axes):
        raise ValueError(f"x must be ({', '.join(axes)}); got {tuple(x.shape)}")


def check_features(x: Any, *, eps: float = 0.0, **vectors: Any) -> None:
    """Checks that each named vector has one number for each number of a token.

    Args:
        x: (..., M), a tensor of floats.
        eps: what is added to the variance, at least 0.
        vectors: each (M,), of the type and on the device of ``x``.
    """
    check_floats("x", x)
    check_number("eps", eps, "at least 0 and finite", lambda n: 0 <= n < math.inf)
    for name, vector in vectors.items():
        check_floats(name, vector)
        check_same_type(name, vector, "x", x)
        if x.ndim == 0 or vector.shape != x.shape[-1:]:
            raise ValueError(
                f"{name} must be {tuple(x.shape[-1:])}, one number for each number of "
                f"a token; got {tuple(vector.shape)} for x {tuple(x.shape)}"
            )


def check_token_ids(
    token_ids: Any,
    lengths: Any = None,
    *,
    max_len: int | None = None,
    like: Tensor | None = None,
) -> None:
    """Checks that ids are (B, T) and fit the context; reads none of their values.

    Args:
        token_ids: what came.
        lengths: how many tokens of each text are real, where that was said.
        max_len: how many tokens a text may have, where that is known.
        like: one of the model's weights, whose device the ids must share.
    """
    check_whole("token_ids", token_ids)
    check_same_device("token_ids", token_ids, "the model", like)
    if token_ids.ndim != 2 or 0 in token_ids.shape:
        raise ValueError(
            f"token_ids must be (batch, length); got {tuple(token_ids.shape)}: write a "
            "single text as one row, `token_ids[None, :]`"
        )
    if max_len is not None and token_ids.shape[1] > max_len:
        raise ValueError(
            f"token_ids hold {token_ids.shape[1]} tokens; the context has {max_len}: "
            "cut the text, or build a model with a longer context_len"
        )
    if lengths is None:
        return
    check_whole("lengths", lengths)
    check_same_device("lengths", lengths, "the token_ids", token_ids)
    if lengths.ndim != 1 or lengths.shape[0] != token_ids.shape[0]:
        came = lengths.shape[0] if lengths.ndim == 1 else tuple(lengths.shape)
        raise ValueError(
            f"lengths must hold one number per text; got {came} for "
            f"{token_ids.shape[0]} texts"
        )


def check_logits(logits: Any, token_ids: Any, lengths: Any = None) -> None:
    """Checks that scores belong to these ids, and that some token has a next one."""
    check_floats("logits", logits)
    check_token_ids(token_ids, lengths)
    if logits.ndim != 3 or logits.shape[:2] != token_ids.shape:
        raise ValueError(
            f"logits must be (batch, length, vocabulary) for token_ids "
            f"{tuple(token_ids.shape)}; got {tuple(logits.shape)}"
        )
    check_same_device("token_ids", token_ids, "the logits", logits)
    if token_ids.shape[1] < 2:
        raise ValueError("no text has two tokens: there is no next token to predict")
