"""The measurement itself: `make benchmarks` runs it, and no other target does.

pytest-benchmark times each case. A case is one layer in one round; the rounds follow
each other (A B C, A B C, …), so that a busy time of the machine that lasts longer
than a round affects all the same.
"""

import math
import os
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch

from benchmarks import (
    decode,
    flash,
    growth,
    guessing,
    latent,
    layers,
    real,
    serving,
    steps,
)

ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "3"))
STEP_ROUNDS = 8 * ROUNDS  # a step is short, and its bound is close
TIMES = 2  # calls in a row, of which the fastest counts

# One thread, unless asked for, and the CPU's time: what other programs take meanwhile
# does not count. With more threads one busy core makes all wait, so the clock counts.
THREADS = int(os.environ.get("BENCHMARK_THREADS", "1"))
torch.set_num_threads(THREADS)
TIMER = time.process_time if THREADS == 1 else time.perf_counter
pytestmark = pytest.mark.benchmark(timer=TIMER)


def layer_cases() -> Iterator[Any]:
    for length in layers.LENGTHS:
        for mask in layers.MASKS:
            for which in layers.PASSES:
                for number in range(ROUNDS):
                    for name in layers.measured(mask):
                        yield number, name, length, mask, which


def step_cases() -> Iterator[Any]:
    for length in steps.LENGTHS:
        for number in range(STEP_ROUNDS):
            for name in steps.MODELS:
                yield number, name, length


def decode_cases() -> Iterator[Any]:
    for count in decode.NEW_TOKENS:
        for number in range(ROUNDS):
            for name in decode.MODELS:
                yield number, name, count


def real_cases() -> Iterator[Any]:
    for task in real.TASKS:
        for number in range(2 * ROUNDS):
            for name in real.MODELS:
                yield number, name, task


def latent_cases() -> Iterator[Any]:
    for number in range(ROUNDS):
        for name in latent.MODELS:
            yield number, name, latent.KEPT


def flash_cases() -> Iterator[Any]:
    for hidden in layers.MASKS:
        for which in layers.PASSES:
            for number in range(ROUNDS):
                for name in flash.WAYS:
                    yield number, name, hidden, which


def growth_cases() -> Iterator[Any]:
    for keys in growth.KEYS:
        for number in range(ROUNDS):
            for name in growth.WAYS:
                yield number, name, keys


def serving_cases() -> Iterator[Any]:
    for stream in serving.STREAMS:
        for number in range(ROUNDS):
            for name in serving.WAYS:
                yield number, name, stream


def guessing_cases() -> Iterator[Any]:
    for text in (guessing.STORIES, guessing.BOOK):
        for slots in guessing.SLOTS:
            for number in range(3 * ROUNDS):  # short, and the machine is not quiet
                for name in (guessing.PLAIN, guessing.GUESSED):
                    yield number, name, text, slots


def note_settings(benchmark: Any) -> None:
    benchmark.extra_info["threads"] = torch.get_num_threads()
    benchmark.extra_info["timer"] = TIMER.__name__
    benchmark.extra_info["instructions"] = torch.backends.cpu.get_cpu_capability()


@cache
def all_layers() -> dict[str, Any]:
    return layers.make_layers()


@cache
def step_call(name: str, length: int) -> Any:
    return steps.make_call(name, length)


@cache
def decode_call(name: str, count: int) -> Any:
    return decode.make_call(name, count)


@cache
def latent_call(name: str) -> Any:
    return latent.make_call(name)


@pytest.mark.parametrize(
    ("number", "name", "length", "mask", "which"), list(layer_cases())
)
def test_layer(
    benchmark: Any, number: int, name: str, length: int, mask: str, which: str
) -> None:
    own_mask = layers.make_mask(name, mask, length)
    call = layers.make_call(all_layers()[name], own_mask, length, which)
    note_settings(benchmark)
    benchmark.pedantic(call, rounds=TIMES, warmup_rounds=1)


@pytest.mark.parametrize(("number", "name", "length"), list(step_cases()))
def test_step(benchmark: Any, number: int, name: str, length: int) -> None:
    note_settings(benchmark)
    benchmark.pedantic(step_call(name, length), rounds=TIMES, warmup_rounds=1)


@pytest.mark.parametrize(("number", "name", "new_tokens"), list(decode_cases()))
def test_decode(benchmark: Any, number: int, name: str, new_tokens: int) -> None:
    note_settings(benchmark)
    benchmark.pedantic(decode_call(name, new_tokens), rounds=TIMES, warmup_rounds=1)


@pytest.mark.parametrize(("number", "name", "task"), list(real_cases()))
def test_real(benchmark: Any, number: int, name: str, task: str) -> None:
    note_settings(benchmark)
    benchmark.pedantic(real.make_call(name, task), rounds=TIMES, warmup_rounds=1)


@pytest.mark.parametrize(("number", "name", "kept"), list(latent_cases()))
def test_latent(benchmark: Any, number: int, name: str, kept: int) -> None:
    note_settings(benchmark)
    benchmark.pedantic(latent_call(name), rounds=10, warmup_rounds=2)


@pytest.mark.parametrize(("number", "name", "hidden", "which"), list(flash_cases()))
def test_flash(benchmark: Any, number: int, name: str, hidden: str, which: str) -> None:
    note_settings(benchmark)
    call = flash.make_call(name, hidden, which)
    benchmark.pedantic(call, rounds=TIMES, warmup_rounds=1)


@pytest.mark.parametrize(("number", "name", "keys"), list(growth_cases()))
def test_growth(benchmark: Any, number: int, name: str, keys: int) -> None:
    if reason := growth.missing(name, keys):
        pytest.skip(reason)
    note_settings(benchmark)
    benchmark.pedantic(growth.make_call(name, keys), rounds=1, warmup_rounds=1)


@pytest.mark.parametrize(("number", "name", "stream"), list(serving_cases()))
def test_serving(benchmark: Any, number: int, name: str, stream: int) -> None:
    note_settings(benchmark)
    requests = serving.make_stream(stream)
    if number == 0:
        serving.serve(name, requests[:2], TIMER)  # whatever is made only once
    served = benchmark.pedantic(serving.serve, (name, requests, TIMER))
    for when in ("first", "last"):
        times = [getattr(each, when) for each in served]
        benchmark.extra_info[when] = [None if math.isnan(t) else t for t in times]


@pytest.mark.parametrize(("number", "name", "text", "slots"), list(guessing_cases()))
def test_guessing(
    benchmark: Any, number: int, name: str, text: str, slots: int
) -> None:
    note_settings(benchmark)
    call = guessing.make_call(text, name, slots)
    passes = benchmark.pedantic(call, warmup_rounds=1).passes
    counted = map(sum, zip(*passes, strict=True))
    counts = dict(zip(("guessed", "accepted"), counted, strict=True))
    benchmark.extra_info.update(counts, passes=len(passes))
