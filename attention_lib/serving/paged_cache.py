"""Keys and values in pages: texts of any length share one memory.

A page has room for the keys and values of P tokens, in every layer. A text owns pages
in any order; its **block table** lists them, first page first. After PagedAttention:
Kwon et al. (2023), section 4.

Shapes: B texts that are read together, T new tokens of each, K tokens of the longest
text, H heads, D head_dim, V value width.
"""

import sys
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lib.kv_cache import KVCache
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import (
    require_ids,
    require_instance,
    require_not_negative,
    require_page,
    require_positive,
    require_slots,
    require_tables,
    require_whole,
)


class PagePool:
    """The users of each page, and the hashes of full pages. It holds no keys.

    A page without users is free, but keeps its hash, by which it can be found and used
    again, until it is allocated for other tokens.

    Args:
        num_pages: how many pages there are.
    """

    def __init__(self, num_pages: int) -> None:
        require_positive(num_pages=num_pages)
        self.users = [0] * num_pages  # how many texts use each page
        # Allocated in order; a dict would walk over all entries emptied at its front.
        self.free = OrderedDict.fromkeys(range(num_pages))
        self.by_hash: dict[bytes, int] = {}  # full pages
        self.hashes: dict[int, bytes] = {}

    def lookup(self, hashes: Sequence[bytes]) -> list[int]:
        """Return the pages with these hashes, up to the first that is unknown."""
        for each in hashes:
            require_instance("each of hashes", each, bytes)
        known = takewhile(lambda each: each in self.by_hash, hashes)
        return [self.by_hash[each] for each in known]

    def allocate(self) -> int:
        """Acquire the page that has been free for longest; its content is forgotten."""
        if not self.free:
            raise ValueError(f"all {len(self.users)} pages are in use")
        page, _ = self.free.popitem(last=False)
        self.by_hash.pop(self.hashes.pop(page, b""), None)
        return self.acquire(page)

    def acquire(self, page: int) -> int:
        """Add a user to a page, and return the page."""
        require_page(page, self.users)
        self.free.pop(page, None)
        self.users[page] += 1
        return page

    def release(self, page: int) -> None:
        """Remove a user from a page; without users, the page is free."""
        require_page(page, self.users, used=True)
        self.users[page] -= 1
        if not self.users[page]:
            self.free[page] = None

    def release_from_end(self, pages: list[int], keep: int = 0) -> None:
        """Release the pages of a text, the last one first, but keep the first few."""
        while len(pages) > keep:
            self.release(pages.pop())

    def register(self, page: int, page_hash: bytes) -> None:
        """Make a full page known by its hash, unless another page holds the same."""
        require_page(page, self.users)
        require_instance("page_hash", page_hash, bytes)
        if page_hash not in self.by_hash:
            self.by_hash[page_hash], self.hashes[page] = page, page_hash


def pages_for(length: int, page_len: int) -> int:
    """Return how many pages a text of this length needs."""
    require_not_negative(length=length)
    require_positive(page_len=page_len)
    return -(-length // page_len)


def page_hash(previous: bytes, token_ids: Sequence[int]) -> bytes:
    """Return the hash of a full page: of its tokens, and of all tokens before them.

    Args:
        previous: the hash of the page before it; empty for the first.
        token_ids: the tokens of the page.
    """
    require_instance("previous", previous, bytes)
    ids = require_ids(token_ids, sys.maxsize, "token_ids")
    return sha256(previous + repr(ids).encode()).digest()


class PagedLayer:
    """The cache of one layer for one call: its pages, and which slots the call uses.

    A slot is the room of one token in the pages.

    Args:
        keys: of all pages.
        values: of all pages.
        new_slots: where the new tokens go.
        slots: those of all tokens of each text, the new ones last.
    """

    length = 0  # the call has positions, so nothing is counted on from here

    def __init__(
        self,
        keys: Float[Tensor, "H slots D"],
        values: Float[Tensor, "H slots V"],
        new_slots: Int[Tensor, "B T"],
        slots: Int[Tensor, "B K"],
    ) -> None:
        self.keys, self.values = keys, values
        self.new_slots, self.slots = new_slots, slots
        self.max_len = keys.shape[1]
        self.is_empty = new_slots.shape == slots.shape

    def append(
        self, key: Float[Tensor, "B H T D"], value: Float[Tensor, "B H T V"]
    ) -> tuple[Float[Tensor, "B H K D"], Float[Tensor, "B H K V"]]:
        """Write the new tokens to their slots, and return all of each text."""
        require_slots(key, value, self)
        for pages, new in ((self.keys, key), (self.values, value)):
            # Under autocast, new keys and values may have another type.
            pages[:, self.new_slots] = new.transpose(0, 1).to(pages.dtype)
        keys, values = (
            pages.index_select(1, self.slots.flatten()).unflatten(1, self.slots.shape)
            for pages in (self.keys, self.values)
        )  # (H, B, K, D)
        return keys.transpose(0, 1), values.transpose(0, 1)


class PagedCache:
    """The pages of all layers; ``prepare`` makes a cache of them for one call.

    Args:
        model: whose layers determine the width of keys and values.
        num_pages: how many pages there are.
        page_len: tokens per page.
    """

    def __init__(self, model: LanguageModel, num_pages: int, page_len: int) -> None:
        require_instance("model", model, LanguageModel)
        require_positive(num_pages=num_pages, page_len=page_len)
        self.page_len, self.num_pages = page_len, num_pages
        rows: Any = model.new_cache(1, num_pages * page_len).layers  # one long text
        self.pages = [(row.keys[0], row.values[0]) for row in rows]  # (H, slots, D)

    def prepare(
        self,
        tables: Sequence[Sequence[int]],
        starts: Sequence[int],
        new_tokens: Sequence[Sequence[int]],
    ) -> dict[str, Any]:
        """Return the arguments of a call of the model that reads more of some texts.

        If all texts have equally many new tokens, each text is a row and ends in the
        last column, as causal masks need it: shorter texts are padded on the left, and
        a mask hides the padding. Otherwise all texts are joined into one row, and a
        mask hides each text from the others. Only the first of them may have been read
        in part, so that the new tokens are the last columns.

        Args:
            tables: the block table of each text, with pages for the new tokens.
            starts: how many tokens of each text were read before.
            new_tokens: the tokens of each text to read now.
        """
        page_len = self.page_len
        require_tables(tables, starts, new_tokens, page_len, self.num_pages)
        counts = [len(new) for new in new_tokens]
        in_rows = min(counts) == max(counts)
        lengths = [start + count for start, count in zip(starts, counts, strict=True)]
        longest = max(lengths)
        widest = pages_for(longest, page_len)
        table = [[*pages[:widest], *[0] * (widest - len(pages))] for pages in tables]
        # A few integers: computed on the CPU, and moved together.
        shift = torch.tensor(lengths, device="cpu")[:, None] - longest  # (B, 1)
        positions = torch.arange(longest, device="cpu") + shift  # (B, K), padding < 0
        real = positions >= 0
        inside = positions.clamp(min=0)
        page = torch.tensor(table, device="cpu").gather(1, inside // page_len)
        slots = page * page_len + inside % page_len  # (B, K)
        mask = None if min(lengths) == longest else real[:, None]  # (B, 1, K)
        if not in_rows:
            rows = torch.arange(len(counts), device="cpu")[:, None]  # (B, 1)
            text = rows.expand_as(real)[real]  # of each token, (K,)
            mask = (text[-sum(counts) :, None] == text)[None]  # (1, T, K)
            slots, positions = slots[real][None], positions[real][None]
            new_tokens = [[token for new in new_tokens for token in new]]
        device, count = self.pages[0][0].device, len(new_tokens[0])
        slots = slots.to(device)
        layers = [PagedLayer(*own, slots[:, -count:], slots) for own in self.pages]
        token_ids = torch.tensor(new_tokens, device=device)  # (B, T), or (1, T)
        require_whole("new_tokens", token_ids)
        return {
            "token_ids": token_ids,
            "positions": positions[:, -count:].to(device),
            "mask": None if mask is None else mask.to(device),
            "cache": KVCache(layers),
        }

    def copy_page(self, source: int, target: int) -> None:
        """Copy the content of one page to another, in all layers."""
        length = self.page_len
        for page in (source, target):
            require_page(page, range(self.num_pages))
        for both in self.pages:
            for rows in both:  # keys, then values
                own = rows[:, source * length : (source + 1) * length]
                rows[:, target * length : (target + 1) * length] = own
