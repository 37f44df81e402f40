"""Detect bugs in losses and in training, by numbers worked out independently."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.course.museum.compare import Found, apart, drawn, same
from attention_lib.training import next_token_loss

# Losses.

_LENGTHS = torch.tensor([6, 4])


def _texts() -> Tensor:
    """Return two texts that end with token 0, which also pads the second one."""
    return torch.tensor([[3, 1, 4, 1, 5, 0], [2, 6, 5, 0, 0, 0]])


def _targets(loss: Any) -> Found:
    """Compare the loss of random scores with the library's."""
    logits = drawn(2, 6, 7)
    wanted = next_token_loss(logits, _texts(), _LENGTHS).item()
    result = loss(logits, _texts(), _LENGTHS).item()
    sure = 20.0 * F.one_hot(F.pad(_texts()[:, 1:], (0, 1)), 7).double()
    left = loss(sure, _texts(), _LENGTHS).item()
    right = abs(result - wanted) < 1e-6 and left < 1e-3
    return right, f"{result:.2f} instead of {wanted:.2f}; perfect scores: {left:.2f}"


def _padding(loss: Any) -> Found:
    """Change the padding: the loss must not change."""
    logits, texts = drawn(2, 6, 7), _texts()
    other, longer = logits.clone(), texts.clone()
    other[1, 4:] += 9 * drawn(1, 2, 7, seed=1)[0]
    longer[1, 4:] = 6
    before, after = loss(logits, texts, _LENGTHS), loss(other, longer, _LENGTHS)
    return same(before, after, "other padding changes the loss by")


# Training, on a linear model whose steps are known.


def _model() -> tuple[nn.Linear, torch.optim.Optimizer]:
    model = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.5, 1.0]]))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def _squares(model: nn.Module, batch: Tensor) -> Tensor:
    return model(batch).square().mean()


def _by_hand(batches: Iterable[Tensor], largest: float) -> Tensor:
    """Return the weights after clipped gradient descent, without an optimizer."""
    weight = torch.tensor([[0.5, -0.5, 1.0]], dtype=torch.double)
    for batch in batches:
        slope = 2 * (batch @ weight.T * batch).mean(dim=0, keepdim=True)
        weight = weight - 0.1 * slope * min(1.0, largest / (slope.norm().item() + 1e-6))
    return weight


def _steps(train: Any, size: float, what: str) -> Found:
    batches = [size * drawn(4, 1, 3, seed=seed)[:, 0] for seed in range(3)]
    model, optimizer = _model()
    train(model, optimizer, _squares, batches)
    gap = min(apart(model.weight, _by_hand(batches, most)) for most in (1.0, torch.inf))
    if what == "clip":  # no step is longer than the rate times a gradient of 1
        moved = (model.weight - _model()[0].weight).norm().item()
        return moved <= 0.3 + 1e-6, f"three steps of at most 0.1 move it by {moved:.2g}"
    return gap < 1e-6, f"weights after three steps are off by {gap:.2g}"


def _pieces(train: Any) -> Found:
    """Train on pieces of one batch: it must equal one step on the whole batch."""
    whole = drawn(8, 1, 3)[:, 0]
    model, optimizer = _model()
    pieces = [(part, part[:, :1]) for part in whole.split([2, 6])]
    train(model, optimizer, _sum_of_squares, pieces)
    other, plain = _model()
    (_sum_of_squares(other, whole, whole[:, :1]) / len(whole)).backward()
    plain.step()
    return same(model.weight, other.weight, "one step, in pieces and whole, differs by")


def _sum_of_squares(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return (model(inputs) - targets).square().sum()


def _measured(measure: Any) -> tuple[float, float, bool]:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1, bias=False)).double()
    batches = [drawn(4, 1, 3, seed=4)[:, 0]] * 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = float(measure(model, _squares, batches))
        model.train()
        second = float(measure(model, _squares, batches))
    return first, second, model.training


def _mode(measure: Any) -> Found:
    training = _measured(measure)[2]
    return training, f"afterwards, training is {training}"


def _measured_twice(measure: Any) -> Found:
    first, second, _ = _measured(measure)
    equal = abs(first - second) < 1e-9
    return equal, f"two measurements are {'equal' if equal else 'unequal'}"


#: The checks of losses and of training, by the kind of program.
LEARNING_CHECKS: Mapping[str, Mapping[str, Callable[[Any], Found | None]]] = {
    "loss": {"targets": _targets, "padding in the loss": _padding},
    "train": {
        "steps": lambda train: _steps(train, 0.3, "steps"),
        "clipping": lambda train: _steps(train, 30.0, "clip"),
    },
    "pieces": {"pieces": _pieces},
    "measure": {"mode": _mode, "measured twice": _measured_twice},
}
