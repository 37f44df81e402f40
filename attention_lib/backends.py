"""One multi-head layer, four kinds: one signature, one meaning of masks, equal outputs.

``wrapper`` and ``split`` are written to be read; ``sdpa`` and ``torch`` call PyTorch's
own kernels. Shapes, masks and empty rows are those of ``multi_head``.
"""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.attention import attention_weights
from attention_lib.multi_head import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiHeadLayer,
    add_head_axis,
    merge_heads,
    split_heads,
)
from attention_lib.validation import (
    check_dropout,
    check_heads,
    check_mask,
    check_tokens,
)


class FusedMultiHeadAttention(nn.Module):
    """One projection for queries, keys and values together, then PyTorch's kernel.

    Arguments and errors are those of ``MultiHeadAttention``.
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
        self.qkv_proj = nn.Linear(d_model, 3 * width, bias=qkv_bias)
        self.out_proj = nn.Linear(width, d_out or d_model)
        self.num_heads = num_heads
        self.dropout = dropout

    def forward(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B T O"]:
        """Attends in all heads at once, then mixes what they found."""
        query, key, value = self._project(x)
        mask = add_head_axis(mask)
        if mask is not None:
            check_mask(mask, (*query.shape[:-1], key.shape[-2]), like=x)
            if mask.ndim < 2:
                mask = mask.view(1, -1)  # the kernel wants both axes, (Q, K)
        context = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
        )  # (B, H, T, D)
        return self.out_proj(merge_heads(context))  # (B, T, H·D) -> (B, T, O)

    def attention_weights(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B H T T"]:
        """Gives the weights of every head, before dropout."""
        query, key, _ = self._project(x)
        return attention_weights(query, key, add_head_axis(mask))

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Gives views of all parameters, as ``MultiHeadAttention`` does."""
        packed = self.qkv_proj.weight, self.qkv_proj.bias
        return _unpacked(*packed, self.out_proj, self.num_heads)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        check_tokens(x, self.qkv_proj.weight)
        # Cut along the width first: backward then joins three gradients without a copy.
        query, key, value = self.qkv_proj(x).chunk(3, dim=-1)  # (B, T, H·D) each
        return (
            split_heads(query, self.num_heads),
            split_heads(key, self.num_heads),
            split_heads(value, self.num_heads),
        )


class TorchMultiHeadAttention(nn.Module):
    """``nn.MultiheadAttention`` behind this book's signature and meaning of masks.

    Its heads share out ``d_model``, and its output is as wide as its input, so other
    widths are refused. Arguments and other errors are those of ``MultiHeadAttention``.
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
        check_dropout(dropout)
        if (num_heads * head_dim, d_out or d_model) != (d_model, d_model):
            raise ValueError(
                'the kind "torch" needs num_heads · head_dim = d_out = d_model; got '
                f"{num_heads} · {head_dim}, {d_out or d_model} and {d_model}: take "
                'the kind "sdpa"'
            )
        self.attention = nn.MultiheadAttention(
            d_model, num_heads, dropout=dropout, batch_first=True
        )
        if not qkv_bias:  # its own flag would take the output's bias away as well
            self.attention.register_parameter("in_proj_bias", None)
        self.num_heads = num_heads

    def forward(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B T M"]:
        """Attends in all heads at once, then mixes what they found."""
        blocked = self._blocked(x, mask)
        # Where all three are one tensor, evaluation takes a path of its own, on which
        # an empty row gives nan: so a mask comes with a second view of x.
        other = x if blocked is None else x.view_as(x)
        context, _ = self.attention(
            x, other, other, attn_mask=blocked, need_weights=False
        )
        return context

    def attention_weights(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B H T T"]:
        """Gives the weights of every head, before dropout."""
        self._blocked(x, mask)
        query, key, _ = F.linear(
            x, self.attention.in_proj_weight, self.attention.in_proj_bias
        ).chunk(3, dim=-1)
        return attention_weights(
            split_heads(query, self.num_heads),
            split_heads(key, self.num_heads),
            add_head_axis(mask),
        )

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Gives views of all parameters, as ``MultiHeadAttention`` does."""
        own = self.attention
        packed = own.in_proj_weight, own.in_proj_bias
        return _unpacked(*packed, own.out_proj, self.num_heads)

    def _blocked(self, x: Tensor, mask: Tensor | None) -> Tensor | None:
        """Translates a mask: True means "blocked" there, and heads join the batch."""
        check_tokens(x, self.attention.in_proj_weight)
        batch, length, _ = x.shape
        full = (batch, self.num_heads, length, length)
        mask = add_head_axis(mask)
        if mask is None:
            return None
        check_mask(mask, full, like=x)
        return ~mask.expand(full).flatten(end_dim=1)  # (B·H, T, T)


KINDS: dict[str, Callable[..., MultiHeadLayer]] = {
    "wrapper": MultiHeadAttentionWrapper,
    "split": MultiHeadAttention,
    "sdpa": FusedMultiHeadAttention,
    "torch": TorchMultiHeadAttention,
}


def make_mha(
    kind: str,
    d_model: int,
    num_heads: int,
    *,
    head_dim: int | None = None,
    d_out: int | None = None,
    qkv_bias: bool = False,
    dropout: float = 0.0,
) -> MultiHeadLayer:
    """Makes a multi-head layer of the kind that is named.

    Args:
        kind: ``wrapper`` or ``split``, to be read; ``sdpa``, the fast one; ``torch``,
            which is ``nn.MultiheadAttention``.
        d_model: width of the input.
        num_heads: heads side by side.
        head_dim: width of each; d_model / num_heads when left out.
        d_out: width of the output; d_model when left out.
        qkv_bias: whether queries, keys and values get a bias. The output has one.
        dropout: the probability that a weight is dropped while training.

    Raises:
        TypeError: a width that is not an int.
        ValueError: an unknown kind; widths that do not fit together, or that the kind
            cannot have; a dropout below 0, or of 1 and more.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    return KINDS[kind](
        d_model,
        num_heads,
        head_dim=head_dim,
        d_out=d_out,
        qkv_bias=qkv_bias,
        dropout=dropout,
    )


def _unpacked(
    weight: Tensor, bias: Tensor | None, out_proj: nn.Linear, num_heads: int
) -> dict[str, Sequence[Tensor]]:
    """Cuts a projection that packs queries, keys and values into those of the heads."""
    parts: dict[str, Sequence[Tensor]] = {
        f"out_proj.{name}": [own] for name, own in out_proj.named_parameters()
    }
    for name, packed in (("weight", weight), ("bias", bias)):
        if packed is not None:
            for role, rows in zip("qkv", packed.chunk(3), strict=True):
                parts[f"{role}_proj.{name}"] = rows.chunk(num_heads)
    return parts
