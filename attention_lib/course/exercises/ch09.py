"""Checks of chapter 9: bytes, the cache itself, a mask for one step, and writing."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lib.course.exercises.ch08 import judge_texts
from attention_lib.course.exercises.verdict import (
    Mistakes,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)
from attention_lib.reproducibility import seeded


def check_cache_bytes(answer: object) -> Verdict:
    """Checks the MiB of 24 layers, 16 query and 4 key heads of 64, 4,096 tokens."""
    mistakes = [
        (384, "That is with a key for each query head: how many key heads are there?"),
        (48, "Keys and values: both are kept."),
        (4, "That is one layer: each layer keeps its own."),
        (24, "That is one key head: there are four."),
        (192, "Each number takes 2 bytes here."),
        (96 * 2**20, "Those are bytes: a MiB has 1,048,576 of them."),
        (100.66, "Those are millions of bytes: a MiB has 1,048,576 of them."),
        (24 / 1024, "That is one token: the text has 4,096."),
    ]
    return judge_number(
        answer,
        96,
        "24 KiB per token, for 4,096 tokens.",
        mistakes,
        "Not that: count keys and values, layers, key heads, width, bytes and tokens.",
    )


def check_cache(answer: object) -> Verdict:
    """Checks ``Cache(batch_size, num_heads, max_len, head_dim).append(key, value)``."""
    if wrong := _judge_cache(run(answer, 2, 3, 8, 4), [2, 1, 3]):
        return wrong
    first, second = run(answer, 2, 3, 8, 4), run(answer, 1, 2, 6, 5)
    for cache, sizes, so_far in [
        (second, (1, 2, 5), "Right for (2, 3, 8, 4). For (1, 2, 6, 5):"),
        (
            first,
            (2, 3, 4),
            "Right alone. Made before a second cache:",
        ),
    ]:
        if wrong := _judge_cache(cache, [2, 1], sizes):
            return after(so_far, wrong)
    return Verdict(True, "All tokens so far, in memory that was set aside once.")


def _judge_cache(
    cache: Any, lengths: list[int], sizes: tuple[int, int, int] = (2, 3, 4)
) -> Verdict | None:
    """Appends pieces of these lengths to a new cache; None where all is right."""
    if isinstance(cache, Verdict):
        return cache
    if not hasattr(cache, "append") or isinstance(cache, list):
        came = type(cache).__name__
        return Verdict(
            False, f"Your function returns a {came}: it must be a class with append."
        )
    pairs = [_pair(length, seed, sizes) for seed, length in enumerate(lengths)]
    places = []
    for count in range(1, len(pairs) + 1):
        came = run(cache.append, *pairs[count - 1])
        if isinstance(came, Verdict):
            return came
        if not isinstance(came, tuple | list) or len(came) != 2:
            return Verdict(False, "append must give two tensors: all keys, all values.")
        so_far = "" if count == 1 else "Right for the first piece. After the next:"
        for which, name in enumerate(["keys", "values"]):
            wrong = judge(
                lambda came=came[which]: came,
                (),
                _kept(pairs[:count], which),
                _wrong_caches(pairs[:count], which),
                so_far=f"{so_far} The {name}:".strip(),
            )
            if wrong:
                return wrong
        places.append([each.untyped_storage().data_ptr() for each in came])
    if places != len(places) * places[:1]:
        return Verdict(
            False,
            "All right, but each call copies what is kept into new memory: set the "
            "memory aside once, for max_len tokens, and write into it.",
        )
    return None


def check_step_mask(answer: object) -> Verdict:
    """Checks ``mask(lengths, max_len, new)`` for one query after left padding."""
    for lengths, max_len, new, so_far in [
        (torch.tensor([2, 5, 3]), 5, 1, ""),
        (torch.tensor([1, 3]), 4, 3, "Right for one new token. For three:"),
    ]:
        right = _step_mask(lengths, max_len, new)
        left, added = right[..., :max_len], right[..., max_len:]
        mistakes = [
            (~right, "It is the wrong way round: True must mean that it may attend."),
            (torch.cat([left.flip(-1), added], -1), "The padding stands on the left."),
            (torch.cat([~left, added], -1), "It hides words and shows padding."),
            (left, "The new tokens are keys as well: they have columns, too."),
            (right[:, 0], "Between texts and keys there is one more axis, of size 1: "
             "the query."),
            (torch.cat([left, ~added], -1), "The new tokens are real."),
            (right.mT, "Keys are columns, so they come last."),
            (right.roll(1, -1), "Look at the end of each row: which keys are new?"),
            (torch.ones_like(right), "Nothing is hidden: what of the padding?"),
            (torch.cat([F.pad(left, (1, -1)), added], -1), "The first word of a text "
             "is hidden, too: it stands at max_len - n."),
        ]  # fmt: skip
        if wrong := judge(
            answer, (lengths, max_len, new), right, mistakes, so_far=so_far
        ):
            return wrong
    return Verdict(True, "The padding is hidden, all else may be attended to.")


def check_write(answer: object) -> Verdict:
    """Checks greedy ``write(model, token_ids, count, stop)``, each token read once."""
    token_ids = torch.tensor([[1, 2, 4], [4, 0, 6]])
    for count, stop, so_far in [
        (4, 99, ""),
        (5, 7, "Right without a stop. With one:"),
        (5, 4, "Right with a stop. With one that stands in the beginning, too:"),
    ]:
        model = _Sums()
        right = _continued(token_ids, count, stop)
        mistakes = _wrong_texts(token_ids, count, stop)
        options = count, stop
        if wrong := judge_texts(
            answer, model, token_ids, options, right, mistakes, so_far
        ):
            return wrong
        read, needed = model.read / len(token_ids), token_ids.shape[1] + count
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
    return Verdict(True, "Each token is read once, and a text ends at its stop.")


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
        """Gives all tokens read, these among them."""
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


def _continued(token_ids: Tensor, count: int, stop: int, fill: bool = True) -> Tensor:
    for _ in range(count):
        picked = _sums(token_ids)[:, -1:]
        if fill:
            ended = (token_ids[:, 3:] == stop).any(dim=1, keepdim=True)
            picked = picked.masked_fill(ended, stop)
        token_ids = torch.cat([token_ids, picked], dim=1)
    return token_ids


def _wrong_texts(token_ids: Tensor, count: int, stop: int) -> Mistakes:
    right = _continued(token_ids, count, stop)
    blind = token_ids  # each step sees the newest token alone
    for step in range(count):
        seen = blind if step == 0 else blind[:, -1:]
        blind = torch.cat([blind, _sums(seen)[:, -1:]], dim=1)
    twice = [_sums(token_ids)[:, -1:]]
    seen = token_ids
    for _ in range(count - 1):  # all of the text, into a cache that has it already
        seen = torch.cat([seen, token_ids, *twice], dim=1)
        twice.append(_sums(seen)[:, -1:])
    return [
        (_continued(token_ids, count, stop, fill=False), "A text goes on after its "
         "stop: fill the rest with it."),
        (blind, "After the first step the model does not know the text: is the cache "
         "given to every call?"),
        (torch.cat([token_ids, *twice], dim=1), "The model gets the whole text again, "
         "behind what is in the cache: give it the new token only."),
        (right[:, 3:], "The beginning belongs to the result."),
        (F.pad(token_ids, (0, count), value=stop), "A stop in the beginning ends "
         "nothing: look at the new tokens only."),
        (right[:, :-1], "One token is missing at the end."),
        (_continued(token_ids, count + 1, stop), "One token too many."),
    ]  # fmt: skip


def _pair(length: int, seed: int, sizes: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    batch, heads, width = sizes
    keys, values = torch.randn(2, batch, heads, length, width, generator=seeded(seed))
    return keys, values


def _kept(pairs: list[tuple[Tensor, Tensor]], which: int) -> Tensor:
    return torch.cat([pair[which] for pair in pairs], dim=2)


def _wrong_caches(pairs: list[tuple[Tensor, Tensor]], which: int) -> Mistakes:
    right = _kept(pairs, which)
    room = F.pad(right, (0, 0, 0, 8 - right.shape[2]))
    over = torch.zeros_like(right)
    for pair in pairs:
        over[:, :, : pair[which].shape[2]] = pair[which]
    newest = pairs[-1][which]
    places = torch.zeros_like(right)
    places[:, :, -newest.shape[2] :] = newest
    return [
        (_kept(pairs, 1 - which), "keys and values have changed places."),
        (room, "the empty room comes as well: give only what is filled."),
        (newest, "only the new ones come: give the old ones, too."),
        (_kept(pairs[::-1], which), "the new ones come first: they belong behind."),
        (over, "the new ones are written over the old ones: where do they begin?"),
        (places, "the old ones are lost: zeros stand in their place."),
        (room[:, :, : right.shape[2] - 1], "the last token is missing."),
        (room[:, :, : right.shape[2] + 1], "one place too many comes."),
    ]  # fmt: skip


def _step_mask(lengths: Tensor, max_len: int, new: int) -> Tensor:
    left = torch.arange(max_len) >= max_len - lengths[:, None]
    added = torch.ones(len(lengths), new, dtype=torch.bool)
    return torch.cat([left, added], dim=1)[:, None, :]
