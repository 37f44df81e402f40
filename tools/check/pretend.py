"""A pretended GPU: a device of its own name, on which the CPU's kernels compute.

`install()` adds the device `pretend` to PyTorch, in this process. Mistakes with devices
then show on a machine without a GPU as they would on CUDA:

- tensors on two devices do not mix, but for a CPU tensor that holds one number in an
  element-wise operation, and for CPU tensors as indices;
- NumPy, and so Matplotlib, cannot read a tensor there;
- a generator on the CPU cannot draw there, and what is drawn there without one differs
  from what the CPU draws for the same seed;
- an operation that has no repeatable kernel on CUDA is refused, once
  `torch.use_deterministic_algorithms(True)` is set.

It does not imitate CUDA's kernels, so neither its sums in float32 or TF32, nor speed,
memory, and what runs at the same time; nor `torch.cuda`, `autocast`, compilation, and
generators on the device. A chapter meets `device.type == "pretend"`.

How: a tensor there is CPU memory under another name (`memory.py`), and PyTorch's
backend for devices in Python (`PrivateUse1`) takes the operations.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils import backend_registration

from tools.check import cells
from tools.check.memory import HERE, NAME, down, renamed, up
from tools.check.modules import keeping_parameters
from tools.check.refusals import device_check, repeat_check

KEY = "PrivateUse1"
CPU_KERNELS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
METADATA_ONLY = {"set_", "resize_"}  # besides views; they change a tensor in place

_libraries: list[torch.library.Library] = []  # what is registered lives as long
_random = torch.Generator()  # draws what is drawn on the device


class _Module(backend_registration._DummyBackendModule):
    """What PyTorch asks of `torch.pretend`."""

    def manual_seed_all(self, seed: int) -> None:
        """Seed the device; `torch.manual_seed` calls it."""
        _random.manual_seed(seed + 1)  # as on CUDA: other numbers than the CPU's


def install() -> torch.device:
    """Add the device to PyTorch, unless it is there, and return it.

    Raises:
        RuntimeError: another backend has taken the only place that PyTorch has.
    """
    if not _libraries:
        backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
        library = torch.library.Library("aten", "IMPL")
        for op in _operations():
            library.impl(op, _view(op) if _reads_no_numbers(op) else _kernel(op), KEY)
        library.impl("_copy_from", _copy_from, KEY)
        for flag in ("Conjugate", "Negative"):  # the copy minds these itself
            library.impl("_copy_from", torch.library.fallthrough_kernel, flag)
        torch.UntypedStorage.clone = _clone(torch.UntypedStorage.clone)  # type: ignore
        cells.register(library)
        nn.Module._apply = keeping_parameters(nn.Module._apply)  # type: ignore
        _libraries.append(library)
    return torch.device(NAME)


def _operations() -> list[OpOverload]:
    """Find what the CPU has a kernel for; all else is put together from these."""
    names = set(torch._C._dispatch_get_registrations_for_dispatch_key("CPU"))
    # A GPU's optimisers take whole lists, for which the CPU has loops.
    names |= {n for n in torch._C._dispatch_get_all_op_names() if "::_foreach_" in n}
    found = []
    for name in sorted(names - {"aten::_copy_from"}):
        space, _, rest = name.partition("::")
        if space == "aten":
            packet, _, overload = rest.partition(".")
            overloads = getattr(torch.ops.aten, packet)
            found.append(getattr(overloads, overload or "default"))
    return found


def _reads_no_numbers(op: OpOverload) -> bool:
    if op._schema.name.removeprefix("aten::") in METADATA_ONLY:
        return True
    aliases = [returned.alias_info for returned in op._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _view(op: OpOverload) -> Callable[..., Any]:
    """Make a view with the CPU's kernel as it is: it keeps device and storage."""
    return lambda *args, **kwargs: op.redispatch(CPU_KERNELS, *args, **kwargs)


def _kernel(op: OpOverload) -> Callable[..., Any]:
    """Make an operation: check it, rename, compute on the CPU, rename back."""
    check, repeats = device_check(op, NAME), repeat_check(op)
    compute = _drawn(op) if torch.Tag.nondeterministic_seeded in op.tags else op
    written = [
        (place, argument.name)
        for place, argument in enumerate(op._schema.arguments)
        if argument.alias_info and argument.alias_info.is_write
    ]
    returned = len(op._schema.returns)

    def call(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        if repeats:
            repeats(*args, **kwargs)
        plain = [down(argument) for argument in args]
        named = {name: down(argument) for name, argument in kwargs.items()}
        if not written:
            return up(compute(*plain, **named))
        given = [kwargs[n] if n in kwargs else args[place] for place, n in written]
        grown = []
        for (place, name), target in zip(written, given, strict=True):
            # An empty result is there to grow, which renamed memory cannot.
            if isinstance(target, Tensor) and not target.numel():
                fresh = torch.empty(0, dtype=target.dtype)
                grown.append((target, fresh))
                if name in kwargs:
                    named[name] = fresh
                else:
                    plain[place] = fresh
        compute(*plain, **named)
        for target, fresh in grown:
            target.data = renamed(fresh, HERE)
        return given[0] if returned == 1 else tuple(given[:returned]) or None

    return call


def _drawn(op: OpOverload) -> Callable[..., Any]:
    """Let an operation draw from the device's numbers, and leave the CPU's alone."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        before = torch.get_rng_state()
        torch.set_rng_state(_random.get_state())
        try:
            return op(*args, **kwargs)
        finally:
            _random.set_state(torch.get_rng_state())
            torch.set_rng_state(before)

    return compute


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy to, from or on the device: the one operation that may mix."""
    down(target).copy_(down(source))
    return target


def _clone(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Let `deepcopy` copy a storage of the device, which has no allocator."""

    def clone(storage: torch.UntypedStorage) -> Any:
        if storage.device.type != NAME:
            return usual(storage)
        numbers = torch.empty(0, dtype=torch.uint8, device=NAME)
        return numbers.set_(storage).clone().untyped_storage()

    return clone
