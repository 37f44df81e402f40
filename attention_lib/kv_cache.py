"""Key–value caches: of one layer, and of all layers of a model.

Shapes: B batch, H heads, T new tokens, K all tokens so far, D head_dim, V value width.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lib.validation import (
    require_added,
    require_crop,
    require_instance,
    require_positive,
    require_room,
    require_token_positions,
)

Cache = TypeVar("Cache")


@runtime_checkable
class CacheLike(Protocol):
    """What layers and models need of a cache.

    A cache may also have ``crop``, ``repeat`` and ``nbytes``, as ``LayerCache`` does,
    and ``is_empty``: whether ``append`` will return the new keys and values only. A
    layer then attends as without a cache, which is faster.
    """

    @property
    def length(self) -> int:
        """How many tokens were read."""

    @property
    def max_len(self) -> int:
        """How many tokens the cache has room for."""

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append new keys and values (B, H, T, ...), and return all of each text."""


class LayerCache:
    """The keys and values of one layer, in memory that is allocated once.

    Gradients reach back one call only. To train on top of a prefix, give each step
    its own copy: ``repeat(1)``.

    Args:
        batch_size: how many texts.
        num_heads: heads of the keys and values.
        max_len: how many tokens it has room for.
        head_dim: width of a key.
        value_dim: width of a value; ``head_dim`` when left out.
        device: of the memory.
        dtype: the type of keys and values.

    Raises:
        TypeError: a size that is not an int.
        ValueError: a size below 1; more tokens than it has room for.
    """

    def __init__(
        self,
        batch_size: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        require_positive(batch_size=batch_size, num_heads=num_heads, max_len=max_len)
        require_positive(head_dim=head_dim, value_dim=value_dim)
        sizes = batch_size, num_heads, max_len
        with torch.inference_mode(False):  # a later call may be made without it
            self.keys = torch.zeros(*sizes, head_dim, device=device, dtype=dtype)
            self.values = torch.zeros(*sizes, value_dim, device=device, dtype=dtype)
        self.max_len = max_len
        self.length = 0

    @property
    def is_empty(self) -> bool:
        """Whether no token was read."""
        return not self.length

    def append(
        self, key: Float[Tensor, "B H T D"], value: Float[Tensor, "B H T V"]
    ) -> tuple[Float[Tensor, "B H K D"], Float[Tensor, "B H K V"]]:
        """Add new tokens after the old ones, and return views of all."""
        start, end = self.length, require_room(key, value, self)
        self.keys[:, :, start:end] = key
        self.values[:, :, start:end] = value
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        require_crop(length, self.length)
        self.length = length

    def repeat(self, times: int) -> "LayerCache":
        """Return a cache that holds every text ``times`` over, as copies."""
        return repeat_texts(self, times)

    @property
    def nbytes(self) -> int:
        """The bytes that are allocated."""
        return sum(it.nbytes for it in vars(self).values() if isinstance(it, Tensor))


def repeat_texts(cache: Cache, times: int) -> Cache:
    """Return a copy that holds every text ``times`` over and shares no memory.

    Every tensor that the cache holds has the texts as its first axis.
    """
    require_positive(times=times)
    if not hasattr(cache, "__dict__"):
        raise TypeError(f"cache must be a layer's; got {type(cache).__name__}")
    repeated = copy.copy(cache)
    for name, value in vars(cache).items():
        if isinstance(value, Tensor):
            new = value.repeat(times, *[1] * (value.ndim - 1))
        else:
            new = copy.deepcopy(value)
        setattr(repeated, name, new)
    return repeated


class WindowCache(LayerCache):
    """A ``LayerCache`` that also keeps the position of each key in its own text.

    A layer with a window counts positions. They equal the columns of the cache until a
    call specifies others: with padding between tokens, columns are farther apart.

    Attributes:
        padding: the most columns of padding between two tokens of a text, by which a
            window spans more columns; None if unknown. ``generate`` sets it, since it
            knows the lengths; a layer reads no tensor's values.
    """

    padding: int | None = None
    positions: Tensor | None = None  # (B, max_len), once they differ from columns
    counted = 0  # the number of first keys whose position is their column

    def add_positions(
        self, positions: Int[Tensor, "*B T"] | None, count: int
    ) -> Int[Tensor, "B K"] | None:
        """Store the positions of the last ``count`` keys; return those of all keys.

        Args:
            positions: of the new keys; counted on from the cache when left out.
            count: how many keys are new.

        Returns:
            The positions; None while they equal the columns up to a shift.
        """
        require_added(count, self.length)
        start, end = self.length - count, self.length
        if positions is not None:
            require_token_positions(positions, self.keys[:, 0, start:end])
        if self.positions is None:
            if positions is None or self.padding == 0:
                return None
            self.counted = start
            # Made outside inference mode, as it may be written to in either mode.
            with torch.inference_mode(False):
                columns = torch.arange(self.max_len, device=positions.device)
                self.positions = columns.repeat(len(self.keys), 1)
        if positions is None:
            positions = torch.arange(start, end, device=self.positions.device)
        self.positions[:, start:end] = positions
        return self.positions[:, :end]

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        super().crop(length)
        if self.positions is None or length <= self.counted:
            self.positions = self.padding = None


class KVCache:
    """The caches of a model's layers; made by ``model.new_cache``.

    Args:
        layers: one cache per layer, as ``layer.new_cache`` makes it.

    Raises:
        TypeError: a layer without what ``CacheLike`` names.
        ValueError: an empty list of layers.

    Attributes:
        padded_from: the shortest text's length, where a call read padding behind it.
            Later tokens would see the padding, unless a mask hides it.
    """

    padded_from: int | None = None

    def __init__(self, layers: Iterable[CacheLike]) -> None:
        require_instance("layers", layers, Iterable)
        self.layers = list(layers)
        require_positive(layers=len(self.layers))
        for layer in self.layers:
            require_instance("each of layers", layer, CacheLike)

    @property
    def length(self) -> int:
        """How many tokens were read."""
        return self.layers[0].length

    @property
    def max_len(self) -> int:
        """How many tokens the cache has room for."""
        return self.layers[0].max_len

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens of every text.

        Raises:
            TypeError: a length that is not an int; layers that cannot be cropped.
            ValueError: a length below 0, or above the tokens that were read.
        """
        for crop in self._all("crop"):
            crop(length)
        if self.padded_from is not None and length <= self.padded_from:
            self.padded_from = None

    def repeat(self, times: int) -> "KVCache":
        """Return a cache that holds every text ``times`` over, as ``Tensor.repeat``.

        A shared prefix is then read once for many texts. This cache stays as it is.

        Raises:
            TypeError: a number that is not an int; layers that cannot be repeated.
            ValueError: a number below 1.
        """
        repeated = KVCache([repeat(times) for repeat in self._all("repeat")])
        repeated.padded_from = self.padded_from
        return repeated

    @property
    def nbytes(self) -> int:
        """The bytes that are allocated for all layers."""
        return sum(self._all("nbytes"))

    def _all(self, name: str) -> list[Any]:
        """Return what each layer's cache has by this name, which not all offer."""
        for layer in self.layers:
            if not hasattr(layer, name):
                raise TypeError(f"a cache of {type(layer).__name__} has no {name}")
        return [getattr(layer, name) for layer in self.layers]


class WeightsWatch:
    """Notice when a model's weights have changed, so that its caches are stale.

    PyTorch counts the changes of each tensor, so no weight is read. It does not count
    writes to ``tensor.data`` or those of a fused optimizer: a thorough check therefore
    also compares a sample of each weight.

    Args:
        model: whose weights and buffers are watched.
    """

    def __init__(self, model: nn.Module) -> None:
        require_instance("model", model, nn.Module)
        self.model = model
        self.seen: tuple[Any, ...] = ()
        self.changed(thorough=True)

    def changed(self, *, thorough: bool = False) -> bool:
        """Return whether anything, autocast included, differs from the last check."""
        before = self.seen
        if thorough:
            parts = [(p._parameters, p._buffers) for p in self.model.modules()]
            self.slots = [(it, name) for both in parts for it in both for name in it]
        tensors = [part.get(name) for part, name in self.slots]
        held = [tensor for tensor in tensors if tensor is not None]
        marks = [(id(t), t.dtype, 0 if t.is_inference() else t._version) for t in held]
        if thorough:  # it takes more time
            devices, samples = [t.device for t in held], _samples(held)
            self.kinds = {each.type for each in devices} - {"meta"}
        else:
            *_, devices, samples = before
        cast = [kind for kind in self.kinds if torch.is_autocast_enabled(kind)]
        types = [torch.get_autocast_dtype(kind) for kind in cast]
        self.seen = marks, types, devices, samples
        return self.seen != before


def _samples(tensors: Sequence[Tensor]) -> list[float]:
    """Sum a few elements of each tensor: training a weight changes nearly all of it."""
    few = [
        t.detach().flatten()[:: max(1, t.numel() // 64)].float().sum()
        for t in tensors
        if type(t) in (Tensor, nn.Parameter) and t.is_floating_point() and not t.is_meta
    ]
    return torch.stack([t.to(few[0].device) for t in few]).tolist() if few else []
