"""A layer that is examined: a copy with random weights, and what is asked of it.

Shapes: B batch, T length, K keys, M d_model.
"""

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.adapters import Calling, find_calling
from attention_lib.examine.introspect import raise_dropout, width_of
from attention_lib.examine.op_counter import watched
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded

KEYS = "(B, T, K), read as (B, K)"
BATCH, LENGTH, LONG = 7, 6, 40  # a batch of seven: heads are seldom as many


class Probe:
    """A copy of the layer in evaluation mode, in float64 where it can, stirred.

    Weights that start at 0 or 1 hide what they do, so the copy has random ones.

    Attributes:
        layer: the copy.
        original: the layer itself, which is never called with gradients.
        tolerance: how far from equal two numbers may be in the copy's type.
        mask_error: what it raised of a mask (B, T, K).
    """

    def __init__(
        self,
        layer: nn.Module,
        *,
        d_model: int | None,
        causal: bool | None,
        calls: Callable[..., Any] | None,
        reference: Callable[..., Any] | None,
        seed: int,
    ) -> None:
        self.original, self.reference, self.told_causal = layer, reference, causal
        self.seed, self.calls = seed, calls
        self.calling: Calling = find_calling(layer, calls)
        self.takes = set(self.calling.takes)
        self.mask_shape: str | None = None
        self.mask_error: Exception | None = None
        self.d_model = d_model or width_of(layer)
        self.layer = self.copied(torch.float64)
        self.dtype, self.tolerance = torch.float64, 1e-6
        self.problem: Exception | None = None
        try:
            self.run(self.x())
        except Exception:
            self.layer = self.copied(torch.float32)
            self.dtype, self.tolerance = torch.float32, 1e-4
            try:
                self.run(self.x())
            except Exception as error:
                self.problem = error
        if self.problem is None:
            self.mask_shape = self._find_mask_shape()
            if self.mask_shape and calls is not None and self._sees_keys_alone():
                self.mask_shape = KEYS
        if self.by_keys and self.calling.by_mask:
            self.takes.discard("causal")  # such a mask cannot hide by query

    def copied(self, dtype: torch.dtype) -> nn.Module:
        """Gives a stirred copy of the layer in another type."""
        layer = copy.deepcopy(self.original).eval().to(dtype)
        generator = seeded(self.seed)
        raise_dropout(layer)
        with torch.no_grad():
            for parameter in layer.parameters():
                if not parameter.is_floating_point() or parameter.is_meta:
                    continue
                noise = torch.randn(parameter.shape, generator=generator)
                noise = noise.to(parameter.device, parameter.dtype)
                if parameter.ndim < 2 and parameter.abs().max() < 10:  # else: empty
                    parameter.add_(0.4 * noise)
                else:
                    parameter.copy_(noise * (parameter.shape or (1,))[-1] ** -0.5)
        return layer

    def x(self, batch: int = BATCH, length: int = LENGTH, seed: int = 1) -> Tensor:
        """Draws an input, (B, T, M)."""
        shape = batch, length, self.d_model
        x = torch.randn(shape, generator=seeded(self.seed + seed))
        return x.to(self.device, self.dtype)

    def hidden(self, lengths: list[int], side: str = "right") -> Tensor:
        """Gives a mask (B, T, K) that hides padding; lengths repeat over the batch."""
        wanted = torch.tensor([lengths[i % len(lengths)] for i in range(BATCH)])
        place = torch.arange(LENGTH)
        seen = place < wanted[:, None]
        seen = seen if side == "right" else seen.flip(1)
        mask = seen[:, None].expand(BATCH, LENGTH, LENGTH)
        return mask.to(self.device)

    def run(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        layer: nn.Module | None = None,
        raw: bool = False,
        **more: Any,
    ) -> Tensor:
        """Calls the layer; the mask is (B, T, K). It gets copies, unless ``raw``."""
        layer = self.layer if layer is None else layer
        if not raw:  # a layer that changes what it gets confuses no other check
            x, mask = x.clone(), None if mask is None else mask.clone()
        if self.calling.by_mask and more.get("causal") and self.mask_shape:
            past = getattr(
                more.get("cache"), "length", 0 if "cache" not in more else ""
            )
            if isinstance(past, int):
                del more["causal"]
                own = self.causal(x, past)
                mask = own if mask is None else mask & own
        if mask is not None:
            more["mask"] = self._shaped(mask)
        return self.calling.call(layer, x, **more)

    @staticmethod
    def causal(x: Tensor, past: int = 0) -> Tensor:
        """Gives a mask (B, T, K) that hides the future."""
        batch, length = x.shape[:2]
        mask = causal_mask(length, past + length, device=x.device)
        return mask.expand(batch, -1, -1)

    @property
    def device(self) -> torch.device:
        """Where the layer's weights lie."""
        for tensor in self.original.parameters():
            return tensor.device
        return torch.device("cpu")

    @cached_property
    def is_causal(self) -> bool:
        """Whether the layer hides the future without being told so."""
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        return bool((self.leaks()[later] <= self.tolerance).all())

    @cached_property
    def says_causal(self) -> bool:
        """Whether the layer or its user says that it always hides the future."""
        if self.told_causal is not None:
            return self.told_causal
        if "causal" in self.takes:
            return False
        names = "causal", "is_causal"
        return any(getattr(self.layer, name, None) is True for name in names)

    @cached_property
    def makes_triangle(self) -> bool:
        """Whether a call that tells nothing makes a triangle, as a causal mask is."""
        with watched() as types:
            self.run(self.x())
        return bool({"tril", "triu", "tril_", "triu_"} & {*types})

    @cached_property
    def single(self) -> "Probe":
        """The same in float32."""
        other = copy.copy(self)
        other.layer = self.copied(torch.float32)
        other.dtype, other.tolerance = torch.float32, 1e-4
        return other

    @cached_property
    def has_window(self) -> bool:
        """Whether the layer, or its model, says that old tokens are hidden."""
        names = "window", "sliding_window", "max_attend_past", "window_size"
        return any(
            isinstance(getattr(owner, name, None), int)
            for part in self.layer.modules()
            for owner in (part, getattr(part, "config", None))
            for name in names
        )

    @cached_property
    def equal_rows(self) -> float:
        """How far apart the outputs are where all tokens are equal."""
        x = self.x()[:, :1].expand(-1, LENGTH, -1)
        with torch.no_grad():
            found = self.run(x)
        return float(
            (found - found[:, -1:]).abs().max() / found.abs().max().clamp(min=1)
        )

    @cached_property
    def takes_order(self) -> bool:
        """Whether the layer knows positions of its own.

        A layer that mixes up its rows gives something else in another order, too. So
        something must speak for positions: equal tokens give equal rows; or a table,
        without which the order counts no more; or, in a layer that hides the future,
        the beginning of a text gives the same without the rest.
        """
        if not self._feels_order(self.layer):
            return False
        return self.equal_rows <= self.tolerance or self.has_table or self._begins_alike

    def _feels_order(self, layer: nn.Module) -> bool:
        x, order = self.x(), torch.tensor([3, 0, 4, 2, 1, 5])
        with torch.no_grad():
            there, here = (self.run(each, layer=layer) for each in (x[:, order], x))
        return bool((there[:, -1] - here[:, -1]).abs().max() > self.tolerance)

    @cached_property
    def has_table(self) -> bool:
        """Whether the order counts no more when tables of positions have equal rows."""
        layer = copy.deepcopy(self.layer)
        bare = {id(m.weight) for m in layer.modules() if isinstance(m, nn.Embedding)}
        bare |= {id(p) for name, p in layer.named_parameters() if "pos" in name.lower()}
        bare |= {id(buffer) for buffer in layer.buffers()}
        with torch.no_grad():
            for table in [*layer.parameters(), *layer.buffers()]:
                wide = table.ndim > 1 and table.shape[-1] == self.d_model
                if id(table) in bare and wide and table.is_floating_point():
                    table.copy_(table[..., :1, :].expand_as(table).clone())
        return not self._feels_order(layer)

    @cached_property
    def _begins_alike(self) -> bool:
        x = self.x()
        if not (self.hides_future or self.is_causal):
            return False
        with torch.no_grad():
            whole = self.run(x, **self.hides_future)[:, :4]
            begin = self.run(x[:, :4], **self.hides_future)
        return bool((whole - begin).abs().max() <= self.tolerance)

    def generator(self) -> torch.Generator:
        return seeded(self.seed)

    @cached_property
    def hides_future(self) -> dict[str, Any]:
        """The option of a call that hides the future; none where it hides by itself."""
        own = self.calling.by_mask and (self.told_causal or self.is_causal)
        return {"causal": True} if "causal" in self.takes and not own else {}

    def leaks(
        self,
        mask: Tensor | None = None,
        *,
        batch: int = BATCH,
        length: int = LENGTH,
        **more: Any,
    ) -> Tensor:
        """Gives how much each output (row) changes with one input (column), (T, T).

        With a mask it is told for each text, (B, T, T).
        """
        x, other = self.x(batch, length), self.x(batch, length, seed=2)
        with torch.no_grad():
            before = self.run(x, mask, **more)
            columns = []
            for place in range(x.shape[1]):
                changed = x.clone()
                changed[:, place] = 2 * other[:, place]
                change = (self.run(changed, mask, **more) - before).abs()
                columns.append(change.amax(dim=-1))  # (B, T)
        found = torch.stack(columns, dim=-1).nan_to_num(torch.inf).cpu()  # (B, T, K)
        return found if mask is not None else found.amax(dim=0)

    def _find_mask_shape(self) -> str | None:
        """Tries in which shape the layer takes a mask of all pairs."""
        if "mask" not in self.takes:
            return None
        x, everything = self.x(), self.hidden([LENGTH])
        with torch.no_grad():
            wanted, runs = self.run(x), []
            for shape in _SHAPES:
                self.mask_shape = shape
                try:
                    found = self.run(x, everything)
                except Exception as error:
                    if shape == "(B, T, T)":
                        self.mask_error = error
                    continue
                runs += [shape] if found.shape == wanted.shape else []
                if shape in runs and torch.allclose(found, wanted, atol=self.tolerance):
                    return shape
        return runs[0] if runs else "(B, T, T)"

    @property
    def by_keys(self) -> bool:
        """Whether a mask says which keys are hidden, the same for each query."""
        return self.mask_shape in ("(B, T)", KEYS)

    def _sees_keys_alone(self) -> bool:
        """Whether the reader's call reads a row of the mask, or refuses other ones."""
        x = self.x()
        pairs = torch.rand(BATCH, LENGTH, LENGTH, generator=seeded(3)) < 0.5
        pairs = (pairs | torch.eye(LENGTH, dtype=torch.bool)).to(self.device)
        pairs[:, :, 0] = True
        with torch.no_grad():
            try:
                row = self.run(x, pairs[:, :1].expand(-1, LENGTH, -1).clone())
                found = self.run(x, pairs)
            except (ValueError, NotImplementedError):
                return True
        return bool((found - row).abs().max() <= self.tolerance)

    def _shaped(self, mask: Tensor) -> Tensor:
        return _SHAPES.get(
            str(getattr(self, "mask_shape", None)), _SHAPES["(B, T, T)"]
        )(mask)


_SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "(B, T, T)": lambda mask: mask,
    "(B, 1, T, T)": lambda mask: mask[:, None],
    "(B, T)": lambda mask: mask[:, 0],
    "(T, T)": lambda mask: mask[0],
}
