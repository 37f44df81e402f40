"""The checks of the reader's code: each usual mistake is made, and must be named."""

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import attention_lib
from attention_lib import causal_mask, exercises, padding_mask, softmax
from attention_lib.exercises.verdict import NOT_YET, Verdict, judge, run

# What this file is about; a later chapter's checks have a file of tests of their own.
MODULES = ["toy", "attention", "masks", "leaks", "verdict"]
NUMBERS = ["temperature", "head_width", "parameter_count", "visible_pairs"]
FUNCTIONS = [
    *("softmax", "attention", "linear", "head", "causal_mask", "padding_mask"),
    *("from_additive", "leak_finder"),
]


def check(name, answer):
    return getattr(exercises, f"check_{name}")(answer)


# What readers write. Each function is named in MISTAKES with the words it must meet.


def shares(x):
    return x / x.sum(-1, keepdims=True)


def stable(x):
    return shares(np.exp(x - x.max(-1, keepdims=True)))


def softmax_in_place(x):
    x -= x.max(-1, keepdims=True)
    return stable(x)


def naive(x):
    return shares(np.exp(x))


def attend(by=6**-0.5, then=softmax, mixed="value"):
    """Attention in NumPy, with one step another."""

    def answer(query, key, value):
        return then(query @ key.T * by) @ {"value": value, "key": key}[mixed]

    return answer


def attention_in_place(query, key, value):
    query /= math.sqrt(query.shape[-1])
    return softmax(query @ key.T) @ value


def attention_half_written(query, key, value):
    scores = ...
    return softmax(scores) @ value


def head(by=5**-0.5, dim=-1, scores="qk", mixed="value"):
    """A head in torch, with one step another."""

    def answer(x, w_q, w_k, w_v):
        named = {"q": x @ w_q, "k": x @ w_k, "x": x}
        raw = named[scores[0]] @ named[scores[1]].mT * by
        weights = raw if dim is None else raw.softmax(dim)
        return weights @ (x @ w_v if mixed == "value" else named[mixed])

    return answer


def triangle(diagonal):
    return lambda q, k: torch.ones(q, k, dtype=torch.bool).tril(diagonal(q, k))


def real(lengths, max_len, dtype=torch.bool):
    return (torch.arange(max_len) < lengths[:, None])[:, None].to(dtype)


def finder(changed, compared, leaks=True):
    """Looks for leaks: which positions are changed, which outputs then compared."""

    def answer(function, x):
        for t in range(4):
            nudged = x.clone()
            nudged[:, t] += 1
            moved = (function(nudged) - function(x)).abs()[0].amax(-1) > 1e-6
            if t in changed and moved[compared(t)].any():
                return leaks
        return not leaks

    return answer


def before(t):
    return slice(0, t)


def finder_in_place(function, x):
    old = function(x)
    x[:, 2] += 1
    return not torch.allclose(function(x)[:, :2], old[:, :2])


def finder_without_return(function, x):
    if finder(range(4), before)(function, x):
        return True
    return None


def finder_silent_at(place):
    """Says nothing of one of the functions that it is asked about."""
    asked = iter(range(8))
    return lambda function, x: None if next(asked) == place else True


MISTAKES = [
    # Exercise 1.1
    ("temperature", 0, "above 0, not 0"),
    ("temperature", -2.0, "above 0, not -2.0"),
    ("temperature", math.inf, "above 0, not inf"),
    ("temperature", math.nan, "above 0, not nan"),
    ("temperature", True, "one number, not a bool"),
    ("temperature", "4", "one number, not a str"),
    ("temperature", (4, 2), "one number, not a tuple. Is there a comma"),
    ("temperature", np.ones(2), "one number, not a ndarray"),
    ("temperature", 1, "is 0.975: too sharp. Warmer"),
    ("temperature", 1e-310, "is 1.000: too sharp"),
    ("temperature", 3.6, "too sharp. Warmer"),
    ("temperature", 3.8, "too flat. Colder"),
    ("temperature", 16.0, "too flat. Colder"),
    ("temperature", 0.27, "yours would multiply them"),
    # Exercise 1.2
    ("softmax", lambda x: softmax(x, axis=0), "Each column sums to 1"),
    ("softmax", lambda x: np.exp(x) / np.exp(x).sum(), "The whole array sums to 1"),
    ("softmax", np.exp, "not divided by their sum"),
    ("softmax", lambda x: np.exp(x - x.max()), "not divided by their sum"),
    ("softmax", lambda x: np.exp(x - x.max(-1, keepdims=True)), "by their sum"),
    ("softmax", shares, "exponential is missing"),
    ("softmax", lambda x: np.log(stable(x)), "logarithms"),
    ("softmax", lambda x: stable(-x), "largest score gets the smallest weight"),
    ("softmax", lambda x: shares(2**x), "powers of 2"),
    ("softmax", lambda x: shares(np.exp(x - x.max(0))), "different amounts"),
    ("softmax", lambda x: np.exp(x) / np.exp(x).sum(-1), "axis lost on the way"),
    ("softmax", naive, "1,000 overflow: what could"),
    ("softmax", lambda x: naive(x - x.mean(-1, keepdims=True)), "more than the mean"),
    ("softmax", lambda x: naive(x - x.max()), "low scores becomes 0/0"),
    ("softmax", lambda x: stable(x.clip(-700, 700)), "Clipping"),
    ("softmax", softmax_in_place, "your code changes its input"),
    ("softmax", lambda x: stable(x) if x.max() < 9 else None, "gives nothing back"),
    ("softmax", lambda x: stable(x).tolist(), "returns a list; it must be a NumPy"),
    ("softmax", lambda x: torch.tensor(x).softmax(-1), "returns a torch tensor"),
    ("softmax", lambda x: x > 0, "must hold numbers; yours is of type bool"),
    ("softmax", lambda x: x * np.nan, "NaN or infinity"),
    ("softmax", lambda x: np.array(["a"]), "returns an array that does not hold plain"),
    ("softmax", lambda x: stable(x)[0], "shape must be (2, 3) here; yours is (3,)"),
    ("softmax", lambda x: stable(x) + np.eye(3)[2], "look at [0, 2] first"),
    # Exercise 1.3
    ("attention", attend(by=1), "not scaled: see"),
    ("attention", attend(by=1 / 6), "divided by D"),
    ("attention", attend(by=6), "multiplied by D"),
    ("attention", attend(by=6**0.5), "multiplied by √D"),
    ("attention", attend(by=3**-0.5), "counts the queries"),
    ("attention", attend(by=5**-0.5), "counts the keys"),
    ("attention", attend(by=7**-0.5), "values' width"),
    ("attention", attend(1, lambda s: softmax(s) / 6**0.5), "weights are scaled"),
    ("attention", attend(then=lambda s: softmax(s, axis=0)), "over the queries"),
    ("attention", attend(then=lambda s: np.exp(s) / np.exp(s).sum()), "All weights"),
    ("attention", attend(then=np.exp), "not divided by their sum"),
    ("attention", attend(then=lambda s: s), "never made into weights"),
    ("attention", attend(by=1, then=lambda s: s), "never made into weights"),
    ("attention", attend(then=lambda s: softmax(softmax(s))), "one softmax too many"),
    ("attention", attend(mixed="key"), "keys are mixed"),
    ("attention", lambda q, k, v: softmax(q @ k.T / 6**0.5), "These are the weights"),
    ("attention", lambda q, k, v: q @ k.T / 6**0.5, "These are the scores"),
    ("attention", attention_lib.attention, "returns 2 things"),
    ("attention", attention_in_place, "changes its input"),
    ("attention", lambda q, k, v: q @ k, "raised ValueError in `"),
    ("attention", lambda q, k: q @ k.T, "raised TypeError: "),
    # Exercise 1.4
    ("head_width", 32, "32 is the deviation"),
    ("head_width", 32**0.5, "wrong way"),
    ("head_width", 5.66, "wrong way"),
    ("head_width", np.int64(6), "wrong way"),
    ("head_width", 16, "Half of 32"),
    ("head_width", 64, "Twice 32"),
    ("head_width", 32**4, "once too often"),
    ("head_width", 100, "At width 100 the deviation would be 10.0"),
    ("head_width", -4, "above 0, not -4"),
    # Exercise 2.1
    ("linear", lambda x, w, b: x @ w + b, "not transposed: it is stored"),
    ("linear", lambda x, w, b: x @ w, "not transposed, and the bias"),
    ("linear", lambda x, w, b: x @ w.T, "The bias is missing"),
    ("linear", lambda x, w, b: x @ w.T - b, "subtracted"),
    ("linear", lambda x, w, b: (x + b) @ w.T, "before the product"),
    ("linear", lambda x, w, b: x @ w.T + b[:, None], "by position, not by feature"),
    ("linear", lambda x, w, b: w @ x + b, "on the left"),
    ("linear", lambda x, w, b: w.T @ x + b, "on the left"),
    ("linear", lambda x, w, b: x * w + b, "number by number"),
    (
        "linear",
        lambda x, w, b: (x @ w.T + b).reshape(2, 3, 3),
        "For one of shape (2, 3)",
    ),
    (
        "linear",
        lambda x, w, b: torch.einsum("bti,oi->bto", x, w) + b,
        "x of shape (3, 3)",
    ),
    ("linear", lambda x, w, b: (x @ w.T + b)[:2], "For x of shape (3, 3): The shape"),
    (
        "linear",
        lambda x, w, b: F.linear(x, w, b).reshape(x.shape[:2] + b.shape),
        "(3, 3): Your code raised RuntimeError",
    ),
    (
        "linear",
        lambda x, w, b: F.linear(x, w, b) * (x.ndim < 4),
        "For x of shape (1, 2, 3, 3)",
    ),
    ("linear", lambda x, w, b: F.linear(x, w, b).numpy(), "must be a torch tensor"),
    ("linear", lambda x, w, b: x.to("meta"), "does not hold plain numbers"),
    # Exercise 2.2
    ("parameter_count", 147456, "three biases are missing"),
    ("parameter_count", 147520, "only one bias"),
    ("parameter_count", 192, "Only biases"),
    ("parameter_count", 49216, "one projection"),
    ("parameter_count", 49152, "one weight"),
    ("parameter_count", 98432, "two projections"),
    ("parameter_count", 149760, "as long as its projection's output"),
    ("parameter_count", 196864, "no output projection"),
    ("parameter_count", 12 * 147648, "all twelve heads"),
    ("parameter_count", 12480, "not square"),
    ("parameter_count", 2496, "A weight is a matrix"),
    ("parameter_count", 7, "Not that many: list"),
    # Exercise 2.3
    ("head", head(by=6**-0.5, mixed="x"), "Two bugs are left"),
    ("head", head(by=6**-0.5), "One bug is left: the scale"),
    ("head", head(mixed="x"), "One bug is left: the input is mixed"),
    ("head", head(by=1, mixed="x"), "not scaled, and the input"),
    ("head", head(by=1), "not scaled at all"),
    ("head", head(by=1 / 5), "The scale is the width"),
    ("head", head(by=5**0.5), "multiplied by the root"),
    ("head", head(by=3**-0.5), "takes the length"),
    ("head", head(mixed="q"), "queries are mixed"),
    ("head", head(mixed="k"), "keys are mixed"),
    ("head", head(scores="kq"), "changed places"),
    ("head", head(scores="qq"), "queries are compared with themselves"),
    ("head", head(scores="kk"), "keys are compared with themselves"),
    ("head", head(scores="xx", by=6**-0.5), "inputs are compared"),
    ("head", head(dim=-2), "over the queries"),
    ("head", head(dim=0), "over the batch"),
    ("head", head(dim=None), "never made into weights"),
    ("head", head(dim=None, by=1), "never made into weights"),
    (
        "head",
        lambda x, q, k, v: (x @ q @ (x @ k).mT / 5**0.5).softmax(-1),
        "the weights",
    ),
    ("head", lambda x, q, k, v: (head()(x, q, k, v), x), "returns 2 things"),
    # Exercise 3.1
    ("causal_mask", lambda q, k: causal_mask(q, k).T, "triangle flipped"),
    ("causal_mask", lambda q, k: ~causal_mask(q, k), "True means blocked"),
    ("causal_mask", triangle(lambda q, k: k - q - 1), "No query sees itself"),
    ("causal_mask", triangle(lambda q, k: k - q + 1), "one token of the future"),
    ("causal_mask", triangle(lambda q, k: k), "nothing is hidden"),
    ("causal_mask", triangle(lambda q, k: -q), "all is hidden"),
    ("causal_mask", lambda q, k: torch.eye(q, dtype=torch.bool), "itself only"),
    ("causal_mask", triangle(lambda q, k: 0), "2 queries, 5 keys: the first query"),
    ("causal_mask", triangle(lambda q, k: k - q - (k > q)), "one key too few"),
    ("causal_mask", triangle(lambda q, k: k - q + (k > q)), "one key too many"),
    ("causal_mask", triangle(lambda q, k: max(k - q, 0)), "5 queries, 2 keys: the fir"),
    ("causal_mask", triangle(lambda q, k: abs(k - q)), "moved the wrong way"),
    ("causal_mask", lambda q, k: causal_mask(q), "5 keys: The shape must be (2, 5)"),
    ("causal_mask", lambda q, k: causal_mask(q, k).float(), "must hold True and False"),
    ("causal_mask", lambda q, k: causal_mask(q, k).numpy(), "returns a NumPy array"),
    # Exercise 3.2
    ("padding_mask", lambda n, k: real(n, k).mT, "queries are masked"),
    ("padding_mask", lambda n, k: real(n, k)[:, 0], "batch along the queries"),
    ("padding_mask", lambda n, k: real(n, k)[:, 0][None], "stands before the batch"),
    ("padding_mask", lambda n, k: real(n, k)[:, None], "an axis too many"),
    ("padding_mask", lambda n, k: real(n, k).expand(-1, k, -1), "All rows are alike"),
    ("padding_mask", lambda n, k: real(n, k) & real(n, k).mT, "own rows see nothing"),
    ("padding_mask", lambda n, k: ~real(n, k), "True marks the padding"),
    ("padding_mask", lambda n, k: padding_mask(n, k, side="left"), "on the left here"),
    ("padding_mask", lambda n, k: ~real(k - n, k), "padding stands on the left"),
    ("padding_mask", lambda n, k: real(k - n, k), "marks the last tokens"),
    ("padding_mask", lambda n, k: real(n - 1, k), "real token too few"),
    ("padding_mask", lambda n, k: real(n + 1, k), "padding token too many"),
    ("padding_mask", lambda n, k: real(n, int(n.max())), "as the longest sequence"),
    ("padding_mask", lambda n, k: real(n, k) | True, "Nothing is hidden"),
    ("padding_mask", lambda n, k: real(n, k, torch.int), "must hold True and False"),
    ("padding_mask", lambda n, k: real(n.sub_(1), k), "real token too few"),
    ("padding_mask", lambda n, k: real(n.add_(1) - 1, k), "changes its input"),
    # Exercise 3.3
    ("visible_pairs", 21, "real queries only"),
    ("visible_pairs", 30, "causal mask alone"),
    ("visible_pairs", 40, "padding mask alone"),
    ("visible_pairs", 34, "the future is not hidden"),
    ("visible_pairs", 50, "counts every pair"),
    ("visible_pairs", 23, "hidden pairs"),
    ("visible_pairs", 12, "shorter text alone"),
    ("visible_pairs", 15, "longer text alone"),
    ("visible_pairs", 19, "diagonal is missing"),
    ("visible_pairs", torch.tensor(26), "Not that many: count"),
    # Exercise 3.4
    ("from_additive", lambda m: m != 0, "True marks what is blocked"),
    ("from_additive", torch.Tensor.bool, "True marks what is blocked"),
    ("from_additive", lambda m: m, "still the additive mask"),
    ("from_additive", lambda m: m > -math.inf, "Right for -inf. For -1e9, -10,000"),
    ("from_additive", lambda m: m > -1e5, "lowest finite number: The shape is right"),
    ("from_additive", lambda m: m == 0, "A small bias is no ban"),
    ("from_additive", lambda m: m > -10, "Right without biases. With them:"),
    ("from_additive", lambda m: m.exp(), "must hold True and False"),
    ("from_additive", lambda m: m.exp_().bool(), "changes its input"),
    # Exercise 3.5
    ("leak_finder", lambda f, x: True, "everything leaks"),
    ("leak_finder", finder(range(4), lambda t: slice(None)), "everything leaks"),
    ("leak_finder", lambda f, x: False, "nothing leaks"),
    ("leak_finder", finder([0], before), "nothing leaks"),
    ("leak_finder", finder(range(4), before, leaks=False), "wrong way round"),
    ("leak_finder", finder(range(4), lambda t: slice(t + 1)), "depend on itself"),
    ("leak_finder", finder(range(4), lambda t: slice(t + 1, None)), "after a change"),
    ("leak_finder", finder([3], before), "change more than the last"),
    ("leak_finder", finder([1, 2, 3], lambda t: t - 1), "compare more than the nei"),
    ("leak_finder", finder([1, 2, 3], lambda t: 0), "compare more than position 0"),
    ("leak_finder", finder([1], before), "change more than position 1"),
    ("leak_finder", finder([2], before), "Judged wrongly: a function in which"),
    (
        "leak_finder",
        lambda f, x: not torch.equal(f(x)[:, 0], x[:, 0]),
        "does not leak.",
    ),
    ("leak_finder", finder_in_place, "changes x itself"),
    ("leak_finder", finder_without_return, "is a return missing"),
    ("leak_finder", lambda f, x: 0.5, "attention without a mask came a float"),
    ("leak_finder", lambda f, x: f(x) > 0, "came a Tensor"),
]


@pytest.mark.parametrize(("name", "answer", "words"), MISTAKES)
def test_check_names_the_mistake(name, answer, words):
    verdict = check(name, answer)
    assert verdict.passed is False
    assert words in verdict.message


# What is right, in the book's way and in others.


def softmax_by_rows(x):
    return np.array([[math.exp(a - max(row)) for a in row] for row in x.tolist()]) / [
        [sum(math.exp(a - max(row)) for a in row)] for row in x.tolist()
    ]


def attention_by_torch(query, key, value):
    arrays = [torch.from_numpy(array) for array in (query, key, value)]
    return F.scaled_dot_product_attention(*arrays).numpy()


def head_by_torch(x, w_q, w_k, w_v):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


def causal_by_loops(query_len, key_len):
    mask = torch.zeros(query_len, key_len, dtype=torch.bool)
    for row in range(query_len):
        mask[row, : max(0, key_len - query_len + row + 1)] = True
    return mask


def padding_by_loops(lengths, max_len):
    rows = [[place < length for place in range(max_len)] for length in lengths.tolist()]
    return torch.tensor(rows).unsqueeze(1)


def finder_by_gradients(function, x):
    x = x.clone().requires_grad_()
    for t in range(x.shape[1] - 1):
        (slope,) = torch.autograd.grad(function(x)[:, t].sum(), x)
        if slope[:, t + 1 :].any():
            return True
    return False


def finder_by_prefixes(function, x):
    whole = function(x)
    same = [
        torch.allclose(function(x[:, :t]), whole[:, :t], atol=1e-6) for t in (1, 2, 3)
    ]
    return np.bool_(not all(same))


def finder_as_tensor(function, x):
    return torch.tensor(finder(range(4), before)(function, x))


RIGHT = [
    ("temperature", 3.7),
    ("temperature", np.float32(3.72)),
    ("head_width", 1024),
    ("head_width", 32.0**2),
    ("softmax", stable),
    ("softmax", softmax),
    ("softmax", softmax_by_rows),
    ("softmax", lambda x: np.exp(x - np.logaddexp.reduce(x, 1)[:, None])),
    ("attention", attend()),
    ("attention", attention_by_torch),
    ("attention", lambda *qkv: attention_lib.attention(*qkv)[0].astype(np.float32)),
    ("linear", F.linear),
    ("linear", lambda x, w, b: torch.einsum("...i,oi->...o", x, w) + b),
    ("linear", lambda x, w, b: (x[..., None, :] * w).sum(-1) + b),
    ("parameter_count", 3 * (768 * 64 + 64)),
    ("parameter_count", torch.tensor(147648)),
    ("head", head()),
    ("head", head_by_torch),
    ("head", lambda *given: torch.nn.Parameter(head()(*given))),
    ("causal_mask", causal_mask),
    ("causal_mask", causal_by_loops),
    ("causal_mask", triangle(lambda q, k: k - q)),
    ("padding_mask", padding_mask),
    ("padding_mask", padding_by_loops),
    ("visible_pairs", 27),
    ("visible_pairs", np.int64(27)),
    ("from_additive", lambda mask: mask > -1000),
    ("from_additive", lambda mask: mask.exp().bool()),
    ("leak_finder", finder(range(4), before)),
    ("leak_finder", finder_by_gradients),
    ("leak_finder", finder_by_prefixes),
    ("leak_finder", finder_as_tensor),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_check_passes_what_is_right(name, answer):
    verdict = check(name, answer)
    assert verdict.passed is True, verdict


def test_check_waits_for_a_function_half_written():
    assert check("attention", attention_half_written) is NOT_YET


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"leak_finder"}))
@pytest.mark.parametrize("came", [(1, 2), [1.0], 0.5, "text", {}])
def test_check_says_what_came_instead_of_an_array(name, came):
    assert "Your function returns" in check(name, lambda *inputs: came).message


def test_run_names_the_reader_s_own_line():
    def answer():
        return torch.ones(2) @ torch.ones(3)

    assert "in `return torch.ones(2) @ torch.ones(3)`" in run(answer).message


def test_run_lets_the_reader_stop_it():
    def answer():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(answer)


def test_judge_leaves_its_inputs_as_they_are():
    x = torch.zeros(3)
    judge(torch.Tensor.add_, (x, 1), torch.ones(3))
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("passed", "line"), [(True, "✓ a b"), (False, "✗ a b"), (None, "○ a b")]
)
def test_verdict_is_one_line(passed, line):
    assert repr(Verdict(passed, "a\n  b")) == line


@pytest.mark.parametrize("name", ["softmax", "attention", "head", "leak_finder"])
def test_check_leaves_random_numbers_alone(name):
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    check(name, dict(RIGHT)[name])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


@pytest.mark.parametrize(("name", "answer", "words"), MISTAKES)
def test_message_gives_nothing_away(name, answer, words):
    # What is the reader's own may hold code: a line, a type.
    message = re.sub(r" in `.*`|of type .*|<lambda>", "", check(name, answer).message)
    code = r"keepdims|axis=|dim=|tril|np\.|torch\.|softmax\(|\*\*|\.T\b|@|None|<|=="
    numbers = r"\b(27|1,?024|147,?648|3\.7\d*)\b"
    assert not re.search(f"{code}|{numbers}", message)


@pytest.mark.parametrize("place", range(1, 8))
def test_leak_finder_names_where_nothing_comes_back(place):
    verdict = check("leak_finder", finder_silent_at(place))
    assert verdict.passed is False
    assert verdict.message.startswith("Nothing comes back for a")


def test_every_message_is_tested(spoken):
    said = " ".join(
        [check(name, answer).message for name, answer, _ in MISTAKES]
        + [check(name, answer).message for name, answer in RIGHT]
        + [check("leak_finder", finder_silent_at(i)).message for i in range(1, 8)]
        + [check("softmax", 3).message, NOT_YET.message]
    )
    assert [words for words in spoken(*MODULES) if words not in said] == []


def test_every_exported_check_is_tested():
    # test_exercises_<module>.py follows this file: its own MISTAKES and RIGHT.
    tested = set()
    for path in Path(__file__).parent.glob("test_exercises*.py"):
        tested |= {f"check_{name}" for name in named_in_both_lists(path)}
    assert tested == set(exercises.__all__) - {"Verdict"}


def test_every_module_of_checks_is_tested():
    folder, tests = Path(exercises.__path__[0]), Path(__file__).parent
    others = {path.stem for path in folder.glob("*.py")} - {"__init__", *MODULES}
    assert others == {
        path.stem.removeprefix("test_exercises_")
        for path in tests.glob("test_exercises_*.py")
    }


def named_in_both_lists(path):
    """The checks that a file of tests names in its MISTAKES and in its RIGHT."""
    named = {"MISTAKES": set(), "RIGHT": set()}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for target in node.targets if isinstance(node, ast.Assign) else []:
            if isinstance(target, ast.Name) and target.id in named:
                cases = [
                    case for case in node.value.elts if isinstance(case, ast.Tuple)
                ]
                named[target.id] |= {case.elts[0].value for case in cases}
    return named["MISTAKES"] & named["RIGHT"]


def test_exercises_are_exported():
    checks = {f"check_{name}" for name in NUMBERS + FUNCTIONS}
    assert {"Verdict", *checks} <= set(exercises.__all__)
    for name in exercises.__all__:
        assert getattr(attention_lib, name) is getattr(exercises, name)
