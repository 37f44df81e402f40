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


def _appended(
    cache: Any, lengths: list[int], keys: Tensor, values: Tensor, which: int
) -> Any:
    """Append pieces of these lengths; return all keys, or all values."""
    came: Any = None
    for pair in zip(keys.split(lengths, 2), values.split(lengths, 2), strict=True):
        came = cache.append(*pair)
        if came is None or came is ...:
            return None
        if not isinstance(came, tuple | list) or len(came) != 2:
            words = "append must return two tensors: all keys, all values."
            return Verdict(False, words)
        first, second = (getattr(it, "data_ptr", object)() for it in came)
        if first == second:
            words = "Keys and values share one memory: the values overwrite the keys."
            return Verdict(False, words)
    return came[which]


def _memory_fault(answer: Any) -> Verdict | None:
    """Say whether caches share their memory, or take new memory in each call."""
    cache, other = answer(2, 3, 8, 4), answer(1, 2, 6, 5)
    other.append(*torch.ones(2, 1, 2, 3, 5))
    keys, values = torch.randn(2, 2, 3, 3, 4, generator=seeded(0))
    so_far = "Right alone. Made before a second cache:"
    asked = [2, 1], keys, values, 0
    if wrong := judge(lambda: _appended(cache, *asked), (), keys, so_far=so_far):
        return wrong
    kept = [cache.append(keys[:, :, :1], values[:, :, :1]) for _ in range(2)]
    first, then = ([it.untyped_storage().data_ptr() for it in pair] for pair in kept)
    if first == then:
        return None
    return Verdict(
        False,
        "All right, but each call copies what is kept into new memory: set the memory "
        "aside once, for max_len tokens, and write into it.",
    )


NEW = " start : self.length]"
FILLED = ", : self.length]"
VALUES = ", self.values[:, :, : self.length]"
STORE_KEYS = "self.keys[:, :, start : self.length] = key"
STORE_VALUES = "self.values[:, :, start : self.length] = value"
check_cache = Exercise(
    solution="""
class MyCache:
    def __init__(self, batch_size, num_heads, max_len, head_dim):
        self.keys = torch.zeros(batch_size, num_heads, max_len, head_dim)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def append(self, key, value):
        start, self.length = self.length, self.length + key.shape[2]
        self.keys[:, :, start : self.length] = key
        self.values[:, :, start : self.length] = value
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]
""",
    cases=[
        (((2, 3, 8, 4), [2], 0), ""),
        (((2, 3, 8, 4), [2], 1), "The keys are right. The values:"),
        (((2, 3, 8, 4), [2, 1], 0), "Right for the first piece. After the next:"),
        (((2, 3, 8, 4), [2, 1], 1), "The keys are right. The values:"),
        (((2, 3, 8, 4), [2, 1, 3], 0), "Right for the first piece. After the next:"),
        (((2, 3, 8, 4), [2, 1, 3], 1), "The keys are right. The values:"),
        (((1, 2, 6, 5), [2, 1], 0), "Right for (2, 3, 8, 4). For (1, 2, 6, 5):"),
        (((1, 2, 6, 5), [2, 1], 1), "The keys are right. The values:"),
    ],
    inputs=lambda sizes, lengths, which: (
        sizes,
        lengths,
        *torch.randn(2, *sizes[:2], sum(lengths), sizes[3], generator=seeded(0)),
        which,
    ),
    use=lambda kind, sizes, *given: _appended(
        make_object(kind, *sizes, methods=["append"]), *given
    ),
    lastly=_memory_fault,
    slips=[
        slip("Keys and values have changed places.", "key, value):", "value, key):"),
        slip("The empty room is returned as well: return only what is filled.",
             FILLED, "]"),
        slip("Only the new ones are returned: return the old ones, too.",
             FILLED, f",{NEW}"),
        slip("The new ones come first: they belong behind the old ones.",
             STORE_KEYS, "self.keys = torch.cat([key, self.keys], dim=2)",
             STORE_VALUES, "self.values = torch.cat([value, self.values], dim=2)"),
        slip("The new ones are written over the old ones: where do they begin?",
             NEW, " : key.shape[2]]"),
        slip("The old ones are lost: zeros are in their place.",
             STORE_KEYS, f"self.keys[:], self.values[:] = 0, 0; {STORE_KEYS}"),
        slip("The last token is missing.", FILLED, ", : self.length - 1]"),
        slip("One token too many is returned.", FILLED, ", : self.length + 1]"),
    ],
    praise="All tokens so far, in memory that was set aside once.",
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
