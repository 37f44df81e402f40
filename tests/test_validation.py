"""attention_lib.validation: each refusal names the argument, what came, what to do."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attention_lib.validation import (
    check_config,
    check_dropout,
    check_heads,
    check_ids,
    check_inputs,
    check_lengths,
    check_logits,
    check_mask,
    check_masks,
    check_positive,
    check_run,
    check_sampling,
    check_scores,
    check_text,
    check_texts,
    check_token_ids,
    check_tokens,
    check_window_sizes,
)

KINDS = {"numpy": np.ndarray, "torch": torch.Tensor}
SHAPES = {"query": (2, 4), "key": (3, 4), "value": (3, 6)}
MASK_SHAPES = [(), (3,), (2, 1), (1, 3), (2, 3), (5, 1, 3), (7, 5, 2, 3)]
both_kinds = pytest.mark.parametrize("kind", KINDS)


def zeros(kind, *shape):
    return np.zeros(shape, np.float32) if kind == "numpy" else torch.zeros(shape)


def trues(kind, *shape):
    if kind == "numpy":
        return np.ones(shape, bool)
    return torch.ones(shape, dtype=torch.bool)


def check(kind, mask=None, **changed):
    """Checks inputs of one kind that fit, but for those that are given."""
    inputs = {name: zeros(kind, *shape) for name, shape in SHAPES.items()} | changed
    check_inputs(**inputs, mask=mask, kind=KINDS[kind])


@both_kinds
@pytest.mark.parametrize("mask", MASK_SHAPES)
def test_check_inputs_accepts_what_fits(kind, mask):
    query, key = zeros(kind, 7, 5, 2, 4), zeros(kind, 5, 3, 4)
    value = zeros(kind, 7, 1, 3, 6)
    check(kind, trues(kind, *mask), query=query, key=key, value=value)


@both_kinds
def test_check_inputs_accepts_single_sequences(kind):
    check(kind)


def test_check_inputs_needs_no_value():
    check_inputs(torch.zeros(2, 4), torch.zeros(3, 4))


def test_check_inputs_reads_no_values():
    query, key, value = (torch.zeros(n, 4, device="meta") for n in (2, 3, 3))
    check_inputs(query, key, value, torch.ones(2, 3, dtype=torch.bool, device="meta"))


@both_kinds
def test_check_inputs_names_widths(kind, refused):
    words = (
        "query and key must have the same width; got query (2, 4) and key (3, 5): "
        "project both to one head_dim"
    )
    with refused(ValueError, words):
        check(kind, key=zeros(kind, 3, 5))


@both_kinds
def test_check_inputs_names_lengths(kind, refused):
    words = (
        "key and value must have the same length; got key (3, 4) and value (2, 6): "
        "each key needs exactly one value"
    )
    with refused(ValueError, words):
        check(kind, value=zeros(kind, 2, 6))


@both_kinds
@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    ("wanted", "came"), [((5,), (7,)), ((1,), (5,)), ((), (5,)), ((5,), (5, 5))]
)
def test_check_inputs_names_leading_axes(kind, refused, name, wanted, came):
    inputs = {"query": zeros(kind, *wanted, 2, 4)}
    inputs[name] = zeros(kind, *came, *SHAPES[name])
    words = (
        f"the leading axes of {name}, {came}, do not broadcast to the query's, "
        f"{wanted}: expand the query first"
    )
    with refused(ValueError, words):
        check(kind, **inputs)


@both_kinds
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("shape", [(), (4,)])
def test_check_inputs_names_single_vectors(kind, refused, name, shape):
    words = (
        f"{name} must have at least two axes, (length, width); got {shape}: write a "
        f"single vector as one row, `{name}[None, :]`"
    )
    with refused(ValueError, words):
        check(kind, **{name: zeros(kind, *shape)})


@both_kinds
@pytest.mark.parametrize(
    ("name", "shape"),
    [("query", (0, 4)), ("key", (0, 4)), ("value", (3, 0)), ("query", (0, 2, 4))],
)
def test_check_inputs_names_empty_axes(kind, refused, name, shape):
    words = (
        f"{name} has an axis of length zero, {shape}: leave empty batches and "
        "sequences out"
    )
    with refused(ValueError, words):
        check(kind, **{name: zeros(kind, *shape)})


@both_kinds
@pytest.mark.parametrize("name", ["key", "value"])
def test_check_inputs_names_types(kind, refused, name):
    double = np.zeros((3, 4)) if kind == "numpy" else torch.zeros(3, 4).double()
    single = "float32" if kind == "numpy" else "torch.float32"
    words = (
        f"{name} must have the type of the query, {single}; got {double.dtype}: "
        "convert one to the other's type"
    )
    with refused(TypeError, words):
        check(kind, **{name: double})


@pytest.mark.parametrize("name", SHAPES)
def test_check_inputs_names_whole_numbers(refused, name):
    words = f"{name} must hold floats; got torch.int64: convert it with `.float()`"
    with refused(TypeError, words):
        check("torch", **{name: torch.zeros(3, 4, dtype=torch.int64)})


@pytest.mark.parametrize("name", ["key", "value"])
def test_check_inputs_names_devices(refused, name):
    words = (
        f"{name} must be on the device of the query, cpu; got meta: move it with "
        "`.to(device)`"
    )
    with refused(TypeError, words):
        check("torch", **{name: torch.zeros(3, 4, device="meta")})


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    ("kind", "other", "words"),
    [
        ("torch", "numpy", "torch.Tensor; got ndarray"),
        ("numpy", "torch", "numpy.ndarray; got Tensor"),
    ],
)
def test_check_inputs_names_kinds(refused, name, kind, other, words):
    with refused(TypeError, f"{name} must be a {words}"):
        check(kind, **{name: zeros(other, 3, 4)})


@pytest.mark.parametrize("name", SHAPES)
def test_check_inputs_names_lists(refused, name):
    with refused(TypeError, f"{name} must be a torch.Tensor; got list"):
        check("torch", **{name: [[1.0, 2.0, 3.0, 4.0]]})


def test_check_inputs_wants_tensors_by_default(refused):
    arrays = [zeros("numpy", *shape) for shape in SHAPES.values()]
    with refused(TypeError, "query must be a torch.Tensor; got ndarray"):
        check_inputs(*arrays)


@both_kinds
@pytest.mark.parametrize("shape", [(3, 2), (1, 2, 3), (5, 2, 3)])
def test_check_inputs_names_mask_that_does_not_broadcast(kind, refused, shape):
    words = (
        f"mask {shape} does not broadcast to the scores (2, 3): rows are queries, "
        "columns are keys"
    )
    with refused(ValueError, words):
        check(kind, trues(kind, *shape))


@pytest.mark.parametrize(
    ("mask", "came"),
    [
        (torch.zeros(2, 3), "torch.float32"),
        (torch.ones(2, 3, dtype=torch.int64), "torch.int64"),
        (np.zeros((2, 3)), "float64"),
        ([[True, False, True]], "list"),
    ],
)
def test_check_mask_names_what_is_not_boolean(refused, mask, came):
    words = (
        f"mask must be boolean (True: may attend); got {came}: turn an additive mask "
        "of 0 and -inf into `mask == 0`, a 0/1 mask into `mask == 1`"
    )
    with refused(TypeError, words):
        check_mask(mask, (2, 3), like=torch.zeros(2, 4))


def test_check_mask_remedies_give_a_mask():
    additive, ones = torch.tensor([[0.0, -torch.inf]]), torch.tensor([[1, 0]])
    for mask in (additive == 0, ones == 1):
        check_mask(mask, (2, 2), like=torch.zeros(2, 4))
        assert mask.tolist() == [[True, False]]


@pytest.mark.parametrize(
    ("kind", "other", "words"),
    [
        ("torch", "numpy", "torch.Tensor; got ndarray"),
        ("numpy", "torch", "numpy.ndarray; got Tensor"),
    ],
)
def test_check_mask_names_kind(refused, kind, other, words):
    with refused(TypeError, f"mask must be a {words}"):
        check_mask(trues(other, 2, 3), (2, 3), like=zeros(kind, 2, 4))


def test_check_mask_names_device(refused):
    mask = torch.ones(2, 3, dtype=torch.bool, device="meta")
    words = "mask must be on the device of the query, cpu; got meta"
    with refused(TypeError, words):
        check_mask(mask, (2, 3), like=torch.zeros(2, 4))


def test_check_masks_names_none(refused):
    with refused(ValueError, "combine_masks needs at least one mask"):
        check_masks([])


@pytest.mark.parametrize(
    ("mask", "came"),
    [(torch.zeros(2, 3), "torch.float32"), (np.ones((2, 3), bool), "ndarray")],
)
def test_check_masks_names_what_is_not_boolean(refused, mask, came):
    words = f"masks must be boolean (True: may attend); got {came}"
    with refused(TypeError, words):
        check_masks([trues("torch", 2, 3), mask])


def test_check_masks_names_devices(refused):
    other = torch.ones(2, 3, dtype=torch.bool, device="meta")
    words = "each mask must be on the device of the first, cpu; got meta"
    with refused(TypeError, words):
        check_masks([trues("torch", 2, 3), trues("torch", 2, 3), other])


def test_check_masks_names_shapes(refused):
    masks = [trues("torch", *shape) for shape in ((3, 3), (1, 3), (2, 1, 4))]
    words = "masks do not broadcast: (3, 3) and (1, 3) and (2, 1, 4)"
    with refused(ValueError, words):
        check_masks(masks)


def test_check_masks_accepts_what_broadcasts():
    check_masks([trues("torch", *shape) for shape in ((3, 3), (2, 1, 3), (1, 3))])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_check_lengths_accepts_what_fits(side, dtype):
    check_lengths(torch.tensor([0, 3, 5], dtype=dtype), 5, side)


def test_check_lengths_reads_no_values_on_meta():
    check_lengths(torch.empty(3, dtype=torch.int64, device="meta"), 5, "right")


@pytest.mark.parametrize(
    ("lengths", "came"),
    [
        (torch.tensor([1.0]), "torch.float32"),
        (torch.tensor([True]), "torch.bool"),
        ([3, 5], "list"),
    ],
)
def test_check_lengths_names_other_types(refused, lengths, came):
    words = f"lengths must be a tensor of int64; got {came}: `torch.tensor([3, 5])`"
    with refused(TypeError, words):
        check_lengths(lengths, 5, "right")


@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_check_lengths_names_other_axes(refused, shape):
    words = f"lengths must be (batch,), one a sequence; got {shape}"
    with refused(ValueError, words):
        check_lengths(torch.ones(shape, dtype=torch.int64), 5, "right")


@pytest.mark.parametrize("lengths", [[6, 2], [2, -1]])
def test_check_lengths_names_lengths_out_of_range(refused, lengths):
    words = f"lengths must lie between 0 and max_len 5; got {lengths}"
    with refused(ValueError, words):
        check_lengths(torch.tensor(lengths), 5, "right")


def test_check_lengths_names_max_len(refused):
    with refused(ValueError, "max_len must be at least 1; got 0"):
        check_lengths(torch.tensor([0]), 0, "right")


def test_check_lengths_names_side(refused):
    with refused(ValueError, """side must be "left" or "right"; got 'top'"""):
        check_lengths(torch.tensor([1]), 5, "top")


@pytest.mark.parametrize("axis", [-3, 2, 3])
def test_check_scores_names_axis(refused, axis):
    words = f"x has nothing to share out along axis {axis}: (2, 3)"
    with refused(ValueError, words):
        check_scores(np.zeros((2, 3)), axis, 1.0)


@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
def test_check_scores_accepts_each_axis(axis):
    check_scores(np.zeros((2, 3)), axis, 1.0)


@pytest.mark.parametrize("shape", [(5, 4), (4,), (1, 2, 5, 4), (2, 5, 3), (2, 4, 5)])
def test_check_tokens_names_shape(refused, shape):
    words = (
        f"x must be (batch, length, 4); got {shape}: this layer was built for d_model=4"
    )
    with refused(ValueError, words):
        check_tokens(torch.zeros(shape), torch.zeros(3, 4))


@pytest.mark.parametrize("shape", [(0, 5, 4), (2, 0, 4)])
def test_check_tokens_names_empty_axis(refused, shape):
    with refused(ValueError, f"x has an axis of length zero, {shape}"):
        check_tokens(torch.zeros(shape), torch.zeros(3, 4))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([[[1.0]]], "x must be a torch.Tensor; got list"),
        (torch.zeros(2, 5, dtype=torch.int64), "x must hold floats; got torch.int64"),
        (torch.zeros(2, 5, 4).double(), "x must have the type of the layer, torch.fl"),
        (torch.zeros(2, 5, 4, device="meta"), "x must be on the device of the layer"),
    ],
    ids=["list", "token ids", "type", "device"],
)
def test_check_tokens_names_kind_type_and_device(refused, x, words):
    with refused(TypeError, words):
        check_tokens(x, torch.zeros(3, 4))


def test_check_tokens_accepts_what_fits():
    check_tokens(torch.zeros(2, 5, 4), torch.zeros(3, 4))


@pytest.mark.parametrize("size", [2.0, "2", True, None])
def test_check_positive_names_type(refused, size):
    with refused(TypeError, f"head_dim must be an int; got {size!r}"):
        check_positive(d_model=4, head_dim=size)


@pytest.mark.parametrize("size", [0, -3])
def test_check_positive_names_value(refused, size):
    with refused(ValueError, f"head_dim must be at least 1; got {size}"):
        check_positive(d_model=4, head_dim=size)


def test_check_positive_accepts_one():
    check_positive(d_model=1, head_dim=1)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1, 1.5, float("nan")])
def test_check_dropout_names_value(refused, dropout):
    words = f"dropout must be at least 0 and below 1; got {dropout}"
    with refused(ValueError, words):
        check_dropout(dropout)


@pytest.mark.parametrize("dropout", [0.0, 0.99])
def test_check_dropout_accepts_what_fits(dropout):
    check_dropout(dropout)


def whole(*shape, dtype=torch.int64, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_check_token_ids_accepts_what_fits(dtype):
    token_ids = torch.tensor([[0, 6, 3], [1, 2, 0]], dtype=dtype)
    check_token_ids(token_ids, 7, torch.tensor([3, 0]), max_len=3)


@pytest.mark.parametrize(
    ("token_ids", "came"),
    [
        (whole(2, 3, dtype=torch.int16), "torch.int16"),
        (whole(2, 3, dtype=torch.uint8), "torch.uint8"),
        (torch.zeros(2, 3), "torch.float32"),
        (np.zeros((2, 3), int), "ndarray"),
        ([[1, 2]], "list"),
    ],
)
def test_check_token_ids_names_type(refused, token_ids, came):
    with refused(TypeError, f"token_ids must be a tensor of int64; got {came}"):
        check_token_ids(token_ids, 7, max_len=9)


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3), (0, 3), (2, 0)])
def test_check_token_ids_names_axes(refused, shape):
    words = (
        f"token_ids must be (batch, length); got {shape}: write a single text as one "
        "row, `token_ids[None, :]`"
    )
    with refused(ValueError, words):
        check_token_ids(whole(*shape), 7, max_len=9)


def test_check_token_ids_names_length(refused):
    words = (
        "token_ids hold 4 tokens; the context has 3: cut the text, or build a model "
        "with a longer context_len"
    )
    with refused(ValueError, words):
        check_token_ids(whole(2, 4), 7, max_len=3)


@pytest.mark.parametrize(("ids", "wrong"), [([3, 7], 7), ([-1, 9], -1), ([8, 9], 9)])
def test_check_token_ids_names_ids_outside(refused, ids, wrong):
    words = (
        f"token_ids must lie between 0 and 6; got {wrong}: were they made by another "
        "tokenizer?"
    )
    with refused(ValueError, words):
        check_token_ids(torch.tensor([ids]), 7, max_len=9)


def test_check_token_ids_reads_no_values_on_meta():
    lengths = whole(2, device="meta")
    check_token_ids(whole(2, 3, device="meta"), 7, lengths, max_len=3)


def test_check_token_ids_names_devices(refused):
    words = (
        "token_ids must be on the device of the model, meta; got cpu: move it with "
        "`.to(device)`"
    )
    with refused(TypeError, words):
        check_token_ids(whole(2, 3), 7, max_len=9, like=torch.zeros(2, device="meta"))
    check_token_ids(whole(2, 3), 7, max_len=9, like=torch.zeros(2))
    words = "lengths must be on the device of the token_ids, cpu; got meta"
    with refused(TypeError, words):
        check_token_ids(whole(2, 3), 7, whole(2, device="meta"), max_len=9)


def test_check_token_ids_names_lengths(refused):
    words = "lengths must hold one number a text; got 1 for 2 texts"
    with refused(ValueError, words):
        check_token_ids(whole(2, 3), 7, torch.tensor([3]), max_len=9)
    with refused(ValueError, "lengths must lie between 0 and max_len 3; got [3, 4]"):
        check_token_ids(whole(2, 3), 7, torch.tensor([3, 4]), max_len=9)
    with refused(TypeError, "lengths must be a tensor of int64; got list"):
        check_token_ids(whole(2, 3), 7, [3, 3], max_len=9)


def test_check_logits_accepts_what_fits():
    check_logits(torch.zeros(2, 3, 7), whole(2, 3) + 6)
    check_logits(torch.zeros(2, 3, 7), whole(2, 3), torch.tensor([0, 2]))
    meta = torch.zeros(2, 3, 7, device="meta"), whole(2, 3, device="meta")
    check_logits(*meta, whole(2, device="meta"))


@pytest.mark.parametrize("shape", [(2, 2, 7), (3, 3, 7), (2, 7), (1, 2, 3, 7), (7,)])
def test_check_logits_names_shape(refused, shape):
    words = (
        f"logits must be (batch, length, vocabulary) for token_ids (2, 3); got {shape}"
    )
    with refused(ValueError, words):
        check_logits(torch.zeros(shape), whole(2, 3))


def test_check_logits_names_ids_and_lengths(refused):
    with refused(ValueError, "token_ids must lie between 0 and 6; got 7"):
        check_logits(torch.zeros(2, 3, 7), whole(2, 3) + 7)
    with refused(ValueError, "lengths must hold one number a text; got 3 for 2 texts"):
        check_logits(torch.zeros(2, 3, 7), whole(2, 3), whole(3))


@pytest.mark.parametrize(("length", "lengths"), [(1, None), (3, [1, 1]), (3, [0, 1])])
def test_check_logits_names_texts_without_target(refused, length, lengths):
    lengths = lengths and torch.tensor(lengths)
    with refused(ValueError, "no text has two tokens: there is no next token to pred"):
        check_logits(torch.zeros(2, length, 7), whole(2, length), lengths)


MODEL = dict(
    vocab_size=1, context_len=1, d_model=6, num_heads=3, num_layers=1, dropout=0.0
)


def test_check_config_accepts_what_fits():
    check_config(SimpleNamespace(**MODEL))


@pytest.mark.parametrize("name", [name for name in MODEL if name != "dropout"])
def test_check_config_names_sizes(refused, name):
    with refused(ValueError, f"{name} must be at least 1; got 0"):
        check_config(SimpleNamespace(**(MODEL | {name: 0})))


def test_check_config_names_heads_and_dropout(refused):
    with refused(ValueError, "num_heads must divide d_model; got 4 heads for a width"):
        check_config(SimpleNamespace(**(MODEL | {"num_heads": 4})))
    with refused(ValueError, "dropout must be at least 0 and below 1; got 1"):
        check_config(SimpleNamespace(**(MODEL | {"dropout": 1})))


RUN = {"steps": 5, "batch_size": 1, "warmup": 4, "max_grad_norm": 1e-9}


@pytest.mark.parametrize("other", [{}, {"warmup": 0}, {"max_grad_norm": math.inf}])
def test_check_run_accepts_what_fits(other):
    check_run(SimpleNamespace(**(RUN | other)))


@pytest.mark.parametrize(
    ("name", "value", "error", "words"),
    [
        ("steps", 0, ValueError, "steps must be at least 1; got 0"),
        ("steps", 5.0, TypeError, "steps must be an int; got 5.0"),
        ("batch_size", 0, ValueError, "batch_size must be at least 1; got 0"),
        ("warmup", 4.0, TypeError, "warmup must be an int; got 4.0"),
        ("warmup", False, TypeError, "warmup must be an int; got False"),
        ("warmup", 5, ValueError, "warmup must lie between 0 and steps - 1, 4; got 5"),
        ("warmup", -1, ValueError, "warmup must lie between 0 and steps - 1, 4; got -"),
        ("max_grad_norm", 0, ValueError, "max_grad_norm must be above 0; got 0: math"),
        (
            "max_grad_norm",
            math.nan,
            ValueError,
            "max_grad_norm must be above 0; got n",
        ),
    ],
)
def test_check_run_names_what_is_wrong(refused, name, value, error, words):
    with refused(error, words):
        check_run(SimpleNamespace(**(RUN | {name: value})))


@pytest.mark.parametrize(
    "ids",
    [[0, 6], (0, 6), torch.tensor([0, 6]), np.array([0, 6]), [torch.tensor(0), 6]],
    ids=["list", "tuple", "tensor", "array", "list of tensors"],
)
def test_check_ids_gives_plain_numbers(ids):
    found = check_ids(ids, 7)
    assert found == [0, 6]
    assert {type(i) for i in found} == {int}


def test_check_ids_accepts_none_at_all():
    assert check_ids([], 7) == []


@pytest.mark.parametrize(("ids", "wrong"), [([0, 7], 7), ([-1], -1), ([9, -2], 9)])
def test_check_ids_names_ids_outside(refused, ids, wrong):
    words = (
        f"ids must lie between 0 and 6; got {wrong}: were they made by another "
        "tokenizer?"
    )
    with refused(ValueError, words):
        check_ids(ids, 7)


NO_ROWS = [
    ("text", "str"),
    ([1.0], "list"),
    ([[1, 2]], "list"),
    (None, "NoneType"),
    (3, "int"),
    (iter([1]), "list_iterator"),
    (np.ones(2), "ndarray"),
    (np.ones((2, 2), int), "ndarray"),
    (torch.ones(2), "torch.float32 of shape (2,)"),
    (whole(2, dtype=torch.bool), "torch.bool of shape (2,)"),
    (whole(1, 2), "torch.int64 of shape (1, 2)"),
    (whole(), "torch.int64 of shape ()"),
]


@pytest.mark.parametrize(("ids", "came"), NO_ROWS)
def test_check_ids_names_what_is_no_row(refused, ids, came):
    words = f"ids must be whole numbers in one row; got {came}: encode a text first"
    with refused(TypeError, words):
        check_ids(ids, 7)


@pytest.mark.parametrize(("token_ids", "came"), NO_ROWS)
def test_check_window_sizes_names_what_is_no_row(refused, token_ids, came):
    words = f"token_ids must be whole numbers in one row; got {came}: encode a text"
    with refused(TypeError, words):
        check_window_sizes(token_ids, 1, 1)


def test_check_window_sizes_names_sizes(refused):
    check_window_sizes([0, 0, 0], 2, 9)
    words = (
        "the text has 3 tokens, a window of length 3 needs 4: take a longer text or a "
        "shorter window"
    )
    with refused(ValueError, words):
        check_window_sizes([0, 0, 0], 3, 1)
    with refused(ValueError, "length must be at least 1; got 0"):
        check_window_sizes([0, 0, 0], 0, 1)
    with refused(ValueError, "stride must be at least 1; got 0"):
        check_window_sizes([0, 0, 0], 1, 0)


@pytest.mark.parametrize("text", ["", "a", "\x00", "\ufeff", "🙂", "\uffff", "\ud7ff"])
def test_check_text_accepts_every_character(text):
    check_text(text)


@pytest.mark.parametrize(("text", "place"), [("\ud800", 0), ("ab\udfffc\ud800", 2)])
def test_check_text_names_half_a_character(refused, text, place):
    words = (
        f"the text holds {text[place]!r} at {place}, which is no character: was it "
        "read with the right encoding?"
    )
    with refused(ValueError, words):
        check_text(text)


@pytest.mark.parametrize(("text", "came"), [(b"a", "bytes"), (None, "NoneType")])
def test_check_text_names_what_is_no_text(refused, text, came):
    with refused(TypeError, f"a text must be a str; got {came}"):
        check_text(text)


def test_check_texts_accepts_what_fits():
    check_texts(["a", "", "b"])
    check_texts(("a",))


@pytest.mark.parametrize("texts", [[], [""], ("", "")])
def test_check_texts_names_nothing(refused, texts):
    with refused(ValueError, "the text is empty: there is nothing to learn from"):
        check_texts(texts)


@pytest.mark.parametrize(
    ("texts", "came"), [("a", "a single one"), (iter("a"), "str_"), ({"a"}, "set")]
)
def test_check_texts_names_what_is_no_list(refused, texts, came):
    with refused(TypeError, f"texts must be a list of texts; got {came}"):
        check_texts(texts)


def test_check_texts_names_what_is_no_text(refused):
    with refused(TypeError, "a text must be a str; got int"):
        check_texts(["a", 3])


@pytest.mark.usefixtures("shapes_unchecked")  # a whole number will do as well
@pytest.mark.parametrize(("temperature", "top_k"), [(0, None), (0.0, 1), (1e9, 9)])
def test_check_sampling_accepts_what_fits(temperature, top_k):
    check_sampling(temperature, top_k)


@pytest.mark.parametrize("temperature", [-1e-9, math.inf, math.nan])
def test_check_sampling_names_temperature(refused, temperature):
    words = f"temperature must be 0 or more, finite; got {temperature}"
    with refused(ValueError, words):
        check_sampling(temperature, None)


def test_check_sampling_names_top_k(refused):
    with refused(ValueError, "top_k must be at least 1; got 0"):
        check_sampling(0.0, 0)
    with refused(TypeError, "top_k must be an int; got 2.0"):
        check_sampling(0.0, 2.0)


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [((6, 3), 2), ((6, 4, 5), 5), ((6, 6), 1), ((6, 2, None, 9), 3)],
)
def test_check_heads_gives_the_width_of_one(sizes, wanted):
    assert check_heads(*sizes) == wanted


def test_check_heads_names_widths(refused):
    words = (
        "num_heads must divide d_model; got 4 heads for a width of 6: choose another "
        "number, or say head_dim"
    )
    with refused(ValueError, words):
        check_heads(6, 4)


@pytest.mark.parametrize("place", range(4))
def test_check_heads_names_sizes(refused, place):
    name = ["d_model", "num_heads", "head_dim", "d_out"][place]
    sizes = [6, 3, 2, 5]
    sizes[place] = 0
    with refused(ValueError, f"{name} must be at least 1; got 0"):
        check_heads(*sizes)
    sizes[place] = 2.0
    with refused(TypeError, f"{name} must be an int; got 2.0"):
        check_heads(*sizes)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_check_scores_names_temperature(refused, temperature):
    words = f"temperature must be above 0 and finite; got {temperature}"
    with refused(ValueError, words):
        check_scores(np.zeros(3), 0, temperature)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_check_scores_names_values(refused, wrong):
    with refused(ValueError, "x holds NaN or +inf: look at what made the scores"):
        check_scores(np.array([0.0, wrong, -math.inf]), 0, 1.0)
    check_scores(np.array([0.0, -math.inf]), 0, 1.0)
