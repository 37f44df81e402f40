"""What a call costs: its kernels, its time, its FLOPs and the bytes that it keeps.

Kernels and times come from a run on the machine that asks, and hold for that machine.
"""

import contextlib
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from attention_lib.validation import (
    require_above_zero,
    require_calls,
    require_choice,
    require_flags,
    require_function,
    require_instance,
    require_positive,
    require_timed_calls,
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
    """Name the attention kernels that a call starts, in order.

    Read from ``torch.profiler``, which records each operator that runs; the call runs
    once. Operators of the backward pass are left out.

    Args:
        call: what to run, without arguments.

    Returns:
        Any of ``"flash"``, ``"efficient"``, ``"cudnn"`` (fused: no table of scores is
        kept), ``"math"`` (step by step), ``"native layer"`` (the separate path of
        ``nn.MultiheadAttention``). Empty where attention is written out by hand.

    Raises:
        TypeError: something that cannot be called.
    """
    require_calls(call=call)
    with _quiet(), profile(activities=[ProfilerActivity.CPU]) as profiled:
        call()
    kernels = []
    for event in sorted(
        profiled.events() or [], key=lambda event: event.time_range.start
    ):
        name = event.name.removeprefix("aten::")
        if name.endswith("_backward"):
            continue
        kernels += [short for begin, short in KERNELS.items() if name.startswith(begin)]
    return kernels


@dataclass(frozen=True)
class Comparison:
    """Times of several calls, measured in turns. The first call is the reference."""

    seconds: dict[str, list[float]]  # of one call; one number per round

    def __post_init__(self) -> None:
        require_instance("seconds", self.seconds, Mapping)
        rounds = {name: len(times) for name, times in self.seconds.items()}
        if not all(rounds.values()) or len(set(rounds.values())) != 1:
            raise ValueError(
                f"seconds must hold one time per round of each call; got {rounds}"
            )

    def ratios(self, name: str) -> list[float]:
        """Return, round by round, the time of a call over that of the first."""
        require_choice("name", name, self.seconds)
        times, first = self.seconds[name], next(iter(self.seconds.values()))
        return [a / b for a, b in zip(times, first, strict=True)]

    def median(self, name: str) -> float:
        """Return the median of the ratios."""
        return statistics.median(self.ratios(name))

    def faster(self, name: str) -> int:
        """Count the rounds in which a call took less time than the first."""
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
    calls: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = 9,
    min_seconds: float = 0.005,
    clock: Callable[[], float] = time.perf_counter,
    progress: bool = True,
) -> Comparison:
    """Time several calls in turns: A B C, A B C, and so on.

    If the machine is busy for longer than a round, that affects all calls the same; the
    median over the rounds leaves out shorter disturbances. Before the rounds each call
    runs twice: the first run pays for what is made only once.

    Args:
        calls: without arguments, by name; the first one is the reference.
        rounds: how often each call is timed.
        min_seconds: a call is repeated within its turn for at least this long, since a
            clock is inexact for very short times.
        clock: returns the time in seconds.
        progress: show a bar, in a terminal.

    Raises:
        TypeError: a call or a clock that cannot be called; calls that are not a dict.
        ValueError: no calls; fewer than one round; a time that is not above 0; a clock
            that does not advance.
    """
    require_timed_calls(calls)
    require_positive(rounds=rounds)
    require_above_zero(min_seconds=min_seconds)
    require_calls(clock=clock)
    require_flags(progress=progress)
    for call in calls.values():
        call()
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    bar = tqdm(range(rounds), "rounds", leave=False, disable=None if progress else True)
    for _ in bar:
        for name, call in calls.items():
            seconds[name].append(_time_of(call, min_seconds, clock))
    return Comparison(seconds)


def _time_of(
    call: Callable[[], Any], min_seconds: float, clock: Callable[[], float]
) -> float:
    """Return the time of one run: the mean over as many as fill ``min_seconds``."""
    _wait()
    started = time.perf_counter()  # for a clock that stands still
    begin, runs, passed = clock(), 0, 0.0
    while passed < min_seconds:
        call()
        _wait()
        runs, passed = runs + 1, clock() - begin
        if passed <= 0 and time.perf_counter() - started > 2:
            raise ValueError("clock must advance; it did not for 2 seconds")
    return passed / runs


def _wait() -> None:
    """Wait for the accelerator: a call returns before its work is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the profiler's own output and warning away from standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events")
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


def _is_floats(each: Any) -> bool:
    return isinstance(each, Tensor) and each.is_floating_point()
