"""What a layer computes, step by step: each call of PyTorch's, with its line.

A tensor is known by its numbers, not by its place in memory: a few sums of them with
random weights. So a step of one layer can be found among those of another, also where
the two are written otherwise, and a view is what it looks at.

Shapes: B batch, H heads, T length, K keys, D head_dim.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attention_lib.examine.source_lines import place_of
from attention_lib.reproducibility import seeded

_MOST = 500_000  # numbers of a tensor that count; of larger ones, every so many
_HUGE = 1e8  # beyond it a number fills a place, such as -inf in a hidden score


@dataclass(frozen=True)
class Value:
    """The numbers of a tensor, in short.

    Attributes:
        shape: of the tensor.
        dots: three sums of its numbers with random weights; then three of the places
            that hold huge numbers.
        norms: the root of the sum of squares, of both.
        moments: sums of its numbers and of their cubes, which no order changes.
        dtype: their type.
        grad: whether a gradient goes back through it.
        truth: the tensor itself where it is boolean and small.
        most: the largest of its numbers that are not huge, without its sign.
    """

    shape: tuple[int, ...]
    dots: tuple[float, ...]
    norms: tuple[float, float]
    moments: tuple[float, float]
    dtype: torch.dtype
    grad: bool
    truth: Tensor | None = None
    most: float = 0.0

    @property
    def key(self) -> tuple[Any, ...]:
        """What is the same for views of the same numbers in the same order."""
        return self.numel, self.dots

    @property
    def numel(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)

    @property
    def floats(self) -> bool:
        """Whether they are floating-point numbers."""
        return self.dtype.is_floating_point


@dataclass
class Step:
    """One call of PyTorch's.

    Attributes:
        name: of the function.
        words: the call with its arguments; tensors as shapes, weights by name.
        place: the file and the line that made the call, "" where the layer did not.
        reads: the values of its arguments.
        gives: the values of its results, and of what it changed in place.
        drops: the share that it drops, 0 where it is no dropout.
        sources: the names of the weights that its arguments depend on.
        axis: along which it works, where it was told one.
        in_place: whether it changes its first argument.
        call: the number of the layer's call.
    """

    name: str
    words: str
    place: str
    reads: list[Value]
    gives: list[Value] = field(default_factory=list)
    drops: float = 0.0
    sources: frozenset[str] = frozenset()
    axis: int | None = None
    in_place: bool = False
    call: int = 0


@cache
def _weights() -> Tensor:
    return torch.randn(3, _MOST, generator=seeded(11), dtype=torch.float64)


def value_of(tensor: Tensor) -> Value:
    """Takes the numbers of a tensor in short."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        flat = tensor.detach().reshape(-1)
        flat = flat[:: max(1, -(-len(flat) // _MOST))].to("cpu", torch.float64)
        weights = _weights()[:, : len(flat)]
        huge = ~(flat.abs() < _HUGE)
        kept = tensor.dtype == torch.bool and tensor.numel() <= _MOST
        small = flat.masked_fill(huge, 0)
        fills = flat.sign() * flat.abs().clamp(min=1).log().clamp(max=2e3)
        fills = fills.nan_to_num(3e3) * huge
        dots = [*(weights @ small).tolist(), *(weights @ fills).tolist()]
        return Value(
            tuple(tensor.shape),
            tuple(dots),
            (float(small.norm()), float(fills.norm())),
            (float(small.sum()), float(small.pow(3).sum())),
            tensor.dtype,
            tensor.requires_grad,
            tensor.cpu().clone() if kept else None,
            float(small.abs().max()) if len(small) else 0.0,
        )


class Recorder(TorchFunctionMode):
    """Notes each step that runs inside; attention that is one call, as its steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.scores: list[Tensor] = []  # what a softmax was taken of
        self.names = {
            value_of(each).key: name
            for named in (layer.named_buffers(), layer.named_parameters())
            for name, each in named
            if each.numel() > 1 and not each.is_meta
        }
        self.calls = 0
        layer.register_forward_pre_hook(self._begin)
        self.sources: dict[Any, frozenset[str]] = {
            key: frozenset({name}) for key, name in self.names.items()
        }

    def _begin(self, layer: nn.Module, inputs: Any) -> None:
        self.calls += 1
        for x in inputs[:1]:
            if isinstance(x, Tensor) and not x.is_meta and x.numel() > 1:
                key = value_of(x).key
                self.names.setdefault(key, "x")
                self.sources[key] = self.sources.get(key, frozenset()) | {"x"}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs a step, and notes it."""
        kwargs = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention:
            with self:
                return _attend(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        given = [each for each in _tensors((args, kwargs)) if not each.is_meta]
        reads = [value_of(each) for each in given]
        inner = name.strip("_")
        words = _words(inner, args, kwargs, self.names)
        found = func(*args, **kwargs)
        gives = [*_tensors(found)]
        in_place = name.endswith("_") and not name.endswith("__")
        in_place |= name.startswith(("__i", "__set")) and inner != "invert"
        if in_place:
            bases = [each._base for each in given[:1]]
            gives = [*given[:1], *(each for each in bases if each is not None)]
        if inner == "softmax":
            self.scores.append(given[0].detach())
        step = Step(inner, words, _place(), reads, in_place=in_place)
        step.call = self.calls
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        step.axis = axis if isinstance(axis, int) else None
        step.gives = [value_of(each) for each in gives]
        if step.gives:
            if inner in ("dropout", "native_dropout"):
                step.drops = float(kwargs.get("p", args[1] if len(args) > 1 else 0))
                step.drops *= bool(kwargs.get("training", True))
            known = [self.sources.get(each.key, frozenset()) for each in reads]
            step.sources = frozenset().union(*known)
            for each in step.gives:
                self.sources.setdefault(each.key, step.sources)
            self.steps.append(step)
        return found


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention in the steps that the fused call stands for."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device)
        scores = scores.masked_fill(~seen.tril(), float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(dim=-1)
    if attn_mask is not None:
        weights = weights.nan_to_num(0.0)  # of rows that see nothing
    if dropout_p:
        weights = nn.functional.dropout(weights, dropout_p)
    return weights @ value


def _tensors(given: Any) -> Iterator[Tensor]:
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, dict):
        yield from _tensors([*given.values()])
    elif isinstance(given, list | tuple):
        for each in given:
            yield from _tensors(each)


def _place() -> str:
    return place_of(sys._getframe(2))


def _words(name: str, args: Any, kwargs: Any, names: dict[Any, str]) -> str:
    def shown(each: Any) -> str:
        if isinstance(each, Tensor):
            known = names.get(value_of(each).key) if each.numel() > 1 else None
            if each.numel() == 1 and not each.is_meta:
                return f"{each.item():.4g}"
            return known or "×".join(map(str, each.shape))
        if isinstance(each, slice):
            ends = ["" if end is None else str(end) for end in (each.start, each.stop)]
            return ":".join(ends) + (f":{each.step}" if each.step else "")
        if isinstance(each, tuple | list):
            return "(" + ", ".join(map(shown, each)) + ")"
        if isinstance(each, float):
            return f"{each:.4g}"
        return "..." if each is ... else str(each)

    parts = [shown(each) for each in args]
    if name == "getitem" and len(parts) == 2:
        return f"{parts[0]}[{parts[1].strip('()')}]"
    parts += [
        f"{word}={shown(each)}"
        for word, each in kwargs.items()
        if each is not None and each is not False and not word.startswith("_")
    ]
    return f"{name}({', '.join(parts)})"
