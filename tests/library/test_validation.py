"""attention_lib.validation: each refusal names the argument, what came, what to do.

Who calls which check, with what names, is shown by test_wrong_calls.py.
"""

import math
from functools import partial as P
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attention_lib import validation as v

KINDS = {"numpy": np.ndarray, "torch": torch.Tensor}
NAN = math.nan
SHAPES = {"query": (2, 4), "key": (3, 4), "value": (3, 6)}
MODEL = dict(
    vocab_size=1, context_len=1, d_model=6, num_heads=3, num_layers=1, dropout=0.0,
    tie_weights=False,
)  # fmt: skip
RUN = {
    "steps": 5, "batch_size": 1, "warmup": 4, "max_grad_norm": 1e-9,
    "learning_rate": 1e-3, "seed": 0,
}  # fmt: skip
both_kinds = pytest.mark.parametrize("kind", KINDS)


def zeros(kind, *shape):
    return np.zeros(shape, np.float32) if kind == "numpy" else torch.zeros(shape)


def trues(kind, *shape):
    return np.ones(shape, bool) if kind == "numpy" else torch.zeros(shape) == 0


def whole(*shape, dtype=torch.int64, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


def inputs(kind="torch", mask=None, **changed):
    """Check inputs of one kind that fit, but for those that are given."""
    given = {name: zeros(kind, *shape) for name, shape in SHAPES.items()} | changed
    v.require_inputs(**given, mask=mask, kind=KINDS[kind])


def config(**changed):
    v.require_config(SimpleNamespace(**(MODEL | changed)))


def training(**changed):
    v.require_run(SimpleNamespace(**(RUN | changed)))


def floats(*shape):
    return torch.zeros(shape)


def ids(*numbers):
    return torch.tensor(numbers)


def meta(*shape):
    return torch.zeros(shape, device="meta")


@both_kinds
@pytest.mark.parametrize(
    "mask", [(), (3,), (2, 1), (1, 3), (2, 3), (5, 1, 3), (7, 5, 2, 3)]
)
def test_check_inputs_accepts_what_fits(kind, mask):
    query, key = zeros(kind, 7, 5, 2, 4), zeros(kind, 5, 3, 4)
    value = zeros(kind, 7, 1, 3, 6)
    inputs(kind, trues(kind, *mask), query=query, key=key, value=value)


# fmt: off
W, BOTH = floats(3, 4), (floats(2, 4), floats(3, 4))  # numbers; a query and a key
PART = torch.nn.Linear(4, 3), 4  # of a layer; its width
MASK = "mask must be boolean (True: may attend); got "
AXES = " must have at least two axes, (length, width); got "
EMPTY = " has an axis of length zero, "
# Checks that pass: a check, and what it is given.
ACCEPTED = [
    (v.require_inputs, meta(2, 4), meta(3, 4), meta(3, 4), meta(2, 3) == 0),
    (v.require_lengths, ids(0, 3, 5), 5, "left"), (v.require_lengths, ids(5).int(), 5),
    (v.require_lengths, whole(3, device="meta"), 5),
    (v.require_scores, np.zeros((2, 3)), -2, 1.0),
    (v.require_scores, np.array([[0.0, -math.inf]]), 1, 1.0),
    (v.require_dropout, 0.99),
    (v.require_token_ids, whole(2, 3), whole(2) + 3),
    (v.require_token_ids, whole(2, 3, device="meta"), whole(2, device="meta")),
    (v.require_token_ids, whole(2, 3, dtype=torch.int32)),
    (v.require_token_values, torch.tensor([[0, 6, 3], [1, 2, 0]]), 7),
    (v.require_token_values, whole(2, 3, device="meta"), 7),
    (v.require_logits, floats(2, 3, 7), whole(2, 3) + 6),
    (v.require_logits, floats(2, 3, 7), whole(2, 3), ids(0, 2)),
    (v.require_logits, meta(2, 3, 7), whole(2, 3, device="meta")),
    (v.require_max_grad_norm, math.inf), (v.require_warmup, 0, 0, 5),
    (v.require_window_sizes, [0, 0, 0], 2, 9),
    (v.require_texts, ["a", "", "b"]), (v.require_texts, ("a",)),
    *((v.require_text, text) for text in ["", "\x00", "\ufeff", "🙂", "\ud7ff"]),
    (v.require_sampling, 0.0, None), (v.require_sampling, 1e9, 9),
]
# Values that are refused: the first words, a check, and what it is given.
VALUES = [
    ("combine_masks needs at least one mask", v.require_masks, []),
    ("masks do not broadcast: (3, 3) and (2, 1, 4)",
     v.require_masks, [trues("torch", 3, 3), trues("torch", 2, 1, 4)]),
    *((f"lengths must be (batch,), one per sequence; got {shape}",
       v.require_lengths, whole(*shape), 5) for shape in ((2, 3), (0,))),
    ('side must be "left" or "right"; got \'top\'',
     v.require_lengths, ids(1), 5, "top"),
    *((f"x has no numbers along axis {axis}: (2, 3)",
       v.require_scores, np.zeros((2, 3)), axis, 1.0) for axis in (-3, 2)),
    ("temperature must be above 0 and finite; got nan",
     v.require_scores, np.zeros(3), 0, NAN),
    ("x holds NaN or +inf: check how the scores were computed",
     v.require_scores, np.array([0.0, NAN]), 0, 1.0),
    ("x must be (batch, length, 4); got (2, 5, 3): this layer was built for d_model=4",
     v.require_tokens, floats(2, 5, 3), *PART),
    ("x" + EMPTY + "(2, 0, 4)", v.require_tokens, floats(2, 0, 4), *PART),
    ("memory must hold as many texts as x; got memory (1, 3, 4) and x (2, 5, 4)",
     v.require_source, floats(2, 5, 4), floats(1, 3, 4), *PART),
    ("x must be (batch, heads); got (2,)",
     v.require_layout, floats(2), "batch", "heads"),
    ("token_ids must be (batch, length); got (3,): write a single text as one row, "
     "`token_ids[None, :]`", v.require_token_ids, whole(3)),
    ("token_ids must be (batch, length); got (0, 3): leave empty batches and texts "
     "out", v.require_token_ids, whole(0, 3)),
    ("token_ids must be (batch, length); got (1, 2, 3): each token is one number, not "
     "a vector, and texts have one axis", v.require_token_ids, whole(1, 2, 3)),
    ("token_ids must be between 0 and 6; got -1: were they made by a different "
     "tokenizer?", v.require_token_values, torch.tensor([[-1, 9]]), 7),
    ("lengths must hold one number per text; got 3 for 2 texts",
     v.require_token_ids, whole(2, 3), whole(3)),
    ("lengths must be between 0 and 3, the length of the batch; got [4, 4]",
     v.require_token_ids, whole(2, 3), whole(2) + 4),
    ("logits must be (batch, length, vocabulary) for token_ids (2, 3); got (2, 2, 7)",
     v.require_logits, floats(2, 2, 7), whole(2, 3)),
    ("no text has two tokens", v.require_logits, floats(2, 1, 7), whole(2, 1)),
    *(("no text has two tokens: there is no next token to predict", v.require_batch,
       torch.nn.Linear(1, 1), whole(2, 3), real) for real in (ids(1, 1), ids(0, 1))),
    ("lengths must be between 0 and 3, the length of the batch; got [4, 1]",
     v.require_batch, torch.nn.Linear(1, 1), whole(2, 3), ids(4, 1)),
    ("ids must be between 0 and 6; got 9: were they made by a different",
     v.require_ids, [9, -2], 7),
    ("the text has 3 tokens, a window of length 3 needs 4: take a longer text or a "
     "shorter window", v.require_window_sizes, [0, 0, 0], 3, 1),
    (r"the text holds '\udfff' at 2, which is not a character: was it read with the "
     "right encoding?", v.require_text, "ab\udfffc\ud800"),
    *(("the text is empty: there is nothing to learn from", v.require_texts, texts)
      for texts in ([], ("", ""))),
    ("temperature must be 0 or more, finite; got -1e-09",
     v.require_sampling, -1e-09, None),
    ("num_heads must divide d_model; got 4 heads for a width of 6: choose another "
     "number, or give head_dim", v.require_heads, 6, 4),
    ("norm must be one of pre, post; got ['pre']",
     v.require_choice, "norm", ["pre"], ("pre", "post")),
]
TYPES = [
    ("masks must be boolean (True: may attend); got torch.float32",
     v.require_masks, [trues("torch", 2, 3), floats(2, 3)]),
    ("each mask must be a torch.Tensor; got ndarray",
     v.require_masks, [trues("numpy", 2)]),
    ("each mask must be on the device of the first, cpu; got meta",
     v.require_masks, [trues("torch", 2), meta(2) == 0]),
    ("lengths must be a tensor of int64; got list: `torch.tensor([3, 5])`",
     v.require_lengths, [3, 5], 5),
    ("x must have the type of the layer, torch.float32; got torch.float64: convert one "
     "to the other's type", v.require_tokens, floats(2, 5, 4).double(), *PART),
    ("x must be on the device of the layer, cpu; got meta: move it with `.to(device)`",
     v.require_tokens, meta(2, 5, 4), *PART),
    ("token_ids must be a tensor of int64; got torch.int16",
     v.require_token_ids, whole(2, 3, dtype=torch.int16)),
    ("lengths must be on the device of the token_ids, cpu; got meta",
     v.require_token_ids, whole(2, 3), whole(2, device="meta")),
    ("token_ids must be whole numbers in one row; got str: encode a text first",
     v.require_window_sizes, "text", 1, 1),
    ("a text must be a str; got bytes", v.require_text, b"a"),
    *((f"texts must be a list of texts; got {came}: write [text]",
       v.require_texts, wrong)
      for wrong, came in [("a", "a single one"), (iter("a"), "str_ascii_iterator"),
                          ({"a"}, "set")]),
    ("ids must be whole numbers in one row; got list: encode a text first",
     v.require_ids, ["a", "b"], 7),
    ("ids must be whole numbers in one row; got torch.bool of shape (2,): give a list "
     "of ints", v.require_ids, trues("torch", 2), 7),
    *((f"ids must be whole numbers in one row; got {came}: convert them to whole "
       "numbers", v.require_ids, wrong, 7) for wrong, came in [
          ([1.0], "list with 1.0"), (np.ones(2), "ndarray"),
          (floats(2), "torch.float32 of shape (2,)")]),
    ("ids must be whole numbers in one row; got list: one text at a time",
     v.require_ids, [[1, 2]], 7),
    ("ids must be whole numbers in one row; got int: write a single id as `[id]`",
     v.require_ids, 5, 7),
    *((f"ids must be whole numbers in one row; got {came}: one text at a time",
       v.require_ids, wrong, 7) for wrong, came in [
          (np.ones((2, 2), int), "ndarray"),
          (whole(1, 2), "torch.int64 of shape (1, 2)")]),
    ("calls must be a function; got int", P(v.require_function, "calls", 3)),
    ("causal must be True or False; got 'no'", P(v.require_flags, causal="no")),
    ("model must be a Module; got dict",
     v.require_instance, "model", {}, torch.nn.Module),
    ("query must hold numbers; got bool: convert booleans with `.astype(float)`",
     v.as_floats, "query", [True]),
    ("path must be a str or a Path; got int", v.require_path, 3),
    ("generator must be a torch.Generator; got 0: write `seeded(0)` for the seed 0",
     v.require_generator, 0),
]
VALUES += [
    ("eps must be at least 0 and finite; got -1", P(v.require_features, W, eps=-1)),
    ("weight must have one number for each number of a token; got weight (1, 4) and x "
     "(3, 4)", P(v.require_features, W, weight=floats(1, 4))),
    ("token_ids hold 4 tokens; the context has 3: cut the text, or build a model with "
     "a longer context_len", P(v.require_token_ids, whole(2, 4), max_len=3)),
    ("num_heads must divide d_model; got 4", P(config, num_heads=4)),
    ("dropout must be at least 0 and below 1", P(config, dropout=1)),
    ("warmup must be between 0 and steps - 1, 4; got 5", P(training, warmup=5)),
    ("max_grad_norm must be above 0; got nan: math.inf never shortens a gradi",
     P(training, max_grad_norm=NAN)),
    ("learning_rate must be above 0 and finite; got inf",
     P(training, learning_rate=math.inf)),
    ("seed must be between 0 and 2**63 - 1; got -1", P(training, seed=-1)),
    ("scale must be finite in float32; got nan", P(v.require_inputs, *BOTH, scale=NAN)),
]
TYPES += [
    ("query must hold floats; got torch.bool", P(inputs, query=trues("torch", 2, 4))),
    ("eps must be a number; got None", P(v.require_features, W, eps=None)),
    ("bias must have the type of x", P(v.require_features, W, bias=floats(4).double())),
    ("scale must be a number; got True", P(v.require_inputs, *BOTH, scale=True)),
    ("token_ids must be on the device of the model, meta; got cpu: move it with",
     P(v.require_token_ids, whole(2, 3), like=meta(2))),
]
# Of each kind of array: shapes and masks that are refused.
BY_KIND = [
    ("query and key must have the same width; got query (2, 4) and key (3, 5): project "
     "both to one head_dim", "key", (3, 5)),
    ("key and value must have the same length; got key (3, 4) and value (2, 6): each "
     "key needs exactly one value", "value", (2, 6)),
    ("query" + AXES + "(4,): write a single vector as one row, `query[None, :]`",
     "query", (4,)),
    ("value" + AXES + "()", "value", ()),
    ("query" + EMPTY + "(0, 4): leave empty batches and sequences", "query", (0, 4)),
    ("value" + EMPTY + "(3, 0)", "value", (3, 0)),
    ("query" + EMPTY + "(0, 2, 4)", "query", (0, 2, 4)),
    *((f"mask {shape} does not broadcast to the scores (2, 3): rows are queries, "
       "columns are keys", "mask", shape) for shape in ((3, 2), (1, 2, 3), (5, 2, 3))),
]
OTHER_KINDS = [
    ("numpy", np.zeros((3, 4)), "have the type of the query, float32; got float64"),
    ("torch", floats(3, 4).double(), "have the type of the query, torch.float32; g"),
    ("torch", whole(3, 4), "hold floats; got torch.int64: embed token ids first, or "),
    ("torch", meta(3, 4), "be on the device of the query, cpu; got meta: move it with"),
    ("torch", np.zeros((3, 4)), "be a torch.Tensor; got ndarray"),
    ("numpy", floats(3, 4), "be a numpy.ndarray; got Tensor"),
    ("torch", [[1.0, 2.0]], "be a torch.Tensor; got list"),
]
MASKS = [
    (floats(2, 3), "torch", MASK + "torch.float32: turn an additive mask of 0 and "
     "-inf into `mask == 0`, a 0/1 mask into `mask == 1`"),
    (np.zeros((2, 3)), "torch", MASK + "float64"),
    ([[True]], "torch", MASK + "list"),
    (trues("numpy", 2, 3), "torch", "mask must be a torch.Tensor; got ndarray"),
    (trues("torch", 2, 3), "numpy", "mask must be a numpy.ndarray; got Tensor"),
    (meta(2, 3) == 0, "torch", "mask must be on the device of the query, cpu; got"),
]
# fmt: on


@pytest.mark.parametrize("check", ACCEPTED, ids=lambda check: check[0].__name__)
def test_checks_accept_what_fits(check):
    function, *given = check
    function(*given)


@pytest.mark.parametrize("case", VALUES, ids=lambda case: case[0])
def test_check_names_a_wrong_value(refused, case):
    words, function, *given = case
    with refused(ValueError, words):
        function(*given)


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case[0])
def test_check_names_what_is_of_another_type(refused, case):
    words, function, *given = case
    with refused(TypeError, words):
        function(*given)


@both_kinds
@pytest.mark.parametrize(("words", "name", "shape"), BY_KIND)
def test_check_inputs_names_shapes(kind, refused, words, name, shape):
    made = trues(kind, *shape) if name == "mask" else zeros(kind, *shape)
    with refused(ValueError, words):
        inputs(kind, **{name: made})


@both_kinds
@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    ("wanted", "came"), [((5,), (7,)), ((1,), (5,)), ((), (5,)), ((5,), (5, 5))]
)
def test_check_inputs_names_leading_axes(kind, refused, name, wanted, came):
    made = zeros(kind, *came, *SHAPES[name])
    words = f"the leading axes of {name}, {came}, do not broadcast to the query's, "
    with refused(ValueError, f"{words}{wanted}: each must be equal or 1"):
        inputs(kind, **{"query": zeros(kind, *wanted, 2, 4), name: made})


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(("kind", "other", "words"), OTHER_KINDS)
def test_check_inputs_names_kinds_types_and_devices(refused, name, kind, other, words):
    with refused(TypeError, f"{name} must {words}"):
        inputs(kind, **{name: other})


def test_check_inputs_wants_tensors_by_default(refused):
    with refused(TypeError, "query must be a torch.Tensor; got ndarray"):
        v.require_inputs(*[zeros("numpy", *shape) for shape in SHAPES.values()])


@pytest.mark.parametrize(("mask", "of", "words"), MASKS)
def test_check_mask_names_what_is_no_mask(refused, mask, of, words):
    with refused(TypeError, words):
        v.require_mask(mask, (2, 3), like=zeros(of, 2, 4))


def test_check_ids_gives_plain_numbers():
    row = (0, 6)
    for ids in (row, torch.tensor(row), np.array(row), [torch.tensor(0), 6]):
        found = v.require_ids(ids, 7)
        assert found == [0, 6]
        assert {type(i) for i in found} == {int}
    assert v.require_ids([], 7) == []


def test_check_heads_gives_the_width_of_one():
    for wanted, *sizes in [(2, 6, 3), (5, 6, 4, 5), (1, 6, 6), (3, 6, 2, None, 9)]:
        assert v.require_heads(*sizes) == wanted
