"""A simulated GPU: a device with its own name, on which the CPU's kernels compute.

`install()` adds the device `pretend` to PyTorch, in this process. Mistakes with devices
then show on a machine without a GPU as they would on CUDA:

- tensors on two devices do not mix, but for a CPU tensor that holds one number in an
  element-wise operation, and for CPU tensors as indices;
- NumPy, and so Matplotlib, cannot read a tensor there;
- a generator on the CPU cannot draw there, and what is drawn there without one differs
  from what the CPU draws for the same seed;
- an operation that has no repeatable kernel on CUDA is refused, once
  `torch.use_deterministic_algorithms(True)` is set.

It imitates neither CUDA's sums in float32 or TF32, nor speed, memory, `torch.cuda`,
`autocast`, compilation, generators on the device, and conjugate views.

How: PyTorch's backend for devices in Python (`PrivateUse1`) takes the operations. A
tensor there is CPU memory that DLPack hands over under another device's name.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map_only

NAME, KEY = "pretend", "PrivateUse1"
ON_CPU, HERE = 1, 12  # DLPack's numbers: kDLCPU; kDLExtDev, which is PrivateUse1
CPU_KERNELS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

# CUDA takes CPU tensors as indices, and to fill with where they hold one number.
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
FILLING = {"fill", "fill_", "masked_fill", "masked_fill_"} | INDEXING
# What throws, once `use_deterministic_algorithms(True)` is set, by the documentation of
# PyTorch 2.13; here by the operation that does. Layers for images and sound are left
# out: no chapter has any. The last two throw for some arguments only.
REFUSED = {"histc", "put_", "median.dim_values", "nll_loss2d_forward"}
REFUSED_FOR: dict[str, Callable[..., bool]] = {
    "cumsum": lambda x, *_, **__: x.is_floating_point(),
    "bincount": lambda _, weights=None, *__: weights is not None,
}

_libraries: list[torch.library.Library] = []  # what is registered lives as long
_random = torch.Generator()  # draws what is drawn on the device
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Module(backend_registration._DummyBackendModule):
    """The functions that PyTorch requires of `torch.pretend`."""

    def manual_seed_all(self, seed: int) -> None:
        """Seed the device; `torch.manual_seed` calls it."""
        _random.manual_seed(seed + 1)  # as on CUDA: other numbers than the CPU's

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Return the types that autocast may choose here, for `torch.autocast`."""
        return [torch.float16, torch.bfloat16]


def install() -> None:
    """Register the device with PyTorch, unless it is registered already."""
    if _libraries:
        return
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    library = torch.library.Library("aten", "IMPL")
    for op in _operations():
        # The CPU's own kernel makes views: it keeps device and storage.
        view = partial(op.redispatch, CPU_KERNELS)
        library.impl(op, view if _is_view(op) else _kernel(op), KEY)
    library.impl("_copy_from", _copy_from, KEY)
    for key in (f"Autograd{KEY}", KEY):
        library.impl("_thnn_fused_lstm_cell", _lstm_cell, key)
    torch.UntypedStorage.clone = _clone(torch.UntypedStorage.clone)  # type: ignore
    # A module that moves keeps its parameters, as on CUDA: tied weights stay tied.
    torch.__future__.set_swap_module_params_on_conversion(True)
    _libraries.append(library)


def _operations() -> list[OpOverload]:
    """Find the operations that have a CPU kernel; all others are composed of these."""
    names = set(torch._C._dispatch_get_registrations_for_dispatch_key("CPU"))
    # A GPU's optimisers take whole lists, for which the CPU has loops.
    names |= {n for n in torch._C._dispatch_get_all_op_names() if "::_foreach_" in n}
    found = []
    for full in sorted(names - {"aten::_copy_from"}):
        if full.startswith("aten::"):
            name, _, overload = full.removeprefix("aten::").partition(".")
            packet = getattr(torch.ops.aten, name)
            found.append(getattr(packet, overload or "default"))
    return found


def _is_view(op: OpOverload) -> bool:
    """Return whether an operation reads no numbers."""
    aliases = [returned.alias_info for returned in op._schema.returns]
    views = any(alias is not None and not alias.is_write for alias in aliases)
    return views or op._schema.name in {"aten::set_", "aten::resize_"}


def _kernel(op: OpOverload) -> Callable[..., Any]:
    """Make an operation: check it, rename, compute on the CPU, rename back."""
    compute = _drawn(op) if torch.Tag.nondeterministic_seeded in op.tags else op
    written = [
        (place, argument.name)
        for place, argument in enumerate(op._schema.arguments)
        if argument.alias_info and argument.alias_info.is_write
    ]
    returned = len(op._schema.returns)
    takes_tensor = [str(it.type) == "Tensor" for it in op._schema.arguments]
    check = _check(op, {place for place, _ in written})

    def call(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        plain = [_down(argument) for argument in args]
        named = {name: _down(argument) for name, argument in kwargs.items()}
        if not written:
            # Some numbers come bare, though this overload takes tensors.
            bare = any(
                wanted and isinstance(given, int | float)
                for wanted, given in zip(takes_tensor, plain, strict=False)
            )
            return _up((op.overloadpacket if bare else compute)(*plain, **named))
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
            target.data = _renamed(fresh, HERE)
        return given[0] if returned == 1 else tuple(given[:returned]) or None

    return call


def _check(op: OpOverload, written: set[int]) -> Callable[..., None]:
    """Make a check of an operation's arguments, with CUDA's error messages."""
    name = op._schema.name.removeprefix("aten::")
    always = bool(REFUSED & {name, f"{name}.{op._overloadname}"})
    refused_for = REFUSED_FOR.get(name, lambda *_, **__: always)
    numbers = name in FILLING or torch.Tag.pointwise in op.tags

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = [(-1, argument) for argument in kwargs.values()]
        for place, argument in [*enumerate(args), *named]:
            if name in INDEXING and place == 1:
                continue
            for part in tree_leaves(argument):
                if not isinstance(part, Tensor | torch.Generator):
                    continue
                other, one = part.device.type, False
                wanted = f"a '{NAME}' device type for generator"
                if isinstance(part, Tensor):
                    one = part.ndim == 0 and other == "cpu" and place not in written
                    wanted = "all tensors to be on the same device"
                if other != NAME and not (one and numbers):
                    raise RuntimeError(f"Expected {wanted}, not on {other} (in {name})")
        strict = torch.are_deterministic_algorithms_enabled()
        if strict and refused_for(*args, **kwargs):
            told = f"{name} does not have a deterministic implementation on CUDA, but "
            told += "you set 'torch.use_deterministic_algorithms(True)'"
            raise RuntimeError(told)

    return check


def _drawn(op: OpOverload) -> Callable[..., Any]:
    """Make an operation draw from the device's generator, leaving the CPU's alone."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        with torch.random.fork_rng(devices=()):
            torch.set_rng_state(_random.get_state())
            try:
                return op(*args, **kwargs)
            finally:
                _random.set_state(torch.get_rng_state())

    return compute


def _renamed(tensor: Tensor, device: int) -> Tensor:
    """Return the same memory on another device; autograd does not follow it."""
    capsule = torch._C._to_dlpack(tensor)
    header = _pointer(capsule, b"dltensor")  # begins with a pointer; then the device
    ctypes.c_int32.from_address(header + ctypes.sizeof(ctypes.c_void_p)).value = device
    return torch._C._from_dlpack(capsule)


def _down(argument: Any) -> Any:
    """Return an argument of an operation in the form that the CPU's kernel needs."""
    if isinstance(argument, Tensor):
        return argument if argument.is_cpu else _renamed(argument, ON_CPU)
    if isinstance(argument, list | tuple):
        return [_down(part) for part in argument]
    return torch.device("cpu") if isinstance(argument, torch.device) else argument


def _up(result: Any) -> Any:
    """Return the result of the CPU's kernel as the device's."""
    return tree_map_only(Tensor, lambda tensor: _renamed(tensor, HERE), result)


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy to, from or on the device: the one operation that may mix."""
    _down(target).copy_(_down(source))
    return target


def _clone(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Let `deepcopy` copy a storage of the device, which has no allocator."""

    def clone(storage: torch.UntypedStorage) -> Any:
        if storage.device.type != NAME:
            return usual(storage)
        numbers = torch.empty(0, dtype=torch.uint8, device=NAME)
        return numbers.set_(storage).clone().untyped_storage()

    return clone


# On any GPU, an LSTM calls fused cells, which the CPU lacks. Here they are put together
# from smaller operations, whose backward autograd knows.


def _lstm_cell(
    inputs: Tensor, hidden: Tensor, cell: Tensor, *biases: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, the cell state, and the gates."""
    gates = sum((b for b in biases if b is not None), inputs + hidden)
    enter, keep, new, leave = gates.chunk(4, dim=1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell, gates
