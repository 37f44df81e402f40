"""The checks of the reader's code: each usual mistake is made, and must be named.

``tests/mistakes`` holds a file for each chapter's checks: what readers write, in
``MISTAKES`` with the words that it must meet, in ``RIGHT`` where it is right.
"""

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from attention_lib import exercises
from attention_lib.exercises.verdict import NOT_YET, Verdict, judge, run
from tests.answers import silent_at

# The first file serves four modules, and what all checks share.
FIRST = ["toy", "attention", "masks", "leaks", "verdict"]
FILES = {
    path.stem: import_module(f"tests.mistakes.{path.stem}")
    for path in sorted((Path(__file__).parent / "mistakes").glob("*.py"))
}
NUMBERS = [
    "slow_pairs",
    *("temperature", "head_width", "parameter_count", "visible_pairs"),
    "multi_head_count",
    *("place_with_itself", "trained_positions", "block_parameters"),
    *("model_parameters", "entropy", "cache_bytes", "shared_bytes", "latent_bytes"),
    *("flash_bytes", "both_caches", "window_layers", "batch_steps", "flops"),
    "faulty_lines",
]
CHECKS = [name.removeprefix("check_") for name in exercises.__all__ if "check_" in name]
FUNCTIONS = sorted(set(CHECKS) - set(NUMBERS))
MISTAKES, RIGHT = (
    [
        pytest.param(file, name, index, id=f"{name}-{index}")
        for file, module in FILES.items()
        for name, cases in getattr(module, kind).items()
        for index in range(len(cases))
    ]
    for kind in ("MISTAKES", "RIGHT")
)
# Each function that leaks or sees order, and where a finder may say nothing of it.
FINDERS = [
    ("first", "leak_finder", True),
    ("positions", "order_finder", False),
    ("health_checks", "mixing_finder", False),
]
SILENT = [(*finder, place) for finder in FINDERS for place in range(1, 10)]
# What would give a solution away; the reader's own line or type may hold it.
OWN = r" in `.*`.*|of type .*|<lambda>"
CODE = (
    r"keepdims|axis=|dim=|tril|np\.|torch\.|view\(|softmax\(|\*\*|\.m?T\b|@|None|<|=="
)


def check(name, answer):
    return getattr(exercises, f"check_{name}")(answer)


@cache
def of_mistake(file, name, index):
    return check(name, FILES[file].MISTAKES[name][index][0])


@cache
def of_right(file, name, index):
    return check(name, FILES[file].RIGHT[name][index])


@cache
def of_silent(file, name, otherwise, place):
    return check(name, silent_at(place, otherwise))


@pytest.mark.parametrize(("file", "name", "index"), MISTAKES)
def test_check_names_the_mistake(file, name, index):
    verdict = of_mistake(file, name, index)
    assert verdict.passed is False
    assert FILES[file].MISTAKES[name][index][1] in verdict.message
    given_away = f"{CODE}|{getattr(FILES[file], 'CODE', CODE)}"
    assert not re.search(given_away, re.sub(OWN, "", verdict.message))


@pytest.mark.parametrize(("file", "name", "index"), RIGHT)
def test_check_passes_what_is_right(file, name, index):
    verdict = of_right(file, name, index)
    assert verdict.passed is True, verdict


@pytest.mark.parametrize("case", SILENT)
def test_finder_names_where_nothing_comes_back(case):
    verdict = of_silent(*case)
    assert verdict.passed is False
    assert verdict.message.startswith("Nothing comes back for ")


@pytest.mark.parametrize("file", FILES)
def test_every_message_is_tested(spoken, file):
    verdicts = [
        *(of_mistake(*case.values) for case in MISTAKES if case.values[0] == file),
        *(of_right(*case.values) for case in RIGHT if case.values[0] == file),
        *(of_silent(*case) for case in SILENT if case[0] == file),
        *(check("softmax", 3), NOT_YET),
    ]
    said = " ".join(verdict.message for verdict in verdicts)
    modules = FIRST if file == "first" else [file]
    assert [words for words in spoken(*modules) if words not in said] == []


def test_every_module_of_checks_has_its_mistakes():
    folder = Path(exercises.__path__[0])
    others = {path.stem for path in folder.glob("*.py")} - {"__init__", *FIRST}
    assert {"first", *others} == set(FILES)


# What holds for every check, whatever it checks.


def broken(*inputs, **options):
    raise ValueError


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("stub", [..., None])
def test_check_waits_for_an_answer(name, stub):
    assert check(name, stub) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_waits_for_a_function_to_be_written(name):
    assert check(name, lambda *inputs: ...) is NOT_YET
    assert check(name, lambda *inputs: None) is NOT_YET


def test_check_waits_for_a_function_half_written():
    assert check("attention", FILES["first"].attention_half_written) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_catches_an_exception(name):
    message = check(name, broken).message
    assert message == "Your code raised ValueError in `raise ValueError`."


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_is_ready_for_whatever_comes(name):
    assert "Give the function itself, not a result (int)" in check(name, 3).message
    for came in [(1, 2), np.eye(2), [[]]]:
        assert check(name, lambda *inputs, came=came: came).passed is False


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_says_what_came_instead(name):
    finders = "leak_finder", "order_finder", "offset_finder", "mixing_finder"
    others = dict.fromkeys(finders, "a str")
    words = others.get(name, "not a list" if name == "windows" else "function returns")
    assert words in check(name, lambda *inputs: "text").message


@pytest.mark.parametrize("name", CHECKS)
def test_check_leaves_random_numbers_alone(name):
    right = next(m.RIGHT[name][0] for m in FILES.values() if name in m.RIGHT)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    check(name, right)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


def test_check_of_a_layer_prints_nothing_of_its_own(capsys):
    check("multi_head", FILES["multi_head"].layer())
    assert capsys.readouterr().out == ""


def test_run_names_the_reader_s_own_line_and_lets_the_reader_stop_it():
    def answer():
        return torch.ones(2) @ torch.ones(3)

    assert "in `return torch.ones(2) @ torch.ones(3)`" in run(answer).message
    with pytest.raises(KeyboardInterrupt):
        run(Mock(side_effect=KeyboardInterrupt))


def test_judge_leaves_its_inputs_as_they_are():
    x = torch.zeros(3)
    judge(torch.Tensor.add_, (x, 1), torch.ones(3))
    assert x.tolist() == [0, 0, 0]


def test_verdict_is_one_line():
    for passed, mark in [(True, "✓"), (False, "✗"), (None, "○")]:
        assert repr(Verdict(passed, "a\n  b")) == f"{mark} a b"
