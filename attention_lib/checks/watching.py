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
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types: dict[str, set[torch.dtype]] = {}

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
        for each in found if isinstance(found, tuple | list) else (found,):
            if isinstance(each, Tensor):
                self.types.setdefault(name, set()).add(each.dtype)
        return found


@contextmanager
def watched() -> Iterator[dict[str, set[torch.dtype]]]:
    """Gives the operations that run inside, by name, with the types that they gave."""
    with torch.no_grad(), Watch() as watch:
        yield watch.types
