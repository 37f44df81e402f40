"""The layer under examination: a copy with random weights, and what is asked of it."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.adapters import Calling, find_calling, values_of
from attention_lib.examine.outcomes import FaultError, apart, size
from attention_lib.examine.recorder import operations_of
from attention_lib.masks import causal_mask, padding_mask
from attention_lib.reproducibility import seeded

BATCH, LENGTH, LONG = 7, 6, 40  # a batch of seven: few layers have seven heads
ORDER = [3, 0, 4, 2, 1, 5]  # of tokens; the last keeps its position
VERY_LONG = 600  # beyond 256, bfloat16 rounds neighbouring positions to one number
Run = Callable[["Probe"], Tensor]
HALF_DTYPES = {torch.bfloat16, torch.float16}
KEYS = "(B, T, K), read as (B, K)"
_MASK_SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "(B, T, T)": lambda mask: mask,
    "(B, 1, T, T)": lambda mask: mask[:, None],
    "(B, T)": lambda mask: mask[:, 0],
    "(T, T)": lambda mask: mask[0],
}
_WIDTHS = "d_model", "embed_dim", "hidden_size", "dim", "n_embd"
_WINDOWS = "window", "sliding_window", "max_attend_past", "window_size"
_DROPOUTS = "p", "dropout", "dropout_p", "attention_dropout", "attn_dropout"


@dataclass(eq=False)
class Probe:
    """A copy of the layer in evaluation mode, in float64 where it can.

    Weights that start at 0 or 1 hide what they do, so the copy has random ones.
    """

    original: nn.Module  # never called with gradients
    d_model: int
    stated_causal: bool | None = None
    calls: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    seed: int = 0
    draw_seed: int | None = None  # set before each call, so that dropout repeats
    changed_position: int | None = None  # of a token with other numbers in each input
    mask_shape: str | None = None
    mask_error: Exception | None = None  # for a mask (B, T, K)
    problem: Exception | None = None  # in a plain call

    def __post_init__(self) -> None:
        self.calling: Calling = find_calling(self.original, self.calls)
        self.takes = set(self.calling.takes)
        # How far from equal two numbers may be in each type.
        for self.dtype, self.tolerance in (torch.float64, 1e-6), (torch.float32, 1e-4):
            self.layer = self.copied(self.dtype)
            try:
                self.run(self.x())
            except Exception as error:
                self.problem = error
            else:
                self.problem = None
                break
        if self.problem is None:
            self.mask_shape = self._find_mask_shape()
            if self.mask_shape and self.calls and self._reads_keys_only():
                self.mask_shape = KEYS
        if self.masks_keys and self.calling.by_mask:
            self.takes.discard("causal")  # such a mask cannot hide by query

    def copied(self, dtype: torch.dtype, *, raised: bool = True) -> nn.Module:
        """Return a copy of the layer in another type, with random weights.

        Dropout rates of 0 are raised to 0.25, so that it shows where dropout acts.
        """
        layer = copy.deepcopy(self.original).eval().to(dtype)
        generator = seeded(self.seed)
        for part, name in product(layer.modules() if raised else (), _DROPOUTS):
            value = getattr(part, name, None)
            if type(value) in (int, float) and value == 0:
                setattr(part, name, 0.25)
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

    def fresh(self, dtype: torch.dtype | None = None) -> "Probe":
        """Return the same probe with a copy of its layer that nobody has called."""
        other = copy.copy(self)
        other.layer = copy.deepcopy(self.layer)
        if dtype is not None:
            other.layer, other.dtype = other.layer.to(dtype), dtype
        return other

    def x(
        self, batch: int = BATCH, length: int = LENGTH, seed: int = 1, other: Any = None
    ) -> Tensor:
        """Draw an input, (B, T, M), with other numbers at the index ``other``."""
        shape, seed = (batch, length, self.d_model), self.seed + seed
        x, others = (torch.randn(shape, generator=seeded(seed + n)) for n in (0, 1))
        if other is not None:
            x[other] = others[other]
        if (at := self.changed_position) is not None:
            x[:, at] = 2 * others[:, at]
        return x.to(self.device, self.dtype)

    def padding(self, lengths: list[int], side: Any = "right") -> Tensor:
        """Return a mask (B, T, K) that hides padding; lengths repeat over the batch."""
        real = torch.tensor([lengths[i % len(lengths)] for i in range(BATCH)])
        seen = padding_mask(real.to(self.device), LENGTH, side=side)
        return seen.expand(BATCH, LENGTH, LENGTH)

    def any_pairs(self) -> Tensor:
        """Draw a mask of any pairs (B, T, K), where each query sees its own key."""
        mask = torch.rand(BATCH, LENGTH, LENGTH, generator=seeded(self.seed)) < 0.5
        return (mask | torch.eye(LENGTH, dtype=torch.bool)).to(self.device)

    def run(self, x: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
        """Call the layer, or ``layer``, with copies of x and a mask (B, T, K).

        With ``raw`` it gets these themselves.
        """
        layer = options.pop("layer", self.layer)
        if self.draw_seed is not None:
            torch.manual_seed(self.draw_seed)
        # Where it changes copies, that confuses one probe only.
        if not options.pop("raw", False):
            x, mask = x.clone(), None if mask is None else mask.clone()
        if self.calling.by_mask and options.pop("causal", False):
            past = self.calling.held(options["cache"]) if "cache" in options else 0
            hides = causal_mask(x.shape[1], past + x.shape[1], device=x.device)
            hides = hides.expand(x.shape[0], -1, -1)
            mask = hides if mask is None else mask & hides
        if mask is not None:
            shaped = _MASK_SHAPES.get(self.mask_shape or "")
            options["mask"] = shaped(mask) if shaped else mask
        return self.calling.call(layer, x, **options)

    def run_causal(self, x: Tensor, mask: Tensor | None = None, **more: Any) -> Tensor:
        """Call the layer so that it hides the future, where it can."""
        return self.run(x, mask, **self.causal_options, **more)

    def expect_same(self, found: Tensor, wanted: Tensor, words: str) -> None:
        """Raise a fault where two results differ; ``{}`` becomes how far."""
        if (change := apart(found, wanted)) > self.tolerance:
            raise FaultError(words.replace("{}", size(change)))

    def uses(self, *names: str) -> bool:
        """Return whether a plain call runs one of these operations of PyTorch's."""
        x = self.x()  # drawing it is no operation of the layer's
        return bool({*names} & {*operations_of(lambda: self.run(x)).types})

    @property
    def least(self) -> float:
        """How little a far token may count."""
        return 1e-11 if self.dtype == torch.float64 else 1e-7

    @property
    def device(self) -> torch.device:
        """The device of the layer's weights."""
        return next(self.original.parameters(), torch.empty(0)).device

    def new_cache(self, batch: int = BATCH, length: int = LENGTH) -> Any:
        """Return an empty cache, for a layer that takes one."""
        return self.calling.new_cache(self.layer, batch, length)

    def values_of(self, names: Sequence[str]) -> list[tuple[str, Any]]:
        """Return what parts of the layer, or their configs, hold under these names."""
        return list(values_of(self.layer.modules(), names))

    @cached_property
    def is_causal(self) -> bool:
        """Whether the layer hides the future without being asked to."""
        return bool((self.leaks()[~causal_mask(LENGTH)] <= self.tolerance).all())

    @cached_property
    def claims_causal(self) -> bool:
        """Whether the layer or its user says that it always hides the future."""
        if self.stated_causal is not None:
            return self.stated_causal
        names = "causal", "is_causal"
        own = any(getattr(self.layer, name, None) is True for name in names)
        return own and "causal" not in self.takes

    @cached_property
    def causal_options(self) -> dict[str, Any]:
        """The option of a call that hides the future; empty where none is needed."""
        own = self.calling.by_mask and (self.stated_causal or self.is_causal)
        return {"causal": True} if "causal" in self.takes and not own else {}

    @cached_property
    def has_window(self) -> bool:
        """Whether the layer or its config names a window of tokens."""
        return any(isinstance(value, int) for _, value in self.values_of(_WINDOWS))

    @cached_property
    def equal_rows(self) -> float:
        """How far apart the outputs are where all tokens are equal."""
        x = self.x()[:, :1].expand(-1, LENGTH, -1)
        found = self.run(x)
        return apart(found[:, -1:].expand_as(found), found)

    @cached_property
    def knows_positions(self) -> bool:
        """Whether the layer knows positions.

        A layer that mixes up its rows also feels the order. So something must speak for
        positions: equal tokens give equal rows; or a table without which the order no
        longer counts; or, in a layer that hides the future, the beginning of a text
        gives the same without the rest.
        """
        if not self._feels_order(self.layer):
            return False
        return self.equal_rows <= self.tolerance or self.has_table or self._begins_alike

    def _feels_order(self, layer: nn.Module) -> bool:
        x = self.x()
        there, here = (self.run(each, layer=layer) for each in (x[:, ORDER], x))
        return bool((there[:, -1] - here[:, -1]).abs().max() > self.tolerance)

    @cached_property
    def has_table(self) -> bool:
        """Whether the order stops counting when tables of positions have equal rows."""
        layer = copy.deepcopy(self.layer)
        named = layer.named_parameters()
        tables = [*layer.buffers(), *(p for name, p in named if "pos" in name.lower())]
        tables += [m.weight for m in layer.modules() if isinstance(m, nn.Embedding)]
        for table in tables:
            wide = table.ndim > 1 and table.shape[-1] == self.d_model
            if wide and table.is_floating_point():
                table.copy_(table[..., :1, :].expand_as(table).clone())
        return not self._feels_order(layer)

    @cached_property
    def _begins_alike(self) -> bool:
        if not (self.causal_options or self.is_causal):
            return False
        whole, begin = (self.run_causal(x) for x in (self.x(), self.x()[:, :4]))
        return bool((whole[:, :4] - begin).abs().max() <= self.tolerance)

    def leaks(self, mask: Tensor | None = None, **options: Any) -> Tensor:
        """Return how much each output (row) changes with one input (column), (T, T).

        With a mask the result is per text, (B, T, T).
        """
        found = self.dependence(lambda each: each.run(each.x(), mask, **options))
        return found if mask is not None else found.amax(dim=0)

    def dependence(self, run: Run, positions: Iterable[int] = range(LENGTH)) -> Tensor:
        """Return how much each output of a run changes with one token, (B, T, K)."""
        before, columns = run(self), []
        for position in positions:
            changed = copy.copy(self)
            changed.changed_position = position
            columns.append((run(changed) - before).abs().amax(dim=-1))  # (B, T)
        return torch.stack(columns, dim=-1).nan_to_num(torch.inf).cpu()

    def _find_mask_shape(self) -> str | None:
        """Return the first shape in which a mask of True is taken and hides nothing."""
        if "mask" not in self.takes:
            return None
        x, everything = self.x(), self.padding([LENGTH])
        wanted, runs = self.run(x), []
        for self.mask_shape in _MASK_SHAPES:
            try:
                found = self.run(x, everything)
            except Exception as error:
                if self.mask_shape == "(B, T, T)":
                    self.mask_error = error
                continue
            runs += [self.mask_shape] if found.shape == wanted.shape else []
            if self.mask_shape in runs and torch.allclose(
                found, wanted, atol=self.tolerance
            ):
                return self.mask_shape
        return runs[0] if runs else "(B, T, T)"

    @property
    def masks_keys(self) -> bool:
        """Whether a mask names hidden keys, the same for each query."""
        return self.mask_shape in ("(B, T)", KEYS)

    def _reads_keys_only(self) -> bool:
        """Whether the user's call reads a row of the mask, or refuses other masks."""
        x, pairs = self.x(), self.any_pairs()
        pairs[:, :, 0] = True
        try:
            row = self.run(x, pairs[:, :1].expand(-1, LENGTH, -1).clone())
            found = self.run(x, pairs)
        except (ValueError, NotImplementedError):
            return True
        return bool((found - row).abs().max() <= self.tolerance)


def width_of(layer: nn.Module) -> int:
    """Return the width of a layer's input, by its names or weights."""
    for _, value in values_of([layer], _WIDTHS):
        if isinstance(value, int):
            return value
    for part in layer.modules():
        if isinstance(part, nn.Linear):
            return part.in_features
    for name, parameter in layer.named_parameters():
        if parameter.ndim == 2:
            return parameter.shape[0 if name.endswith("T") else -1]
    raise TypeError("the width of the layer's input is not known: give d_model")
