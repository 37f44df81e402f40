"""Cross-attention: a small encoder–decoder model, its block, and ``translate``.

Shapes: B batch, S length of the source, T of the target, N new tokens, M d_model, H
heads, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.block import FeedForward, TinyBlock
from attention_lib.kv_cache import CacheLike, KVCache, LayerCache
from attention_lib.masks import padding_mask
from attention_lib.modules import is_unmodified, weight_of
from attention_lib.multi_head import (
    MultiHeadAttention,
    add_head_axis,
    merge_heads,
    split_heads,
)
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import evaluation_mode
from attention_lib.sampling import sample_token
from attention_lib.validation import (
    require_cache,
    require_choice,
    require_dropout,
    require_flags,
    require_heads,
    require_instance,
    require_memory,
    require_not_negative,
    require_positive,
    require_prompt,
    require_source,
    require_stop,
    require_token_ids,
    require_token_values,
    require_tokens,
)


@dataclass(frozen=True)
class TranslatorConfig:
    """What a ``TinyTranslator`` is built from.

    Attributes:
        vocab_size: how many different tokens both texts share.
        context_len: how many tokens a source, and a target, may have.
        d_model: width of the residual streams.
        num_heads: heads of each block's self-attention.
        num_layers: blocks of the decoder.
        num_encoder_layers: blocks of the encoder; ``num_layers`` when left out. With 0
            the memory is the embedded source itself.
        num_cross_heads: heads of cross-attention; ``num_heads`` when left out.
        dropout: the probability of a drop, in every block and after the embeddings.

    Raises:
        TypeError: a size that is not an int.
        ValueError: a size below 1, or encoder layers below 0; a width that the heads
            do not divide; a dropout below 0, or of 1 and more.
    """

    vocab_size: int
    context_len: int
    d_model: int
    num_heads: int
    num_layers: int
    num_encoder_layers: int | None = None
    num_cross_heads: int | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_positive(vocab_size=self.vocab_size, context_len=self.context_len)
        require_positive(num_layers=self.num_layers)
        require_heads(self.d_model, self.num_heads)
        if self.num_encoder_layers is not None:
            require_not_negative(num_encoder_layers=self.num_encoder_layers)
        if self.num_cross_heads is not None:
            require_positive(num_cross_heads=self.num_cross_heads)
            if self.d_model % self.num_cross_heads:
                raise ValueError(
                    f"num_cross_heads must divide d_model; got {self.num_cross_heads} "
                    f"heads for a width of {self.d_model}"
                )
        require_dropout(self.dropout)


class TinyTranslator(nn.Module):
    """An encoder that reads the source, and a decoder that generates the target.

    Vaswani et al. (2017), figure 1, with norms before the layers; both halves share
    the embedding and end with a norm.

    Args:
        config: the sizes.

    Raises:
        TypeError: a config of a different kind; ids that are not whole numbers.
        ValueError: a text longer than the context; lengths that are not one per text.
            The ids themselves are checked by ``translate``.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        require_instance("config", config, TranslatorConfig)
        self.config = config
        width, layers = config.d_model, config.num_encoder_layers
        layers = config.num_layers if layers is None else layers
        self.token_embedding = nn.Embedding(config.vocab_size, width)
        table = sinusoidal_positions(config.context_len, width)
        self.register_buffer("positions", table, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(
            TinyBlock(width, config.num_heads, dropout=config.dropout)
            for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            CrossBlock(
                width,
                config.num_heads,
                num_cross_heads=config.num_cross_heads,
                dropout=config.dropout,
            )
            for _ in range(config.num_layers)
        )
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, config.vocab_size, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                small = 0.1 if name == "head.weight" else 1.0
                nn.init.normal_(weight, std=small * width**-0.5)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Score the next token at every position of the target.

        Args:
            source: texts to read; shorter ones are padded on the right.
            target: the tokens so far, from the start token on; no real token sees
                padding on the right.
            source_lengths: how many tokens of each source are real; all when left out.
        """
        require_token_ids(source, name="source")
        require_token_ids(target, name="target")
        memory, mask = self.encode(source, source_lengths)
        if len(memory) != len(target):
            raise ValueError(
                "source and target must hold the same number of texts; got "
                f"{len(memory)} and {len(target)}"
            )
        return self.decode(target, [memory] * len(self.decoder), mask)

    def encode(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B S M"], Bool[Tensor, "B 1 S"] | None]:
        """Read a source; return the memory, and the mask of its real tokens."""
        x = self._embed(source, lengths)
        mask = None if lengths is None else padding_mask(lengths, source.shape[1])
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memories: Sequence[Tensor | LayerCache],
        memory_mask: Bool[Tensor, "B 1 S"] | None = None,
        *,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Score the next token, given a memory for each block of the decoder.

        Args:
            target: the tokens so far; with a cache, the new ones.
            memories: one per block: the memory itself, or its cached keys and values.
            memory_mask: of the memory's real tokens.
            cache: of ``new_cache``; the new tokens are added to it.
        """
        if not isinstance(memories, Tensor):  # (L, B, S, M) serves as well
            require_instance("memories", memories, Sequence)
        flat = isinstance(memories, Tensor) and memories.ndim != 4
        if flat or len(memories) != len(self.decoder):
            received = str(len(memories))
            if isinstance(memories, Tensor):
                received = f"a tensor {tuple(memories.shape)}"
            raise ValueError(
                f"memories must be one per block of the decoder, {len(self.decoder)}; "
                f"got {received}"
            )
        x = self._embed(target, None, require_cache(cache, len(self.decoder)))
        caches = [None] * len(self.decoder) if cache is None else cache.layers
        for block, memory, kept in zip(self.decoder, memories, caches, strict=True):
            x = block(x, memory, memory_mask, cache=kept)
        return self.head(self.decoder_norm(x))

    def cache_memory(self, memory: Float[Tensor, "B S M"]) -> list[LayerCache | Tensor]:
        """Compute the memory's keys and values for every block of the decoder, once.

        A block whose cross-attention has hooks or was replaced gets the memory itself,
        so that the layer is called.
        """
        layers = [block.cross_attention for block in self.decoder]
        return [
            cache_memory(layer, memory)
            if isinstance(layer, nn.Module) and is_unmodified(layer, MultiHeadAttention)
            else memory
            for layer in layers
        ]

    def cross_weights(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> list[Float[Tensor, "B H T S"]]:
        """Return the weights of cross-attention, block by block, before dropout."""
        memory, mask = self.encode(source, source_lengths)
        x, maps = self._embed(target), []
        for block in self.decoder:
            maps.append(block.cross_weights(x, memory, mask))  # type: ignore[operator]
            x = block(x, memory, mask)
        return maps

    def new_cache(self, batch_size: int, max_len: int | None = None) -> KVCache:
        """Make an empty cache for targets of at most ``max_len`` tokens."""
        max_len = self.config.context_len if max_len is None else max_len
        return KVCache(
            [block.new_cache(batch_size, max_len) for block in self.decoder]  # type: ignore[operator]
        )

    def _embed(
        self, token_ids: Tensor, lengths: Tensor | None = None, start: int = 0
    ) -> Tensor:
        max_len, width = self.config.context_len, self.config.d_model
        like = weight_of(self.token_embedding)
        require_token_ids(token_ids, lengths, max_len=max_len, start=start, like=like)
        vectors = self.positions[start : start + token_ids.shape[1]]  # type: ignore[index]
        try:
            x = self.token_embedding(token_ids)
        except IndexError:  # on the CPU, of a table's look-up
            require_token_values(token_ids, self.config.vocab_size)
            raise
        return self.dropout(x * width**0.5 + vectors)


CrossNormPlacement = Literal["pre", "post"]


def cache_memory(
    layer: MultiHeadAttention, memory: Float[Tensor, "B S M"]
) -> LayerCache:
    """Compute the keys and values of a memory, once for all later queries.

    Args:
        layer: will attend to the memory.
        memory: the encoder's output.

    Raises:
        TypeError: a different kind of layer; a memory of another type or device.
        ValueError: a layer with hooks, or of a subclass; a memory of another width, or
            with an empty axis.
    """
    _check_kept_by(layer)
    require_tokens(memory, layer.k_proj, layer.d_model, name="memory")
    kept = layer.new_cache(*memory.shape[:2])
    kept.append(
        split_heads(layer.k_proj(memory), layer.num_heads),
        split_heads(layer.v_proj(memory), layer.num_heads),
    )
    return kept


def attend_cached(
    layer: MultiHeadAttention,
    x: Float[Tensor, "B T M"],
    kept: LayerCache,
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "B T M"]:
    """Return ``layer(x, mask, memory=memory)`` for the result of ``cache_memory``.

    Args:
        layer: the one that it was made with.
        x: the source of the queries.
        kept: keys and values of the memory.
        mask: True where a query may attend to a token of the memory; broadcasts to
            (B, T, S).

    Raises:
        TypeError: a different kind of layer or cache; an x of another type or device.
        ValueError: a layer with hooks, or of a subclass; an x of another width, or of
            another number of texts; a cache of a layer with other heads.
    """
    _check_kept_by(layer)
    require_instance("kept", kept, LayerCache)
    require_tokens(x, layer.q_proj, layer.d_model)
    texts, heads, _, width = kept.keys.shape
    if texts != len(x):
        raise ValueError(f"kept must hold as many texts as x; got {texts} and {len(x)}")
    if (heads, width) != (layer.num_heads, layer.head_dim):
        raise ValueError(
            f"kept holds {heads} heads of width {width}; the layer has "
            f"{layer.num_heads} of width {layer.head_dim}: make it with `cache_memory` "
            "of the same layer"
        )
    key, value = kept.keys[:, :, : kept.length], kept.values[:, :, : kept.length]
    query = split_heads(layer.q_proj(x), layer.num_heads)
    dropout = layer.dropout if layer.training else 0.0
    context = scaled_dot_product_attention(
        query, key, value, add_head_axis(mask), dropout=dropout
    )
    return layer.out_proj(merge_heads(context))


def _check_kept_by(layer: Any) -> None:
    """Check that a call of the layer does nothing that cached keys would skip."""
    require_instance("layer", layer, MultiHeadAttention)
    if not is_unmodified(layer, MultiHeadAttention):
        raise ValueError(
            "layer must be a MultiHeadAttention without hooks, which kept keys would "
            f"skip; got {type(layer).__name__}: call it with memory=memory"
        )


class CrossBlock(nn.Module):
    """A decoder's block: self-attention, cross-attention, a feed-forward network.

    Vaswani et al. (2017), section 3.1, there with ``norm="post"``.

    Args:
        d_model: width of the stream and of the memory.
        num_heads: heads of self-attention.
        num_cross_heads: heads of cross-attention; ``num_heads`` when left out.
        norm: ``pre`` normalises the input of each layer; ``post`` normalises the stream
            after each addition. The memory is not normalised.
        qkv_bias: whether queries, keys and values get a bias.
        dropout: the probability that an attention weight, or a number that a layer
            adds to the stream, is dropped while training.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: an unknown norm; widths that do not fit together; a dropout below
            0, or of 1 and more; an input of another width, or with an empty axis; a
            memory of another number of texts.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_cross_heads: int | None = None,
        norm: CrossNormPlacement = "pre",
        qkv_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_choice("norm", norm, get_args(CrossNormPlacement))
        heads = num_heads if num_cross_heads is None else num_cross_heads
        require_positive(num_cross_heads=heads)
        self.d_model = d_model
        self.attention, self.cross_attention = (
            MultiHeadAttention(d_model, count, qkv_bias=qkv_bias, dropout=dropout)
            for count in (num_heads, heads)
        )
        self.feed_forward = FeedForward(d_model)
        self.attention_norm = nn.LayerNorm(d_model)
        self.cross_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        memory: Float[Tensor, "B S M"] | LayerCache,
        memory_mask: Bool[Tensor, "..."] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Add the outputs of three layers to the stream; no token sees a later one.

        Args:
            x: the residual stream.
            memory: the encoder's output, or its ``cache_memory``.
            memory_mask: True where a query may attend to a token of the memory;
                broadcasts to (B, T, S).
            mask: hides more than the future in x; broadcasts to (B, T, T).
            cache: of ``new_cache``, holds the tokens before x.
        """
        require_memory(self, x, memory, memory_mask)

        def attend_back(x: Tensor) -> Tensor:
            return self.attention(x, mask, causal=True, cache=cache)

        def attend_across(x: Tensor) -> Tensor:
            if isinstance(memory, LayerCache):
                return attend_cached(self.cross_attention, x, memory, memory_mask)
            return self.cross_attention(x, memory_mask, memory=memory)

        for layer, norm in (
            (attend_back, self.attention_norm),
            (attend_across, self.cross_norm),
            (self.feed_forward, self.feed_forward_norm),
        ):
            if self.norm == "post":
                x = norm(x + self.dropout(layer(x)))
            else:
                x = x + self.dropout(layer(norm(x)))
        return x

    def cross_weights(
        self,
        x: Float[Tensor, "B T M"],
        memory: Float[Tensor, "B S M"],
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B H T S"]:
        """Return the weights of each head of cross-attention, before dropout."""
        require_instance("memory", memory, Tensor)
        require_source(x, memory, self.attention_norm, self.d_model)
        query = x if self.norm == "post" else self.attention_norm(x)
        x = x + self.attention(query, causal=True)
        query = self.attention_norm(x) if self.norm == "post" else self.cross_norm(x)
        return self.cross_attention.attention_weights(query, memory_mask, memory=memory)

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache for texts of at most ``max_len`` tokens."""
        return self.attention.new_cache(batch_size, max_len)


def translate(
    model: TinyTranslator,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    *,
    start: int,
    stop: int,
    max_new_tokens: int,
    use_cache: bool = True,
) -> Int[Tensor, "B N"]:
    """Generate the most likely next token again and again, until every text has ended.

    Args:
        model: reads the source and generates the target.
        source: texts to read; shorter ones are padded on the right.
        source_lengths: how many tokens of each source are real; all when left out.
        start: the token before the first one that is generated.
        stop: the token that ends a target, and fills it up after its end.
        max_new_tokens: how many tokens to generate at most.
        use_cache: False recomputes all keys and values for every token: the same
            result, but slower.

    Returns:
        The new tokens, without the start; N is at most ``max_new_tokens``.

    Raises:
        TypeError: a different kind of model; ids or lengths that are not whole numbers.
        ValueError: ids outside the vocabulary; lengths below 1 or above S; more new
            tokens than the context holds.
    """
    require_instance("model", model, TinyTranslator)
    require_positive(max_new_tokens=max_new_tokens)
    require_flags(use_cache=use_cache)
    require_not_negative(start=start, stop=stop)
    for name, token in (("start", start), ("stop", stop)):
        require_stop(model, token, name)
    require_prompt(model, source, 1, source_lengths)
    texts = torch.full_like(source[:, :1], start)
    require_prompt(model, texts, max_new_tokens)
    ended = torch.zeros_like(texts[:, 0], dtype=torch.bool)
    with evaluation_mode(model), torch.inference_mode():
        memory, mask = model.encode(source, source_lengths)
        cache = model.new_cache(len(source), max_new_tokens) if use_cache else None
        kept = (
            model.cache_memory(memory) if use_cache else [memory] * len(model.decoder)
        )
        for _ in range(max_new_tokens):
            new = texts[:, -1:] if use_cache else texts
            logits = model.decode(new, kept, mask, cache=cache)[:, -1]  # (B, V)
            picked = sample_token(logits).masked_fill(ended, stop)
            texts, ended = (
                torch.cat([texts, picked[:, None]], 1),
                ended | (picked == stop),
            )
            if not ended.is_meta and ended.all():
                break
    return texts[:, 1:].clone()  # outside inference mode: a model may learn from it
