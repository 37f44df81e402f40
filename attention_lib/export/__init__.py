"""Export a model to one file, and check that it gives the same numbers.

``python -m attention_lib.export`` does it from the command line.
"""

from attention_lib.export.onnx import (
    Exported,
    export_checked,
    export_model,
)
from attention_lib.export.run import (
    frozen_rope_frequencies,
    generate_in_onnx,
    open_onnx,
    require_packages,
    write_onnx,
)
from attention_lib.export.steps import (
    DynamicCacheStep,
    StaticCacheStep,
)

__all__ = [
    "DynamicCacheStep",
    "Exported",
    "StaticCacheStep",
    "export_checked",
    "export_model",
    "frozen_rope_frequencies",
    "generate_in_onnx",
    "open_onnx",
    "require_packages",
    "write_onnx",
]
