"""From scores to words: pick the next token, and go on with a text.

Shapes: B batch, T length, V vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lib.reproducibility import evaluation_mode
from attention_lib.validation import (
    check_generator,
    check_instance,
    check_next_scores,
    check_positive,
    check_prompt,
    check_sampling,
)


def pick_token(
    logits: Float[Tensor, "B V"],
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, " B"]:
    """Picks the next token of each text.

    Args:
        logits: the scores of all tokens.
        temperature: divides the scores; 0 takes the token with the highest one.
        top_k: only so many tokens with the highest scores may be picked, and those
            that tie with the last of them.
        top_p: only the most probable tokens may be picked, as many as it takes until
            their probabilities sum to this, and those that tie with the last of them.
            It looks at the probabilities after ``temperature`` and ``top_k``:
            "nucleus sampling", Holtzman et al. (2020), section 3.1.
        generator: on the CPU, so that every device draws the same.

    Raises:
        TypeError: logits that are not floats; a ``top_k`` that is not an int; a
            temperature or a ``top_p`` that is no number; a generator that is none.
        ValueError: logits that are not (B, V), hold nan or inf, or have a row without
            a finite score; a temperature below 0 or not finite; a ``top_k`` below 1; a
            ``top_p`` that is not above 0, or above 1.
    """
    check_sampling(temperature, top_k, top_p)
    check_generator(generator)
    check_next_scores(logits, temperature)
    if temperature == 0:
        return logits.argmax(dim=-1)
    scores = logits.cpu().double()
    # Of the highest score nothing is left, so that no temperature makes it infinite.
    scores = scores - scores.amax(dim=-1, keepdim=True)
    if top_k is not None:
        lowest = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < lowest, -torch.inf)
    probabilities = (scores / temperature).softmax(dim=-1)  # (B, V)
    if top_p is not None and top_p < 1:
        ordered = probabilities.sort(dim=-1, descending=True).values
        before = ordered.cumsum(dim=-1) - ordered  # what all better ones have together
        last = (before < top_p).sum(dim=-1, keepdim=True) - 1  # (B, 1)
        lowest = ordered.gather(-1, last)
        probabilities = probabilities.masked_fill(probabilities < lowest, 0)
    ends = probabilities.cumsum(dim=-1)  # (B, V)
    # Each token owns a part of the line from 0 to 1; its length is the probability.
    # A random point falls into one part, the same one in every version of PyTorch,
    # which is not so for torch.multinomial.
    points = torch.rand(len(ends), 1, generator=generator, dtype=ends.dtype)
    picked = (ends <= points * ends[:, -1:]).sum(dim=-1)  # how many end before it
    return picked.to(logits.device)


@torch.no_grad()
def continue_text(
    model: nn.Module,
    token_ids: Int[Tensor, "B T"],
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B T+{max_new_tokens}"]:
    """Adds tokens one by one; the model reads the whole text anew each time.

    Args:
        model: gives logits (B, T, V) for ids; its context must hold the result.
        token_ids: the beginnings, all of one length.
        max_new_tokens: how many to add.
        temperature: see ``pick_token``.
        top_k: see ``pick_token``.
        top_p: see ``pick_token``.
        generator: see ``pick_token``.

    Raises:
        TypeError: no model; ids that are not whole numbers; see ``pick_token``.
        ValueError: a result that the model's context does not hold, before the first
            token is added; an id outside the vocabulary; see ``pick_token``.
    """
    check_instance("model", model, nn.Module)
    check_positive(max_new_tokens=max_new_tokens)
    check_prompt(model, token_ids, max_new_tokens)
    with evaluation_mode(model):
        for _ in range(max_new_tokens):
            logits = model(token_ids)[:, -1]  # (B, V): what comes after the last token
            picked = pick_token(
                logits,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                generator=generator,
            )
            token_ids = torch.cat([token_ids, picked[:, None]], dim=1)
    return token_ids
