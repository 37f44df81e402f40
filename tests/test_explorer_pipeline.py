"""The numbers of the pipeline, and the model that they come from."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attention_lib.block import layer_norm
from attention_lib.explorer.pipeline import (
    MASKS,
    STAGES,
    explore_pipeline,
    mask_of,
    steps_of,
)
from attention_lib.explorer.sentences import WORDS, train_sentence_model
from attention_lib.masks import causal_mask

ROOT = Path(__file__).resolve().parents[1]
SENTENCE = "the cat slept because it was tired"


@pytest.fixture(scope="module")
def model():
    return train_sentence_model()


def test_heads_look_where_they_have_to(model):
    ids = model.encode(SENTENCE)
    for mask in (torch.ones(7, 7, dtype=torch.bool), causal_mask(7)):
        belongs = steps_of(model, ids, mask)["w"]
        assert belongs[4].argmax() == belongs[6].argmax() == 1  # it, tired: cat
        before = steps_of(model, ids, mask, head=1)["w"]
        assert (before[1:].argmax(dim=-1) == torch.arange(6)).all()


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


def test_page_gets_all_numbers_of_the_model(model):
    data = explore_pipeline(model, SENTENCE, block=True).data["model"]
    sent = {
        name: np.array(text.split(" "), float) for name, text in data["numbers"].items()
    }
    given = {
        name: value for name, value in model.state_dict().items() if "norm" not in name
    }
    for numbers, weight in zip(sent.values(), given.values(), strict=True):
        np.testing.assert_array_equal(numbers, weight.flatten())
    assert data["words"] == list(WORDS)


def test_every_chapter_shows_the_same_model(model):
    ours = explore_pipeline(model, SENTENCE, block=True).data["model"]["numbers"]
    shown = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for output in (it for cell in cells for it in cell.get("outputs", [])):
            page = "".join(output.get("data", {}).get("text/html", ""))
            if 'data-kind="pipe"' not in page:
                continue
            data = json.loads(page.split('application/json">')[1].split("</script")[0])
            shown.append(path.stem[:2])
            for name, text in data["model"]["numbers"].items():
                numbers = [np.array(it.split(), float) for it in (text, ours[name])]
                np.testing.assert_allclose(*numbers, atol=0.011, err_msg=path.stem)
    assert shown == ["02", "03", "04", "06", "09"]


def test_static_part_has_the_weights_and_the_row(model):
    view = explore_pipeline(model, SENTENCE, query=4, heads=2)
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
        explore_pipeline(arguments[0] or model, *arguments[1:], **named)
