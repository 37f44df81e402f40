"""Keys and values in pages: texts of any length share one memory.

A page has room for the keys and values of P tokens, in every layer. A text owns pages
in any order; its **block table** lists them, first page first. After PagedAttention:
Kwon et al. (2023), section 4.

Shapes: B texts that are read together, T new tokens of each, K the tokens of the
longest, H heads, D head_dim, V value width.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lib.kv_cache import KVCache, LayerCache
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import require_positive


class PagePool:
    """Who uses which page, and what full pages hold. It has no keys and no values.

    A page that nobody uses is free, but it keeps its name, by which it can be found and
    used again, until it is taken for something else.

    Args:
        num_pages: how many pages there are.
    """

    def __init__(self, num_pages: int) -> None:
        require_positive(num_pages=num_pages)
        self.users = [0] * num_pages  # how many texts use each page
        # Taken in order; a dict would walk over all slots emptied at its front.
        self.free = OrderedDict.fromkeys(range(num_pages))
        self.found: dict[bytes, int] = {}  # full pages, by name
        self.names: dict[int, bytes] = {}

    def lookup(self, names: Sequence[bytes]) -> list[int]:
        """Gives the pages with these names, up to the first name that is not known."""
        known = takewhile(lambda name: name in self.found, names)
        return [self.found[name] for name in known]

    def take(self) -> int:
        """Gives the page that has been free for longest; its content is forgotten."""
        page, _ = self.free.popitem(last=False)
        self.found.pop(self.names.pop(page, b""), None)
        return self.share(page)

    def share(self, page: int) -> int:
        """Counts one user more, and gives the page."""
        self.free.pop(page, None)
        self.users[page] += 1
        return page

    def give_back(self, page: int) -> None:
        """Counts one user less; without users, the page is free."""
        self.users[page] -= 1
        if not self.users[page]:
            self.free[page] = None

    def give_back_all(self, pages: list[int], keep: int = 0) -> None:
        """Gives back all pages of a text but the first ones, those of its end first."""
        while len(pages) > keep:
            self.give_back(pages.pop())

    def name(self, page: int, name: bytes) -> None:
        """Makes a full page known, unless another one holds the same."""
        if name not in self.found:
            self.found[name], self.names[page] = page, name


def pages_for(length: int, page_len: int) -> int:
    """Counts the pages that so many tokens need."""
    return -(-length // page_len)


def page_hash(before: bytes, token_ids: Sequence[int]) -> bytes:
    """Names a full page by its tokens and all that stand before them.

    Args:
        before: the name of the page before it; empty for the first.
        token_ids: the tokens of the page.
    """
    return sha256(before + repr(list(token_ids)).encode()).digest()


class PagedLayer:
    """The pages of one layer: ``append`` writes into them, and gathers from them.

    Its texts come and go, so it has neither ``crop`` nor ``repeat``.

    Args:
        row: an ordinary cache of the layer, for one text as long as all pages.
    """

    def __init__(self, row: LayerCache) -> None:
        self.keys, self.values = row.keys[0], row.values[0]  # (H, places, D or V)
        self.max_len, self.length, self.is_empty = row.max_len, 0, False

    def turn_to(self, written: Int[Tensor, "B T"], seen: Int[Tensor, " BK"]) -> None:
        """Says which places the next call writes, and which it reads."""
        self.written, self.seen = written, seen
        self.is_empty = written.numel() == seen.numel()  # no older keys are read

    def append(
        self, key: Float[Tensor, "B H T D"], value: Float[Tensor, "B H T V"]
    ) -> tuple[Float[Tensor, "B H K D"], Float[Tensor, "B H K V"]]:
        """Writes the new tokens to their pages, and gives all of each text."""
        for rows, new in ((self.keys, key), (self.values, value)):
            # Under autocast, new keys and values may have another type.
            rows[:, self.written] = new.transpose(0, 1).to(rows.dtype)
        keys, values = (
            rows.index_select(1, self.seen).unflatten(1, (len(key), -1))
            for rows in (self.keys, self.values)
        )  # (H, B, K, D)
        return keys.transpose(0, 1), values.transpose(0, 1)


class PagedCache(KVCache):
    """The pages of all layers, which a model takes as its cache.

    Args:
        model: its layers say how wide keys and values are.
        num_pages: how many pages there are.
        page_len: tokens per page.
    """

    def __init__(self, model: LanguageModel, num_pages: int, page_len: int) -> None:
        require_positive(num_pages=num_pages, page_len=page_len)
        self.page_len = page_len
        rows: Any = model.new_cache(1, num_pages * page_len).layers
        super().__init__([PagedLayer(row) for row in rows])

    def ids(self, rows: Sequence[Sequence[int]]) -> Int[Tensor, "B T"]:
        """Puts tokens where the pages are."""
        device = self.layers[0].keys.device  # type: ignore[attr-defined]
        return torch.tensor(rows, dtype=torch.int64, device=device)

    def reading(
        self,
        tables: Sequence[Sequence[int]],
        starts: Sequence[int],
        fed: Sequence[Sequence[int]],
    ) -> dict[str, Any]:
        """Gives the arguments of a call of the model that reads more of some texts.

        Where as many tokens come for each text, each is a row, and ends in the last
        column, as the causal mask of a layer has it: where texts differ in length, the
        padding stands on the left, and a mask hides it. Otherwise all stand end to end
        in a single row, and a mask hides the other texts. There, only the first text
        may have been read in part: so the new tokens are the last columns.

        Args:
            tables: the block table of each text, with pages for the new tokens.
            starts: how many tokens of each text have been read before.
            fed: the tokens that come now.
        """
        page_len = self.page_len
        counts = [len(new) for new in fed]
        in_rows = min(counts) == max(counts)
        lengths = [start + count for start, count in zip(starts, counts, strict=True)]
        longest = max(lengths)
        widest = pages_for(longest, page_len)
        table = [[*pages[:widest], *[0] * (widest - len(pages))] for pages in tables]
        # A few whole numbers: made on the CPU, and moved at once.
        shift = torch.tensor(lengths, device="cpu")[:, None] - longest  # (B, 1)
        positions = torch.arange(longest, device="cpu") + shift  # (B, K), padding < 0
        real = positions >= 0
        inside = positions.clamp(min=0)
        page = torch.tensor(table, device="cpu").gather(1, inside // page_len)
        places = page * page_len + inside % page_len  # (B, K)
        mask = None if min(lengths) == longest else real[:, None]  # (B, 1, K)
        if not in_rows:
            text = torch.arange(len(fed), device="cpu")[:, None].expand_as(real)[real]
            mask = (text[-sum(counts) :, None] == text)[None]  # (1, T, K)
            places, positions = places[real][None], positions[real][None]
            fed = [[token for new in fed for token in new]]
        token_ids = self.ids(fed)  # (B, T), or (1, T)
        device, count = token_ids.device, token_ids.shape[1]
        places = places.to(device)
        for layer in self.layers:
            layer.turn_to(places[:, -count:], places.flatten())  # type: ignore[attr-defined]
        return {
            "token_ids": token_ids,
            "positions": positions[:, -count:].to(device),
            "mask": None if mask is None else mask.to(device),
            "cache": self,
        }

    def copy_page(self, source: int, target: int) -> None:
        """Gives a page the content of another, in all layers."""
        length = self.page_len
        for layer in self.layers:
            for rows in (layer.keys, layer.values):  # type: ignore[attr-defined]
                own = rows[:, source * length : (source + 1) * length]
                rows[:, target * length : (target + 1) * length] = own
