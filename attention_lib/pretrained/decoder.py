"""A decoder with the choices of published models: one class runs all of them.

Shapes: B batch, T new tokens, K all tokens so far, M d_model, P pairs of a rotation, V
vocabulary.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.norms import RMSNorm
from attention_lib.pretrained.decoder_config import DecoderConfig, LayerConfig
from attention_lib.pretrained.decoder_mlp import make_mlp
from attention_lib.rope import grows_beyond, rope_angles, rope_attention_factor
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import require_instance


class Decoder(LanguageModel):
    """A published model: it scores all possible next tokens after each token.

    Its call is that of a ``LanguageModel``, so ``generate`` runs it as well.

    Args:
        config: the sizes and choices.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        require_instance("config", config, DecoderConfig)
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        if config.learned_positions:
            self.position_embedding = nn.Embedding(config.context_len, config.d_model)
        self.blocks = nn.ModuleList(
            DecoderBlock(config, layer) for layer in config.layers
        )
        self.last_norm = _make_norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.grows_beyond = grows_beyond(scaling for _, scaling in config.rotations)
        if config.tie_weights:
            self.head.weight = self.token_embedding.weight

    def _embed(
        self, token_ids: Tensor, start: int, positions: Tensor | None
    ) -> tuple[Tensor, dict[str, Any]]:
        config, given = self.config, positions
        positions = self._default_positions(token_ids, start, positions)
        x = self.token_embedding(token_ids)  # (B, T, M)
        if config.embedding_scale != 1:  # rounded to the type of x, as in training
            x = x * torch.tensor(config.embedding_scale, dtype=x.dtype)
        if config.learned_positions:
            x = x + self.position_embedding(positions)
        return x, {"angles": self._angles(positions), "positions": given}

    def _angles(self, positions: Tensor) -> list[Tensor | None]:
        """Compute the angles of each kind of layer once, not again in every layer."""
        width = self.config.head_dim
        return [
            None
            if base is None
            else rope_angles(positions, width, base=base, scaling=scaling)
            for base, scaling in self.config.rotations
        ]

    def _logits(self, x: Tensor) -> Tensor:
        logits, cap = super()._logits(x), self.config.logits_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)


class DecoderBlock(nn.Module):
    """Attention and an MLP, each added to the residual stream.

    Args:
        config: of the model.
        layer: the options of this layer.
    """

    def __init__(self, config: DecoderConfig, layer: LayerConfig) -> None:
        super().__init__()
        require_instance("config", config, DecoderConfig)
        require_instance("layer", layer, LayerConfig)
        self.config = layer
        self.rotation = config.rotations.index(layer.rotation)
        self.attention = _make_attention(config, layer)
        self.mlp = make_mlp(config)
        self.attention_norm = _make_norm(config)
        self.mlp_norm = _make_norm(config)
        if config.norm_outputs:
            self.attention_out_norm = _make_norm(config)
            self.mlp_out_norm = _make_norm(config)
        self.norm_outputs = config.norm_outputs

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        angles: Sequence[Float[Tensor, "*B T P"] | None],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: CacheLike | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Add the output of attention to the stream, then that of the MLP.

        Args:
            x: the residual stream.
            angles: of ``rope_angles``, for each of ``config.rotations``.
            mask: hides more than the future.
            cache: of ``new_cache``; the new tokens are added to it.
            positions: of the tokens, which a window counts; counted on from the cache
                when left out.
        """
        out = self.attention(
            self.attention_norm(x),
            mask,
            causal=True,
            angles=self._angles(angles),
            cache=cache,
            **self._window(positions),
        )
        x = x + (self.attention_out_norm(out) if self.norm_outputs else out)
        out = self.mlp(self.mlp_norm(x))
        return x + (self.mlp_out_norm(out) if self.norm_outputs else out)

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        angles: Sequence[Float[Tensor, "*B T P"] | None],
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "B H T T"]:
        """Return the attention weights of each head."""
        return self.attention.attention_weights(
            self.attention_norm(x),
            causal=True,
            angles=self._angles(angles),
            **self._window(positions),
        )

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache for texts of at most ``max_len`` tokens."""
        return self.attention.new_cache(batch_size, max_len)

    def _angles(self, angles: Sequence[Tensor | None]) -> Tensor | None:
        """Return the angles of this layer's rotation."""
        if isinstance(angles, Tensor) or len(angles) <= self.rotation:
            got = "a tensor" if isinstance(angles, Tensor) else len(angles)
            raise ValueError(
                f"angles must be a list, those of each of config.rotations; got {got}"
            )
        return angles[self.rotation]

    def _window(self, positions: Tensor | None) -> dict[str, Any]:
        """Return the arguments that only a layer with a window takes."""
        return {} if self.config.window is None else {"positions": positions}


def _make_attention(
    config: DecoderConfig, layer: LayerConfig
) -> GroupedQueryAttention | MultiHeadLatentAttention:
    scale, stretch = config.scale, 1.0
    if layer.rope_scaling is not None:
        stretch = rope_attention_factor(layer.rope_scaling)
    if config.latent is not None:
        return MultiHeadLatentAttention(
            config.d_model,
            config.num_heads,
            **dataclasses.asdict(config.latent),
            absorb=True,
            scale=scale,
            rope_scale=stretch,
            bias=config.out_bias,
        )
    if stretch != 1:  # of queries and of keys, so squared
        scale = (config.head_dim**-0.5 if scale is None else scale) * stretch**2
    return GroupedQueryAttention(
        config.d_model,
        config.num_heads,
        config.num_kv_heads,
        head_dim=config.head_dim,
        qkv_bias=config.qkv_bias,
        out_bias=config.out_bias,
        qk_norm=config.qk_norm,
        norm_eps=config.norm_eps,
        scale=scale,
        softcap=config.softcap,
        window=layer.window,
        sinks=config.sinks,
    )


def _make_norm(config: DecoderConfig) -> nn.Module:
    if config.norm == "layer":
        return nn.LayerNorm(config.d_model, eps=config.norm_eps)
    plus_one = config.norm == "rms_plus_one"
    return RMSNorm(config.d_model, eps=config.norm_eps, unit_offset=plus_one)
