"""Tiny language models that prefer some tokens, and beginnings of texts for them."""

import torch
from torch import nn

from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from tests.tensors import global_seed

VOCAB_SIZE, CONTEXT_LEN = 7, 12
POSITIONS = ["learned", "sinusoidal", "rotary", "none"]


def tiny(vocab_size=VOCAB_SIZE, context_len=CONTEXT_LEN, **options):
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 2} | options
    with global_seed(0):
        model = TinyLM(ModelConfig(vocab_size, context_len, **sizes))
    model.head.weight.data *= 30  # else all tokens are as likely
    return model.double().eval()


class Counts(nn.Module):
    """The next token is one more; it has no cache and no config."""

    calls = 0

    def forward(self, token_ids):
        self.calls += 1
        assert not torch.is_grad_enabled()
        assert not self.training
        return nn.functional.one_hot((token_ids + 1) % 9, 9).double()


def beginnings(batch=3, length=5):
    return torch.randint(VOCAB_SIZE, (batch, length), generator=seeded(0))
