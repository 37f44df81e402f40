"""A bug of the museum: a program of some ten lines, and its fix.

The program is text, so that what a page shows is what runs. ``wrong`` runs it as it
is, ``right`` with its fixed lines.
"""

import re
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
    """A real bug, reduced to a program small enough to read.

    Attributes:
        name: in a few words, what is wrong.
        kind: what the program makes, which decides the checks that apply.
        program: the faulty program; it runs with the names of ``PARTS``, and defines
            last what it makes.
        fix: pairs of a wrong piece of the program and the right one.
        symptom: what a user notices.
        checks: which checks detect it.
        source: where it happened: ``owner/repository#number`` of a public thread, or a
            letter of an article on the page on sources.
        tags: of ``TAGS``.
        why: what the faulty line does, in a sentence.
        former: its first name, if it had one: its address still says so.
    """

    name: str
    kind: str
    program: str
    fix: tuple[tuple[str, str], ...]
    symptom: str
    checks: tuple[str, ...]
    source: str
    tags: tuple[str, ...]
    why: str
    former: str = ""

    @property
    def fixed(self) -> str:
        """The program with its faulty lines replaced."""
        return edited(self.program, *chain.from_iterable(self.fix))

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the faulty lines; the first line of the program is 1.

        If a line is missing, it is the number of the line that should follow it.
        """
        numbers: list[int] = []
        before, after = self.program.splitlines(), self.fixed.splitlines()
        for kind, first, last, _, _ in SequenceMatcher(
            None, before, after, autojunk=False
        ).get_opcodes():
            if kind == "insert":  # a line is missing before this one
                last = first + 1
            if kind != "equal":
                numbers += range(first + 1, last + 1)
        return tuple(numbers)

    @property
    def anchor(self) -> str:
        """The name of its place on a page, which people link to."""
        words = re.findall(
            r"[a-z0-9]+", (self.former or self.name).lower().replace("'", "")
        )
        return "-".join(["bug", *words])

    @property
    def link(self) -> str | None:
        """The address of the public thread; None for a row of the page on sources."""
        if "#" not in self.source:
            return None
        return f"https://github.com/{self.source.replace('#', '/issues/')}"

    def wrong(self) -> Any:
        """Return what the faulty program defines: a layer, or a function."""
        return _made(self.program)

    def right(self) -> Any:
        """Return what the fixed program defines."""
        return _made(self.fixed)


def _made(program: str) -> Any:
    """Return what a program makes; a layer gets the weights of one seed."""
    made = defined(program, **PARTS)
    if not isinstance(made, type):
        return made
    with torch.random.fork_rng(devices=[]), single_precision():
        torch.manual_seed(0)
        return made().eval()


@contextmanager
def single_precision() -> Iterator[None]:
    """Make float32 the default in a ``with``, so that weights are always the same."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
