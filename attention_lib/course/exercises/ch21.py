"""Exercises of chapter 21: faulty lines, a fixed softmax, a bug from scratch."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.reproducibility import seeded

# What each faulty line of exercise 21.1 is asked about.
_FAULTY = [
    (3, "The first program: with the diagonal moved, which tokens does output 0 see?"),
    (4, "The second program: a score sums over which width?"),
    (5, "The third program: over which axis should the weights sum to 1?"),
    (2, "The fourth program: how many tokens come before the new one?"),
]


def _with_line(place: int, line: int) -> int:
    """Return the answer with another line of one program: four digits as a number."""
    lines = [right for right, _ in _FAULTY]
    return int("".join(map(str, [*lines[:place], line, *lines[place + 1 :]])))


check_faulty_lines = NumberExercise(
    right=3452,
    praise="Four symptoms, four lines.",
    mistakes=[
        (2341, "The first line has number 1."),
        *(
            (_with_line(place, line), f"{words} Line {line} is right.")
            for place, (right, words) in enumerate(_FAULTY)
            for line in range(1, 8)
            if line != right
        ),
    ],
    otherwise="More than one is wrong. Begin with the first program: what does its "
    "mask allow?",
)


def _some(*shape: int) -> Tensor:
    return 2 * torch.randn(shape, generator=seeded(0), dtype=torch.float64)


LARGE = torch.tensor([[[900, 0, -900], [1, 2, 3]]], dtype=torch.float64)
WEIGHTS = "hidden.softmax(dim=-1) * mask"
check_fixed_weights = Exercise(
    solution="""
def my_weights(scores, mask):
    hidden = scores.where(mask, torch.finfo(scores.dtype).min)
    return hidden.softmax(dim=-1) * mask
""",
    cases=[
        ((_some(2, 3, 4), torch.ones(3, 4).bool()), ""),
        ((_some(2, 3, 3), torch.ones(3, 3).tril().bool()),
         "Right where nothing is hidden. Under a mask:"),
        ((_some(1, 2, 3), torch.tensor([[1, 1, 0], [0, 0, 0]]).bool()),
         "Right where each row has a key. With an empty row:"),
        ((LARGE, torch.tensor([[1, 1, 1], [1, 0, 1]]).bool()),
         "Right for small scores. For large ones:"),
        ((LARGE[..., [2, 0, 1]] * 1e300 - 1e303, torch.tensor([[1, 0, 1]] * 2).bool()),
         "Right for large scores. Where all are very low:"),
    ],
    slips=[
        slip("Hidden keys still count in the sum that the others are divided by: hide "
             "them before the softmax.", WEIGHTS, "scores.softmax(dim=-1) * mask"),
        slip("The mask does nothing.", WEIGHTS, "scores.softmax(dim=-1)"),
        slip("A row with nothing to see is nan: 0 divided by 0.",
             WEIGHTS, "scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)"),
        slip("A row with nothing to see shares its weight among hidden keys: it should "
             "be zeros.", " * mask", ""),
        slip("A number such as a thousand million below zero is not lower than every "
             "score.", "torch.finfo(scores.dtype).min", "-1e9"),
        slip("The mask is the wrong way round: True means that a key may be seen.",
             "where(mask", "where(~mask", "* mask", "* ~mask"),
        slip("Each column sums to 1: the softmax runs over the queries.",
             "dim=-1", "dim=-2"),
        slip("Adding 0 or 1 hides nothing.",
             WEIGHTS, "(scores + mask.to(scores.dtype)).softmax(dim=-1)"),
        slip("A score of 0 is not hidden: it takes a part of the weight.",
             WEIGHTS, "(scores * mask).softmax(dim=-1)"),
        slip("A hidden score of 0 still counts in the sum.",
             WEIGHTS, "(scores * mask).softmax(dim=-1) * mask"),
        slip("Exponentials of large scores are infinite, or all of them are 0.",
             WEIGHTS, "(p := scores.exp() * mask) / p.sum(-1, True).clamp(1e-30)"),
        slip("The weights of a row should sum to 1.", WEIGHTS, "scores.exp() * mask"),
        slip("These are scores: the softmax is missing.", WEIGHTS, "hidden"),
    ],
    praise="Rows sum to 1, or to 0 where nothing may be seen.",
)  # fmt: skip


def _called(
    answer: Any, program: str, wrong: str, right: str, name: str, *given: Any
) -> str | None:
    """Return in words what one method of an exhibit gives."""
    bug = make_object(answer, program, wrong, right, methods=["line", "fixed", "run"])
    came = getattr(bug, name)(*given)
    which = " of the fixed program" if given[1:] else ""
    return None if came is None or came is ... else f"{name}{which} gives {came!r}"


# Programs with a wrong line and the right one.
BEGIN = ("def answer(x):\n\ty = x + 1\n\tz = y * 2\n\treturn z\n",
         "\ty = x + 1", "\ty = x - 1")  # fmt: skip
END = BEGIN[0], "\treturn z", "\treturn z * z"
PART = ("def answer(x):\n\ty = x * 2\n\ty = x * 2 - y + 9\n\treturn y + x\n",
        "\ty = x * 2 - y + 9", "\ty = x - y")  # fmt: skip
LONGER = ("def answer(x):\n\ty = x + 12\n\ty = x + 1\n\treturn y * x\n",
          "\ty = x + 1", "\ty = x - 1")  # fmt: skip
LINE = "self.program.splitlines().index(self.wrong) + 1"
FIXED = '"\\n".join(lines)'
WHICH = "self.fixed() if fixed else self.program"
check_small_bug = Exercise(
    solution='''
class MyBug:
    def __init__(self, program, wrong, right):
        self.program, self.wrong, self.right = program, wrong, right

    def line(self):
        return self.program.splitlines().index(self.wrong) + 1

    def fixed(self):
        lines = self.program.split("\\n")
        lines[self.line() - 1] = self.right  # the whole line, and no other
        return "\\n".join(lines)

    def run(self, x, fixed=False):
        names = {}
        exec(self.fixed() if fixed else self.program, names)
        return names["answer"](x)
''',
    use=_called,
    cases=[
        ((*texts, *called), so_far)
        for texts, so_far in [
            (BEGIN, ""),
            (END, "Right for one program. For a fault in its last line:"),
            (PART, "Right so far. Where another line holds a part of the faulty one:"),
            (LONGER, "Right so far. Where another line begins like the faulty one:"),
        ]
        for called in [("line",), ("fixed",), ("run", 7), ("run", 7, True)]
    ],
    slips=[
        slip("run gives the result of the other program: the fixed program is wanted "
             "here.", WHICH, "self.program"),
        slip("run gives the result of the other program: the original program is "
             "wanted here.", WHICH, "self.fixed()"),
        slip("run must hand its input on to the program.",
             'names["answer"](x)', 'names["answer"](0)'),
        slip("That line holds the faulty one as a part: it must be the whole line.",
             LINE, "self.program[: self.program.index(self.wrong)].count('\\n') + 1"),
        slip("The first line is number 1.", " + 1", ""),
        slip("One too high: the first line is number 1.", " + 1", " + 2"),
        slip("This is how many lines there are.",
             LINE, "len(self.program.splitlines())"),
        slip("line gives the number of the line, not its text.", LINE, "self.wrong"),
        slip("The faulty line is still there.", FIXED, "self.program"),
        slip("A line that holds the faulty one as a part has changed, too.",
             FIXED, "self.program.replace(self.wrong, self.right)"),
        slip("A line that holds the faulty one as a part has changed instead of it.",
             FIXED, "self.program.replace(self.wrong, self.right, 1)"),
        slip("fixed gives the whole program, not only the new line.",
             FIXED, "self.right"),
        slip("The line break at the end is lost.", FIXED, FIXED + ".rstrip()"),
        slip("The new line comes after the program: it should take the place of the "
             "faulty one.", FIXED, "self.program + self.right + '\\n'"),
        slip("fixed gives one text, not a list of lines.",
             FIXED, "self.program.splitlines()"),
    ],
    praise="An exhibit: it runs as it is, and fixed.",
)  # fmt: skip
