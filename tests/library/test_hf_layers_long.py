"""attention_lib.hf_layers: layers with a state, over many chunks.

That layers read a text piece by piece as at once is tried in test_matrix.py.
"""

import pytest
import torch

from attention_lib.hf_layers import from_transformers
from attention_lib.hf_layers.delta import CHUNK
from attention_lib.reproducibility import seeded
from benchmarks.published_layers import (
    KINDS,
    SIZES,
    Given,
    build,
    lightning,
    stated,
)

pytestmark = pytest.mark.long

STATED = [name for name, it in KINDS.items() if it.call in (stated, lightning)]


@torch.no_grad()
def test_short_convolution_may_be_of_one_token():
    ours = from_transformers(build("Qwen3NextGatedDeltaNet", 0, SIZES[0])).double()
    ours.conv = torch.nn.Parameter(ours.conv[..., :1].clone())
    x = torch.randn(2, 5, ours.out_proj.out_features, generator=seeded(1)).double()
    cache = ours.new_cache(2, 5)
    steps = [ours(token, cache=cache) for token in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), ours(x))


@pytest.mark.parametrize("name", STATED)
@torch.no_grad()
def test_layer_with_a_state_equals_the_published_one_over_many_chunks(name):
    layer, length = build(name, 0, SIZES[1]), 2 * CHUNK + 22
    ours, real = from_transformers(layer), torch.ones(2, length, dtype=torch.bool)
    x = torch.randn(2, length, layer.config.hidden_size, generator=seeded(1))
    wanted = KINDS[name].call(layer, Given(x, real))
    torch.testing.assert_close(ours(x), wanted, rtol=1e-5, atol=1e-5)
    cache = ours.new_cache(2, length)
    found = [ours(piece, cache=cache) for piece in x.split(CHUNK + 9, dim=1)]
    torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=1e-5, atol=1e-5)
