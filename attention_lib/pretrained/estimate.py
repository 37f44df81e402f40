"""Estimate what a published model needs: parameters, bytes, seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from attention_lib.pretrained.configs import read_config
from attention_lib.pretrained.decoder import Decoder
from attention_lib.validation import require_above_zero, require_dtype, require_instance


@dataclass(frozen=True)
class MemoryEstimate:
    """What a model needs.

    Attributes:
        parameters: how many numbers it has; a tied head counts once.
        nbytes: how many bytes they take in memory, and in a file of the same type.
        seconds: how long reading these bytes takes, at the given speed.
    """

    parameters: int
    nbytes: int
    seconds: float


def estimate_memory(
    fields: Mapping[str, Any],
    *,
    dtype: torch.dtype = torch.bfloat16,
    bytes_per_second: float = 1e9,
) -> MemoryEstimate:
    """Estimate a model's memory from its ``config.json`` alone; no weights are read.

    The cache and the intermediate results of a run come on top.

    Args:
        fields: the file's content.
        dtype: the type of the weights.
        bytes_per_second: how fast the disk or the network is.

    Raises:
        TypeError: fields that are not a mapping; not a dtype; a speed that is not a
            number.
        ValueError: an unknown family; a field that is not understood; a dtype that is
            not one of floats; a speed that is not above 0.
    """
    require_instance("fields", fields, Mapping)
    require_above_zero(bytes_per_second=bytes_per_second)
    require_dtype(dtype)
    config = read_config(fields)
    with torch.device("meta"):
        model = Decoder(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    nbytes = parameters * dtype.itemsize
    return MemoryEstimate(parameters, nbytes, nbytes / bytes_per_second)
