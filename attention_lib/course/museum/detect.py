"""What sees a bug: the checks of each kind of program, and what they find.

Layers go through ``attention_lib.examine.examine``. What it cannot know, such as which
numbers a layer should give, how a loss picks its targets or what a step does to the
weights, is compared with the library, or worked out by hand: in the modules
``sight_of_layers``, ``sight_of_learning`` and ``sight_of_writing``.
"""

from collections.abc import Callable, Iterable
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
    """What one check found.

    Attributes:
        check: its name.
        holds: True where all is well, False where it fails, None where the check does
            not apply.
        seen: the numbers.
    """

    check: str
    holds: bool | None
    seen: str


def run_checks(
    bug: Bug, *, mended: bool = False, checks: Iterable[str] | None = None
) -> dict[str, CheckResult]:
    """Runs the checks of a bug's kind on its program.

    Args:
        bug: one of ``BUGS``.
        mended: whether the right program is looked at, instead of the wrong one.
        checks: names of those to run; all when left out.

    Raises:
        TypeError: no bug; checks that are no names; a choice that is not True or False.
        ValueError: a check that programs of this kind do not have.
    """
    if not isinstance(bug, Bug):
        raise TypeError(f"bug must be a Bug, of BUGS; got {type(bug).__name__}")
    require_flags(mended=mended)
    if not (checks is None or isinstance(checks, Iterable)):
        raise TypeError(f"checks must be names; got {type(checks).__name__}")
    own, theirs = OWN_CHECKS[bug.kind], EXAMINED.get(bug.kind, ())
    chosen = [*theirs, *own] if checks is None else list(checks)
    if unknown := [name for name in chosen if name not in (*theirs, *own)]:
        raise ValueError(f"checks must be among {[*theirs, *own]}; got {unknown[0]!r}")
    make = bug.right if mended else bug.wrong
    with single_precision():
        found = {name: _run(name, own[name], make) for name in chosen if name in own}
        if examined := [name for name in chosen if name not in own]:
            layer = make()
            report = examine(
                layer, d_model=width_of(layer), checks=examined, progress=False
            )
            found |= {one.check: _sight(one) for one in report}
    return {name: found[name] for name in chosen}


def _sight(one: Finding) -> CheckResult:
    holds = {"holds": True, "fails": False}.get(one.verdict)
    return CheckResult(one.check, holds, one.seen)


def _run(name: str, check: Callable[[Any], Found | None], make: Any) -> CheckResult:
    """Runs one check on a fresh copy; an error is a fault as well."""
    try:
        found = check(make())
    except Exception as error:  # a program that stops is seen
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
