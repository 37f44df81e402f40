"""How a layer is called: one call for the layers of many makers.

A layer's own signature says what it takes. Layers of ``torch.nn``, of x-transformers
and of ``transformers`` are known by theirs; nothing here imports those libraries
before such a layer comes. Masks are boolean here, and become what the layer wants.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.masks import with_causal
from attention_lib.multi_head import MultiHeadAttention
from attention_lib.rope import rope_angles

# What we pass, and what layers call it.
_NAMES = {
    "mask": ("mask", "attn_mask", "attention_mask"),
    "causal": ("causal", "is_causal"),
    "memory": ("memory", "context", "encoder_hidden_states"),
    "cache": ("cache",),
}
_MASKED = frozenset({"mask", "causal"})


class FunctionLayer(MultiHeadAttention):
    """Multi-head attention whose heads attend by a function, to be examined.

    ``function(query, key, value)``, each (B, H, T, D), returns the same shape, or a
    tuple that begins with it. It may take ``mask`` or ``attn_mask``, boolean, and
    ``causal`` or ``is_causal``.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            super().__init__(12, 3, qkv_bias=True)
        self.function = function
        try:
            names = list(inspect.signature(function).parameters)
        except ValueError:  # written in C, as torch's own
            names = ["attn_mask", "is_causal"]
        self.words = _words_in(names)

    def _attend(self, *inputs: Any, **_: Any) -> Tensor:
        query, key, value, mask, causal = inputs
        options: dict[str, Any] = {}
        if causal and "causal" in self.words and mask is None:
            options[self.words["causal"]] = True
        elif causal:
            mask = with_causal(mask, causal, query, key)
        if mask is not None:
            options[self.words["mask"]] = mask
        context = _first(self.function(query, key, value, **options))
        shape = getattr(context, "shape", query.shape)
        if len(shape) != 4 or shape[-1] != query.shape[-1]:  # a probe tests lengths
            raise ValueError(
                "the function must return the shape of the query, "
                f"{tuple(query.shape)}; got {tuple(shape)}"
            )
        return context


@dataclass(frozen=True)
class Calling:
    """How to call a layer: ``call(layer, x, mask=..., ...)``, with what it takes."""

    call: Callable[..., Any]
    # Of mask, causal, memory, cache, and start: the position of the first token, where
    # positions come from outside.
    takes: frozenset[str]
    new_cache: Callable[..., Any] = lambda layer, *sizes: layer.new_cache(*sizes)
    held: Callable[[Any], int] = lambda cache: int(cache.length)  # tokens in a cache
    additive: bool = False  # whether hidden keys get a large negative number from us
    # Whether ``causal`` must come as a mask: then ``call`` takes no ``causal``.
    by_mask: bool = False
    unknown: tuple[str, ...] = ()  # names in its signature that nothing is passed for


def find_calling(layer: nn.Module, calls: Callable[..., Any] | None = None) -> Calling:
    """Return how a layer is called; ``calls`` is the user's own way."""
    if calls is not None:
        names = frozenset(list(inspect.signature(calls).parameters)[1:])
        return Calling(calls, names & {*_NAMES, "start"})
    if isinstance(layer, nn.MultiheadAttention | nn.TransformerEncoderLayer):
        memory = {"memory"} if isinstance(layer, nn.MultiheadAttention) else set()
        return Calling(_call_torch, _MASKED | memory, by_mask=True)
    if type(layer).__module__.startswith("x_transformers"):
        takes = _MASKED | {"memory", "cache"}
        return Calling(_call_x_transformers, takes, lambda *_: [None])
    if isinstance(layer, FunctionLayer):
        masks = _MASKED if "mask" in layer.words else _MASKED & layer.words.keys()
        by_mask = "mask" in masks and "causal" not in layer.words
        return Calling(nn.Module.__call__, masks | {"memory"}, by_mask=by_mask)
    names = frozenset(inspect.signature(layer.forward).parameters)
    if "hidden_states" in names:
        extra = {"position_embeddings": "start", "past_key_values": "cache"}
        return Calling(
            partial(_call_hugging_face, names),
            _MASKED | {extra[name] for name in names & {*extra}},
            new_cache=_hugging_face_cache,
            held=partial(_held_by_hugging_face, layer),
            additive=True,
            by_mask=True,
        )
    return _by_names(layer, names)


def _words_in(names: Iterable[str]) -> dict[str, str]:
    """Return what a signature calls each of the things that we pass."""
    pairs = ((ours, name) for ours, theirs in _NAMES.items() for name in theirs[::-1])
    return {ours: name for ours, name in pairs if name in names}


def _by_names(layer: nn.Module, names: frozenset[str]) -> Calling:
    """Return how to call a layer as ours are called, as far as its names say."""
    words = _words_in(names)
    takes = words.keys() | ({"start"} if "angles" in names else set())
    if not hasattr(layer, "new_cache"):
        takes -= {"cache"}
    three = {"query", "key", "value"} <= names
    known = {*words.values(), "angles", "cache", "query", "key", "value"}
    others = list(inspect.signature(layer.forward).parameters)[0 if three else 1 :]
    return Calling(
        partial(_call_by_names, words, three),
        frozenset(takes | ({"causal"} if "mask" in takes else set())),
        by_mask="mask" in takes and "causal" not in words,
        unknown=tuple(name for name in others if name not in known),
    )


def _call_by_names(
    words: dict[str, str], three: bool, layer: Any, x: Tensor, **given: Any
) -> Tensor:
    start = given.pop("start", None)
    options = {words[name]: each for name, each in given.items()}
    if start is not None:
        position = torch.arange(start, start + x.shape[1], device=x.device)
        options["angles"] = _angles(position, x, _rotated_width(layer))
    return _first(layer(*((x, x, x) if three else (x,)), **options))


def _angles(positions: Tensor, x: Tensor, width: int) -> Tensor:
    """Return the angles in the type of x, but in float32 at least."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return rope_angles(positions.to(wide), width)


def _rotated_width(layer: Any) -> int:
    for part in layer.modules():
        if hasattr(part, "widths"):  # latent attention rotates a part of each head
            return int(part.widths[1])
        if hasattr(part, "new_cache") and hasattr(part, "num_heads"):
            return int(part.new_cache(1, 1).keys.shape[-1])
    raise TypeError(f"no width of a head is known for {type(layer).__name__}")


def _first(found: Any) -> Any:
    """Return the output of a layer that may return its weights, too."""
    return found[0] if isinstance(found, tuple | list) else found


def _call_torch(
    layer: Any, x: Tensor, mask: Tensor | None = None, *, memory: Tensor | None = None
) -> Tensor:
    """Call PyTorch's layer, or its block; they name what is hidden, per head."""
    block = isinstance(layer, nn.TransformerEncoderLayer)
    attention: Any = layer.self_attn if block else layer
    source = x if memory is None else memory
    if mask is not None:
        mask = mask.expand(x.shape[0], x.shape[1], source.shape[1])
        mask = ~mask.repeat_interleave(attention.num_heads, dim=0)
    if not attention.batch_first:
        x, source = x.transpose(0, 1), source.transpose(0, 1)
    if block:
        found = layer(x, src_mask=mask)
    else:
        found = layer(x, source, source, attn_mask=mask, need_weights=False)[0]
    return found if attention.batch_first else found.transpose(0, 1)


def _call_x_transformers(
    layer: Any, x: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor:
    cache = options.pop("cache", None)
    if "memory" in options:
        options["context"] = options.pop("memory")
    if mask is not None:
        options["attn_mask"] = mask.expand(*x.shape[:2], mask.shape[-1])[:, None]
    if cache is None:
        return layer(x, **options)
    found, cache[0] = layer(x, cache=cache[0], return_intermediates=True, **options)
    return found


def _hugging_face_cache(*_: Any) -> Any:
    from transformers import DynamicCache

    return DynamicCache()


def _held_by_hugging_face(layer: Any, cache: Any) -> int:
    return int(cache.get_seq_length(_number_of(layer, "layer_idx") or 0))


def _call_hugging_face(
    names: frozenset[str],
    layer: Any,
    x: Tensor,
    mask: Tensor | None = None,
    **given: Any,
) -> Tensor:
    hides = None
    if mask is not None:  # 0 where a key is seen, else a large negative number
        hidden = ~mask.expand(*x.shape[:2], mask.shape[-1])[:, None]
        hides = hidden.to(x.dtype).masked_fill(hidden, torch.finfo(x.dtype).min)
    name = "attention_mask" if "attention_mask" in names else "mask"
    options: dict[str, Any] = {name: hides}
    if "cache" in given:
        options["past_key_values"] = given["cache"]
    if "position_embeddings" in names:
        width = _number_of(layer, "qk_rope_head_dim") or _number_of(layer, "head_dim")
        width = width or x.shape[-1] // (_number_of(layer, "num_attention_heads") or 1)
        positions = torch.arange(x.shape[1], device=x.device) + given.get("start", 0)
        angles = _angles(positions, x, width)
        angles = angles * ("start" in given)  # no position: nothing is rotated
        if type(layer).__name__ != "GptOssAttention":  # which takes half of the width
            angles = torch.cat([angles, angles], dim=-1)
        rotation = angles.cos()[None].to(x.dtype), angles.sin()[None].to(x.dtype)
        options["position_embeddings"] = rotation
    return _first(layer(x, **options))


def _number_of(layer: Any, name: str) -> int | None:
    values = (value for _, value in values_of(layer.modules(), [name]))
    return next((value for value in values if isinstance(value, int)), None)


def values_of(
    parts: Iterable[nn.Module], names: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Yield what parts of a layer, or their configs, hold under these names."""
    for part in parts:
        for owner in (part, getattr(part, "config", None)):
            for name in names:
                if (value := getattr(owner, name, None)) is not None:
                    yield name, value
