"""A decoder with the choices of published models: one class runs all of them.

Shapes: B batch, T new tokens, K all tokens so far, M d_model, V vocabulary.
"""

import dataclasses

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.caches import KVCache, LayerCache
from attention_lib.decoder.config import DecoderConfig, LayerConfig
from attention_lib.decoder.mlp import make_mlp
from attention_lib.grouped_query import GroupedQueryAttention, RMSNorm
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.rope import rope_angles, rope_attention_factor
from attention_lib.validation import check_token_ids


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
        self, token_ids: Int[Tensor, "B T"], lengths: Int[Tensor, " B"] | None = None
    ) -> list[Float[Tensor, "B H T T"]]:
        """Gives the weights of every head, block by block."""
        states = self.stream(token_ids, lengths)
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
        self.own, self.head_dim = own, config.head_dim
        self.attention = _make_attention(config, own)
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


def _make_attention(
    config: DecoderConfig, own: LayerConfig
) -> GroupedQueryAttention | MultiHeadLatentAttention:
    scale, stretch = config.scale, 1.0
    if own.rope_scaling is not None:
        stretch = rope_attention_factor(own.rope_scaling)
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
    if stretch != 1:  # queries and keys alike: their product
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
        window=own.window,
        sinks=config.sinks,
    )


def _make_norm(config: DecoderConfig) -> nn.Module:
    if config.norm == "layer":
        return nn.LayerNorm(config.d_model, eps=config.norm_eps)
    plus_one = config.norm == "rms_plus_one"
    return RMSNorm(config.d_model, eps=config.norm_eps, plus_one=plus_one)
