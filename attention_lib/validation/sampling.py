"""How the next token is sampled, and from which scores."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from attention_lib.validation._common import require_floats, require_number
from attention_lib.validation.sizes import require_positive


def require_sampling(
    temperature: float, top_k: int | None, top_p: float | None = None
) -> None:
    """Check the options of ``sample_token``."""
    require_number(
        "temperature", temperature, "0 or more, finite", lambda n: 0 <= n < math.inf
    )
    if top_k is not None:
        require_positive(top_k=top_k)
    if top_p is not None:
        require_number("top_p", top_p, "above 0 and at most 1", lambda p: 0 < p <= 1)


def require_generator(generator: Any) -> None:
    """Check a source of random numbers: None, or a generator on the CPU."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator; got {generator!r}: write "
            "`seeded(0)` for the seed 0"
        )
    if generator.device.type != "cpu":
        raise TypeError(f"generator must be on the cpu; got {generator.device}")


def require_own_generator(generator: Any, requests: Iterable[Any]) -> None:
    """Check that no other request draws from this generator, so that each is alone."""
    require_generator(generator)
    taken = [request.sampling["generator"] for request in requests]
    if generator is not None and any(generator is other for other in taken):
        raise ValueError(
            "generator must be a request's own; another open request draws from it: "
            "make a new one, such as `seeded(1)`"
        )


def require_all_scores(logits: Any, token_ids: Tensor) -> None:
    """Check what a model returned for ids: (B, T, V), or (B, 1, V) for the last."""
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"model must return logits, one tensor (batch, length, vocabulary); got "
            f"{type(logits).__name__}: wrap a model that returns more than its logits"
        )
    require_floats("logits of the model", logits)
    batch, length = token_ids.shape
    if logits.ndim != 3 or logits.shape[:2] not in ((batch, length), (batch, 1)):
        raise ValueError(
            f"logits of the model must be (batch, length, vocabulary) for token_ids "
            f"{tuple(token_ids.shape)}; got {tuple(logits.shape)}"
        )


def require_next_scores(logits: Any, temperature: float) -> None:
    """Check the scores that a token is sampled from, but none of their values."""
    require_floats("logits", logits)
    if logits.ndim != 2 or 0 in logits.shape:
        hint = "write the scores of a single text as one row, `logits[None, :]`"
        if logits.ndim == 3:
            hint = "take those after the last token, `logits[:, -1]`"
        raise ValueError(
            f"logits must be (batch, vocabulary); got {tuple(logits.shape)}: {hint}"
        )
    if temperature and logits.is_meta:
        raise ValueError("logits on meta have no numbers: only temperature 0 works")


def require_best_scores(best: Tensor) -> None:
    """Check each row's largest score, except on ``meta``: it must be finite.

    It is nan if the row holds nan, and -inf if no score is finite.
    """
    if not best.is_meta and not best.isfinite().all():
        raise ValueError("logits hold nan or inf: no token can be sampled from them")
