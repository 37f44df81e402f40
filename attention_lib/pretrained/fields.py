"""The fields of a ``config.json``: each is taken, known as harmless, or refused."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from attention_lib.validation import require_instance

# Fields that do not affect the numbers that a model computes in evaluation.
# fmt: off
HARMLESS = {
    "_attn_implementation_autoset", "_name_or_path", "_num_labels", "architectures",
    "attention_dropout", "attn_pdrop", "bos_token_id", "cache_implementation", "dtype",
    "embd_pdrop", "eos_token_id", "finetuning_task", "gradient_checkpointing",
    "id2label", "initializer_range", "is_llama_config", "label2id", "model_type",
    "n_ctx", "n_special", "num_labels", "output_attentions", "output_hidden_states",
    "output_past", "output_router_logits", "pad_token_id", "predict_special_tokens",
    "resid_pdrop", "return_dict", "router_aux_loss_coef", "sep_token_id",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "task_specific_params", "tokenizer_class",
    "torch_dtype", "torchscript", "transformers_version", "transformers.js_config",
    "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache",
}
# fmt: on
REQUIRED = object()


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def is_above_zero(value: Any) -> bool:
    """Return whether a value is a finite number above 0, and not true."""
    return type(value) in (int, float) and 0 < value <= sys.float_info.max


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


# The kinds of fields, with their values and names. Sizes are bounded so that the
# product of several is still a number of bytes that PyTorch can count.
# fmt: off
KINDS: list[tuple[str, Callable[[Any], bool], str]] = [
    ("a whole number from 1 to 1,000,000", _whole(1, 10**6),
     "n_embd n_head n_inner hidden_size intermediate_size num_attention_heads "
     "num_key_value_heads head_dim num_local_experts num_experts_per_tok q_lora_rank "
     "kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim"),
    ("a whole number from 1 to 1,000,000,000", _whole(1, 10**9),
     "vocab_size n_positions max_position_embeddings sliding_window "
     "sliding_window_pattern"),
    ("a whole number from 1 to 10,000", _whole(1, 10**4), "n_layer num_hidden_layers"),
    ("a whole number from 0 on", _whole(0, 2**63),
     "max_window_layers first_k_dense_replace"),
    ("true or false", lambda value: isinstance(value, bool),
     "attention_bias tie_word_embeddings scale_attn_weights use_sliding_window "
     "scale_attn_by_inverse_layer_idx reorder_and_upcast_attn add_cross_attention "
     "mlp_bias rope_interleaved rope_interleave use_mrope "
     "use_bidirectional_attention"),
    ("a finite number above 0", is_above_zero,
     "layer_norm_epsilon rms_norm_eps rope_theta rope_local_base_freq swiglu_limit "
     "swiglu_alpha query_pre_attn_scalar attn_logit_softcapping "
     "final_logit_softcapping"),
    ("an object", lambda value: isinstance(value, dict),
     "rope_parameters rope_scaling"),
    ("a list of words", _words, "layer_types"),
]
NULLABLE = {
    "n_inner", "num_key_value_heads", "head_dim", "q_lora_rank", "sliding_window",
    "use_bidirectional_attention", "rope_theta", "attn_logit_softcapping",
    "final_logit_softcapping", "rope_parameters", "rope_scaling", "layer_types",
}
# fmt: on


class Fields:
    """The fields of a ``config.json``; each must be taken, or be known as harmless.

    Args:
        fields: as the file has them.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        require_instance("fields", fields, Mapping)
        self.left = {n: value for n, value in fields.items() if n not in HARMLESS}
        self.family = fields["model_type"]
        for wanted, fits, names in KINDS:
            for name in names.split():
                value = self.left.get(name)
                may_be_null = name in NULLABLE or name not in self.left
                if not (may_be_null if value is None else fits(value)):
                    self.refuse(name, value, wanted)

    def refuse(self, name: str, value: Any, wanted: str) -> NoReturn:
        """Raise the error for a field whose value is not understood."""
        raise ValueError(
            f"config.json says {name} = {value!r}; wanted {wanted} for {self.family}"
        )

    def take(self, name: str, default: Any = REQUIRED) -> Any:
        """Return and remove a field; without a default it must exist."""
        value = self.left.pop(name, default)
        if value is REQUIRED:
            raise ValueError(f"config.json lacks {name}, which {self.family} needs")
        return value

    def peek(self, name: str) -> Any:
        """Return a field that must exist, without removing it."""
        value = self.take(name)
        self.left[name] = value
        return value

    def choose(self, name: str, choices: Mapping[Any, Any], default: Any) -> Any:
        """Return the choice that a field's word selects; refuse other words."""
        require_instance("choices", choices, Mapping)
        value = self.take(name, default)
        if not any(type(value) is type(word) and value == word for word in choices):
            wanted = ", ".join(repr(choice) for choice in choices)
            raise ValueError(
                f"config.json says {name} = {value!r}; load_pretrained knows {wanted} "
                f"for {self.family}"
            )
        return choices[value]

    def expect(self, name: str, *wanted: Any) -> None:
        """Refuse a field whose value needs something that is not built here."""
        self.choose(name, dict.fromkeys(wanted), default=wanted[0])

    def end(self) -> None:
        """Refuse fields that have not been taken."""
        for name, value in self.left.items():
            raise ValueError(
                f"config.json says {name} = {value!r}, which load_pretrained does not "
                f"know for {self.family}: it may change the result, so it cannot be "
                "ignored; if transformers ignores it, remove it from config.json"
            )
