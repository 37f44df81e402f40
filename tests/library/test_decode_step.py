"""attention_lib.decode_step: one new token, as a call of the model reads it."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.testing import assert_close

from attention_lib.decode_step import make_decode_step
from attention_lib.generation import generate
from attention_lib.modules import inlined, is_unmodified
from attention_lib.reproducibility import seeded
from tests.library.tiny_models import POSITIONS, beginnings, tiny
from tests.tensors import assert_same


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
@pytest.mark.parametrize("mha", ["split", "sdpa"])
@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_step_equals_a_call_with_the_cache(positions, mha, norm):
    model, token_ids = tiny(positions=positions, mha=mha, norm=norm), beginnings()
    cache, wanted = model.new_cache(3, 6), model(token_ids)
    step = make_decode_step(model, cache)
    for place in range(5):
        assert_close(step(token_ids[:, place : place + 1]), wanted[:, place])


CALLED = [name for name, own in tiny(mha="sdpa").named_modules()
          if not isinstance(own, nn.ModuleList)]  # fmt: skip
CALLS = {"blocks.0.dropout": 8, "blocks.1.dropout": 8}  # twice in a pass


@pytest.mark.parametrize("name", CALLED)
def test_step_runs_what_hooks_into_a_part(name):
    model, calls = tiny(mha="sdpa"), []
    part = model.get_submodule(name)
    part.register_forward_hook(lambda *_: calls.append(name))
    plain = generate(tiny(mha="sdpa"), beginnings(), max_new_tokens=4)
    assert generate(model, beginnings(), max_new_tokens=4).equal(plain)
    assert len(calls) == CALLS.get(name, 4)


class Tripled(nn.Module):
    """Something else in the place of a dropout, a weight or a network."""

    def forward(self, x):
        return 3 * x


def hooked_everywhere(model):
    return nn.modules.module.register_module_forward_hook(
        lambda module, _, out: 3 * out if type(module) is nn.Dropout else None
    )


CHANGES = {
    "another dropout": lambda m: setattr(m.blocks[0], "dropout", Tripled()),
    "another first dropout": lambda m: setattr(m, "dropout", Tripled()),
    "another network": lambda m: setattr(m.blocks[1], "feed_forward", Tripled()),
    "a pre-hook": lambda m: m.blocks[1].dropout.register_forward_pre_hook(
        lambda _, inputs: (3 * inputs[0],)
    ),
    "a parametrisation": lambda m: parametrize.register_parametrization(
        m.blocks[0].attention.qkv_proj, "weight", Tripled()
    ),
    "pruning": lambda m: prune.l1_unstructured(
        m.blocks[0].attention.qkv_proj, "weight", 0.5
    ),
    "its own forward": lambda m: setattr(
        m.blocks[0].dropout, "forward", Tripled().forward
    ),
    "a hook on all modules": hooked_everywhere,
}


@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_step_reads_as_a_call_whatever_was_changed(change):
    model, token_ids = tiny(mha="sdpa"), beginnings()
    plain = model(token_ids)
    hook = CHANGES[change](model)
    wanted, step = model(token_ids), make_decode_step(model, model.new_cache(3, 6))
    found = torch.stack([step(token_ids[:, [place]]) for place in range(5)], dim=1)
    if hasattr(hook, "remove"):
        hook.remove()
    assert_close(found, wanted)
    assert not wanted.allclose(plain)


@torch.no_grad()
def test_step_drops_where_a_call_drops():
    model, token_ids = tiny(mha="sdpa", dropout=0.5), beginnings()
    for part in (model.dropout, *(block.dropout for block in model.blocks)):
        part.train()
        step = make_decode_step(model, model.new_cache(3, 6))
        word = token_ids[:, :1]
        assert not step(word).equal(model.eval()(word)[:, -1])


def test_bound_gives_any_other_module_as_it_is():
    class Other(nn.Linear):
        pass

    other, replaced = Other(2, 3), nn.Linear(2, 3)
    replaced.forward = torch.sin
    assert inlined(other) is other
    assert inlined(replaced) is replaced
    assert is_unmodified(nn.Linear(2, 3), nn.Linear)
    x = torch.randn(4, 2, generator=seeded(0))
    for layer in (nn.Linear(2, 3), nn.Linear(2, 3, bias=False), nn.LayerNorm(2)):
        assert_same(inlined(layer)(x), layer(x))
