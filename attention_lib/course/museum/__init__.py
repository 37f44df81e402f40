"""The bug museum: real bugs, their symptoms, and the checks that detect them.

``BUGS`` holds the exhibits. Each is a program of some ten lines that runs both as it is
and fixed; ``run_checks`` runs all checks of its kind on either.
"""

from attention_lib.course.museum.bug import Bug
from attention_lib.course.museum.detect import CheckResult, run_checks
from attention_lib.course.museum.generation import WRITING_BUGS
from attention_lib.course.museum.heads import HEAD_BUGS
from attention_lib.course.museum.masks import MASK_BUGS
from attention_lib.course.museum.numerics import NUMBER_BUGS
from attention_lib.course.museum.positions import PLACE_BUGS
from attention_lib.course.museum.training import LEARNING_BUGS

ROOMS = {
    "masks": MASK_BUGS,
    "heads": HEAD_BUGS,
    "numbers": NUMBER_BUGS,
    "positions": PLACE_BUGS,
    "learning": LEARNING_BUGS,
    "writing": WRITING_BUGS,
}
BUGS = tuple(bug for room in ROOMS.values() for bug in room)
TAGS = tuple(sorted({tag for bug in BUGS for tag in bug.tags}))

__all__ = ["BUGS", "ROOMS", "TAGS", "Bug", "CheckResult", "run_checks"]
