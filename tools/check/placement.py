"""Loaded in a chapter's kernel: find modules that are not on the chosen device.

Every module that a name of the reader's namespace leads to (itself, or in a list, tuple
or dictionary) must have all its tensors on that device, registered or not. Excepted are
modules on `meta`, which serve to count, and those of `ON_PURPOSE`. Tensors by
themselves may be on the CPU by design; the device refuses them where they meet it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

# The names of modules that stand on the CPU whatever the device, and why.
ON_PURPOSE = {
    "bare": "its error is the CPU's; on a GPU it comes late, and ends the kernel",
    "reader": "its largest tensor is that of the CPU's kernels",
    "half": "autocast is shown on the CPU, which every machine has",
}


def misplaced(names: Mapping[str, Any], wanted: str) -> list[str]:
    """Return a line for each module with a tensor on another device."""
    faults = []
    for name, value in list(names.items()):
        if name.startswith("_") or name in ON_PURPOSE:
            continue
        for place, module in _modules(name, value):
            for tensor_name, tensor in _tensors(module):
                if tensor.device.type not in {wanted, "meta"}:
                    where = f"is on {tensor.device.type}, not on {wanted}"
                    faults.append(f"{place}.{tensor_name} {where}")
                    break
    return faults


def _modules(
    name: str, value: Any, above: tuple[int, ...] = ()
) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(value, nn.Module):
        yield name, value
    elif isinstance(value, dict | list | tuple) and id(value) not in above:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            # A collection may hold itself.
            yield from _modules(f"{name}[{key!r}]", part, (*above, id(value)))


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
    for path, part in module.named_modules():
        # Such a tensor was not registered, so `.to(device)` misses it.
        for name, value in vars(part).items():
            if isinstance(value, Tensor):
                yield f"{path}.{name}".lstrip("."), value
