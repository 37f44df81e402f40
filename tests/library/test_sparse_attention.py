"""attention_lib.sparse_attention: which keys are seen."""

import torch
from torch.testing import assert_close

from attention_lib.masks import causal_mask, sliding_window_mask
from attention_lib.sparse_attention import chunk_mask, sink_window_mask, top_k_keys


def rows(mask):
    return ["".join(".#"[cell] for cell in row) for row in mask.int().tolist()]


def test_sinks_stay_in_sight():
    assert rows(sink_window_mask(5, 2, 1)) == [
        "#....",
        "##...",
        "###..",
        "#.##.",
        "#..##",
    ]
    assert rows(sink_window_mask(2, 2, 1, 5)) == ["#.##.", "#..##"]
    assert_close(sink_window_mask(6, 3, 0), sliding_window_mask(6, 3))
    assert_close(sink_window_mask(6, 1, 6), causal_mask(6))


def test_chunks_are_causal_and_apart():
    assert rows(chunk_mask(5, 2)) == ["#....", "##...", "..#..", "..##.", "....#"]
    assert rows(chunk_mask(2, 2, 5)) == ["..##.", "....#"]


def test_largest_scores_are_chosen_among_what_is_seen():
    scores = torch.tensor([[5.0, 1.0, 3.0, 9.0], [5.0, 1.0, 3.0, 9.0]])
    assert rows(top_k_keys(scores, 2)) == ["#..#", "#..#"]
    assert rows(top_k_keys(scores, 2, causal_mask(2, 4))) == ["#.#.", "#..#"]
    assert rows(top_k_keys(scores, 9, causal_mask(2, 4))) == ["###.", "####"]
    assert not top_k_keys(scores, 2, torch.zeros(2, 4, dtype=torch.bool)).any()
    hidden = torch.tensor([[-torch.inf, 1.0, -torch.inf]])
    assert rows(top_k_keys(hidden, 2)) == [".#."]


def test_among_equal_scores_the_earlier_key_is_taken():
    scores = torch.zeros(3, 4, 200)
    assert top_k_keys(scores, 5)[..., :5].all()
    alone = torch.stack([top_k_keys(row[None], 5)[0] for row in scores.flatten(0, 1)])
    assert_close(alone.view_as(scores), top_k_keys(scores, 5))


def test_a_score_that_is_nan_is_chosen_first_where_it_is_seen():
    scores = torch.tensor([[1.0, 0.0, torch.nan, 2.0]]).expand(2, 4)
    assert rows(top_k_keys(scores, 2)) == ["..##", "..##"]
    assert rows(top_k_keys(scores, 2, causal_mask(4)[[1, 3]])) == ["##..", "..##"]
