"""The checks of chapter 9: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.kv_cache import LayerCache


def cache(give=lambda k, v: (k, v), start=lambda old, new: old, end=None, room=None):
    """A class in memory that is set aside once, with one step another."""

    class Cache:
        def __init__(self, batch_size, num_heads, max_len, head_dim):
            self.keys = torch.zeros(batch_size, num_heads, max_len, head_dim)
            self.values, self.length = torch.zeros_like(self.keys), 0

        def append(self, key, value):
            new, old = key.shape[2], self.length
            first = start(old, new)
            self.keys[:, :, first : first + new] = key
            self.values[:, :, first : first + new] = value
            self.length += new
            seen = slice(*(end(old, new) if end else (0, self.length)))
            return give(self.keys[:, :, seen], self.values[:, :, seen])

    return Cache


class Joined:
    """New memory for each token."""

    first = False  # whether the new ones come first

    def __init__(self, *sizes):
        self.pairs = []

    def append(self, key, value):
        self.pairs.insert(0 if self.first else len(self.pairs), (key, value))
        return tuple(torch.cat(parts, dim=2) for parts in zip(*self.pairs, strict=True))


class InFront(Joined):
    first = True


class Lists(LayerCache):
    def append(self, key, value):
        return list(super().append(key, value))


class Zeroed(cache()):
    def append(self, key, value):
        keys, values = super().append(key, value)
        keys[:, :, : -key.shape[2]] = values[:, :, : -key.shape[2]] = 0
        return keys, values


class Fails:
    def __init__(self, *sizes):
        pass

    def append(self, key, value):
        raise IndexError(3)


class Positional(LayerCache):
    def __init__(self, *sizes):
        super().__init__(*sizes)

    def append(self, key, value):
        super().append(key, value)
        return self.keys.narrow(2, 0, self.length), self.values[:, :, : self.length]


class Doubled(LayerCache):
    """Keys and values in one tensor."""

    def __init__(self, batch_size, num_heads, max_len, head_dim):
        self.both = torch.zeros(2, batch_size, num_heads, max_len, head_dim)
        self.length = 0

    def append(self, key, value):
        end = self.length + key.shape[2]
        self.both[:, :, :, self.length : end] = torch.stack([key, value])
        self.length = end
        return tuple(self.both[:, :, :, :end])


class Copied(cache()):
    def append(self, key, value):
        place = torch.arange(self.length, self.length + key.shape[2])
        self.keys.index_copy_(2, place, key)
        self.values.index_copy_(2, place, value)
        self.length += key.shape[2]
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


def made(*sizes):
    return cache()(*sizes)


class HalfJoined(cache()):
    """Memory for the keys alone."""

    joined = ()

    def append(self, key, value):
        self.joined = *self.joined, value
        return super().append(key, value)[0], torch.cat(self.joined, dim=2)


class Shared(cache()):
    """One memory for all caches."""

    both = torch.zeros(2, 2, 3, 8, 4)

    def __init__(self, *sizes):
        self.keys, self.values = self.both
        self.length = 0


class LastMade(cache()):
    """The newest cache takes the memory of the others."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        LastMade.newest = self.keys, self.values

    def append(self, key, value):
        self.keys, self.values = self.newest
        return super().append(key, value)


class Turned(cache()):
    """Tokens before heads in memory."""

    def __init__(self, batch_size, num_heads, max_len, head_dim):
        super().__init__(batch_size, max_len, num_heads, head_dim)
        self.keys, self.values = self.keys.transpose(1, 2), self.values.transpose(1, 2)


def mask(left=lambda n, t: torch.arange(t) >= t - n[:, None], new=True, then=None):
    """A mask for one step, with one part another."""

    def answer(lengths, max_len, count):
        seen = left(lengths, max_len)
        added = torch.full((len(lengths), count), new)
        both = torch.cat([seen, added], dim=1)[:, None]
        return then(both, max_len) if then else both

    return answer


def mask_by_loop(lengths, max_len, new):
    rows = [[False] * (max_len - n) + [True] * (n + new) for n in lengths.tolist()]
    return torch.tensor(rows)[:, None]


def mask_by_flip(lengths, max_len, new):
    place = torch.arange(max_len + new).flip(0)
    return (place < lengths[:, None] + new)[:, None]


def mask_by_fill(lengths, max_len, new):
    seen = torch.ones(len(lengths), 1, max_len + new, dtype=torch.bool)
    for row, n in enumerate(lengths):
        seen[row, :, : max_len - n] = False
    return seen


def write(feed=lambda text, new: new, keep=True, fill=True, count=0, give=None):
    """Greedy writing, with one step another."""

    def answer(model, token_ids, n, stop):
        store = model.new_cache(len(token_ids), token_ids.shape[1] + n)
        text = unread = token_ids
        ended = torch.zeros(len(text), 1, dtype=torch.bool)
        for _ in range(n + count):
            logits = model(unread, cache=store) if keep else model(unread)
            picked = logits[:, -1].argmax(-1, keepdim=True)
            if fill:
                picked = picked.masked_fill(ended, stop)
            ended |= picked == stop
            text = torch.cat([text, picked], dim=1)
            unread = feed(text, picked)
        return give(text) if give else text

    return answer


def write_changing(model, token_ids, n, stop):
    token_ids += 1
    return write()(model, token_ids - 1, n, stop)


def write_by_list(model, token_ids, n, stop):
    store, new = model.new_cache(len(token_ids)), [token_ids]
    for _ in range(n):
        picked = model(new[-1], cache=store)[:, -1].argmax(-1)
        if len(new) > 1:
            picked = torch.where((torch.cat(new[1:], 1) == stop).any(1), stop, picked)
        new.append(picked[:, None])
    return torch.cat(new, 1)


def write_and_end(model, token_ids, n, stop):
    """It ends as soon as every text has met the stop."""
    text = torch.full((len(token_ids), token_ids.shape[1] + n), stop)
    text[:, : token_ids.shape[1]] = token_ids
    store, unread = model.new_cache(2), token_ids
    for place in range(token_ids.shape[1], text.shape[1]):
        picked = model(unread, cache=store)[:, -1].argmax(-1)
        ended = (text[:, token_ids.shape[1] : place] == stop).any(1)
        text[:, place] = picked.where(~ended, stop)
        if ((text[:, token_ids.shape[1] : place + 1] == stop).any(1)).all():
            break
        unread = text[:, place : place + 1]
    return text


def write_in_pieces(model, token_ids, n, stop):
    store = model.new_cache(2)
    for piece in token_ids[:, :-1].split(1, dim=1):
        model(piece, cache=store)

    class Rest:
        def new_cache(self, *sizes):
            return store

        def __call__(self, ids, cache):
            return model(ids[:, -1:], cache=cache)

    return write()(Rest(), token_ids, n, stop)


def write_each_alone(model, token_ids, n, stop):
    return torch.cat([write()(model, row[None], n, stop) for row in token_ids])


def write_ended_before(model, token_ids, n, stop):
    """A stop in the beginning counts."""
    text, started = write()(model, token_ids, n, stop), token_ids.shape[1]
    ended = (token_ids == stop).any(1, keepdim=True)
    return torch.cat([token_ids, text[:, started:].masked_fill(ended, stop)], 1)


def numbers(*values):
    return list(values)


MISTAKES = {
    "cache_bytes": [
        (384, "a key for each query head"),
        (48, "both are kept"),
        (4, "one layer"),
        (24, "one key head"),
        (192, "2 bytes here"),
        (100_663_296, "Those are bytes"),
        (100.66, "millions of bytes"),
        (0.0234375, "one token"),
        (95, "Not that"),
        ((96, 0), "Is there a comma"),
        (-1, "above 0"),
    ],
    "cache": [
        (cache(give=lambda k, v: (v, k)), "have changed places"),
        (cache(end=lambda old, new: (0, 8)), "empty room"),
        (cache(end=lambda old, new: (old, old + new)), "only the new ones"),
        (InFront, "they belong behind"),
        (
            cache(start=lambda old, new: 0),
            "over the old",
        ),
        (Zeroed, "the old ones are lost"),
        (cache(end=lambda old, new: (0, old + new - 1)), "last token is missing"),
        (cache(end=lambda old, new: (0, old + new + 1)), "one place too many"),
        (cache(give=lambda k, v: k), "two tensors"),
        (Joined, "copies what is kept"),
        (HalfJoined, "copies what is kept"),
        (Shared, "Right for (2, 3, 8, 4). For (1, 2, 6, 5):"),
        (LastMade, "Made before a second cache"),
        (lambda *sizes: {}, "a class with append"),
        (Fails, "IndexError"),
    ],
    "step_mask": [
        (mask(then=lambda m, t: ~m), "wrong way round"),
        (mask(lambda n, t: torch.arange(t) < n[:, None]), "stands on the left"),
        (mask(lambda n, t: torch.arange(t) < t - n[:, None]), "shows padding"),
        (mask(then=lambda m, t: m[..., :t]), "they have columns"),
        (mask(then=lambda m, t: m[:, 0]), "one more axis"),
        (mask(new=False), "The new tokens are real"),
        (mask(then=lambda m, t: m.mT), "they come last"),
        (mask(then=lambda m, t: m.roll(1, -1)), "end of each row"),
        (mask(then=lambda m, t: m.int()), "True and False"),
        (lambda n, t, new: mask()(n, t, 1), "Right for one new token. For three:"),
        (mask(lambda n, t: torch.ones(len(n), t).bool()), "Nothing is hidden"),
        (mask(lambda n, t: torch.arange(t) > t - n[:, None]), "first word of a text"),
    ],
    "write": [
        (write(fill=False), "goes on after its stop"),
        (write(keep=False), "given to every call"),
        (write(feed=lambda text, new: text), "whole text again"),
        (write(give=lambda text: text[:, 3:]), "beginning belongs"),
        (write(give=lambda text: text[:, :-1]), "missing at the end"),
        (write(count=1), "One token too many"),
        (write(keep=False, feed=lambda text, new: text), "needs 6"),
        (write_changing, "changes the text"),
        (write_ended_before, "A stop in the beginning ends nothing"),
        (
            lambda m, t, n, s: write()(m, t, n, s) if s > 9 else ...,
            "nothing back",
        ),
        (lambda m, t, n, s: write()(m, t, n, s).T, "The shape must be"),
        (lambda m, t, n, s: write()(m, t, n, s) if s > 9 else 1 / 0, "Right without"),
    ],
}

RIGHT = {
    "cache_bytes": numbers(
        96, 96.0, np.float64(96), torch.tensor(96), 2 * 24 * 4 * 64 * 2 * 4096 / 2**20,
        24 * 4096 / 1024, np.int64(96), torch.tensor(96.0), 100_663_296 / 1_048_576,
        np.array(96),
    ),
    "cache": [
        cache(), LayerCache, Lists, Positional, Doubled, Copied, made,
        type("Named", (cache(),), {}), lambda b, h, t, d: LayerCache(b, h, t, d),
        cache(give=lambda k, v: [k, v]), Turned,
    ],
    "step_mask": [
        mask(), mask_by_loop, mask_by_flip, mask_by_fill,
        mask(lambda n, t: ~(torch.arange(t) < t - n[:, None])),
        mask(lambda n, t: (torch.arange(t) < n[:, None]).flip(1)),
        mask(then=lambda m, t: m.clone()), mask(then=lambda m, t: m == 1),
        mask(lambda n, t: torch.arange(t).flip(0) < n[:, None]),
        mask(lambda n, t: torch.ones(len(n), t).cumsum(1) > t - n[:, None]),
    ],
    "write": [
        write(), write_by_list, write_and_end, write_in_pieces, write_each_alone,
        write(feed=lambda text, new: text[:, -1:]),
        lambda model, token_ids, count, stop: write()(model, token_ids, count, stop),
        write(give=lambda text: text.clone()), write(give=lambda text: text.long()),
        write(count=1, give=lambda text: text[:, :-1]),
        write(give=lambda text: text.contiguous()),
    ],
}  # fmt: skip
