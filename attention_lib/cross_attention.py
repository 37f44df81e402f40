"""One text is read and another is written: ``translate``, and the parts it stands on.

Shapes: B batch, S length of the source, N tokens that are written. The decoder's block
is in ``cross_block``, the model in ``translator``.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from attention_lib.cross_block import CrossBlock as CrossBlock  # people look here
from attention_lib.cross_block import CrossNorm as CrossNorm
from attention_lib.cross_block import look_at as look_at
from attention_lib.cross_block import remember as remember
from attention_lib.reproducibility import evaluation_mode
from attention_lib.sampling import pick_token
from attention_lib.translator import TinyTranslator as TinyTranslator
from attention_lib.translator import TranslatorConfig as TranslatorConfig
from attention_lib.validation import (
    check_flags,
    check_instance,
    check_not_negative,
    check_positive,
    check_prompt,
    check_stop,
)


def translate(
    model: TinyTranslator,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    *,
    start: int,
    stop: int,
    max_new_tokens: int,
    use_cache: bool = True,
) -> Int[Tensor, "B N"]:
    """Writes the likeliest next token, again and again, until every text has ended.

    Args:
        model: reads and writes.
        source: texts to be read, padded on the right where they are shorter.
        source_lengths: how many tokens of each source are real; all when left out.
        start: the token before the first one that is written.
        stop: the token that ends a target, and fills it up behind its end.
        max_new_tokens: how many are written at most.
        use_cache: False makes all keys and values anew for every token: the same, but
            slower.

    Returns:
        What was written, without the start; N is at most ``max_new_tokens``.

    Raises:
        TypeError: another kind of model; ids or lengths that are not whole numbers.
        ValueError: ids outside the vocabulary; lengths below 1 or above S; more new
            tokens than the context holds.
    """
    check_instance("model", model, TinyTranslator)
    check_positive(max_new_tokens=max_new_tokens)
    check_flags(use_cache=use_cache)
    check_not_negative(start=start, stop=stop)
    for name, token in (("start", start), ("stop", stop)):
        check_stop(model, token, name)
    check_prompt(model, source, 1, source_lengths)
    texts = torch.full_like(source[:, :1], start)
    check_prompt(model, texts, max_new_tokens)
    ended = torch.zeros_like(texts[:, 0], dtype=torch.bool)
    with evaluation_mode(model), torch.no_grad():
        memory, mask = model.encode(source, source_lengths)
        cache = model.new_cache(len(source), max_new_tokens) if use_cache else None
        kept = model.remember(memory) if use_cache else [memory] * len(model.decoder)
        for _ in range(max_new_tokens):
            new = texts[:, -1:] if use_cache else texts
            logits = model.decode(new, kept, mask, cache=cache)[:, -1]  # (B, V)
            picked = pick_token(logits).masked_fill(ended, stop)
            texts, ended = (
                torch.cat([texts, picked[:, None]], 1),
                ended | (picked == stop),
            )
            if not ended.is_meta and ended.all():
                break
    return texts[:, 1:]
