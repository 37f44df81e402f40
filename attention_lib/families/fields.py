"""The fields of a ``config.json``: each is taken, known as harmless, or refused."""

from collections.abc import Mapping
from typing import Any

# What says nothing about the numbers that a model computes in evaluation.
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


class Fields:
    """The fields of a ``config.json``; each must be taken, or be known as harmless.

    Args:
        fields: as the file has them.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.left = {n: value for n, value in fields.items() if n not in HARMLESS}
        self.family = fields["model_type"]

    def take(self, name: str, default: Any = REQUIRED) -> Any:
        """Gives a field; without a default it must be there."""
        found = self.left.pop(name, default)
        if found is REQUIRED:
            raise ValueError(f"config.json lacks {name}, which {self.family} needs")
        return found

    def see(self, name: str) -> Any:
        """Gives a field that must be there, and leaves it for who takes it."""
        found = self.take(name)
        self.left[name] = found
        return found

    def choose(self, name: str, choices: Mapping[Any, Any], default: Any) -> Any:
        """Gives what a field's word stands for; other words are refused."""
        found = self.take(name, default)
        if found not in choices:
            wanted = ", ".join(repr(choice) for choice in choices)
            raise ValueError(
                f"config.json says {name} = {found!r}; load_pretrained knows {wanted} "
                f"for {self.family}"
            )
        return choices[found]

    def expect(self, name: str, *wanted: Any) -> None:
        """Refuses a field whose value would ask for what is not built here."""
        self.choose(name, dict.fromkeys(wanted), default=wanted[0])

    def end(self) -> None:
        """Refuses what nobody has taken."""
        for name, value in self.left.items():
            raise ValueError(
                f"config.json says {name} = {value!r}, which load_pretrained does not "
                f"know for {self.family}: it may change the result, so it cannot be "
                "ignored; if transformers ignores it, remove it from config.json"
            )
