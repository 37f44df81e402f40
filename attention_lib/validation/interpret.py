"""Arguments of the functions that examine a model's heads."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from attention_lib.validation._common import (
    broadcasts,
    is_readable,
    require_floats,
    require_kind,
    require_number,
    require_same_device,
    require_whole,
)


def require_head_indices(model: Any, **indices: Any) -> None:
    """Check that each index, (layer, head) from 0, is that of a head of the model."""
    blocks = getattr(model, "blocks", None)
    if not isinstance(model, nn.Module) or not isinstance(blocks, nn.ModuleList):
        raise TypeError(
            f"model must be a language model with blocks; got {type(model).__name__}"
        )
    for name, index in indices.items():
        if (
            not isinstance(index, Sequence)
            or len(index) != 2
            or any(type(number) is not int for number in index)
        ):
            raise TypeError(f"{name} must be (layer, head), two ints; got {index!r}")
        layer, head = index
        if not 0 <= layer < len(blocks):
            raise ValueError(
                f"{name} must name one of the {len(blocks)} layers, from 0; "
                f"got layer {layer}"
            )
        heads = getattr(getattr(blocks[layer], "attention", None), "num_heads", 0)
        if not 0 <= head < heads:
            raise ValueError(
                f"{name} must name one of the {heads} heads of layer {layer}, from 0; "
                f"got head {head}"
            )


def require_head_path(model: Any, sender: Any, receiver: Any, into: Any) -> None:
    """Check that one head's output can reach a projection of a later head."""
    require_head_indices(model, sender=sender, receiver=receiver)
    if into not in ("query", "key", "value"):
        raise ValueError(f'into must be "query", "key" or "value"; got {into!r}')
    if sender[0] >= receiver[0]:
        raise ValueError(
            f"sender must be in an earlier layer than receiver; got layers "
            f"{sender[0]} and {receiver[0]}"
        )
    block = model.blocks[receiver[0]]
    if getattr(block, "norm", "pre") != "pre" or not hasattr(block, "attention_norm"):
        raise ValueError("the receiver's block must normalise first: build norm='pre'")
    if not hasattr(block.attention, "k_proj"):
        raise ValueError(
            "the receiver needs a projection each for queries, keys and values: "
            "build the model with mha='split'"
        )


def require_patch(value: Any) -> None:
    """Check that a head's new output is a number or a tensor of floats."""
    if isinstance(value, Tensor):
        require_floats("value", value)
    else:
        require_number("value", value, "a number", lambda _: True)


def fitted_patch(value: Any, replaced: Tensor) -> Any:
    """Return a head's new output, (B, T, D), in the type of the old one."""
    if not isinstance(value, Tensor):
        return float(value)
    if value.ndim:
        require_same_device("value", value, "the head's output", replaced)
    if not broadcasts(value.shape, replaced.shape):
        raise ValueError(
            f"value must broadcast to the head's output, {tuple(replaced.shape)}; got "
            f"{tuple(value.shape)}"
        )
    return value.to(replaced)


def require_head_maps(weights: Any, token_ids: Any = None) -> None:
    """Check maps (B, H, T, T), and the texts (B, T) that they belong to."""
    require_floats("weights", weights)
    shape = tuple(weights.shape)
    if len(shape) != 4 or shape[-1] != shape[-2] or 0 in shape:
        raise ValueError(f"weights must be (batch, heads, length, length); got {shape}")
    if weights.shape[-1] < 2:
        raise ValueError("weights must be of texts of at least 2 tokens")
    if is_readable(weights) and not weights.isnan().any():
        low, high = weights.min(), weights.max()
        if low < -0.01 or high > 1.01:  # half precision rounds
            raise ValueError(
                "weights must be those of a softmax, from 0 to 1 and before dropout "
                f"(see `.eval()`); got {low:.3g} to {high:.3g}"
            )
    if token_ids is None:
        return
    require_compared(token_ids)
    if token_ids.shape != (weights.shape[0], weights.shape[-1]):
        raise ValueError(
            f"token_ids must be the texts of weights {tuple(weights.shape)}; got "
            f"{tuple(token_ids.shape)}"
        )


def require_compared(token_ids: Any) -> None:
    """Check that ``token_ids`` is (B, T), of whole numbers."""
    require_kind("token_ids", token_ids, Tensor)
    require_whole("token_ids", token_ids)
    if token_ids.ndim != 2:
        raise ValueError(
            f"token_ids must be (batch, length); got {tuple(token_ids.shape)}"
        )


def require_periods(periods: Any, length: int, vocab_size: int) -> None:
    """Check the lengths of the shortest and the longest piece that a text repeats."""
    if (
        not isinstance(periods, Sequence)
        or len(periods) != 2
        or any(type(number) is not int for number in periods)
    ):
        raise TypeError(f"periods must be two ints; got {periods!r}")
    shortest, longest = periods
    if not 1 <= shortest <= longest < length:
        raise ValueError(
            f"periods must be at least 1, in order, and below length={length}; got "
            f"{shortest} and {longest}"
        )
    if longest > vocab_size:
        raise ValueError(
            f"periods must be at most vocab_size={vocab_size}, since the tokens of a "
            f"piece all differ; got {longest}"
        )
