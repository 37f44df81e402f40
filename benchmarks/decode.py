"""Generation with a cache: ours, and Hugging Face's GPT-2, of one size and greedy.

A case is one call for all new tokens, the prompt's first step included, so its time
divided by their number is the time per token.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from attention_lib.generation import generate
from attention_lib.tiny_lm import ModelConfig, TinyLM

VOCAB_SIZE, D_MODEL, NUM_HEADS, NUM_LAYERS, CONTEXT_LEN = 1000, 128, 4, 2, 512
PROMPT = 32
NEW_TOKENS = (224,)
REFERENCE = "Hugging Face GPT-2"


def make_ours(mha: str) -> TinyLM:
    """Return our model, in evaluation mode."""
    sizes = VOCAB_SIZE, CONTEXT_LEN, D_MODEL, NUM_HEADS, NUM_LAYERS
    return TinyLM(ModelConfig(*sizes, mha=mha)).eval()


def make_theirs() -> GPT2LMHeadModel:
    """Return their model, of our size; no token ends a text."""
    config = GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_positions=CONTEXT_LEN,
        n_embd=D_MODEL,
        n_head=NUM_HEADS,
        n_layer=NUM_LAYERS,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


MODELS: dict[str, Callable[[], nn.Module]] = {
    REFERENCE: make_theirs,
    "TinyLM, sdpa": lambda: make_ours("sdpa"),
    "TinyLM, split": lambda: make_ours("split"),
}


def make_call(name: str, count: int) -> Callable[[], Any]:
    """Return the timed call: ``count`` new tokens after one prompt."""
    torch.manual_seed(0)
    model = MODELS[name]()
    ids = torch.randint(VOCAB_SIZE, (1, PROMPT))
    if isinstance(model, TinyLM):
        return lambda: generate(model, ids, max_new_tokens=count)
    seen = torch.ones_like(ids)
    return lambda: model.generate(  # type: ignore[operator]
        ids, attention_mask=seen, max_new_tokens=count, do_sample=False
    )
