"""The checks of chapter 9: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.kv_cache import LayerCache
from tests.answers import solution

# What readers write: each solution, and below it with pieces of its text replaced.

cache = solution("""
class Cache:
    def __init__(self, batch_size, num_heads, max_len, head_dim):
        self.keys = torch.zeros(batch_size, num_heads, max_len, head_dim)
        self.values, self.length = torch.zeros_like(self.keys), 0

    def append(self, key, value):
        old, new = self.length, self.length + key.shape[2]
        self.keys[:, :, old:new] = key
        self.values[:, :, old:new] = value
        self.length = new
        keys, values = self.keys[:, :, :new], self.values[:, :, :new]
        return keys, values
""")
STORE = """self.keys[:, :, old:new] = key
        self.values[:, :, old:new] = value
"""
COPIED = """place = torch.arange(old, new)
        self.keys.index_copy_(2, place, key)
        self.values.index_copy_(2, place, value)
"""
# Tokens before heads in memory.
TURNED = (
    "batch_size, num_heads, max_len, head_dim)\n",
    ("batch_size, max_len, num_heads, head_dim).transpose(1, 2)\n"),
)
ZEROED = "return", "keys[:, :, :old] = values[:, :, :old] = 0\n        return"
NEW_ONLY = "[:, :, :new]", "[:, :, old:new]"
# Memory for the keys alone.
HALF = (
    "return keys, values",
    """self.joined = [*getattr(self, "joined", []), value]
        return keys, torch.cat(self.joined, dim=2)""",
)
mask = solution("""
def step_mask(lengths, max_len, new):
    seen = torch.arange(max_len) >= max_len - lengths[:, None]
    added = torch.full((len(lengths), new), True)
    mask = torch.cat([seen, added], dim=1)[:, None]
    return mask
""")
SEEN = "torch.arange(max_len) >= max_len - lengths[:, None]"
write = solution("""
def write(model, token_ids, n, stop):
    store = model.new_cache(len(token_ids), token_ids.shape[1] + n)
    text = unread = token_ids
    ended = torch.zeros(len(text), 1, dtype=torch.bool)
    for _ in range(n):
        logits = model(unread, cache=store)
        picked = logits[:, -1].argmax(-1, keepdim=True)
        picked = picked.masked_fill(ended, stop)
        ended |= picked == stop
        text = torch.cat([text, picked], dim=1)
        unread = picked
    return text
""")


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


def made(*sizes):
    return cache()(*sizes)


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


def write_ended_before(model, token_ids, n, stop):
    """A stop in the beginning counts."""
    text, started = write()(model, token_ids, n, stop), token_ids.shape[1]
    ended = (token_ids == stop).any(1, keepdim=True)
    return torch.cat([token_ids, text[:, started:].masked_fill(ended, stop)], 1)


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
        (cache("return keys, values", "return values, keys"), "have changed places"),
        (cache("[:, :, :new]", ""), "empty room"),
        (cache(*NEW_ONLY), "only the new ones"),
        (InFront, "they belong behind"),
        (cache("[:, :, old:new]", "[:, :, : new - old]"), "over the old"),
        (cache(*ZEROED), "the old ones are lost"),
        (cache(", :new]", ", : new - 1]"), "last token is missing"),
        (cache(", :new]", ", : new + 1]"), "one place too many"),
        (cache("return keys, values", "return keys"), "two tensors"),
        (Joined, "copies what is kept"),
        (cache(*HALF), "copies what is kept"),
        (Shared, "Right for (2, 3, 8, 4). For (1, 2, 6, 5):"),
        (LastMade, "Made before a second cache"),
        (lambda *sizes: {}, "a class with append"),
        (Fails, "IndexError"),
    ],
    "step_mask": [
        (mask("return mask", "return ~mask"), "wrong way round"),
        (mask(SEEN, "torch.arange(max_len) < lengths[:, None]"), "stands on the left"),
        (mask(">=", "<"), "shows padding"),
        (mask("return mask", "return mask[..., :max_len]"), "they have columns"),
        (mask("[:, None]\n    return", "\n    return"), "one more axis"),
        (mask("True", "False"), "The new tokens are real"),
        (mask("return mask", "return mask.mT"), "they come last"),
        (mask("return mask", "return mask.roll(1, -1)"), "end of each row"),
        (mask("return mask", "return mask.int()"), "True and False"),
        (
            mask("added =", "new = 1\n    added ="),
            "Right for one new token. For three:",
        ),
        (mask(SEEN, "torch.ones(len(lengths), max_len).bool()"), "Nothing is hidden"),
        (mask(">=", ">"), "first word of a text"),
    ],
    "write": [
        (write("picked.masked_fill(ended, stop)", "picked"), "goes on after its stop"),
        (write(", cache=store", ""), "given to every call"),
        (write("unread = picked", "unread = text"), "whole text again"),
        (write("return text", "return text[:, 3:]"), "beginning belongs"),
        (write("return text", "return text[:, :-1]"), "missing at the end"),
        (write("range(n)", "range(n + 1)"), "One token too many"),
        (write("shape[1] + n", "shape[1]"), "your cache has room for 3 tokens"),
        (write("token_ids.shape[1] + n", "n"), "your cache has room for 4 tokens"),
        (write("(len(token_ids), ", "(len(token_ids[0]), "), "the cache holds 3 texts"),
        (write(", cache=store", "", "unread = picked", "unread = text"), "needs 6"),
        (write("return", "token_ids += 1\n    return"), "changes the text"),
        (write_ended_before, "A stop in the beginning ends nothing"),
        (write("return text", "return text if stop > 9 else None"), "nothing back"),
        (write("return text", "return text.T"), "The shape must be"),
        (write("return text", "return text if stop > 9 else 1 / 0"), "Right without"),
    ],
}

RIGHT = {
    "cache_bytes": [
        96, 96.0, np.float64(96), torch.tensor(96), 2 * 24 * 4 * 64 * 2 * 4096 / 2**20,
        24 * 4096 / 1024, np.int64(96), torch.tensor(96.0), 100_663_296 / 1_048_576,
        np.array(96),
    ],
    "cache": [
        cache(), LayerCache, Lists, Positional, Doubled, cache(STORE, COPIED), made,
        type("Named", (cache(),), {}), lambda b, h, t, d: LayerCache(b, h, t, d),
        cache("return keys, values", "return [keys, values]"), cache(*TURNED),
    ],
    "step_mask": [
        mask(), mask_by_loop, mask_by_flip, mask_by_fill,
        mask(SEEN, "~(torch.arange(max_len) < max_len - lengths[:, None])"),
        mask(SEEN, "(torch.arange(max_len) < lengths[:, None]).flip(1)"),
        mask("return mask", "return mask.clone()"),
        mask("return mask", "return mask == 1"),
        mask(SEEN, "torch.arange(max_len).flip(0) < lengths[:, None]"),
        mask("torch.arange(max_len) >=", "torch.ones(1, max_len).cumsum(1) >"),
    ],
    "write": [
        write(), write_by_list, write_and_end, write_in_pieces, write_each_alone,
        write("unread = picked", "unread = text[:, -1:]"),
        lambda model, token_ids, count, stop: write()(model, token_ids, count, stop),
        *(write("return text", f"return text.{way}()")
          for way in ("clone", "long", "contiguous")),
        write("range(n)", "range(n + 1)", "return text", "return text[:, :-1]"),
        write("shape[1] + n", "shape[1] + n - 1"),
        write(", token_ids.shape[1] + n", ""),
    ],
}  # fmt: skip
