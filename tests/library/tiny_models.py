"""Tiny language models that prefer some tokens, and beginnings of texts for them."""

import torch

from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM

VOCAB_SIZE, CONTEXT_LEN = 7, 12
POSITIONS = ["learned", "sinusoidal", "rotary", "none"]


def tiny(**options):
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 2} | options
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = TinyLM(ModelConfig(VOCAB_SIZE, CONTEXT_LEN, **sizes))
    model.head.weight.data *= 30  # else all tokens are as likely
    return model.double().eval()


def beginnings(batch=3, length=5):
    return torch.randint(VOCAB_SIZE, (batch, length), generator=seeded(0))
