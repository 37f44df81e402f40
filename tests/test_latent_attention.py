"""attention_lib.latent_attention: both forms equal, and equal to DeepSeek-V3."""

import math

import pytest
import torch
from torch.testing import assert_close

from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.masks import causal_mask, padding_mask
from attention_lib.reproducibility import seeded
from attention_lib.rope import rope_angles, rope_attention_factor

BATCH, LENGTH, D_MODEL, HEADS, LATENT, NOPE, ROPE, VALUE = 2, 9, 14, 3, 8, 5, 4, 7
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 8,
    "mscale": 1.0,
    "mscale_all_dim": 0.8,
}


def layer(absorb, q_latent_dim=None, **options):
    widths = {"kv_latent_dim": LATENT, "nope_dim": NOPE, "rope_dim": ROPE}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = MultiHeadLatentAttention(
            D_MODEL,
            HEADS,
            q_latent_dim=q_latent_dim,
            value_dim=VALUE,
            absorb=absorb,
            **widths,
            **options,
        ).double()
    for parameter in made.parameters():  # a forgotten norm shows
        if parameter.ndim < 2:
            parameter.data = torch.randn(parameter.shape, generator=seeded(0)).double()
    return made


def tokens():
    shape = BATCH, LENGTH, D_MODEL
    return torch.randn(shape, generator=seeded(1), dtype=torch.float64)


def angles():
    return rope_angles(torch.arange(LENGTH).double(), ROPE)


@pytest.mark.parametrize("q_latent_dim", [None, 6])
@pytest.mark.parametrize("mask", [None, padding_mask(torch.tensor([4, 9]), LENGTH)])
def test_absorbed_form_equals_the_plain_one(q_latent_dim, mask):
    plain, absorbed = layer(False, q_latent_dim), layer(True, q_latent_dim)
    call = {"mask": mask, "causal": True, "angles": angles()}
    assert_close(absorbed(tokens(), **call), plain(tokens(), **call))
    weights = plain.attention_weights(tokens(), **call)
    assert_close(absorbed.attention_weights(tokens(), **call), weights)
    assert (weights[..., ~causal_mask(LENGTH)] == 0).all()


@pytest.mark.parametrize("absorb", [False, True])
def test_cache_in_pieces_equals_the_full_pass(absorb):
    made, cache = layer(absorb), layer(absorb).new_cache(BATCH, LENGTH)
    found = [
        made(tokens()[:, part], causal=True, angles=angles()[part], cache=cache)
        for part in torch.arange(LENGTH).split([3, 1, 5])
    ]
    assert_close(torch.cat(found, dim=1), made(tokens(), causal=True, angles=angles()))
    per_token = LATENT + ROPE if absorb else HEADS * (NOPE + ROPE + VALUE)
    assert cache.nbytes == 8 * BATCH * LENGTH * per_token


@pytest.mark.parametrize("scaling", [None, YARN], ids=["plain", "yarn"])
@pytest.mark.parametrize("q_latent_dim", [None, 6])
@pytest.mark.parametrize("absorb", [False, True])
def test_layer_equals_deepseek_v3(absorb, q_latent_dim, scaling):
    pytest.importorskip("transformers")
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as published

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
    stretch = 1.0 if scaling is None else (0.08 * math.log(4.0) + 1) ** 2
    ours = layer(
        absorb,
        q_latent_dim,
        scale=(NOPE + ROPE) ** -0.5 * stretch,
        rope_scale=rope_attention_factor(scaling),
    ).float()
    theirs = published.DeepseekV3Attention(config, layer_idx=0).eval()
    names = {
        "kv_a_proj_with_mqa": ours.kv_down_proj,
        "kv_a_layernorm": ours.kv_norm,
        "kv_b_proj": ours.kv_up_proj,
        "o_proj": ours.out_proj,
    }
    if q_latent_dim is None:
        names["q_proj"] = ours.q_proj
    else:
        parts = ("q_a_proj", "q_a_layernorm", "q_b_proj")
        names |= dict(zip(parts, ours.q_proj, strict=True))
    for name, source in names.items():
        theirs.get_submodule(name).weight.data = source.weight.data
    x, places = tokens().float(), torch.arange(LENGTH)
    hidden = torch.finfo(torch.float32).min * ~causal_mask(LENGTH)
    turned = published.DeepseekV3RotaryEmbedding(config)(x, places[None])
    wanted, _ = theirs(x, position_embeddings=turned, attention_mask=hidden[None, None])
    found = ours(x, causal=True, angles=rope_angles(places, ROPE, scaling=scaling))
    assert_close(found, wanted, rtol=0, atol=1e-6)
