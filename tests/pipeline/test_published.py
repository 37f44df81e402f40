"""The page of published attentions: recorded as computed, and all layers equal."""

import json

import pytest

from benchmarks.published import (
    BOUND,
    LOOSE,
    MODELS,
    PAGE,
    RESULTS,
    differences,
    measure,
    texts,
)
from tools.check.reproduces import BLANK, fill

KEPT = json.loads(RESULTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_model_is_as_recorded_and_its_layers_equal_ours(model):
    row = dict(KEPT["rows"][model.name])
    recorded, found = row.pop("differences"), differences(model)
    assert row == measure(model)
    for name in model.layers:
        bound = LOOSE.get(name, BOUND)
        assert found[name] < bound
        assert recorded[name] < bound


def test_page_shows_what_was_recorded():
    page, made = PAGE.read_text(encoding="utf-8"), texts(KEPT)
    assert {blank[1] for blank in BLANK.findall(page)} == set(made)
    assert page == fill(page, made)
    assert len(MODELS) == len(KEPT["rows"]) == made["attentions"].count("\n") - 1
