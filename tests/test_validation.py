"""attention_lib.validation: each refusal names the argument, what came, what to do."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attention_lib.validation import (
    check_config,
    check_dropout,
    check_features,
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
    check_token_values,
    check_tokens,
    check_window_sizes,
)

KINDS = {"numpy": np.ndarray, "torch": torch.Tensor}
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
    if kind == "numpy":
        return np.ones(shape, bool)
    return torch.ones(shape, dtype=torch.bool)


def whole(*shape, dtype=torch.int64, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


def inputs(kind="torch", mask=None, **changed):
    """Checks inputs of one kind that fit, but for those that are given."""
    given = {name: zeros(kind, *shape) for name, shape in SHAPES.items()} | changed
    check_inputs(**given, mask=mask, kind=KINDS[kind])


def config(**changed):
    check_config(SimpleNamespace(**(MODEL | changed)))


def training(**changed):
    check_run(SimpleNamespace(**(RUN | changed)))


def like(shape):
    return torch.zeros(shape)


@both_kinds
@pytest.mark.parametrize(
    "mask", [(), (3,), (2, 1), (1, 3), (2, 3), (5, 1, 3), (7, 5, 2, 3)]
)
def test_check_inputs_accepts_what_fits(kind, mask):
    query, key = zeros(kind, 7, 5, 2, 4), zeros(kind, 5, 3, 4)
    inputs(
        kind, trues(kind, *mask), query=query, key=key, value=zeros(kind, 7, 1, 3, 6)
    )


def test_checks_read_no_values_on_meta():
    meta = [torch.zeros(n, 4, device="meta") for n in (2, 3, 3)]
    check_inputs(*meta, torch.ones(2, 3, dtype=torch.bool, device="meta"))
    check_lengths(whole(3, device="meta"), 5, "right")
    lengths = whole(2, device="meta")
    check_token_ids(whole(2, 3, device="meta"), lengths, max_len=3)
    check_token_values(whole(2, 3, device="meta"), 7)
    check_logits(
        torch.zeros(2, 3, 7, device="meta"), whole(2, 3, device="meta"), lengths
    )


ACCEPTED = {
    "inputs without value": lambda: check_inputs(like((2, 4)), like((3, 4))),
    "an additive mask made boolean": lambda: check_mask(
        torch.tensor([[0.0, -torch.inf]]) == 0, (2, 2), like=like((2, 4))
    ),
    "masks that broadcast": lambda: check_masks(
        [trues("torch", *shape) for shape in ((3, 3), (2, 1, 3), (1, 3))]
    ),
    "lengths": lambda: check_lengths(torch.tensor([0, 3, 5]), 5, "left"),
    "lengths of int32": lambda: check_lengths(torch.tensor([5]).int(), 5, "right"),
    "first axis": lambda: check_scores(np.zeros((2, 3)), -2, 1.0),
    "last axis": lambda: check_scores(np.array([[0.0, -math.inf]]), 1, 1.0),
    "tokens": lambda: check_tokens(like((2, 5, 4)), like((3, 4))),
    "sizes of one": lambda: check_positive(d_model=1, head_dim=1),
    "dropout": lambda: (check_dropout(0.0), check_dropout(0.99)),
    "token ids": lambda: check_token_ids(whole(2, 3), whole(2) + 9, max_len=3),
    "token ids of int32": lambda: check_token_ids(
        whole(2, 3, dtype=torch.int32), max_len=9, like=like(2)
    ),
    "token values": lambda: check_token_values(torch.tensor([[0, 6, 3], [1, 2, 0]]), 7),
    "logits": lambda: check_logits(like((2, 3, 7)), whole(2, 3) + 6),
    "logits with lengths": lambda: check_logits(
        like((2, 3, 7)), whole(2, 3), torch.tensor([0, 2])
    ),
    "a config": config,
    "a run": lambda: (training(), training(warmup=0, max_grad_norm=math.inf)),
    "windows": lambda: check_window_sizes([0, 0, 0], 2, 9),
    "texts": lambda: (check_texts(["a", "", "b"]), check_texts(("a",))),
    "temperatures": lambda: (check_sampling(0.0, None), check_sampling(1e9, 9)),
}


@pytest.mark.parametrize("call", ACCEPTED.values(), ids=ACCEPTED)
def test_checks_accept_what_fits(call):
    call()


@both_kinds
@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        (
            "key",
            (3, 5),
            "query and key must have the same width; got query (2, 4) and key (3, 5): "
            "project both to one head_dim",
        ),
        (
            "value",
            (2, 6),
            "key and value must have the same length; got key (3, 4) and value (2, 6): "
            "each key needs exactly one value",
        ),
        (
            "query",
            (4,),
            "query must have at least two axes, (length, width); got (4,): write a "
            "single vector as one row, `query[None, :]`",
        ),
        ("value", (), "value must have at least two axes, (length, width); got ()"),
        (
            "query",
            (0, 4),
            "query has an axis of length zero, (0, 4): leave empty batches and",
        ),
        ("value", (3, 0), "value has an axis of length zero, (3, 0)"),
        ("query", (0, 2, 4), "query has an axis of length zero, (0, 2, 4)"),
    ],
)
def test_check_inputs_names_shapes(kind, refused, name, shape, words):
    with refused(ValueError, words):
        inputs(kind, **{name: zeros(kind, *shape)})


@both_kinds
@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    ("wanted", "came"), [((5,), (7,)), ((1,), (5,)), ((), (5,)), ((5,), (5, 5))]
)
def test_check_inputs_names_leading_axes(kind, refused, name, wanted, came):
    given = {
        "query": zeros(kind, *wanted, 2, 4),
        name: zeros(kind, *came, *SHAPES[name]),
    }
    words = (
        f"the leading axes of {name}, {came}, do not broadcast to the query's, "
        f"{wanted}: expand the query first"
    )
    with refused(ValueError, words):
        inputs(kind, **given)


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    ("kind", "other", "words"),
    [
        ("numpy", np.zeros((3, 4)), "have the type of the query, float32; got float64"),
        (
            "torch",
            like((3, 4)).double(),
            "have the type of the query, torch.float32; g",
        ),
        ("torch", whole(3, 4), "hold floats; got torch.int64: convert it with `.float"),
        (
            "torch",
            torch.zeros(3, 4, device="meta"),
            "be on the device of the query, cpu; got meta: move it with `.to(device)`",
        ),
        ("torch", np.zeros((3, 4)), "be a torch.Tensor; got ndarray"),
        ("numpy", like((3, 4)), "be a numpy.ndarray; got Tensor"),
        ("torch", [[1.0, 2.0]], "be a torch.Tensor; got list"),
    ],
)
def test_check_inputs_names_kinds_types_and_devices(refused, name, kind, other, words):
    with refused(TypeError, f"{name} must {words}"):
        inputs(kind, **{name: other})


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
        inputs(kind, trues(kind, *shape))


@pytest.mark.parametrize(
    ("mask", "of", "words"),
    [
        (
            torch.zeros(2, 3),
            "torch",
            "boolean (True: may attend); got torch.float32: turn an additive mask of 0 "
            "and -inf into `mask == 0`, a 0/1 mask into `mask == 1`",
        ),
        (np.zeros((2, 3)), "torch", "boolean (True: may attend); got float64"),
        ([[True]], "torch", "boolean (True: may attend); got list"),
        (trues("numpy", 2, 3), "torch", "a torch.Tensor; got ndarray"),
        (trues("torch", 2, 3), "numpy", "a numpy.ndarray; got Tensor"),
        (
            trues("torch", 2, 3).to("meta"),
            "torch",
            "on the device of the query, cpu; got meta",
        ),
    ],
)
def test_check_mask_names_what_is_no_mask(refused, mask, of, words):
    with refused(TypeError, f"mask must be {words}"):
        check_mask(mask, (2, 3), like=zeros(of, 2, 4))


WRONG_VALUES = {
    "combine_masks needs at least one mask": lambda: check_masks([]),
    "masks do not broadcast: (3, 3) and (2, 1, 4)": lambda: check_masks(
        [trues("torch", 3, 3), trues("torch", 2, 1, 4)]
    ),
    "lengths must be (batch,), one per sequence; got (2, 3)": lambda: check_lengths(
        whole(2, 3), 5, "right"
    ),
    "lengths must be (batch,), one per sequence; got (0,)": lambda: check_lengths(
        whole(0), 5, "right"
    ),
    "max_len must be at least 1; got 0": lambda: check_lengths(
        torch.tensor([0]), 0, "right"
    ),
    'side must be "left" or "right"; got \'top\'': lambda: check_lengths(
        torch.tensor([1]), 5, "top"
    ),
    **{
        f"x has nothing to share out along axis {axis}: (2, 3)": lambda axis=axis: (
            check_scores(np.zeros((2, 3)), axis, 1.0)
        )
        for axis in (-3, 2)
    },
    **{
        f"temperature must be above 0 and finite; got {wrong}": lambda wrong=wrong: (
            check_scores(np.zeros(3), 0, wrong)
        )
        for wrong in (0.0, -1.0, math.inf, math.nan)
    },
    "x holds NaN or +inf: look at what made the scores": lambda: check_scores(
        np.array([0.0, math.nan]), 0, 1.0
    ),
    "x holds NaN or +inf": lambda: check_scores(np.array([0.0, math.inf]), 0, 1.0),
    **{
        f"x must be (batch, length, 4); got {shape}: this layer was "
        "built for d_mo": lambda shape=shape: check_tokens(like(shape), like((3, 4)))
        for shape in ((5, 4), (1, 2, 5, 4), (2, 5, 3))
    },
    "x has an axis of length zero, (2, 0, 4)": lambda: check_tokens(
        like((2, 0, 4)), like((3, 4))
    ),
    "eps must be at least 0 and finite; got -1": lambda: check_features(
        like((2, 4)), eps=-1
    ),
    "head_dim must be at least 1; got 0": lambda: check_positive(d_model=4, head_dim=0),
    **{
        "dropout must be at least 0 and below 1; got "
        f"{dropout}": lambda dropout=dropout: check_dropout(dropout)
        for dropout in (-0.1, 1.0, math.nan)
    },
    **{
        f"token_ids must be (batch, length); got {shape}: write a "
        "single text as one row, `token_ids[None, :]`": lambda shape=shape: (
            check_token_ids(whole(*shape), max_len=9)
        )
        for shape in ((3,), (1, 2, 3), (0, 3), (2, 0))
    },
    "token_ids hold 4 tokens; the context has 3: cut the text, "
    "or build a model with a longer context_len": lambda: check_token_ids(
        whole(2, 4), max_len=3
    ),
    **{
        f"token_ids must lie between 0 and 6; got {wrong}: were they "
        "made by anot": lambda ids=ids: check_token_values(torch.tensor([ids]), 7)
        for ids, wrong in [([3, 7], 7), ([-1, 9], -1)]
    },
    "lengths must hold one number per text; got 1 for 2 texts": lambda: check_token_ids(
        whole(2, 3), torch.tensor([3]), max_len=9
    ),
    **{
        "logits must be (batch, length, vocabulary) for token_ids "
        f"(2, 3); got {shape}": lambda shape=shape: check_logits(
            like(shape), whole(2, 3)
        )
        for shape in ((2, 2, 7), (3, 3, 7), (2, 7), (1, 2, 3, 7))
    },
    "lengths must hold one number per text; got 3 for 2 texts": lambda: check_logits(
        like((2, 3, 7)), whole(2, 3), whole(3)
    ),
    "no text has two tokens": lambda: check_logits(like((2, 1, 7)), whole(2, 1)),
    **{
        f"{name} must be at least 1; got 0": lambda name=name: config(**{name: 0})
        for name in MODEL
        if name not in ("dropout", "tie_weights")
    },
    "num_heads must divide d_model; got 4": lambda: config(num_heads=4),
    "dropout must be at least 0 and below 1": lambda: config(dropout=1),
    "steps must be at least 1; got 0": lambda: training(steps=0),
    "batch_size must be at least 1; got 0": lambda: training(batch_size=0),
    "warmup must lie between 0 and steps - 1, 4; go": lambda: training(warmup=5),
    "warmup must lie between 0 and steps - 1, 4": lambda: training(warmup=-1),
    "max_grad_norm must be above 0; got 0": lambda: training(max_grad_norm=0),
    "max_grad_norm must be above 0": lambda: training(max_grad_norm=math.nan),
    **{
        f"ids must lie between 0 and 6; got {wrong}: were they made "
        "by another": lambda ids=ids: check_ids(ids, 7)
        for ids, wrong in [([0, 7], 7), ([-1], -1), ([9, -2], 9)]
    },
    "the text has 3 tokens, a window of length 3 needs 4: take a "
    "longer text or": lambda: check_window_sizes([0, 0, 0], 3, 1),
    "length must be at least 1; got 0": lambda: check_window_sizes([0, 0, 0], 0, 1),
    "stride must be at least 1; got 0": lambda: check_window_sizes([0, 0, 0], 1, 0),
    **{
        f"the text holds {text[place]!r} at {place}, which is no "
        "character: was it read with the right encoding?": lambda text=text: check_text(
            text
        )
        for text, place in [("\ud800", 0), ("ab\udfffc\ud800", 2)]
    },
    "the text is empty: there is nothing to learn from": lambda: check_texts([]),
    "the text is empty": lambda: check_texts(("", "")),
    **{
        f"temperature must be 0 or more, finite; got {wrong}": lambda wrong=wrong: (
            check_sampling(wrong, None)
        )
        for wrong in (-1e-09, math.inf, math.nan)
    },
    "top_k must be at least 1; got 0": lambda: check_sampling(0.0, 0),
    "num_heads must divide d_model; got 4 heads for a width of "
    "6: choose another number, or say head_dim": lambda: check_heads(6, 4),
    **{
        f"{name} must be at least 1": lambda sizes=sizes: check_heads(*sizes)
        for name, sizes in [
            ("d_model", (0, 3, 2, 5)),
            ("num_heads", (6, 0, 2, 5)),
            ("head_dim", (6, 3, 0, 5)),
            ("d_out", (6, 3, 2, 0)),
        ]
    },
}
WRONG_TYPES = {
    "masks must be boolean (True: may attend); got torch.float32": lambda: check_masks(
        [trues("torch", 2, 3), like((2, 3))]
    ),
    "each mask must be a torch.Tensor; got ndarray": lambda: check_masks(
        [trues("numpy", 2, 3)]
    ),
    "each mask must be on the device of the first, cpu; got meta": lambda: check_masks(
        [trues("torch", 2), trues("torch", 2).to("meta")]
    ),
    "lengths must be a tensor of int64; got torch.float32: "
    "`torch.tensor([3, 5])`": lambda: check_lengths(torch.tensor([1.0]), 5, "right"),
    "lengths must be a tensor of int64; got torch.bool": lambda: check_lengths(
        torch.tensor([True]), 5, "right"
    ),
    "lengths must be a tensor of int64; got list": lambda: check_lengths(
        [3, 5], 5, "right"
    ),
    "x must be a torch.Tensor; got list": lambda: check_tokens([[[1.0]]], like((3, 4))),
    "x must hold floats; got torch.int64": lambda: check_tokens(
        whole(2, 5), like((3, 4))
    ),
    "x must have the type of the layer, torch.float32": lambda: check_tokens(
        like((2, 5, 4)).double(), like((3, 4))
    ),
    "x must be on the device of the layer, cpu": lambda: check_tokens(
        like((2, 5, 4)).to("meta"), like((3, 4))
    ),
    **{
        f"head_dim must be an int; got {size!r}": lambda size=size: check_positive(
            d_model=4, head_dim=size
        )
        for size in (2.0, "2", True, None)
    },
    **{
        f"token_ids must be a tensor of int64; got {came}": lambda given=given: (
            check_token_ids(given, max_len=9)
        )
        for given, came in [
            (whole(2, 3, dtype=torch.int16), "torch.int16"),
            (like((2, 3)), "torch.float32"),
            (np.zeros((2, 3), int), "ndarray"),
            ([[1, 2]], "list"),
        ]
    },
    "token_ids must be on the device of the model, meta; got "
    "cpu: move it with": lambda: check_token_ids(
        whole(2, 3), max_len=9, like=torch.zeros(2, device="meta")
    ),
    "lengths must be on the device of the token_ids, cpu; got meta": lambda: (
        check_token_ids(whole(2, 3), whole(2, device="meta"), max_len=9)
    ),
    "query must hold floats; got torch.bool": lambda: inputs(
        query=trues("torch", 2, 4)
    ),
    "temperature must be a number; got 'x'": lambda: check_scores(np.ones(3), 0, "x"),
    "axis must be an int; got 1.5": lambda: check_scores(np.ones(3), 1.5, 1.0),
    "eps must be a number; got None": lambda: check_features(like((2, 4)), eps=None),
    "scale must be a number; got True": lambda: check_inputs(
        like((2, 4)), like((3, 4)), scale=True
    ),
    "steps must be an int; got 5.0": lambda: training(steps=5.0),
    "warmup must be an int; got 4.0": lambda: training(warmup=4.0),
    "warmup must be an int; got False": lambda: training(warmup=False),
    "token_ids must be whole numbers in one row; got str: encode "
    "a text first": lambda: check_window_sizes("text", 1, 1),
    "a text must be a str; got bytes": lambda: check_text(b"a"),
    **{
        f"texts must be a list of texts; got {came}": lambda texts=texts: check_texts(
            texts
        )
        for texts, came in [("a", "a single one"), (iter("a"), "str_"), ({"a"}, "set")]
    },
    "a text must be a str; got int": lambda: check_texts(["a", 3]),
    "top_k must be an int; got 2.0": lambda: check_sampling(0.0, 2.0),
}


@pytest.mark.parametrize("words", WRONG_VALUES)
def test_check_names_what_is_wrong(refused, words):
    with refused(ValueError, words):
        WRONG_VALUES[words]()


@pytest.mark.parametrize("words", WRONG_TYPES)
def test_check_names_what_is_of_another_type(refused, words):
    with refused(TypeError, words):
        WRONG_TYPES[words]()


@pytest.mark.parametrize(
    "ids",
    [(0, 6), torch.tensor([0, 6]), np.array([0, 6]), [torch.tensor(0), 6]],
    ids=["tuple", "tensor", "array", "list of tensors"],
)
def test_check_ids_gives_plain_numbers(ids):
    found = check_ids(ids, 7)
    assert found == [0, 6]
    assert {type(i) for i in found} == {int}
    assert check_ids([], 7) == []


@pytest.mark.parametrize(
    ("ids", "came"),
    [
        ("text", "str"),
        ([1.0], "list"),
        ([[1, 2]], "list"),
        (None, "NoneType"),
        (iter([1]), "list_iterator"),
        (np.ones(2), "ndarray"),
        (np.ones((2, 2), int), "ndarray"),
        (torch.ones(2), "torch.float32 of shape (2,)"),
        (whole(2, dtype=torch.bool), "torch.bool of shape (2,)"),
        (whole(1, 2), "torch.int64 of shape (1, 2)"),
    ],
)
def test_check_ids_names_what_is_no_row(refused, ids, came):
    words = f"ids must be whole numbers in one row; got {came}: encode a text first"
    with refused(TypeError, words):
        check_ids(ids, 7)


@pytest.mark.parametrize("text", ["", "\x00", "\ufeff", "🙂", "\uffff", "\ud7ff"])
def test_check_text_accepts_every_character(text):
    check_text(text)


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [((6, 3), 2), ((6, 4, 5), 5), ((6, 6), 1), ((6, 2, None, 9), 3)],
)
def test_check_heads_gives_the_width_of_one(sizes, wanted):
    assert check_heads(*sizes) == wanted
