"""An encoder reads one text, a decoder writes another and looks at the first.

Shapes: B batch, S length of the source, T length of the target, M d_model, H heads, V
vocabulary. Masks are boolean, True means "may attend".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.block import TinyBlock
from attention_lib.caches import KVCache, LayerCache
from attention_lib.cross_block import CrossBlock, remember
from attention_lib.masks import padding_mask
from attention_lib.modules import is_plain, weight_of
from attention_lib.multi_head import MultiHeadAttention
from attention_lib.positions import sinusoidal_positions
from attention_lib.validation import (
    check_dropout,
    check_heads,
    check_instance,
    check_not_negative,
    check_positive,
    check_token_ids,
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
            the memory is the source's words and their positions.
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
        check_positive(vocab_size=self.vocab_size, context_len=self.context_len)
        check_positive(num_layers=self.num_layers)
        check_heads(self.d_model, self.num_heads)
        if self.num_encoder_layers is not None:
            check_not_negative(num_encoder_layers=self.num_encoder_layers)
        if self.num_cross_heads is not None:
            check_positive(num_cross_heads=self.num_cross_heads)
            if self.d_model % self.num_cross_heads:
                raise ValueError(
                    f"num_cross_heads must divide d_model; got {self.num_cross_heads} "
                    f"heads for a width of {self.d_model}"
                )
        check_dropout(self.dropout)


class TinyTranslator(nn.Module):
    """An encoder that reads the source, and a decoder that writes the target.

    Vaswani et al. (2017), figure 1, with norms before the layers; both halves share
    the embedding and end with a norm.

    Args:
        config: the sizes.

    Raises:
        TypeError: a config of another kind; ids that are not whole numbers.
        ValueError: a text longer than the context; lengths that are not one per text.
            The ids themselves are checked by ``translate``.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        check_instance("config", config, TranslatorConfig)
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
        """Scores the next token at every position of the target.

        Args:
            source: texts to be read, padded on the right where they are shorter.
            target: what is written so far, from its start token on; padding on the
                right is seen by no real token.
            source_lengths: how many tokens of each source are real; all when left out.
        """
        memory, mask = self.encode(source, source_lengths)
        return self.decode(target, [memory] * len(self.decoder), mask)

    def encode(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B S M"], Bool[Tensor, "B 1 S"] | None]:
        """Reads a source: gives the memory, and the mask of its real tokens."""
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
        """Scores the next token, given what each block of the decoder may look at.

        Args:
            target: what is written so far; with a cache, what is new.
            memories: one per block: the memory itself, or what was kept of it.
            memory_mask: of the memory's real tokens.
            cache: of ``new_cache``; takes the new tokens in.
        """
        if len(memories) != len(self.decoder):
            raise ValueError(
                f"memories must be one per block of the decoder, {len(self.decoder)}; "
                f"got {len(memories)}"
            )
        x = self._embed(target, None, 0 if cache is None else cache.length)
        caches = [None] * len(self.decoder) if cache is None else cache.layers
        for block, memory, own in zip(self.decoder, memories, caches, strict=True):
            x = block(x, memory, memory_mask, cache=own)
        return self.head(self.decoder_norm(x))

    def remember(self, memory: Float[Tensor, "B S M"]) -> list[LayerCache | Tensor]:
        """Make the memory's keys and values for every block of the decoder, once.

        A block whose cross-attention has hooks or was replaced gets the memory itself,
        so that it is called.
        """
        layers = [block.cross_attention for block in self.decoder]
        return [
            remember(layer, memory) if is_plain(layer, MultiHeadAttention) else memory  # type: ignore[arg-type]
            for layer in layers
        ]

    def cross_weights(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> list[Float[Tensor, "B H T S"]]:
        """Gives the weights of cross-attention, block by block, before dropout."""
        memory, mask = self.encode(source, source_lengths)
        x, found = self._embed(target), []
        for block in self.decoder:
            found.append(block.cross_weights(x, memory, mask))  # type: ignore[operator]
            x = block(x, memory, mask)
        return found

    def new_cache(self, batch_size: int, max_len: int | None = None) -> KVCache:
        """Makes an empty cache for targets of at most ``max_len`` tokens."""
        max_len = self.config.context_len if max_len is None else max_len
        return KVCache(
            [block.new_cache(batch_size, max_len) for block in self.decoder]  # type: ignore[operator]
        )

    def _embed(
        self, token_ids: Tensor, lengths: Tensor | None = None, start: int = 0
    ) -> Tensor:
        longest, width = self.config.context_len - start, self.config.d_model
        like = weight_of(self.token_embedding)
        check_token_ids(token_ids, lengths, max_len=longest, like=like)
        places = self.positions[start : start + token_ids.shape[1]]  # type: ignore[index]
        return self.dropout(self.token_embedding(token_ids) * width**0.5 + places)
