"""The checks of chapter 21: each usual mistake is made, and must be named."""

from attention_lib.course.exercises import ch21
from tests.answers import as_numbers

weights, small = ch21.check_fixed_weights.made, ch21.check_small_bug.made
LOW = "torch.finfo(scores.dtype).min"
HIDDEN = f"scores.where(mask, {LOW})"

RIGHT = {
    "faulty_lines": [3452, *as_numbers(3452), 3400 + 52, 3452.0],
    "fixed_weights": [
        weights(LOW, "-torch.finfo(scores.dtype).max"),
        weights(HIDDEN, f"scores.masked_fill(~mask, {LOW})"),
        weights(HIDDEN, f"torch.where(mask, scores, {LOW})"),
        weights("dim=-1", "dim=scores.ndim - 1"),
        weights(ch21.WEIGHTS, "torch.softmax(hidden, -1) * mask"),
        weights(ch21.WEIGHTS, "hidden.softmax(dim=-1).masked_fill(~mask, 0)"),
        weights(HIDDEN, "scores.masked_fill(~mask, -torch.inf)",
                ch21.WEIGHTS, "hidden.softmax(dim=-1).nan_to_num()"),
        weights(ch21.WEIGHTS, "F.softmax(hidden, dim=-1).where(mask, 0.0)"),
        weights(ch21.WEIGHTS, "(hidden - hidden.amax(-1, True)).softmax(-1) * mask"),
        weights(ch21.WEIGHTS, "(hidden - hidden.logsumexp(-1, True)).exp() * mask"),
    ],
    "small_bug": [
        lambda *parts: small()(*parts),
        small(ch21.LINE, "1 + self.program.split('\\n').index(self.wrong)"),
        small(ch21.LINE,
              "next(n for n, line in enumerate(self.program.splitlines(), 1) "
              "if line == self.wrong)"),
        small(ch21.FIXED, "'\\n'.join(self.right if line == self.wrong else line "
              "for line in lines)"),
        small(ch21.FIXED, "f'\\n{self.program}'.replace(f'\\n{self.wrong}\\n', "
              "f'\\n{self.right}\\n').removeprefix('\\n')"),
        small(ch21.FIXED,
              "''.join((self.right if line == self.wrong else line) + '\\n' "
              "for line in self.program.splitlines())"),
        small(ch21.WHICH, "[self.program, self.fixed()][fixed]"),
        small("names = {}", "names = dict(x=x)"),
        small('names["answer"](x)', 'names.pop("answer")(x)'),
    ],
}  # fmt: skip
MISTAKES = {
    "faulty_lines": [(1234, "More than one is wrong")],
    "small_bug": [
        (small(ch21.LINE, "7"), "line gives 7"),
        (small(ch21.LINE, "1 // 0"), "ZeroDivisionError"),
        (small(ch21.LINE, "2"), "For a fault in its last line"),
        (small(ch21.LINE,
               "next(n for n, line in enumerate(self.program.splitlines(), 1) "
               "if line in self.wrong)"), "Where another line holds a part"),
        (small("return names", "return fixed or names"),
         "run of the fixed program gives True"),
        (small("def fixed", "fixed = 3\n\n    def other"), "has no fixed"),
        (small("def run", "def other"), "has no run"),
    ],
}  # fmt: skip
