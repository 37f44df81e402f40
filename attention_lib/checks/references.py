"""The check against a reference: in which calls a layer agrees with it, where not.

Both get the same weights, and are called in each way that both take. What is the same
and what differs first tells where to look: a layer that differs only beside padding
on the left has another fault than one that differs in every call.

Shapes: B batch, T length, M d_model.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.checks.behaviour import NO, Said, first_line
from attention_lib.checks.caching import in_pieces
from attention_lib.checks.inside import tell_inside
from attention_lib.checks.subject import BATCH, LENGTH, LONG, Subject

FAR = 600  # tokens: beyond 256, bfloat16 gives neighbours one number
_DRAWS = 60
_SHOWN = 4
Case = tuple[str, Callable[[Subject], Tensor]]


class _Function(nn.Module):
    """A function of x as a layer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def check_reference(s: Subject) -> Said:
    """It gives what a reference gives, in each way in which both can be called."""
    if s.reference is None:
        return NO, "no reference was given"
    other = _subject(s, s.reference)
    if other.problem is not None:
        return "fails", f"the reference cannot be called: {first_line(other.problem)}"
    if words := _other_weights(s.original, other.original):
        return "fails", words
    mine, other = _alike(s, other)
    same: list[str] = []
    apart: list[str] = []
    first = ""
    for words, run in [*_cases(mine, other)]:
        found = _compare(mine, other, run)
        if found is None:
            continue
        if not found:
            same.append(words)
            continue
        if not apart:
            first = f"{found} {words}{tell_inside(mine, other, run)}"
        apart.append(words)
    for words, found in (*_halves(mine, other), *_training(mine, other)):
        if found:
            first = first or f"{found} {words}"
            apart.append(words)
        else:
            same.append(words)
    if not apart:
        return "holds", f"0 apart from the reference, called in {len(same)} ways"
    agreed = f"the same {_list(same)}; " if same else "in each call, "
    others = f"; also {_list(apart[1:])}" if len(apart) > 1 and same else ""
    return "fails", f"{agreed}{first}{others}{_missing(s.original, other.original)}"


def _list(words: list[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _subject(s: Subject, reference: Any) -> Subject:
    """The reference as what is examined; called as the reader says, or by its names."""
    layer = reference if isinstance(reference, nn.Module) else _Function(reference)
    told: dict[str, Any] = dict(
        d_model=s.d_model, causal=s.told_causal, reference=None, seed=s.seed
    )
    if s.calls is not None and isinstance(reference, nn.Module):
        found = Subject(layer, calls=s.calls, **told)
        if found.problem is None:
            return found
    return Subject(layer, calls=None, **told)


def _other_weights(layer: nn.Module, reference: nn.Module) -> str:
    """Says which weights are not those of a reference that names them alike."""
    own, theirs = layer.state_dict(), reference.state_dict()
    if own.keys() != theirs.keys():
        return ""
    kept = {name: each.data_ptr() for name, each in theirs.items() if each.numel()}
    for name, each in own.items():
        for also, second in own.items():
            one = each.numel() and each.data_ptr() == second.data_ptr()
            if also < name and one and kept[also] != kept[name]:
                return f"{name} is {also}; in the reference they are two weights"
    for name, each in own.items():
        if each.shape != theirs[name].shape:
            shapes = f"{tuple(each.shape)}, not {tuple(theirs[name].shape)}"
            return f"the shape of {name} is {shapes}"
    wrong = [name for name, each in own.items() if not _equal(each, theirs[name])]
    if wrong:
        return f"its weights are not the reference's: {_list(wrong)}"
    return ""


def _equal(one: Tensor, two: Tensor) -> bool:
    return one.is_meta or torch.allclose(one.double(), two.to(one.device).double())


def _missing(layer: nn.Module, reference: nn.Module) -> str:
    """Says which weights one has and the other lacks, where the rest is alike."""
    own, theirs = {*layer.state_dict()}, {*reference.state_dict()}
    if own < theirs:
        return f"; it lacks the weights {_list(sorted(theirs - own))}"
    if theirs and theirs < own:
        return f"; it has more weights: {_list(sorted(own - theirs))}"
    return ""


def _alike(s: Subject, other: Subject) -> tuple[Subject, Subject]:
    """Gives both with the same weights: random ones, where their names are the same.

    Weights that start at 0 or 1 would hide a bias or a gain that is lost.
    """
    mine, other = copy.copy(s), copy.copy(other)
    narrow = torch.float32 in (s.dtype, other.dtype)
    dtype = torch.float32 if narrow else torch.float64
    names = s.original.state_dict().keys()
    stirred = names == other.original.state_dict().keys() and len(names) > 0
    for each in (mine, other):
        each.dtype, each.tolerance = dtype, 1e-4 if narrow else 2e-6
        if stirred:
            each.layer = s.copied(dtype) if each is mine else other.copied(dtype)
        else:
            each.layer = copy.deepcopy(each.original).eval().to(dtype)
    if stirred:
        other.layer.load_state_dict(mine.layer.state_dict())
    return mine, other


def _cases(mine: Subject, other: Subject) -> Iterator[Case]:
    """The calls that both take; what a case gives is compared."""
    both = mine.takes & other.takes
    masks = {mine.mask_shape, other.mask_shape}
    bare = mine.takes == other.takes or mine.is_causal == other.is_causal
    told = bool(mine.hides_future or other.hides_future)
    for causal in [False] * bare + [True] * (told or not bare):
        modes = _told if causal else _bare
        words = " told causal" if causal else ""
        yield words[1:] or "in a plain call", lambda t, m=modes: t.run(t.x(), **m(t))
        for length in (1, LONG, FAR):
            batch = 2 if length < FAR else 1
            yield (
                f"at T = {length}{words}",
                lambda t, m=modes, b=batch, n=length: t.run(t.x(b, n), **m(t)),
            )
        if "mask" in both:
            yield from _masked(modes, words, masks)
    more = _told if told else _bare
    yield from _loud(more)
    yield "after a longer text", lambda t: (t.run(t.x(2, LONG)), t.run(t.x()))[1]
    if "mask" in both:
        yield (
            "after a call with a mask",
            lambda t: (t.run(t.x(), t.hidden([3])), t.run(t.x()))[1],
        )
    if "cache" in both and mine.calling.new_cache and other.calling.new_cache:
        yield from _cached("mask" in both, "(T, T)" in masks)
    if "memory" in both:
        for count in (4, 9):
            yield (
                f"with a memory of {count} tokens",
                lambda t, n=count: t.run(t.x(), memory=t.x(length=n, seed=3)),
            )
    yield "in its input's gradient", lambda t: _gradients(t, more(t))["the input"]
    for name in dict(mine.layer.named_parameters()):
        if name in dict(other.layer.named_parameters()):
            yield (
                f"in the gradient of {name}",
                lambda t, n=name: _gradients(t, more(t))[n],
            )


def _bare(t: Subject) -> dict[str, Any]:
    return {}


def _told(t: Subject) -> dict[str, Any]:
    return t.hides_future


def _masked(modes: Any, words: str, shapes: set[str | None]) -> Iterator[Case]:
    one = "(T, T)" in shapes
    for side in ("right", "left"):
        for lengths, how in ([4], ""), ([4, 2, 6], ", other in each text"):
            if not how or not one:
                name = f"with padding on the {side}{how}{words}"
                yield name, lambda t, n=lengths, a=side: _padded(t, n, a, modes(t))
    if not one and "(B, T)" not in shapes:
        yield f"with a mask of any pairs{words}", lambda t: _any_pairs(t, modes(t))


def _padded(t: Subject, lengths: list[int], side: str, more: dict[str, Any]) -> Tensor:
    """Outputs of real tokens; what padding itself gives is no matter."""
    mask = t.hidden(lengths, side)
    real = mask.diagonal(dim1=1, dim2=2)[..., None]
    return t.run(t.x(), mask, **more).masked_fill(~real, 0)


def _any_pairs(t: Subject, more: dict[str, Any]) -> Tensor:
    mask = torch.rand(BATCH, LENGTH, LENGTH, generator=t.generator()) < 0.5
    mask |= torch.eye(LENGTH, dtype=torch.bool)
    return t.run(t.x(), mask.to(t.device), **more)


def _loud(more: Any) -> Iterator[Case]:
    """Inputs of other sizes, and of different sizes in one batch."""
    yield "with inputs 100 times smaller", lambda t: t.run(t.x() / 100, **more(t))
    yield "with inputs 30 times larger", lambda t: t.run(30 * t.x(), **more(t))

    def mixed(t: Subject) -> Tensor:
        sizes = torch.tensor([1, 100, 0.01, 1, 30, 1, 1], dtype=t.dtype)
        return t.run(t.x() * sizes[:, None, None].to(t.device), **more(t))

    yield "with loud and quiet texts in one batch", mixed


def _cached(masked: bool, one: bool) -> Iterator[Case]:
    def read(*cut: int) -> Callable[[Subject], Tensor]:
        return lambda t: in_pieces(t, t.x(length=sum(cut)), list(cut))

    yield "with a cache, at once", read(LENGTH)
    yield "with a cache, one by one", read(*[1] * LENGTH)
    yield "with a cache, in pieces of 3, 2, 1", read(3, 2, 1)
    yield f"with a cache, at T = {LONG}", read(LONG - 9, 7, 1, 1)
    yield (
        "with a second cache for a second text",
        lambda t: (read(3, 1, 2)(t), in_pieces(t, t.x(seed=2), [3, 1, 2]))[1],
    )
    if masked:
        for side in ("right", "left"):
            yield (
                f"with a cache beside padding on the {side}",
                lambda t, a=side: _padded_pieces(t, [4] if one else [4, 2, 6], a),
            )


def _padded_pieces(t: Subject, lengths: list[int], side: str) -> Tensor:
    mask = t.hidden(lengths, side)
    real = mask.diagonal(dim1=1, dim2=2)[..., None]
    return in_pieces(t, t.x(), [3, 1, 2], mask).masked_fill(~real, 0)


def _gradients(t: Subject, more: dict[str, Any]) -> dict[str, Tensor]:
    with torch.enable_grad():
        x = t.x().requires_grad_()
        weights = dict(t.layer.named_parameters())
        wanted = {n: p for n, p in weights.items() if p.requires_grad}
        found = t.run(x, **more)
        loss = (found * t.x(seed=5)[..., :1] * found.detach().sin()).sum()
        grads = torch.autograd.grad(loss, [x, *wanted.values()], allow_unused=True)
    named = {
        name: torch.zeros_like(weight) if grad is None else grad
        for (name, weight), grad in zip(
            {"the input": x, **wanted}.items(), grads, strict=True
        )
    }
    return {n: torch.zeros_like(p) for n, p in weights.items()} | named


def _fresh(t: Subject, dtype: torch.dtype | None = None) -> Subject:
    """The same with a layer that nobody has called."""
    found = copy.copy(t)
    found.layer = copy.deepcopy(t.layer)
    if dtype is not None:
        found.layer, found.dtype = found.layer.to(dtype), dtype
    return found


def _compare(
    mine: Subject, other: Subject, run: Callable[[Subject], Tensor]
) -> str | None:
    """Says how far the two are apart; None where the reference cannot be called so."""
    with torch.no_grad():
        try:
            wanted = run(_fresh(other))
        except Exception:
            return None
        try:
            found = run(_fresh(mine))
        except ValueError:
            return None  # it says that it does not take this
        except Exception as error:
            return f"{type(error).__name__} ({first_line(error)})"
    if not wanted.isfinite().all():
        return None
    return _apart(found, wanted, mine.tolerance)


def _apart(found: Tensor, wanted: Tensor, tolerance: float) -> str:
    """Says how far two results are apart, each text by its own size, and from where."""
    if found.shape != wanted.shape:
        return f"of shape {tuple(found.shape)}, not {tuple(wanted.shape)},"
    far = _shares(found, wanted)
    if float(far.max()) <= tolerance:
        return ""
    size = float(far.max())
    words = "nan" if size == float("inf") else f"{size:.2g} apart"
    if far.ndim != 3:
        return words
    where = []
    wrong = far.amax(-1) > tolerance  # (B, T)
    texts, rows = wrong.any(1), wrong.any(0)
    if len(texts) > 1 and texts.sum() == 1:
        where.append(f"in text {int(texts.float().argmax())} only")
    if len(rows) > 1 and not rows.all():
        least, most = (int(row) for row in rows.nonzero().flatten()[[0, -1]])
        many = f"outputs {least} to {most}" if most > least else f"output {least} only"
        where.append(f"in {many}")
    return f"{words} {' and '.join(where)}".strip() + "," * bool(where)


def _shares(found: Tensor, wanted: Tensor) -> Tensor:
    """Differences, each as a share of the largest number of its text."""
    if wanted.ndim == 3:
        scale = wanted.abs().amax(dim=(1, 2), keepdim=True)
    else:
        scale = wanted.abs().max()
    far = (found.to(wanted.dtype) - wanted).abs() / scale.clamp(min=1e-3)
    return far.nan_to_num(float("inf"))


def _halves(mine: Subject, other: Subject) -> Iterator[tuple[str, str]]:
    """What 16 bits cost: more than they cost the reference, where it is said."""

    def outlier(t: Subject) -> Tensor:
        x = t.x()
        x[..., 0] = 400  # whose square is beyond float16
        return t.run(x, **_told(t))[..., 1:]

    for dtype, slack in ((torch.bfloat16, 0.02), (torch.float16, 0.003)):
        name = str(dtype).removeprefix("torch.")
        cases: list[Case] = [
            (f"in {name}", lambda t: t.run(t.x(), **_told(t))),
            (f"in {name} at T = {FAR}", lambda t: t.run(t.x(1, FAR), **_told(t))),
            (f"in {name} with one feature of 400", outlier),
        ]
        for words, run in cases:
            with torch.no_grad():
                try:
                    exact = run(_fresh(_fresh(other, dtype), other.dtype))
                    costs = _shares(run(_fresh(other, dtype)).to(exact.dtype), exact)
                except Exception:
                    continue
                if not costs.isfinite().all():
                    continue
                try:
                    found = run(_fresh(mine, dtype))
                except Exception as error:
                    yield words, f"{type(error).__name__} ({first_line(error)})"
                    continue
            limit = 4 * float(costs.max()) + slack
            yield words, _apart(found.to(exact.dtype), exact, limit)


def _training(mine: Subject, other: Subject) -> Iterator[tuple[str, str]]:
    """In training mode with one seed; else the mean and the spread of many draws."""
    try:
        wanted, again = (_drawn(other, 1), _drawn(other, 1, seed=1))
    except Exception:
        return
    words = "in training mode"
    try:
        found = _drawn(mine, 1)
    except Exception as error:
        yield words, f"{type(error).__name__} ({first_line(error)})"
        return
    far = _apart(found, wanted, mine.tolerance)
    if not far or torch.equal(wanted, again):
        yield words, far
        return
    means, spreads = [], []
    for each in (mine, other):
        runs = _drawn(each, _DRAWS).unflatten(0, (_DRAWS, -1))
        means.append(runs.mean(0))
        spreads.append(float(runs.var(0).sum()))
    ratio = (spreads[0] / max(spreads[1], 1e-30)) ** 0.5
    change = float((means[0] - means[1]).square().sum())
    noise = (spreads[0] + spreads[1]) / _DRAWS
    if not 0.75 < ratio < 1.33:
        yield (
            f"{words}: what dropout drops changes outputs by {ratio:.2g} times as much",
            "other numbers",
        )
    elif change > 4 * noise:
        yield f"{words}: another mean of {_DRAWS} draws", "other numbers"
    else:
        yield words, ""


def _drawn(t: Subject, times: int, seed: int = 0) -> Tensor:
    run = _fresh(t)
    run.layer.train()
    torch.manual_seed(t.seed + seed)
    with torch.no_grad():
        return run.run(t.x().repeat(times, 1, 1), **_told(t))
