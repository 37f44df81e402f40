"""Attention to a memory that is kept, and the block of a decoder.

Shapes: B batch, T length of what is written, S length of the memory, M d_model, H
heads. Masks are boolean, True means "may attend".
"""

from typing import Any, Literal, get_args

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.block import FeedForward
from attention_lib.caches import CacheLike, LayerCache
from attention_lib.modules import is_plain
from attention_lib.multi_head import (
    MultiHeadAttention,
    add_head_axis,
    merge_heads,
    split_heads,
)
from attention_lib.validation import (
    check_choice,
    check_instance,
    check_positive,
    check_source,
    check_tokens,
)

CrossNorm = Literal["pre", "post"]


def remember(layer: MultiHeadAttention, memory: Float[Tensor, "B S M"]) -> LayerCache:
    """Makes the keys and values of a memory, once for all queries to come.

    Args:
        layer: will attend to the memory.
        memory: the encoder's output.

    Raises:
        TypeError: another kind of layer; a memory of another type or device.
        ValueError: a layer with hooks, or of a class of its own; a memory of another
            width, or with an empty axis.
    """
    _check_kept_by(layer)
    check_tokens(memory, layer.k_proj, layer.d_model, name="memory")
    kept = layer.new_cache(*memory.shape[:2])
    kept.append(
        split_heads(layer.k_proj(memory), layer.num_heads),
        split_heads(layer.v_proj(memory), layer.num_heads),
    )
    return kept


def look_at(
    layer: MultiHeadAttention,
    x: Float[Tensor, "B T M"],
    kept: LayerCache,
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "B T M"]:
    """Gives ``layer(x, mask, memory=memory)`` for a memory that ``remember`` kept.

    Args:
        layer: the one that kept it.
        x: the source of the queries.
        kept: keys and values of the memory.
        mask: True where a query may attend to a token of the memory; broadcasts to
            (B, T, S).

    Raises:
        TypeError: another kind of layer or cache; an x of another type or device.
        ValueError: a layer with hooks, or of a class of its own; an x of another
            width, or of another number of texts.
    """
    _check_kept_by(layer)
    check_instance("kept", kept, LayerCache)
    check_tokens(x, layer.q_proj, layer.d_model)
    if len(kept.keys) != len(x):
        raise ValueError(
            f"kept must hold as many texts as x; got {len(kept.keys)} and {len(x)}"
        )
    key, value = kept.keys[:, :, : kept.length], kept.values[:, :, : kept.length]
    query = split_heads(layer.q_proj(x), layer.num_heads)
    dropout = layer.dropout if layer.training else 0.0
    context = scaled_dot_product_attention(
        query, key, value, add_head_axis(mask), dropout=dropout
    )
    return layer.out_proj(merge_heads(context))


def _check_kept_by(layer: Any) -> None:
    """Check that a call of the layer does nothing that kept keys would skip."""
    check_instance("layer", layer, MultiHeadAttention)
    if not is_plain(layer, MultiHeadAttention):
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
            after each addition. The memory is taken as it comes.
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
        norm: CrossNorm = "pre",
        qkv_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("norm", norm, get_args(CrossNorm))
        heads = num_heads if num_cross_heads is None else num_cross_heads
        check_positive(num_cross_heads=heads)
        self.d_model = d_model
        self.attention, self.cross_attention = (
            MultiHeadAttention(d_model, own, qkv_bias=qkv_bias, dropout=dropout)
            for own in (num_heads, heads)
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
        """Adds what three layers find to the stream; no token sees a later one.

        Args:
            x: the residual stream.
            memory: the encoder's output, or what ``remember`` kept of it.
            memory_mask: True where a query may attend to a token of the memory;
                broadcasts to (B, T, S).
            mask: hides more than the future in x; broadcasts to (B, T, T).
            cache: of ``new_cache``, holds the tokens before x.
        """
        check_tokens(x, self.attention_norm, self.d_model)
        if not isinstance(memory, LayerCache):
            check_instance("memory", memory, Tensor)  # None would mean x itself

        def look_back(x: Tensor) -> Tensor:
            return self.attention(x, mask, causal=True, cache=cache)

        def look_across(x: Tensor) -> Tensor:
            if isinstance(memory, LayerCache):
                return look_at(self.cross_attention, x, memory, memory_mask)
            return self.cross_attention(x, memory_mask, memory=memory)

        for layer, norm in (
            (look_back, self.attention_norm),
            (look_across, self.cross_norm),
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
        """Gives the weights of each head of cross-attention, before dropout."""
        check_instance("memory", memory, Tensor)
        check_source(x, memory, self.attention_norm, self.d_model)
        seen = x if self.norm == "post" else self.attention_norm(x)
        x = x + self.attention(seen, causal=True)
        seen = self.attention_norm(x) if self.norm == "post" else self.cross_norm(x)
        return self.cross_attention.attention_weights(seen, memory_mask, memory=memory)

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Makes an empty cache for so many texts of at most so many tokens."""
        return self.attention.new_cache(batch_size, max_len)
