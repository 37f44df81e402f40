"""Attention layers of ``transformers``, rebuilt from this book's layers.

A layer is recognised by the name of its class, so nothing here imports that library.
Each family with rotary positions is written as what differs from Llama's attention.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from attention_lib.published.alibi import ALIBI, alibi
from attention_lib.published.both_ways import BOTH_WAYS, both_ways
from attention_lib.published.gated import (
    GatedDeltaNet,
    KimiDeltaAttention,
    gated_attention,
)
from attention_lib.published.grouped import FAMILIES, gpt2, grouped
from attention_lib.published.latent import LATENT, latent
from attention_lib.published.lightning import LightningAttention
from attention_lib.published.local import LongformerAttention, llama4, modernbert
from attention_lib.published.parts import Rebuilt
from attention_lib.published.sparse import SPARSE, sparse
from attention_lib.validation import check_published

__all__ = ["BOTH_WAYS", "FAMILIES", "KNOWN", "LATENT", "Rebuilt", "rebuild"]

# The class of a layer, and what rebuilds it.
KNOWN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(FAMILIES, grouped),
    **dict.fromkeys(LATENT, latent),
    **dict.fromkeys(BOTH_WAYS, both_ways),
    **dict.fromkeys(ALIBI, alibi),
    **dict.fromkeys(SPARSE, sparse),
    "Llama4TextAttention": llama4,
    "ModernBertAttention": modernbert,
    "LongformerSelfAttention": LongformerAttention,
    "MiniMaxLightningAttention": LightningAttention,
    "Qwen3NextAttention": gated_attention,
    "Qwen3NextGatedDeltaNet": GatedDeltaNet,
    "KimiLinearDeltaAttention": KimiDeltaAttention,
    "GPT2Attention": gpt2,
}


def rebuild(layer: nn.Module) -> Any:
    """Makes one of our layers from an attention layer of ``transformers``.

    It has copies of that layer's weights, in their type and on their device, and no
    dropout.

    Args:
        layer: of a class in ``FAMILIES``, ``LATENT`` or ``BOTH_WAYS``, or
            ``GPT2Attention``. Latent attention is rebuilt absorbed. A
            ``BertAttention`` adds what came in and normalises; ``BertSelfAttention``
            and ``BertCrossAttention`` end before the output projection. T5's distances
            are those of the first layer, which gives them to the others: so a later
            layer is rebuilt without, and may share that layer's ``distance_bias``.

    Raises:
        TypeError: no layer.
        ValueError: a layer of another class; one with an option that is not rebuilt
            here: another family's attention in both directions or to a memory, part
            of a head turned, an unknown scaling of the rotation.
    """
    check_published(layer, KNOWN, (*BOTH_WAYS, "ModernBertAttention"))
    return KNOWN[type(layer).__name__](layer)
