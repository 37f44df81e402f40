"""GGUF files written by hand: any fields and tensors, a tiny Llama, and converted ones.

A tensor is its type, its sizes (the fastest axis first) and its bytes.
"""

import re
import struct

import torch

from attention_lib.reproducibility import seeded


def packed(form, *values):
    return struct.pack("<" + form, *values)


def text(words):
    raw = words if isinstance(words, bytes) else words.encode()
    return packed("Q", len(raw)) + raw


def value(it):
    """A field's type and its bytes."""
    if isinstance(it, list):
        parts = [value(part) for part in it]
        kind = parts[0][:4] if parts else packed("I", 4)
        return packed("IIQ", 9, *struct.unpack("<I", kind), len(it)) + b"".join(
            part[4:] for part in parts
        )
    if isinstance(it, str | bytes):
        return packed("I", 8) + text(it)
    form = {bool: "?", int: "I", float: "f"}[type(it)]
    return packed("I" + form, {"?": 7, "I": 4, "f": 6}[form], it)


def written(fields, tensors, *, version=3, align=32, counts=(0, 0), offsets=None):
    """A file of (name, field) and (name, tensor); bytes are a field as it is."""
    data, infos = b"", b""
    for name, (kind, sizes, raw) in tensors:
        offset = len(data) if offsets is None else offsets[name]
        infos += text(name) + packed(f"I{len(sizes)}Q", len(sizes), *sizes)
        infos += packed("IQ", kind, offset)
        data += raw + bytes(-len(raw) % align)
    head = b"GGUF" + packed("I", version)
    head += packed("QQ", len(tensors) + counts[0], len(fields) + counts[1])
    for name, it in fields:
        head += text(name) + (it if isinstance(it, bytes) else value(it))
    head += infos
    return head + bytes(-len(head) % align) + data


def numbers(*shape, seed=0):
    """A tensor of random numbers in float32."""
    drawn = torch.randn(shape, generator=seeded(seed)).numpy()
    return 0, shape[::-1], drawn.tobytes()


WIDTHS = {"context_length": 64, "embedding_length": 8, "feed_forward_length": 12}
HEADS = {"attention.head_count": 2, "attention.head_count_kv": 1, "block_count": 1}
FIELDS = {"general.architecture": "llama", "tokenizer.ggml.tokens": ["a", "b"]}
FIELDS |= {f"llama.{name}": it for name, it in (WIDTHS | HEADS).items()}
FIELDS |= {"llama.attention.layer_norm_rms_epsilon": 1e-5}
SHAPES = {
    "token_embd": (5, 8),
    "output_norm": (8,),
    "blk.0.attn_norm": (8,),
    "blk.0.attn_q": (8, 8),
    "blk.0.attn_k": (4, 8),
    "blk.0.attn_v": (4, 8),
    "blk.0.attn_output": (8, 8),
    "blk.0.ffn_norm": (8,),
    "blk.0.ffn_gate": (12, 8),
    "blk.0.ffn_up": (12, 8),
    "blk.0.ffn_down": (8, 12),
}
TENSORS = {f"{name}.weight": numbers(*shape) for name, shape in SHAPES.items()}


def model_bytes(fields=None, tensors=None, **options):
    """The tiny Llama, with changes; None leaves a field or a tensor out."""
    parts = [
        [(name, it) for name, it in (plain | (new or {})).items() if it is not None]
        for plain, new in ((FIELDS, fields), (TENSORS, tensors))
    ]
    return written(*parts, **options)


def field(it, name="a"):
    """The tiny Llama's file, with this field."""
    return model_bytes({name: it})


def placed(first, second):
    """A file of two tensors, at these offsets."""
    own = [("a", numbers(8)), ("b", numbers(9))]
    return written([], own, offsets={"a": first, "b": second})


def tensor(kind, *sizes, name="a"):
    """The tiny Llama's file, with this tensor, of zeros."""
    return model_bytes(tensors={name: (kind, sizes, bytes(192))})


# The names of llama.cpp for those of transformers, as its own script converts them.
THEIRS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}
THEIRS |= {"lm_head": "output", "model.layers": "blk", "mlp.": "ffn_", "_proj": ""}
THEIRS |= {"self_attn.": "attn_", "attn_o": "attn_output"}
THEIRS |= {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def converted(model):
    """A file with a model of transformers."""
    config, tensors = model.config, []
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
        if match := re.search("([qk])_proj", name):  # from halves to pairs
            split = weight.unflatten(0, (heads[match[1]], 2, -1))
            weight = split.transpose(1, 2).reshape(weight.shape)
        for theirs, short in THEIRS.items():
            name = name.replace(theirs, short)
        sizes = tuple(weight.shape[::-1])
        tensors.append((name, (0, sizes, weight.numpy().tobytes())))
    rope = config.rope_parameters
    fields = {
        "general.architecture": "llama",
        "llama.block_count": config.num_hidden_layers,
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.rope.freq_base": float(rope["rope_theta"]),
        "llama.vocab_size": config.vocab_size,
    }
    if rope["rope_type"] == "linear":
        fields |= {"llama.rope.scaling.type": "linear"}
        fields |= {"llama.rope.scaling.factor": rope["factor"]}
    if rope["rope_type"] == "llama3":
        powers = torch.arange(0, config.head_dim, 2) / config.head_dim
        ratio = rope["rope_theta"] ** -powers / model.model.rotary_emb.inv_freq
        tensors.append(
            ("rope_freqs.weight", (0, (len(ratio),), ratio.numpy().tobytes()))
        )
    return written([*fields.items()], tensors)
