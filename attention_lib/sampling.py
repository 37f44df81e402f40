"""From scores to words: pick the next token, and go on with a text.

Shapes: B batch, T length, V vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lib.validation import check_positive, check_sampling


def pick_token(
    logits: Float[Tensor, "B V"],
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, " B"]:
    """Picks the next token of each text.

    Args:
        logits: the scores of all tokens.
        temperature: divides the scores; 0 takes the token with the highest one.
        top_k: only so many tokens with the highest scores may be picked, and those
            that tie with the last of them.
        generator: on the CPU, so that every device draws the same.

    Raises:
        TypeError: a ``top_k`` that is not an int.
        ValueError: a temperature below 0 or not finite; a ``top_k`` below 1; logits
            that hold nan or inf, unless the temperature is 0.
    """
    check_sampling(temperature, top_k)
    if temperature == 0:
        return logits.argmax(dim=-1)
    # Of the highest score nothing is left, so that no temperature makes it infinite.
    scores = (logits - logits.amax(dim=-1, keepdim=True)).cpu().double()
    if top_k is not None:
        lowest = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < lowest, -torch.inf)
    ends = (scores / temperature).softmax(dim=-1).cumsum(dim=-1)  # (B, V)
    if not ends[:, -1].isfinite().all():
        raise ValueError("logits hold nan or inf: no token can be drawn from them")
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
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B T+{max_new_tokens}"]:
    """Adds tokens one by one; the model reads the whole text anew each time.

    Args:
        model: gives logits (B, T, V) for ids; its context must hold the result.
        token_ids: the beginnings, all of one length.
        max_new_tokens: how many to add.
        temperature: see ``pick_token``.
        top_k: see ``pick_token``.
        generator: see ``pick_token``.
    """
    check_positive(max_new_tokens=max_new_tokens)
    was_training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            logits = model(token_ids)[:, -1]  # (B, V): what comes after the last token
            picked = pick_token(
                logits, temperature=temperature, top_k=top_k, generator=generator
            )
            token_ids = torch.cat([token_ids, picked[:, None]], dim=1)
    finally:
        model.train(was_training)
    return token_ids
