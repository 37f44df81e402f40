"""attention_lib.masks, against matrices written by hand and brute-force definitions."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lib.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    sliding_window_mask,
    window_mask_at,
)
from tests.tensors import assert_leaves_alone, assert_same

lengths = st.integers(1, 7)


def matrix(*rows):
    """Write a mask as a picture: `x` may attend, `.` may not."""
    return torch.tensor([[sign == "x" for sign in row] for row in rows])


def test_causal_mask_hand_written():
    assert_same(causal_mask(3), matrix("x..", "xx.", "xxx"))
    # More keys are earlier ones; with fewer keys the first rows are empty.
    assert_same(causal_mask(2, 4), matrix("xxx.", "xxxx"))
    assert_same(causal_mask(4, 2), matrix("..", "..", "x.", "xx"))


@given(lengths, lengths, lengths)
def test_sliding_window_mask_brute_force(query_len, window, key_len):
    places = range(key_len - query_len, key_len)
    wanted = [[0 <= place - k < window for k in range(key_len)] for place in places]
    result = sliding_window_mask(query_len, window, key_len)
    assert_same(result, torch.tensor(wanted))


@given(lengths, lengths, lengths)
def test_window_mask_at_columns_equals_the_masks_that_count_columns(
    query_len, window, earlier
):
    places = torch.arange(earlier + query_len)
    found = window_mask_at(places[earlier:], places, window)
    wanted = sliding_window_mask(query_len, window, key_len=len(places))
    assert_same(found, wanted)


def test_window_mask_at_positions_looks_past_padding():
    # Columns 2 and 3 are padding in the first text, none is in the second.
    places = torch.tensor([[0, 1, 1, 1, 2], [0, 1, 2, 3, 4]])
    found = window_mask_at(places[:, 3:], places, 2)
    assert_same(
        found, torch.stack([matrix("xxxx.", ".xxxx"), matrix("..xx.", "...xx")])
    )


def test_padding_mask_hand_written():
    wanted = matrix("xx..", "xxxx", "....")[:, None, :]
    lengths = torch.tensor([2, 4, 0])
    assert_same(padding_mask(lengths, 4), wanted)
    assert_same(padding_mask(lengths, 4, side="left"), wanted.flip(-1))


def test_combine_masks_is_and():
    mask = combine_masks(causal_mask(3), padding_mask(torch.tensor([2, 3]), 3))
    wanted = torch.stack([matrix("x..", "xx.", "xx."), matrix("x..", "xx.", "xxx")])
    assert_same(mask, wanted)
    masks = [matrix("xx."), matrix("x.x"), matrix("xxx")]
    assert_same(combine_masks(*masks), matrix("x.."))


def test_combine_masks_leaves_its_inputs_alone():
    masks = [causal_mask(3), matrix("x.x"), matrix(".xx", "xxx", "xxx")]
    assert_leaves_alone(combine_masks, *masks)
