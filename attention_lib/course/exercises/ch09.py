"""Exercises of chapter 9: bytes, the cache itself, a mask for one step, and writing."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.course.exercises.verdict import Verdict, judge
from attention_lib.reproducibility import seeded

check_cache_bytes = NumberExercise(
    solution="my_mib = 2 * 24 * 4 * 64 * 2 * 4096 / 2**20",
    mistakes=[
        (384, "That is with a key for each query head: how many key heads are there?"),
        (48, "Keys and values: both are kept."),
        (4, "That is one layer: each layer keeps its own."),
        (24, "That is one key head: there are four."),
        (192, "Each number takes 2 bytes here."),
        (96 * 2**20, "Those are bytes: a MiB has 1,048,576 of them."),
        (100.66, "Those are millions of bytes: a MiB has 1,048,576 of them."),
        (24 / 1024, "That is one token: the text has 4,096."),
    ],
    praise="24 KiB per token, for 4,096 tokens.",
    otherwise="Not that: count keys and values, layers, key heads, width, bytes and "
    "tokens.",
)  # fmt: skip


def _appended(cache: Any, keys: Tensor, values: Tensor, which: int) -> Any:
    """Append tokens one by one; return the keys or values kept, oldest first."""
    came: Any = None
    for pair in zip(keys.split(1, 2), values.split(1, 2), strict=True):
        came = cache.append(*pair)
        if came is None or came is ...:
            return None
        if not isinstance(came, tuple | list) or len(came) != 2:
            words = "append must return two tensors: the keys and the values kept."
            return Verdict(False, words)
        first, second = (getattr(it, "data_ptr", object)() for it in came)
        if first == second != 0:  # where something is kept
            words = "Keys and values share one memory: the values overwrite the keys."
            return Verdict(False, words)
    return _in_order(came, keys)[which]


def _in_order(came: Any, keys: Tensor) -> Any:
    """Put what is kept in the order of the text, keys and values alike."""
    kept = came[0]
    if not isinstance(kept, Tensor) or kept.shape[:2] != keys.shape[:2]:
        return came
    apart = (kept[0, 0, :, None, :1] - keys[0, 0, None, :, :1]).abs().sum(dim=-1)
    order = apart.argmin(dim=-1).argsort(stable=True)  # whose key each of them is
    fits = [isinstance(it, Tensor) and it.shape[:3] == kept.shape[:3] for it in came]
    return [it[:, :, order] if fit else it for it, fit in zip(came, fits, strict=True)]


def _memory_fault(answer: Any) -> Verdict | None:
    """Say whether caches share their memory, copy what they keep, or move it."""
    cache, other = answer(2, 3, 4, 4), answer(1, 2, 6, 5)
    other.append(*torch.ones(2, 1, 2, 1, 5))
    keys, values = torch.randn(2, 2, 3, 6, 4, generator=seeded(0))
    so_far = "Right alone. Made before a second cache:"
    if wrong := judge(
        lambda: _appended(cache, keys, values, 0), (), keys[:, :, 2:], so_far=so_far
    ):
        return wrong
    kept = [[it.clone(), it] for it in cache.append(keys[:, :, :1], values[:, :, :1])]
    then = cache.append(keys[:, :, 1:2], values[:, :, 1:2])
    for (before, first), now in zip(kept, then, strict=True):
        if first.untyped_storage().data_ptr() != now.untyped_storage().data_ptr():
            words = "copies what is kept into new memory: set the memory aside once, "
            return Verdict(False, f"All right, but each call {words}and write into it.")
        if (before != now).flatten(3).any(-1).sum(-1).max() > 1:
            words = "moves what is kept: let the new token take the slot of the oldest."
            return Verdict(False, f"All right, but each call {words}")
    return None


SLOT, HERE = "self.length % self.keys.shape[2]", "[:, :, slot : slot + 1]"
FILLED = ", : self.length]"
VALUES = ", self.values[:, :, : self.length]"
STORE_KEYS, STORE_VALUES = f"self.keys{HERE} = key", f"self.values{HERE} = value"
LATER = "Right for the first tokens. When the window is full:"
WIDE = "Right for (2, 3, 4, 5). For (1, 2, 3, 4):"
RIGHT_KEYS = "The keys are right. The values:"
check_cache = Exercise(
    solution="""
class MyCache:
    def __init__(self, batch_size, num_heads, window, head_dim):
        self.keys = torch.zeros(batch_size, num_heads, window, head_dim)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, key, value):
        slot = self.length % self.keys.shape[2]
        self.keys[:, :, slot : slot + 1] = key
        self.values[:, :, slot : slot + 1] = value
        self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]
""",
    cases=[
        (((2, 3, 4, 5), 2, 0), ""),
        (((2, 3, 4, 5), 2, 1), RIGHT_KEYS),
        (((2, 3, 4, 5), 4, 0), "Right for two tokens. When the window is just full:"),
        (((2, 3, 4, 5), 6, 0), LATER),
        (((2, 3, 4, 5), 6, 1), RIGHT_KEYS),
        (((2, 3, 4, 5), 11, 0), "Right for six tokens in a window of four. For 11:"),
        (((2, 3, 4, 5), 11, 1), RIGHT_KEYS),
        (((1, 2, 3, 4), 5, 0), WIDE),
        (((1, 2, 3, 4), 5, 1), RIGHT_KEYS),
        (((1, 2, 1, 3), 3, 0), "Right for larger windows. For one of a single token:"),
    ],
    inputs=lambda sizes, count, which: (
        sizes,
        *torch.randn(2, *sizes[:2], count, sizes[3], generator=seeded(0)),
        which,
    ),
    use=lambda kind, sizes, *given: _appended(
        make_object(kind, *sizes, methods=["append"]), *given
    ),
    lastly=_memory_fault,
    slips=[
        slip("Keys and values have changed places.", "key, value):", "value, key):"),
        slip("Empty slots are returned as well: return only what is filled.",
             FILLED, "]"),
        slip("The new values are in slots other than those of their keys.",
             STORE_VALUES, "self.values[:, :, slot - 1] = value[:, :, 0]"),
        slip("Only the new token is returned: return the old ones, too.",
             "self.keys[:, :, : self.length], self.values[:, :, : self.length]",
             "key, value"),
        slip("A new token is lost: where does it go when all slots are taken?",
             SLOT, "self.length"),
        slip("The newest token is overwritten: the oldest must give way.",
             SLOT, "min(self.length, self.keys.shape[2] - 1)"),
        slip("All tokens are returned: keep only the last ones.",
             STORE_KEYS, f"self.keys = torch.cat([self.keys[:, :{FILLED}, key], 2)",
             STORE_VALUES,
             f"self.values = torch.cat([self.values[:, :{FILLED}, value], 2)",
             SLOT, "0"),
        slip("All tokens are in one slot: each overwrites the one before.", SLOT, "0"),
        slip("One slot is never used: count the slots from 0.",
             SLOT, "self.length % max(1, self.keys.shape[2] - 1)"),
        slip("The newest token is missing.", FILLED, ", : self.length - 1]"),
        slip("The window starts again: the old tokens stay until they are overwritten.",
             SLOT, f"{SLOT}; self.length = slot"),
    ],
    praise="The last tokens, in memory that does not grow: a ring.",
)  # fmt: skip
SEEN, ROWS = "column >= max_len - lengths[:, None]", "[:, None, :]"
check_step_mask = Exercise(
    solution="""
def my_step_mask(lengths, max_len, new):
    column = torch.arange(max_len + new)
    return (column >= max_len - lengths[:, None])[:, None, :]
""",
    cases=[
        (([2, 5, 3], 5, 1), ""),
        (([1, 3], 4, 3), "Right for one new token. For three:"),
    ],
    inputs=lambda lengths, *others: (torch.tensor(lengths), *others),
    slips=[
        slip("It is inverted: True must mean that it may attend.", ">=", "<"),
        slip("The padding is on the left.",
             SEEN, "(column < lengths[:, None]) | (column >= max_len)"),
        slip("It hides words and shows padding.",
             SEEN, "(column < max_len - lengths[:, None]) | (column >= max_len)"),
        slip("The new tokens are keys as well: they have columns, too.", " + new", ""),
        slip("Between texts and keys there is one more axis, of size 1: the query.",
             ROWS, ""),
        slip("The new tokens are real.", SEEN, f"({SEEN}) & (column < max_len)"),
        slip("Keys are columns, so they come last.", ROWS, "[:, :, None]"),
        slip("Look at the end of each row: which keys are new?",
             ROWS, f"{ROWS}.roll(1, -1)"),
        slip("Nothing is hidden: what of the padding?",
             "max_len - lengths", "0 * lengths"),
        slip("The first word of a text is hidden, too: it is at max_len - n.",
             ">=", ">"),
    ],
    praise="The padding is hidden, all else may be attended to.",
)  # fmt: skip


def _written(
    answer: Any, token_ids: Tensor, count: int, stop: int, model: Any = None
) -> Any:
    given = token_ids.clone()
    text = answer(model or _Sums(), given, count, stop)
    if not token_ids.equal(given):
        words = "Your code changes the text that it was given: use a copy."
        return Verdict(False, words)
    return text


def _reading_fault(answer: Any) -> Verdict | None:
    """Say whether a token is read twice, or a cache has no room."""
    for count, stop in [(4, 99), (5, 7), (5, 4)]:
        model = _Sums()
        _written(answer, BEGINNINGS, count, stop, model)
        read, needed = model.read / len(BEGINNINGS), BEGINNINGS.shape[1] + count
        if read > needed:
            return Verdict(
                False,
                f"The text is right, but each row reads {read:g} tokens and needs "
                f"{needed - 1}: give the model only what is not in the cache.",
            )
        if model.too_short is not None:
            return Verdict(
                False,
                f"The text is right, but your cache has room for {model.too_short} "
                "tokens, and more are read: a real model would stop.",
            )
    return None


BEGINNINGS = torch.tensor([[1, 2, 4], [4, 0, 6]])
PICKED, JOINED = "picked.masked_fill(ended, stop)", "return torch.cat(text, dim=1)"
check_write = Exercise(
    solution="""
def my_write(model, token_ids, count, stop):
    cache = model.new_cache(len(token_ids), token_ids.shape[1] + count)
    unread, text = token_ids, [token_ids]
    ended = torch.zeros(len(token_ids), 1, dtype=torch.bool)
    for _ in range(count):
        picked = model(unread, cache=cache)[:, -1].argmax(-1, keepdim=True)
        unread = picked.masked_fill(ended, stop)
        ended = ended | (unread == stop)
        text.append(unread)
    return torch.cat(text, dim=1)
""",
    cases=[
        ((4, 99), ""),
        ((5, 7), "Right without a stop. With one:"),
        ((5, 4), "Right with a stop. With one that is in the beginning, too:"),
    ],
    inputs=lambda count, stop: (BEGINNINGS, count, stop),
    use=_written,
    lastly=_reading_fault,
    slips=[
        slip("A text goes on after its stop: fill the rest with it.", PICKED, "picked"),
        slip("After the first step the model does not know the text: is the cache "
             "given to every call?", ", cache=cache", ""),
        slip("The model gets the whole text again, behind what is in the cache: give "
             "it the new token only.",
             "model(unread,", "model(torch.cat(text, dim=1),"),
        slip("The beginning belongs to the result.", JOINED, f"{JOINED}[:, 3:]"),
        slip("A stop in the beginning ends nothing: look at the new tokens only.",
             "torch.zeros(len(token_ids), 1, dtype=torch.bool)",
             "(token_ids == stop).any(dim=1, keepdim=True)"),
        slip("One token is missing at the end.", JOINED, f"{JOINED}[:, :-1]"),
        slip("One token too many.", "range(count)", "range(count + 1)"),
    ],
    praise="Each token is read once, and a text ends at its stop.",
)  # fmt: skip


class _Sums:
    """A model whose next token is the sum of all tokens so far, and their number."""

    def __init__(self) -> None:
        self.read = 0  # tokens of all texts
        self.too_short: int | None = None  # the room of a cache that had not enough

    def new_cache(self, batch_size: int, max_len: int = 99) -> "_Pieces":
        return _Pieces(self, batch_size, max_len)

    def __call__(
        self, token_ids: Tensor, *others: Any, cache: Any = None, **more: Any
    ) -> Tensor:
        self.read += token_ids.numel()
        if cache is not None:
            before = sum(piece.shape[1] for piece in cache)
            token_ids = cache.add(token_ids)
        else:
            before = 0
        return torch.nn.functional.one_hot(_sums(token_ids), 10)[:, before:].double()

    def eval(self) -> "_Sums":
        return self


class _Pieces(list[Tensor]):
    """The tokens read so far; it tells the model when it has no room for them."""

    def __init__(self, model: _Sums, batch_size: int, max_len: int) -> None:
        self.model, self.sizes = model, (batch_size, max_len)

    def add(self, token_ids: Tensor) -> Tensor:
        """Return all tokens read, these among them."""
        texts, room = self.sizes
        if len(token_ids) != texts:
            raise ValueError(f"the cache holds {texts} texts; got {len(token_ids)}")
        self.append(token_ids)
        found = torch.cat(list(self), dim=1)
        if found.shape[1] > room:
            self.model.too_short = room
        return found


def _sums(token_ids: Tensor) -> Tensor:
    return (token_ids + 1).cumsum(dim=1) % 10
