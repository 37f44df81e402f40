"""Memory under another device's name: how a tensor gets to the pretended GPU and back.

DLPack hands memory over with a header that names its device. Here the header is changed
on its way, and nothing is copied.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

NAME = "pretend"
ON_CPU, HERE = 1, 12  # DLPack's numbers: kDLCPU; kDLExtDev, which is PrivateUse1


class _Device(ctypes.Structure):
    """DLPack's DLDevice."""

    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Header(ctypes.Structure):
    """The beginning of DLPack's DLTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", _Device))


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def renamed(tensor: Tensor, device: int) -> Tensor:
    """Return the same memory on another device; autograd does not follow it."""
    capsule = torch._C._to_dlpack(tensor)
    _Header.from_address(_pointer(capsule, b"dltensor")).device.kind = device
    return torch._C._from_dlpack(capsule)


def down(argument: Any) -> Any:
    """Return what the CPU's kernel gets for an argument of an operation."""
    if isinstance(argument, Tensor):
        if argument.is_cpu:
            return argument
        plain = renamed(argument, ON_CPU)
        if argument.is_conj() or argument.is_neg():  # flags that DLPack does not carry
            plain = plain.conj_physical() if argument.is_conj() else -plain
        return plain
    if isinstance(argument, list | tuple):
        return [down(part) for part in argument]
    return torch.device("cpu") if isinstance(argument, torch.device) else argument


def up(result: Any) -> Any:
    """Return what the device gives for the result of the CPU's kernel."""
    if isinstance(result, Tensor):
        return renamed(result, HERE)
    if isinstance(result, list | tuple):
        return type(result)(up(part) for part in result)
    return result
