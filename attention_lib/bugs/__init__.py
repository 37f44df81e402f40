"""The bug museum: faults that people made, what each looks like, and what sees it.

``BUGS`` holds the exhibits. Each is a program of some ten lines that runs as it stands
and mended; ``look`` runs all checks of its kind on either.
"""

from attention_lib.bugs.heads import HEAD_BUGS
from attention_lib.bugs.learning import LEARNING_BUGS
from attention_lib.bugs.masks import MASK_BUGS
from attention_lib.bugs.numbers import NUMBER_BUGS
from attention_lib.bugs.places import PLACE_BUGS
from attention_lib.bugs.record import Bug
from attention_lib.bugs.sight import Sight, look
from attention_lib.bugs.writing import WRITING_BUGS

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

__all__ = ["BUGS", "ROOMS", "TAGS", "Bug", "Sight", "look"]
