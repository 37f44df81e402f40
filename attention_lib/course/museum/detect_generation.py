"""Detect bugs in generation: a text generated twice, without cache, and alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from attention_lib.course.museum.compare import Found, apart
from attention_lib.generation import generate
from attention_lib.tiny_lm import ModelConfig, TinyLM


@cache
def _writer() -> TinyLM:
    """Return a model whose next token is never a near tie."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = TinyLM(ModelConfig(20, 64, 16, 2, 2, dropout=0.3)).double()
    model.requires_grad_(False)
    model.head.weight.mul_(30)
    return model


_PROMPT = torch.tensor([[3, 1, 4, 1, 5]])


def _written(write: Any, seed: int = 0) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return write(_writer().eval(), _PROMPT, 8)[:, 5:]


def _differing(first: Tensor, second: Tensor, what: str) -> Found:
    same = torch.equal(first, second)  # how many differ may depend on dropout
    return same, f"{'all' if same else 'not all'} tokens are those {what}"


def _written_twice(write: Any) -> Found:
    first, second = _written(write), _written(write, seed=7)
    return _differing(first, second, "of the first time")


def _written_in_full(write: Any) -> Found:
    wanted = generate(_writer().eval(), _PROMPT, max_new_tokens=8, use_cache=False)
    return _differing(_written(write), wanted[:, 5:], "of recomputing everything")


def _alone(write: Any) -> Found:
    """Generate from a short text in a batch with a longer one, and alone."""
    model = _writer().eval()
    both = torch.tensor([[3, 1, 4, 1, 5], [0, 0, 0, 2, 7]])
    real = torch.tensor([[True] * 5, [False] * 3 + [True] * 2])
    wanted = generate(model, torch.tensor([[2, 7]]), max_new_tokens=8)[:, 2:]
    return _differing(write(model, both, real, 8)[1:, 5:], wanted, "of the text alone")


_LOGITS = torch.tensor([0.5, 0.3, 0.15, 0.05]).double().log()


def _chances(wanted: Sequence[float], *options: Any) -> Callable[[Any], Found]:
    def check(chances: Any) -> Found:
        result = chances(_LOGITS, *options)
        right = apart(result, torch.tensor(wanted)) < 1e-6
        shown = ", ".join(f"{each:.2f}" for each in result.tolist())
        return right, f"chances {shown}"

    return check


def _shared_pages(names: Any) -> Found:
    """Compare the hashes of pages: equal exactly if all tokens so far are equal."""
    first, second = names([1, 2, 3, 4, 5, 6], 2), names([1, 2, 9, 9, 5, 6], 2)
    same = [one == other for one, other in zip(first, second, strict=True)]
    right = same == [True, False, False]
    return right, f"pages that share a name: {same.count(True)} of 3"


#: The checks of generation, by the kind of program.
WRITING_CHECKS: Mapping[str, Mapping[str, Callable[[Any], Found | None]]] = {
    "write": {"written twice": _written_twice, "written in full": _written_in_full},
    "ragged": {"alone": _alone},
    "chances": {
        "top-p": _chances([10 / 16, 6 / 16, 0.0, 0.0], 1.0, 4, 0.6),
        "top-k": _chances([0.5 / 0.8, 0.3 / 0.8, 0.0, 0.0], 1.0, 2, 1.0),
        "temperature": _chances(
            [each**2 / 0.365 for each in (0.5, 0.3, 0.15, 0.05)], 0.5, 4, 1.0
        ),
    },
    "pages": {"shared pages": _shared_pages},
}
