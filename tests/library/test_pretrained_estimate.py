"""attention_lib.pretrained.estimate: what a model takes, from its config.json alone."""

import pytest
import torch

from attention_lib.pretrained import estimate_memory

SMOLLM2 = {  # of HuggingFaceTB/SmolLM2-135M, with the fields that only it has
    **{"model_type": "llama", "vocab_size": 49_152, "max_position_embeddings": 8192},
    **{"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30},
    **{"num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-5},
    **{"rope_theta": 100_000, "rope_scaling": None, "tie_word_embeddings": True},
    **{"is_llama_config": True, "rope_interleaved": False, "pretraining_tp": 1},
    **{"attention_bias": False, "hidden_act": "silu", "torch_dtype": "bfloat16"},
    **{"transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}}},
}
GPT2 = {
    **{"model_type": "gpt2", "vocab_size": 50_257, "n_positions": 1024, "n_ctx": 1024},
    **{"n_embd": 768, "n_layer": 12, "n_head": 12, "summary_type": "cls_index"},
}


@pytest.mark.parametrize(
    ("fields", "parameters"), [(SMOLLM2, 134_515_008), (GPT2, 124_439_808)]
)
def test_needs_count_the_parameters_of_published_models(fields, parameters):
    needs = estimate_memory(fields, dtype=torch.float32, bytes_per_second=4e6)
    assert needs.parameters == parameters
    assert needs.nbytes == 4 * parameters
    assert needs.seconds == parameters / 1e6
