"""The checks of chapter 19: each usual mistake is made, and must be named."""

from tests.answers import as_numbers, solution

weights = solution(
    """
def weights(scores, mask):
    low = torch.finfo(scores.dtype).min
    hidden = scores.where(mask, low)
    return hidden.softmax(dim=-1) * mask
"""
)
LAST = "    return hidden.softmax(dim=-1) * mask"
HIDDEN = "scores.where(mask, low)"


def ending(line):
    return weights(LAST, f"    return {line}")


small = solution(
    """
class MyBug:
    def __init__(self, program, wrong, right):
        self.program, self.wrong, self.right = program, wrong, right

    def line(self):
        return self.program.splitlines().index(self.wrong) + 1

    def mended(self):
        lines = self.program.split("\\n")
        lines[self.line() - 1] = self.right
        return "\\n".join(lines)

    def run(self, x, mended=False):
        names = {}
        exec(self.mended() if mended else self.program, names)
        return names["answer"](x)
"""
)
LINE = "self.program.splitlines().index(self.wrong) + 1"
MENDED = '"\\n".join(lines)'
REPLACED = "self.program.replace(self.wrong, self.right)"
WHICH = "self.mended() if mended else self.program"

RIGHT = {
    "faulty_lines": [3452, *as_numbers(3452), 3400 + 52, 3452.0],
    "mended_weights": [
        weights(),
        weights("torch.finfo(scores.dtype).min", "-torch.finfo(scores.dtype).max"),
        weights(HIDDEN, "scores.masked_fill(~mask, low)"),
        weights(HIDDEN, "torch.where(mask, scores, low)"),
        weights("dim=-1", "dim=scores.ndim - 1"),
        ending("torch.softmax(hidden, -1) * mask"),
        ending("hidden.softmax(dim=-1).masked_fill(~mask, 0)"),
        ending("scores.masked_fill(~mask, -torch.inf).softmax(dim=-1).nan_to_num()"),
        ending("F.softmax(hidden, dim=-1).where(mask, 0.0)"),
        ending("(hidden - hidden.amax(dim=-1, keepdim=True)).softmax(dim=-1) * mask"),
        ending("(hidden - hidden.logsumexp(dim=-1, keepdim=True)).exp() * mask"),
    ],
    "small_bug": [
        small(),
        lambda *parts: small()(*parts),
        small(LINE, "1 + self.program.split('\\n').index(self.wrong)"),
        small(LINE, "next(n for n, line in enumerate(self.program.splitlines(), 1) "
              "if line == self.wrong)"),
        small(MENDED, "'\\n'.join(self.right if line == self.wrong else line "
              "for line in lines)"),
        small(MENDED, "f'\\n{self.program}'.replace(f'\\n{self.wrong}\\n', "
              "f'\\n{self.right}\\n').removeprefix('\\n')"),
        small(MENDED, "''.join((self.right if line == self.wrong else line) + '\\n' "
              "for line in self.program.splitlines())"),
        small(WHICH, "[self.program, self.mended()][mended]"),
        small("names = {}", "names = dict(x=x)"),
        small('names["answer"](x)', 'names.pop("answer")(x)'),
    ],
}  # fmt: skip
MISTAKES = {
    "faulty_lines": [
        (2341, "The first line has number 1"),
        (2452, "which tokens does output 0 see? Line 2 is right"),
        (4452, "which tokens does output 0 see"),
        (3352, "sums over which width? Line 3"),
        (3552, "sums over which width"),
        (3442, "over which axis should"),
        (3432, "over which axis should"),
        (3453, "how many tokens stand before"),
        (3454, "how many tokens stand before"),
        (3451, "how many tokens stand before"),
        (1234, "More than one is wrong"),
    ],
    "mended_weights": [
        (ending("scores.softmax(dim=-1) * mask"), "Hidden keys still count in the sum"),
        (ending("scores.softmax(dim=-1)"), "The mask does nothing"),
        (ending("scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)"),
         "With an empty row: A row with nothing to see is nan"),
        (ending("hidden.softmax(dim=-1)"), "shares its weight among hidden keys"),
        (weights("torch.finfo(scores.dtype).min", "-1e9"), "A number such as"),
        (weights("torch.finfo(scores.dtype).min", "-1e30"), "A number such as"),
        (ending("scores.masked_fill(~mask, -1e9).softmax(dim=-1)"),
         "With an empty row: A row with nothing to see shares"),
        (ending("scores.where(~mask, low).softmax(dim=-1) * ~mask"), "turned round"),
        (ending("hidden.softmax(dim=-2) * mask"), "Each column sums to 1"),
        (ending("(scores + mask).softmax(dim=-1)"), "Adding 0 or 1 hides nothing"),
        (ending("(scores * mask).softmax(dim=-1)"), "A score of 0 is not hidden"),
        (ending("(scores * mask).softmax(dim=-1) * mask"), "still counts in the sum"),
        (ending("(p := scores.exp() * mask) / p.sum(-1, True).clamp(min=1e-30)"),
         "For large ones: Exponentials"),
        (ending("scores.exp() * mask"), "should sum to 1"),
        (ending("hidden"), "the softmax is missing"),
    ],
    "small_bug": [
        (small(LINE, LINE.removesuffix(" + 1")), "The first line is number 1"),
        (small(LINE, LINE + " + 1"), "One too high"),
        (small(LINE, "len(self.program.splitlines())"), "how many lines there are"),
        (small(LINE, "self.wrong"), "not its text"),
        (small(LINE, "7"), "line gives 7"),
        (small(LINE, "1 // 0"), "ZeroDivisionError"),
        (small(MENDED, "self.program"), "still there"),
        (small(MENDED, "self.right"), "the whole program"),
        (small(MENDED, MENDED + ".rstrip()"), "line break at the end"),
        (small(MENDED, REPLACED), "begins like the faulty one: A line that holds the "
         "faulty one as a part has changed, too"),
        (small(MENDED, "self.right.join(self.program.split(self.wrong))"), "changed, "
         "too"),
        (small(MENDED, REPLACED.replace("right)", "right, 1)")), "changed instead"),
        (small(LINE, "self.program[: self.program.index(self.wrong)].count('\\n') + 1"),
         "it must be the whole line"),
        (small(MENDED, "self.program + self.right + '\\n'"), "take the place of"),
        (small(MENDED, "self.program.splitlines()"), "not a list of lines"),
        (small(WHICH, "self.program"), "run gives the result of the other program: the "
         "mended program"),
        (small(WHICH, "self.mended()"), "other program: the program as it stands"),
        (small('names["answer"](x)', 'names["answer"](0)'), "hand its input on"),
        (small(LINE, "2"), "For a fault in its last line"),
        (small(LINE, "next(n for n, line in enumerate(self.program.splitlines(), 1) "
               "if line in self.wrong)"), "Where another line holds a part"),
        (small("def mended", "mended = 3\n\n    def other"), "mended must be a method"),
        (small("def run", "def other"), "no run"),
    ],
}  # fmt: skip
