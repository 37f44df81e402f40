"""The steps of a layer's calls: each call of PyTorch's with its line and its numbers.

A tensor is known by its numbers, not by its memory: so a view is what it looks at, and
a step of one layer can be found among those of another that is written differently.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attention_lib.examine.outcomes import OWN_FILES, is_between, line_words

_MOST = 500_000  # numbers kept of a tensor; of a larger one, every n-th
_HUGE = 1e8  # beyond it a number is a fill, such as -inf in a hidden score
_LONGEST = 110  # letters of a line of code


@dataclass(frozen=True, eq=False)
class Value:
    """The numbers of a tensor, flat; views of the same numbers share a key."""

    key: tuple[int, int]  # how many there are, and their hash
    shape: tuple[int, ...]
    dtype: torch.dtype
    grad: bool
    numbers: Tensor  # in float64; huge ones are 0
    fills: Tensor  # the logarithms of the huge numbers, with their signs; 0 elsewhere

    @property
    def most(self) -> float:
        """The largest magnitude of the numbers that are not huge."""
        return float(self.numbers.abs().max()) if len(self.numbers) else 0.0

    def is_near(self, other: "Value", tolerance: float) -> bool:
        """Return whether two tensors of one size have the same numbers."""
        pairs = (self.numbers, other.numbers), (self.fills, other.fills)
        return all(is_near(one, two, tolerance) for one, two in pairs)


def is_near(one: Tensor, two: Tensor, tolerance: float) -> bool:
    """Return whether two tensors differ by rounding only."""
    size = max(float(one.norm()), float(two.norm()))
    return float((one - two).norm()) <= tolerance * size + 1e-30


def value_of(tensor: Tensor) -> Value:
    """Return the numbers of a tensor."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        flat = tensor.detach().reshape(-1)
        flat = flat[:: max(1, -(-len(flat) // _MOST))]
        flat = flat.to("cpu", torch.float64, copy=True)
        huge = ~(flat.abs() < _HUGE)
        logs = flat.abs().clamp(min=1).log().clamp(max=2e3)  # of infinity: 2000
        fills = (flat.sign() * logs).nan_to_num(3e3) * huge
        key = tensor.numel(), hash(flat.numpy().tobytes())
        numbers = flat.masked_fill(huge, 0)
        shape, grad = tuple(tensor.shape), tensor.requires_grad
        return Value(key, shape, tensor.dtype, grad, numbers, fills)


@dataclass
class Step:
    """One call of PyTorch's."""

    name: str
    words: str  # the call with its arguments; tensors as shapes, weights by name
    place: str  # the line of the layer, "" where an examination made the call
    reads: list[Value]
    call: int  # the number of the layer's call
    gives: list[Value] = field(default_factory=list)  # or changes in place
    drops: float = 0.0  # the dropout rate
    sources: frozenset[str] = frozenset()  # the weights that its arguments depend on
    axis: int | None = None
    in_place: bool = False

    @property
    def types(self) -> set[str]:
        """The floating-point types of its results."""
        given = {each.dtype for each in self.gives if each.dtype.is_floating_point}
        return {str(dtype).removeprefix("torch.") for dtype in given}

    @property
    def ends_gradient(self) -> bool:
        """Whether what it reads has a gradient, and what it gives has none."""
        no_grad = not any(each.grad for each in self.gives)
        return bool(self.types) and no_grad and any(each.grad for each in self.reads)

    def said(self, *, types: bool = False) -> str:
        """Return the call and its line."""
        kind = f" in {', '.join(sorted(self.types))}" if types else ""
        return f"{self.words}{kind} (in {self.place[:_LONGEST]})"


class Recorder(TorchFunctionMode):
    """Note each step that runs inside; attention that is one call, as its steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.names = {
            value_of(each).key: name
            for named in (layer.named_buffers(), layer.named_parameters())
            for name, each in named
            if each.numel() > 1 and not each.is_meta
        }
        self.sources = {key: frozenset({name}) for key, name in self.names.items()}
        self.calls = 0
        layer.register_forward_pre_hook(self._begin)

    def _begin(self, layer: nn.Module, inputs: Any) -> None:
        self.calls += 1
        x = inputs[0] if inputs else None
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
        """Run a step and note it."""
        kwargs = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention:
            with self:
                return _attend(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        inner = name.strip("_")
        given = [each for each in _tensors((args, kwargs)) if not each.is_meta]
        words, reads = self._words(inner, args, kwargs), [value_of(g) for g in given]
        result = func(*args, **kwargs)
        changed = _tensors(result)
        in_place = name.endswith("_") and not name.endswith("__")
        in_place |= name.startswith(("__i", "__set")) and inner != "invert"
        if in_place:
            bases = [each._base for each in given[:1]]
            changed = [*given[:1], *(each for each in bases if each is not None)]
        if not changed:
            return result
        step = Step(inner, words, _place_of(sys._getframe(1)), reads, self.calls)
        step.gives, step.in_place = [value_of(each) for each in changed], in_place
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        step.axis = axis if isinstance(axis, int) else None
        if inner in ("dropout", "native_dropout"):
            step.drops = float(kwargs.get("p", args[1] if len(args) > 1 else 0))
            step.drops *= bool(kwargs.get("training", True))
        known = [self.sources.get(each.key, frozenset()) for each in reads]
        step.sources = frozenset().union(*known)
        for each in step.gives:
            self.sources.setdefault(each.key, step.sources)
        self.steps.append(step)
        return result

    def _words(self, name: str, args: Any, kwargs: dict[str, Any]) -> str:
        def shown(each: Any) -> str:
            if isinstance(each, Tensor):
                if each.numel() == 1 and not each.is_meta:
                    return f"{each.item():.4g}"
                known = None if each.is_meta else self.names.get(value_of(each).key)
                return known or "×".join(map(str, each.shape))
            if isinstance(each, slice):
                ends = ["" if n is None else str(n) for n in (each.start, each.stop)]
                return ":".join(ends) + (f":{each.step}" if each.step else "")
            if isinstance(each, tuple | list):
                return "(" + ", ".join(map(shown, each)) + ")"
            if isinstance(each, float):
                return f"{each:.4g}"
            return "..." if each is ... else str(each)

        parts = [shown(each) for each in args]
        if name == "getitem" and len(parts) == 2:
            return f"{parts[0]}[{parts[1].strip('()')}]"
        options = {k: v for k, v in kwargs.items() if v is not None and v is not False}
        parts += [f"{k}={shown(v)}" for k, v in options.items() if k[0] != "_"]
        return f"{name}({', '.join(parts)})"


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
    """Compute attention in the steps that the fused call combines."""
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


def _tensors(given: Any) -> list[Tensor]:
    return [each for each in tree_leaves(given) if isinstance(each, Tensor)]


def _place_of(frame: Any) -> str:
    """Return which line of the layer made a call; "" where an examination made it."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith("examine/recorder.py") or is_between(file):
            frame = frame.f_back
            continue
        return "" if file.startswith(OWN_FILES) else line_words(frame, frame.f_lineno)
    return ""
