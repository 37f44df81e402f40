"""The report of an examination: a line per check, as text, a table, a picture."""

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from attention_lib.plotting import BookFigure, show_weights

Outcome = Literal["holds", "fails", "does not apply"]
_SEVERAL = {"holds": "hold", "fails": "fail", "does not apply": "do not apply"}
_MARKS = {"holds": "✓", "fails": "✗", "does not apply": "–"}


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: its name, such as ``future``.
        verdict: ``holds``, ``fails`` or ``does not apply``.
        seen: what it saw, with the numbers.
        section: the chapter's file and the label of the section that explains it.
    """

    check: str
    verdict: Outcome
    seen: str
    section: tuple[str, str]

    @property
    def link(self) -> str:
        """The address of the section, beside the chapters' pages."""
        chapter, label = self.section
        return f"{chapter}.html#{label}"


@dataclass(frozen=True)
class Report:
    """The findings of ``examine``, and what the layer's outputs depend on.

    ``report["future"]`` is the finding of one check. As text, and in a notebook as a
    table, each finding is a line.

    Attributes:
        layer: what was examined, in words.
        findings: one of each check, in their order.
        leaks: how much each output changed when one input was changed, (T, T) by the
            kind of call: ``no mask``, ``causal``, ``some keys hidden``.
    """

    layer: str
    findings: Sequence[Finding]
    leaks: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that fail."""
        return [found.check for found in self.findings if found.verdict == "fails"]

    def __getitem__(self, check: str) -> Finding:
        for found in self.findings:
            if found.check == check:
                return found
        names = ", ".join(found.check for found in self.findings)
        raise KeyError(f"no check {check!r} was run; there are {names}")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        wide = max(len(found.check) for found in self.findings)
        lines = (f"{_MARKS[it.verdict]} {it.check:{wide}}  {it.seen}" for it in self)
        return "\n".join([self._head(), *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # The book's pages make links of these names; elsewhere they'd lead nowhere.
        rows = "".join(
            f"<tr><td>{_MARKS[found.verdict]}</td>"
            f'<td><span data-section="{found.link}">'
            f"{html.escape(found.check)}</span></td>"
            f'<td style="text-align: left">{html.escape(found.seen)}</td></tr>\n'
            for found in self.findings
        )
        return (
            f'<table class="table">\n<caption>{html.escape(self._head())}</caption>\n'
            f"<thead><tr><td></td><th>check</th><th>what was seen</th></tr></thead>\n"
            f"<tbody>\n{rows}</tbody>\n</table>"
        )

    def plot(self) -> BookFigure:
        """Draw what each output (row) depends on (columns), for each kind of call."""
        places = [str(place) for place in range(len(next(iter(self.leaks.values()))))]
        shares = {name: it / max(it.max(), 1e-30) for name, it in self.leaks.items()}
        return show_weights(shares, places, places)

    def _head(self) -> str:
        count = Counter[str](found.verdict for found in self.findings)
        words = ", ".join(
            f"{count[verdict]} {verdict if count[verdict] == 1 else several}"
            for verdict, several in _SEVERAL.items()
        )
        return f"{self.layer}: {words}"
