"""attention_lib.decode_step: one new token, as a call of the model reads it."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_lib.decode_step import bound, is_plain, new_step
from attention_lib.kv_cache import generate
from attention_lib.reproducibility import seeded
from tests.tensors import assert_same
from tests.test_kv_cache import POSITIONS, beginnings, tiny


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
@pytest.mark.parametrize("mha", ["split", "sdpa"])
@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_step_equals_a_call_with_the_cache(positions, mha, norm):
    model, token_ids = tiny(positions=positions, mha=mha, norm=norm), beginnings()
    cache, wanted = model.new_cache(3, 6), model(token_ids)
    step = new_step(model, cache)
    for place in range(5):
        assert_close(step(token_ids[:, place : place + 1]), wanted[:, place])


@pytest.mark.parametrize("name", ["", "blocks.0", "blocks.1.attention", "head",
                                  "blocks.0.feed_forward", "blocks.1.attention_norm",
                                  "blocks.0.attention.out_proj"])  # fmt: skip
def test_step_runs_what_hooks_into_a_part(name):
    model, calls = tiny(mha="sdpa"), []
    part = model.get_submodule(name)
    part.register_forward_hook(lambda *_: calls.append(name))
    plain = generate(tiny(mha="sdpa"), beginnings(), max_new_tokens=4)
    assert generate(model, beginnings(), max_new_tokens=4).equal(plain)
    assert len(calls) == 4


def test_bound_gives_any_other_module_as_it_is():
    class Other(nn.Linear):
        pass

    other, replaced = Other(2, 3), nn.Linear(2, 3)
    replaced.forward = torch.sin
    assert bound(other) is other
    assert bound(replaced) is replaced
    assert is_plain(nn.Linear(2, 3), nn.Linear)
    x = torch.randn(4, 2, generator=seeded(0))
    for layer in (nn.Linear(2, 3), nn.Linear(2, 3, bias=False), nn.LayerNorm(2)):
        assert_same(bound(layer)(x), layer(x))
