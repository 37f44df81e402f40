"""Attention layers of ``transformers``, converted to this book's layers.

A layer is recognised by the name of its class, so nothing here imports that library.
Each family with rotary positions is described by how it differs from Llama's attention.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from attention_lib.hf_layers.alibi import ALIBI, convert_alibi
from attention_lib.hf_layers.both_ways import BOTH_WAYS, convert_both_ways
from attention_lib.hf_layers.delta import GatedDeltaNet, KimiDeltaAttention
from attention_lib.hf_layers.gated import convert_gated
from attention_lib.hf_layers.grouped import FAMILIES, convert_gpt2, convert_grouped
from attention_lib.hf_layers.latent import LATENT, convert_latent
from attention_lib.hf_layers.lightning import LightningAttention
from attention_lib.hf_layers.local import (
    LongformerAttention,
    convert_llama4,
    convert_modernbert,
)
from attention_lib.hf_layers.parts import PublishedAttention
from attention_lib.hf_layers.sparse import SPARSE, convert_sparse
from attention_lib.validation import require_published

__all__ = [
    "BOTH_WAYS",
    "FAMILIES",
    "KNOWN",
    "LATENT",
    "PublishedAttention",
    "from_transformers",
]

# The class of a layer, and the function that converts it.
KNOWN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(FAMILIES, convert_grouped),
    **dict.fromkeys(LATENT, convert_latent),
    **dict.fromkeys(BOTH_WAYS, convert_both_ways),
    **dict.fromkeys(ALIBI, convert_alibi),
    **dict.fromkeys(SPARSE, convert_sparse),
    "Llama4TextAttention": convert_llama4,
    "ModernBertAttention": convert_modernbert,
    "LongformerSelfAttention": LongformerAttention,
    "MiniMaxLightningAttention": LightningAttention,
    "Qwen3NextAttention": convert_gated,
    "Qwen3NextGatedDeltaNet": GatedDeltaNet,
    "KimiLinearDeltaAttention": KimiDeltaAttention,
    "GPT2Attention": convert_gpt2,
}
# Those that need not be causal, or do not state whether they are.
FREE = (
    *BOTH_WAYS,
    *ALIBI,
    "ModernBertAttention",
    "LongformerSelfAttention",
    "MiniMaxLightningAttention",
    "Qwen3NextGatedDeltaNet",
    "KimiLinearDeltaAttention",
)


def from_transformers(layer: nn.Module) -> Any:
    """Convert an attention layer of ``transformers`` to one of our layers.

    It has copies of that layer's weights, in the same type and on the same device, and
    no dropout.

    Ours is called as ``ours(x, mask, positions=None, cache=None)``: the mask hides more
    than the published model does, such as padding, and is (B, 1, T); the cache comes
    from ``ours.new_cache(batch_size, max_len)``. Exceptions:

    - A layer with a state (Qwen3-Next's, Kimi Linear's, MiniMax's lightning) takes the
      mask (B, T): which tokens are real.
    - BERT's, BART's and T5's take ``memory=``, Longformer's ``global_tokens=``; these,
      and ModernBERT's, attend to both sides and take no cache.
    - Latent attention is converted to its absorbed form. ``ours.attention.choose``
      returns the keys chosen by the index of DeepSeek-V3.2 or GLM; a GLM layer
      without an index takes that as its mask.
    - A ``BertAttention`` adds its input and normalises; ``BertSelfAttention``,
      ``BertCrossAttention`` and Longformer's end before the output projection. BLOOM's
      adds a second input; ours leaves that to the block. T5's first layer shares its
      distances with the others: so a later layer is converted without them, and may
      share that layer's ``distance_bias``.

    Args:
        layer: of a class in ``KNOWN``.

    Raises:
        TypeError: not a layer.
        ValueError: a layer of a different class; one with an option that is not
            supported here: another family's attention in both directions or to a
            memory, rotating part of a head, a different scale in MPT, an unknown
            scaling of rotations.
    """
    require_published(layer, KNOWN, FREE)
    return KNOWN[type(layer).__name__](layer)
