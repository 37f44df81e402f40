"""Guessing ahead: a cheap draft guesses some tokens, the model reads them all at once.

A model that reads n tokens in one pass scores the token after each of them. So a guess
that is right gives one more token for the same pass; the cache forgets one that is
wrong. The result is that of the model alone, whatever the draft guesses. Greedy form of
Leviathan et al. (2023, algorithm 1), where a guess is right if it is the model's own.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attention_lib.decode_step import make_decode_step
from attention_lib.kv_cache import KVCache, WeightsWatch
from attention_lib.reproducibility import evaluation_mode
from attention_lib.sampling import sample_token
from attention_lib.validation import (
    require_all_scores,
    require_draft,
    require_function,
    require_grown,
    require_guesses,
    require_ids,
    require_instance,
    require_positive,
    require_prompt,
    require_scorer,
    require_stop,
)

Draft = Callable[[list[int], int], Sequence[int]]  # (tokens so far, at most) → guesses


class DraftStats(NamedTuple):
    """What one pass of the model made of the draft's guesses.

    Attributes:
        guessed: how many tokens the draft gave.
        accepted: how many of them are the model's own, up to the first that is not. The
            pass adds one token more than these, unless ``stop`` ends the text.
    """

    guessed: int
    accepted: int


def ngram_draft(tokens: Sequence[int], count: int) -> list[int]:
    """Guess that the text continues as it did after an earlier copy of its ending.

    The longest ending of 2 or 3 tokens that occurred before is used, at its last
    occurrence. Saxena (2023) calls it prompt lookup.

    Args:
        tokens: the text so far.
        count: how many to guess; what followed is repeated if it is too short.

    Returns:
        ``count`` tokens, or none if no ending occurred before.

    Raises:
        TypeError: a size that is not an int.
        ValueError: a size below 1.
    """
    require_positive(count=count)
    tokens = require_ids(tokens, sys.maxsize, "tokens")
    for size in range(min(3, len(tokens) - 1), 1, -1):
        ending, last = tokens[-size:], tokens[-1]
        for end in range(len(tokens) - 2, size - 2, -1):
            if tokens[end] == last and tokens[end - size + 1 : end + 1] == ending:
                follows = tokens[end + 1 :]
                return [follows[i % len(follows)] for i in range(count)]
    return []


def speculative_generate(
    model: nn.Module,
    draft: Draft | nn.Module,
    token_ids: Int[Tensor, "B T"],
    *,
    max_new_tokens: int,
    draft_len: int = 4,
    lengths: Int[Tensor, " B"] | None = None,
    stop: int | None = None,
    on_pass: Callable[[DraftStats], object] | None = None,
) -> Int[Tensor, "B T+{max_new_tokens}"]:
    """Add tokens to each text as ``generate`` does at temperature 0, in fewer passes.

    A pass over several tokens rounds differently from a pass over one. So if the two
    highest scores differ by rounding only, the other token can win.

    Args:
        model: as in ``generate``; its cache is cut back after a wrong guess.
        draft: a function of the tokens so far and of how many to guess at most, such as
            ``ngram_draft``; or a smaller model with the same vocabulary, whose own most
            probable tokens are the guesses.
        token_ids: the beginnings, padded on the right where they are shorter; each text
            is written alone, one after another.
        max_new_tokens: how many to add.
        draft_len: how many tokens to guess for one pass, at most.
        lengths: how many tokens of each text are real; all when left out.
        stop: the token that ends a text; it also fills the rest of that text.
        on_pass: called after each pass of the model with its ``DraftStats``, such as
            ``passes.append``.

    Returns:
        The texts (B, T + n), as ``generate`` returns them.

    Raises:
        TypeError: no model; ids, lengths, a size, a stop or guesses that are not whole
            numbers; a draft that cannot be called.
        ValueError: what ``generate`` refuses; a ``draft_len`` below 1; a guess outside
            the vocabulary; a text longer than the trained length of a ``dynamic``
            rotation, whose angles would depend on wrong guesses.
    """
    require_scorer(model)
    require_positive(max_new_tokens=max_new_tokens, draft_len=draft_len)
    require_draft(draft)
    require_prompt(model, token_ids, max_new_tokens, lengths)
    require_stop(model, stop)
    if on_pass is not None:
        require_function("on_pass", on_pass)
    rows, longest = token_ids.tolist(), token_ids.shape[1]
    ends = [longest] * len(rows) if lengths is None else lengths.tolist()
    require_grown(model, max(ends) + max_new_tokens - 1)
    guess = model_draft(draft) if isinstance(draft, nn.Module) else draft
    texts = []
    with evaluation_mode(model), torch.inference_mode():
        for row, end in zip(rows, ends, strict=True):
            text, full = row[:end], end + max_new_tokens
            cached = _CachedModel(model, full - 1, token_ids)  # the last is never read
            while len(text) < full:
                limit = min(draft_len, full - len(text) - 1)
                guesses = guess(list(text), limit) if limit else []
                guesses = require_guesses(model, guesses)[:limit]
                new, passed = _verify(cached, text, guesses)
                if stop in new:
                    new = new[: new.index(stop) + 1]
                    passed = DraftStats(passed.guessed, min(passed.accepted, len(new)))
                text += new
                if on_pass is not None:
                    on_pass(passed)
                if stop in new:
                    text += [stop] * (full - len(text))
            texts.append(text + row[end:])
    # Made outside inference mode, so that a model may learn from it.
    return token_ids.new_tensor(texts, dtype=torch.int64)


def model_draft(model: nn.Module) -> Draft:
    """Return a draft that guesses a model's most probable tokens.

    The draft keeps a cache, and crops it to what a new call shares with the last one.
    It makes a new cache when the weights have changed. When the model's context is
    full, it guesses nothing.

    Args:
        model: returns logits (B, T, V) for ids, as in ``generate``.

    Raises:
        TypeError: not a model.
    """
    require_instance("model", model, nn.Module)
    cached: _CachedModel | None = None
    watch = WeightsWatch(model)
    config = getattr(model, "config", None)
    context_len = getattr(config, "context_len", sys.maxsize)

    def guess(tokens: list[int], count: int) -> list[int]:
        nonlocal cached
        if watch.changed() or cached is None:
            weight = next(model.parameters(), torch.empty(0))
            like = torch.empty(0, dtype=torch.int64, device=weight.device)
            cached = _CachedModel(model, None, like)
        text = require_ids(tokens, sys.maxsize, "tokens")
        require_positive(count=count)
        if not text:
            return []
        with evaluation_mode(model), torch.inference_mode():
            for _ in range(min(count, context_len - len(tokens) + 1)):
                try:
                    text += cached.best(text, 1)
                except ValueError as error:  # such as ids that it does not know
                    raise ValueError(f"the draft refuses the text: {error}") from None
        return text[len(tokens) :]

    return guess


def _verify(
    model: "_CachedModel", text: list[int], guesses: list[int]
) -> tuple[list[int], DraftStats]:
    """Return the tokens that one pass adds: right guesses, and one of the model's."""
    best = model.best(text + guesses, len(guesses) + 1)
    right = 0
    while right < len(guesses) and guesses[right] == best[right]:
        right += 1
    return best[: right + 1], DraftStats(len(guesses), right)


class _CachedModel:
    """A model with its cache, and the tokens of the text that the cache holds."""

    def __init__(self, model: nn.Module, max_len: int | None, like: Tensor) -> None:
        self.model, self.like, self.read = model, like, list[int]()
        self.cache: KVCache | None = None
        if hasattr(model, "new_cache"):
            self.cache = model.new_cache(1, max_len)  # type: ignore[operator]
            self.step = make_decode_step(model, self.cache)

    def best(self, tokens: list[int], last: int) -> list[int]:
        """Return the most probable token after each of the ``last`` tokens."""
        if self.cache is None:
            text = self.like.new_tensor([tokens])
            scores = self.model(text)
            require_all_scores(scores, text)
            return sample_token(scores[0, -last:]).tolist()
        known = min(_shared(self.read, tokens), len(tokens) - last)
        if known < self.cache.length:
            self.cache.crop(known)
        unread = self.like.new_tensor([tokens[known:]])
        if known and len(tokens) - known == 1:
            scores = self.step(unread)  # takes less time
        else:
            scores = self.model(unread, cache=self.cache)
            require_all_scores(scores, unread)
            scores = scores[0, -last:]
        self.read = list(tokens)
        return sample_token(scores).tolist()


def _shared(one: list[int], other: list[int]) -> int:
    """Return the length of the longest common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    differs = (index for index, (a, b) in pairs if a != b)
    return next(differs, min(len(one), len(other)))
