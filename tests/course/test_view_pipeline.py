"""The numbers of the pipeline, and the model that they come from."""

import re

import numpy as np
import pytest
import torch

from attention_lib.block import layer_norm
from attention_lib.course.views.pipeline import (
    MASKS,
    STAGES,
    mask_of,
    steps_of,
    view_pipeline,
)
from attention_lib.course.views.sentence_model import train_sentence_model
from attention_lib.masks import causal_mask

SENTENCE = "the cat slept because it was tired"


@pytest.fixture(scope="module")
def model(unchecked):
    with unchecked():  # most of the time otherwise
        return train_sentence_model()


def test_heads_look_where_they_have_to(model):
    ids = model.encode(SENTENCE)
    for mask in (torch.ones(7, 7, dtype=torch.bool), causal_mask(7)):
        belongs = steps_of(model, ids, mask)["w"]
        assert belongs[4].argmax() == belongs[6].argmax() == 1  # it, tired: cat
        before = steps_of(model, ids, mask, head=1)["w"]
        assert (before[1:].argmax(dim=-1) == torch.arange(6)).all()


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
def test_model_is_the_same_whatever_a_chapter_has_set(model):
    torch.set_default_dtype(torch.float64)
    try:
        again = train_sentence_model()
    finally:
        torch.set_default_dtype(torch.float32)
    for name, numbers in again.state_dict().items():
        assert torch.equal(numbers, model.state_dict()[name]), name


@pytest.mark.parametrize("name", MASKS)
def test_steps_end_in_the_output_of_the_block(model, name):
    sentence = "the cat slept because it pad pad"
    ids, mask = model.encode(sentence), mask_of(name, sentence.split())
    out = steps_of(model, ids, mask)["y"]
    torch.testing.assert_close(out, model(ids, mask)[0])


def test_lines_of_code_give_the_numbers(model):
    ids, mask = model.encode(SENTENCE), causal_mask(7)
    own, wanted = model.attention, steps_of(model, ids, mask)
    names = {"w_q": own.q_proj.weight[:4].T, "w_k": own.k_proj.weight[:4].T}
    names |= {"w_v": own.v_proj.weight[:4].T, "head_dim": 4, "mask": mask}
    names |= {"words": model.embedding(ids)[0], "places": model.positions.weight[:7]}
    one, zero = torch.ones(8, dtype=torch.float64), torch.zeros(8, dtype=torch.float64)
    names |= {"layer_norm": lambda x: layer_norm(x, one, zero), "inf": float("inf")}
    made = {"x": "x", "q": "query", "s": "scores", "d": "scores", "m": "scores"}
    made |= {"w": "weights", "o": "context"}
    for stage in STAGES:
        exec(stage.code, names)
        torch.testing.assert_close(names[made[stage.id]], wanted[stage.id])


def test_static_part_has_the_weights_and_the_row(model):
    view = view_pipeline(model, SENTENCE, query=4, heads=2)
    assert view.static.count("<table>") == 3
    shown = re.findall(r"<tr><th scope=\"row\">softmax</th>(.*?)</tr>", view.static)
    weights = steps_of(model, model.encode(SENTENCE), mask_of("none", SENTENCE.split()))
    cells = [float(cell) for cell in re.findall(r"<td>([^<]+)</td>", shown[0])]
    np.testing.assert_allclose(cells, weights["w"][4], atol=0.0051)


REFUSED = [
    (("no model", SENTENCE), {}, TypeError, "model must be a SentenceModel; got str"),
    ((None, "the cow ran"), {}, ValueError, "sentence has unknown words: cow"),
    ((None, "the " * 9), {}, ValueError, "sentence must have 1 to 8 words; got 9"),
    ((None, SENTENCE), {"masks": ["past"]}, ValueError, "masks must be"),
    ((None, SENTENCE), {"heads": 3}, ValueError, "heads must be 1 or 2; got 3"),
    ((None, SENTENCE), {"query": 7}, ValueError, "query must be 0 to 6; got 7"),
]


@pytest.mark.parametrize(("arguments", "named", "error", "words"), REFUSED)
def test_explore_pipeline_refuses(model, refused, arguments, named, error, words):
    with refused(error, words):
        view_pipeline(arguments[0] or model, *arguments[1:], **named)
