"""Keys and values that travel round a ring of processes, step by step: `view_ring`."""

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import RING
from attention_lib.course.views._tables import NUMBER_BYTES, plain_table
from attention_lib.parallel import ring_pair_counts
from attention_lib.validation import require_positive

MOST_PROCESSES = 8


def view_ring(*, num_processes: int, length: int, width: int) -> Interactive:
    """Let the reader step through a ring, in both orders, with the future or without.

    Args:
        num_processes: from 2 to 8.
        length: tokens of the text, a multiple of twice the processes.
        width: numbers of one key, and of one value, in all heads together.

    Raises:
        TypeError: a number that is not an int.
        ValueError: a number below 1; too few or too many processes; a length that
            cannot be cut.
    """
    require_positive(num_processes=num_processes, length=length, width=width)
    if not 2 <= num_processes <= MOST_PROCESSES:
        raise ValueError(
            f"num_processes must be between 2 and {MOST_PROCESSES}; got {num_processes}"
        )
    plain = ring_pair_counts(length, num_processes, "plain")
    zigzag = ring_pair_counts(length, num_processes)
    step_bytes = 2 * length // num_processes * width * NUMBER_BYTES
    rows = [
        (f"{rank}", [" ".join(map(str, steps)) for steps in both])
        for rank, both in enumerate(zip(plain, zigzag, strict=True))
    ]
    caption = RING["caption"].format(
        length=length, processes=num_processes, bytes=step_bytes
    )
    static = plain_table(caption, RING["head"], rows)
    data = {"processes": num_processes, "length": length, "bytes": step_bytes}
    return Interactive(
        "ring", data, static, RING["line"].format(processes=num_processes)
    )
