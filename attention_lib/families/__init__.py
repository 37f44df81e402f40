"""Families of published models: their ``config.json``, and the names of their weights.

A field that is not understood is refused, since it may change the result in silence.
"""

from attention_lib.families.configs import read_config
from attention_lib.families.fields import HARMLESS, Fields
from attention_lib.families.names import published_names, published_tensors

__all__ = [
    "HARMLESS",
    "Fields",
    "published_names",
    "published_tensors",
    "read_config",
]
