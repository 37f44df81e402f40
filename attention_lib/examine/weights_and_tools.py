"""Checks of what a layer is made of: gradients, weights, work; and what tools say.

Shapes: B batch, T length, M d_model.
"""

import copy
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.behaviour import (
    NOT_APPLICABLE,
    Said,
    apart,
    first_line,
    size,
)
from attention_lib.examine.counting import count_flops
from attention_lib.examine.op_counter import watched
from attention_lib.examine.parameter_roles import find_roles
from attention_lib.examine.probe import LENGTH, LONG, Probe
from attention_lib.reproducibility import seeded


def probe_gradients(s: Probe) -> Said:
    """Gradients reach every weight, and are what small steps of the weights show."""
    x = s.x().requires_grad_()
    answer = s.x(seed=5)  # the loss is a sum with random weights
    weights = {n: p for n, p in s.layer.named_parameters() if p.requires_grad}
    found = s.run(x, **s.hides_future)
    mixed = answer[..., :1].expand_as(found) + s.x(seed=6)[..., :1] * found.detach()
    if not found.requires_grad:
        return "fails", "no gradient comes back from the output"
    if strange := _unregistered(found, [x, *weights.values()]):
        return "fails", f"it trains {strange}, which is no parameter of the layer"
    grads = torch.autograd.grad(
        (found * mixed).sum(), [x, *weights.values()], allow_unused=True
    )

    def loss() -> float:
        with torch.no_grad():
            return float((s.run(x, **s.hides_future) * mixed).sum())

    for name, grad in zip(weights, grads[1:], strict=True):
        if grad is None or (grad.ndim > 1 and float(grad.abs().max()) == 0):
            way = torch.randn(weights[name].shape, generator=seeded(7))
            if abs(_slope(loss, weights[name], way.to(weights[name]), 1e-3)) > 1e-6:
                return "fails", f"{name} changes the output, and gets no gradient"
    slack = _slack(s)
    for (name, tensor), grad in zip(
        {"the input": x, **weights}.items(), grads, strict=True
    ):
        if grad is not None and not grad.isfinite().all():
            return "fails", f"the gradient of {name} is nan"
        way = torch.randn(tensor.shape, generator=seeded(7)).to(tensor)
        said = 0.0 if grad is None else float((grad * way).sum())
        seen = []
        for slope in _slopes(loss, tensor, way, wide=s.dtype == torch.float64):
            seen.append(slope)
            if abs(slope - said) <= slack * max(abs(slope), abs(said), 1.0):
                break
        else:
            words = f"the gradient says {said:.2f}, a small step shows {seen[0]:.2f}"
            return "fails", f"{name}: {words}"
        if grad is None or (tensor.ndim > 1 and float(grad.abs().max()) == 0):
            return "fails", f"{name} has no effect on the output"
        if wrong := _idle_rows(s.layer, name, grad):
            return "fails", wrong
    return (
        "holds",
        f"reach all {len(weights)} weights and the input, as small steps show",
    )


def _slopes(
    loss: Callable[[], float], tensor: Tensor, way: Tensor, *, wide: bool
) -> Iterator[float]:
    """Tries steps of several sizes: small ones meet rounding, large ones bend.

    From two of them follows a slope without most of the bend.
    """
    found = []
    for step in (1e-5, 1e-3, 2e-3, 1e-2, 2e-2) if wide else (1e-3, 1e-2, 2e-2):
        found.append(_slope(loss, tensor, way, step))
        yield found[-1]
        if step in (2e-3, 2e-2):
            yield (4 * found[-2] - found[-1]) / 3


def _slack(s: Probe) -> float:
    """How far a gradient may be from what steps show, by what it computes in.

    Many layers that are called in float64 compute the softmax or norms in float32.
    """
    with watched() as types:
        s.run(s.x(), **s.hides_future)
    narrow = any(torch.float32 in given for given in types.values())
    return 0.1 if s.dtype == torch.float32 else 0.02 if narrow else 5e-3


def _slope(
    loss: Callable[[], float], tensor: Tensor, way: Tensor, step: float
) -> float:
    """How steep the loss is along a way, by two small steps."""
    with torch.no_grad():
        tensor += step * way
        up = loss()
        tensor -= 2 * step * way
        down = loss()
        tensor += step * way
    return (up - down) / (2 * step)


def _unregistered(found: Tensor, known: list[Tensor]) -> str:
    """Looks through the graph for a tensor that is trained and unknown."""
    ids, seen, todo = {id(tensor) for tensor in known}, set(), [found.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in ids:
            return f"a tensor of {tuple(leaf.shape)}"
        todo += [following for following, _ in node.next_functions]
    return ""


def _idle_rows(layer: nn.Module, name: str, grad: Tensor) -> str:
    """Says which rows or columns of a linear layer get no gradient at all."""
    owner = layer.get_submodule(name.rpartition(".")[0]) if "." in name else layer
    if grad.ndim != 2 or not isinstance(owner, nn.Linear):
        return ""
    for axis, word in ((1, "row"), (0, "column")):
        idle = (grad == 0).all(dim=axis)
        if idle.any():
            return f"{int(idle.sum())} of {len(idle)} {word}s of {name} have no effect"
    return ""


def probe_parameters(s: Probe) -> Said:
    """How many there are, and that no two parts start with the same numbers."""
    own = dict(s.original.named_parameters())
    for name, weight in s.original.named_parameters(remove_duplicate=False):
        if name not in own:
            first = next(known for known, each in own.items() if each is weight)
            return "fails", f"{name} is {first}: one weight under two names"
    count = sum(p.numel() for p in own.values())
    for name, weight in own.items():
        if weight.ndim == 2 and weight.numel() > 1 and weight.std() > 0:
            for other, second in own.items():
                if other <= name or second.shape != weight.shape:
                    continue
                if torch.equal(second, weight):
                    return "fails", f"{other} starts with the same numbers as {name}"
    roles = find_roles(s.original)
    if roles is None:
        return NOT_APPLICABLE, f"{count:,}; what each is for is not known by its name"
    parts = [each for each in roles[:4] if isinstance(each, Tensor)]
    shapes = ", ".join(f"{w.shape[0]}·{w.shape[1]}" for w in parts)
    biases = sum(bias is not None for bias in roles.biases)
    return "holds", f"{count:,} = {shapes}" + (
        f", {biases} with a bias" if biases else ""
    )


def probe_flops(s: Probe) -> Said:
    """Each weight works once per token; scores and mixing grow with the square."""
    layer = s.copied(torch.float32)
    short, long = (
        count_flops(lambda x: s.run(x, layer=layer), s.x(1, n).float()) for n in (8, 16)
    )
    square = (long - 2 * short) / (2 * 8**2)
    line = (short - square * 8**2) / 8
    wanted = 2 * sum(p.numel() for p in layer.parameters() if p.ndim == 2)
    words = f"{line:,.0f}·T + {square:,.0f}·T²"
    roles = find_roles(s.original)
    if square == 0:
        return NOT_APPLICABLE, f"{words}: the counter does not see its kernel"
    if roles is None:
        return (
            NOT_APPLICABLE,
            f"{words}; all matrices once per token would be {wanted:,}·T",
        )
    width = 4 * roles.query.shape[0]
    if (line, square) == (wanted, width):
        return "holds", f"{words}, as the formula says"
    return "fails", f"{words}, the formula says {wanted:,}·T + {width:,}·T²"


class _Run(nn.Module):
    """The layer with the call that is examined, as tools want it."""

    def __init__(self, s: Probe, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.subject, self.options = layer, s, s.hides_future

    def forward(self, x: Tensor) -> Tensor:
        return self.subject.run(x, layer=self.layer, **self.options)


def _quietly(work: Callable[[], Any]) -> Any:
    """Runs a tool that warns and logs whatever it does not like."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    finally:
        logging.disable(logging.NOTSET)


def probe_compile(s: Probe) -> Said:
    """``torch.compile`` takes it in one piece, and gives the same."""
    run = _Run(s, s.layer)
    torch._dynamo.reset()
    compiled = torch.compile(run, backend="eager", fullgraph=True)
    try:
        for length in (LENGTH, LENGTH + 3):
            x = s.x(2, length)
            with torch.no_grad():
                change = apart(_quietly(partial(compiled, x)), run(x))
            if change > s.tolerance:
                return "fails", f"compiled, it is {size(change)} apart at T = {length}"
    finally:
        torch._dynamo.reset()
    return "holds", "in one graph; 0 apart"


def probe_export(s: Probe) -> Said:
    """``torch.export`` takes it for any batch and length."""
    from torch.export import Dim, export

    run = _Run(s, s.layer)
    longest = _longest(s)
    sizes = {"x": {0: Dim("batch"), 1: Dim("time", min=2, max=longest)}}
    with torch.no_grad():
        try:
            graph = _quietly(
                lambda: export(run, (s.x(3),), dynamic_shapes=sizes)
            ).module()
        except Exception as error:
            words = first_line(error).partition("!")[0]
            return "fails", f"refused for open sizes: {type(error).__name__}: {words}"
        for length in (2, LENGTH, min(LENGTH + 5, longest)):
            x = s.x(4, length)
            if (change := apart(graph(x), run(x))) > s.tolerance:
                return "fails", f"exported, it is {size(change)} apart at T = {length}"
    most = "" if longest == 512 else f" up to {longest}"
    return "holds", f"for any batch and length{most}; 0 apart"


def _longest(s: Probe) -> int:
    """A long text that the layer takes: one with a table of positions has an end."""
    return next((n for n in (512, 256, 128, 64, LONG, 16) if _takes(s, n)), LENGTH)


def _takes(s: Probe, length: int) -> bool:
    try:
        with torch.no_grad():
            s.run(s.x(1, length))
    except Exception:
        return False
    return True


def _raised_in(function: Callable[..., Any] | None, error: Exception) -> bool:
    """Whether an error was raised by the reader's own call, not by the layer."""
    code = getattr(function, "__code__", None)
    steps = [step for step, _ in traceback.walk_tb(error.__traceback__)]
    own = [step for step in steps if "/torch/" not in step.f_code.co_filename]
    return code is not None and bool(own) and own[-1].f_code is code


def probe_device(s: Probe) -> Said:
    """It makes nothing on a device of its own: tried on ``meta``."""
    layer = copy.deepcopy(s.original).to("meta")
    x = s.x().to("meta", torch.float32)
    layer = layer.to(torch.float32)
    found = s.run(x, layer=layer, **s.hides_future)
    if not found.is_meta:
        return "fails", f"the output lies on {found.device}, the input does not"
    if "mask" in s.takes:
        mask = s.hidden([4, 6]).to("meta")
        try:
            s.run(x, mask, layer=layer, **s.hides_future)
        except Exception as error:
            if not _raised_in(s.calls, error):
                raise
            return "holds", "all lies where the input lies; calls= reads the mask"
    return "holds", "all that it makes lies where the input lies"
