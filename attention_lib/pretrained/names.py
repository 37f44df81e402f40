"""The names and the layout of our weights in a family's files."""

import re
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from attention_lib.pretrained.configs import READERS
from attention_lib.validation import require_choice, require_mapping


def published_names(family: str, name: str) -> tuple[str, Callable[[Tensor], Tensor]]:
    """Return where one of our weights is in a family's files.

    Args:
        family: the file's ``model_type``.
        name: of a parameter of our ``Decoder``.

    Returns:
        The published tensor's name, and a function from that tensor to our weight.

    Raises:
        ValueError: an unknown family; a name that no ``Decoder`` has.
    """
    require_choice("family", family, READERS)
    if not isinstance(name, str) or not _OURS.fullmatch(name):
        raise ValueError(
            "name must be that of a weight of a Decoder, such as 'blocks.0.attention."
            f"q_proj.weight'; got {name!r}"
        )
    if family == "gpt2":
        return _gpt2_name(name)
    pairs = _GEMMA_NAMES if family.startswith("gemma") else _LLAMA_NAMES
    for ours, theirs in pairs.items():
        name = name.replace(ours, theirs)
    return name, _same


def published_tensors(family: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert weights to the names and the layout of a family's files.

    Args:
        family: the file's ``model_type``.
        weights: of our ``Decoder``, by their names.

    Raises:
        TypeError: weights that are not a mapping of tensors.
        ValueError: an unknown family; a name that no ``Decoder`` has; queries without
            keys or values, which GPT-2 keeps in one tensor.
    """
    require_mapping("weights", weights, Tensor)
    parts: dict[str, dict[int, Tensor]] = {}
    for name, weight in weights.items():
        if not _OURS.fullmatch(name):
            raise ValueError(f"weights must be those of a Decoder; got {name!r}")
        source, change = published_names(family, name)
        third = getattr(change, "keywords", {"part": 0})
        transposed = third.get("flip", change) is torch.t
        own = weight.t() if transposed else weight
        parts.setdefault(source, {})[third["part"]] = own
    for source, each in parts.items():
        if ".c_attn." in source and len(each) < 3:
            raise ValueError(
                f"weights must hold queries, keys and values, for {source}; got "
                f"{len(each)} of them"
            )
    return {
        source: torch.cat([each[part] for part in sorted(each)], dim=-1).contiguous()
        for source, each in parts.items()
    }


# The names of a ``Decoder``'s weights.
_OURS = re.compile(
    r"(token_embedding|position_embedding|last_norm|head)\.(weight|bias)"
    r"|blocks\.\d+\.((attention|mlp)(_out)?_norm\.(weight|bias)"
    r"|attention\.(([qkv]|out)_proj|q_proj\.[012]|[qk]_norm|kv_\w+)\.(weight|bias)"
    r"|attention\.sinks|mlp\.(gate_proj|up_proj|down_proj|router)\.(weight|bias)"
    r"|mlp\.experts_(gate_up|down)(_bias)?)"
)
_NAMES = {
    "token_embedding": "model.embed_tokens",
    "last_norm": "model.norm",
    "head.weight": "lm_head.weight",
    "blocks": "model.layers",
    "mlp.experts_gate_up": "mlp.experts.gate_up_proj",
    "mlp.experts_down": "mlp.experts.down_proj",
    "attention.out_proj": "self_attn.o_proj",
    "attention.q_proj.0": "self_attn.q_a_proj",
    "attention.q_proj.1": "self_attn.q_a_layernorm",
    "attention.q_proj.2": "self_attn.q_b_proj",
    "attention.kv_down_proj": "self_attn.kv_a_proj_with_mqa",
    "attention.kv_norm": "self_attn.kv_a_layernorm",
    "attention.kv_up_proj": "self_attn.kv_b_proj",
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
    """Return GPT-2's name: it has (in, out) matrices, and one for all of q, k and v."""
    matrix = name.endswith(".weight") and (".attention." in name or ".mlp." in name)
    flip = torch.t if matrix else _same
    change = flip
    for part, role in enumerate(("q_proj", "k_proj", "v_proj")):
        if role in name:
            name = name.replace(f"attention.{role}", "attn.c_attn")
            change = partial(_third, part=part, flip=flip)
    for ours, theirs in _GPT2_NAMES.items():
        name = name.replace(ours, theirs)
    return name, change


def _third(whole: Tensor, part: int, flip: Callable[[Tensor], Tensor]) -> Tensor:
    return flip(whole.chunk(3, dim=-1)[part])


def _same(tensor: Tensor) -> Tensor:
    return tensor
