"""attention_lib.relative_attention: what distance adds to a score."""

import pytest
import torch
from torch.testing import assert_close

from attention_lib.masks import causal_mask
from attention_lib.relative_attention import RelativeAttention
from attention_lib.reproducibility import seeded


def made(**options):
    sizes = dict(num_buckets=4, max_distance=3, head_dim=5) | options
    layer = RelativeAttention(6, 2, **sizes).double()
    for number, weight in enumerate(layer.parameters()):
        torch.nn.init.normal_(weight, generator=seeded(number))
    return layer


def tokens(length, seed=9):
    return torch.randn(2, length, 6, generator=seeded(seed), dtype=torch.float64)


def test_buckets_by_hand():
    places = torch.arange(5)
    past = made(both_ways=False)._buckets(places - places[-2:, None])
    assert past.tolist() == [[3, 2, 1, 0, 0], [3, 3, 2, 1, 0]]
    both = made()._buckets(places[:3] - places[:3, None])
    assert both.tolist() == [[0, 3, 3], [1, 0, 3], [1, 1, 0]]


def test_weights_are_the_softmax_of_unscaled_scores_and_distances():
    layer, x = made(both_ways=False), tokens(3)
    query, key, _ = layer._queries_keys_values(x, None)
    added = layer.distance_bias.weight.T[:, [[0, 0, 0], [1, 0, 0], [2, 1, 0]]]
    scores = (query @ key.mT + added).masked_fill(~causal_mask(3), -torch.inf)
    assert_close(layer.attention_weights(x, causal=True), scores.softmax(-1))


def test_distance_depends_on_the_offset_only_and_a_memory_has_none():
    layer, x, memory = made(), tokens(5), tokens(4, seed=8)
    query, key, _ = layer._queries_keys_values(x, memory)
    wanted = (query @ key.mT).softmax(-1)
    assert_close(layer.attention_weights(x, memory=memory), wanted)
    ahead = torch.cat([tokens(3, seed=7), x], dim=1)
    seen = torch.arange(8) >= 3
    moved = layer(ahead, seen.expand(8, 8))[:, 3:]
    assert_close(moved, layer(x))


@pytest.mark.usefixtures("shapes_unchecked")
def test_layer_refuses_buckets_without_room_for_far_ones(refused):
    words = "num_buckets must be 0 or at least 4, and max_distance above {}; got {}"
    with refused(ValueError, words.format(0, "3 and 3")):
        made(num_buckets=3)
    with refused(ValueError, words.format(1, "4 and 1")):
        made(max_distance=1)
