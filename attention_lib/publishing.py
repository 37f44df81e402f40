"""Our own weights, written as Hugging Face publishes them: others can read them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from attention_lib.decoder import Decoder
from attention_lib.families import published_tensors, read_config
from attention_lib.validation import check_instance, check_path, check_positive


def save_pretrained(
    folder: str | Path,
    model: Decoder,
    fields: Mapping[str, Any],
    *,
    shard_bytes: int | None = None,
) -> None:
    """Writes a model as a published checkpoint, which ``transformers`` reads as well.

    Args:
        folder: made if it is missing; files of the same names are replaced.
        model: built from ``read_config(fields)``.
        fields: what ``config.json`` shall say.
        shard_bytes: the weights are spread over files of at most so many bytes, unless
            one tensor is larger; one file when left out.

    Raises:
        TypeError: a folder that is no path; another model; fields that are no mapping.
        ValueError: fields that are not understood, or not those of the model.
    """
    folder = check_path(folder)
    check_instance("model", model, Decoder)
    check_instance("fields", fields, Mapping)
    if shard_bytes is not None:
        check_positive(shard_bytes=shard_bytes)
    if read_config(fields) != model.config:
        raise ValueError("fields must be those that the model was built from")
    weights = {
        name: weight.detach().cpu() for name, weight in model.state_dict().items()
    }
    if model.config.tie_weights:
        del weights["head.weight"]
    tensors = published_tensors(fields["model_type"], weights)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields, indent=2), encoding="utf-8")
    shards = _shards(tensors, shard_bytes)
    if len(shards) == 1:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return
    files: dict[str, str] = {}
    for number, names in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        files |= dict.fromkeys(names, file)
        part = {name: tensors[name] for name in names}
        save_file(part, folder / file, {"format": "pt"})
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": files}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index, indent=2), encoding="utf-8")


def _shards(tensors: Mapping[str, Tensor], most: int | None) -> list[list[str]]:
    """Shares names out, in order, so that no file is too large."""
    shards: list[list[str]] = [[]]
    size = 0
    for name, tensor in tensors.items():
        size += tensor.nbytes
        if most is not None and size > most and shards[-1]:
            shards.append([])
            size = tensor.nbytes
        shards[-1].append(name)
    return shards
