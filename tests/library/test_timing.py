"""Kernels, times on a clock that only the calls move, FLOPs and saved bytes."""

import os

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_lib.mha_variants import make_mha
from attention_lib.timing import (
    Comparison,
    compare_times,
    count_flops,
    kernels_of,
)

FOUR = torch.zeros(2, 3, 4, 8)


@pytest.mark.parametrize(
    ("inputs", "options", "kernel"),
    [
        ((FOUR, FOUR, FOUR), {}, "flash"),
        ((FOUR[0], FOUR[0], FOUR[0]), {}, "math"),
        ((FOUR, FOUR, FOUR[..., :6]), {}, "math"),
        ((FOUR, FOUR, FOUR), {"dropout_p": 0.5}, "math"),
        ((FOUR, FOUR, FOUR), {"is_causal": True}, "flash"),
    ],
)
def test_kernels_of_says_which_kernel_ran(inputs, options, kernel):
    assert kernels_of(lambda: F.scaled_dot_product_attention(*inputs, **options)) == [
        kernel
    ]


def test_kernels_of_agrees_with_the_kernel_that_was_forced():
    with sdpa_kernel(SDPBackend.MATH):
        found = kernels_of(lambda: F.scaled_dot_product_attention(FOUR, FOUR, FOUR))
    assert found == ["math"]


def test_kernels_of_names_each_call_and_nothing_else(capfd):
    """Not what is written by hand, and no backward; standard error stays empty."""

    def twice():
        query = FOUR.clone().requires_grad_()
        out = F.scaled_dot_product_attention(query, FOUR, FOUR)
        F.scaled_dot_product_attention(FOUR[0], FOUR[0], FOUR[0])
        out.sum().backward()

    assert kernels_of(twice) == ["flash", "math"]
    assert kernels_of(lambda: (FOUR @ FOUR.mT).softmax(-1) @ FOUR) == []
    assert capfd.readouterr().err == ""


def test_kernels_of_gives_standard_error_back_after_a_failure(capfd):
    with pytest.raises(ZeroDivisionError):
        kernels_of(lambda: 1 / 0)
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"


class Clock:
    """Moved by the calls alone; all take twice as long in every second round."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def __call__(self):
        return self.now

    def way(self, name, seconds):
        def call():
            busy = 2 if self.calls.count(name) % 2 else 1
            self.calls.append(name)
            self.now += seconds * busy

        return call


def test_compare_takes_turns_and_divides_within_a_round():
    clock = Clock()
    ways = {"slow": clock.way("slow", 4.0), "fast": clock.way("fast", 1.0)}
    found = compare_times(ways, rounds=5, min_seconds=0.5, clock=clock, progress=False)
    assert clock.calls == ["slow", "slow", "fast", "fast"] + ["slow", "fast"] * 5
    assert found.seconds == {"slow": [4, 8, 4, 8, 4], "fast": [1, 2, 1, 2, 1]}
    assert found.ratios("fast") == [0.25] * 5
    assert (found.median("fast"), found.faster("fast"), found.faster("slow")) == (
        0.25,
        5,
        0,
    )


def test_compare_repeats_what_is_short():
    clock = Clock()
    call = clock.way("short", 1.0)
    found = compare_times({"short": call}, rounds=1, min_seconds=6.0, clock=clock)
    assert len(clock.calls) == 2 + 4  # 1 + 2 + 1 + 2 seconds
    assert found.seconds == {"short": [1.5]}


def test_a_comparison_reads_as_a_table():
    found = Comparison({"a": [2.0, 1.0, 4.0], "bb": [1.0, 2.0, 1.0]})
    assert str(found).splitlines() == [
        "    median  lowest  highest  faster in",
        "a     1.00    1.00     1.00    0 of 3",
        "bb    0.50    0.25     2.00    2 of 3",
    ]


@pytest.mark.parametrize("kind", ["wrapper", "split", "sdpa", "torch"])
def test_counted_flops_are_those_of_the_formula(kind):
    x = torch.randn(2, 10, 12)
    wanted = 8 * 2 * 10 * 12**2 + 4 * 2 * 10**2 * 12
    assert count_flops(make_mha(kind, 12, 3), x) == wanted
    with torch.no_grad():
        assert count_flops(make_mha(kind, 12, 3).eval(), x) == wanted
