"""What fresh memory costs: layers with the usual allocator, and with one that keeps it.

``python -m benchmarks.memory`` prints the rows of the table on the page on speed. It
runs itself twice, since the C library reads its settings when a process starts. Only
ratios to the floor are printed, of the fastest of many rounds, and the page faults of
one pass: one for each 4 KiB page that the operating system hands out again.
"""

import json
import os
import resource
import sys
import time

import torch

from benchmarks.layers import FLOOR, PASSES, make_call, make_layers, make_mask
from tools import running

NAMES = (FLOOR, "our split", "our wrapper", "textbook split")
LENGTHS = (256, 1024, 2048)
ROUNDS = 16
# Nothing is taken by mmap, and nothing is ever given back.
KEEP = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "500000000",
}


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def measure() -> dict[str, tuple[float, int]]:
    """Time all layers in turns, and count the page faults of one pass of each."""
    torch.set_num_threads(1)
    layers, found = make_layers(), {}
    for which in PASSES:
        for length in LENGTHS:
            best = dict.fromkeys(NAMES, (float("inf"), sys.maxsize))
            for _ in range(ROUNDS):
                for name in NAMES:
                    mask = make_mask(name, "causal", length)
                    call = make_call(layers[name], mask, length, which)
                    before, start = faults(), time.process_time()
                    result = call()
                    spent = time.process_time() - start, faults() - before
                    del result
                    best[name] = (
                        min(best[name][0], spent[0]),
                        min(best[name][1], spent[1]),
                    )
            for name in NAMES[1:]:
                ratio = best[name][0] / best[FLOOR][0]
                found[f"{length} {which}, {name}"] = (ratio, best[name][1])
    return found


def run(settings: dict[str, str]) -> dict[str, tuple[float, int]]:
    """Measure in a new process with these settings of the C library."""
    command = [sys.executable, "-m", "benchmarks.memory", "measure"]
    environment = os.environ | settings
    done = running.run(command, limit=7200, env=environment, check=True)
    return json.loads(done.stdout)


def rows() -> list[str]:
    """Return the table's rows: the usual allocator → one that keeps memory (faults)."""
    usual, kept = run({}), run(KEEP)
    lines = []
    for which in PASSES:
        for length in LENGTHS:
            cells = [f"{length:,} {which}"]
            for name in NAMES[1:]:
                key = f"{length} {which}, {name}"
                (ratio, count), (other, _) = usual[key], kept[key]
                cells.append(f"{ratio:.2f} → {other:.2f} ({count:,})")
            lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print(json.dumps(measure()) if sys.argv[1:] == ["measure"] else "\n".join(rows()))
