"""attention_lib.positions, against math.sin and loops; chapter 5 asserts rotations."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attention_lib.positions import LearnedPositions, sinusoidal_positions
from attention_lib.pretrained import Decoder, read_config
from tests.loops import positions_by_loops
from tests.tensors import assert_same, global_seed

# Of different size, so that a swapped axis shows.
CONTEXT_LEN, D_MODEL = 7, 5


@pytest.fixture
def in_float64():
    """The tests of this fixture run with float64 as torch's default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def layer(context_len=CONTEXT_LEN, d_model=D_MODEL, seed=0):
    with global_seed(seed):
        return LearnedPositions(context_len, d_model)


@given(length=st.integers(1, 40), d_model=st.integers(1, 17))
def test_sinusoidal_positions_equal_loops(length, d_model):
    wanted = positions_by_loops(length, d_model).float()
    assert_close(sinusoidal_positions(length, d_model), wanted, atol=1e-6, rtol=0)


@pytest.mark.usefixtures("in_float64")
def test_sinusoidal_positions_far_places_are_accurate():
    table = sinusoidal_positions(1_000_001, 6)[-1]
    angles = [10**6 / 10_000 ** (i / 3) for i in range(3)]
    exact = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
    assert_close(table, torch.tensor(exact), atol=1e-9, rtol=0)


def test_published_models_name_positions_beyond_their_table(refused):
    fields = {"model_type": "gpt2", "vocab_size": 7, "n_positions": 4, "n_embd": 4}
    model = Decoder(read_config(fields | {"n_layer": 1, "n_head": 2}))
    ids, beyond = torch.ones(1, 2, dtype=torch.int64), torch.tensor([0, 4])
    with refused(ValueError, "positions must be from 0 to 3; got 0 to 4"):
        model(ids, positions=beyond)


@given(offset=st.integers(0, 20), length=st.integers(1, 9))
def test_positions_from_an_offset_on_are_rows_of_the_whole_table(offset, length):
    whole = sinusoidal_positions(offset + length, D_MODEL)
    assert_same(sinusoidal_positions(length, D_MODEL, offset=offset), whole[offset:])
    learned = layer(context_len=offset + length)
    assert_same(learned(length, offset), learned.embedding.weight[offset:])


@pytest.mark.parametrize("place", [(8,), (3, 5)])
def test_learned_positions_refuse_a_text_that_is_too_long(refused, place):
    words = "the text has 8 tokens, but only 7 positions were learned: cut it, or build"
    with refused(ValueError, f"{words} with context_len=8"):
        layer()(*place)
