"""A whole small Llama: RMSNorm, SwiGLU, rotary positions and grouped queries.

Shapes: B batch, T length, M d_model, V vocabulary. Its call is that of a ``TinyLM``, so
``generate`` runs it as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.norms import QKNorm, RMSNorm
from attention_lib.rope import (
    SCALINGS,
    Scaling,
    grows_beyond,
    rope_angles,
    rope_attention_factor,
)
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import (
    require_choice,
    require_instance,
    require_llama,
    require_positive,
    require_scaling,
    require_tokens,
)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


class SwiGLU(nn.Module):
    """A feed-forward network with a gate: down(activation(gate(x)) · up(x)).

    Shazeer (2020), equation (6), without biases.

    Args:
        d_model: width of the input and of the output.
        hidden_dim: width of the hidden layer.
        activation: of the gate: ``silu``; ``gelu_tanh``, as in Gemma; or ``gelu``.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: a width below 1; an unknown activation; an input of another width.
    """

    def __init__(
        self, d_model: int, hidden_dim: int, *, activation: str = "silu"
    ) -> None:
        super().__init__()
        require_positive(d_model=d_model, hidden_dim=hidden_dim)
        require_choice("activation", activation, ACTIVATIONS)
        self.d_model = d_model
        self.gate_proj = nn.Linear(d_model, hidden_dim, bias=False)
        self.up_proj = nn.Linear(d_model, hidden_dim, bias=False)
        self.down_proj = nn.Linear(hidden_dim, d_model, bias=False)
        self.activation = activation

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Compute each output token from the input token at the same position."""
        require_tokens(x, self.up_proj, self.d_model)
        gate = ACTIVATIONS[self.activation](self.gate_proj(x))
        return self.down_proj(gate * self.up_proj(x))


@dataclass(frozen=True)
class LlamaConfig:
    """What a ``TinyLlama`` is built from.

    Attributes:
        vocab_size: how many different tokens there are.
        context_len: the length of the longest text that it can read.
        d_model: width of the residual stream.
        num_heads: query heads of each block.
        num_kv_heads: KV heads of each block.
        num_layers: blocks on top of each other.
        hidden_dim: width of the hidden layer of each ``SwiGLU``.
        head_dim: width of each head; d_model / num_heads when left out.
        rope_base: the base of the rotation; see ``rope_angles``.
        rope_scaling: how the rotation is stretched; see ``rope_angles``.
        norm_eps: added to the mean square by every ``RMSNorm``.
        tie_weights: whether the head uses the token embedding's weights.
        qkv_bias: whether queries, keys and values get a bias, as in Qwen 2.
        qk_norm: how queries and keys are normalised: ``rms`` as in Qwen 3.
        window: how many keys a query sees at most, as in Mistral 7B.

    Raises:
        TypeError: a size that is not an int; a choice that is not True or False.
        ValueError: a size below 1; heads that do not divide each other or the width; a
            base or a scaling that ``rope_angles`` refuses.
    """

    vocab_size: int
    context_len: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    num_layers: int
    hidden_dim: int
    head_dim: int | None = None
    rope_base: float = 10_000.0
    rope_scaling: Scaling | None = None
    norm_eps: float = 1e-6
    tie_weights: bool = False
    qkv_bias: bool = False
    qk_norm: QKNorm | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        require_llama(self)
        if self.rope_scaling is not None:
            require_scaling(self.rope_scaling, SCALINGS, base=self.rope_base)


class LlamaBlock(nn.Module):
    """Attention with grouped queries, and a gated network, each after its RMSNorm.

    Args:
        config: of the model.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        require_instance("config", config, LlamaConfig)
        head_dim = config.head_dim or config.d_model // config.num_heads
        # YaRN multiplies queries and keys, so each score by the square.
        factor = rope_attention_factor(config.rope_scaling)
        self.attention_norm = RMSNorm(config.d_model, eps=config.norm_eps)
        self.attention = GroupedQueryAttention(
            config.d_model,
            config.num_heads,
            config.num_kv_heads,
            head_dim=head_dim,
            scale=factor**2 * head_dim**-0.5,
            qkv_bias=config.qkv_bias,
            qk_norm=config.qk_norm,
            norm_eps=config.norm_eps,
            window=config.window,
        )
        self.feed_forward_norm = RMSNorm(config.d_model, eps=config.norm_eps)
        self.feed_forward = SwiGLU(config.d_model, config.hidden_dim)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Add the output of attention to the stream, then that of the network.

        Its arguments are those of ``TinyBlock``, and the positions of the tokens, which
        a window counts; see ``GroupedQueryAttention``.
        """
        x = x + self.attention(
            self.attention_norm(x),
            mask,
            causal=causal,
            angles=angles,
            cache=cache,
            positions=positions,
        )
        return x + self.feed_forward(self.feed_forward_norm(x))

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Float[Tensor, "*B T P"] | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "B H T T"]:
        """Return the attention weights of each query head."""
        normed = self.attention_norm(x)
        return self.attention.attention_weights(
            normed, mask, causal=causal, angles=angles, positions=positions
        )

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache for texts of at most ``max_len`` tokens."""
        return self.attention.new_cache(batch_size, max_len)


class TinyLlama(LanguageModel):
    """A small Llama: it scores, after each token of a text, all possible next tokens.

    The model of Touvron et al. (2023), section 2.2, with the grouped queries of Llama 2
    and 3, and nothing else: no bias, no dropout, no learned positions. Its call is that
    of a ``LanguageModel``.

    Args:
        config: the sizes and choices.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        require_instance("config", config, LlamaConfig)
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(
            LlamaBlock(config) for _ in range(config.num_layers)
        )
        self.last_norm = RMSNorm(config.d_model, eps=config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.grows_beyond = grows_beyond([config.rope_scaling])
        self._init_weights(embedding_std=None if config.tie_weights else 1.0)
        if config.tie_weights:
            self.head.weight = self.token_embedding.weight

    def _embed(
        self, token_ids: Tensor, start: int, positions: Tensor | None
    ) -> tuple[Tensor, dict[str, Any]]:
        config = self.config
        angles = rope_angles(
            self._default_positions(token_ids, start, positions),
            config.head_dim or config.d_model // config.num_heads,
            base=config.rope_base,
            scaling=config.rope_scaling,
        )
        block_kwargs = {"causal": True, "angles": angles, "positions": positions}
        return self.token_embedding(token_ids), block_kwargs
