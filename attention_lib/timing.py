"""What a call costs: its kernels, its time, its FLOPs and the bytes that it keeps.

Kernels and times come from a run on the machine that asks, and hold for that machine.
"""

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from attention_lib.validation import (
    require_above_zero,
    require_calls,
    require_flags,
    require_function,
    require_positive,
    require_ways,
)

# The operators behind ``F.scaled_dot_product_attention`` and ``nn.MultiheadAttention``,
# by the beginning of their names, without "aten::".
KERNELS = {
    "_scaled_dot_product_attention_math": "math",
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_fused_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_native_multi_head_attention": "native layer",
}


def kernels_of(call: Callable[[], Any]) -> list[str]:
    """Names the kernels of attention that a call starts, in their order.

    Read from ``torch.profiler``, which notes each operator that runs; the call runs
    once. Backward's operators are left out.

    Args:
        call: what is run, without arguments.

    Returns:
        Of ``"flash"``, ``"efficient"``, ``"cudnn"`` (fused: no table of scores is
        kept), ``"math"`` (step by step), ``"native layer"`` (the path of its own of
        ``nn.MultiheadAttention``). Empty where attention is written out by hand.

    Raises:
        TypeError: what cannot be called.
    """
    require_calls(call=call)
    with _quiet(), profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    found = []
    for event in sorted(seen.events() or [], key=lambda event: event.time_range.start):
        name = event.name.removeprefix("aten::")
        if name.endswith("_backward"):
            continue
        found += [short for begin, short in KERNELS.items() if name.startswith(begin)]
    return found


@dataclass(frozen=True)
class Comparison:
    """Times of several ways, measured in turns. The first way is the reference."""

    seconds: dict[str, list[float]]  # of one call; one number per round

    def ratios(self, name: str) -> list[float]:
        """Gives, round by round, the time of a way over that of the first way."""
        own, first = self.seconds[name], next(iter(self.seconds.values()))
        return [a / b for a, b in zip(own, first, strict=True)]

    def median(self, name: str) -> float:
        """Gives the median of the ratios."""
        return statistics.median(self.ratios(name))

    def faster(self, name: str) -> int:
        """Counts the rounds in which a way took less time than the first one."""
        return sum(ratio < 1 for ratio in self.ratios(name))

    def __str__(self) -> str:
        width = max(map(len, self.seconds))
        lines = [f"{'':{width}}  median  lowest  highest  faster in"]
        for name in self.seconds:
            each = self.ratios(name)
            lines.append(
                f"{name:{width}}  {self.median(name):6.2f}  {min(each):6.2f}  "
                f"{max(each):7.2f}  {self.faster(name):3} of {len(each)}"
            )
        return "\n".join(lines)


def compare_times(
    ways: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = 9,
    at_least: float = 0.005,
    clock: Callable[[], float] = time.perf_counter,
    progress: bool = True,
) -> Comparison:
    """Measures several ways in turns: A B C, A B C, and so on.

    A busy time of the machine that lasts longer than a round then meets all ways
    alike; the median over the rounds leaves out a shorter one. Before the rounds each
    way runs twice: the first call pays for what is made only once.

    Args:
        ways: calls without arguments, by name; the first one is the reference.
        rounds: how often each way is measured.
        at_least: seconds; a way is called again within its turn until they are over,
            since a clock is no good at very short times.
        clock: gives the time in seconds.
        progress: show a bar, where a terminal shows it.

    Raises:
        TypeError: a way or a clock that cannot be called; no dict of ways.
        ValueError: no way; less than one round; no time at all.
    """
    require_ways(ways)
    require_positive(rounds=rounds)
    require_above_zero(at_least=at_least)
    require_calls(clock=clock)
    require_flags(progress=progress)
    for call in ways.values():
        call()
        call()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    bar = tqdm(range(rounds), "rounds", leave=False, disable=None if progress else True)
    for _ in bar:
        for name, call in ways.items():
            seconds[name].append(_time_of(call, at_least, clock))
    return Comparison(seconds)


def _time_of(
    call: Callable[[], Any], at_least: float, clock: Callable[[], float]
) -> float:
    """Gives the time of one call: the mean over as many as fill ``at_least``."""
    _wait()
    begin, calls, passed = clock(), 0, 0.0
    while passed < at_least:
        call()
        _wait()
        calls, passed = calls + 1, clock() - begin
    return passed / calls


def _wait() -> None:
    """Waits for the accelerator: a call comes back before its work is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the profiler's own lines, with their dates, away from standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def count_flops(function: Callable[..., Any], *inputs: Any) -> int:
    """Count the FLOPs of matrix products in one call.

    A multiplication and the addition after it are two floating-point operations.
    PyTorch's counter returns 0 for its fused kernel on a CPU, and for the fast path
    that ``nn.MultiheadAttention`` takes without gradients, so the call runs without
    both.

    Raises:
        TypeError: the first argument is not a function.
    """
    require_function("function", function)
    inputs = tuple(
        each.detach().requires_grad_() if _is_floats(each) else each for each in inputs
    )
    counter = FlopCounterMode(display=False)
    with torch.enable_grad(), counter, sdpa_kernel(SDPBackend.MATH):
        function(*inputs)
    return int(counter.get_total_flops())


def saved_bytes(function: Callable[..., Tensor], *inputs: Any) -> int:
    """Count the bytes that a call keeps for its gradients.

    Each piece of memory counts once, however many tensors view it. Parameters and
    inputs do not count: they are there in any case.

    Raises:
        TypeError: the first argument is not a function.
    """
    require_function("function", function)
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    given = {t.untyped_storage().data_ptr() for t in inputs if isinstance(t, Tensor)}
    if isinstance(function, nn.Module):
        given |= {p.untyped_storage().data_ptr() for p in function.parameters()}
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*inputs)
    del result
    return sum(size for start, size in kept.items() if start not in given)


def _is_floats(each: Any) -> bool:
    return isinstance(each, Tensor) and each.is_floating_point()
