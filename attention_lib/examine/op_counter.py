"""What a layer computes with: the names and types of the operations of one call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    """Notes the name of each operation, and the type of numbers that it gives.

    Attributes:
        types: the types of what an operation gave, by its name (``cos``, ``mm``).
        drops: the shares of numbers that dropout drops, in the order of the calls.
        overflows: whether a square of 16 bits was infinite.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types: dict[str, set[torch.dtype]] = {}
        self.drops: list[float] = []
        self.overflows = False

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs an operation, and notes it."""
        found = func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        if name == "bernoulli_" and len(args) > 1 and isinstance(args[1], float):
            self.drops.append(1 - args[1])
        elif name == "native_dropout":
            self.drops.append(float(args[1]))
        power = args[1] if len(args) > 1 else None
        if (name == "mul" and args[0] is power) or (
            name == "pow" and isinstance(power, int | float) and power == 2
        ):
            self.overflows |= found.dtype == torch.float16 and bool(found.isinf().any())
        for each in found if isinstance(found, tuple | list) else (found,):
            if isinstance(each, Tensor):
                self.types.setdefault(name, set()).add(each.dtype)
        return found


def overflows(call: Callable[[], Any]) -> bool:
    """Whether a call squares a number of 16 bits that is too large."""
    with torch.no_grad(), Watch() as watch:
        call()
    narrow = watch.types.get("rsqrt", set()) | watch.types.get("sqrt", set())
    return watch.overflows and torch.float16 in narrow


def drops(call: Callable[[], Any]) -> list[float]:
    """The shares of numbers that dropout drops in a call."""
    with torch.no_grad(), Watch() as watch:
        call()
    return watch.drops


@contextmanager
def watched() -> Iterator[dict[str, set[torch.dtype]]]:
    """Gives the operations that run inside, by name, with the types that they gave."""
    with torch.no_grad(), Watch() as watch:
        yield watch.types
