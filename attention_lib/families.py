"""From a published ``config.json`` to our own model: what each family's fields mean.

A field that is not understood is refused, since it may change the result in silence.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_lib.decoder import DecoderConfig, LayerConfig

# What says nothing about the numbers that a model computes in evaluation.
# fmt: off
HARMLESS = {
    "_name_or_path", "architectures", "attention_dropout", "attn_pdrop",
    "bos_token_id", "cache_implementation", "dtype", "embd_pdrop", "eos_token_id",
    "initializer_range", "model_type", "n_ctx", "output_router_logits",
    "pad_token_id", "resid_pdrop", "router_aux_loss_coef", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj", "task_specific_params", "torch_dtype", "transformers_version",
    "use_cache",
}
# fmt: on
ACTIVATIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
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
                "ignored"
            )


def read_config(fields: Mapping[str, Any]) -> DecoderConfig:
    """Turns a family's ``config.json`` into the options of our own layers.

    Args:
        fields: the file's content.

    Raises:
        ValueError: an unknown family; a field that is missing, or not understood.
    """
    family = fields.get("model_type")
    if family not in FAMILIES:
        raise ValueError(
            f"config.json says model_type = {family!r}; load_pretrained knows "
            f"{', '.join(FAMILIES)}"
        )
    left = Fields(fields)
    config = FAMILIES[family](left)
    left.end()
    return config


def _gpt2(fields: Fields) -> DecoderConfig:
    width, heads = fields.take("n_embd"), fields.take("n_head")
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"):
        fields.expect(name, False)
    fields.expect("add_cross_attention", False)
    return DecoderConfig(
        vocab_size=fields.take("vocab_size"),
        context_len=fields.take("n_positions"),
        d_model=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=width // heads,
        hidden_dim=fields.take("n_inner", None) or 4 * width,
        layers=(LayerConfig(rope_base=None),) * fields.take("n_layer"),
        norm="layer",
        norm_eps=fields.take("layer_norm_epsilon", 1e-5),
        mlp="plain",
        activation=fields.choose("activation_function", ACTIVATIONS, "gelu_new"),
        qkv_bias=True,
        out_bias=True,
        scale=None if fields.take("scale_attn_weights", True) else 1.0,
        learned_positions=True,
        tie_weights=fields.take("tie_word_embeddings", True),
    )


def _llama(fields: Fields) -> DecoderConfig:
    heads = fields.left.get("num_attention_heads", 0)
    fields.left.setdefault("num_key_value_heads", heads)
    fields.expect("mlp_bias", False)
    fields.expect("pretraining_tp", 1)
    bias = fields.take("attention_bias", False)
    return _rotary(fields, windows=None, qkv_bias=bias, out_bias=bias)


def _mistral(fields: Fields) -> DecoderConfig:
    return _rotary(fields, windows=fields.take("sliding_window"))


def _qwen2(fields: Fields) -> DecoderConfig:
    return _rotary(fields, windows=_qwen_windows(fields), qkv_bias=True)


def _qwen3(fields: Fields) -> DecoderConfig:
    bias = fields.take("attention_bias", False)
    fields.left.setdefault("head_dim", 128)
    return _rotary(
        fields,
        windows=_qwen_windows(fields),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="rms",
    )


def _gemma2(fields: Fields) -> DecoderConfig:
    return _gemma(fields, every=2, softcap=fields.take("attn_logit_softcapping"))


def _gemma3(fields: Fields) -> DecoderConfig:
    fields.expect("attn_logit_softcapping", None)  # its attention would ignore it
    every = fields.take("sliding_window_pattern", 6)
    fields.left.pop("_sliding_window_pattern", None)  # said by layer_types as well
    return _gemma(fields, every=every, qk_norm="rms_plus_one")


def _gemma(fields: Fields, *, every: int, **options: Any) -> DecoderConfig:
    fields.expect("use_bidirectional_attention", None, False)
    bias = fields.take("attention_bias", False)
    fields.left.pop("hidden_act", None)  # the older name, which the model ignores
    activation = fields.take("hidden_activation")
    fields.left["hidden_act"] = activation
    fields.left.setdefault("tie_word_embeddings", True)
    fields.left.setdefault("head_dim", 256)
    return _rotary(
        fields,
        windows=_windows_by_type(fields, every),
        norm="rms_plus_one",
        norm_outputs=True,
        qkv_bias=bias,
        out_bias=bias,
        scale=fields.take("query_pre_attn_scalar") ** -0.5,
        embedding_scale=fields.see("hidden_size") ** 0.5,
        logits_softcap=fields.take("final_logit_softcapping"),
        **options,
    )


def _gpt_oss(fields: Fields) -> DecoderConfig:
    fields.left.pop("initial_context_length", None)  # the model ignores it
    bias = fields.take("attention_bias")
    return _rotary(
        fields,
        windows=_windows_by_type(fields, every=2),
        qkv_bias=bias,
        out_bias=bias,
        sinks=True,
        mlp="experts",
        num_experts=fields.take("num_local_experts"),
        experts_per_token=fields.take("num_experts_per_tok"),
        expert_limit=fields.take("swiglu_limit", 7.0),
        expert_alpha=fields.take("swiglu_alpha", 1.702),
    )


FAMILIES: dict[str, Callable[[Fields], DecoderConfig]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
}


def _rotary(
    fields: Fields, *, windows: list[int | None] | int | None, **options: Any
) -> DecoderConfig:
    """Reads what all families with rotary positions and RMSNorm share."""
    width, heads = fields.take("hidden_size"), fields.take("num_attention_heads")
    count, types = (
        fields.take("num_hidden_layers"),
        fields.left.pop("layer_types", None),
    )
    each = windows if isinstance(windows, list) else [windows] * count
    if len(each) != count or (types is not None and len(types) != count):
        raise ValueError(
            f"config.json says num_hidden_layers = {count}, but layer_types has "
            f"{len(types or each)} entries"
        )
    by_type = _rotations(fields)
    layers = [
        LayerConfig(
            window, *by_type["sliding_attention" if window else "full_attention"]
        )
        for window in each
    ]
    return DecoderConfig(
        vocab_size=fields.take("vocab_size"),
        context_len=fields.take("max_position_embeddings"),
        d_model=width,
        num_heads=heads,
        num_kv_heads=fields.take("num_key_value_heads"),
        head_dim=fields.take("head_dim", None) or width // heads,
        hidden_dim=fields.take("intermediate_size"),
        layers=tuple(layers),
        norm_eps=fields.take("rms_norm_eps"),
        activation=fields.choose("hidden_act", ACTIVATIONS, "silu"),
        tie_weights=fields.take("tie_word_embeddings", False),
        **options,
    )


def _rotations(fields: Fields) -> dict[str, tuple[float, dict[str, Any] | None]]:
    """Gives the base and the stretching of the angles, for each type of layer."""
    found = fields.take("rope_parameters", None)
    base = fields.take("rope_theta", None)
    local = fields.take("rope_local_base_freq", None)
    scaling = fields.take("rope_scaling", None)
    length = fields.see("max_position_embeddings")
    standard = {"gpt_oss": 150_000.0}.get(fields.family, 10_000.0)
    by_type = fields.family == "gemma3_text"
    bases = {"full_attention": 1e6 if by_type else standard}
    bases |= {"sliding_attention": standard}
    if found is None and base is None and fields.family == "gpt_oss":
        found = fields.take("rope_parameters")  # it stretches, and nobody says how
    if found is None:  # how files before version 5 of transformers say it
        found = {"rope_theta": base or bases["full_attention"], **(scaling or {})}
        if by_type:
            of_local = {"rope_theta": local or standard}
            found = {"full_attention": found, "sliding_attention": of_local}
    if not set(found) & set(bases):
        found = dict.fromkeys(bases, found)
    rotations = {}
    for kind, usual in bases.items():
        said = dict(found[kind]) if kind in found else {}
        if not said:
            raise ValueError(f"config.json has no rope_parameters for {kind}")
        kind_of = said.pop("type", "default")
        said.setdefault("rope_type", kind_of)
        theta = said.pop("rope_theta", usual)
        if said["rope_type"] in ("dynamic", "yarn", "llama3"):
            said.setdefault("original_max_position_embeddings", length)
        plain = said == {"rope_type": "default"}
        rotations[kind] = theta, None if plain else said
    return rotations


def _windows_by_type(fields: Fields, every: int) -> list[int | None]:
    """Gives each layer its window: all but every so-manyth one have it."""
    window, count = fields.take("sliding_window"), fields.see("num_hidden_layers")
    types = fields.left.get("layer_types") or [
        "sliding_attention" if (i + 1) % every else "full_attention"
        for i in range(count)
    ]
    known = {"sliding_attention": window, "full_attention": None}
    if window is None and "sliding_attention" in types:
        raise ValueError("config.json has layers with a window, but no sliding_window")
    for kind in types:
        if kind not in known:
            raise ValueError(
                f"config.json names the layer type {kind!r}; load_pretrained knows "
                f"{', '.join(known)}"
            )
    return [known[kind] for kind in types]


def _qwen_windows(fields: Fields) -> list[int | None]:
    """Gives each layer its window: with the switch on, all from a certain layer on."""
    used = fields.take("use_sliding_window", False)
    first = fields.take("max_window_layers", 28)
    if fields.left.get("layer_types"):  # where it stands, it decides alone
        return _windows_by_type(fields, every=1)
    window = fields.take("sliding_window", 4096) if used else None
    fields.left.pop("sliding_window", None)
    count = fields.see("num_hidden_layers")
    return [window if i >= first else None for i in range(count)]


def published_names(family: str, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
    """Says where one of our weights stands in a family's files.

    Args:
        family: the file's ``model_type``.
        name: of a parameter of our ``Decoder``.

    Returns:
        The published tensor's name, and what makes our weight out of that tensor.
    """
    if family == "gpt2":
        return _gpt2_name(name)
    pairs = _GEMMA_NAMES if family.startswith("gemma") else _LLAMA_NAMES
    for ours, theirs in pairs.items():
        name = name.replace(ours, theirs)
    return name, _same


_NAMES = {
    "token_embedding": "model.embed_tokens",
    "last_norm": "model.norm",
    "head.weight": "lm_head.weight",
    "blocks": "model.layers",
    "mlp.experts_gate_up": "mlp.experts.gate_up_proj",
    "mlp.experts_down": "mlp.experts.down_proj",
    "attention.out_proj": "self_attn.o_proj",
    "attention.": "self_attn.",
}
_LLAMA_NAMES = {
    "mlp_norm": "post_attention_layernorm",
    "attention_norm": "input_layernorm",
    **_NAMES,
}
_GEMMA_NAMES = {
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_out_norm": "post_feedforward_layernorm",
    "attention_out_norm": "post_attention_layernorm",
    "attention_norm": "input_layernorm",
    **_NAMES,
}
_GPT2_NAMES = {
    "token_embedding": "transformer.wte",
    "position_embedding": "transformer.wpe",
    "last_norm": "transformer.ln_f",
    "head.weight": "lm_head.weight",
    "blocks": "transformer.h",
    "attention_norm": "ln_1",
    "mlp_norm": "ln_2",
    "attention.out_proj": "attn.c_proj",
    "mlp.up_proj": "mlp.c_fc",
    "mlp.down_proj": "mlp.c_proj",
}


def _gpt2_name(name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
    """GPT-2 keeps (in, out) matrices, and queries, keys and values in one."""
    matrix = name.endswith(".weight") and (".attention." in name or ".mlp." in name)
    turned = torch.t if matrix else _same
    change = turned
    for part, role in enumerate(("q_proj", "k_proj", "v_proj")):
        if role in name:
            name = name.replace(f"attention.{role}", "attn.c_attn")
            change = partial(_third, part=part, turned=turned)
    for ours, theirs in _GPT2_NAMES.items():
        name = name.replace(ours, theirs)
    return name, change


def _third(whole: Tensor, part: int, turned: Callable[[Tensor], Tensor]) -> Tensor:
    return turned(whole.chunk(3, dim=-1)[part])


def _same(tensor: Tensor) -> Tensor:
    return tensor
