"""Detection: which checks catch each bug, and what they report.

Layers go through ``attention_lib.examine.examine``. What it cannot know, such as the
right output of a layer, the targets of a loss or the effect of a training step, is
compared with the library or worked out by hand: in the modules ``detect_layers``,
``detect_training`` and ``detect_generation``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attention_lib.course.museum.bug import Bug, single_precision
from attention_lib.course.museum.compare import Found
from attention_lib.course.museum.detect_generation import WRITING_CHECKS
from attention_lib.course.museum.detect_layers import LAYER_CHECKS, width_of
from attention_lib.course.museum.detect_training import LEARNING_CHECKS
from attention_lib.examine import Finding, examine
from attention_lib.validation import require_flags


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        check: its name.
        holds: True if it passes, False if it fails, None if it does not apply.
        seen: the numbers.
    """

    check: str
    holds: bool | None
    seen: str


def run_checks(bug: Bug, *, fixed: bool = False) -> dict[str, CheckResult]:
    """Run the checks of a bug's kind on its program.

    Args:
        bug: one of ``BUGS``.
        fixed: whether to check the fixed program instead of the faulty one.

    Raises:
        TypeError: not a ``Bug``; a ``fixed`` that is not a bool.
    """
    if not isinstance(bug, Bug):
        raise TypeError(f"bug must be a Bug, of BUGS; got {type(bug).__name__}")
    require_flags(fixed=fixed)
    own, examined = OWN_CHECKS[bug.kind], EXAMINED.get(bug.kind, ())
    make = bug.right if fixed else bug.wrong
    with single_precision():
        results = {name: _run(name, check, make) for name, check in own.items()}
        if examined:
            layer = make()
            report = examine(
                layer, d_model=width_of(layer), checks=examined, progress=False
            )
            results |= {one.check: _result(one) for one in report}
    return {name: results[name] for name in (*examined, *own)}


def _result(one: Finding) -> CheckResult:
    holds = {"holds": True, "fails": False}.get(one.verdict)
    return CheckResult(one.check, holds, one.seen)


def _run(name: str, check: Callable[[Any], Found | None], make: Any) -> CheckResult:
    """Run one check on a fresh copy; an error counts as a failure."""
    try:
        found = check(make())
    except Exception as error:  # a crash is detected as well
        return CheckResult(
            name, False, f"{type(error).__name__}: {error}".split("\n")[0]
        )
    return (
        CheckResult(name, None, "does not apply")
        if found is None
        else CheckResult(name, *found)
    )


_LAYER = (
    *("shape", "deterministic", "future", "padding", "batch", "order", "empty rows"),
    *("large scores", "half precision", "gradients", "cache"),
)
#: The checks of ``examine`` that right programs of a kind pass. A cap or a norm inside
#: changes the formula, and positions the order.
EXAMINED = {
    "layer": (*_LAYER, "formula"),
    "variant": _LAYER,
    "rotary": _LAYER,
    "grouped": (*_LAYER, "formula"),
    "window": _LAYER,
}
#: The museum's own checks, by the kind of program.
OWN_CHECKS = {**LAYER_CHECKS, **LEARNING_CHECKS, **WRITING_CHECKS}
