"""Several heads side by side, built twice: as a wrapper of heads, and as one split.

Shapes: B batch, T length, M d_model, H heads, D head_dim, O the width of the output.
Masks are boolean, True means "may attend"; one that says nothing of heads is for all.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.attention import (
    SelfAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from attention_lib.validation import (
    check_dropout,
    check_heads,
    check_mask,
    check_tokens,
)


def split_heads(x: Float[Tensor, "B T HD"], num_heads: int) -> Float[Tensor, "B H T D"]:
    """Cuts the width into heads and moves the heads in front of the tokens.

    Args:
        x: the heads side by side, head 0 first.
        num_heads: how many heads the width holds.

    Raises:
        TypeError: a number of heads that is not an int.
        ValueError: a width that the heads do not divide.
    """
    check_heads(x.shape[-1], num_heads)
    batch, length, width = x.shape
    x = x.view(batch, length, num_heads, width // num_heads)  # (B, T, H, D)
    return x.transpose(1, 2)  # (B, H, T, D)


def merge_heads(x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T HD"]:
    """Puts the heads side by side again: undoes ``split_heads``."""
    return x.transpose(1, 2).flatten(start_dim=2)  # (B, T, H, D) -> (B, T, H·D)


def add_head_axis(mask: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Makes a mask without heads broadcast to (B, H, Q, K); leaves others alone.

    (B, Q, K) becomes (B, 1, Q, K). Fewer axes broadcast as they are, and a mask of four
    axes already says which head it means.
    """
    return mask[:, None] if isinstance(mask, Tensor) and mask.ndim == 3 else mask


def split_mask(
    mask: Bool[Tensor, "..."] | None, x: Float[Tensor, "B T M"], num_heads: int
) -> list[Bool[Tensor, "..."] | None]:
    """Gives each head its mask: the same one, unless (B, H, Q, K) has one for each.

    Args:
        mask: what the layer got.
        x: what it got it with.
        num_heads: how many heads want one.

    Raises:
        ValueError: a mask of four axes that does not broadcast to (B, H, T, T).
    """
    if not isinstance(mask, Tensor) or mask.ndim != 4:
        return [mask] * num_heads
    batch, length, _ = x.shape
    check_mask(mask, (batch, num_heads, length, length), like=x)
    return list(mask.expand(-1, num_heads, -1, -1).unbind(dim=1))  # H of (B, Q, K)


class MultiHeadAttentionWrapper(nn.Module):
    """A list of separate heads, concatenated and projected: equal to the split kind.

    Args:
        d_model: width of the input.
        num_heads: heads side by side.
        head_dim: width of each; d_model / num_heads when left out.
        d_out: width of the output; d_model when left out.
        qkv_bias: whether queries, keys and values get a bias. The output has one.
        dropout: the probability that a weight is dropped while training.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: a width that the heads do not divide, or below 1; a dropout below
            0, or of 1 and more; an input of another width, or with an empty axis.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        d_out: int | None = None,
        qkv_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        head_dim = check_heads(d_model, num_heads, head_dim, d_out)
        self.num_heads = num_heads
        self.heads = nn.ModuleList(
            SelfAttention(d_model, head_dim, qkv_bias=qkv_bias, dropout=dropout)
            for _ in range(num_heads)
        )
        self.out_proj = nn.Linear(num_heads * head_dim, d_out or d_model)

    def forward(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B T O"]:
        """Lets each head look on its own, then mixes what they found."""
        check_tokens(x, next(self.parameters()))  # a query projection: (D, M)
        masks = split_mask(mask, x, self.num_heads)
        found = [head(x, m) for head, m in zip(self.heads, masks, strict=True)]
        return self.out_proj(torch.cat(found, dim=-1))  # (B, T, H·D) -> (B, T, O)

    def attention_weights(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B H T T"]:
        """Gives the weights of every head, before dropout."""
        check_tokens(x, next(self.parameters()))  # a query projection: (D, M)
        masks = split_mask(mask, x, self.num_heads)
        maps = [
            head.attention_weights(x, m)  # type: ignore[operator]
            for head, m in zip(self.heads, masks, strict=True)
        ]
        return torch.stack(maps, dim=1)  # H of (B, T, T) -> (B, H, T, T)

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Gives views of all parameters, cut into heads as far as they belong to one.

        The weight of a projection comes as H of (D, M), its bias as H of (D,); those of
        the output projection, which is for all heads, as one piece each.
        """
        own = self.out_proj.named_parameters(prefix="out_proj")
        parts: dict[str, Sequence[Tensor]] = {name: [whole] for name, whole in own}
        for name, _ in self.heads[0].named_parameters():  # such as q_proj.weight
            parts[name] = [head.get_parameter(name) for head in self.heads]
        return parts


class MultiHeadAttention(nn.Module):
    """One projection each for all queries, keys and values, then split into heads.

    Vaswani et al. (2017), section 3.2.2. Arguments and errors are those of
    ``MultiHeadAttentionWrapper``.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        d_out: int | None = None,
        qkv_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        width = num_heads * check_heads(d_model, num_heads, head_dim, d_out)
        check_dropout(dropout)
        self.q_proj = nn.Linear(d_model, width, bias=qkv_bias)
        self.k_proj = nn.Linear(d_model, width, bias=qkv_bias)
        self.v_proj = nn.Linear(d_model, width, bias=qkv_bias)
        self.out_proj = nn.Linear(width, d_out or d_model)
        self.num_heads = num_heads
        self.dropout = dropout

    def forward(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B T O"]:
        """Attends in all heads at once, then mixes what they found."""
        check_tokens(x, self.q_proj.weight)
        context = scaled_dot_product_attention(
            split_heads(self.q_proj(x), self.num_heads),
            split_heads(self.k_proj(x), self.num_heads),
            split_heads(self.v_proj(x), self.num_heads),
            add_head_axis(mask),
            dropout=self.dropout if self.training else 0.0,
        )  # (B, H, T, D)
        return self.out_proj(merge_heads(context))  # (B, T, H·D) -> (B, T, O)

    def attention_weights(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B H T T"]:
        """Gives the weights of every head, before dropout."""
        check_tokens(x, self.q_proj.weight)
        query = split_heads(self.q_proj(x), self.num_heads)
        key = split_heads(self.k_proj(x), self.num_heads)
        return attention_weights(query, key, add_head_axis(mask))

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Gives views of all parameters: head 0 is the first D rows, and so on."""
        return {
            name: [own] if name.startswith("out_proj") else own.chunk(self.num_heads)
            for name, own in self.named_parameters()
        }


@runtime_checkable
class MultiHeadLayer(Protocol):
    """What every kind of multi-head attention can do, so that weights can move."""

    num_heads: int

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attends in all heads, then mixes what they found."""

    def attention_weights(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Gives the weights of every head, before dropout."""

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Gives views of all parameters, cut into heads where they belong to one."""


def copy_weights(source: MultiHeadLayer, target: MultiHeadLayer) -> None:
    """Gives ``target`` the weights of ``source``, whatever kinds the two are.

    Raises:
        ValueError: layers built for other widths, heads or biases.
    """
    given, wanted = source.weights_by_head(), target.weights_by_head()
    built = [
        {name: f"{len(parts)} of {tuple(parts[0].shape)}" for name, parts in of.items()}
        for of in (given, wanted)
    ]
    if built[0] != built[1]:
        raise ValueError(
            f"source and target must be built alike; got source {built[0]} and "
            f"target {built[1]}"
        )
    with torch.no_grad():
        for name, parts in wanted.items():
            for part, new in zip(parts, given[name], strict=True):
                part.copy_(new)  # a view, so this fills the target's own parameter
