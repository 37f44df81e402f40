"""What families with rotary positions and RMSNorm share: angles, windows, sizes."""

from collections.abc import Mapping
from typing import Any

from attention_lib.pretrained.decoder_config import DecoderConfig, LayerConfig
from attention_lib.pretrained.fields import Fields, is_above_zero
from attention_lib.rope import SCALINGS
from attention_lib.validation import require_scaling

ACTIVATIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
# The types of layers, as config.json names them.
TYPES = ("full_attention", "sliding_attention")


def read_rotary(
    fields: Fields, *, windows: list[int | None] | int | None, **options: Any
) -> DecoderConfig:
    """Read the fields that all families with rotary positions and RMSNorm share."""
    width, heads = fields.take("hidden_size"), fields.take("num_attention_heads")
    count, types = (
        fields.take("num_hidden_layers"),
        fields.left.pop("layer_types", None),
    )
    each = windows if isinstance(windows, list) else [windows] * count
    if len(each) != count or (types is not None and len(types) != count):
        raise ValueError(
            f"config.json says num_hidden_layers = {count}, but layer_types has "
            f"{len(each if types is None else types)} entries"
        )
    if windows is None and set(types or ()) - {"full_attention"}:
        fields.refuse("layer_types", types, "full_attention only (no window set)")
    head_dim = fields.take("head_dim", None)
    if head_dim is None:
        names = "hidden_size", "num_attention_heads"
        head_dim = width_of_heads(fields, names[0], width, names[1], heads)
    if head_dim % 2:
        wanted = "an even number (hidden_size / num_attention_heads if left out)"
        fields.refuse("head_dim", head_dim, wanted)
    kv_heads = fields.take("num_key_value_heads")
    if kv_heads is None or heads % kv_heads:
        wanted = f"a divisor of num_attention_heads = {heads}"
        fields.refuse("num_key_value_heads", kv_heads, wanted)
    if "activation" not in options:
        options["activation"] = fields.choose("hidden_act", ACTIVATIONS, "silu")
    by_type = _rotations(fields, head_dim)
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
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        hidden_dim=fields.take("intermediate_size"),
        layers=tuple(layers),
        norm_eps=fields.take("rms_norm_eps"),
        tie_weights=fields.take("tie_word_embeddings", False),
        **options,
    )


def width_of_heads(
    fields: Fields, name: str, width: int, heads_name: str, heads: int
) -> int:
    """Return the width of one head, if all heads share a width."""
    if width % heads:
        fields.refuse(heads_name, heads, f"a divisor of {name} = {width}")
    return width // heads


def _rotations(
    fields: Fields, head_dim: int
) -> dict[str, tuple[float, dict[str, Any] | None]]:
    """Return the base and the scaling of the angles, for each type of layer.

    Files before version 5 of transformers have both at the top level, later ones in
    ``rope_parameters``. If a file has both, the choice is that of transformers.
    """
    parameters = fields.take("rope_parameters", None)
    by_type = fields.family == "gemma3_text"
    standard = {"gpt_oss": 150_000.0, "gemma3_text": 1e6}.get(fields.family, 10_000.0)
    base = fields.take("rope_theta", standard)
    local = fields.take("rope_local_base_freq", 10_000.0)
    scaling = fields.take("rope_scaling", None)
    length = fields.peek("max_position_embeddings")
    if fields.family == "gpt_oss" and parameters is None and not scaling:
        parameters = fields.take("rope_parameters")  # its default is unknown
    nested = parameters is not None and bool(set(parameters) & set(TYPES))
    if parameters is not None and nested != by_type:
        wanted = f"those of {' and '.join(TYPES)}" if by_type else "one for all layers"
        raise ValueError(
            f"config.json says rope_parameters = {parameters!r}; load_pretrained knows "
            f"{wanted} for {fields.family}"
        )
    if by_type:
        parameters = parameters or {}
        for kind in TYPES:
            if not isinstance(parameters.get(kind) or {}, Mapping):
                fields.refuse("rope_parameters", parameters, f"an object for {kind}")
        plain = {"rope_type": "default"}  # the older word, type, does not change it
        given = {kind: dict(parameters.get(kind) or plain) for kind in TYPES}
        given["full_attention"] |= scaling or {}
        if not all(one.get("truncate", True) for one in given.values()):
            raise ValueError(
                "config.json says truncate = false, which transformers ignores for "
                f"{fields.family}: remove it"
            )
        usual = {"full_attention": base, "sliding_attention": local}
    else:
        given = dict.fromkeys(TYPES, scaling or parameters or {})
        usual = dict.fromkeys(TYPES, base)
    name = "rope_scaling" if scaling else "rope_parameters"
    return {
        kind: _rotation(fields, name, given[kind], usual[kind], length, head_dim)
        for kind in TYPES
    }


def _rotation(
    fields: Fields,
    name: str,
    given: Mapping[str, Any],
    usual: Any,
    length: int,
    head_dim: int,
) -> tuple[float, dict[str, Any] | None]:
    """Return base and scaling from one set of ``rope_parameters``."""
    scaling = {"rope_type": given.get("type", "default"), **given}
    scaling.pop("type", None)
    theta = scaling.pop("rope_theta", usual)
    if not is_above_zero(theta) or not 1e-20 <= theta <= 1e20:
        fields.refuse("rope_theta", theta, "a number from 1e-20 to 1e20")
    if scaling["rope_type"] == "dynamic":  # transformers uses this length only
        scaling["original_max_position_embeddings"] = length
    elif scaling["rope_type"] in ("yarn", "llama3"):
        scaling.setdefault("original_max_position_embeddings", length)
    try:
        require_scaling(scaling, SCALINGS, head_dim=head_dim, base=float(theta))
    except (TypeError, ValueError) as error:
        words = f"config.json says {name} = {dict(given)!r}: {error}"
        if not {"type", "rope_type"} & set(given):
            words += " (without a rope_type it is 'default')"
        raise ValueError(words) from None
    return float(theta), None if scaling == {"rope_type": "default"} else scaling


def windows_by_type(fields: Fields, every: int) -> list[int | None]:
    """Return the window of each layer: every layer has one, except each n-th."""
    window, count = fields.take("sliding_window"), fields.peek("num_hidden_layers")
    types = fields.left.get("layer_types") or [
        "sliding_attention" if (i + 1) % every else "full_attention"
        for i in range(count)
    ]
    known = {"sliding_attention": window, "full_attention": None}
    if window is None and "sliding_attention" in types:
        raise ValueError("config.json has layers with a window, but no sliding_window")
    if unknown := sorted(set(types) - set(known)):
        raise ValueError(
            f"layer_types in config.json has the layer type {unknown[0]!r}; "
            f"load_pretrained knows {', '.join(known)}"
        )
    return [known[kind] for kind in types]


def qwen_windows(fields: Fields) -> list[int | None]:
    """Return each layer's window: if switched on, from a certain layer on."""
    used = fields.take("use_sliding_window", False)
    first = fields.take("max_window_layers", 28)
    if fields.left.get("layer_types"):  # if present, it decides alone
        if not used:
            fields.left["sliding_window"] = None
        return windows_by_type(fields, every=1)
    window = fields.take("sliding_window", 4096) if used else None
    fields.left.pop("sliding_window", None)
    count = fields.peek("num_hidden_layers")
    return [window if i >= first else None for i in range(count)]
