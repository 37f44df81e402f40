"""attention_lib.hf_layers: distance is one of positions, wherever padding stands.

Padding before and behind a cached beginning is tried for each layer in test_matrix.py.
"""

import pytest
import torch
from torch.testing import assert_close

from attention_lib.hf_layers import from_transformers
from attention_lib.hf_layers.local import both_sides, chunks
from attention_lib.reproducibility import seeded
from benchmarks.published_layers import CHUNK, SIZES, build
from tests.tensors import assert_same

pytestmark = pytest.mark.long


@torch.no_grad()
def test_window_to_both_sides_is_one_of_positions():
    text = tokens_of_width("ModernBertAttention", 11)
    for name in ("ModernBertAttention", "LongformerSelfAttention"):
        ours = from_transformers(build(name, 0, SIZES[1])).double()
        # Padding in the middle of the columns, as behind a cached beginning.
        apart = torch.cat((text[:4], 0 * text[:5] + 7, text[4:]))
        places = torch.tensor([0, 1, 2, 3, *[0] * 5, *range(4, 11)])
        real = torch.tensor([True] * 4 + [False] * 5 + [True] * 7)
        found = ours(apart[None], real[None, None], positions=places)[0, real]
        assert_close(found, ours(text[None])[0])


def tokens_of_width(name, length):
    width = build(name, 0, SIZES[1]).config.hidden_size
    return torch.randn(length, width, generator=seeded(0), dtype=torch.float64)


def test_what_is_near_by_hand():
    query, key = torch.tensor([5, 8]), torch.tensor([2, 4, 5, 8])
    near = [[False, True, True, False], [False, False, False, True]]
    assert both_sides(2, query, key).tolist() == near
    assert chunks(CHUNK, query, key).tolist() == near
    assert_same(chunks(CHUNK, query[None], key), torch.tensor([near]))


@torch.no_grad()
def test_one_new_token_costs_as_much_as_there_are_keys():
    ours, shapes = from_transformers(build("Llama4TextAttention", 0, SIZES[1])), []
    near = ours.near
    ours.near = lambda *places: shapes.append(near(*places).shape) or near(*places)
    own = ours.new_cache(1, 40_001)
    own.length = 40_000
    ours(torch.randn(1, 1, SIZES[1].width), cache=own)
    assert shapes == [(1, 40_001)]


@pytest.mark.usefixtures("shapes_unchecked")
def test_positions_that_do_not_fit_are_refused(refused):
    ours, x = (
        from_transformers(build("MptAttention", 0, SIZES[1])),
        torch.zeros(2, 3, 32),
    )
    for wrong in (torch.arange(2), torch.arange(4), torch.zeros(3, 3).long()):
        words = (
            f"positions must be (3,) or (2, 3), one per token; got {tuple(wrong.shape)}"
        )
        with refused(ValueError, words):
            ours(x, positions=wrong)
    with refused(TypeError, "positions must be a tensor of int64; got torch.float32"):
        ours(x, positions=torch.zeros(3))
    with refused(ValueError, "key_positions must have one position for each of 3 keys"):
        ours.attention(x, key_positions=torch.arange(2))
