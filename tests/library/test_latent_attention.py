"""attention_lib.latent_attention: both forms equal, and equal to DeepSeek-V3."""

import pytest
import torch
from torch.testing import assert_close

from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.masks import causal_mask, padding_mask
from attention_lib.multi_head import MultiHeadAttention, copy_weights
from attention_lib.reproducibility import seeded
from attention_lib.rope import rope_angles
from tests.tensors import global_seed, values_and_gradients

BATCH, LENGTH, D_MODEL, HEADS, LATENT, NOPE, ROPE, VALUE = 2, 9, 14, 3, 8, 6, 4, 7
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 8,
    "mscale": 1.0,
    "mscale_all_dim": 0.8,
}
OWN = torch.rand(1, HEADS, LENGTH, LENGTH, generator=seeded(2)) > 0.4
MASKS = {
    "none": None,
    "padding": padding_mask(torch.tensor([4, 9]), LENGTH),
    "own for each head": OWN,
    "nothing": torch.tensor(False),
}
each_form = pytest.mark.parametrize("absorb", [False, True])


def layer(absorb, q_latent_dim=None, **options):
    widths = {"kv_latent_dim": LATENT, "nope_dim": NOPE, "rope_dim": ROPE}
    widths |= {"q_latent_dim": q_latent_dim, "value_dim": VALUE, "absorb": absorb}
    with global_seed(0):
        made = MultiHeadLatentAttention(D_MODEL, HEADS, **widths, **options).double()
    for parameter in made.parameters():  # a forgotten norm shows
        if parameter.ndim < 2:
            parameter.data = torch.randn(parameter.shape, generator=seeded(0)).double()
    return made


def tokens(length=LENGTH):
    shape = BATCH, length, D_MODEL
    return torch.randn(shape, generator=seeded(1), dtype=torch.float64)


def angles():
    return rope_angles(torch.arange(LENGTH).double(), ROPE)


@pytest.mark.parametrize("q_latent_dim", [None, 6])
@pytest.mark.parametrize("mask", MASKS)
def test_absorbed_form_equals_the_plain_one(q_latent_dim, mask):
    plain, absorbed = layer(False, q_latent_dim), layer(True, q_latent_dim)
    call = {"mask": MASKS[mask], "causal": True, "angles": angles()}
    found, wanted = (
        values_and_gradients(lambda x, made=made: made(x, **call), tokens())
        for made in (absorbed, plain)
    )
    for ours, theirs in zip(found, wanted, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-12)
    one = call | {"causal": False, "memory": tokens(), "angles": None}
    if call["mask"] is not None and call["mask"].ndim > 2:
        one["mask"] = call["mask"][..., -1:, :]
    last = tokens()[:, -1:]  # as when one token is new
    assert_close(absorbed(last, **one), plain(last, **one), rtol=0, atol=1e-12)
    weights = plain.attention_weights(tokens(), **call)
    found = absorbed.attention_weights(tokens(), **call)
    assert_close(found, weights, rtol=0, atol=1e-12)
    assert (weights[..., ~causal_mask(LENGTH)] == 0).all()


@pytest.mark.parametrize("q_latent_dim", [None, 6])
def test_weights_move_between_the_forms_only(q_latent_dim):
    plain, absorbed = layer(False, q_latent_dim), layer(True, q_latent_dim)
    with torch.no_grad():
        absorbed.kv_up_proj.weight.zero_()
    copy_weights(plain, absorbed)
    assert_close(absorbed(tokens()), plain(tokens()))
    assert len(plain.weights_by_head()["kv_up_proj.weight"]) == HEADS
    with pytest.raises(ValueError, match="must be built the same way"):
        copy_weights(MultiHeadAttention(12, HEADS), plain)


@pytest.mark.usefixtures("shapes_unchecked")
def test_layer_refuses_the_cache_of_the_other_form_and_angles_for_a_memory(refused):
    with refused(ValueError, "the cache holds 2 texts, 3 heads of width 10; got keys"):
        layer(True)(tokens(), cache=layer(False).new_cache(BATCH, LENGTH))
    with refused(ValueError, "memory does not go with angles"):
        layer(False)(tokens(), memory=tokens(), angles=angles())


@pytest.mark.parametrize("scaling", [None, YARN], ids=["plain", "yarn"])
@pytest.mark.parametrize("q_latent_dim", [None, 6])
@each_form
def test_layer_equals_deepseek_v3_at_once_and_token_by_token(
    absorb, q_latent_dim, scaling
):
    pytest.importorskip("transformers")
    from transformers import DeepseekV3Config, DynamicCache
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as published

    from attention_lib.hf_layers import from_transformers

    config = DeepseekV3Config(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        kv_lora_rank=LATENT,
        q_lora_rank=q_latent_dim,
        qk_nope_head_dim=NOPE,
        qk_rope_head_dim=ROPE,
        v_head_dim=VALUE,
        rope_parameters=scaling or {"rope_type": "default", "rope_theta": 1e4},
        max_position_embeddings=32,
        attn_implementation="eager",
    )
    theirs = published.DeepseekV3Attention(config, layer_idx=0).eval()
    for number, weight in enumerate(theirs.parameters()):  # norms too
        torch.nn.init.normal_(weight, std=0.3, generator=seeded(number))
    rebuilt = from_transformers(theirs).attention
    options = {"scale": rebuilt.scale, "rope_scale": rebuilt.rope_scale}
    ours = layer(absorb, q_latent_dim, **options).float()
    copy_weights(rebuilt, ours)
    rotate, x = published.DeepseekV3RotaryEmbedding(config), tokens().float()
    turns = rope_angles(torch.arange(LENGTH), ROPE, scaling=scaling)

    def told(places, keys):
        hidden = torch.zeros(len(places), keys)
        hidden.masked_fill_(~causal_mask(len(places), keys), torch.finfo().min)
        return {
            "position_embeddings": rotate(x, places[None]),
            "attention_mask": hidden[None, None],
        }

    wanted, _ = theirs(x, **told(torch.arange(LENGTH), LENGTH))
    assert_close(ours(x, causal=True, angles=turns), wanted, rtol=0, atol=1e-6)
    cache, their_cache = ours.new_cache(BATCH, LENGTH), DynamicCache()
    for places in torch.arange(LENGTH).split([4, 1, 1, 3]):
        piece, keys = x[:, places], int(places[-1]) + 1
        found = ours(piece, causal=True, angles=turns[places], cache=cache)
        wanted, _ = theirs(piece, **told(places, keys), past_key_values=their_cache)
        assert_close(found, wanted, rtol=0, atol=1e-6)
    per_token = LATENT + ROPE if absorb else HEADS * (NOPE + ROPE + VALUE)
    assert cache.nbytes == 4 * BATCH * LENGTH * per_token
    if absorb:  # both keep latents; they store the turned pairs as halves
        kept, halves = their_cache.layers[0], cache.values.unflatten(-1, (-1, 2))
        assert_close(cache.keys, kept.keys, rtol=0, atol=1e-6)
        assert_close(halves.mT.flatten(-2), kept.values, rtol=0, atol=1e-6)
