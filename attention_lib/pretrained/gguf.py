"""GGUF, the file format of llama.cpp: typed fields, then tensors, in one file.

It begins with ``GGUF``, a version and two counts. Then come the fields (name, type and
value of each) and the tensors (name, shape, type and offset of each). The tensors'
numbers follow, from the next multiple of the alignment on. All is little endian. See
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import mmap
import struct
from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attention_lib.pretrained.gguf_blocks import BLOCK_TYPES, BlockType, unpack_blocks
from attention_lib.validation import require_path, require_tensor

# Types of fields: numbers, by the letters of Python's struct, then two others.
NUMBERS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
STRING, LIST = 8, 9
LEAST_BYTES = {kind: struct.calcsize("<" + form) for kind, form in NUMBERS.items()}
LEAST_BYTES |= {STRING: 8, LIST: 12}  # of empty ones
DEEPEST = 4  # lists in lists


class TensorInfo(NamedTuple):
    """How a tensor is stored, and where."""

    shape: tuple[int, ...]  # the slowest axis first, as in PyTorch
    kind: BlockType
    offset: int  # from where the numbers of all tensors begin
    nbytes: int


class GGUFFile:
    """A GGUF file, opened but not loaded: its numbers are read on demand.

    Counts and offsets are checked before use: a broken file takes little memory.

    Attributes:
        fields: numbers, strings, and lists of them, by name.
        tensors: by name.
        data_start: the byte at which the numbers of all tensors begin.

    Raises:
        TypeError: not a path.
        ValueError: a file that is missing, or is not a whole GGUF file of version 2 or
            3; a tensor whose type is not one of ``BLOCK_TYPES``.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self._at, self._part = require_path(path), 0, "the header"
        try:
            with self.path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            self._fail(f"cannot be read: {error}")
        self._check_version()
        counts = self._count("tensors", least=32), self._count("fields", least=13)
        self.fields: dict[str, Any] = {}
        for number in range(counts[1]):
            name = self._name(f"field {number}", self.fields)
            self.fields[name] = self._value(*self._take("I"))
        self._part, align = "the header", self.fields.get("general.alignment", 32)
        if type(align) is not int or align < 8 or align % 8:
            self._fail(f"says general.alignment = {align!r}; wanted a multiple of 8")
        self.tensors: dict[str, TensorInfo] = {}
        for number in range(counts[0]):
            name = self._name(f"tensor {number}", self.tensors)
            self.tensors[name] = self._info(align)
        self.data_start = -(-self._at // align) * align
        self._check_ranges()

    def read(self, name: str) -> Float[Tensor, "..."]:
        """Read one tensor, as float32; it shares no memory with the file."""
        require_tensor(name, self.tensors, self.path)
        shape, kind, offset, nbytes = self.tensors[name]
        raw = np.frombuffer(self._bytes, np.uint8, nbytes, self.data_start + offset)
        return torch.from_numpy(unpack_blocks(raw, kind)).reshape(shape)

    def _fail(self, words: str) -> NoReturn:
        raise ValueError(f"{self.path.name}: {self._part} {words}") from None

    def _take(self, form: str) -> tuple[Any, ...]:
        """Read the next numbers; ``form`` has the letters of Python's struct."""
        start, self._at = self._at, self._at + struct.calcsize("<" + form)
        if self._at > len(self._bytes):
            self._fail(f"is cut off: the file has {len(self._bytes):,} bytes")
        return struct.unpack_from("<" + form, self._bytes, start)

    def _count(self, what: str, least: int) -> int:
        """Read how many things follow that take at least so many bytes each."""
        (count,) = self._take("Q")
        left = len(self._bytes) - self._at
        if count * least > left:
            self._fail(f"announces {count:,} {what}, but only {left:,} bytes follow")
        return count

    def _check_version(self) -> None:
        magic, version = self._take("4sI")
        if magic != b"GGUF":
            self._fail(f"begins with {magic!r}, not with GGUF")
        if version in (2 << 24, 3 << 24):
            self._fail("is big endian; only little endian is read")
        if version not in (2, 3):
            self._fail(f"is of version {version}; versions 2 and 3 are read")

    def _string(self) -> str:
        length = self._count("bytes of text", least=1)
        start, self._at = self._at, self._at + length
        try:
            return self._bytes[start : self._at].decode("utf-8")
        except UnicodeDecodeError as error:
            self._fail(f"has a text that is not UTF-8: {error}")

    def _name(self, part: str, known: Container[str]) -> str:
        """Read the name of a field or a tensor; errors then refer to it."""
        self._part = part
        name = self._string()
        self._part = f"{part.split()[0]} {name}"
        if name in known:
            self._fail("is there twice")
        return name

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind in NUMBERS:
            return self._take(NUMBERS[kind])[0]
        if kind == STRING:
            return self._string()
        if kind != LIST:
            self._fail(f"has the unknown type {kind}")
        if depth == DEEPEST:
            self._fail(f"has lists in lists, more than {DEEPEST} deep")
        (kind,) = self._take("I")
        count = self._count("values", LEAST_BYTES.get(kind, 1))
        if kind in NUMBERS:
            return list(self._take(f"{count}{NUMBERS[kind]}"))
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _info(self, align: int) -> TensorInfo:
        """Read where a tensor is; its sizes come with the fastest axis first."""
        (axes,) = self._take("I")
        if not 1 <= axes <= 4:
            self._fail(f"has {axes:,} axes; tensors have 1 to 4")
        *sizes, number, offset = self._take(f"{axes}QIQ")
        if number not in BLOCK_TYPES:
            known = ", ".join(kind.name for kind in BLOCK_TYPES.values())
            self._fail(f"has the unknown type {number}; known are {known}")
        kind, shape = BLOCK_TYPES[number], tuple(sizes[::-1])
        if 0 in shape or shape[-1] % kind.numbers:
            self._fail(f"has shape {shape}; {kind.name} has blocks of {kind.numbers}")
        if offset % align:
            self._fail(f"begins at {offset:,}, which is not a multiple of {align}")
        nbytes = math.prod(shape) // kind.numbers * kind.nbytes
        return TensorInfo(shape, kind, offset, nbytes)

    def _check_ranges(self) -> None:
        """Check that tensors are within the file, and none within another."""
        end, before, room = 0, "", len(self._bytes) - self.data_start
        for name, info in sorted(self.tensors.items(), key=lambda own: own[1].offset):
            self._part = f"tensor {name}"
            if info.offset < end:
                self._fail(f"begins within {before}")
            end, before = info.offset + info.nbytes, name
            if end > room:
                self._fail(f"is cut off: {end - room:,} bytes are missing")
