"""A decoder with the choices of published models: one class runs all of them."""

from attention_lib.decoder.blocks import Decoder, DecoderBlock
from attention_lib.decoder.config import DecoderConfig, LatentConfig, LayerConfig
from attention_lib.decoder.mlp import Experts, PlainMLP

__all__ = [
    "Decoder",
    "DecoderBlock",
    "DecoderConfig",
    "Experts",
    "LatentConfig",
    "LayerConfig",
    "PlainMLP",
]
