"""Attention, built step by step: one idea per module, each shown by a chapter.

What people build with can be imported from here; everything else from its module, as
in ``from attention_lib.toy import attention``. ``plotting`` draws, ``examine`` examines
a stranger's layer, ``course`` holds exercises, views and the museum of bugs.
"""

from attention_lib.attention import (
    SelfAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from attention_lib.block import FeedForward, TinyBlock
from attention_lib.checkpoints import load_checkpoint, save_checkpoint
from attention_lib.cross_attention import TinyTranslator, TranslatorConfig, translate
from attention_lib.data import (
    BPETokenizer,
    ByteTokenizer,
    CharTokenizer,
    SlidingWindowDataset,
    make_loader,
    pad_texts,
    read_text,
)
from attention_lib.generation import generate
from attention_lib.grouped_query import GroupedQueryAttention, repeat_kv
from attention_lib.kv_cache import KVCache
from attention_lib.linear_attention import gated_delta_rule
from attention_lib.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    sliding_window_mask,
)
from attention_lib.mha_variants import make_mha
from attention_lib.multi_head import (
    MultiHeadAttention,
    copy_weights,
    merge_heads,
    split_heads,
)
from attention_lib.norms import RMSNorm
from attention_lib.positions import LearnedPositions, sinusoidal_positions
from attention_lib.pretrained import load_pretrained
from attention_lib.reproducibility import choose_device, make_deterministic, seeded
from attention_lib.rope import apply_rope, convert_layout, rope_angles
from attention_lib.sampling import sample_token
from attention_lib.serving import Server
from attention_lib.sparse_attention import chunk_mask, sink_window_mask
from attention_lib.tiny_llama import LlamaConfig, SwiGLU, TinyLlama
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import (
    TrainConfig,
    Training,
    evaluate,
    next_token_loss,
    train,
    train_step,
    warmup_cosine,
)

__all__ = [
    "BPETokenizer",
    "ByteTokenizer",
    "CharTokenizer",
    "FeedForward",
    "GroupedQueryAttention",
    "KVCache",
    "LearnedPositions",
    "LlamaConfig",
    "ModelConfig",
    "MultiHeadAttention",
    "RMSNorm",
    "SelfAttention",
    "Server",
    "SlidingWindowDataset",
    "SwiGLU",
    "TinyBlock",
    "TinyLM",
    "TinyLlama",
    "TinyTranslator",
    "TrainConfig",
    "Training",
    "TranslatorConfig",
    "apply_rope",
    "attention_weights",
    "causal_mask",
    "choose_device",
    "chunk_mask",
    "combine_masks",
    "convert_layout",
    "copy_weights",
    "evaluate",
    "gated_delta_rule",
    "generate",
    "load_checkpoint",
    "load_pretrained",
    "make_deterministic",
    "make_loader",
    "make_mha",
    "merge_heads",
    "next_token_loss",
    "pad_texts",
    "padding_mask",
    "read_text",
    "repeat_kv",
    "rope_angles",
    "sample_token",
    "save_checkpoint",
    "scaled_dot_product_attention",
    "seeded",
    "sink_window_mask",
    "sinusoidal_positions",
    "sliding_window_mask",
    "split_heads",
    "train",
    "train_step",
    "translate",
    "warmup_cosine",
]
