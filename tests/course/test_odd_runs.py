"""The curves of exercise 8.1 come from runs, and its sentences hold for their seeds."""

import math
from itertools import pairwise

import pytest

from attention_lib.course.exercises.curves import CAUSES, CURVES, STEPS
from tests.course.odd_runs import CAUSES as ALL
from tests.course.odd_runs import odd_run, told

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


def floor():
    stories = told()[1]
    return sum(sum(it.surprises) for it in stories) / sum(
        len(it.words) for it in stories
    )


def jumps(losses):
    """How often a loss goes up by more than 0.1 after step 20."""
    return sum(b - a > 0.1 for a, b in pairwise(losses[4:]))


# What the check says of a run with each cause, of its training and its held-out losses.
SHOWS = {
    "double shift": lambda t, h: t[-1] < 1.2 and h[-1] > 6,
    "few texts": lambda t, h: t[-1] < 0.2 < 1.6 < h[-1] > 2 * min(h),
    "healthy": lambda t, h: min(t + h) > 0.6 and max(t[-3:] + h[-3:]) < 1,
    "high rate": lambda t, h: max(t[0:2]) > 5 and h[0] > math.log(69) and h[-1] > 2,
    "leak": lambda t, h: max(t[-1], h[-1]) < 0.4 and jumps(h) == 0,
    "no zero_grad": lambda t, h: min(t) < 1.7 < t[7] < t[11] < t[-1],
    "softmax first": lambda t, h: 3 < min(t + h) <= max(t + h) < math.log(69),
    "sorted texts": lambda t, h: jumps(t) > 2 and max(t[4:]) < 1.5,
    "wild batch": lambda t, h: max(t[5:8] + h[5:8]) < 1.1 and min(t[-4:]) > 3,
}


def of_seed(seed):
    return {cause: odd_run(seed, **options) for cause, options in ALL.items()}


@pytest.mark.no_cover
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("seed", SEEDS)
def test_each_cause_alone_shows_what_the_check_says_of_it(seed):
    runs = of_seed(seed)
    for cause, shows in SHOWS.items():
        found = {run for run, losses in runs.items() if shows(*losses)}
        assert found == {cause}
    low = {run for run, (_, outside) in runs.items() if outside[-1] < floor()}
    assert low == {"leak"}
    if seed == 0:
        for run, cause in CAUSES.items():
            for shown, made in zip(CURVES[run].values(), runs[cause], strict=True):
                assert len(shown) == len(made) == len(STEPS)
                # Rounding on other machines moves what comes later in a wild run.
                assert shown[:4] == pytest.approx(made[:4], abs=0.02), cause
                if cause in ("sorted texts", "few texts", "leak"):
                    assert shown == pytest.approx(made, abs=0.02), cause
