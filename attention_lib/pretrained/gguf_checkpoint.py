"""A GGUF file of a Llama, with the names and the layout of Hugging Face's files."""

import re
from pathlib import Path
from typing import Any, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lib.pretrained.configs import read_config
from attention_lib.pretrained.decoder_config import DecoderConfig
from attention_lib.pretrained.gguf import GGUFFile
from attention_lib.rope import convert_layout, rope_angles
from attention_lib.validation import require_tensor

# The fields that decide what a Llama computes, and their names in a config.json.
FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.head_count": "num_attention_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
}
# Fields that leave the result as it is, if they have one of these values.
EXPECTED: dict[str, list[Any]] = {"expert_count": [0], "expert_used_count": [0]}
EXPECTED |= {"tensor_data_layout": ["Meta AI original pth"]}
EXPECTED |= {"rope.scaling.finetuned": [True, False]}
WIDTHS = "attention.value_length", "rope.dimension_count"  # those of a head
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TENSOR = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", re.ASCII)
TABLE = "model.embed_tokens.weight"
FREQUENCIES = "rope_freqs.weight"  # divides each frequency of the rotation
# Llama 3.1 to 3.3 differ in the factor only; a file holds the frequencies, not these.
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8192}


class GGUFCheckpoint:
    """A Llama in a GGUF file, opened but not loaded; it reads like a ``Checkpoint``.

    Tensors are unpacked to float32, and the rows of queries and keys reordered: those
    of llama.cpp are in the interleaved layout.

    Args:
        path: of the file.

    Attributes:
        file: the file, whose own fields also hold the tokens, for example.
        fields: what a ``config.json`` would say.
        shapes: the shape of each tensor, by its name in Hugging Face's files.
        nbytes: how many bytes all tensors take in the file.

    Raises:
        TypeError: not a path.
        ValueError: a broken file, see ``GGUFFile``; an architecture other than
            ``llama``; a field or a tensor that is missing or not understood.
    """

    header = "the header"  # where the fields come from

    def __init__(self, path: str | Path) -> None:
        self.file = GGUFFile(path)
        kind = self.file.fields.get("general.architecture")
        if kind != "llama":
            known = "load_pretrained knows llama in GGUF files"
            self._fail(f"is of the architecture {kind!r}; {known}")
        tensors = self.file.tensors
        self._names = {self._name(n): n for n in tensors if n != FREQUENCIES}
        self.shapes = {name: tensors[n].shape for name, n in self._names.items()}
        self.nbytes = sum(info.nbytes for info in tensors.values())
        self.fields: dict[str, Any] = {}
        self._heads: dict[str, int] = {}
        self._read_fields()

    def read(self, name: str) -> Float[Tensor, "..."]:
        """Read one tensor, as float32, in the layout of Hugging Face's files."""
        require_tensor(name, self._names, self.file.path)
        weight = self.file.read(self._names[name])
        heads = self._heads.get(name.split(".")[-2])
        if heads is None:
            return weight
        if len(weight) % (2 * heads):
            rows = f"{len(weight)} rows in {self._names[name]}"
            self._fail(f"has {rows}, which are not pairs for each of {heads} heads")
        return convert_layout(weight, heads, layout="half")

    def _fail(self, words: str) -> NoReturn:
        raise ValueError(f"{self.file.path.name} {words}")

    def _name(self, name: str) -> str:
        """Return a tensor's name in Hugging Face's files."""
        match = TENSOR.fullmatch(name)
        if match is None or match[2] not in NAMES:
            self._fail(f"has the tensor {name}, which load_pretrained does not know")
        block = "" if match[1] is None else f"model.layers.{match[1]}."
        return f"{block}{NAMES[match[2]]}.{match[3]}"

    def _read_fields(self) -> None:
        """Set the fields; each of the file's own must be understood."""
        left = {
            name.removeprefix("llama."): value
            for name, value in self.file.fields.items()
            if name.startswith("llama.")
        }
        if TABLE not in self.shapes:
            self._fail("lacks the tensor token_embd.weight")
        self.fields = {
            "model_type": "llama",
            "vocab_size": self.shapes[TABLE][0],
            "tie_word_embeddings": "lm_head.weight" not in self.shapes,
            "attention_bias": any(n.endswith("q_proj.bias") for n in self.shapes),
            **{FIELDS[name]: left.pop(name) for name in FIELDS if name in left},
            "rope_scaling": self._scaling(left),
        }
        config = self._config()
        self._heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}
        if FREQUENCIES in self.file.tensors:
            self.fields["rope_scaling"] = self._llama3(config)
        widths = {name: [config.head_dim] for name in WIDTHS}
        expected = EXPECTED | widths | {"vocab_size": [config.vocab_size]}
        for name, value in left.items():
            if value not in expected.get(name, []):
                known = f"; wanted {expected[name][0]}" if name in expected else ""
                words = f"which load_pretrained does not know for llama{known}"
                self._fail(f"says llama.{name} = {value!r}, {words}")

    def _config(self) -> DecoderConfig:
        """Read the fields, and report errors in the file's own words."""
        blocks = {n.split(".")[1] for n in self.file.tensors if n.startswith("blk.")}
        count = self.fields.get("num_hidden_layers")
        if count != len(blocks):  # before anyone builds so many
            tensors = f"tensors of {len(blocks)} blocks"
            self._fail(f"says llama.block_count = {count}, but has {tensors}")
        try:
            return read_config(self.fields)
        except ValueError as error:
            words = str(error).removeprefix("config.json ")
            for theirs, ours in FIELDS.items():
                words = words.replace(ours, f"llama.{theirs}")
            self._fail(words)

    def _scaling(self, left: dict[str, Any]) -> dict[str, Any] | None:
        """Return the scaling of the rotation: linear unless the file says otherwise."""
        kind = left.pop("rope.scaling.type", "linear")
        factor = left.pop("rope.scaling.factor", 1.0)
        left.pop("rope.scaling.original_context_length", None)  # of YaRN
        if kind not in ("none", "linear"):  # YaRN: never compared with llama.cpp's
            known = "load_pretrained knows none and linear in GGUF files"
            self._fail(f"says llama.rope.scaling.type = {kind!r}; {known}")
        plain = kind == "none" or factor == 1
        return None if plain else {"rope_type": kind, "factor": factor}

    def _llama3(self, config: DecoderConfig) -> dict[str, Any]:
        """Return the scaling that divides each frequency by what the file says."""
        stored = self.file.read(FREQUENCIES)
        scaling = LLAMA3 | {"factor": stored.nan_to_num().clamp(1, 1000).max().item()}
        base, one = self.fields.get("rope_theta", 10_000.0), torch.ones(1)
        plain, scaled = (
            rope_angles(one, config.head_dim, base=base, scaling=each)[0]
            for each in (None, scaling)
        )
        same = stored.shape == plain.shape and stored.allclose(plain / scaled, 1e-4)
        if not same or self.fields["rope_scaling"]:
            self._fail(f"has {FREQUENCIES} other than those of Llama 3.1 to 3.3")
        return scaling
