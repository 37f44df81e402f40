"""Exercises of chapter 17: layers of windows, a cache with sinks, a mask."""

from typing import Any

import torch

from attention_lib.course.exercises.exercise import Exercise, NumberExercise, slip
from attention_lib.course.exercises.verdict import Verdict

check_window_layers = NumberExercise(
    solution="""
my_layers = -(-4095 // 127)
""",
    mistakes=[
        (32, "A window of 128 keys goes 127 tokens back: the token itself is in it."),
        (31, "One layer less than 32, which is not enough either: a window of 128 keys "
         "goes 127 tokens back."),
        (34, "One layer fewer is enough: the first token is 4,095 back."),
        (4095 / 127, "Layers are whole: round up."),
        (1, "One layer sees 128 keys."),
        (2, "The reach of layers adds up. It does not multiply."),
        (12, "The reach of layers adds up. It does not double with each."),
        (127, "That is how far back one layer goes."),
        (128, "That is how many keys one layer sees."),
        (4095, "A layer goes more than one token back."),
        (4096, "A layer goes more than one token back."),
    ],
    praise="32 layers go 32 · 127 = 4,064 tokens back, and 4,095 are needed.",
    otherwise="Not that many: how far back does one layer go, and how far back is the "
    "first token?",
)  # fmt: skip


def _positions(answer: Any, length: int, window: int, sinks: int) -> Any:
    """Return the positions as a tensor; a verdict where they are no sorted list."""
    came = answer(length, window, sinks)
    if came is None or came is ...:
        return None
    if not isinstance(came, list):
        words = f"Your function returns a {type(came).__name__}: a list is wanted."
    elif not all(type(position) is int for position in came):
        words = "The list must hold positions: ints."
    elif len(set(came)) < len(came):
        words = "Some position is in the list twice."
    elif came and not 0 <= min(came) <= max(came) < length:
        words = f"Positions go from 0 to {length - 1} here."
    elif came != sorted(came):
        words = "The list is not sorted."
    else:
        return torch.tensor(came)
    return Verdict(False, words)


FIRST, LAST = "token < num_sinks", "token >= length - window"
KEPT = f"{FIRST} or {LAST}"
check_kept_positions = Exercise(
    solution="""
def kept(length, window, num_sinks):
    return [
        token
        for token in range(length)
        if token < num_sinks or token >= length - window
    ]
""",
    cases=[
        ((9, 3, 2), ""),
        ((5, 3, 3), "Right where sinks and window are apart. Where they overlap:"),
        ((2, 4, 3), "Right for a long text. For a short one:"),
        ((6, 2, 0), "Right with sinks. Without any:"),
        ((12, 1, 4), "Right for windows of several keys. For a window of 1:"),
        ((3, 1, 5), "Right for a long text. For one that is shorter than the sinks:"),
    ],
    inputs=lambda *numbers: numbers,
    use=_positions,
    otherwise=lambda came, right, length, window, sinks: (
        f"After {length} tokens, a window of {window} and {sinks} sinks: {len(right)} "
        f"positions are needed; yours are {came.tolist()}."
    ),
    slips=[
        slip("The first tokens are missing.", KEPT, LAST),
        slip("The window is missing.", KEPT, FIRST),
        slip("The window is one key short: the newest token is in it.",
             "- window", "- window + 1"),
        slip("The window is one key too long: the newest token is one of its keys.",
             "- window", "- window - 1"),
        slip("The sinks are beside the window: they take none of its keys.",
             "- window", "- window + num_sinks"),
        slip("There is one sink too many.", FIRST, "token <= num_sinks"),
        slip("There is one sink too few.", FIRST, "token < num_sinks - 1"),
        slip("Window and sinks have changed places.",
             "window, num_sinks", "num_sinks, window"),
        slip("All positions are kept: the window is gone.", KEPT, "True"),
        slip("Count positions from the beginning of the text.",
             "        token\n", "        token - num_sinks\n",
             KEPT, f"token >= num_sinks and ({KEPT})"),
        slip("These are the positions that can go.", KEPT, f"not ({KEPT})"),
    ],
    praise="However long the text grows, the cache does not.",
)  # fmt: skip

QUERY, NEAR = "torch.arange(key_len - query_len, key_len)", "query - key < window"
SEEN = "(key <= query) & (near | (key < num_sinks))"
check_sink_mask = Exercise(
    solution="""
def window_with_sinks(query_len, key_len, window, num_sinks):
    query = torch.arange(key_len - query_len, key_len)[:, None]
    key = torch.arange(key_len)
    near = query - key < window
    return (key <= query) & (near | (key < num_sinks))
""",
    cases=[
        ((6, 6, 2, 1), ""),
        ((2, 7, 3, 1), "Right without a cache. With one:"),
        ((1, 8, 1, 0), "Right with sinks. Without any, for one new token:"),
        ((4, 4, 9, 0), "Right for windows shorter than the text. For a longer one:"),
        ((3, 5, 2, 4), "Right for few sinks. Where a sink may be new as well:"),
    ],
    slips=[
        slip("The window is one key too long: the token itself is one of its keys.",
             "< window", "<= window"),
        slip("The window is one key short: it may hold `window` keys in all.",
             "< window", "< window - 1"),
        slip("Rows are the newest tokens: at which positions are they?",
             QUERY, "torch.arange(query_len)"),
        slip("The new tokens come after the cache: the first of them is one further.",
             QUERY, "torch.arange(key_len - query_len - 1, key_len - 1)"),
        slip("No row may see a sink that comes after it.",
             SEEN, "(key <= query) & near | (key < num_sinks)"),
        slip("Rows see tokens after themselves.", SEEN, "near | (key < num_sinks)"),
        slip("The sinks are gone.", SEEN, "(key <= query) & near"),
        slip("The window is gone.", SEEN, "(key <= query) & (key < num_sinks)"),
        slip("All is seen up to the token itself.", SEEN, "(key <= query)"),
        slip("There is one sink too many.", "key < num_sinks", "key <= num_sinks"),
        slip("A key must be in the window or a sink, not both.", "near |", "near &"),
        slip("It is inverted: True must mean that it may attend.",
             f"return {SEEN}", f"return ~({SEEN})"),
    ],
    praise="It holds with a cache and without one.",
)  # fmt: skip
