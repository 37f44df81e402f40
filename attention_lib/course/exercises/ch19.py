"""Checks of chapter 19: faulty lines, a mended softmax, a bug from an empty class."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)

# What each faulty line of exercise 19.1 is asked about.
_FAULTY = [
    (3, "The first program: with the diagonal moved, which tokens does output 0 see?"),
    (4, "The second program: a score sums over which width?"),
    (5, "The third program: over which axis should the weights sum to 1?"),
    (2, "The fourth program: how many tokens stand before the new one?"),
]


def check_faulty_lines(answer: object) -> Verdict:
    """Checks the faulty lines of four programs, read as one number of four digits."""
    lines = [line for line, _ in _FAULTY]
    mistakes = [(_read([line - 1 for line in lines]), "The first line has number 1.")]
    for place, (line, words) in enumerate(_FAULTY):
        for other in range(1, 8):
            if other != line:
                digits = [*lines[:place], other, *lines[place + 1 :]]
                mistakes.append((_read(digits), f"{words} Line {other} is right."))
    return judge_number(
        answer,
        _read(lines),
        "Four symptoms, four lines.",
        mistakes,
        "More than one is wrong. Begin with the first program: what does its mask "
        "allow?",
    )


def _read(digits: Sequence[int]) -> int:
    return int("".join(map(str, digits)))


def check_mended_weights(answer: object) -> Verdict:
    """Checks a softmax under a mask whose empty rows are zeros."""
    far = torch.tensor([[[900.0, 0.0, -900.0], [1.0, 2.0, 3.0]]], dtype=torch.float64)
    torch_mask = torch.tensor
    for scores, mask, so_far in [
        (_some(2, 3, 4), torch.ones(3, 4, dtype=torch.bool), ""),
        (_some(2, 3, 3), torch.ones(3, 3, dtype=torch.bool).tril(),
         "Right where nothing is hidden. Under a mask:"),
        (_some(1, 2, 3), torch_mask([[True, True, False], [False, False, False]]),
         "Right where each row has a key. With an empty row:"),
        (far, torch_mask([[True, True, True], [True, False, True]]),
         "Right for small scores. For large ones:"),
        (far[..., [2, 0, 1]] * 1e300 - 1e303, torch_mask([[True, False, True]] * 2),
         "Right for large scores. Where all are very low:"),
    ]:  # fmt: skip
        given = scores, mask
        right, mistakes = _weights(scores, mask), _wrong_weights(scores, mask)
        if wrong := judge(answer, given, right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "Rows sum to 1, or to 0 where nothing may be seen.")


def _some(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)


def _weights(scores: Tensor, mask: Tensor) -> Tensor:
    low = torch.finfo(scores.dtype).min
    return scores.where(mask, low).softmax(dim=-1) * mask


def _wrong_weights(scores: Tensor, mask: Tensor) -> Mistakes:
    low = torch.finfo(scores.dtype).min
    hidden = scores.where(mask, low)
    soft = scores.softmax(dim=-1)
    empty = -torch.inf
    nan_rows = scores.masked_fill(~mask, empty).softmax(dim=-1)
    parts = scores.exp() * mask
    return [
        (soft * mask, "Hidden keys still count in the sum that the others are divided "
         "by: hide them before the softmax."),
        (soft, "The mask does nothing."),
        (nan_rows, "A row with nothing to see is nan: 0 divided by 0."),
        (hidden.softmax(dim=-1), "A row with nothing to see shares its weight among "
         "hidden keys: it should be zeros."),
        (scores.masked_fill(~mask, -1e9).softmax(dim=-1), "A number such as a thousand "
         "million below zero is not lower than every score."),
        (scores.masked_fill(~mask, -1e9).softmax(dim=-1) * mask, "A number such as a "
         "thousand million below zero is not lower than every score."),
        (scores.where(~mask, low).softmax(dim=-1) * ~mask, "The mask is turned round: "
         "True means that a key may be seen."),
        (hidden.softmax(dim=-2) * mask, "Each column sums to 1: the softmax runs over "
         "the queries."),
        ((scores + mask.to(scores.dtype)).softmax(dim=-1), "Adding 0 or 1 hides "
         "nothing."),
        ((scores * mask).softmax(dim=-1), "A score of 0 is not hidden: it takes a part "
         "of the weight."),
        ((scores * mask).softmax(dim=-1) * mask, "A hidden score of 0 still counts in "
         "the sum."),
        (parts / parts.sum(dim=-1, keepdim=True), "Exponentials of large scores are "
         "infinite, or all of them are 0."),
        (parts, "The weights of a row should sum to 1."),
        (hidden, "These are scores: the softmax is missing."),
    ]  # fmt: skip


# Without spaces, so that no text of a program is taken for a message.
_FIRST = "def\tanswer(x):\n\ty=x+1\n\tz=y*2\n\treturn\tz\n"
_OTHER = "def\tanswer(x):\n\ty=x*2\n\ty=x*2-y+9\n\treturn\ty+x\n"
_LONGER = "def\tanswer(x):\n\ty=x+12\n\ty=x+1\n\treturn\ty*x\n"


def check_small_bug(answer: object) -> Verdict:
    """Checks a class that holds a faulty program, its line, and its mend."""
    for program, wrong_line, right_line, number, so_far in [
        (_FIRST, "\ty=x+1", "\ty=x-1", 2, ""),
        (_FIRST, "\treturn\tz", "\treturn\tz*z", 4,
         "Right for one program. For a fault in its last line:"),
        (_OTHER, "\ty=x*2-y+9", "\ty=x-y", 3,
         "Right so far. Where another line holds a part of the faulty one:"),
        (_LONGER, "\ty=x+1", "\ty=x-1", 3,
         "Right so far. Where another line begins like the faulty one:"),
    ]:  # fmt: skip
        made = run(answer, program, wrong_line, right_line)
        if isinstance(made, Verdict):
            return after(so_far, made) if so_far and made is not NOT_YET else made
        missing = [n for n in ("line", "mended", "run") if not hasattr(made, n)]
        if missing:
            came = type(made).__name__
            words = f"a class with line, mended and run is wanted: no {missing[0]}."
            return Verdict(False, f"Your function returns a {came}: {words}")
        lines = program.splitlines()
        text = "\n".join(
            right_line if line == wrong_line else line for line in program.split("\n")
        )
        count = len(lines)
        found = program[: program.index(wrong_line)].count("\n") + 1
        own = [
            (found, "That line holds the faulty one as a part: it must be the whole "
             "line."),
            (number - 1, "The first line is number 1."),
            (number + 1, "One too high: the first line is number 1."),
            (count, "This is how many lines there are."),
            (wrong_line, "line gives the number of the line, not its text."),
        ]  # fmt: skip
        if wrong := _of(made, "line", (), number, own, so_far):
            return wrong
        own_text: Mistakes = [
            (program, "The faulty line is still there."),
            (program.replace(wrong_line, right_line), "A line that holds the faulty "
             "one as a part has changed, too."),
            (program.replace(wrong_line, right_line, 1), "A line that holds the faulty "
             "one as a part has changed instead of it."),
            (right_line, "mended gives the whole program, not only the new line."),
            (text.rstrip("\n"), "The line break at the end is lost."),
            (program + right_line + "\n", "The new line stands after the program: it "
             "should take the place of the faulty one."),
            (lines, "mended gives one text, not a list of lines."),
        ]  # fmt: skip
        if wrong := _of(made, "mended", (), text, own_text, so_far):
            return wrong
        for mended, which in [(False, program), (True, text)]:
            right, other = _called(which, 7), _called(program if mended else text, 7)
            words = "the mended program" if mended else "the program as it stands"
            own_runs = [
                (other, f"run gives the result of the other program: {words} is "
                 "wanted here."),
                (_called(which, 0), "run must hand its input on to the program."),
            ]  # fmt: skip
            if wrong := _of(made, "run", (7, mended), right, own_runs, so_far):
                return wrong
    return Verdict(True, "An exhibit: it runs as it stands, and mended.")


def _called(program: str, x: int) -> int:
    names: dict[str, Any] = {}
    exec(program, names)  # a text of this module
    return names["answer"](x)


def _of(
    made: Any,
    name: str,
    given: tuple[Any, ...],
    right: Any,
    mistakes: Mistakes,
    so_far: str,
) -> Verdict | None:
    """Compares what a method gives with what is right, and with usual mistakes."""
    method: Callable[..., Any] = getattr(made, name)
    if not callable(method):
        return after(so_far, Verdict(False, f"{name} must be a method."))
    came = run(method, *given)
    if isinstance(came, Verdict):
        return after(so_far, came) if so_far else came
    if type(came) is type(right) and came == right:
        return None
    for wrong, words in mistakes:
        if type(came) is type(wrong) and came == wrong:
            return after(so_far, Verdict(False, words))
    return after(so_far, Verdict(False, f"{name} gives {came!r}; {right!r} is wanted."))
