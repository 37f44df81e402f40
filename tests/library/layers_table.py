"""Every layer that attends: a head, heads of each kind, a block."""

from functools import partial as P

import torch

from attention_lib.attention import SelfAttention
from attention_lib.block import TinyBlock
from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.interpret import AttentionBlock
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.mha_variants import MHA_VARIANTS, make_mha
from attention_lib.relative_attention import RelativeAttention
from attention_lib.reproducibility import seeded
from tests.tensors import global_seed

D_MODEL, HEADS = 12, 3
BLOCKS = {
    **{norm: {"norm": norm} for norm in ("pre", "post", "none")},
    "block of sdpa": {"mha": "sdpa"},
}
LATENT = dict(kv_latent_dim=6, nope_dim=3, rope_dim=4, value_dim=5)
LATENTS = {
    "latent": LATENT | {"q_latent_dim": None},
    "latent, absorbed": LATENT | {"q_latent_dim": 7, "absorb": True, "bias": True},
}
GROUPED = {"grouped": {}, "grouped, normed, sinks": {"qk_norm": "rms", "sinks": True}}
LAYERS = {
    "head": P(SelfAttention, D_MODEL, 7),
    **{kind: P(make_mha, kind, D_MODEL, HEADS) for kind in MHA_VARIANTS},
    **{name: P(TinyBlock, D_MODEL, HEADS, **own) for name, own in BLOCKS.items()},
    **{
        name: P(GroupedQueryAttention, D_MODEL, HEADS, 1, **own)
        for name, own in GROUPED.items()
    },
    **{
        name: P(MultiHeadLatentAttention, D_MODEL, HEADS, **own)
        for name, own in LATENTS.items()
    },
    "block without an MLP": P(AttentionBlock, D_MODEL, HEADS),
    "relative": P(RelativeAttention, D_MODEL, HEADS, num_buckets=4, max_distance=3),
}


def made(name, **options):
    """A layer whose norms and biases are moved away from where they start."""
    with global_seed(0):
        layer = LAYERS[name](**options).double()
    generator = seeded(0)
    for parameter in layer.parameters():
        if parameter.ndim < 2:
            parameter.data += 0.4 * torch.randn(parameter.shape, generator=generator)
    return layer
