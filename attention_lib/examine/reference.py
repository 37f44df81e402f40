"""The probe beside a reference: in which calls a layer agrees with it, and where not.

Both get the same weights, and are called in each way that both take. What is the same
and what differs first tells where to look: a layer that differs only beside padding
on the left has another fault than one that differs in every call.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.call_variants import (
    ONE_BY_ONE,
    PIECES,
    PLAIN,
    Call,
    OwnDrawError,
    both_told,
    find_cases,
    gradient,
    in_training,
)
from attention_lib.examine.masking import refuses_masks_per_text
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    error_words,
    first_line,
    listed,
    or_else,
)
from attention_lib.examine.probe import LONG, VERY_LONG, Probe, Run
from attention_lib.examine.recorder import operations_of
from attention_lib.examine.trace import changed_in_place, tell_first_step

_REFUSALS = ValueError, NotImplementedError
_OPTIONAL = "T =", "beside", "mask", "padding", "memory"
_DRAWS = 300
_SPREAD = 0.3  # how far spreads may be apart, output by output, as a share
# How a layer is called, how far it is from its reference, and how to explain that.
Compared = tuple[str, str, Callable[[str], tuple[str, str]]]


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
    for words, found, tell in _compared(mine, other):
        (differ if found else same).append(words)
        if found and len(differ) == 1:
            first, step = tell(found)
        elif found and words == PIECES and differ == [ONE_BY_ONE, PIECES]:
            step = tell(found)[1] or step  # less is equal by chance
    masks = _mask_per_text(mine, other)
    if not differ:
        words = f"0 apart from the reference, called in {len(same)} ways"
        if masks and not isinstance(mine.mask_error, (*_REFUSALS, AssertionError)):
            raise FaultError(f"{masks}; else {words}")
        return f"{words}; {masks}" if masks else words
    words = _summary(first, same, differ)
    words += _missing_weights(probe.original, other.original)
    words += f"; {masks}" if masks else ""
    raise FaultError(f"{words}. Step by step: {step}" if step else words)


def _compared(mine: Probe, other: Probe) -> Iterator[Compared]:
    """Yield each call that both take, how far apart they are, and how to explain it."""
    for words, run in find_cases(mine, other):
        if (found := _compare(mine, other, words, run)) is not None:
            yield words, found, partial(_explain, mine, other, words, run)
    yield from _half_precision(mine, other)
    yield from _training(mine, other)


def _explain(
    mine: Probe, other: Probe, words: str, run: Run, found: str, *, inside: bool = True
) -> tuple[str, str]:
    """Return the first difference, with its part and token, and its step."""
    if words == "in its input after a call":
        return f"it changes its input{changed_in_place(mine)}", ""
    both, gradients = (mine, other, run), "gradient" in words
    first = f"{found} {words}"
    if inside and not gradients:
        first += or_else("", tell_reach, *both)
        first += "" if "room" in words else or_else("", tell_inside, *both)
    return first, or_else("", tell_first_step, *both, gradients=gradients)


def _summary(first: str, same: list[str], differ: list[str]) -> str:
    """Return what is the same and what differs; first what says most."""
    shown = [words for words in same if "room" not in words and "gradient" not in words]
    if not shown:
        return f"in each call, {first}"
    first += f"; also {listed(differ[1:])}" if len(differ) > 1 else ""
    if "in a plain call" not in same and differ[0] in (
        "in a plain call",
        "told causal",
    ):
        return f"{first}; the same {listed(shown)}"  # the rest follows from it
    return f"the same {listed(shown)}; {first}"


def _mask_per_text(mine: Probe, other: Probe) -> str:
    """Return words where the reference alone takes a mask for each text."""
    words = refuses_masks_per_text(mine)
    if not words or "mask" not in other.takes or refuses_masks_per_text(other):
        return ""
    return f"{words}; the reference does"


def _beside(probe: Probe, reference: Any) -> Probe:
    """Return a probe of the reference, called as the user says, or by its names."""
    layer = reference
    if not isinstance(reference, nn.Module):
        layer = nn.Module()
        layer.forward = lambda x: reference(x)
    make = partial(Probe, layer, probe.d_model, probe.stated_causal, seed=probe.seed)
    if probe.calls is not None and layer is reference:
        found = make(calls=probe.calls)
        if found.problem is None:
            return found
    return make()


def _other_weights(layer: nn.Module, reference: nn.Module) -> str:
    """Name weights that are not those of a reference with the same names."""
    own, theirs = layer.state_dict(), reference.state_dict()
    if own.keys() != theirs.keys():
        return ""
    for also, name in combinations(own, 2):
        one, two = (
            {each[name].data_ptr(), each[also].data_ptr()} for each in (own, theirs)
        )
        if own[name].numel() and len(one) < len(two):
            return f"{name} is {also}; in the reference they are two weights"
    wrong = []
    for name, each in own.items():
        wanted = theirs[name].to(each.device).double()
        if each.shape != wanted.shape:
            shapes = f"{tuple(each.shape)}, not {tuple(wanted.shape)}"
            return f"the shape of {name} is {shapes}"
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
    names, theirs = (each.original.state_dict().keys() for each in both)
    same_names = names == theirs and len(names) > 0
    narrow = torch.float32 in (mine.dtype, other.dtype)
    rates, other_rates = (_dropout_rates(each.original) for each in both)
    for each in both:
        each.dtype = torch.float32 if narrow else torch.float64
        each.tolerance = 1e-4 if narrow else 2e-6
        if same_names:
            each.layer = each.copied(each.dtype, raised=rates == other_rates)
        else:
            each.layer = copy.deepcopy(each.original).eval().to(each.dtype)
        for weight in each.layer.parameters():
            weight.requires_grad_(weight.is_floating_point())
    if same_names:
        other.layer.load_state_dict(mine.layer.state_dict())
    return both


def _dropout_rates(layer: nn.Module) -> set[tuple[str, str, float]]:
    return {
        (part, name, value)
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

    def outlier(each: Probe) -> Tensor:
        x = each.x()
        x[..., 0] = 400  # whose square is beyond float16
        return each.run_causal(x)[..., 1:]

    cases: dict[str, Run] = {
        "": PLAIN,
        f" at T = {VERY_LONG}": Call(1, VERY_LONG),
        " with one feature of 400": outlier,
        " with a cache": Call(pieces=(2, 1, 1, 2)),
    }
    if "cache" not in mine.takes & other.takes:
        cases.popitem()
    for name, slack in ("float32", 2e-5), ("bfloat16", 0.02), ("float16", 0.003):
        ours, theirs = (each.fresh(getattr(torch, name)) for each in (mine, other))
        for how, run in cases.items():
            try:
                exact = run(theirs.fresh(other.dtype))
                costs = float(_shares(run(theirs.fresh()).to(exact.dtype), exact).max())
            except Exception:
                continue
            if costs == float("inf"):
                continue
            try:
                found = run(ours.fresh()).to(exact.dtype)
                far = _far_apart(found, exact, 4 * costs + slack)
            except Exception as error:
                far = error_words(error)
            words = f"in {name}{how}"
            yield words, far, partial(_explain, ours, theirs, words, run, inside=False)


def _training(mine: Probe, other: Probe) -> Iterator[Compared]:
    """Compare with one seed in training mode, else the statistics of many draws."""
    explain = partial(_explain, mine, other, inside=False)
    words, draw = "in training mode", in_training(PLAIN)
    found = _compare(mine, other, words, draw)
    if found is None:
        return
    same_draws = not found
    if found and not torch.equal(*(_drawn(other, seed=seed) for seed in (0, 1))):
        try:
            found = _draws_apart(mine, other)
        except Exception as error:
            found = error_words(error)
    yield words, found, partial(explain, words, draw)
    grad, words = in_training(partial(gradient, "", False)), f"in gradients {words}"
    if same_draws and (found := _compare(mine, other, words, grad)) is not None:
        yield words, found, partial(explain, words, grad)


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


def tell_inside(mine: Probe, other: Probe, run: Run) -> str:
    """Name the first part that gets or gives other numbers than in the reference."""
    names = {name for name, part in other.layer.named_modules() if name}
    ours, theirs = (_numbers(each, run, names) for each in (mine, other))
    same: dict[str, None] = {}
    times: Counter[str] = Counter()
    for (name, what, found), (also, kind, wanted) in zip(ours, theirs, strict=False):
        if (name, what) != (also, kind):
            return f" ({name} is called where the reference calls {also})"
        if found.shape != wanted.shape:
            return f" ({name} {what} {tuple(found.shape)}, not {tuple(wanted.shape)})"
        times[name] += what == "gets"
        scale = wanted.abs().max().clamp(min=1e-3)
        wrong = ~((found - wanted).abs() <= mine.tolerance * scale)
        if wrong.any():
            known = f"{', '.join(same)} the same; " if same else ""
            call = f" in call {times[name]}" if times[name] > 1 else ""
            return f" ({known}{name}{call} {what} other numbers{_features(wrong)})"
        if what == "gives":
            same[name] = None
    if len(ours) < len(theirs):
        return f" (the reference calls {theirs[len(ours)][0]}, too)"
    if len(ours) > len(theirs):
        return f" (the reference does not call {ours[len(theirs)][0]})"
    words = "get and give the same: it differs between or after them"
    return f" (its parts {', '.join(same)} {words})" if same else ""


def _numbers(probe: Probe, run: Run, names: set[str]) -> list[tuple[str, str, Tensor]]:
    """Return what each part gets and gives in one run, in the order of the calls."""
    fresh, seen = probe.fresh(), []

    def note(name: str, what: str, part: Any, inputs: Any, *outputs: Any) -> None:
        found = outputs[0] if outputs else inputs
        found = found[0] if isinstance(found, tuple) and found else found
        if isinstance(found, Tensor) and found.ndim > 1:
            seen.append((name, what, found.detach().clone()))

    for name, part in fresh.layer.named_modules():
        if name in names:
            part.register_forward_pre_hook(partial(note, name, "gets"))
            part.register_forward_hook(partial(note, name, "gives"))
    run(fresh)
    return seen


def _features(wrong: Tensor) -> str:
    """Return which features are wrong, where they are a part of all."""
    at = wrong.flatten(0, -2).any(0).nonzero().flatten().tolist()
    width = wrong.shape[-1]
    if not at or len(at) == width:
        return ""
    if at[-1] - at[0] + 1 == len(at):
        return f" in features {at[0]} to {at[-1]} of {width}"
    return f" in {len(at)} features of {width}, from {at[0]} on"


def tell_reach(mine: Probe, other: Probe, run: Run) -> str:
    """Name an output that depends on another token than in the reference.

    In a long text few tokens are changed: those around the first output that differs.
    """
    one, two = (run(each.fresh()) for each in (mine, other))
    if one.ndim != 3 or one.shape != two.shape:
        return ""
    length = one.shape[1]
    positions, least = [*range(length)], mine.tolerance
    if length > LONG:
        wrong = (one - two).abs().amax(dim=(0, 2)) > mine.tolerance
        row = int(wrong.float().argmax())
        near = {0, row - 1, row, row + 1, length // 2, length - 1}
        positions, least = sorted(near & {*positions}), mine.tolerance / 1e3
    ours, theirs = (
        each.dependence(lambda it: run(it.fresh()), positions).amax(0) > least
        for each in (mine, other)
    )
    for wrong, words in (
        (ours & ~theirs, "changes with token {}, which the reference hides there"),
        (theirs & ~ours, "does not depend on token {}, as it does in the reference"),
    ):
        if wrong.any():
            row, key = wrong.nonzero()[0].tolist()
            count = int(wrong[row].sum())
            more = f" (nor on {count - 1} more)" if count > 1 and "not" in words else ""
            return f": output {row} {words.format(positions[key])}{more}"
    return ""
