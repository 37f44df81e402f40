"""Exercises of chapter 22: a median, the fused kernel, FLOPs, a clock in turns."""

from typing import Any

import torch

from attention_lib.course.exercises.exercise import Exercise, NumberExercise, slip
from attention_lib.course.exercises.verdict import NOT_YET, Stop, run
from attention_lib.reproducibility import seeded
from attention_lib.timing import kernels_of

# The median of the ratios of two rows of times, and each row's own median.
FIRST, SECOND = [20, 30, 11, 16, 12], [18, 21, 8, 20, 25]
RATIOS = [second / first for first, second in zip(FIRST, SECOND, strict=True)]
check_median_ratio = NumberExercise(
    right=18 / 20,
    praise="The ratio of the medians says the opposite: it compares different rounds.",
    mistakes=[
        (20 / 18, "That is the first over the second: second over first is asked."),
        (20 / 16, "That is the ratio of the medians: divide within each round first."),
        (16 / 20, "That is the ratio of the medians, and first over second."),
        (sum(RATIOS) / 5, "That is the mean of the ratios: take the one in the "
         "middle."),
        (sum(SECOND) / sum(FIRST), "That is the ratio of the sums, in which the long "
         "rounds count most."),
        (8 / 11, "That is the third round: sort the ratios first."),
        (21 / 30, "That is the smallest ratio."),
        (25 / 12, "That is the largest ratio."),
        (1 - 18 / 20, "That is what is saved: give the ratio itself."),
        (90, "That is in percent: give the ratio itself."),
    ],
    otherwise="Not that: divide round by round, sort, take the middle one.",
)  # fmt: skip


def _joined(batch: int, heads: int, length: int, width: int) -> tuple[Any, ...]:
    rng = seeded(batch)
    mask = torch.rand(batch, length, length, generator=rng) < 0.6
    mask |= torch.eye(length, dtype=torch.bool)
    three = torch.randn(3, batch * heads, length, width, generator=rng)
    return *three, mask, heads


def _kernel(answer: Any, *given: Any) -> str:
    """Say what is wrong with how an answer came to the right numbers."""
    if given[-1] != 2:  # to watch the kernels takes time: once is enough
        return ""
    ran = kernels_of(lambda: run(answer, *given))
    words = {
        "attention is written out: no kernel ran.": not ran,
        "they come from the slow way: how many axes did the kernel get?": "math" in ran,
        f"the kernel ran {len(ran)} times: all heads and texts fit into one call.":
            len(ran) > 1,
    }  # fmt: skip
    found = next((words for words, wrong in words.items() if wrong), "")
    return found and f"The numbers are right, but {found}"


MASK, END = "mask[:, None]", "context.flatten(0, 1)"
check_attend_joined = Exercise(
    solution="""
def attend_joined(query, key, value, mask, num_heads):
    query, key, value = (t.unflatten(0, (-1, num_heads)) for t in (query, key, value))
    context = F.scaled_dot_product_attention(query, key, value, mask[:, None])
    return context.flatten(0, 1)
""",
    inputs=_joined,
    fault=_kernel,
    cases=[
        ((2, 2, 5, 4), ""),
        ((3, 4, 6, 8), "Right for as many texts as heads. For other numbers:"),
        ((1, 3, 4, 2), "Right for several texts. For a single one:"),
    ],
    slips=[
        slip("No mask was used.", ", " + MASK, ""),
        slip("Each head got the mask of another text: the heads of one text are "
             "together.",
             MASK, "mask.repeat(num_heads, 1, 1).unflatten(0, (-1, num_heads))"),
        slip("The mask is upside down: True means \"may attend\".", MASK, "~" + MASK),
        slip("Every text got the first text's mask.", MASK, "mask[:1, None]"),
        slip("The mask has its rows and columns swapped.", MASK, MASK + ".mT"),
        slip("The heads must be joined with the batch again: (B·H, T, D).",
             END, "context"),
    ],
    praise="The fused kernel, called once.",
)  # fmt: skip


# The FLOPs of one layer: 64 wide, 4 query heads, one KV head, 10 tokens.
check_flops = NumberExercise(
    right=230_400,
    praise="4 · 10 · 64 · 80 for the projections, 4 · 10 · 10 · 64 for scores and mix.",
    mistakes=[
        (115_200, "These are multiply-adds: each is two operations."),
        (353_280, "That is a layer with four KV heads: how wide are keys and values "
         "here?"),
        (211_200, "Each query head has its own scores, and its own mix: sharing the "
         "keys saves none of these products."),
        (204_800, "These are the projections alone: scores and mix are missing."),
        (25_600, "These are scores and mix alone: the projections are missing."),
        (148_480, "The output projection is missing, or that of the queries."),
        (209_920, "Keys and values have a projection each."),
        (217_600, "Scores and mix are two products: one of them is missing."),
        (307_200, "The width of all query heads together is 64: one head is 16 wide."),
        (2_304_000, "One text of 10 tokens: is the length counted twice?"),
        (23_040, "That is the count for each of the tokens."),
        (10_240, "That is the number of weights in the projections."),
    ],
    otherwise="Count the four projections first, then the two products of all pairs.",
)  # fmt: skip


class _Machine:
    """A clock that only calls move; each call's time depends on its turn."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self.now, self.seconds = 100.0, seconds
        self.calls: list[str] = []

    def clock(self) -> float:
        return self.now

    def way(self, name: str) -> Any:
        def call() -> None:
            done, each = self.calls.count(name), self.seconds[name]
            self.now += each[min(done, len(each) - 1)]
            self.calls.append(name)

        return call


def _timed(
    answer: Any, seconds: dict[str, list[float]], rounds: int, asked: str
) -> str:
    """Return in words the order of the calls, or the ratios, of an answer."""
    machine, names = _Machine(seconds), list(seconds)
    came = answer({name: machine.way(name) for name in names}, rounds, machine.clock)
    if came is None or came is ...:
        raise Stop(NOT_YET)
    if not isinstance(came, dict):
        raise Stop(f"Your function returns a {type(came).__name__}: a dict with the "
                   f"names {names} is wanted.")  # fmt: skip
    if list(came) != names:
        raise Stop(f"A dict with the names {names} is wanted; it has {list(came)}.")
    if not machine.calls:
        raise Stop("No way was called.")
    calls, turns = machine.calls, names * (1 + rounds)
    if len(calls) > len(turns):
        raise Stop(f"{len(calls)} calls were made, and {len(turns)} are enough: one "
                   "before the rounds, one in each.")  # fmt: skip
    if asked == "order":
        order = f"The ways were called in the order {' '.join(calls)}"
        lost = len(calls) < len(turns) and isinstance(came[names[0]], list)
        return f"{order}; ratios of each: {len(came[names[0]])}" if lost else order
    try:
        given = {name: [round(float(it), 4) for it in came[name]] for name in names}
    except (TypeError, ValueError):
        raise Stop("Each name needs a list of numbers, one per round.") from None
    return f"The ratios are {given}"


WARM = "    for call in ways.values():\n        call()\n"
ORDER = "[:: -1 if number % 2 else 1]"
LOOP = f"    for number in range(rounds):\n        for name in list(ways){ORDER}:\n"
SWAPPED = "    for name in ways:\n        for number in range(rounds):\n"
EACH = "[a / b for a, b in zip(own, first)]"
check_ratios_in_turns = Exercise(
    solution="""
def ratios_in_turns(ways, rounds, clock):
    seconds = {name: [] for name in ways}
    for call in ways.values():
        call()
    for number in range(rounds):
        for name in list(ways)[:: -1 if number % 2 else 1]:
            begin = clock()
            ways[name]()
            seconds[name].append(clock() - begin)
    first = seconds[next(iter(ways))]
    return {name: [a / b for a, b in zip(own, first)] for name, own in seconds.items()}
""",
    use=_timed,
    cases=[
        ((seconds, rounds, asked), so_far)
        for seconds, rounds, so_far in [
            ({"a": [9.0, 2.0, 4.0, 8.0], "b": [7.0, 3.0, 2.0, 2.0]}, 3, ""),
            ({"x": [5.0, 1.0, 2.0], "y": [5.0, 3.0, 1.0], "z": [1.0, 4.0, 6.0]}, 2,
             "Right for two ways. For three:"),
            ({"only": [3.0, 2.0]}, 1, "Right for several ways. For a single one:"),
        ]
        for asked in ("order", "ratios")
    ],
    slips=[
        slip("The first round has the order of the ways: the warm-up does not count as "
             "a round.", WARM, "",
             "range(rounds)", "range(rounds + 1)", "(own, first)", "(own[:-1], first)"),
        slip("No way was called before the rounds: the first call pays for more.",
             WARM, ""),
        slip("All rounds have the same order: reverse every second one.", ORDER, ""),
        slip("The first round has the order of the ways: the warm-up does not count as "
             "a round.", ORDER, "[:: 1 if number % 2 else -1]"),
        slip("A round is missing.", "range(rounds)", "range(rounds - 1)"),
        slip("All rounds of one way come first: take turns, A B, A B.",
             WARM, "", LOOP, SWAPPED, "range(rounds)", "range(rounds + 1)"),
        slip("After the warm-up, all rounds of one way come first: take turns.",
             LOOP, SWAPPED),
        slip("These are the times: divide by the first way's.", EACH, "own"),
        slip("These are the first way's times over the others'.", "a / b", "b / a"),
        slip("All are divided by the first way's first time: divide within each round.",
             "a / b", "a / first[0]"),
        slip("All are divided by the first way's median: divide within each round.",
             "a / b", "a / np.median(first)"),
        slip("The ratios are sorted: keep the order of the rounds.",
             EACH, f"sorted({EACH})"),
        slip("One number for each name: give the ratio of every round.",
             EACH, f"[np.median({EACH})]"),
    ],
    praise="A busy time that lasts longer than a round now affects all ways equally.",
)  # fmt: skip
