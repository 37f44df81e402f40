"""The operations of one call: their names, number types and dropout rates."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """Note each operation that runs inside.

    Attributes:
        types: the number types that an operation returned, by its name (``cos``).
        drops: the rates of dropout, in the order of the calls.
        overflow: whether a square in float16 was infinite.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types: dict[str, set[torch.dtype]] = {}
        self.drops: list[float] = []
        self.overflow = False

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation and note it."""
        result = func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        second = args[1] if len(args) > 1 else None
        if name == "bernoulli_" and isinstance(second, float):
            self.drops.append(1 - second)
        elif name == "native_dropout":
            self.drops.append(float(args[1]))
        is_square = name == "pow" and isinstance(second, int | float) and second == 2
        if is_square or (name == "mul" and args[0] is second):
            self.overflow |= result.dtype == torch.float16 and bool(
                result.isinf().any()
            )
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, Tensor):
                self.types.setdefault(name, set()).add(each.dtype)
        return result


def operations_of(call: Callable[[], Any]) -> Operations:
    """Return the operations of a call, which runs without gradients."""
    with torch.no_grad(), Operations() as seen:
        call()
    return seen
