"""attention_lib.validation: each refusal names the argument, what came, what to do."""

import numpy as np
import pytest
import torch

from attention_lib.validation import (
    check_dropout,
    check_inputs,
    check_lengths,
    check_mask,
    check_masks,
    check_positive,
    check_scores,
    check_tokens,
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
