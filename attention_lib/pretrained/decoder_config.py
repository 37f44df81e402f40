"""The choices of published decoders, as one list of options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attention_lib.norms import QKNorm
from attention_lib.rope import SCALINGS, Layout
from attention_lib.validation import (
    require_above_zero,
    require_base,
    require_choice,
    require_flags,
    require_groups,
    require_heads,
    require_instance,
    require_pairs,
    require_positive,
    require_scaling,
)

EXPERT_OPTIONS = "num_experts", "experts_per_token", "expert_limit", "expert_alpha"
NormKind = Literal["layer", "rms", "rms_plus_one"]
Mlp = Literal["plain", "gated", "experts"]
Activation = Literal["silu", "gelu", "gelu_tanh"]
Rotation = tuple[float | None, Mapping[str, Any] | None]


@dataclass(frozen=True)
class LayerConfig:
    """What may differ from layer to layer.

    Attributes:
        window: how many tokens a query sees, including its own; all when left out.
        rope_base: of the frequencies, see ``rope_angles``; None for no rotation.
        rope_scaling: how the angles are stretched; see ``rope_angles``.

    Raises:
        TypeError: a window that is not an int; a base that is not a number; a scaling
            that is not a mapping.
        ValueError: a window below 1; a base or a scaling that ``rope_angles`` refuses.
    """

    window: int | None = None
    rope_base: float | None = 10_000.0
    rope_scaling: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.window is not None:
            require_positive(window=self.window)
        if self.rope_base is not None:
            require_base(rope_base=self.rope_base)
        if self.rope_scaling is not None:
            require_scaling(self.rope_scaling, SCALINGS, base=self.rope_base)

    @property
    def rotation(self) -> Rotation:
        """The base and the scaling of its rotation."""
        return self.rope_base, self.rope_scaling


@dataclass(frozen=True)
class LatentConfig:
    """The widths of latent attention; see ``MultiHeadLatentAttention``.

    Attributes:
        q_latent_dim: width of the latent of queries; None makes queries directly.
        kv_latent_dim: width of the latent of keys and values.
        nope_dim: width of the part of queries and keys that is not rotated.
        rope_dim: width of the rotated part.
        value_dim: width of a value.
        layout: the pairs of the rotation; see ``apply_rope``.

    Raises:
        TypeError: a width that is not an int.
        ValueError: a width below 1; an odd ``rope_dim``; an unknown layout.
    """

    q_latent_dim: int | None
    kv_latent_dim: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    layout: Layout = "interleaved"

    def __post_init__(self) -> None:
        names = "kv_latent_dim", "nope_dim", "value_dim"
        require_positive(**{name: getattr(self, name) for name in names})
        if self.q_latent_dim is not None:
            require_positive(q_latent_dim=self.q_latent_dim)
        require_pairs(rope_dim=self.rope_dim)
        require_choice("layout", self.layout, get_args(Layout))


@dataclass(frozen=True)
class DecoderConfig:
    """What a ``Decoder`` is built from; ``load_pretrained`` reads it from a folder.

    Attributes:
        vocab_size: how many different tokens there are.
        context_len: the longest text.
        d_model: width of the residual stream.
        num_heads: query heads of each layer.
        num_kv_heads: key and value heads of each layer.
        head_dim: width of a head.
        hidden_dim: width of the MLP, or of one expert.
        layers: one ``LayerConfig`` per layer.
        norm: ``layer``, ``rms``, or ``rms_plus_one``, whose weight counts from 1.
        norm_eps: added to the variance.
        norm_outputs: whether what a layer adds is normalised as well.
        mlp: ``plain``, ``gated``, or ``experts``.
        activation: of the MLP: ``gelu``, ``gelu_tanh`` or ``silu``.
        qkv_bias: whether queries, keys and values get a bias.
        out_bias: whether the output of attention gets a bias.
        qk_norm: whether each query and key is normalised: ``rms``, ``rms_plus_one``.
        scale: multiplies the scores; 1/√head_dim when left out.
        softcap: bounds the scores of attention.
        sinks: whether each head has a learned sink.
        learned_positions: whether a vector per position is added.
        embedding_scale: multiplies the token embeddings.
        logits_softcap: bounds the scores of the words.
        tie_weights: whether the head uses the token embedding's weights.
        num_experts: how many experts each layer has.
        experts_per_token: how many of them each token goes through.
        expert_limit: bounds what enters an expert's gate.
        expert_alpha: how steep an expert's gate is.
        latent: the widths of latent attention, whose keys and values are made from
            latents; ``head_dim`` is then that of the rotated part.

    Raises:
        TypeError: a size that is not an int; a choice that is not True or False.
        ValueError: a size below 1; an unknown norm or MLP; heads in unequal groups;
            options that the chosen MLP or latent attention would ignore.
    """

    vocab_size: int
    context_len: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_dim: int
    layers: tuple[LayerConfig, ...]
    norm: NormKind = "rms"
    norm_eps: float = 1e-6
    norm_outputs: bool = False
    mlp: Mlp = "gated"
    activation: Activation = "silu"
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: QKNorm | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks: bool = False
    learned_positions: bool = False
    embedding_scale: float = 1.0
    logits_softcap: float | None = None
    tie_weights: bool = False
    num_experts: int = 1
    experts_per_token: int = 1
    expert_limit: float = 7.0
    expert_alpha: float = 1.702
    latent: LatentConfig | None = None

    def __post_init__(self) -> None:
        sizes = "vocab_size", "context_len", "d_model", "head_dim", "hidden_dim"
        require_positive(**{name: getattr(self, name) for name in sizes})
        require_instance("layers", self.layers, tuple)
        for layer in self.layers:
            require_instance("each of layers", layer, LayerConfig)
        if self.latent is not None:
            require_instance("latent", self.latent, LatentConfig)
        require_positive(num_layers=len(self.layers), num_kv_heads=self.num_kv_heads)
        require_heads(self.d_model, self.num_heads, self.head_dim)
        require_positive(num_experts=self.num_experts)
        require_positive(experts_per_token=self.experts_per_token)
        if self.experts_per_token > self.num_experts:
            raise ValueError(
                f"experts_per_token must be at most num_experts, {self.num_experts}; "
                f"got {self.experts_per_token}"
            )
        floats = "norm_eps", "embedding_scale", "expert_limit", "expert_alpha"
        may_lack = "scale", "softcap", "logits_softcap"
        numbers = {name: getattr(self, name) for name in floats + may_lack}
        require_above_zero(
            **{n: x for n, x in numbers.items() if n in floats or x is not None}
        )
        flags = "tie_weights", "norm_outputs", "qkv_bias", "out_bias", "sinks"
        names = *flags, "learned_positions"
        require_flags(**{name: getattr(self, name) for name in names})
        require_choice("norm", self.norm, get_args(NormKind))
        require_choice("mlp", self.mlp, get_args(Mlp))
        require_choice("activation", self.activation, get_args(Activation))
        if self.qk_norm is not None:
            require_choice("qk_norm", self.qk_norm, get_args(QKNorm))
        require_groups(self.num_heads, self.num_kv_heads)
        ignored = ("activation",) if self.mlp == "experts" else EXPERT_OPTIONS
        for name in ignored:
            default, given = getattr(DecoderConfig, name), getattr(self, name)
            if given != default:
                raise ValueError(
                    f"{name} must be {default!r} with mlp={self.mlp!r}, which ignores "
                    f"it; got {given!r}"
                )
        if self.latent is not None:
            self._require_no_others(self.latent)

    def _require_no_others(self, latent: LatentConfig) -> None:
        """Refuse what latent attention would ignore."""
        names = "qkv_bias", "qk_norm", "softcap", "sinks"
        given = [name for name in names if getattr(self, name)]
        given += ["window, in layers,"] * any(layer.window for layer in self.layers)
        if given:
            raise ValueError(
                f"{given[0]} does not go with latent attention: leave it out"
            )
        if self.head_dim != latent.rope_dim:
            raise ValueError(
                f"head_dim must be {latent.rope_dim}, the rope_dim of latent; got "
                f"{self.head_dim}"
            )

    @property
    def rotations(self) -> list[Rotation]:
        """The different ways in which its layers rotate; mostly one or two."""
        rotations: list[Rotation] = []
        for layer in self.layers:
            if layer.rotation not in rotations:
                rotations.append(layer.rotation)
        return rotations
