"""The steps of a layer's calls: each call of PyTorch's with its line and its numbers.

A tensor is known by its numbers, not by its memory: so a view is what it looks at, and
a step of one layer can be found among those of another that is written differently.
``Operations`` notes what runs below these calls: inside of a norm, or of dropout.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
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
        sizes = self.key[0] == other.key[0]
        return sizes and all(is_near(*pair, tolerance) for pair in pairs)

    @property
    def size(self) -> str:
        """The shape in words."""
        return "×".join(map(str, self.shape))


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
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
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


def _attend(*args: Any, **kwargs: Any) -> Tensor:
    """Compute attention in the steps that the fused call combines."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = defaultdict(lambda: None, zip(names, args, strict=False)) | kwargs
    query, key, value, mask = (given[name] for name in names[:4])
    if given["enable_gqa"]:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
    scale = given["scale"]
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if given["is_causal"]:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device)
        scores = scores.masked_fill(~seen.tril(), float("-inf"))
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.nan_to_num(0.0)  # of rows that see nothing
    if given["dropout_p"]:
        weights = nn.functional.dropout(weights, given["dropout_p"])
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


class Operations(TorchDispatchMode):
    """Note each operation that runs inside; without ``drop``, dropout drops nothing."""

    def __init__(self, *, drop: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # The number types that an operation returned, by its name, such as ``cos``.
        self.types: defaultdict[str, set[torch.dtype]] = defaultdict(set)
        self.drops: list[float] = []  # the rates of dropout
        self.overflow = False  # whether a square in float16 was infinite
        self.drop = drop

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and note it."""
        name = func.__name__.partition(".")[0]
        second = args[1] if len(args) > 1 else None
        if name == "bernoulli_" and isinstance(second, float):
            self.drops.append(1 - second)
            if not self.drop:
                return args[0].fill_(second)  # what divides by it, gets 1
        elif name == "native_dropout":
            self.drops.append(float(args[1]))
            if not self.drop:
                return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        result = func(*args, **(kwargs or {}))
        to_two = isinstance(second, int | float) and second == 2
        squares = (name == "pow" and to_two) or (name == "mul" and args[0] is second)
        if squares and result.dtype == torch.float16:
            self.overflow |= bool(result.isinf().any())
        for each in _tensors(result):
            self.types[name].add(each.dtype)
        return result


def operations_of(call: Callable[[], Any]) -> Operations:
    """Return the operations of a call, which runs without gradients."""
    with torch.no_grad(), Operations() as seen:
        call()
    return seen
