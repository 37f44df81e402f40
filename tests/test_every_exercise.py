"""What holds for every check of the reader's code, whatever it checks.

The mistakes and right answers of each check stand in the files named like its module.
"""

import pytest

from attention_lib import exercises
from attention_lib.exercises.verdict import NOT_YET

NUMBERS = [
    *("temperature", "head_width", "parameter_count", "visible_pairs"),
    "multi_head_count",
    *("place_with_itself", "trained_positions", "block_parameters"),
    *("model_parameters", "entropy"),
]
CHECKS = [name.removeprefix("check_") for name in exercises.__all__ if "check_" in name]
FUNCTIONS = sorted(set(CHECKS) - set(NUMBERS))


def check(name, answer):
    return getattr(exercises, f"check_{name}")(answer)


def broken(*inputs, **options):
    raise ValueError


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("stub", [..., None])
def test_check_waits_for_an_answer(name, stub):
    assert check(name, stub) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("stub", [..., None])
def test_check_waits_for_a_function_to_be_written(name, stub):
    assert check(name, lambda *inputs: stub) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_catches_an_exception(name):
    message = check(name, broken).message
    assert message == "Your code raised ValueError in `raise ValueError`."


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_wants_the_function_itself(name):
    assert "Give the function itself, not a result (int)" in check(name, 3).message
