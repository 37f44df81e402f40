"""The probe beside a reference: in which calls a layer agrees with it, and where not.

Both get the same weights, and are called in each way that both take. What is the same
and what differs first tells where to look: a layer that differs only beside padding
on the left has another fault than one that differs in every call.

Shapes: B batch, T length, M d_model.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.caching import in_pieces
from attention_lib.examine.call_variants import (
    ONE_BY_ONE,
    PIECES,
    Case,
    OwnDrawError,
    Run,
    both_told,
    find_cases,
    gradient,
    in_training,
    plain,
)
from attention_lib.examine.masking import refuses_masks_per_text
from attention_lib.examine.operations import operations_of
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    error_words,
    first_line,
    listed,
)
from attention_lib.examine.probe import VERY_LONG, Probe
from attention_lib.examine.trace import tell_first_step, tell_inside, tell_reach
from attention_lib.examine.trace_smells import changed_in_place

_REFUSALS = ValueError, NotImplementedError
_OPTIONAL = "T =", "beside", "mask", "padding", "memory"
_DRAWS = 300
_SPREAD = 0.3  # how far spreads may be apart, output by output, as a share
# How a layer is called, how far it is from its reference, and how to name the step.
Compared = tuple[str, str, Callable[[], str]]


class _Function(nn.Module):
    """A function of x as a layer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def probe_reference(probe: Probe) -> str:
    """Test that it gives what a reference gives, in each call that both take."""
    if probe.reference is None:
        raise NotApplicableError("no reference was given")
    other = _beside(probe, probe.reference)
    if other.problem is not None:
        words = first_line(other.problem)
        raise FaultError(f"the reference cannot be called: {words}")
    if words := _other_weights(probe.original, other.original):
        raise FaultError(words)
    mine, other = _with_same_weights(probe, other)
    if not both_told(mine, other):  # then neither is, also where it reads a cache
        mine.causal_options = other.causal_options = {}
    same: list[str] = []
    differ: list[str] = []
    first = step = ""
    cases = [*find_cases(mine, other)]
    for words, run in cases:
        found = _compare(mine, other, words, run)
        if found is None:
            continue
        (differ if found else same).append(words)
        if found and len(differ) == 1:
            first, step = _explain(mine, other, words, run, found)
        elif found and words == PIECES and differ == [ONE_BY_ONE, PIECES]:
            step = tell_first_step(mine, other, run) or step  # less is equal by chance
    for words, found, tell in (*_half_precision(mine, other), *_training(mine, other)):
        (differ if found else same).append(words)
        if found and len(differ) == 1:
            first, step = f"{found} {words}", tell()
    masks = _mask_per_text(mine, other)
    if not differ:
        words = f"0 apart from the reference, called in {len(same)} ways"
        if masks and not isinstance(mine.mask_error, (*_REFUSALS, AssertionError)):
            raise FaultError(f"{masks}; else {words}")
        return f"{words}; {masks}" if masks else words
    words = _summary(first, same, differ, plain_differs=cases[0][0] in differ)
    words += _missing_weights(probe.original, other.original)
    words += f"; {masks}" if masks else ""
    raise FaultError(f"{words}. Step by step: {step}" if step else words)


def _explain(
    mine: Probe, other: Probe, words: str, run: Run, found: str
) -> tuple[str, str]:
    """Return the first difference, with its part and token, and its step."""
    if words == "in its input after a call":
        return f"it changes its input{changed_in_place(mine)}", ""
    is_gradient = "gradient" in words
    where = inside = ""
    if not is_gradient:
        where = tell_reach(mine, other, run)
        inside = "" if "room" in words else tell_inside(mine, other, run)
    step = tell_first_step(mine, other, run, gradients=is_gradient)
    return f"{found} {words}{where}{inside}", step


def _summary(
    first: str, same: list[str], differ: list[str], *, plain_differs: bool
) -> str:
    """Return what is the same and what differs; first what says most."""
    shown = [words for words in same if "room" not in words and "gradient" not in words]
    if not shown:
        return f"in each call, {first}"
    others = f"; also {listed(differ[1:])}" if len(differ) > 1 else ""
    agreed = f"the same {listed(shown)}"
    if plain_differs:  # the rest follows from it
        return f"{first}{others}; {agreed}"
    return f"{agreed}; {first}{others}"


def _mask_per_text(mine: Probe, other: Probe) -> str:
    """Return words where the reference alone takes a mask for each text."""
    words = refuses_masks_per_text(mine)
    if not words or "mask" not in other.takes or refuses_masks_per_text(other):
        return ""
    return f"{words}; the reference does"


def _beside(probe: Probe, reference: Any) -> Probe:
    """Return a probe of the reference, called as the user says, or by its names."""
    is_layer = isinstance(reference, nn.Module)
    layer = reference if is_layer else _Function(reference)
    make = partial(Probe, layer, d_model=probe.d_model, seed=probe.seed)
    if probe.calls is not None and is_layer:
        found = make(causal=probe.stated_causal, calls=probe.calls)
        if found.problem is None:
            return found
    return make(causal=probe.stated_causal)


def _other_weights(layer: nn.Module, reference: nn.Module) -> str:
    """Name weights that are not those of a reference with the same names."""
    own, theirs = layer.state_dict(), reference.state_dict()
    if own.keys() != theirs.keys():
        return ""
    for name, each in own.items():
        for also, second in own.items():
            shared = each.numel() and each.data_ptr() == second.data_ptr()
            apart = theirs[also].data_ptr() != theirs[name].data_ptr()
            if also < name and shared and apart:
                return f"{name} is {also}; in the reference they are two weights"
    wrong = []
    for name, each in own.items():
        wanted = theirs[name]
        if each.shape != wanted.shape:
            shapes = f"{tuple(each.shape)}, not {tuple(wanted.shape)}"
            return f"the shape of {name} is {shapes}"
        wanted = wanted.to(each.device).double()
        if not (each.is_meta or torch.allclose(each.double(), wanted)):
            wrong.append(name)
    return f"its weights are not the reference's: {listed(wrong)}" if wrong else ""


def _missing_weights(layer: nn.Module, reference: nn.Module) -> str:
    """Name the weights that one has and the other lacks, where the rest agrees."""
    own, theirs = {*layer.state_dict()}, {*reference.state_dict()}
    if own < theirs:
        return f"; it lacks the weights {listed(sorted(theirs - own))}"
    if theirs and theirs < own:
        return f"; it has more weights: {listed(sorted(own - theirs))}"
    return ""


def _with_same_weights(mine: Probe, other: Probe) -> tuple[Probe, Probe]:
    """Return both with the same weights: random ones, where they have the same names.

    Weights that start at 0 or 1 would hide a bias or a gain that is lost.
    """
    both = mine, other = copy.copy(mine), copy.copy(other)
    narrow = torch.float32 in (mine.dtype, other.dtype)
    dtype = torch.float32 if narrow else torch.float64
    names = mine.original.state_dict().keys()
    same_names = names == other.original.state_dict().keys() and len(names) > 0
    for each in both:
        each.dtype, each.tolerance = dtype, 1e-4 if narrow else 2e-6
        if same_names:
            each.layer = each.copied(dtype)
        else:
            each.layer = copy.deepcopy(each.original).eval().to(dtype)
    if same_names:
        other.layer.load_state_dict(mine.layer.state_dict())
    rates = [_dropout_rates(each.original) for each in both]
    for each, given in zip(both, rates, strict=True):
        for (part, name), rate in given.items() if rates[0] != rates[1] else ():
            setattr(each.layer.get_submodule(part), name, rate)  # as it was
        for weight in each.layer.parameters():
            weight.requires_grad_(weight.is_floating_point())
    return both


def _dropout_rates(layer: nn.Module) -> dict[tuple[str, str], float]:
    return {
        (part, name): value
        for part, each in layer.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, float) and (name == "p" or "drop" in name)
    }


def _compare(mine: Probe, other: Probe, words: str, run: Run) -> str | None:
    """Return how far the two are apart; None where the reference refuses the call."""
    try:
        wanted = run(other.fresh())
    except Exception:
        return None
    try:
        found = run(mine.fresh())
    except OwnDrawError:
        return None
    except Exception as error:
        optional = any(each in words for each in _OPTIONAL)
        is_refused = isinstance(error, _REFUSALS) and optional
        return None if is_refused else error_words(error)
    if not wanted.isfinite().all():
        return None
    if not found.isfinite().all():
        return "nan"
    loud = "larger" in words or "loud" in words  # where float32 inside shows
    return _far_apart(found, wanted, 2e-3 if loud else mine.tolerance)


def _far_apart(found: Tensor, wanted: Tensor, tolerance: float) -> str:
    """Return how far two results are apart, each text by its own size, and where."""
    if found.shape != wanted.shape:
        return f"of shape {tuple(found.shape)}, not {tuple(wanted.shape)},"
    if found.dtype == torch.bool:
        wrong = "an error" if found else "wrong numbers, and no error,"
        return "" if bool(found == wanted) else wrong
    far = _shares(found, wanted)
    size = float(far.max())
    if size <= tolerance:
        return ""
    words = "nan" if size == float("inf") else f"{size:.2g} apart"
    if far.ndim != 3:
        return words
    where = []
    different = far.amax(-1) > tolerance  # (B, T)
    texts, rows = different.any(1), different.any(0)
    if len(texts) > 1 and texts.sum() == 1:
        where.append(f"in text {int(texts.float().argmax())} only")
    if len(rows) > 1 and not rows.all():
        least, most = (int(row) for row in rows.nonzero().flatten()[[0, -1]])
        many = f"outputs {least} to {most}" if most > least else f"output {least} only"
        where.append(f"in {many}")
    return f"{words} {' and '.join(where)}," if where else words


def _shares(found: Tensor, wanted: Tensor) -> Tensor:
    """Return differences, each as a share of the largest number of its text."""
    axes = (1, 2) if wanted.ndim == 3 else [*range(wanted.ndim)]
    scale = wanted.abs().amax(dim=axes, keepdim=True).clamp(min=1e-3)
    return ((found.to(wanted.dtype) - wanted).abs() / scale).nan_to_num(float("inf"))


def _half_precision(mine: Probe, other: Probe) -> Iterator[Compared]:
    """Compare what narrow types cost with what they cost the reference."""

    def read(each: Probe) -> Tensor:
        return in_pieces(each, each.x(), [2, 1, 1, 2])

    def outlier(each: Probe) -> Tensor:
        x = each.x()
        x[..., 0] = 400  # whose square is beyond float16
        return each.run_causal(x)[..., 1:]

    for name, slack in ("float32", 2e-5), ("bfloat16", 0.02), ("float16", 0.003):
        dtype = getattr(torch, name)
        cases: list[Case] = [
            (f"in {name}", plain()),
            (f"in {name} at T = {VERY_LONG}", plain(1, VERY_LONG)),
            (f"in {name} with one feature of 400", outlier),
        ]
        if mine.new_cache and other.new_cache:
            cases.append((f"in {name} with a cache", read))
        for words, run in cases:
            try:
                exact = run(other.fresh(dtype).fresh(other.dtype))
                costs = _shares(run(other.fresh(dtype)).to(exact.dtype), exact)
            except Exception:
                continue
            if not costs.isfinite().all():
                continue
            try:
                found = run(mine.fresh(dtype))
            except Exception as error:
                yield words, error_words(error), str
                continue
            limit = 4 * float(costs.max()) + slack
            far = _far_apart(found.to(exact.dtype), exact, limit)
            both = mine.fresh(dtype), other.fresh(dtype)
            yield words, far, partial(tell_first_step, *both, run)


def _training(mine: Probe, other: Probe) -> Iterator[Compared]:
    """Compare with one seed in training mode, else the statistics of many draws."""
    words, draw = "in training mode", in_training(plain())
    found = _compare(mine, other, words, draw)
    if found is None:
        return
    same_draws = not found
    if found and _draws_again(other):
        try:
            found = _draws_apart(mine, other)
        except Exception as error:
            found = error_words(error)
    yield words, found, partial(tell_first_step, mine, other, draw)
    grad, words = in_training(partial(gradient, "", False)), f"in gradients {words}"
    if same_draws and (found := _compare(mine, other, words, grad)) is not None:
        tell = partial(tell_first_step, mine, other, grad, gradients=True)
        yield words, found, tell


def _draws_again(probe: Probe) -> bool:
    """Return whether another seed gives another output in training mode."""
    return not torch.equal(*(_drawn(probe, seed=seed) for seed in (0, 1)))


def _draws_apart(mine: Probe, other: Probe) -> str:
    """Compare the mean and the spread of many draws."""
    both = mine, other
    runs = [_drawn(t, _DRAWS).unflatten(0, (_DRAWS, -1)) for t in both]
    means, spreads = [each.mean(0) for each in runs], [each.var(0) for each in runs]
    total = [float(each.sum()) for each in spreads]
    ratio = (total[0] / max(total[1], 1e-30)) ** 0.5
    if not 0.8 < ratio < 1.25:
        seen = [operations_of(partial(_drawn, each)).drops for each in both]
        one, two = (", ".join(sorted({f"{p:.0%}" for p in each})) for each in seen)
        rates = f" (it drops {one}, the reference {two})" if one != two else ""
        return f"dropout changes outputs {ratio:.2g} times as much{rates}"
    if float((means[0] - means[1]).square().sum()) > 4 * sum(total) / _DRAWS:
        return f"the mean of {_DRAWS} draws is another"
    if float((spreads[0] - spreads[1]).abs().sum()) > _SPREAD * max(total[1], 1e-30):
        return "dropout changes other outputs, as if it stood elsewhere,"
    return ""


def _drawn(probe: Probe, times: int = 1, seed: int = 0) -> Tensor:
    """Return one call in training mode, of an input that repeats over the batch."""
    call = in_training(lambda each: each.run_causal(each.x().repeat(times, 1, 1)), seed)
    return call(probe.fresh())
