"""A tiny language model: embeddings, blocks, a last norm, and an output head.

Shapes: B batch, T length, M d_model, V vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.block import NormPlacement, TinyBlock
from attention_lib.kv_cache import KVCache
from attention_lib.mha_variants import MHA_VARIANTS
from attention_lib.modules import weight_of
from attention_lib.positions import LearnedPositions, sinusoidal_positions
from attention_lib.rope import rope_angles
from attention_lib.validation import (
    require_cache,
    require_choice,
    require_config,
    require_flags,
    require_instance,
    require_padding,
    require_range,
    require_token_ids,
    require_token_positions,
    require_token_values,
)

Positions = Literal["learned", "sinusoidal", "rotary", "none"]


@dataclass(frozen=True)
class ModelConfig:
    """What a ``TinyLM`` is built from.

    Attributes:
        vocab_size: how many different tokens there are.
        context_len: the length of the longest text that it can read.
        d_model: width of the residual stream.
        num_heads: heads of each block.
        num_layers: blocks on top of each other.
        dropout: the probability of a drop, in every block and after the embeddings.
        tie_weights: whether the head uses the token embedding's weights.
        norm: where the blocks normalise: ``pre``, ``post`` or ``none``.
        mha: the kind of attention, as ``make_mha`` names it.
        positions: ``learned`` or ``sinusoidal`` vectors, added to the tokens;
            ``rotary``, which rotates queries and keys; or ``none``, so that only the
            causal mask distinguishes earlier from later.

    Raises:
        TypeError: a size that is not an int; a choice that is not True or False.
        ValueError: a size below 1; a width that the heads do not divide; a dropout
            below 0, or of 1 and more; an unknown norm, kind or positions.
    """

    vocab_size: int
    context_len: int
    d_model: int
    num_heads: int
    num_layers: int
    dropout: float = 0.0
    tie_weights: bool = False
    norm: NormPlacement = "pre"
    mha: str = "split"
    positions: Positions = "learned"

    def __post_init__(self) -> None:
        require_config(self)
        require_choice("norm", self.norm, get_args(NormPlacement))
        require_choice("mha", self.mha, MHA_VARIANTS)
        require_choice("positions", self.positions, get_args(Positions))


class LanguageModel(nn.Module):
    """The call that all language models of this book share.

    Each model makes its parts, and defines how the residual stream begins
    (``_embed``). No position sees a later one, so padding on the right needs no mask:
    it comes after the real tokens, and scores at padding are not used.

    Raises:
        TypeError: ids or positions that are not whole numbers; a different device.
        ValueError: a text longer than the context; lengths that are not one per text;
            positions that are not one per token; on the CPU, ids outside the
            vocabulary and positions outside a table of positions. Elsewhere the ids
            are checked where texts come in: ``require_token_values``.
    """

    config: Any  # of the model: at least context_len, d_model and num_layers
    token_embedding: nn.Embedding
    blocks: nn.ModuleList
    last_norm: nn.Module
    head: nn.Linear
    grows_beyond: int | None = None  # longer texts change the angles: "dynamic"

    def forward(
        self,
        token_ids: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "B T V"] | Float[Tensor, "B 1 V"]:
        """Score the next token at every position; no position sees a later one.

        Args:
            token_ids: texts, padded on the right where they are shorter. With a cache,
                the tokens that come after those in it.
            lengths: how many tokens of each text are real. The scores of these are the
                same with and without it.
            mask: hides more than the future, such as padding on the left; broadcasts to
                (B, T, K).
            positions: of each token in its own text, (T,) or (B, T); counted from the
                start, or on from the cache, when left out.
            cache: of ``new_cache``; the new tokens are added to it.
            last_only: whether only the last position is scored, which spares the head
                most of its work where the vocabulary is large.
        """
        require_flags(last_only=last_only)
        x, block_kwargs = self._start(token_ids, lengths, positions, cache, mask)
        for state in self._run_blocks(x, mask, cache, block_kwargs):
            x = state  # (B, T, M); earlier ones are freed
        return self._logits(x[:, -1:] if last_only else x)

    def stream(
        self,
        token_ids: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
        cache: KVCache | None = None,
    ) -> list[Float[Tensor, "B T M"]]:
        """Return the residual stream before the first block, and after each."""
        x, block_kwargs = self._start(token_ids, lengths, positions, cache, mask)
        return list(self._run_blocks(x, mask, cache, block_kwargs))

    def attention_weights(
        self, token_ids: Int[Tensor, "B T"], lengths: Int[Tensor, " B"] | None = None
    ) -> list[Float[Tensor, "B H T T"]]:
        """Return the weights of every head, block by block, before dropout."""
        return list(self.iter_attention_weights(token_ids, lengths))

    def iter_attention_weights(
        self, token_ids: Int[Tensor, "B T"], lengths: Int[Tensor, " B"] | None = None
    ) -> Iterator[Float[Tensor, "B H T T"]]:
        """Yield the weights of one block at a time: those of all may not fit."""
        x, block_kwargs = self._start(token_ids, lengths)
        states = self._run_blocks(x, None, None, block_kwargs)
        for block, state in zip(self.blocks, states, strict=False):
            yield block.attention_weights(state, **block_kwargs)  # type: ignore[operator]

    def new_cache(self, batch_size: int, max_len: int | None = None) -> KVCache:
        """Make an empty cache for texts of at most ``max_len`` tokens.

        Args:
            batch_size: how many texts.
            max_len: ``context_len`` when left out.
        """
        max_len = self.config.context_len if max_len is None else max_len
        return KVCache(
            [block.new_cache(batch_size, max_len) for block in self.blocks]  # type: ignore[operator]
        )

    def _start(
        self,
        token_ids: Tensor,
        lengths: Tensor | None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Check the input; return what ``_embed`` makes of it."""
        start = require_cache(cache, len(self.blocks))
        max_len, like = self.config.context_len, weight_of(self.token_embedding)
        require_token_ids(token_ids, lengths, max_len=max_len, start=start, like=like)
        require_padding(cache, start, mask, lengths, token_ids.shape[1])
        if positions is not None:
            require_token_positions(positions, token_ids)
        if self.grows_beyond and lengths is not None and positions is None:
            last = (start + lengths - 1).clamp(min=0)[:, None]  # padding adds no length
            positions = self._default_positions(token_ids, start, None).minimum(last)
        try:
            return self._embed(token_ids, start, positions)
        except IndexError:  # on the CPU, of a table's look-up
            require_token_values(token_ids, self.config.vocab_size)
            if positions is not None:
                require_range(0, self.config.context_len - 1, positions=positions)
            raise

    def _embed(
        self, token_ids: Tensor, start: int, positions: Tensor | None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the stream before the first block, and what all blocks are passed."""
        raise NotImplementedError

    def _run_blocks(
        self,
        x: Tensor,
        mask: Tensor | None,
        cache: KVCache | None,
        block_kwargs: dict[str, Any],
    ) -> Iterator[Tensor]:
        """Yield the stream before the first block, and after each, (B, T, M)."""
        yield x
        caches = [None] * len(self.blocks) if cache is None else cache.layers
        for block, layer_cache in zip(self.blocks, caches, strict=True):
            x = block(x, mask=mask, cache=layer_cache, **block_kwargs)
            yield x

    def _logits(self, x: Tensor) -> Tensor:
        """Score all tokens, given the stream after the last block."""
        return self.head(self.last_norm(x))

    def _default_positions(
        self, token_ids: Tensor, start: int, positions: Tensor | None
    ) -> Tensor:
        """Return positions counted on from the cache, unless others are given."""
        if positions is not None:
            return positions
        return torch.arange(start, start + token_ids.shape[1], device=token_ids.device)

    def _init_weights(self, embedding_std: float | None = None) -> None:
        """Draw the initial weights, so that the stream keeps its size."""
        config = self.config
        for name, weight in self.named_parameters():
            if weight.ndim < 2:  # biases and norms keep their initial values
                continue
            std = config.d_model**-0.5  # keeps the size of the input
            if name.endswith(("out_proj.weight", "down_proj.weight")):
                # Two layers a block add to the stream: together they add about 1.
                std *= (2 * config.num_layers) ** -0.5
            if name == "head.weight":
                std *= 0.1  # all tokens about equally likely: a first loss near ln V
            if name == "token_embedding.weight" and embedding_std is not None:
                std = embedding_std
            nn.init.normal_(weight, std=std)


class TinyLM(LanguageModel):
    """A small GPT: it scores, after each token of a text, all possible next tokens.

    After GPT-2 (Radford et al., 2019, section 2.3): learned positions, pre-norm blocks,
    a last norm, and smaller initial weights where a layer adds to the stream. Some
    things differ from GPT-2: positions start as sinusoids, embeddings are multiplied by
    √M, the head starts ten times smaller, queries, keys and values have no bias, GELU
    is exact, and the initial weights of the blocks and of the token embedding are drawn
    differently. Its call is that of a ``LanguageModel``.

    Args:
        config: the sizes and choices.

    Raises:
        TypeError: a config of a different kind.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        require_instance("config", config, ModelConfig)
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        if config.positions == "learned":
            self.positions = LearnedPositions(config.context_len, config.d_model)
        if config.positions == "sinusoidal":
            table = sinusoidal_positions(config.context_len, config.d_model)
            self.register_buffer("sinusoids", table, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            TinyBlock(
                config.d_model,
                config.num_heads,
                norm=config.norm,
                dropout=config.dropout,
                mha=config.mha,
            )
            for _ in range(config.num_layers)
        )
        # A post-norm block ends with a norm already.
        last = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.last_norm = last(config.d_model)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self._init_weights()
        # A position starts as its sinusoids: neighbours are similar before training.
        if config.positions == "learned":
            table = sinusoidal_positions(config.context_len, config.d_model)
            with torch.no_grad():
                self.positions.embedding.weight.copy_(table)
        if config.tie_weights:
            self.head.weight = self.token_embedding.weight

    def position_terms(
        self,
        token_ids: Int[Tensor, "B T"],
        start: int = 0,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> tuple[Float[Tensor, "*B T M"] | None, Float[Tensor, "*B T P"] | None]:
        """Return vectors to add to the tokens, or angles to rotate queries and keys by.

        Args:
            token_ids: the new tokens.
            start: how many tokens come before them.
            positions: of the tokens; counted on from ``start`` when left out.
        """
        kind, config = self.config.positions, self.config
        if kind == "none":
            return None, None
        if kind == "learned":
            return self.positions(token_ids.shape[1], start, positions), None
        positions = self._default_positions(token_ids, start, positions)
        if kind == "rotary":
            return None, rope_angles(positions, config.d_model // config.num_heads)
        return F.embedding(positions, self.sinusoids), None  # type: ignore[arg-type]

    def _embed(
        self, token_ids: Tensor, start: int, positions: Tensor | None
    ) -> tuple[Tensor, dict[str, Any]]:
        # Times √M, so that words and positions have similar sizes: Vaswani et al., 3.4.
        x = self.token_embedding(token_ids) * self.config.d_model**0.5  # (B, T, M)
        vectors, angles = self.position_terms(token_ids, start, positions)
        x = self.dropout(x if vectors is None else x + vectors)
        return x, {"causal": True, "angles": angles}
