"""What families with rotary positions and RMSNorm share: angles, windows, sizes."""

from typing import Any

from attention_lib.decoder import DecoderConfig, LayerConfig
from attention_lib.families.fields import Fields

ACTIVATIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def read_rotary(
    fields: Fields, *, windows: list[int | None] | int | None, **options: Any
) -> DecoderConfig:
    """Reads what all families with rotary positions and RMSNorm share."""
    width, heads = fields.take("hidden_size"), fields.take("num_attention_heads")
    count, types = (
        fields.take("num_hidden_layers"),
        fields.left.pop("layer_types", None),
    )
    each = windows if isinstance(windows, list) else [windows] * count
    if len(each) != count or (types is not None and len(types) != count):
        raise ValueError(
            f"config.json says num_hidden_layers = {count}, but layer_types has "
            f"{len(types or each)} entries"
        )
    by_type = _rotations(fields)
    layers = [
        LayerConfig(
            window, *by_type["sliding_attention" if window else "full_attention"]
        )
        for window in each
    ]
    return DecoderConfig(
        vocab_size=fields.take("vocab_size"),
        context_len=fields.take("max_position_embeddings"),
        d_model=width,
        num_heads=heads,
        num_kv_heads=fields.take("num_key_value_heads"),
        head_dim=fields.take("head_dim", None) or width // heads,
        hidden_dim=fields.take("intermediate_size"),
        layers=tuple(layers),
        norm_eps=fields.take("rms_norm_eps"),
        activation=fields.choose("hidden_act", ACTIVATIONS, "silu"),
        tie_weights=fields.take("tie_word_embeddings", False),
        **options,
    )


def _rotations(fields: Fields) -> dict[str, tuple[float, dict[str, Any] | None]]:
    """Gives the base and the stretching of the angles, for each type of layer."""
    found = fields.take("rope_parameters", None)
    base = fields.take("rope_theta", None)
    local = fields.take("rope_local_base_freq", None)
    scaling = fields.take("rope_scaling", None)
    length = fields.see("max_position_embeddings")
    standard = {"gpt_oss": 150_000.0}.get(fields.family, 10_000.0)
    by_type = fields.family == "gemma3_text"
    bases = {"full_attention": 1e6 if by_type else standard}
    bases |= {"sliding_attention": standard}
    if found is None and base is None and fields.family == "gpt_oss":
        found = fields.take("rope_parameters")  # it stretches, and nobody says how
    if found is None:  # how files before version 5 of transformers say it
        found = {"rope_theta": base or bases["full_attention"], **(scaling or {})}
        if by_type:
            of_local = {"rope_theta": local or standard}
            found = {"full_attention": found, "sliding_attention": of_local}
    if not set(found) & set(bases):
        found = dict.fromkeys(bases, found)
    rotations = {}
    for kind, usual in bases.items():
        said = dict(found[kind]) if kind in found else {}
        if not said:
            raise ValueError(f"config.json has no rope_parameters for {kind}")
        kind_of = said.pop("type", "default")
        said.setdefault("rope_type", kind_of)
        theta = said.pop("rope_theta", usual)
        theta = float(theta) if type(theta) is int else theta
        if said["rope_type"] in ("dynamic", "yarn", "llama3"):
            said.setdefault("original_max_position_embeddings", length)
        plain = said == {"rope_type": "default"}
        rotations[kind] = theta, None if plain else said
    return rotations


def windows_by_type(fields: Fields, every: int) -> list[int | None]:
    """Gives each layer its window: all but every so-manyth one have it."""
    window, count = fields.take("sliding_window"), fields.see("num_hidden_layers")
    types = fields.left.get("layer_types") or [
        "sliding_attention" if (i + 1) % every else "full_attention"
        for i in range(count)
    ]
    known = {"sliding_attention": window, "full_attention": None}
    if window is None and "sliding_attention" in types:
        raise ValueError("config.json has layers with a window, but no sliding_window")
    for kind in types:
        if kind not in known:
            raise ValueError(
                f"config.json names the layer type {kind!r}; load_pretrained knows "
                f"{', '.join(known)}"
            )
    return [known[kind] for kind in types]


def qwen_windows(fields: Fields) -> list[int | None]:
    """Gives each layer its window: with the switch on, all from a certain layer on."""
    used = fields.take("use_sliding_window", False)
    first = fields.take("max_window_layers", 28)
    if fields.left.get("layer_types"):  # where it stands, it decides alone
        return windows_by_type(fields, every=1)
    window = fields.take("sliding_window", 4096) if used else None
    fields.left.pop("sliding_window", None)
    count = fields.see("num_hidden_layers")
    return [window if i >= first else None for i in range(count)]
