"""A published model of 135 million parameters: ours, and Hugging Face's, same weights.

A case is one call: a prompt of 512 tokens that is read, or 48 new tokens after one of
32. Both models have the weights of the file that `make setup` installs, in float32.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attention_lib.generation import generate
from attention_lib.pretrained import (
    GGUFCheckpoint,
    load_pretrained,
    published_names,
    small_model,
)

READ, PROMPT, NEW = 512, 32, 48
MODEL = "SmolLM2 135M"
PREFILL, DECODE = "512 tokens read", "48 tokens written"
TASKS = (PREFILL, DECODE)
REFERENCE = "Hugging Face Llama"
OURS = "TinyLlama"
MODELS = (REFERENCE, OURS)


@cache
def model_of(name: str) -> Any:
    """Return one of the two models, in evaluation mode."""
    if name == OURS:
        return load_pretrained(small_model()).eval()
    config = LlamaConfig(**GGUFCheckpoint(small_model()).fields)
    theirs = LlamaForCausalLM(config).eval()
    own = model_of(OURS).state_dict()
    theirs.load_state_dict({published_names("llama", n)[0]: own[n] for n in own})
    return theirs


def make_call(name: str, task: str) -> Callable[[], Any]:
    """Return the timed call, without gradients."""
    model = model_of(name)
    length = READ if task == PREFILL else PROMPT
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 40_000, (1, length), generator=generator)
    seen = torch.ones_like(ids)
    if task == PREFILL:
        given = {} if name == OURS else {"use_cache": False, "logits_to_keep": 0}
        return torch.inference_mode()(lambda: model(ids, **given))
    if name == OURS:
        return lambda: generate(model, ids, max_new_tokens=NEW)
    wanted = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False}
    return lambda: model.generate(ids, attention_mask=seen, pad_token_id=0, **wanted)
