"""From scores to words: sample the next token.

Shapes: B batch, V vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lib.validation import (
    require_best_scores,
    require_generator,
    require_next_scores,
    require_sampling,
)


def sample_token(
    logits: Float[Tensor, "B V"],
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, " B"]:
    """Sample the next token of each text.

    Args:
        logits: the scores of all tokens.
        temperature: divides the scores; 0 takes the token with the highest one, and
            the options below then change nothing.
        top_k: only this many tokens with the highest scores may be drawn, and those
            that tie with the last of them.
        top_p: only the most probable tokens may be drawn, as many as it takes until
            their probabilities sum to this, and those that tie with the last of them.
            It uses the probabilities after ``temperature`` and ``top_k``:
            "nucleus sampling", Holtzman et al. (2020), section 3.1.
        generator: on the CPU, so that every device draws the same.

    Raises:
        TypeError: logits that are not floats; a ``top_k`` that is not an int; a
            temperature or a ``top_p`` that is not a number; not a ``torch.Generator``.
        ValueError: logits that are not (B, V), hold nan or inf, or have a row without
            a finite score; a temperature below 0 or not finite; a ``top_k`` below 1; a
            ``top_p`` that is not above 0, or above 1.
    """
    require_sampling(temperature, top_k, top_p)
    require_generator(generator)
    require_next_scores(logits, temperature)
    best, greedy = logits.max(dim=-1)  # (B,) each
    require_best_scores(best)
    if temperature == 0:
        return greedy
    scores = logits.cpu().double()
    # Subtract the maximum, so that no temperature overflows.
    scores = scores - scores.amax(dim=-1, keepdim=True)
    if top_k is not None:
        lowest = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < lowest, -torch.inf)
    probabilities = (scores / temperature).softmax(dim=-1)  # (B, V)
    if top_p is not None and top_p < 1:
        ordered = probabilities.sort(dim=-1, descending=True).values
        before = ordered.cumsum(dim=-1) - ordered  # the sum of all better ones
        last = (before < top_p).sum(dim=-1, keepdim=True) - 1  # (B, 1)
        lowest = ordered.gather(-1, last)
        probabilities = probabilities.masked_fill(probabilities < lowest, 0)
    ends = probabilities.cumsum(dim=-1)  # (B, V)
    # Each token owns a part of the line from 0 to 1; its length is the probability.
    # A random point falls into one part, the same one in every version of PyTorch.
    # That does not hold for torch.multinomial.
    points = torch.rand(len(ends), 1, generator=generator, dtype=ends.dtype)
    picked = (ends <= points * ends[:, -1:]).sum(dim=-1)  # how many end before it
    return picked.to(logits.device)
