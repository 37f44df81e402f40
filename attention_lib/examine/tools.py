"""Probes by counting and by tools: parameters, FLOPs, devices, compile and export."""

import copy
import logging
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.formula import find_roles
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    first_line,
    or_else,
)
from attention_lib.examine.probe import LENGTH, LONG, Probe
from attention_lib.timing import count_flops


def probe_parameters(probe: Probe) -> str:
    """Count the parameters, and test that no two parts start with the same numbers."""
    weights = dict(probe.original.named_parameters())
    for name, weight in probe.original.named_parameters(remove_duplicate=False):
        if name not in weights:
            first = next(known for known, each in weights.items() if each is weight)
            raise FaultError(f"{name} is {first}: one weight under two names")
    wide = {name: weight for name, weight in weights.items() if weight.ndim == 2}
    drawn = (name for name, each in wide.items() if each.numel() > 1 and each.std() > 0)
    for name, other in product(drawn, wide):
        one, two = wide[name], wide[other]
        if other > name and one.shape == two.shape and torch.equal(one, two):
            raise FaultError(f"{other} starts with the same numbers as {name}")
    count = f"{sum(p.numel() for p in weights.values()):,}"
    if (roles := find_roles(probe.original)) is None:
        raise NotApplicableError(f"{count}; what each is for is not known by its name")
    parts = [each for each in roles[:4] if isinstance(each, Tensor)]
    shapes = ", ".join(f"{w.shape[0]}·{w.shape[1]}" for w in parts)
    biases = sum(bias is not None for bias in roles.biases)
    return f"{count} = {shapes}" + (f", {biases} with a bias" if biases else "")


def probe_flops(probe: Probe) -> str:
    """Test that each weight works once per token, scores and mixing by the square."""
    layer = probe.copied(torch.float32)
    short, long = (
        count_flops(lambda x: probe.run(x, layer=layer), probe.x(1, n).float())
        for n in (8, 16)
    )
    square = (long - 2 * short) / (2 * 8**2)
    line = (short - square * 8**2) / 8
    wanted = 2 * sum(p.numel() for p in layer.parameters() if p.ndim == 2)
    words = f"{line:,.0f}·T + {square:,.0f}·T²"
    if square == 0:
        raise NotApplicableError(f"{words}: the counter does not see its kernel")
    if (roles := find_roles(probe.original)) is None:
        words += f"; all matrices once per token would be {wanted:,}·T"
        raise NotApplicableError(words)
    width = 4 * roles.query.shape[0]
    if (line, square) != (wanted, width):
        raise FaultError(f"{words}, the formula says {wanted:,}·T + {width:,}·T²")
    return f"{words}, as the formula says"


def probe_device(probe: Probe) -> str:
    """Test on ``meta`` that it makes nothing on a fixed device."""
    layer = copy.deepcopy(probe.original).to("meta", torch.float32)
    x = probe.x().to("meta", torch.float32)
    found = probe.run_causal(x, layer=layer)
    if not found.is_meta:
        raise FaultError(f"the output lies on {found.device}, the input does not")
    try:
        if "mask" in probe.takes:
            probe.run_causal(x, probe.padding([4, 6]).to("meta"), layer=layer)
    except Exception as error:  # of the user's own call, not of the layer?
        steps = [step.f_code for step, _ in traceback.walk_tb(error.__traceback__)]
        own = [code for code in steps if "/torch/" not in code.co_filename]
        if own[-1] is not getattr(probe.calls, "__code__", None):
            raise
        return "every tensor is on the input's device; calls= reads the mask"
    return "every tensor that it makes is on the input's device"


class _Run(nn.Module):
    """The layer with the call that is examined, as tools want it."""

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self.layer, self.probe, self.options = probe.layer, probe, probe.causal_options

    def forward(self, x: Tensor) -> Tensor:
        return self.probe.run(x, layer=self.layer, **self.options)


def _quietly(work: Callable[[], Any]) -> Any:
    """Run a tool without its warnings and logs."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    finally:
        logging.disable(logging.NOTSET)


def probe_compile(probe: Probe) -> str:
    """Test that ``torch.compile`` takes it in one piece and gives the same."""
    run = _Run(probe)
    torch._dynamo.reset()
    compiled = torch.compile(run, backend="eager", fullgraph=True)
    try:
        for length in (LENGTH, LENGTH + 3):
            found = _quietly(partial(compiled, x := probe.x(2, length)))
            words = f"compiled, it is {{}} apart at T = {length}"
            probe.expect_same(found, run(x), words)
    finally:
        torch._dynamo.reset()
    return "in one graph; 0 apart"


def probe_export(probe: Probe) -> str:
    """Test that ``torch.export`` takes it for any batch and length."""
    from torch.export import Dim, export

    run, lengths = _Run(probe), (512, 256, 128, 64, LONG, 16)
    taken = (n for n in lengths if or_else(None, run, probe.x(1, n)) is not None)
    longest = next(taken, LENGTH)  # a table of positions has an end
    sizes = {"x": {0: Dim("batch"), 1: Dim("time", min=2, max=longest)}}
    work = partial(export, run, (probe.x(3),), dynamic_shapes=sizes)
    try:
        graph = _quietly(work).module()
    except Exception as error:
        words = f"{type(error).__name__}: {first_line(error).partition('!')[0]}"
        raise FaultError(f"refused for open sizes: {words}") from error
    for length in (2, LENGTH, min(LENGTH + 5, longest)):
        x = probe.x(4, length)
        words = f"exported, it is {{}} apart at T = {length}"
        probe.expect_same(graph(x), run(x), words)
    most = "" if longest == 512 else f" up to {longest}"
    return f"for any batch and length{most}; 0 apart"
