"""Lines of a call, and which kernel they select, to try: `view_kernels`."""

from collections.abc import Callable, Sequence
from itertools import product

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import KERNELS
from attention_lib.course.views._tables import plain_table
from attention_lib.validation import require_function

MOST = 8


def view_kernels(
    program: Sequence[str | tuple[str, str, str]], kernel_of: Callable[[str], str]
) -> Interactive:
    """Let the reader change lines of a call; name its kernel, and the line to blame.

    All combinations are run once, when the view is made.

    Args:
        program: the lines of the call. One that can be changed has a name, what it is
            at first, which may be nothing, and what it becomes; 2 to 8 such lines.
        kernel_of: runs a program, given as text, and returns its kernel.

    Raises:
        TypeError: a line that is neither; a ``kernel_of`` that cannot be called.
        ValueError: too few or too many lines that can be changed, or a name twice.
    """
    lines = [("", line, line) if isinstance(line, str) else line for line in program]
    for line in lines:
        texts = isinstance(line, tuple) and [isinstance(part, str) for part in line]
        if texts != [True, True, True]:
            raise TypeError(f"a line must be a text, or three; got {line!r}")
    names = [name for name, *_ in lines if name]
    if not 2 <= len(set(names)) == len(names) <= MOST:
        raise ValueError(f"program must have 2 to {MOST} named lines; got {names}")
    require_function("kernel_of", kernel_of)
    kernels = {}
    for on in product([False, True], repeat=len(names)):
        chosen = {name for name, set_on in zip(names, on, strict=True) if set_on}
        code = [after if name in chosen else before for name, before, after in lines]
        kernels["".join("01"[set_on] for set_on in on)] = kernel_of("\n".join(code))
    one = ["".join("01"[i == j] for j in range(len(names))) for i in range(len(names))]
    rows = [(KERNELS["none"], [kernels["0" * len(names)]])]
    rows += [(name, [kernels[key]]) for name, key in zip(names, one, strict=True)]
    static = plain_table(KERNELS["caption"], KERNELS["head"], rows)
    kinds = list(dict.fromkeys(kernels.values()))
    data = {
        "program": lines,
        "kinds": kinds,
        # One digit for each combination, in the order of the binary numbers.
        "found": "".join(str(kinds.index(kernel)) for kernel in kernels.values()),
    }
    line = KERNELS["line"].format(count=2 ** len(names))
    return Interactive("kernels", data, static, line)
