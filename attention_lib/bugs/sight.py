"""What sees a bug: the checks of each kind of program, and what they find.

Layers go through ``attention_lib.checks.examine``. What it cannot know, such as which
numbers a layer should give, how a loss picks its targets or what a step does to the
weights, is compared here with the library, or worked out by hand.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.bugs.record import Bug, single_precision
from attention_lib.checks import Finding, examine
from attention_lib.kv_cache import generate
from attention_lib.masks import sliding_window_mask
from attention_lib.model import ModelConfig, TinyLM
from attention_lib.multi_head import MultiHeadAttention
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded
from attention_lib.rope import rope_angles
from attention_lib.training import next_token_loss
from attention_lib.validation import check_flags

Found = tuple[bool, str]


@dataclass(frozen=True)
class Sight:
    """What one check found.

    Attributes:
        check: its name.
        holds: True where all is well, False where it fails, None where the check does
            not apply.
        seen: the numbers.
    """

    check: str
    holds: bool | None
    seen: str


def look(
    bug: Bug, *, mended: bool = False, checks: Iterable[str] | None = None
) -> dict[str, Sight]:
    """Runs the checks of a bug's kind on its program.

    Args:
        bug: one of ``BUGS``.
        mended: whether the right program is looked at, instead of the wrong one.
        checks: names of those to run; all when left out.

    Raises:
        TypeError: no bug; checks that are no names; a choice that is not True or False.
        ValueError: a check that programs of this kind do not have.
    """
    if not isinstance(bug, Bug):
        raise TypeError(f"bug must be a Bug, of BUGS; got {type(bug).__name__}")
    check_flags(mended=mended)
    if not (checks is None or isinstance(checks, Iterable)):
        raise TypeError(f"checks must be names; got {type(checks).__name__}")
    own, theirs = OWN_CHECKS[bug.kind], EXAMINED.get(bug.kind, ())
    chosen = [*theirs, *own] if checks is None else list(checks)
    if unknown := [name for name in chosen if name not in (*theirs, *own)]:
        raise ValueError(f"checks must be among {[*theirs, *own]}; got {unknown[0]!r}")
    make = bug.right if mended else bug.wrong
    with single_precision():
        found = {name: _run(name, own[name], make) for name in chosen if name in own}
        if examined := [name for name in chosen if name not in own]:
            layer = make()
            report = examine(
                layer, d_model=_width(layer), checks=examined, progress=False
            )
            found |= {one.check: _sight(one) for one in report}
    return {name: found[name] for name in chosen}


def _sight(one: Finding) -> Sight:
    holds = {"holds": True, "fails": False}.get(one.verdict)
    return Sight(one.check, holds, one.seen)


def _run(name: str, check: Callable[[Any], Found | None], make: Any) -> Sight:
    """Runs one check on a fresh copy; an error is a fault as well."""
    try:
        found = check(make())
    except Exception as error:  # a program that stops is seen
        return Sight(name, False, f"{type(error).__name__}: {error}".split("\n")[0])
    return Sight(name, None, "does not apply") if found is None else Sight(name, *found)


def _apart(first: Tensor, second: Tensor) -> float:
    """The largest difference; infinite where one is nan."""
    if first.shape != second.shape:
        return torch.inf
    gap = (first.double() - second.double()).abs().amax().item()
    return torch.inf if gap != gap else gap


def _same(first: Tensor, second: Tensor, what: str, within: float = 1e-9) -> Found:
    gap = _apart(first, second)
    return gap <= within, f"{what}: {gap:.2g}"


def _input(batch: int, length: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, length, width, generator=seeded(seed), dtype=torch.double)


# Layers: which numbers come out, against an independent layer with the same weights.


def _against(
    layer: nn.Module,
    other: nn.Module,
    lengths: Iterable[int] = (5, 6, 8),
    causal: bool = True,
    **options: Any,
) -> Found | None:
    """Compares two layers on some lengths, after copying the weights."""
    layer, other = layer.double(), other.double()
    own = layer.state_dict()
    wanted = {name: part.shape for name, part in other.state_dict().items()}
    if wanted != {name: part.shape for name, part in own.items()}:
        return None
    other.load_state_dict(own)
    width = own["q_proj.weight"].shape[1]
    gaps = []
    for length in lengths:
        x = _input(2, length, width)
        extra = {name: option(length) for name, option in options.items()}
        gaps.append(_apart(layer(x, causal=causal), other(x, causal=causal, **extra)))
    return max(gaps) < 1e-6, f"off by up to {max(gaps):.2g}"


def _rotary(layer: Any) -> Found | None:
    other = MultiHeadAttention(12, 3)
    return _against(
        layer, other, angles=lambda n: rope_angles(torch.arange(n).double(), 4)
    )


def _window(layer: Any) -> Found | None:
    other = MultiHeadAttention(12, 3)
    return _against(
        layer, other, causal=False, mask=lambda n: sliding_window_mask(n, 4)
    )


def _far(layer: Any) -> Found:
    """Turns one token at positions far out: neighbours must differ as near ones do."""
    layer = layer.double()
    query = _input(1, 1, 4).expand(1, 1, 2, 4)
    offsets = []
    for start in (0, 1001):
        turned, key = layer.turn(query, query, start)
        offsets.append((turned[..., 1, :] * key[..., 0, :]).sum())
    return _same(
        offsets[0], offsets[1], "neighbours' score, near and far, differs by", 1e-3
    )


def _width(layer: Any) -> int:
    return getattr(layer, "out_proj", nn.Linear(1, 12)).out_features


def _inner_width(layer: Any) -> Found:
    """Looks at the queries: all heads together are as wide as the model."""
    shape = tuple(layer.q_proj.weight.shape)
    return shape == (_width(layer),) * 2, f"weights of queries: {shape}"


# Positions.


def _sees_order(places: Any) -> Found:
    """Adds positions to tokens that are all alike: the rows must differ."""
    x = _input(1, 1, 6).expand(3, 5, 6).clone()
    out = places(x)
    gap = min(_apart(out[0, i], out[0, j]) for i in range(5) for j in range(i))
    return gap > 1e-6, f"equal tokens, two positions: they differ by {gap:.2g}"


def _same_for_all(places: Any) -> Found:
    x = _input(1, 5, 6).expand(3, 5, 6).clone()
    out = places(x)
    return _same(out[0], out[2], "the same text in two rows differs by")


def _refuses(places: Any) -> Found:
    """Gives a text that may be too long: an error is fine, equal positions are not."""
    try:
        out = places(torch.zeros(1, 40, 6, dtype=torch.double))
    except (ValueError, IndexError) as error:
        return True, f"{type(error).__name__}"
    gap = _apart(out[0, 38], out[0, 39])
    return gap > 1e-6, f"positions 38 and 39 differ by {gap:.2g}"


def _table(table: Any) -> Found:
    gaps = [
        _apart(table(7, width), sinusoidal_positions(7, width)) for width in (4, 5, 6)
    ]
    return max(gaps) < 1e-5, f"off by up to {max(gaps):.2g}"


#: Press et al. (2022): a geometric sequence for 4 and 8 heads; what the published code
#: of BLOOM and MPT takes for 6: those of 4, then every second one of 8.
SLOPES = {
    4: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8],
    8: [2.0**-n for n in range(1, 9)],
    6: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3],
}


def _slopes(slopes: Any, counts: Iterable[int] = (4, 8)) -> Found:
    gaps = [_apart(slopes(heads), torch.tensor(SLOPES[heads])) for heads in counts]
    return max(gaps) < 1e-6, f"off by up to {max(gaps):.2g}"


def _fresh_start(start: Any) -> Found:
    """Makes two layers: they must not begin alike."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second = start()
    gap = _apart(first.q_proj.weight, second.q_proj.weight)
    return gap > 1e-6, f"two layers' weights differ by {gap:.2g}"


# Losses.

_LENGTHS = torch.tensor([6, 4])


def _texts() -> Tensor:
    """Two texts that end with token 0, which pads the second one as well."""
    return torch.tensor([[3, 1, 4, 1, 5, 0], [2, 6, 5, 0, 0, 0]])


def _targets(loss: Any) -> Found:
    """Gives random scores: the loss must be the library's."""
    logits = _input(2, 6, 7)
    wanted = next_token_loss(logits, _texts(), _LENGTHS).item()
    came = loss(logits, _texts(), _LENGTHS).item()
    sure = 20.0 * F.one_hot(F.pad(_texts()[:, 1:], (0, 1)), 7).double()
    left = loss(sure, _texts(), _LENGTHS).item()
    right = abs(came - wanted) < 1e-6 and left < 1e-3
    return right, f"{came:.2f} instead of {wanted:.2f}; perfect scores: {left:.2f}"


def _padding(loss: Any) -> Found:
    """Changes what stands at the padding: the loss must not."""
    logits, texts = _input(2, 6, 7), _texts()
    other, longer = logits.clone(), texts.clone()
    other[1, 4:] += 9 * _input(1, 2, 7, seed=1)[0]
    longer[1, 4:] = 6
    before, after = loss(logits, texts, _LENGTHS), loss(other, longer, _LENGTHS)
    return _same(before, after, "other padding changes the loss by")


# Training, on a linear model whose steps are known.


def _model(scale: float = 1.0) -> tuple[nn.Linear, torch.optim.Optimizer]:
    model = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.5, 1.0]]) * scale)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def _squares(model: nn.Module, batch: Tensor) -> Tensor:
    return model(batch).square().mean()


def _by_hand(batches: Iterable[Tensor], largest: float) -> Tensor:
    """Goes down the mean square with clipped gradients, without any optimizer."""
    weight = torch.tensor([[0.5, -0.5, 1.0]], dtype=torch.double)
    for batch in batches:
        slope = 2 * (batch @ weight.T * batch).mean(dim=0, keepdim=True)
        weight = weight - 0.1 * slope * min(1.0, largest / (slope.norm().item() + 1e-6))
    return weight


def _steps(train: Any, size: float, what: str) -> Found:
    batches = [size * _input(4, 1, 3, seed=seed)[:, 0] for seed in range(3)]
    model, optimizer = _model()
    train(model, optimizer, _squares, batches)
    gap = min(
        _apart(model.weight, _by_hand(batches, most)) for most in (1.0, torch.inf)
    )
    if what == "clip":  # no step may be longer than the rate, times a gradient of 1
        moved = (model.weight - _model()[0].weight).norm().item()
        return moved <= 0.3 + 1e-6, f"three steps of at most 0.1 move it by {moved:.2g}"
    return gap < 1e-6, f"weights after three steps are off by {gap:.2g}"


def _pieces(train: Any) -> Found:
    """Trains on pieces of one batch: one step, as if it were whole."""
    whole = _input(8, 1, 3)[:, 0]
    model, optimizer = _model()
    pieces = [(part, part[:, :1]) for part in whole.split([2, 6])]
    train(model, optimizer, _sum_of_squares, pieces)
    other, own = _model()
    (_sum_of_squares(other, whole, whole[:, :1]) / len(whole)).backward()
    own.step()
    return _same(
        model.weight, other.weight, "one step, in pieces and whole, differs by"
    )


def _sum_of_squares(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return (model(inputs) - targets).square().sum()


def _with_dropout() -> nn.Module:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1, bias=False)).double()
    return model.train()


def _measured(measure: Any) -> tuple[float, float, bool]:
    model = _with_dropout()
    batches = [_input(n, 1, 3, seed=n)[:, 0] for n in (4, 4)]
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
    same = abs(first - second) < 1e-9
    return same, f"two measurements are {'equal' if same else 'unequal'}"


# Writing.


@cache
def _writer() -> TinyLM:
    """A model whose next token is never a near tie."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = TinyLM(ModelConfig(20, 64, 16, 2, 2, dropout=0.3)).double()
    model.requires_grad_(False)
    model.head.weight.mul_(30)
    return model


_PROMPT = torch.tensor([[3, 1, 4, 1, 5]])


def _written(write: Any, prompt: Tensor) -> Tensor:
    model = _writer().eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return write(model, prompt, 8)[:, prompt.shape[1] :]


def _differing(first: Tensor, second: Tensor, what: str) -> Found:
    same = torch.equal(first, second)  # how many differ may depend on dropout
    return same, f"{'all' if same else 'not all'} tokens are those {what}"


def _written_twice(write: Any) -> Found:
    first, second = _written(write, _PROMPT), None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        second = write(_writer().eval(), _PROMPT, 8)[:, 5:]
    return _differing(first, second, "of the first time")


def _written_in_full(write: Any) -> Found:
    wanted = generate(_writer().eval(), _PROMPT, max_new_tokens=8, use_cache=False)
    return _differing(_written(write, _PROMPT), wanted[:, 5:], "of reading all anew")


def _alone(write: Any) -> Found:
    """Writes a short text beside a longer one, and alone."""
    model = _writer().eval()
    both = torch.tensor([[3, 1, 4, 1, 5], [0, 0, 0, 2, 7]])
    real = torch.tensor([[True] * 5, [False] * 3 + [True] * 2])
    wanted = generate(model, torch.tensor([[2, 7]]), max_new_tokens=8)[:, 2:]
    return _differing(write(model, both, real, 8)[1:, 5:], wanted, "of the text alone")


_LOGITS = torch.tensor([0.5, 0.3, 0.15, 0.05]).double().log()


def _chances(wanted: Sequence[float], *options: Any) -> Callable[[Any], Found]:
    def check(chances: Any) -> Found:
        came = chances(_LOGITS, *options)
        right = _apart(came, torch.tensor(wanted)) < 1e-6
        shown = ", ".join(f"{each:.2f}" for each in came.tolist())
        return right, f"chances {shown}"

    return check


def _shared_pages(names: Any) -> Found:
    """Names the pages of texts: equal exactly where all before is equal."""
    first, second = names([1, 2, 3, 4, 5, 6], 2), names([1, 2, 9, 9, 5, 6], 2)
    same = [one == other for one, other in zip(first, second, strict=True)]
    return same == [
        True,
        False,
        False,
    ], f"pages that share a name: {same.count(True)} of 3"


_LAYER = (
    *("shape", "deterministic", "future", "padding", "batch", "order", "empty rows"),
    *("large scores", "half precision", "gradients", "cache"),
)
#: The checks of ``examine`` that right programs of a kind pass. A cap or a norm inside
#: changes the formula, and positions the order.
EXAMINED = {
    "layer": (*_LAYER, "formula"),
    "variant": _LAYER,
    "rotary": _LAYER,
    "grouped": (*_LAYER, "formula"),
    "window": _LAYER,
}
#: The checks of this module, by the kind of program.
OWN_CHECKS: Mapping[str, Mapping[str, Callable[[Any], Found | None]]] = {
    "layer": {"inner width": _inner_width},
    "variant": {},
    "rotary": {"rotary": _rotary, "far positions": _far},
    "grouped": {},
    "window": {"window": _window},
    "places": {
        "sees the order": _sees_order,
        "same for all texts": _same_for_all,
        "refuses what is too long": _refuses,
    },
    "table": {"positions": _table},
    "slopes": {"slopes": _slopes},
    "more slopes": {"slopes": lambda slopes: _slopes(slopes, SLOPES)},
    "start": {"fresh start": _fresh_start},
    "loss": {"targets": _targets, "padding in the loss": _padding},
    "train": {
        "steps": lambda train: _steps(train, 0.3, "steps"),
        "clipping": lambda train: _steps(train, 30.0, "clip"),
    },
    "pieces": {"pieces": _pieces},
    "measure": {"mode": _mode, "measured twice": _measured_twice},
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
