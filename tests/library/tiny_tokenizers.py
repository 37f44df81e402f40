"""A tiny tokenizer in the files of published models, and a tiny model for it."""

import json

import torch
from tokenizers import pre_tokenizers

from attention_lib.pretrained import Decoder, read_config
from tests.library.gguf_files import written

START, END = "<|im_start|>", "<|im_end|>"
MERGES = ["Ġ Ġ", "h e", "l l", "he ll", "Ġ w"]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = [START, END, *BYTES, *(merge.replace(" ", "") for merge in MERGES), "<tool>"]
TEMPLATE = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "<|im_start|>system\nYou are brief<|im_end|>\n{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GGUF_FIELDS = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.token_type": [3, 3, *[1] * (len(TOKENS) - 3), 4],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.ggml.add_bos_token": False,
    "tokenizer.chat_template": TEMPLATE,
}
MODEL_FIELDS = {
    **{"model_type": "llama", "vocab_size": len(TOKENS), "hidden_size": 16},
    **{"max_position_embeddings": 160, "intermediate_size": 16, "rms_norm_eps": 1e-5},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1},
}


def write_gguf(path, **changes):
    """Write a GGUF file without tensors; a change to None leaves a field out."""
    fields = GGUF_FIELDS | {f"tokenizer.{n}": value for n, value in changes.items()}
    fields = {name: value for name, value in fields.items() if value is not None}
    path.write_bytes(written([*fields.items()], []))
    return path


def write_folder(folder, tokenizer, **config):
    """Write a tokenizer as a folder; a value of the config may be left out by None."""
    folder.mkdir(exist_ok=True)
    tokenizer._inner.save(str(folder / "tokenizer.json"))
    given = {"bos_token": START, "eos_token": END, "chat_template": TEMPLATE} | config
    given = {name: value for name, value in given.items() if value is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(given))
    return folder


def tiny_decoder():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Decoder(read_config(MODEL_FIELDS))
    model.head.weight.data *= 30  # else all tokens are as likely
    return model.eval()
