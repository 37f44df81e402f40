"""Generation with a cache: no token is read twice.

Shapes: B batch, T tokens of a prompt, K all tokens so far, V vocabulary. Caches are in
``kv_cache``; the fast path for a single new token is in ``decode_step``.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn
from tqdm import tqdm

from attention_lib.decode_step import make_decode_step
from attention_lib.kv_cache import KVCache, WindowCache
from attention_lib.masks import padding_mask
from attention_lib.modules import takes
from attention_lib.reproducibility import evaluation_mode
from attention_lib.sampling import sample_token
from attention_lib.validation import (
    require_all_scores,
    require_flags,
    require_function,
    require_instance,
    require_padding,
    require_positive,
    require_prompt,
    require_scorer,
    require_space,
    require_stop,
)


def generate(
    model: nn.Module,
    token_ids: Int[Tensor, "B T"],
    *,
    max_new_tokens: int,
    lengths: Int[Tensor, " B"] | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | None = None,
    use_cache: bool = True,
    cache: KVCache | None = None,
    generator: torch.Generator | None = None,
    on_token: Callable[[Tensor], object] | None = None,
) -> Int[Tensor, "B T+{max_new_tokens}"]:
    """Add tokens to each text, one by one; with a cache, each token is read once.

    Args:
        model: returns logits (B, T, V) for ids; its context must hold the result except
            the last token. One without ``new_cache`` is called without a cache.
        token_ids: the prompts; shorter ones are padded on the right.
        max_new_tokens: how many to add.
        lengths: how many tokens of each text are real; all when left out. Then the
            model must be causal, and with a cache take a mask and positions.
        temperature: see ``sample_token``.
        top_k: see ``sample_token``.
        top_p: see ``sample_token``.
        stop: the token that ends a text; it also fills the rest of that text.
        use_cache: False reads the whole text again for each token: the same result,
            but slower.
        cache: of ``model.new_cache``, holds the tokens before ``token_ids``; all that
            is read is added. After texts of unequal length it is cropped to its former
            length, since there is padding between their tokens.
        generator: see ``sample_token``. Each token draws one number per text, in the
            order of the texts, so a text's draws depend on the texts before it.
        on_token: called with the new tokens (B,) as soon as they are drawn, such as to
            print them. A true result ends all texts there, and the rest is filled with
            ``stop``, or 0 without one. No progress bar is shown then.

    Returns:
        The texts (B, T + n): the tokens of each, then the new ones, then its padding.

    Raises:
        TypeError: not a model; ids, lengths or a stop that are not whole numbers; not a
            ``KVCache``, or after lengths one without ``crop``; see ``sample_token``.
        ValueError: a result that is too long for the context or the cache, before the
            first token is added; an id outside the vocabulary; lengths below 1 or
            above T; a cache together with ``use_cache=False``; see ``sample_token``.
    """
    require_scorer(model)
    require_positive(max_new_tokens=max_new_tokens)
    require_flags(use_cache=use_cache)
    if cache is not None:
        require_instance("cache", cache, KVCache)
        require_space(cache, token_ids, max_new_tokens, use_cache)
        require_padding(cache, cache.length)
    start = 0 if cache is None else cache.length
    require_prompt(model, token_ids, max_new_tokens, lengths, start)
    require_stop(model, stop)
    if on_token is not None:
        require_function("on_token", on_token)
    real, given = _real_tokens(token_ids, lengths), cache is not None
    with evaluation_mode(model), torch.inference_mode():
        if cache is None and use_cache and hasattr(model, "new_cache"):
            max_len = token_ids.shape[1] + max_new_tokens - 1  # the last is never read
            cache = model.new_cache(len(token_ids), max_len)  # type: ignore[operator]
        step = None
        if cache is not None and real is None:
            step = make_decode_step(model, cache)
        new: list[Tensor] = []
        ended = torch.zeros_like(token_ids[:, 0], dtype=torch.bool)
        with _padding_in(cache, real, given=given):
            for _ in _count(max_new_tokens, quiet=on_token is not None):
                if step is not None and new:
                    logits = step(new[-1][:, None])
                elif cache is None:
                    logits = _read_all(model, token_ids, new, real)
                else:
                    logits = _read_new(model, token_ids, new, real, cache, start)
                picked = sample_token(
                    logits,
                    temperature=temperature,
                    top_k=top_k,
                    top_p=top_p,
                    generator=generator,
                )
                if stop is not None:
                    picked = picked.masked_fill(ended, stop)
                    ended |= picked == stop
                new.append(picked)
                if on_token is not None and on_token(picked):
                    break
                if stop is not None and not ended.is_meta and ended.all():
                    break
    # Made outside inference mode, so that a model may learn from it.
    added = torch.stack(new, dim=1)
    added = F.pad(added, (0, max_new_tokens - len(new)), value=stop or 0)
    return _joined(token_ids, added, real)


def _count(steps: int, *, quiet: bool) -> Iterable[int]:
    """Return a range over the tokens, with a progress bar if there are many."""
    if quiet or steps < 200:
        return range(steps)
    return tqdm(range(steps), desc="generating", unit="token", leave=False)


def _real_tokens(token_ids: Tensor, lengths: Tensor | None) -> Tensor | None:
    """Return which tokens are real, (B, T); None if all are."""
    length = token_ids.shape[1]
    if lengths is None or not (lengths.is_meta or (lengths < length).any()):
        return None
    return padding_mask(lengths, length)[:, 0]


@contextmanager
def _padding_in(
    cache: KVCache | None, real: Tensor | None, *, given: bool
) -> Iterator[None]:
    """Prepare a cache for padding; crop a given one to its former length at the end."""
    if cache is None or real is None:
        yield
        return
    start = cache.length
    if given:
        cache.crop(start)  # nothing yet: refuses layers that could not be cropped
    if not real.is_meta:
        # After a prefix, padding comes between tokens; otherwise before all of them.
        between = int((~real).sum(dim=1).max()) if start else 0
        for layer in cache.layers:
            if isinstance(layer, WindowCache) and layer.positions is None:
                layer.padding = between
    try:
        yield
    finally:
        if given:
            cache.crop(start)


def _joined(token_ids: Tensor, added: Tensor, real: Tensor | None) -> Tensor:
    """Insert the new tokens of each text after its real ones."""
    joined = torch.cat([token_ids, added], dim=1)
    if real is None:
        return joined
    # A stable sort keeps each kind in order: real ones, new ones, padding.
    kind = torch.cat([2 - 2 * real.long(), torch.ones_like(added)], dim=1)
    return joined.gather(1, kind.argsort(dim=1, stable=True))


def _read_all(
    model: nn.Module, token_ids: Tensor, new: list[Tensor], real: Tensor | None
) -> Tensor:
    """Read the whole of each text; return the scores (B, V) after its last token."""
    texts = _joined(token_ids, torch.stack(new, dim=1), real) if new else token_ids
    if real is None:
        return _last_logits(model, texts)
    lengths = real.sum(dim=1) + len(new)  # (B,)
    # Padding on the right: no real token sees it, but a rotation may grow with it.
    grows = getattr(model, "grows_beyond", None) is not None
    logits = model(texts, lengths) if grows else model(texts)
    require_all_scores(logits, texts)
    return logits[torch.arange(len(texts), device=texts.device), lengths - 1]


def _read_new(
    model: nn.Module,
    token_ids: Tensor,
    new: list[Tensor],
    real: Tensor | None,
    cache: KVCache,
    start: int,
) -> Tensor:
    """Read the tokens that are not cached yet; return the scores (B, V) after them."""
    if real is None:
        unread = new[-1][:, None] if new else token_ids
        return _last_logits(model, unread, cache=cache)
    # Padding on the left: all texts end in the same column, before the next token.
    left = real.flip(1)  # (B, T)
    if new:
        unread = new[-1][:, None]
    else:
        unread = token_ids.gather(1, real.long().argsort(dim=1, stable=True))
    seen = F.pad(left, (start, len(new)), value=True)  # (B, K)
    positions = (seen.cumsum(dim=1) - 1).clamp(min=0)[:, -unread.shape[1] :]
    options = {"mask": seen[:, None], "positions": positions, "cache": cache}
    return _last_logits(model, unread, **options)


def _last_logits(model: nn.Module, token_ids: Tensor, **options: Any) -> Tensor:
    """Return the scores (B, V) after the last tokens, made alone where possible."""
    if takes(model, "last_only"):
        options["last_only"] = True
    logits = model(token_ids, **options)
    require_all_scores(logits, token_ids)
    return logits[:, -1]
