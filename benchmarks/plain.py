"""A GPT written for speed in few lines: nanoGPT's way, in our words.

One fused projection for queries, keys and values, PyTorch's kernel with ``is_causal``,
the loss inside the model, targets that come shifted, and no checks. Sizes, biases and
the untied head are those of our ``TinyLM``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.textbook import attend

IGNORED = -1  # a target that does not count


class PlainBlock(nn.Module):
    """Attention, then two linear layers with a GELU, each with a residual path."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(d_model)
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.up_proj = nn.Linear(d_model, 4 * d_model)
        self.down_proj = nn.Linear(4 * d_model, d_model)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.out_proj(self.attend(self.attention_norm(x))))
        hidden = F.gelu(self.up_proj(self.feed_forward_norm(x)))
        return x + self.dropout(self.down_proj(hidden))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = batch, length, self.num_heads, width // self.num_heads
        query, key, value = self.qkv_proj(x).split(width, dim=2)
        context = self.mix(
            query.view(heads).transpose(1, 2),
            key.view(heads).transpose(1, 2),
            value.view(heads).transpose(1, 2),
        )
        return context.transpose(1, 2).contiguous().view(x.shape)

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class TextbookBlock(PlainBlock):
    """The same block, with attention written out as textbooks do."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        causal = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        return attend(query, key, value, causal, self.dropout)


class PlainGPT(nn.Module):
    """Embeddings, blocks, a last norm, a head; returns the next-token loss."""

    def __init__(
        self,
        vocab_size: int,
        context_len: int,
        d_model: int,
        num_heads: int,
        num_layers: int,
        block: type[PlainBlock] = PlainBlock,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(context_len, d_model)
        self.dropout = nn.Dropout(0.0)
        self.blocks = nn.ModuleList(
            block(d_model, num_heads) for _ in range(num_layers)
        )
        self.last_norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, token_ids: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(token_ids.shape[1])
        x = self.dropout(self.words(token_ids) + self.places(places))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.last_norm(x))
        flat = logits.view(-1, logits.shape[-1])
        return F.cross_entropy(flat, targets.reshape(-1), ignore_index=IGNORED)
