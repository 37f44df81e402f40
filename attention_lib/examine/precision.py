"""How far a layer is from its reference: as numbers, in 16 bits, and in training.

Shapes: B batch, T length, M d_model.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from attention_lib.examine.behaviour import LONG_LEN, first_line
from attention_lib.examine.caching import in_pieces
from attention_lib.examine.call_variants import CallOptions, Case
from attention_lib.examine.first_divergence import tell_first_step
from attention_lib.examine.op_counter import drops
from attention_lib.examine.probe import Probe
from attention_lib.examine.shared_weights import fresh
from attention_lib.examine.source_lines import raised_at

Compared = tuple[str, str, Callable[[], str]]  # the way, how far apart, the step
_DRAWS = 300
_PLACES = 0.3  # how far the spreads may be apart, output by output, as a share


def far_apart(found: Tensor, wanted: Tensor, tolerance: float) -> str:
    """Says how far two results are apart, each text by its own size, and from where."""
    if found.shape != wanted.shape:
        return f"of shape {tuple(found.shape)}, not {tuple(wanted.shape)},"
    if found.dtype == torch.bool:
        same = bool(found == wanted)
        return "" if same else "an error" if found else "wrong numbers, and no error,"
    far = shares(found, wanted)
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


def shares(found: Tensor, wanted: Tensor) -> Tensor:
    """Differences, each as a share of the largest number of its text."""
    if wanted.ndim == 3:
        scale = wanted.abs().amax(dim=(1, 2), keepdim=True)
    else:
        scale = wanted.abs().max()
    far = (found.to(wanted.dtype) - wanted).abs() / scale.clamp(min=1e-3)
    return far.nan_to_num(float("inf"))


def halves(mine: Probe, other: Probe, more: CallOptions) -> Iterator[Compared]:
    """What 16 bits cost: more than they cost the reference, where it is said."""

    def outlier(t: Probe) -> Tensor:
        x = t.x()
        x[..., 0] = 400  # whose square is beyond float16
        return t.run(x, **more(t))[..., 1:]

    def in_twos(t: Probe) -> Tensor:
        return in_pieces(t, t.x(), [2, 1, 1, 2])

    kinds = (torch.float32, 2e-5), (torch.bfloat16, 0.02), (torch.float16, 0.003)
    for dtype, slack in kinds:
        name = str(dtype).removeprefix("torch.")
        cached = "cache" in mine.takes & other.takes
        cached &= bool(mine.calling.new_cache and other.calling.new_cache)
        cases: list[Case] = [
            (f"in {name}", lambda t: t.run(t.x(), **more(t))),
            (f"in {name} at T = {LONG_LEN}", lambda t: t.run(t.x(1, LONG_LEN), **more(t))),
            (f"in {name} with one feature of 400", outlier),
            *[(f"in {name} with a cache", in_twos)] * cached,
        ]
        for words, run in cases:
            with torch.no_grad():
                try:
                    exact = run(fresh(fresh(other, dtype), other.dtype))
                    costs = shares(run(fresh(other, dtype)).to(exact.dtype), exact)
                except Exception:
                    continue
                if not costs.isfinite().all():
                    continue
                try:
                    found = run(fresh(mine, dtype))
                except Exception as error:
                    yield words, error_words(error), str
                    continue
            limit = 4 * float(costs.max()) + slack
            tell = partial(
                tell_first_step, fresh(mine, dtype), fresh(other, dtype), run
            )
            yield words, far_apart(found.to(exact.dtype), exact, limit), tell


def training(mine: Probe, other: Probe, more: CallOptions) -> Iterator[Compared]:
    """In training mode with one seed; else the mean and the spread of many draws."""
    try:
        wanted, again = (_drawn(other, more, 1), _drawn(other, more, 1, seed=1))
    except Exception:
        return
    words = "in training mode"
    try:
        found = _drawn(mine, more, 1)
    except Exception as error:
        yield words, error_words(error), str
        return

    def tell(*, gradients: bool = False) -> str:
        one, two = (copy.copy(each) for each in (mine, other))
        for each in (one, two):
            each.layer = copy.deepcopy(each.layer).train()
        run = partial(_with_gradients if gradients else _once, more)
        return tell_first_step(one, two, run, gradients=gradients, seed=mine.seed)

    far = far_apart(found, wanted, mine.tolerance)
    if not far or torch.equal(wanted, again):
        yield words, far, tell
        if not far:
            try:
                far = _gradients_apart(mine, other, more)
            except Exception as error:
                far = error_words(error)
            yield f"in gradients {words}", far, partial(tell, gradients=True)
        return
    runs = [
        _drawn(each, more, _DRAWS).unflatten(0, (_DRAWS, -1)) for each in (mine, other)
    ]
    means, spreads = [each.mean(0) for each in runs], [each.var(0) for each in runs]
    total = [float(each.sum()) for each in spreads]
    ratio = (total[0] / max(total[1], 1e-30)) ** 0.5
    moved = float((means[0] - means[1]).square().sum())
    places = float((spreads[0] - spreads[1]).abs().sum()) / max(total[1], 1e-30)
    far = ""
    if not 0.8 < ratio < 1.25:
        shares = [drops(partial(_drawn, t, more, 1)) for t in (mine, other)]
        rates = [", ".join(sorted({f"{p:.0%}" for p in each})) for each in shares]
        told = f" (it drops {rates[0]}, the reference {rates[1]})"
        told *= rates[0] != rates[1]
        far = f"dropout changes outputs {ratio:.2g} times as much{told}"
    elif moved > 4 * sum(total) / _DRAWS:
        far = f"the mean of {_DRAWS} draws is another"
    elif places > _PLACES:
        far = "dropout changes other outputs, as if it stood elsewhere,"
    yield words, far, tell


def _once(more: CallOptions, t: Probe) -> Tensor:
    return t.run(t.x(), **more(t))


def _with_gradients(more: CallOptions, t: Probe) -> Tensor:
    with torch.enable_grad():
        return t.run(t.x().requires_grad_(), **more(t))


def error_words(error: Exception) -> str:
    """Says what was raised, and at which line of the layer."""
    return f"{type(error).__name__} ({first_line(error)}{raised_at(error)})"


def _gradients_apart(mine: Probe, other: Probe, more: CallOptions) -> str:
    """Compares the input's gradient in training mode, where both draw the same."""
    grads = []
    for each in (mine, other):
        run, x = fresh(each), each.x().requires_grad_()
        run.layer.train()
        torch.manual_seed(each.seed)
        with torch.enable_grad():
            loss = (run.run(x, **more(run)) * each.x(seed=5)[..., :1]).sum()
            found = torch.autograd.grad(loss, x, allow_unused=True)[0]
        grads.append(torch.zeros_like(x) if found is None else found)
    return far_apart(grads[0], grads[1], 1e-4)


def _drawn(t: Probe, more: CallOptions, times: int, seed: int = 0) -> Tensor:
    run = fresh(t)
    run.layer.train()
    torch.manual_seed(t.seed + seed)
    with torch.no_grad():
        return run.run(t.x().repeat(times, 1, 1), **more(t))
