"""The checks of the reader's code: each usual mistake is made, and must be named.

``tests/course/mistakes`` holds a file for each chapter's checks: what readers write, in
``MISTAKES`` with the words that it must meet, in ``RIGHT`` where it is right. The slips
of an exercise are such mistakes, with all their words, and its solution is right. Each
answer is checked once, in the number type of its chapter, and its verdict kept.
"""

import re
import time
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from attention_lib.course import exercises
from attention_lib.course.exercises.exercise import Exercise, NumberExercise
from attention_lib.course.exercises.verdict import NOT_YET, Verdict, judge, run
from tests.answers import broken, silent_at
from tests.exercises import FOUND, SOLUTIONS, TEXTS

# The checks and the library as readers meet them: their words, without jaxtyping's.
pytestmark = pytest.mark.usefixtures("shapes_unchecked")
FIRST = ["ch01", "ch02", "ch03"]
FILES = {
    path.stem: import_module(f"tests.course.mistakes.{path.stem}")
    for path in sorted((Path(__file__).parent / "mistakes").glob("*.py"))
}
# Those whose answer is a dictionary of names.
NAMES = ["causes"]
# The checks of all chapters, by their names; those made of data among them.
MODULES = {
    path.stem: import_module(f"attention_lib.course.exercises.{path.stem}")
    for path in sorted(Path(exercises.__path__[0]).glob("ch*.py"))
}
BY_NAME = {
    name.removeprefix("check_"): value
    for module in MODULES.values()
    for name, value in vars(module).items()
    if name.startswith("check_")
}
CHECKS = [*BY_NAME]
# Those that judge a number.
NUMBERS = ["temperature", "head_width"]
NUMBERS += [name for name in CHECKS if isinstance(BY_NAME[name], NumberExercise)]
FUNCTIONS = sorted({*CHECKS} - {*NUMBERS, *NAMES})
# Those whose class is no layer.
OBJECTS = ("cache", "delta_memory", "examiner", "graph", "lookup", "online_softmax")
OBJECTS += ("ring_process", "rotary", "small_bug", "small_server")
# Of those made of data, layers, and functions that return one array of fractions.
EXERCISES = [name for name in CHECKS if isinstance(BY_NAME[name], Exercise)]
LAYERS = [
    name
    for name in EXERCISES
    if isinstance(kind := BY_NAME[name].made(), type) and issubclass(kind, nn.Module)
]
ARRAYS = ["softmax", "attention", "linear", "head", "pruned"]
ARRAYS += ["multi_head", "positions", "position_table", "layer_norm", "pre_norm"]
ARRAYS += ["top_k", "moved_keys", "merge_changes", "grouped_decode"]
ARRAYS += ["sink_weights"]
ARRAYS += ["absorbed", "join_softmaxes", "fixed_weights", "attend_joined", "min_p"]
ARRAYS += ["whole_gradient", "duplicate_score", "without_head", "q4_0"]
# Each function that leaks or sees order, and where a finder may say nothing of it.
FINDERS = [
    ("ch03", "leak_finder", True),
    ("ch05", "order_finder", False),
    ("ch20", "mixing_finder", False),
]
SILENT = [(*finder, place) for finder in FINDERS for place in range(1, 10)]
# What would give a solution away; the reader's own line or type may hold it.
OWN = r" in `.*`.*|of type .*|<lambda>"
CODE = (
    r"keepdims|axis=|dim=|tril|np\.|torch\.|view\(|softmax\(|\*\*|\.m?T\b|@|None|<|=="
)
# The files of chapters that compute in float32; all others set float64.
SINGLE = [
    path.stem
    for path in (Path(__file__).parent / "mistakes").glob("ch*.py")
    if not any(
        "set_default_dtype(torch.float64)" in text
        for stem, text in TEXTS.items()
        if stem[:2] == path.stem[2:]
    )
]


def answers_of(file):
    """A file's mistakes and right answers, those that its exercises know among them."""
    mistakes, rights = dict(FILES[file].MISTAKES), dict(FILES[file].RIGHT)
    for check, value in vars(MODULES[file]).items():
        name = check.removeprefix("check_")
        if isinstance(value, Exercise | NumberExercise):
            mistakes[name] = [*value.mistakes, *mistakes.get(name, [])]
            rights[name] = [value.made(), *rights[name]]
    return {"MISTAKES": mistakes, "RIGHT": rights}


ANSWERS = {file: answers_of(file) for file in FILES}
# The chapters of the Chinese edition.
TRANSLATED = [f"ch{n:02}" for n in (*range(1, 9), 26)]
ENGLISH = re.compile(r"\b[a-z]+ [a-z]+ [a-z]{2,}\b|[a-z]{3,}\.(?!\w)")
SECONDS = 2.0  # of one processor: what else a machine does makes no difference


def check(name, answer):
    return BY_NAME[name](answer)


def drawn():
    """What the random numbers of PyTorch and NumPy come from."""
    numpy_s = np.random.get_state()[1]  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), numpy_s.tobytes()


@cache
def judged(kind, file, name, index, other_type=False):
    """The verdict on one of a file's answers, its seconds, and if nothing was drawn."""
    case = ANSWERS[file][kind][name][index]
    usual, start, before = torch.get_default_dtype(), time.process_time(), drawn()
    single = (file in SINGLE) != other_type
    torch.set_default_dtype(torch.float32 if single else torch.float64)
    try:
        verdict = check(name, case[0] if kind == "MISTAKES" else case)
    finally:
        torch.set_default_dtype(usual)
    return verdict, time.process_time() - start, before == drawn()


def of_mistake(*case):
    return judged("MISTAKES", *case)[0]


def of_right(*case):
    return judged("RIGHT", *case)[0]


@cache
def of_silent(file, name, otherwise, place):
    return check(name, silent_at(place, otherwise))


def cases(kind, *, file=None, name=None):
    """File, check and index of the answers of a kind: to a check, or of a file."""
    return [
        (its_file, its_name, index)
        for its_file, its_answers in ANSWERS.items()
        for its_name, answers in its_answers[kind].items()
        if file in (None, its_file) and name in (None, its_name)
        for index in range(len(answers))
    ]


@pytest.mark.parametrize("name", CHECKS)
def test_check_names_each_mistake(name):
    for case in cases("MISTAKES", name=name):
        file, _, index = case
        verdict = of_mistake(*case)
        assert verdict.passed is False, case
        assert ANSWERS[file]["MISTAKES"][name][index][1] in verdict.message, case
        given_away = f"{CODE}|{getattr(FILES[file], 'CODE', CODE)}"
        assert not re.search(given_away, re.sub(OWN, "", verdict.message)), case


@pytest.mark.parametrize("name", CHECKS)
def test_check_passes_all_that_is_right(name):
    for case in cases("RIGHT", name=name):
        assert of_right(*case).passed is True, (case, of_right(*case))


@pytest.mark.no_cover  # the same lines again
@pytest.mark.parametrize("name", CHECKS)
def test_check_passes_what_is_right_in_the_other_number_type(name):
    for case in cases("RIGHT", name=name):
        assert of_right(*case, True).passed is True, (case, of_right(*case, True))


@pytest.mark.parametrize("case", SILENT)
def test_finder_names_where_nothing_comes_back(case):
    verdict = of_silent(*case)
    assert verdict.passed is False
    assert verdict.message.startswith("Nothing comes back for ")


@pytest.mark.parametrize("module", [*FILES, "shared", "verdict"])
def test_every_message_is_tested(spoken, module):
    # What all checks share is said in the first chapters.
    changed = judge(lambda x: x.add_(1).neg(), (torch.zeros(1),), torch.ones(1))
    verdicts = [check("softmax", 3), NOT_YET, judge(str, (1,), "2"), changed]
    for file in [module] if module in FILES else FIRST:
        verdicts += [of_mistake(*case) for case in cases("MISTAKES", file=file)]
        verdicts += [of_right(*case) for case in cases("RIGHT", file=file)]
        verdicts += [of_silent(*case) for case in SILENT if case[0] == file]
    said = " ".join(verdict.message for verdict in verdicts)
    assert [words for words in spoken(module) if words not in said] == []


@pytest.mark.parametrize("file", TRANSLATED)
def test_every_message_is_said_in_chinese(monkeypatch, file):
    monkeypatch.setenv("ATTENTION_LANGUAGE", "zh")
    silent = [of_silent(*case) for case in SILENT if case[0] == file]
    own = [of_mistake(*case) for case in cases("MISTAKES", file=file)]
    right = [of_right(*case) for case in cases("RIGHT", file=file)]
    for verdict in (*own, *right, *silent):
        # Of an error only who raised it: its words come from elsewhere.
        said = re.sub(r"`[^`]*`|“[^”]*”|报错 .*", "", repr(verdict))
        assert re.search("[\u4e00-\u9fff]", said), verdict
        assert not ENGLISH.search(said), verdict


def test_every_module_of_checks_has_its_mistakes():
    assert {*MODULES} == {*FILES}


def test_every_check_has_its_exercise_ten_mistakes_and_ten_right_answers():
    assert {*SOLUTIONS} == {*CHECKS}
    assert len(FOUND) == len(SOLUTIONS)
    for kind in ("MISTAKES", "RIGHT"):
        count = Counter(name for _, name, _ in cases(kind))
        assert count.keys() == SOLUTIONS.keys()
        assert [name for name in count if count[name] < 10] == []


@pytest.mark.parametrize("name", CHECKS)
def test_check_takes_no_time(name):
    for kind in ("MISTAKES", "RIGHT"):
        for case in cases(kind, name=name):
            seconds = judged(kind, *case)[1]
            if seconds >= SECONDS:  # PyTorch loads a part of itself at its first step
                seconds = judged.__wrapped__(kind, *case)[1]
            assert seconds < SECONDS


def steps_of(solution):
    """What a solution computes: its lines, without names, comments and returns."""
    lines = [line.split("  #")[0].strip() for line in solution.splitlines()]
    lines = [x for x in lines if not x.startswith(("#", "def ", "for ", "if "))]
    steps = {re.sub(r"^(return|[\w, ]+=) +", "", line) for line in lines}
    return {step for step in {*steps, *lines} if len(step) > 7}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_verdict_holds_no_line_of_the_solution(name):
    steps = steps_of(SOLUTIONS[name])
    assert steps
    rights = [
        ANSWERS[file]["RIGHT"][name][index]
        for file, _, index in cases("RIGHT", name=name)
    ]
    rights = [answer for answer in rights if isinstance(answer, int | float)]
    numbers = {form for right in rights for form in (f"{right:g}", f"{right:,}")}
    for case in cases("MISTAKES", name=name):
        # A line of the reader's own may be the right one.
        message = re.sub(r" in `.*`", "", of_mistake(*case).message)
        assert [step for step in steps if step in message] == []
        told = set(re.findall(r"\d[\d,]*(?:\.\d+)?", message))
        assert not told & numbers, message


# What holds for every check, whatever it checks.


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("stub", [..., None])
def test_check_waits_for_an_answer(name, stub):
    assert check(name, stub) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_waits_for_a_function_to_be_written(name):
    assert check(name, lambda *inputs: ...) is NOT_YET
    assert check(name, lambda *inputs: None) is NOT_YET


def test_check_waits_for_a_function_half_written():
    assert check("attention", FILES["ch01"].attention_half_written) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_catches_an_exception(name):
    message = check(name, broken).message
    assert message == "Your code raised ValueError in `raise ValueError`."


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_is_ready_for_whatever_comes(name):
    assert "Give the function itself, not a result (int)" in check(name, 3).message
    strange = np.array("x"), 10**400, torch.zeros(2, 2, dtype=torch.complex64)
    for came in [(1, 2), np.eye(2), [[]], *strange]:
        assert check(name, lambda *inputs, came=came: came).passed is False


def then_nan(right, count):
    """An answer that is right that many times, and then all NaN."""
    calls = iter(range(10_000))

    def answer(*inputs):
        came = right(*inputs)
        return came if next(calls) < count else came * torch.nan

    return answer


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("count", range(4))
def test_check_says_of_nan_that_it_is_nan(name, count):
    verdict = check(name, then_nan(BY_NAME[name].made(), count))
    about = "NaN or infinity|overflow|0 is divided by 0"
    assert verdict.passed or re.search(about, verdict.message), verdict


def giving(layer, dtype):
    """The layer, with its output in a number type."""

    class Giving(layer):
        def forward(self, *given, **options):
            return super().forward(*given, **options).to(dtype)

    return Giving


@pytest.mark.no_cover
@pytest.mark.parametrize("name", LAYERS)
def test_check_of_a_layer_takes_single_precision_and_no_complex_numbers(name):
    layer = BY_NAME[name].made()
    assert check(name, giving(layer, torch.float32)).passed
    words = "does not hold plain numbers"
    assert words in check(name, giving(layer, torch.complex64)).message


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_says_what_came_instead(name):
    finders = "leak_finder", "order_finder", "offset_finder", "mixing_finder"
    others = dict.fromkeys(finders, "a str")
    others |= dict.fromkeys(OBJECTS, "Write a class with ")  # and its methods
    words = others.get(name, "not a list" if name == "windows" else "function returns")
    assert words in check(name, lambda *inputs: "text").message


@pytest.mark.parametrize("name", CHECKS)
def test_check_leaves_random_numbers_alone(name):
    assert judged("RIGHT", *cases("RIGHT", name=name)[0])[2]


def test_check_of_a_layer_prints_nothing_of_its_own(capsys):
    check("multi_head", FILES["ch04"].layer())
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


def test_model_of_the_writing_exercise_can_be_switched_to_eval():
    model = MODULES["ch09"]._Sums()
    assert model.eval() is model
