"""attention_lib.tiny_lm: causal, counted by formula.

Padding, caches and types of numbers are tried in test_matrix.py.
"""

import math
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from attention_lib.mha_variants import MHA_VARIANTS
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from tests.tensors import assert_same, global_seed

# All of different size, so that a swapped axis shows.
BATCH, LENGTH, CONTEXT_LEN, VOCAB_SIZE = 4, 5, 7, 11
D_MODEL, NUM_HEADS, LAYERS = 6, 3, 2
SIZES = {"vocab_size": VOCAB_SIZE, "context_len": CONTEXT_LEN, "d_model": D_MODEL}
SIZES |= {"num_heads": NUM_HEADS, "num_layers": LAYERS}
LENGTHS = torch.tensor([5, 2, 3, 1])
NORMS = ["pre", "post", "none"]
each_norm = pytest.mark.parametrize("norm", NORMS)
each_kind = pytest.mark.parametrize("mha", MHA_VARIANTS)


def made(seed=0, dtype=torch.float64, moved=True, **options):
    """A model; its biases and norms are moved away from where they start."""
    with global_seed(seed):
        model = TinyLM(ModelConfig(**(SIZES | options)))
    generator = seeded(seed + 1)
    for parameter in model.parameters():
        if moved:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype)


def ids(batch=BATCH, length=LENGTH, seed=0):
    return torch.randint(VOCAB_SIZE, (batch, length), generator=seeded(seed))


def run(model, *arguments):
    """As when evaluated, on a seeded generator where it drops all the same."""
    with global_seed(0):
        return model(*arguments)


# What it may look at.


@each_kind
def test_model_sees_every_earlier_place_and_no_later_one(mha):
    model, token_ids = made(mha=mha), ids()
    before = model(token_ids)
    for place in (0, 2, LENGTH - 1):
        changed = token_ids.clone()
        changed[:, place] = (changed[:, place] + 1) % VOCAB_SIZE
        moved = (model(changed) - before).abs().amax(-1) > 1e-9
        assert moved.all(0).tolist() == [False] * place + [True] * (LENGTH - place)


def test_model_without_positions_has_no_table_and_still_no_future():
    model, token_ids = made(positions="none"), ids()
    with_places = made()
    with_places.positions.embedding.weight.data.zero_()
    state = {n: p for n, p in with_places.state_dict().items() if "positions" not in n}
    model.load_state_dict(state)  # has all that the model has
    assert_close(model(token_ids), with_places(token_ids))


# What it is made of.


def count(V, T, M, L, norm="pre", tied=False):
    attention, mlp = 4 * M * M + M, 8 * M * M + 5 * M
    norms = {"pre": 4 * M * L + 2 * M, "post": 4 * M * L, "none": 0}[norm]
    return V * M * (1 if tied else 2) + T * M + L * (attention + mlp) + norms


@each_norm
@pytest.mark.parametrize("tied", [False, True])
def test_model_parameter_count(norm, tied):
    model = made(norm=norm, tie_weights=tied)
    wanted = count(VOCAB_SIZE, CONTEXT_LEN, D_MODEL, LAYERS, norm, tied)
    assert sum(p.numel() for p in model.parameters()) == wanted


@each_norm
def test_model_hands_its_choices_to_every_block(norm):
    model = made(norm=norm, dropout=0.25, mha="wrapper", num_heads=2)
    for block in model.blocks:
        assert block.norm == norm
        assert block.dropout.p == 0.25
        assert block.attention.num_heads == 2
        assert type(block.attention) is MHA_VARIANTS["wrapper"]
    assert model.dropout.p == 0.25


@each_norm
def test_model_trains_every_weight(norm):
    model = made(norm=norm)
    model(ids(length=CONTEXT_LEN)).square().sum().backward()
    assert all(p.grad.abs().max() > 1e-6 for p in model.parameters())


# How it starts.


def test_model_places_start_as_sinusoids():
    model = made(moved=False, dtype=torch.float32)
    wanted = sinusoidal_positions(CONTEXT_LEN, D_MODEL)
    assert_same(model.positions.embedding.weight.data, wanted)
    assert model.positions.embedding.weight.requires_grad


def wide(**options):
    sizes = {"vocab_size": 500, "context_len": 32, "d_model": 64, "num_heads": 4}
    return made(moved=False, **sizes, **options)


def test_model_weights_start_with_their_sizes():
    for name, weight in wide(num_layers=3).named_parameters():
        if weight.ndim < 2 or name.startswith("positions"):
            continue
        wanted = 64**-0.5
        if name.endswith(("out_proj.weight", "down_proj.weight")):
            wanted /= 6**0.5
        if name == "head.weight":
            wanted /= 10
        assert weight.std().item() == pytest.approx(wanted, rel=0.05), name
        assert abs(weight.mean().item()) < 0.1 * wanted


def first_loss(**options):
    model = wide(num_layers=2, **options)
    token_ids = torch.randint(500, (16, 32), generator=seeded(0))
    targets = torch.randint(500, (16, 32), generator=seeded(1))
    return F.cross_entropy(model(token_ids).mT, targets).item() - math.log(500)


@each_norm
def test_model_first_loss_is_that_of_the_uniform_guess(norm):
    assert 0 < first_loss(norm=norm) < 0.05


# The stream and the maps.


@each_norm
def test_model_stream_leads_to_the_scores(norm):
    model = made(norm=norm)
    states = model.stream(ids(), LENGTHS)
    assert len(states) == LAYERS + 1
    assert {state.shape for state in states} == {(BATCH, LENGTH, D_MODEL)}
    assert_same(model.head(model.last_norm(states[-1])), model(ids(), LENGTHS))


def test_model_scores_the_last_position_alone_where_only_that_is_asked_for(refused):
    model, scored = made(), []
    wanted = model(ids())[:, -1:]
    model.head.register_forward_hook(lambda _, inputs, out: scored.append(out.shape))
    assert_close(model(ids(), last_only=True), wanted)
    assert scored == [(BATCH, 1, VOCAB_SIZE)]
    with refused(TypeError, "last_only must be True or False; got 1"):
        model(ids(), last_only=1)


@torch.no_grad()
def test_model_keeps_one_state_while_its_blocks_run():
    model, states, alive = made(num_layers=4), [], []
    for block in model.blocks:
        block.register_forward_pre_hook(
            lambda _, inputs: alive.append(sum(it() is not None for it in states))
        )
        block.register_forward_hook(
            lambda _, inputs, output: states.append(weakref.ref(output))
        )
    model(ids())
    assert alive == [0, 1, 1, 1]


@each_norm
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_model_attention_weights_are_those_that_forward_uses(norm, lengths):
    model, seen = made(norm=norm), []
    for block in model.blocks:
        block.attention.register_forward_hook(
            lambda layer, inputs, options, _: seen.append((layer, inputs, options)),
            with_kwargs=True,
        )
    maps = model.attention_weights(ids(), lengths)
    seen.clear()
    model(ids(), lengths)
    assert len(maps) == len(seen) == LAYERS
    for weights, (layer, inputs, options) in zip(maps, seen, strict=True):
        assert weights.shape == (BATCH, NUM_HEADS, LENGTH, LENGTH)
        assert options.pop("cache") is None
        assert_close(weights, layer.attention_weights(*inputs, **options))


def test_attention_weights_of_a_block_are_there_before_the_next_block_runs():
    model, ran = made(), []
    for block in model.blocks:
        block.register_forward_hook(lambda *_: ran.append(1))
    counts = [len(ran) for _ in model.iter_attention_weights(ids())]
    assert counts == [*range(LAYERS)]


# Dropout, devices, types.


@pytest.mark.parametrize("name", ["dropout", "blocks.0.dropout"])
def test_model_drops_while_training(name):
    model = made(dropout=0.5)
    for other, module in model.named_modules():
        if isinstance(module, nn.Dropout) and other != name:
            module.p = 0.0
    for block in model.blocks:
        block.attention.dropout = 0.0
    assert not run(model, ids()).allclose(model.eval()(ids()))


# The config.


def test_config_is_frozen_and_has_its_defaults():
    config = ModelConfig(**SIZES)
    values = config.dropout, config.tie_weights, config.norm, config.mha
    assert values == (0.0, False, "pre", "split")
    assert TinyLM(config).config is config
    with pytest.raises(AttributeError, match="cannot assign"):
        config.d_model = 8
