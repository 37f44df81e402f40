"""The arguments of layers and models: shapes, types and devices only, never values."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.modules import is_unmodified, weight_of
from attention_lib.validation._common import (
    broadcasts,
    is_autocast,
    is_readable,
    refuse_axes,
    require_between,
    require_floats,
    require_kind,
    require_number,
    require_same_device,
    require_same_type,
    require_whole,
)
from attention_lib.validation.arrays import require_mask
from attention_lib.validation.sizes import (
    require_flags,
    require_instance,
    require_pairs,
)

FLOATS = torch.float64, torch.float32, torch.float16, torch.bfloat16


def require_dtype(dtype: Any) -> None:
    """Check that a dtype is one that weights can have."""
    require_kind("dtype", dtype, torch.dtype)
    if dtype not in FLOATS:
        wanted = ", ".join(map(str, FLOATS))
        raise ValueError(f"dtype must be one of {wanted}; got {dtype}")


def require_device(device: Any) -> None:
    """Check that a device exists, by making an empty tensor on it."""
    if isinstance(device, bool) or not isinstance(device, str | int | torch.device):
        raise TypeError(f'device must be one such as "cpu"; got {device!r}')
    try:
        torch.empty(0, device=device)
    except Exception as error:  # each kind of device raises its own
        words = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"device must be one that exists; got {device!r}: {words}"
        ) from None


def require_slots(key: Any, value: Any, cache: Any) -> None:
    """Check that new keys and values (B, H, T, ...) go into the pages of a layer."""
    batch, count = cache.new_slots.shape
    for name, new, pages in (
        ("keys", key, cache.keys),
        ("values", value, cache.values),
    ):
        require_kind(name, new, Tensor)
        require_same_device(name, new, "the pages", pages)
        wanted = batch, pages.shape[0], count, pages.shape[2]
        if new.shape != wanted:
            raise ValueError(
                f"{name} must be {wanted} for the pages of this cache; got "
                f"{tuple(new.shape)}: make the cache of the same model"
            )


def require_dim(x: Tensor, dim: Any) -> None:
    """Check that a tensor has this axis."""
    if x.ndim == 0:
        raise ValueError("x must have an axis; got a single number")
    require_between("dim", dim, -x.ndim, x.ndim - 1, f"{x.ndim - 1}, the last axis")


def require_tokens(x: Any, part: nn.Module, width: int, *, name: str = "x") -> None:
    """Check that ``x`` is (B, T, M), ready for a layer of this width.

    Its type and its device are compared with those of a plain part of PyTorch. A part
    that replaces it, or hooks on it, may accept others.

    Args:
        x: the argument.
        part: the first of the layer's parts that receives ``x``.
        width: M.
        name: of ``x``, for the error.
    """
    weight = weight_of(part)
    if (
        type(x) is not Tensor
        or weight is None
        or x.dtype != weight.dtype
        or x.device != weight.device
    ):
        require_floats(name, x)
        if weight is not None and is_unmodified(part, type(part)):
            require_same_type(name, x, "the layer", weight)
    shape = x.shape
    if len(shape) != 3 or shape[-1] != width:
        raise ValueError(
            f"{name} must be (batch, length, {width}); got {tuple(shape)}: "
            f"this layer was built for d_model={width}"
        )
    if 0 in shape:
        refuse_axes(name, x)


def require_source(x: Any, memory: Any, part: nn.Module, width: int) -> Tensor:
    """Check the arguments of a layer, and return the source of its keys and values.

    Args:
        x: (B, T, M), see ``require_tokens``.
        memory: (B, S, M), if keys and values come from elsewhere.
        part: the layer's part that receives ``x``.
        width: M.
    """
    require_tokens(x, part, width)
    if memory is None:
        return x
    require_tokens(memory, part, width, name="memory")
    if memory.shape[0] != x.shape[0]:
        raise ValueError(
            f"memory must hold as many texts as x; got memory {tuple(memory.shape)} "
            f"and x {tuple(x.shape)}"
        )
    return memory


def require_memory(block: Any, x: Any, memory: Any, mask: Any) -> None:
    """Check what a decoder's block attends to, before its own cache grows.

    Args:
        block: of width M; its norm receives ``x``.
        x: (B, T, M), see ``require_tokens``.
        memory: (B, S, M), or its keys (B, H, S, D) and values in a cache.
        mask: of the memory's tokens, where there is one.
    """
    part, width = block.attention_norm, block.d_model
    require_tokens(x, part, width)
    keys: Any = getattr(memory, "keys", None)
    is_cache = isinstance(keys, Tensor)
    if not is_cache:
        require_instance("memory", memory, Tensor)  # None would mean x itself
    if not hasattr(block.cross_attention, "weights_by_head"):
        return  # a layer of another kind knows what it takes
    if is_cache:
        batch, source_len = keys.shape[0], memory.length
    else:
        batch, source_len, _ = require_source(x, memory, part, width).shape
    if batch != x.shape[0]:
        raise ValueError(
            f"memory must hold as many texts as x; got {batch} and {x.shape[0]}"
        )
    if mask is not None:
        heads = block.cross_attention.num_heads
        axis = () if getattr(mask, "ndim", 0) < 4 else (heads,)
        scores = (batch, *axis, x.shape[1], source_len)
        require_mask(mask, scores, like=x, name="memory_mask")


def require_alone(memory: Any, **others: Any) -> None:
    """Check that a layer with a memory gets none of what counts positions."""
    for name, other in others.items():
        if memory is not None and other is not None:
            raise ValueError(
                f"memory does not go with {name}: its tokens have no position in the "
                "text of x"
            )


def require_cache(cache: Any, num_layers: int) -> int:
    """Check a model's cache, if there is one, and return how many tokens it holds."""
    if cache is None:
        return 0
    layers: Any = getattr(cache, "layers", None)
    if not hasattr(layers, "__len__"):
        raise TypeError(
            "cache must be a KVCache, from the model's `new_cache`; got "
            f"{type(cache).__name__}"
        )
    if len(layers) != num_layers:
        raise ValueError(
            f"cache must hold {num_layers} layers, as the model does; got "
            f"{len(layers)}: make it with `new_cache` of the same model"
        )
    # The lengths of a custom cache may be symbols, which are not compared. A block may
    # be skipped, and its layer stays empty.
    lengths = [each.length for each in layers]
    if len({n for n in lengths if type(n) is int and n}) > 1:
        raise ValueError(
            f"cache must hold equally many tokens in each layer; got {lengths}: crop "
            "its layers, or make a new one"
        )
    return lengths[0]


def require_layer_cache(
    cache: Any,
    x: Any,
    mask: Any,
    causal: Any,
    num_heads: int,
    key_positions: Any = None,
) -> None:
    """Check what a layer is called with before its cache, if any, grows.

    Otherwise a call that is refused would leave its tokens in the cache.

    Args:
        cache: how many keys one with an ``append`` of its own returns is not known.
        x: (B, T, M).
        mask: broadcasts to (B, H, T, K), where there is one.
        causal: whether the future is hidden.
        num_heads: H.
        key_positions: (..., K), where there are some.
    """
    if cache is None:
        return
    if not hasattr(cache, "append") or type(cache) is list:
        raise TypeError(
            "cache must be that of a layer, from its `new_cache`; got "
            f"{type(cache).__name__}"
        )
    require_flags(causal=causal)
    if (mask is None and key_positions is None) or not _is_plain(cache):
        return
    require_layout(x, "batch", "length", "width")
    key_len = cache.length + x.shape[1]
    if mask is not None:
        require_mask(mask, (x.shape[0], num_heads, x.shape[1], key_len), like=x)
    if key_positions is not None:
        require_key_count(key_positions, x.shape[0], key_len)


def _is_plain(cache: Any) -> bool:
    """Return whether a cache appends as ``LayerCache`` does, and returns all tokens."""
    return type(cache).append.__qualname__ == "LayerCache.append"


def require_key_count(key_positions: Any, batch: int, key_len: int) -> None:
    """Check that there is one position for each key, (K,) or (B, K)."""
    require_kind("key_positions", key_positions, Tensor)
    shape = tuple(key_positions.shape)
    if shape not in ((key_len,), (1, key_len), (batch, key_len)):
        raise ValueError(
            f"key_positions must have one position for each of {key_len} keys; got "
            f"{shape}"
        )


def require_window(window: int | None, memory: Any) -> None:
    """Check that a layer with a window gets no memory: its positions are unrelated."""
    if window is not None and memory is not None:
        raise ValueError(
            "memory does not go with a window: its tokens have no position in the text "
            "of x; build the layer with window=None"
        )


def require_token_positions(positions: Any, x: Tensor) -> None:
    """Check that positions are whole numbers, one for each token: (T,) or (B, T).

    Args:
        positions: the argument.
        x: (B, T, ...), the tokens.
    """
    require_whole("positions", positions)
    require_same_device("positions", positions, "x", x)
    batch, length = x.shape[:2]
    if tuple(positions.shape) not in ((length,), (1, length), (batch, length)):
        raise ValueError(
            f"positions must be ({length},) or ({batch}, {length}), one per token; got "
            f"{tuple(positions.shape)}"
        )


def require_rotation(positions: Any, head_dim: int) -> None:
    """Check the arguments of ``rope_angles``: numbers, and a width of whole pairs."""
    require_kind("positions", positions, Tensor)
    if positions.dtype == torch.bool or positions.is_complex():
        raise TypeError(f"positions must hold numbers; got {positions.dtype}")
    _require_exact("positions", positions)
    require_pairs(head_dim=head_dim)


def require_angles(x: Any, angles: Any) -> None:
    """Check that angles (..., T, D/2) fit the vectors to rotate, (..., T, D)."""
    require_floats("x", x)
    require_floats("angles", angles)
    _require_exact("angles", angles)
    require_same_device("angles", angles, "x", x)
    shape = tuple(x.shape)
    if len(shape) > 1:
        require_pairs(**{"the width of x": shape[-1]})
    fitting = (*shape[:-1], shape[-1] // 2) if len(shape) > 1 else ()
    one_each = len(fitting) > 1 and fitting[-2:] == tuple(angles.shape[-2:])
    if not one_each or not broadcasts(angles.shape, fitting):
        raise ValueError(
            f"angles {tuple(angles.shape)} do not fit x {shape}: they are (length, "
            "width / 2), one angle for each pair of numbers"
        )


def _require_exact(name: str, numbers: Tensor) -> None:
    """Refuse half precision: at position 2,000 an angle would be off by 4 radians."""
    if numbers.is_floating_point() and numbers.dtype.itemsize < 4:
        raise TypeError(
            f"{name} must be in float32 or float64; got {numbers.dtype}, which rounds "
            "a large angle to another one"
        )


def require_room(key: Any, value: Any, cache: Any) -> int:
    """Check that a cache has room for new keys and values (B, H, T, ...) of its kind.

    Returns:
        How many tokens it will then hold.
    """
    for name, new, kept in (("keys", key, cache.keys), ("values", value, cache.values)):
        require_kind(name, new, Tensor)
        # Under autocast, new keys and values may have another type.
        alike = new.dtype == kept.dtype or is_autocast(new.device.type)
        if new.device != kept.device or (_is_plain(cache) and not alike):
            raise TypeError(
                f"the cache holds {kept.dtype} on {kept.device}; got {name} of "
                f"{new.dtype} on {new.device}: make it with `new_cache` of the same "
                "layer, after its `.to(...)`"
            )
        shape = kept.shape
        if new.ndim != 4 or (*new.shape[:2], new.shape[3]) != (*shape[:2], shape[3]):
            raise ValueError(
                f"the cache holds {shape[0]} texts, {shape[1]} heads of width "
                f"{shape[3]}; got {name} {tuple(new.shape)}: make it with `new_cache` "
                "of the same layer"
            )
    if value.shape[2] != key.shape[2]:  # one value would be written many times
        raise ValueError(
            "there must be one value for each key; got keys "
            f"{tuple(key.shape)}, values {tuple(value.shape)}"
        )
    end = cache.length + key.shape[2]
    if end > cache.max_len:
        raise ValueError(
            f"the cache has room for {cache.max_len} tokens; got {end}: make it with a "
            "larger max_len"
        )
    return end


def require_published(layer: Any, known: Iterable[str], both_ways: Any = ()) -> None:
    """Check that a layer of ``transformers`` is one that can be converted.

    Args:
        layer: the argument.
        known: names of classes.
        both_ways: those of them that may attend to the future, or to a memory.
    """
    require_instance("layer", layer, nn.Module)
    kind = type(layer)
    if kind.__name__ not in known or not kind.__module__.startswith("transformers."):
        raise ValueError(
            f"layer must be an attention layer of transformers: {', '.join(known)}; "
            f"got {kind.__module__}.{kind.__name__}"
        )
    if kind.__name__ not in both_ways and not layer.is_causal:
        raise ValueError(
            f"layer must attend to the past of its own text; this {kind.__name__} "
            "attends to the future or to a memory, which is not supported"
        )


def require_crop(length: Any, kept: int) -> None:
    """Check the length that a cache is truncated to."""
    require_between("length", length, 0, kept, f"{kept}, the tokens in the cache")


def require_added(count: Any, kept: int) -> None:
    """Check how many of the tokens in a cache are the last call's."""
    require_between("count", count, 1, kept, f"{kept}, the tokens in the cache")


def require_space(
    cache: Any, token_ids: Any, max_new_tokens: int, use_cache: bool
) -> None:
    """Check that a cache has room for texts and all but the last new token."""
    require_token_ids(token_ids)
    if not use_cache:
        raise ValueError("got a cache with use_cache=False: leave one of them out")
    needed = cache.length + token_ids.shape[1] + max_new_tokens - 1
    if needed > cache.max_len:
        raise ValueError(
            f"the cache has room for {cache.max_len} tokens; this needs {needed}: make "
            "it with a larger max_len"
        )


def require_layout(x: Any, *axes: str) -> None:
    """Check that ``x`` is a tensor with these axes."""
    require_kind("x", x, Tensor)
    if x.ndim != len(axes):
        raise ValueError(f"x must be ({', '.join(axes)}); got {tuple(x.shape)}")


def require_features(x: Any, *, eps: float = 0.0, **vectors: Any) -> None:
    """Check that each named vector has one number for each feature of a token.

    Args:
        x: (..., M), a tensor of floats.
        eps: added to the variance, at least 0.
        vectors: each (M,), of the type and on the device of ``x``.
    """
    require_floats("x", x)
    require_number("eps", eps, "at least 0 and finite", lambda n: 0 <= n < math.inf)
    for name, vector in vectors.items():
        require_floats(name, vector)
        of_layer = type(vector) is nn.Parameter  # then the caller gave x alone
        if of_layer:
            require_same_type("x", x, "the layer", vector)
        else:
            require_same_type(name, vector, "x", x)
        if x.ndim == 0:
            raise ValueError("x must be (..., width); got a single number")
        if vector.shape != x.shape[-1:]:
            if of_layer:
                raise ValueError(
                    f"x must be (..., {len(vector)}); got {tuple(x.shape)}: this layer "
                    f"was built for a width of {len(vector)}"
                )
            raise ValueError(
                f"{name} must have one number for each number of a token; got {name} "
                f"{tuple(vector.shape)} and x {tuple(x.shape)}"
            )


def require_token_ids(
    token_ids: Any,
    lengths: Any = None,
    *,
    shortest: int = 0,
    max_len: int | None = None,
    start: int = 0,
    like: Tensor | None = None,
    name: str = "token_ids",
) -> None:
    """Check that ids are (B, T) and fit the context; read none of their values.

    Those of lengths are read where that costs nothing.

    Args:
        token_ids: the argument.
        lengths: how many tokens of each text are real, if given.
        shortest: the least length that a text may have.
        max_len: how many tokens a text may have, if known.
        start: how many of them a cache holds already.
        like: one of the model's weights, whose device the ids must share.
        name: of the ids, for the error.
    """
    require_whole(name, token_ids)
    require_same_device(name, token_ids, "the model", like)
    if token_ids.ndim != 2 or 0 in token_ids.shape:
        hint = "each token is one number, not a vector, and texts have one axis"
        if token_ids.ndim < 2:
            hint = f"write a single text as one row, `{name}[None, :]`"
        elif token_ids.ndim == 2:
            hint = "leave empty batches and texts out"
        raise ValueError(
            f"{name} must be (batch, length); got {tuple(token_ids.shape)}: {hint}"
        )
    if max_len is not None and start + token_ids.shape[1] > max_len:
        held = f", of which the cache holds {start}" if start else ""
        raise ValueError(
            f"{name} hold {token_ids.shape[1]} tokens; the context has {max_len}"
            f"{held}: cut the text, or build a model with a longer context_len"
        )
    if lengths is None:
        return
    require_whole("lengths", lengths)
    require_same_device("lengths", lengths, "the token_ids", token_ids)
    if lengths.ndim != 1 or lengths.shape[0] != token_ids.shape[0]:
        received = lengths.shape[0] if lengths.ndim == 1 else tuple(lengths.shape)
        raise ValueError(
            f"lengths must hold one number per text; got {received} for "
            f"{token_ids.shape[0]} texts"
        )
    if is_readable(lengths):
        require_length_values(lengths, token_ids.shape[1], shortest)


def require_length_values(lengths: Tensor, longest: int, shortest: int = 0) -> None:
    """Check that lengths are those of texts in a batch with ``longest`` columns."""
    if lengths.min() < shortest or lengths.max() > longest:
        raise ValueError(
            f"lengths must be between {shortest} and {longest}, the length of the "
            f"batch; got {lengths.tolist()}"
        )


def require_logits(logits: Any, token_ids: Any, lengths: Any = None) -> None:
    """Check that scores belong to these ids, and that some token has a next one."""
    require_floats("logits", logits)
    require_token_ids(token_ids, lengths)
    if logits.ndim != 3 or logits.shape[:2] != token_ids.shape:
        raise ValueError(
            f"logits must be (batch, length, vocabulary) for token_ids "
            f"{tuple(token_ids.shape)}; got {tuple(logits.shape)}"
        )
    require_same_device("token_ids", token_ids, "the logits", logits)
    if token_ids.shape[1] < 2:
        raise ValueError("no text has two tokens: there is no next token to predict")
