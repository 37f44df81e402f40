"""Properties of a call, and which kernel they select, to try: `view_kernels`."""

from collections.abc import Callable, Sequence
from itertools import product

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import KERNELS
from attention_lib.course.views._tables import plain_table
from attention_lib.validation import require_function

MOST = 8


def view_kernels(
    switches: Sequence[str], kernel_of: Callable[[frozenset[str]], str]
) -> Interactive:
    """Let the reader switch properties of a call on and off, and name its kernel.

    All combinations are run once, when the view is made.

    Args:
        switches: properties that a call may have, 2 to 8 names.
        kernel_of: runs the call with the named properties, and returns its kernel.

    Returns:
        What a cell shows when it is the cell's last line.

    Raises:
        TypeError: names that are not texts; a ``kernel_of`` that cannot be called.
        ValueError: too few or too many names, or one twice.
    """
    names = list(switches)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"switches must be texts; got {names}")
    if not 2 <= len(set(names)) == len(names) <= MOST:
        raise ValueError(f"switches must be 2 to {MOST} different names; got {names}")
    require_function("kernel_of", kernel_of)
    kernels = {}
    for on in product([False, True], repeat=len(names)):
        chosen = [name for name, set_on in zip(names, on, strict=True) if set_on]
        kernels["".join("01"[set_on] for set_on in on)] = kernel_of(frozenset(chosen))
    one = ["".join("01"[i == j] for j in range(len(names))) for i in range(len(names))]
    rows = [(KERNELS["none"], [kernels["0" * len(names)]])]
    rows += [(name, [kernels[key]]) for name, key in zip(names, one, strict=True)]
    static = plain_table(KERNELS["caption"], KERNELS["head"], rows)
    kinds = list(dict.fromkeys(kernels.values()))
    data = {
        "switches": names,
        "kinds": kinds,
        # One digit for each combination, in the order of the binary numbers.
        "found": "".join(str(kinds.index(kernel)) for kernel in kernels.values()),
    }
    line = KERNELS["line"].format(count=2 ** len(names))
    return Interactive("kernels", data, static, line)
