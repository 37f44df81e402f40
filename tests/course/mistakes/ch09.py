"""The checks of chapter 9: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.course.exercises import ch09

# What readers write: each solution, and below it with pieces of its text replaced.

cache, mask, write = (
    ch09.check_cache.made,
    ch09.check_step_mask.made,
    ch09.check_write.made,
)
COPIED = """slots = torch.tensor([slot])
        self.keys.index_copy_(2, slots, key)
"""
# Tokens before heads in memory.
TURNED = (
    "batch_size, num_heads, window, head_dim)\n",
    "batch_size, window, num_heads, head_dim).transpose(1, 2)\n",
)


class Joined:
    """The last tokens, in new memory for each."""

    def __init__(self, batch_size, num_heads, window, head_dim):
        self.pairs, self.window = [], window

    def append(self, key, value):
        self.pairs = [*self.pairs, (key, value)][-self.window :]
        return tuple(torch.cat(parts, dim=2) for parts in zip(*self.pairs, strict=True))


class Shifted(cache()):
    """The last tokens in their order, which all move for each new one."""

    def append(self, key, value):
        for kept, new in ((self.keys, key), (self.values, value)):
            kept[:] = torch.cat([kept[:, :, 1:], new], dim=2)
        self.length = min(self.length + 1, self.keys.shape[2])
        return self.keys[:, :, -self.length :], self.values[:, :, -self.length :]


class Backwards(cache()):
    """The last slot first."""

    def append(self, key, value):
        window = self.keys.shape[2]
        slot = window - 1 - self.length % window
        self.keys[:, :, slot], self.values[:, :, slot] = key[:, :, 0], value[:, :, 0]
        self.length += 1
        filled = slice(max(0, window - self.length), window)
        return self.keys[:, :, filled], self.values[:, :, filled]


class Fails:
    def __init__(self, *sizes):
        pass

    def append(self, key, value):
        raise IndexError(3)


class Doubled:
    """Keys and values in one tensor."""

    def __init__(self, batch_size, num_heads, window, head_dim):
        self.both = torch.zeros(2, batch_size, num_heads, window, head_dim)
        self.slot, self.filled = 0, 0

    def append(self, key, value):
        self.both[:, :, :, self.slot] = torch.stack([key, value])[:, :, :, 0]
        self.slot = (self.slot + 1) % self.both.shape[3]
        self.filled = max(self.filled, self.slot or self.both.shape[3])
        return [*self.both[:, :, :, : self.filled]]


def made(*sizes):
    return cache()(*sizes)


class Shared(cache()):
    """One memory for all caches."""

    both = torch.zeros(2, 2, 3, 4, 5)

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


MISTAKES = {
    "cache_bytes": [
        (95, "Not that"),
        ((96, 0), "Is there a comma"),
    ],
    "cache": [
        (cache(ch09.VALUES, ""), "two tensors"),
        (cache("torch.zeros_like(self.keys)", "self.keys"), "share one memory"),
        (cache(ch09.VALUES, ", self.values"), "The values: Empty slots are"),
        (Joined, "copies what is kept"),
        (Shifted, "moves what is kept"),
        (cache("num_heads, window, head_dim)\n", "num_heads, 4, head_dim)\n"),
         "Right for (2, 3, 4, 5). For (1, 2, 3, 4):"),
        (cache(ch09.SLOT, "min(self.length, 8) % self.keys.shape[2]"), "four. For 11:"),
        (cache(ch09.SLOT, f"{ch09.SLOT} if self.keys.shape[2] > 1 else self.length"),
         "Right for larger windows. For one of a single token:"),
        (Shared, "Right for (2, 3, 4, 5). For (1, 2, 3, 4):"),
        (LastMade, "Made before a second cache"),
        (Fails, "IndexError"),
    ],
    "step_mask": [
        (lambda *given: mask()(*given).int(), "True and False"),
        (lambda lengths, max_len, new: mask()(lengths, max_len, 1), "new token. For"),
    ],
    "write": [
        (write("shape[1] + count", "shape[1]"), "your cache has room for 3 tokens"),
        (write("token_ids.shape[1] + count", "count"), "cache has room for 4 tokens"),
        (write("(len(token_ids), ", "(len(token_ids[0]), "), "the cache holds 3 texts"),
        (write(", cache=cache", "", "model(unread", "model(torch.cat(text, 1)"),
         "needs 6"),
        (write("    return", "    token_ids += 1\n    return"), "changes the text"),
        (write(ch09.JOINED, f"if stop > 9:\n        {ch09.JOINED}"), "nothing back"),
        (write(ch09.JOINED, f"{ch09.JOINED}.T"), "The shape must be"),
        (write(ch09.JOINED, f"{ch09.JOINED} if stop > 9 else 1 / 0"), "Right without"),
    ],
}  # fmt: skip

RIGHT = {
    "cache_bytes": [
        96.0, np.float64(96), torch.tensor(96), 2 * 24 * 4 * 64 * 2 * 4096 / 2**20,
        24 * 4096 / 1024, np.int64(96), torch.tensor(96.0), 100_663_296 / 1_048_576,
        np.array(96),
    ],
    "cache": [
        Backwards, Doubled, cache(ch09.STORE_KEYS, COPIED), made, cache(*TURNED),
        type("Named", (cache(),), {}), lambda b, h, w, d: cache()(b, h, w, d),
        cache(ch09.SLOT, "divmod(self.length, self.keys.size(2))[1]"),
        cache("return self.keys[:, :, : self.length]",
              "n = min(self.length, self.keys.size(2))\n        "
              "return self.keys.narrow(2, 0, n)"),
        cache("self.length += 1", "self.length = self.length + key.shape[2]"),
    ],
    "step_mask": [
        mask_by_loop, mask_by_flip, mask_by_fill,
        mask(ch09.SEEN, "~(column < max_len - lengths[:, None])"),
        mask(ch09.SEEN, "column + lengths[:, None] >= max_len"),
        mask(ch09.SEEN, "max_len - column <= lengths[:, None]"),
        mask("[:, None, :]", ".clone()[:, None]"),
        mask("[:, None, :]", ".unsqueeze(1) == 1"),
        mask("torch.arange(max_len + new)", "torch.ones(max_len + new).cumsum(0) - 1"),
    ],
    "write": [
        write_by_list, write_and_end, write_in_pieces, write_each_alone,
        write("model(unread", "model(text[-1]"),
        lambda model, token_ids, count, stop: write()(model, token_ids, count, stop),
        *(write(ch09.JOINED, f"{ch09.JOINED}.{way}()") for way in ("clone", "long")),
        write("range(count)", "range(count + 1)",
              ch09.JOINED, f"{ch09.JOINED}[:, :-1]"),
        write("shape[1] + count", "shape[1] + count - 1"),
        write(", token_ids.shape[1] + count", ""),
    ],
}  # fmt: skip
