"""What a bug of the museum is: a program of some ten lines, and how to mend it.

The program is text, so that what a page shows is what runs. ``wrong`` runs it as it
stands, ``right`` with its mended lines.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

import torch

from attention_lib.course.edits import defined, edited
from attention_lib.course.museum.building_blocks import PARTS


@dataclass(frozen=True)
class Bug:
    """A fault that somebody made, small enough to be read.

    Attributes:
        name: in a few words, what is wrong.
        kind: of what it makes: which checks can look at it.
        program: the faulty program; it runs with the names of ``PARTS``, and defines
            last what it makes.
        mend: pairs of a line of the program and the one that belongs there.
        symptom: how a person meets it.
        checks: which checks see it.
        source: where it was made: ``owner/repository#number`` of a public thread, or a
            letter of an article on the page on sources.
        tags: of ``TAGS``.
        why: what the faulty line does, in a sentence.
    """

    name: str
    kind: str
    program: str
    mend: tuple[tuple[str, str], ...]
    symptom: str
    checks: tuple[str, ...]
    source: str
    tags: tuple[str, ...]
    why: str

    @property
    def mended(self) -> str:
        """The program with its faulty lines replaced."""
        return edited(self.program, *chain.from_iterable(self.mend))

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the faulty lines; the first line of the program is 1.

        Where a line is missing, it is the number of the line that it belongs before.
        """
        found: list[int] = []
        before, after = self.program.splitlines(), self.mended.splitlines()
        for kind, first, last, _, _ in SequenceMatcher(
            None, before, after, autojunk=False
        ).get_opcodes():
            if kind == "insert":  # a line is missing: it belongs before this one
                last = first + 1
            if kind != "equal":
                found += range(first + 1, last + 1)
        return tuple(found)

    @property
    def link(self) -> str | None:
        """The address of the public thread; None for a row of the page on sources."""
        if "#" not in self.source:
            return None
        return f"https://github.com/{self.source.replace('#', '/issues/')}"

    def wrong(self) -> Any:
        """Gives what the faulty program makes: a layer, or a function."""
        return _made(self.program)

    def right(self) -> Any:
        """Gives what the mended program makes."""
        return _made(self.mended)


def _made(program: str) -> Any:
    """Return what a program makes; a layer has the weights of one seed."""
    made = defined(program, **PARTS)
    if not isinstance(made, type):
        return made
    with torch.random.fork_rng(devices=[]), single_precision():
        torch.manual_seed(0)
        return made().eval()


@contextmanager
def single_precision() -> Iterator[None]:
    """Makes float32 the default for a while: the same weights, whatever it was."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
