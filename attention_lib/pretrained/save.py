"""Save our weights in Hugging Face's format, so that other programs can read them."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from attention_lib.modules import uncompiled
from attention_lib.pretrained.configs import read_config
from attention_lib.pretrained.decoder import Decoder
from attention_lib.pretrained.names import published_tensors
from attention_lib.validation import require_instance, require_path, require_positive


def save_pretrained(
    folder: str | Path,
    model: Decoder,
    fields: Mapping[str, Any],
    *,
    shard_bytes: int | None = None,
) -> None:
    """Write a model as a checkpoint that ``transformers`` can read as well.

    A head that *is* the token embedding is left out, whatever ``fields`` say about it:
    ``config.json`` gets the ``tie_word_embeddings`` that describes the weights.

    Args:
        folder: made if it is missing; files of the same names are replaced.
        model: built from ``read_config(fields)``.
        fields: the content of ``config.json``.
        shard_bytes: the largest size of a file, unless one tensor is larger; one file
            when left out.

    Raises:
        TypeError: a folder that is not a path; not a ``Decoder``; fields that are not a
            mapping.
        ValueError: fields that are not understood, or not those of the model; a model
            whose parts were replaced.
    """
    folder = require_path(folder)
    if folder.is_file():
        raise ValueError(f"{folder} is a file: pass its folder")
    require_instance("model", model, Decoder)
    model = uncompiled(model)
    require_instance("fields", fields, Mapping)
    if shard_bytes is not None:
        require_positive(shard_bytes=shard_bytes)
    if (config := read_config(fields)) != model.config:
        unlike = next(
            f"{it.name} is {getattr(config, it.name)!r} in fields and "
            f"{getattr(model.config, it.name)!r} in the model"
            for it in dataclasses.fields(config)
            if getattr(config, it.name) != getattr(model.config, it.name)
        )
        raise ValueError(
            f"fields must be those that the model was built from: {unlike}"
        )
    weights = {
        name: weight.detach().cpu() for name, weight in model.state_dict().items()
    }
    _check_weights(model, weights)
    tied = model.head.weight is model.token_embedding.weight
    if tied:
        del weights["head.weight"]
    if tied != model.config.tie_weights:
        fields = {**fields, "tie_word_embeddings": tied}
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


def _check_weights(model: Decoder, weights: Mapping[str, Tensor]) -> None:
    """Refuse a model whose weights differ from those that its config describes."""
    with torch.device("meta"):
        plain = Decoder(model.config).state_dict()
    for name in sorted(plain.keys() | weights.keys()):
        shapes = [
            tuple(each[name].shape) if name in each else "nothing"
            for each in (weights, plain)
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"model must hold the weights of its config; got {shapes[0]} for "
                f"{name} instead of {shapes[1]}: merge adapters into the weights first"
            )


def _shards(tensors: Mapping[str, Tensor], most: int | None) -> list[list[str]]:
    """Distribute names over files, in order, so that no file is too large."""
    shards: list[list[str]] = [[]]
    size = 0
    for name, tensor in tensors.items():
        size += tensor.nbytes
        if most is not None and size > most and shards[-1]:
            shards.append([])
            size = tensor.nbytes
        shards[-1].append(name)
    return shards
