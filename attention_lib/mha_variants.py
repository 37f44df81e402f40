"""One multi-head layer, four kinds: same signature, same masks, equal outputs.

``wrapper`` and ``split`` are written to be read; ``sdpa`` and ``torch`` call PyTorch's
kernels. Shapes, masks and empty rows are those of ``multi_head``.
"""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from attention_lib.kv_cache import CacheLike
from attention_lib.masks import with_causal
from attention_lib.modules import is_unmodified
from attention_lib.multi_head import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiHeadLayer,
    add_head_axis,
    split_heads,
)
from attention_lib.validation import (
    require_choice,
    require_flags,
    require_mask,
    require_source,
)


class FusedMultiHeadAttention(MultiHeadLayer):
    """One projection for queries, keys and values together, then PyTorch's kernel.

    Its options and its call are those of ``MultiHeadLayer``. Where
    ``causal=True`` is the only mask, the kernel is told so, and skips the future.
    """

    def _build(self, d_model: int, head_dim: int, d_out: int, qkv_bias: bool) -> None:
        width = self.num_heads * head_dim
        self.qkv_proj = nn.Linear(d_model, 3 * width, bias=qkv_bias)
        self.out_proj = nn.Linear(width, d_out)

    def _project(
        self, x: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        source = require_source(x, memory, self.qkv_proj, self.d_model)
        # Cut along the width first: backward joins three gradients without a copy.
        query, key, value = self.qkv_proj(x).chunk(3, dim=-1)  # (B, T, H·D) each
        if memory is not None:  # a projection is called whole, so a third is not used
            _, key, value = self.qkv_proj(source).chunk(3, dim=-1)
        return (
            split_heads(query, self.num_heads),
            split_heads(key, self.num_heads),
            split_heads(value, self.num_heads),
        )

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        *,
        square: bool,
    ) -> Tensor:
        require_flags(causal=causal)
        is_causal = causal and mask is None and square
        if not is_causal:
            mask = with_causal(mask, causal, query, key)
        if mask is not None:
            require_mask(mask, (*query.shape[:-1], key.shape[-2]), like=query)
            if mask.ndim < 2:
                mask = mask.view(1, -1)  # the kernel wants both axes, (Q, K)
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=self.dropout if self.training else 0.0,
        )

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Return views of all parameters, as ``MultiHeadAttention`` does."""
        return _unpacked(self, "qkv_proj.", self.num_heads)


class TorchMultiHeadAttention(MultiHeadLayer):
    """``nn.MultiheadAttention`` behind this book's signature and meaning of masks.

    Its heads divide ``d_model`` among them, and its output is as wide as its input.
    Its options and its call are those of ``MultiHeadLayer``.

    PyTorch's module has no modules for queries, keys and values: only ``attention`` as
    a whole and ``attention.out_proj`` can be replaced or get hooks. It reads the
    weights of ``out_proj`` and never calls it, so if that is not a plain one, this
    layer attends as ``MultiHeadAttention`` does. An ``attention`` that was replaced or
    has hooks takes neither angles nor a cache, and shows no weights.

    Raises:
        ValueError: angles, a cache or ``attention_weights`` where ``attention`` has
            hooks or was replaced; other widths.
    """

    def _build(self, d_model: int, head_dim: int, d_out: int, qkv_bias: bool) -> None:
        if (self.num_heads * head_dim, d_out) != (d_model, d_model):
            raise ValueError(
                'the kind "torch" needs num_heads · head_dim = d_out = d_model; got '
                f"{self.num_heads} · {head_dim}, {d_out} and {d_model}: take the kind "
                '"sdpa"'
            )
        self.attention = nn.MultiheadAttention(
            d_model, self.num_heads, dropout=self.dropout, batch_first=True
        )
        if not qkv_bias:  # its own flag would take the output's bias away as well
            self.attention.register_parameter("in_proj_bias", None)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Attend in all heads at once, then mix their outputs.

        PyTorch's module takes neither angles nor a cache: with these, this layer
        attends as ``MultiHeadAttention`` does.
        """
        out = getattr(self.attention, "out_proj", None)  # a wrapper may have none
        called = out and not is_unmodified(out, NonDynamicallyQuantizableLinear)
        if called or angles is not None or cache is not None:
            return super().forward(
                x, mask, causal=causal, memory=memory, angles=angles, cache=cache
            )
        source = require_source(x, memory, out or self.attention, self.d_model)
        of_heads = x[:, None].expand(-1, self.num_heads, -1, -1)  # (B, H, T, M)
        mask = with_causal(add_head_axis(mask), causal, of_heads, source)
        if mask is not None:
            # There True means "blocked", and heads join the batch: (B·H, T, K).
            full = (x.shape[0], self.num_heads, x.shape[1], source.shape[1])
            require_mask(mask, full, like=x)
            mask = ~mask.expand(full).flatten(end_dim=1)
        # Where all three are one tensor, evaluation takes a fast path that returns nan
        # for an empty row. With a mask, a second view of x avoids it.
        if mask is not None and memory is None:
            source = x.view_as(x)
        context, _ = self.attention(
            x, source, source, attn_mask=mask, need_weights=False
        )
        return context

    def _project(
        self, x: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        packed = self.attention
        if not is_unmodified(packed, nn.MultiheadAttention):
            raise ValueError(
                "attention has hooks or was replaced, so it must be called as a whole: "
                "use it without angles, a cache, attention_weights and a replaced "
                'out_proj, or use a kind other than "torch"'
            )
        require_source(x, memory, self.out_proj, self.d_model)
        return _project_packed(
            x, memory, packed.in_proj_weight, packed.in_proj_bias, self.num_heads
        )

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Return views of all parameters, as ``MultiHeadAttention`` does."""
        return _unpacked(self.attention, "in_proj_", self.num_heads)

    @property
    def out_proj(self) -> nn.Module:  # type: ignore[override]
        """The output projection, which PyTorch's module holds."""
        return self.attention.out_proj


MHA_VARIANTS: dict[str, type[MultiHeadLayer]] = {
    "wrapper": MultiHeadAttentionWrapper,
    "split": MultiHeadAttention,
    "sdpa": FusedMultiHeadAttention,
    "torch": TorchMultiHeadAttention,
}


def make_mha(kind: str, d_model: int, num_heads: int, **options: Any) -> MultiHeadLayer:
    """Make a multi-head layer of the given kind.

    Args:
        kind: ``wrapper`` or ``split``, written to be read; ``sdpa``, the fast one;
            ``torch``, which is ``nn.MultiheadAttention``.
        d_model: width of the input.
        num_heads: number of heads.
        options: those of ``MultiHeadLayer``.

    Raises:
        TypeError: a width that is not an int; an unknown option.
        ValueError: an unknown kind; widths that do not fit together, or not this kind;
            a dropout below 0, or of 1 and more.
    """
    require_choice("kind", kind, MHA_VARIANTS)
    return MHA_VARIANTS[kind](d_model, num_heads, **options)


def _project_packed(
    x: Tensor,
    memory: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries, keys and values of all heads, from one packed projection."""
    if memory is None:
        # Cut along the width first: backward joins three gradients without a copy.
        query, key, value = F.linear(x, weight, bias).chunk(3, dim=-1)  # (B, T, H·D)
    else:
        sizes = weight.shape[0] // 3, weight.shape[0] // 3 * 2
        of_query, of_source = weight.split(sizes)
        bias_query, bias_source = (None, None) if bias is None else bias.split(sizes)
        query = F.linear(x, of_query, bias_query)
        key, value = F.linear(memory, of_source, bias_source).chunk(2, dim=-1)
    return (
        split_heads(query, num_heads),
        split_heads(key, num_heads),
        split_heads(value, num_heads),
    )


def _unpacked(
    layer: nn.Module, packed: str, num_heads: int
) -> dict[str, Sequence[Tensor]]:
    """Split a packed projection into those of queries, keys and values of each head.

    Further parameters, such as those of an adapter, belong to no head.
    """
    parts: dict[str, Sequence[Tensor]] = {}
    for name, own in layer.named_parameters():
        end = name.removeprefix(packed)
        if name == packed + end and end in ("weight", "bias"):
            for role, rows in zip("qkv", own.chunk(3), strict=True):
                parts[f"{role}_proj.{end}"] = rows.chunk(num_heads)
        else:
            parts[name] = [own]
    return parts
