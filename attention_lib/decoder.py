"""A decoder with the choices of published models: one class runs all of them.

Shapes: B batch, T new tokens, K all tokens so far, M d_model, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.grouped_query import GroupedQueryAttention, RMSNorm
from attention_lib.kv_cache import KVCache, LayerCache
from attention_lib.llama import SwiGLU
from attention_lib.rope import rope_angles, rope_attention_factor
from attention_lib.validation import (
    check_above_zero,
    check_choice,
    check_flags,
    check_heads,
    check_positive,
    check_token_ids,
)

Norm = Literal["layer", "rms", "rms_plus_one"]
Mlp = Literal["plain", "gated", "experts"]


@dataclass(frozen=True)
class LayerConfig:
    """What may differ from layer to layer.

    Attributes:
        window: how many tokens a query sees, itself included; all when left out.
        rope_base: how slowly the slowest pair turns; no rotation when None.
        rope_scaling: how the angles are stretched; see ``rope_angles``.
    """

    window: int | None = None
    rope_base: float | None = 10_000.0
    rope_scaling: Mapping[str, Any] | None = None


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

    Raises:
        TypeError: a size that is not an int; a choice that is not True or False.
        ValueError: a size below 1; an unknown norm or MLP; heads in unequal groups.
    """

    vocab_size: int
    context_len: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_dim: int
    layers: tuple[LayerConfig, ...]
    norm: Norm = "rms"
    norm_eps: float = 1e-6
    norm_outputs: bool = False
    mlp: Mlp = "gated"
    activation: str = "silu"
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: Literal["rms", "rms_plus_one"] | None = None
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

    def __post_init__(self) -> None:
        sizes = "vocab_size", "context_len", "d_model", "head_dim", "hidden_dim"
        check_positive(**{name: getattr(self, name) for name in sizes})
        check_positive(num_layers=len(self.layers), num_kv_heads=self.num_kv_heads)
        check_heads(self.d_model, self.num_heads, self.head_dim)
        check_positive(num_experts=self.num_experts, chosen=self.experts_per_token)
        floats = "norm_eps", "embedding_scale", "expert_limit", "expert_alpha"
        may_lack = "scale", "softcap", "logits_softcap"
        numbers = {name: getattr(self, name) for name in floats + may_lack}
        check_above_zero(
            **{n: x for n, x in numbers.items() if n in floats or x is not None}
        )
        check_flags(tie_weights=self.tie_weights, norm_outputs=self.norm_outputs)
        check_choice("norm", self.norm, get_args(Norm))
        check_choice("mlp", self.mlp, get_args(Mlp))


class Decoder(nn.Module):
    """Gives, for each token of a text, a score for every token that may come next.

    Called as ``TinyLM`` is, so ``generate`` runs it as well.

    Args:
        config: the sizes and choices.

    Raises:
        TypeError: ids that are not whole numbers; another device.
        ValueError: a text longer than the context; lengths that are not one per text.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        if config.learned_positions:
            self.position_embedding = nn.Embedding(config.context_len, config.d_model)
        self.blocks = nn.ModuleList(DecoderBlock(config, own) for own in config.layers)
        self.last_norm = _make_norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_weights:
            self.head.weight = self.token_embedding.weight

    def forward(
        self,
        token_ids: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Scores the next token at every position; the arguments are ``TinyLM``'s."""
        states = self.stream(
            token_ids, lengths, mask=mask, positions=positions, cache=cache
        )
        logits = self.head(self.last_norm(states[-1]))
        cap = self.config.logits_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def stream(
        self,
        token_ids: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
        cache: KVCache | None = None,
    ) -> list[Float[Tensor, "B T M"]]:
        """Gives the residual stream before the first block, and after each."""
        config, weight = self.config, self.token_embedding.weight
        start = 0 if cache is None else cache.length
        longest = config.context_len - start
        check_token_ids(token_ids, lengths, max_len=longest, like=weight)
        positions = self._positions(token_ids, start, positions)
        x = self.token_embedding(token_ids)  # (B, T, M)
        if config.embedding_scale != 1:  # rounded to the type of x, as in training
            x = x * torch.tensor(config.embedding_scale, dtype=x.dtype)
        if config.learned_positions:
            x = x + self.position_embedding(positions)
        states = [x]
        none: list[LayerCache | None] = [None] * len(config.layers)
        caches = none if cache is None else cache.layers
        for block, own in zip(self.blocks, caches, strict=True):
            states.append(block(states[-1], positions, mask, cache=own))
        return states

    def attention_weights(
        self, token_ids: Int[Tensor, "B T"]
    ) -> list[Float[Tensor, "B H T T"]]:
        """Gives the weights of every head, block by block."""
        states = self.stream(token_ids)
        positions = self._positions(token_ids, 0, None)
        return [
            block.attention_weights(state, positions)  # type: ignore[operator]
            for block, state in zip(self.blocks, states[:-1], strict=True)
        ]

    def new_cache(self, batch_size: int, max_len: int | None = None) -> KVCache:
        """Makes an empty cache, for texts of at most ``max_len`` tokens.

        Args:
            batch_size: how many texts.
            max_len: ``context_len`` when left out.
        """
        max_len = self.config.context_len if max_len is None else max_len
        return KVCache(
            [block.attention.new_cache(batch_size, max_len) for block in self.blocks]  # type: ignore[operator, union-attr]
        )

    def _positions(self, ids: Tensor, start: int, positions: Tensor | None) -> Tensor:
        if positions is not None:
            return positions
        return torch.arange(start, start + ids.shape[1], device=ids.device)


class DecoderBlock(nn.Module):
    """Attention and an MLP, each added to the residual stream.

    Args:
        config: of the model.
        own: of this layer.
    """

    def __init__(self, config: DecoderConfig, own: LayerConfig) -> None:
        super().__init__()
        scale, self.own, self.head_dim = config.scale, own, config.head_dim
        if own.rope_scaling is not None:  # stretched queries and keys: their product
            scale = config.head_dim**-0.5 if scale is None else scale
            scale *= rope_attention_factor(own.rope_scaling) ** 2
        self.attention = GroupedQueryAttention(
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
            window=own.window,
            sinks=config.sinks,
        )
        self.mlp = _make_mlp(config)
        self.attention_norm = _make_norm(config)
        self.mlp_norm = _make_norm(config)
        if config.norm_outputs:
            self.attention_out_norm = _make_norm(config)
            self.mlp_out_norm = _make_norm(config)
        self.norm_outputs = config.norm_outputs

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        positions: Int[Tensor, "*B T"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Adds the output of attention to the stream, then that of the MLP."""
        found = self.attention(
            self.attention_norm(x),
            mask,
            causal=True,
            angles=self._angles(positions),
            cache=cache,
        )
        x = x + (self.attention_out_norm(found) if self.norm_outputs else found)
        found = self.mlp(self.mlp_norm(x))
        return x + (self.mlp_out_norm(found) if self.norm_outputs else found)

    def attention_weights(
        self, x: Float[Tensor, "B T M"], positions: Int[Tensor, "*B T"]
    ) -> Float[Tensor, "B H T T"]:
        """Gives the attention weights of each head."""
        return self.attention.attention_weights(
            self.attention_norm(x), causal=True, angles=self._angles(positions)
        )

    def _angles(self, positions: Tensor) -> Tensor | None:
        own = self.own
        if own.rope_base is None:
            return None
        return rope_angles(
            positions, self.head_dim, base=own.rope_base, scaling=own.rope_scaling
        )


class PlainMLP(nn.Module):
    """Two linear layers with biases and a GELU between them, as in GPT-2.

    Args:
        d_model: width of the input and of the output.
        hidden_dim: width of the hidden layer.
        activation: ``gelu``, or ``gelu_tanh``, which approximates it.
    """

    def __init__(self, d_model: int, hidden_dim: int, activation: str) -> None:
        super().__init__()
        self.up_proj = nn.Linear(d_model, hidden_dim)
        self.down_proj = nn.Linear(hidden_dim, d_model)
        self.approximate = "tanh" if activation == "gelu_tanh" else "none"

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Computes each output token from the input token at the same position."""
        return self.down_proj(F.gelu(self.up_proj(x), approximate=self.approximate))


class Experts(nn.Module):
    """Many small MLPs; a router sends each token through a few of them.

    As in gpt-oss (OpenAI, 2025): the outputs are mixed by a softmax over the chosen
    experts' scores, the gate is x · sigmoid(alpha · x), and inputs are clamped.

    Args:
        config: of the model.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        experts, width, hidden = config.num_experts, config.d_model, config.hidden_dim
        self.router = nn.Linear(width, experts)
        self.experts_gate_up = nn.Parameter(torch.empty(experts, width, 2 * hidden))
        self.experts_gate_up_bias = nn.Parameter(torch.zeros(experts, 2 * hidden))
        self.experts_down = nn.Parameter(torch.empty(experts, hidden, width))
        self.experts_down_bias = nn.Parameter(torch.zeros(experts, width))
        for weight in (self.experts_gate_up, self.experts_down):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        self.chosen = config.experts_per_token
        self.limit, self.alpha = config.expert_limit, config.expert_alpha

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Sends each token through its experts, and mixes what they give."""
        scores, names = self.router(x).topk(self.chosen, dim=-1)  # (B, T, chosen)
        shares = scores.softmax(dim=-1)
        mixed = torch.zeros_like(x)
        for expert in range(len(self.experts_down)):
            hit = names == expert  # (B, T, chosen)
            tokens = hit.any(dim=-1)  # (B, T)
            share = (shares * hit).sum(dim=-1)[tokens]  # (tokens,)
            mixed[tokens] += share[:, None] * self._through(x[tokens], expert)
        return mixed

    def _through(self, x: Tensor, expert: int) -> Tensor:
        hidden = x @ self.experts_gate_up[expert] + self.experts_gate_up_bias[expert]
        gate = hidden[..., 0::2].clamp(max=self.limit)
        up = hidden[..., 1::2].clamp(-self.limit, self.limit)
        out = (up + 1) * gate * torch.sigmoid(self.alpha * gate)
        return out @ self.experts_down[expert] + self.experts_down_bias[expert]


def _make_norm(config: DecoderConfig) -> nn.Module:
    if config.norm == "layer":
        return nn.LayerNorm(config.d_model, eps=config.norm_eps)
    plus_one = config.norm == "rms_plus_one"
    return RMSNorm(config.d_model, eps=config.norm_eps, plus_one=plus_one)


def _make_mlp(config: DecoderConfig) -> nn.Module:
    width, hidden = config.d_model, config.hidden_dim
    if config.mlp == "experts":
        return Experts(config)
    if config.mlp == "plain":
        return PlainMLP(width, hidden, config.activation)
    return SwiGLU(width, hidden, activation=config.activation)
