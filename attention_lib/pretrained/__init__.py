"""Published models: their files, their families, and one decoder that runs them all.

A field of a ``config.json`` that is not understood is refused, since it may silently
change the result.
"""

from attention_lib.pretrained.configs import (
    read_config,
)
from attention_lib.pretrained.decoder import (
    Decoder,
    DecoderBlock,
)
from attention_lib.pretrained.decoder_config import (
    DecoderConfig,
    LatentConfig,
    LayerConfig,
)
from attention_lib.pretrained.decoder_mlp import (
    Experts,
    PlainMLP,
    make_mlp,
)
from attention_lib.pretrained.estimate import (
    MemoryEstimate,
    estimate_memory,
)
from attention_lib.pretrained.fields import (
    HARMLESS,
    Fields,
    is_above_zero,
)
from attention_lib.pretrained.gguf import (
    GGUFFile,
)
from attention_lib.pretrained.gguf_checkpoint import (
    GGUFCheckpoint,
)
from attention_lib.pretrained.load import (
    Checkpoint,
    load_pretrained,
)
from attention_lib.pretrained.names import (
    published_names,
    published_tensors,
)
from attention_lib.pretrained.save import (
    save_pretrained,
)
from attention_lib.pretrained.small import (
    small_model,
)
from attention_lib.pretrained.tokenizer import (
    Tokenizer,
)
from attention_lib.pretrained.tokenizer_files import (
    load_tokenizer,
)

__all__ = [
    "HARMLESS",
    "Checkpoint",
    "Decoder",
    "DecoderBlock",
    "DecoderConfig",
    "Experts",
    "Fields",
    "GGUFCheckpoint",
    "GGUFFile",
    "LatentConfig",
    "LayerConfig",
    "MemoryEstimate",
    "PlainMLP",
    "Tokenizer",
    "estimate_memory",
    "is_above_zero",
    "load_pretrained",
    "load_tokenizer",
    "make_mlp",
    "published_names",
    "published_tensors",
    "read_config",
    "save_pretrained",
    "small_model",
]
