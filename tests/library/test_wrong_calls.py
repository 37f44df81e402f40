"""Wrong calls of public functions are refused, in words that name the argument."""

import re

import numpy as np
import pytest
import torch

import attention_lib as al
from attention_lib import (
    cross_attention,
    data,
    interpret,
    plotting,
    pretrained,
    serving,
    training,
)
from attention_lib.decode_step import make_decode_step
from attention_lib.export import DynamicCacheStep, export_model
from tests.library.wrong_calls import (
    CALLS,
    FIELDS,
    IDS,
    MODEL,
    TEXTS,
    TRANSLATOR,
    fault,
)

# Without a target, a loss is nan.
KNOWN = {"next_token_loss(lengths"}


@pytest.mark.usefixtures("shapes_unchecked")
def test_wrong_calls_are_refused_in_words():
    faults, number = [], 0
    for function, right, each in CALLS:
        called = getattr(function, "__qualname__", type(function).__name__)
        for name, wrong in [(n, wrong) for n in each for wrong in each[n]]:
            number += 1
            if said := fault(function, right, name, wrong):
                faults.append((f"{called}({name}", f"={str(wrong)[:40]}): {said}"))
    report = "\n".join([f"of {number} wrong calls:", *map("".join, faults)])
    assert {call for call, _ in faults} == KNOWN, report
    # Of 2,000 calls at most 1 % may be silent, 3 % unclear: these are far below.
    assert len(faults) <= 8, report


def exports(function):
    wanted = "attention_lib.export.onnx", "attention_lib.export.run"
    return getattr(function, "__module__", "") in wanted


def test_the_same_calls_without_what_is_wrong_are_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a checkpoint is written, and read again
    for function, right, _ in CALLS:
        if not exports(function):
            function(**right)


@pytest.mark.usefixtures("shapes_unchecked")  # a length has no value while it is traced
def test_exports_without_what_is_wrong_are_right():
    for function, right, _ in CALLS:
        if exports(function):
            function(**right)


LAYER, OTHER = al.MultiHeadAttention(4, 2), al.MultiHeadAttention(4, 1)
X, PADDING = torch.ones(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
FULL = MODEL.new_cache(2)
MODEL(IDS.repeat(1, 2), cache=FULL)
KEPT = cross_attention.cache_memory(OTHER, X)
SMALL = al.TinyLM(al.ModelConfig(5, 8, 4, 2, 1)).eval()
GREAT = training.TrainConfig(steps=4, batch_size=2, learning_rate=1e6)


def patched(value):
    with interpret.patch_heads(SMALL, {(0, 0): value}):
        SMALL(IDS)


# Calls that were once refused in words about something that the caller had not given.
MISLED = {
    "mask (2, 3) does not broadcast to the scores (2, 2, 3, 3): padding is (batch, 1, "
    "1, keys): `mask[:, None, None]`": lambda: LAYER(X, PADDING, causal=True),
    "embed token ids first": lambda: al.generate(LAYER, IDS, max_new_tokens=2),
    "the context has 8, of which the cache holds 6": lambda: MODEL(IDS, cache=FULL),
    "token_ids must be between 0 and 6; got 9": lambda: MODEL(IDS + 8),
    "positions must be between 0 and 7; got 9 to 9": lambda: MODEL(
        IDS, positions=torch.full((3,), 9)
    ),
    "kept holds 1 heads of width 4; the layer has 2 of width 2": lambda: (
        cross_attention.attend_cached(LAYER, X, KEPT)
    ),
    "source must be a multi-head layer; got <class": lambda: al.copy_weights(
        al.MultiHeadAttention, LAYER
    ),
    "mha must be one of": lambda: al.TinyBlock(4, 2, mha="gqa"),
    "source and target must hold the same number of texts; got 2 and 1": lambda: (
        TRANSLATOR(IDS, IDS[:1])
    ),
    "got a tensor (2, 3, 4)": lambda: TRANSLATOR.decode(IDS, X),
    "past must be a Sequence; got KVCache": lambda: DynamicCacheStep(MODEL)(
        IDS, MODEL.new_cache(2)
    ),
    "the words of an axis must be a list; got 'title'": lambda: plotting.show_masks(
        PADDING[:, :2], ["a", "b"], "title"
    ),
    "w must hold numbers; got object": lambda: plotting.show_bars(
        {"w": [1, None]}, ["a", "b"], xlabel="", ylabel=""
    ),
    "x must be (rows, columns); got (2,)": lambda: plotting.show_cells(
        [{"x": [10, 11]}], head_dim=1
    ),
    "take those after the last token": lambda: al.sample_token(torch.ones(2, 3, 7)),
    "`causal=True` of a layer": lambda: LAYER(X, True),
    "several masks are `combine_masks(*masks)`": lambda: al.combine_masks([PADDING]),
    "value must hold floats; got torch.bool: a mask is given as `mask`": lambda: (
        al.scaled_dot_product_attention(X, X, PADDING)
    ),
    "angles must hold floats; got torch.int64: make them with `rope_angles": lambda: (
        LAYER(X, angles=torch.arange(3))
    ),
    "logits must hold floats; got torch.int64: pass the scores": lambda: (
        al.next_token_loss(IDS, torch.ones(2, 3, 7))
    ),
    "one mask per head is (batch, heads, queries, keys)": lambda: LAYER(
        X, torch.ones(4, 3, 3, dtype=torch.bool)
    ),
    "x must be (..., 4); got (2, 3, 3): this layer was built for a width of": lambda: (
        al.RMSNorm(4)(torch.ones(2, 3, 3))
    ),
    "x must have the type of the layer, torch.float32; got torch.float16": lambda: (
        al.RMSNorm(4)(X.half())
    ),
    "got (2, 0): leave empty batches and texts out": lambda: al.generate(
        MODEL, IDS[:, :0], max_new_tokens=2
    ),
    "each token is one number, not a vector": lambda: MODEL(IDS[..., None]),
    "d_model / num_heads, which is rotated, must be even": lambda: al.ModelConfig(
        7, 8, 6, 2, 1, positions="rotary"
    ),
    "model must have a forward; ModuleList has none": lambda: al.generate(
        MODEL.blocks, IDS, max_new_tokens=2
    ),
    "TinyTranslator also needs target": lambda: al.generate(
        TRANSLATOR, IDS, max_new_tokens=2
    ),
    "source must be a tensor of int64; got torch.float32": lambda: TRANSLATOR(
        IDS.float(), IDS
    ),
    "got a tensor (1, 3, 4)": lambda: TRANSLATOR.decode(IDS[:1], X[:1]),
    "token_ids must be (batch, 1), one new each; got (2,)": lambda: make_decode_step(
        SMALL, SMALL.new_cache(2)
    )(IDS[:, 0]),
    "got list with 1.0: convert them to whole numbers": lambda: (
        data.SlidingWindowDataset([1.0, 2.0, 3.0], 1, 1)
    ),
    "write a single id as `[id]`": lambda: data.ByteTokenizer().decode(5),
    "got list: one text at a time": lambda: data.ByteTokenizer().decode([[5]]),
    "test_wrong_calls.py is a file: pass its folder": lambda: pretrained.Checkpoint(
        __file__
    ),
    "there is no folder none": lambda: pretrained.load_tokenizer("none"),
    "(without a rope_type it is 'default')": lambda: pretrained.read_config(
        FIELDS | {"rope_scaling": {"factor": 2.0}}
    ),
    "sizes['batch'] must be an Iterable; got int": lambda: export_model(
        MODEL, "model.onnx", sizes={"batch": 2}
    ),
    "the draft refuses the text: token_ids must be between 0 and 4": lambda: (
        serving.speculative_generate(MODEL, SMALL, IDS + 5, max_new_tokens=3)
    ),
    "guesses must be whole numbers in one row; got NoneType: give": lambda: (
        serving.speculative_generate(MODEL, lambda *_: None, IDS, max_new_tokens=3)
    ),
    "value must be a number; got ndarray of shape (2,)": lambda: patched(np.zeros(2)),
    "w holds inf: leave it out": lambda: plotting.show_bars(
        {"w": [1, torch.inf]}, ["a", "b"], xlabel="", ylabel=""
    ),
    "w holds only nan": lambda: plotting.show_bars(
        {"w": [torch.nan]}, ["a"], xlabel="", ylabel=""
    ),
    "w must have rows of equal lengths": lambda: plotting.show_curves(
        [1, 2], {"w": [[1, 2], [3]]}, xlabel="", ylabel=""
    ),
    "labels must be a list; got 'ab'": lambda: plotting.show_bars(
        {"w": [1, 2]}, "ab", xlabel="", ylabel=""
    ),
}


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("words", MISLED)
def test_words_are_about_what_was_given(words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        MISLED[words]()


def test_gradient_of_a_huge_loss_names_the_learning_rate():
    model = al.TinyLM(al.ModelConfig(7, 8, 4, 2, 1))
    with pytest.raises(ValueError, match="try a smaller learning rate"):
        training.train(model, TEXTS, GREAT)
