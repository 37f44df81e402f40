"""What a layer's weights are for, by their names.

Shapes: M d_model.
"""

import re
from typing import NamedTuple

import torch
from torch import Tensor, nn

_ROLES = {
    "query": "q|query|queries",
    "key": "k|key|keys",
    "value": "v|value|values",
    "out": "o|out|output|dense|proj|c_proj",
    "qkv": "qkv|in|c_attn|query_key_value",
}


class Roles(NamedTuple):
    """The weights of a layer by what they are for, each as (out, in)."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor | None
    biases: tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def _role(name: str) -> str | None:
    """Says what a parameter is for, by the last words of its name."""
    words = [w for w in name.lower().split(".") if w not in ("weight", "bias")]
    last = words[-1] if words else ""
    last = re.sub(r"_?(weight|bias)$", "", last)
    for role, names in _ROLES.items():
        if re.fullmatch(rf"(to_?|w_?)?({names})(_?(proj|lin|linear|layer|w))?", last):
            return role
    return None


def find_roles(layer: nn.Module) -> Roles | None:
    """Finds the weights by their names; None where one is missing or left over."""
    found: dict[tuple[str, str], list[Tensor]] = {}
    for name, parameter in layer.named_parameters():
        role = _role(name)
        if role is None or parameter.ndim > 2:
            return None
        owner = layer.get_submodule(name.rpartition(".")[0])
        value = parameter.detach()
        if parameter.ndim == 2:
            turned = type(owner).__name__ == "Conv1D"  # GPT-2's: (in, out)
            value = value.T if turned else value
        kind = "bias" if parameter.ndim == 1 else "weight"
        found.setdefault((role, kind), []).append(value)
    if any(
        len(parts) > 1 for (role, _), parts in found.items() if role in ("qkv", "out")
    ):
        return None
    whole = {role: torch.cat(parts) for role, parts in found.items()}
    for kind in ("weight", "bias"):
        if ("qkv", kind) in whole:
            fused = whole.pop(("qkv", kind))
            width = whole.get(("out", "weight"), fused[:1]).shape[-1]
            sizes = _cut(fused.shape[0], width)
            if sizes is None:
                return None
            for role, part in zip(
                ("query", "key", "value"), fused.split(sizes), strict=True
            ):
                whole.setdefault((role, kind), part)
    names = "query", "key", "value", "out"
    if any((role, "weight") not in whole for role in names[:3]):
        return None
    weights = [whole.get((role, "weight")) for role in names]
    biases = tuple(whole.get((role, "bias")) for role in names)
    return Roles(*weights, biases)  # type: ignore[arg-type, call-arg]


def _cut(rows: int, width: int) -> list[int] | None:
    """Cuts fused rows into queries, keys and values."""
    rest = rows - width
    return [width, rest // 2, rest // 2] if rest > 0 and rest % 2 == 0 else None
