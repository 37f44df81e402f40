"""attention_lib.latent_attention: both forms are equal.

That the plain one equals DeepSeek's is in test_hf_layers.py; caches are in
test_matrix.py.
"""

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
SCALES = {"scale": 0.4, "rope_scale": 1.3}  # those of YaRN
OWN = torch.rand(1, HEADS, LENGTH, LENGTH, generator=seeded(2)) > 0.4
MASKS = {
    "none": None,
    "padding": padding_mask(torch.tensor([4, 9]), LENGTH),
    "own for each head": OWN,
    "nothing": torch.tensor(False),
}


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
    plain, absorbed = (
        layer(absorb, q_latent_dim, **SCALES) for absorb in (False, True)
    )
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


@pytest.mark.parametrize(
    ("absorb", "numbers"),
    [(True, LATENT + ROPE), (False, HEADS * (NOPE + ROPE + VALUE))],
)
def test_cache_of_a_token_holds_a_latent_or_the_keys_and_values_of_all_heads(
    absorb, numbers
):
    assert layer(absorb).new_cache(BATCH, LENGTH).nbytes == 8 * BATCH * LENGTH * numbers
