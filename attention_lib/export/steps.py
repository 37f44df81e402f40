"""A model's call with everything in its arguments: what an exported file can hold.

A cache is an object that changes while a model reads. A file of operations knows no
objects: keys and values come in as tensors, and go out as tensors. Either they grow by
the tokens that were read (``DynamicCacheStep``), or they have room for all from the
start, and a tensor says where the new ones go (``StaticCacheStep``).

Shapes: B batch, T new tokens, S tokens read before, L room, K = S + T, V vocabulary;
keys and values of a layer are (B, H, S, D) or (B, H, L, D).
"""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lib.kv_cache import KVCache
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
        model: a ``TinyLM``, or what ``load_pretrained`` gives.

    Raises:
        TypeError: another model.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        kept = _names(model)
        self.model, self.tensors = model, len(kept)
        self.inputs = ["token_ids", *kept]
        self.outputs = ["logits", *(f"new_{name}" for name in kept)]

    def forward(
        self, token_ids: Int[Tensor, "B T"], past: list[Float[Tensor, "B _ _ _"]]
    ) -> list[Tensor]:
        """Gives the scores (B, T, V), then the keys and values of all K tokens.

        Args:
            token_ids: the tokens that come next.
            past: keys and values of the first layer, of the second one, and so on; with
                S = 0 where nothing was read yet.
        """
        layers = [
            _Growing(key, value)
            for key, value in zip(past[::2], past[1::2], strict=True)
        ]
        scores = self.model(token_ids, cache=KVCache(layers))
        return [scores, *_tensors(layers)]

    def example(
        self, batch: int, time: int, past: int
    ) -> tuple[Tensor, list[Float[Tensor, "B _ _ _"]]]:
        """Gives arguments of these sizes: tokens, and keys and values drawn at random.

        Raises:
            TypeError: a size that is no int.
            ValueError: a batch or a time below 1; a past below 0.
        """
        require_positive(batch=batch, time=time)
        require_not_negative(past=past)
        return _ids(self.model, batch, time), _drawn(self.model, batch, past)

    @property
    def axes(self) -> list[Any]:
        """The free axes of each argument, by their names."""
        return [{0: "batch", 1: "time"}, [{0: "batch", 2: "past"}] * self.tensors]


class StaticCacheStep(nn.Module):
    """A language model whose cache has room for ``max_len`` tokens from the start.

    All shapes but that of the new tokens stay the same from call to call, as many
    accelerators need it. Places that hold nothing yet are hidden.

    Args:
        model: a ``TinyLM``, or what ``load_pretrained`` gives, without a window.
        max_len: the room.

    Raises:
        TypeError: another model; a room that is no int.
        ValueError: a room below 1, or above the model's context; a model with a window,
            which is counted from the last place.
    """

    def __init__(self, model: LanguageModel, max_len: int) -> None:
        super().__init__()
        kept = _names(model)
        require_positive(max_len=max_len)
        require_static(model, max_len)
        self.model, self.max_len, self.tensors = model, max_len, len(kept)
        self.inputs = ["token_ids", "place", *kept]
        self.outputs = ["logits", *(f"new_{name}" for name in kept)]

    def forward(
        self,
        token_ids: Int[Tensor, "B T"],
        place: Int[Tensor, "1"],
        room: list[Float[Tensor, "B _ _ _"]],
    ) -> list[Tensor]:
        """Gives the scores (B, T, V), then keys and values with the new ones put in.

        Args:
            token_ids: the tokens that come next.
            place: where the first of them goes: how many were read before. Whoever
                calls sees to it that place + T is at most ``max_len``.
            room: keys and values of all layers, (B, H, L, D) each.
        """
        places = place + torch.arange(token_ids.shape[1], device=place.device)  # (T,)
        layers = [
            _Static(key, value, places)
            for key, value in zip(room[::2], room[1::2], strict=True)
        ]
        seen = torch.arange(self.max_len, device=place.device) <= places[:, None]
        scores = self.model(
            token_ids, mask=seen, positions=places, cache=KVCache(layers)
        )
        return [scores, *_tensors(layers)]

    def example(
        self, batch: int, time: int, place: int | None = None
    ) -> tuple[Tensor, Tensor, list[Float[Tensor, "B _ _ _"]]]:
        """Gives arguments of these sizes: tokens, a place, and drawn keys and values.

        Left out, the place is one that leaves room for the tokens: another one for
        another batch, and for three texts and more the last one.

        Raises:
            TypeError: a size that is no int.
            ValueError: a batch or a time below 1; more tokens than there is room for.
        """
        require_positive(batch=batch, time=time)
        require_place(time, self.max_len)
        if place is None:
            place = (self.max_len - time) * min(batch, 3) // 3
        require_not_negative(place=place)
        require_place(place + time, self.max_len)
        room = _drawn(self.model, batch, self.max_len)
        return _ids(self.model, batch, time), torch.tensor([place]), room

    @property
    def axes(self) -> list[Any]:
        """The free axes of each argument, by their names."""
        return [{0: "batch", 1: "time"}, None, [{0: "batch"}] * self.tensors]


class _Growing:
    """A layer's cache that joins new keys and values to those that came in."""

    is_empty = False  # of the file, which serves any number of tokens read before

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self.length, self.max_len = keys.shape[-2], sys.maxsize

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.keys = torch.cat((self.keys, key), dim=-2)
        self.values = torch.cat((self.values, value), dim=-2)
        return self.keys, self.values


class _Static:
    """A layer's cache that writes new keys and values to places of a tensor."""

    is_empty = False  # the keys of all slots are returned

    def __init__(self, keys: Tensor, values: Tensor, places: Tensor) -> None:
        self.keys, self.values, self.places = keys, values, places
        self.length = 0  # positions are told; this one is for the check of the context
        self.max_len = keys.shape[-2]

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.keys = self.keys.index_copy(-2, self.places, key)
        self.values = self.values.index_copy(-2, self.places, value)
        return self.keys, self.values


def _tensors(layers: Sequence[Any]) -> list[Tensor]:
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def _names(model: LanguageModel) -> list[str]:
    """Names keys and values: ``key_0``, ``value_0``, ``key_1`` and so on."""
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
    """Draws keys and values of a length, of the shapes that the model's cache has."""
    generator = torch.Generator().manual_seed(1)
    empty = _tensors(model.new_cache(batch, 1).layers)
    shapes = [(*kept.shape[:2], length, kept.shape[-1]) for kept in empty]
    return [torch.randn(shape, generator=generator) for shape in shapes]
