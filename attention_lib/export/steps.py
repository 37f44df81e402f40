"""A model's call with its cache as arguments and results, so that it can be exported.

A cache is an object that changes while a model reads, and an exported graph has no
objects: keys and values are tensors that come in and go out. Either they grow by the
tokens that were read (``DynamicCacheStep``), or they have the full size from the start,
and a tensor specifies where the new ones go (``StaticCacheStep``).

Shapes: B batch, T new tokens, S tokens read before, L slots of a static cache, K = S +
T, V vocabulary; keys and values of a layer are (B, H, S, D) or (B, H, L, D).
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lib.kv_cache import KVCache
from attention_lib.modules import uncompiled
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import (
    require_instance,
    require_not_negative,
    require_place,
    require_positive,
    require_static,
)


class DynamicCacheStep(nn.Module):
    """A language model whose cache comes in and goes out as tensors that grow.

    Args:
        model: a ``TinyLM``, or a result of ``load_pretrained``.

    Raises:
        TypeError: a different kind of model.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        kept = _names(model)
        self.model, self.tensors = uncompiled(model), len(kept)
        self.inputs = ["token_ids", *kept]
        self.outputs = ["logits", *(f"new_{name}" for name in kept)]

    def forward(
        self, token_ids: Int[Tensor, "B T"], past: list[Float[Tensor, "B _ _ _"]]
    ) -> list[Tensor]:
        """Return the scores (B, T, V), then the keys and values of all K tokens.

        Args:
            token_ids: the new tokens.
            past: keys and values of the first layer, of the second one, and so on; with
                S = 0 if nothing was read yet.
        """
        layers = [
            _Growing(key, value) for key, value in _pairs("past", past, self.tensors)
        ]
        scores = self.model(token_ids, cache=KVCache(layers))
        return [scores, *_tensors(layers)]

    def example(
        self, batch: int, time: int, past: int
    ) -> tuple[Tensor, list[Float[Tensor, "B _ _ _"]]]:
        """Return arguments of these sizes: tokens, and random keys and values.

        Raises:
            TypeError: a size that is not an int.
            ValueError: a batch or a time below 1; a past below 0.
        """
        require_positive(batch=batch, time=time)
        require_not_negative(past=past)
        return _ids(self.model, batch, time), _drawn(self.model, batch, past)

    @property
    def axes(self) -> list[Any]:
        """The names of the free axes of each argument."""
        return [{0: "batch", 1: "time"}, [{0: "batch", 2: "past"}] * self.tensors]


class StaticCacheStep(nn.Module):
    """A language model whose cache has room for ``max_len`` tokens from the start.

    All shapes except that of the new tokens stay the same from call to call, as many
    accelerators need it. Empty slots are hidden.

    Args:
        model: a ``TinyLM``, or a result of ``load_pretrained``, without a window.
        max_len: the number of slots.

    Raises:
        TypeError: a different kind of model; a ``max_len`` that is not an int.
        ValueError: a ``max_len`` below 1, or above the model's context; a model with a
            window, which would be counted from the last slot.
    """

    def __init__(self, model: LanguageModel, max_len: int) -> None:
        super().__init__()
        kept = _names(model)
        require_positive(max_len=max_len)
        require_static(model, max_len)
        self.model, self.max_len, self.tensors = uncompiled(model), max_len, len(kept)
        self.inputs = ["token_ids", "cache_position", *kept]
        self.outputs = ["logits", *(f"new_{name}" for name in kept)]

    def forward(
        self,
        token_ids: Int[Tensor, "B T"],
        cache_position: Int[Tensor, "1"],
        cache: list[Float[Tensor, "B _ _ _"]],
    ) -> list[Tensor]:
        """Return the scores (B, T, V), then keys and values that include the new ones.

        Args:
            token_ids: the new tokens.
            cache_position: the slot of the first of them: how many were read before.
                The caller ensures that ``cache_position`` + T is at most ``max_len``.
            cache: keys and values of all layers, (B, H, L, D) each.
        """
        require_instance("cache_position", cache_position, Tensor)
        device = cache_position.device
        slots = cache_position + torch.arange(token_ids.shape[1], device=device)  # (T,)
        layers = [
            _Static(key, value, slots)
            for key, value in _pairs("cache", cache, self.tensors)
        ]
        seen = torch.arange(self.max_len, device=device) <= slots[:, None]
        scores = self.model(
            token_ids, mask=seen, positions=slots, cache=KVCache(layers)
        )
        return [scores, *_tensors(layers)]

    def example(
        self, batch: int, time: int, cache_position: int | None = None
    ) -> tuple[Tensor, Tensor, list[Float[Tensor, "B _ _ _"]]]:
        """Return arguments of these sizes: tokens, a slot, random keys and values.

        By default the slot leaves room for the tokens and depends on the batch size; it
        is the last such slot for three texts and more.

        Raises:
            TypeError: a size that is not an int.
            ValueError: a batch or a time below 1; more tokens than slots.
        """
        require_positive(batch=batch, time=time)
        require_place(time, self.max_len)
        if cache_position is None:
            cache_position = (self.max_len - time) * min(batch, 3) // 3
        require_not_negative(cache_position=cache_position)
        require_place(cache_position + time, self.max_len)
        cache = _drawn(self.model, batch, self.max_len)
        return _ids(self.model, batch, time), torch.tensor([cache_position]), cache

    @property
    def axes(self) -> list[Any]:
        """The names of the free axes of each argument."""
        return [{0: "batch", 1: "time"}, None, [{0: "batch"}] * self.tensors]


# Neither says whether it is empty: an exported graph serves all lengths.
class _Growing:
    """A layer's cache that appends new keys and values to given ones."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self.length, self.max_len = keys.shape[-2], sys.maxsize

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.keys = torch.cat((self.keys, key), dim=-2)
        self.values = torch.cat((self.values, value), dim=-2)
        return self.keys, self.values


class _Static:
    """A layer's cache that writes new keys and values to slots of given ones."""

    length = 0  # unknown to Python; the call has positions, so it is not used

    def __init__(self, keys: Tensor, values: Tensor, slots: Tensor) -> None:
        self.keys, self.values, self.slots = keys, values, slots
        self.max_len = keys.shape[-2]

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.keys = self.keys.index_copy(-2, self.slots, key)
        self.values = self.values.index_copy(-2, self.slots, value)
        return self.keys, self.values


def _tensors(layers: Sequence[Any]) -> list[Tensor]:
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def _pairs(name: str, kept: Sequence[Tensor], count: int) -> Iterator[Any]:
    """Return the keys and values of each layer."""
    require_instance(name, kept, Sequence)
    if len(kept) != count:
        raise ValueError(f"{name} must hold {count} tensors; got {len(kept)}")
    return zip(kept[::2], kept[1::2], strict=True)


def _names(model: LanguageModel) -> list[str]:
    """Return names of keys and values: ``key_0``, ``value_0``, ``key_1`` and so on."""
    require_instance("model", model, LanguageModel)
    layers = range(len(model.blocks))
    return [f"{kind}_{n}" for n in layers for kind in ("key", "value")]


def _ids(model: LanguageModel, batch: int, time: int) -> Int[Tensor, "B T"]:
    generator = torch.Generator().manual_seed(0)
    size = model.config.vocab_size
    return torch.randint(size, (batch, time), generator=generator)


def _drawn(
    model: LanguageModel, batch: int, length: int
) -> list[Float[Tensor, "B _ _ _"]]:
    """Draw keys and values of a length, in the shapes of the model's cache."""
    generator = torch.Generator().manual_seed(1)
    empty = _tensors(model.new_cache(batch, 1).layers)
    shapes = [(*kept.shape[:2], length, kept.shape[-1]) for kept in empty]
    return [torch.randn(shape, generator=generator) for shape in shapes]
