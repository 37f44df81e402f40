"""Multi-head attention, built twice: as a list of heads, and as one split layer.

Shapes: B batch, T length, S length of a memory, Q and K query and key length, M
d_model, H heads, D head_dim, O the width of the output. Masks are boolean, True means
"may attend"; a mask without an axis for the heads holds for all heads.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.attention import (
    SelfAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.masks import with_causal
from attention_lib.modules import is_unmodified, placement
from attention_lib.rope import Layout, apply_rope
from attention_lib.validation import (
    require_alone,
    require_dropout,
    require_flags,
    require_heads,
    require_layer_cache,
    require_layout,
    require_mask,
    require_positive,
    require_source,
)


def split_heads(x: Float[Tensor, "B T HD"], num_heads: int) -> Float[Tensor, "B H T D"]:
    """Split the width into heads, and move the heads in front of the tokens.

    Args:
        x: the heads side by side, head 0 first.
        num_heads: how many heads the width holds.

    Raises:
        TypeError: not a tensor; a number of heads that is not an int.
        ValueError: a wrong number of axes; a width that the heads do not divide.
    """
    require_layout(x, "batch", "length", "width")
    head_dim = require_heads(x.shape[-1], num_heads)
    batch, length, _ = x.shape
    x = x.view(batch, length, num_heads, head_dim)  # (B, T, H, D)
    return x.transpose(1, 2)  # (B, H, T, D)


def merge_heads(x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T HD"]:
    """Put the heads side by side again: undoes ``split_heads``.

    Raises:
        TypeError: not a tensor.
        ValueError: a wrong number of axes.
    """
    require_layout(x, "batch", "heads", "length", "head_dim")
    return x.transpose(1, 2).flatten(start_dim=2)  # (B, T, H, D) -> (B, T, H·D)


def add_head_axis(mask: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Add an axis for the heads to a mask of three axes; return others as they are.

    (B, Q, K) becomes (B, 1, Q, K). Fewer axes broadcast as they are, and a mask of four
    axes already has an axis for the heads.
    """
    return mask[:, None] if isinstance(mask, Tensor) and mask.ndim == 3 else mask


def split_mask(
    mask: Bool[Tensor, "..."] | None, x: Float[Tensor, "B T M"], num_heads: int
) -> list[Bool[Tensor, "..."] | None]:
    """Return a mask for each head: the same one, unless (B, H, Q, K) has several.

    Args:
        mask: the mask of the layer's call.
        x: the input of the same call; each head compares the mask with its own keys.
        num_heads: how many heads there are.

    Raises:
        TypeError: a number of heads that is not an int.
        ValueError: a number of heads below 1; a mask of four axes that does not
            broadcast to (B, H, T, K).
    """
    require_positive(num_heads=num_heads)
    if not isinstance(mask, Tensor) or mask.ndim != 4:
        return [mask] * num_heads
    require_layout(x, "batch", "length", "width")
    batch, length, _ = x.shape
    require_mask(mask, (batch, num_heads, length, mask.shape[-1]), like=x)
    return list(mask.expand(-1, num_heads, -1, -1).unbind(dim=1))  # H of (B, Q, K)


class MultiHeadLayer(nn.Module):
    """The options and the call that all kinds of multi-head attention share.

    Each kind defines its parameters (``_build``), how it makes queries, keys and values
    (``_project``), and how it attends with them (``_attend``).

    Args:
        d_model: width of the input.
        num_heads: number of heads.
        head_dim: width of each head; d_model / num_heads when left out.
        d_out: width of the output; d_model when left out.
        qkv_bias: whether queries, keys and values get a bias. The output has one.
        dropout: the probability that a weight is dropped while training.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: a width that the heads do not divide, or below 1; a dropout below
            0, or of 1 and more; an input of another width, or with an empty axis.
    """

    out_proj: nn.Linear
    layout: Layout = "half"  # of the pairs that are rotated

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
        head_dim = require_heads(d_model, num_heads, head_dim, d_out)
        require_flags(qkv_bias=qkv_bias)
        require_dropout(dropout)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, head_dim
        self.dropout = dropout
        self._build(d_model, head_dim, d_out or d_model, qkv_bias)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T O"]:
        """Attend in all heads, join their outputs and project them.

        Args:
            x: the source of the queries, and without a memory also of keys and values.
            mask: True where a query may attend to a key; broadcasts to (B, T, T), the
                same for all heads, or is (B, H, T, T).
            causal: hides the future as well; see ``causal_mask``.
            memory: the source of keys and values; then K = S.
            angles: rotate queries and keys; P = D/2. See ``rope_angles``.
            cache: of ``new_cache``, keeps the keys and values of all calls; x holds
                the tokens that are new, and K is the number of all so far.
        """
        mask = add_head_axis(mask)
        require_alone(memory, cache=cache)
        require_layer_cache(cache, x, mask, causal, self.num_heads)
        empty = cache is None or getattr(cache, "is_empty", False)
        square = memory is None and empty
        query, key, value = self._queries_keys_values(x, memory, angles, cache)
        if cache is not None and x.shape[1] == 1:
            causal = False  # a single new token is the last: nothing comes after it
        context = self._attend(query, key, value, mask, causal, square=square)
        return self.out_proj(merge_heads(context))  # (B, T, H·D) -> (B, T, O)

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
    ) -> Float[Tensor, "B H T K"]:
        """Return the attention weights of each head, before dropout."""
        query, key, _ = self._queries_keys_values(x, memory, angles)
        mask = with_causal(add_head_axis(mask), causal, query, key)
        return attention_weights(query, key, mask)

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache for texts of at most ``max_len`` tokens."""
        sizes = batch_size, self.num_heads, max_len, self.head_dim
        return LayerCache(*sizes, **placement(self))

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Return views of all parameters, cut into heads where they belong to one.

        The weight of a projection is H pieces of (D, M), its bias H of (D,). The
        output projection belongs to all heads: one piece each.
        """
        raise NotImplementedError

    def _build(self, d_model: int, head_dim: int, d_out: int, qkv_bias: bool) -> None:
        """Make the parameters, unless a layer with further options does it itself."""

    def _project(
        self, x: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (B, H, T, D), and keys and values (B, H, K, D)."""
        raise NotImplementedError

    def _rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        """Rotate all heads of queries or keys; angles are (T, P) or (B, T, P)."""
        angles = angles[:, None] if getattr(angles, "ndim", 0) == 3 else angles
        return apply_rope(x, angles, layout=self.layout)

    def _queries_keys_values(
        self,
        x: Tensor,
        memory: Tensor | None,
        angles: Tensor | None = None,
        cache: CacheLike | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries of x, and keys and values of all tokens to attend to."""
        require_alone(memory, angles=angles, cache=cache)
        query, key, value = self._project(x, memory)
        if angles is not None:
            query, key = self._rotate(query, angles), self._rotate(key, angles)
        if cache is not None:
            key, value = cache.append(key, value)
        return query, key, value

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
        """Return the output of each head, (B, H, T, D).

        ``square``: the keys are those of the queries' own tokens, so that K = T. The
        shapes do not decide it: an export would then hold for one length.
        """
        return scaled_dot_product_attention(
            query,
            key,
            value,
            with_causal(mask, causal, query, key),
            dropout=self.dropout if self.training else 0.0,
        )


class MultiHeadAttentionWrapper(MultiHeadLayer):
    """A list of separate heads, joined and projected: equal to the split kind.

    Its options and its call are those of ``MultiHeadLayer``.
    """

    def _build(self, d_model: int, head_dim: int, d_out: int, qkv_bias: bool) -> None:
        self.heads = nn.ModuleList(
            SelfAttention(d_model, head_dim, qkv_bias=qkv_bias, dropout=self.dropout)
            for _ in range(self.num_heads)
        )
        self.out_proj = nn.Linear(self.num_heads * head_dim, d_out)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T O"]:
        """Attend in each head separately, join the outputs and project them.

        With angles or a cache, it does so for all heads at once.
        """
        if angles is not None or cache is not None:
            return super().forward(
                x, mask, causal=causal, memory=memory, angles=angles, cache=cache
            )
        masks = split_mask(mask, x, self.num_heads)
        contexts = [
            head(x, head_mask, causal=causal, memory=memory)
            for head, head_mask in zip(self.heads, masks, strict=True)
        ]
        return self.out_proj(torch.cat(contexts, dim=-1))  # (B, T, H·D) -> (B, T, O)

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
    ) -> Float[Tensor, "B H T K"]:
        """Return the attention weights of each head, before dropout."""
        if angles is not None:
            return super().attention_weights(
                x, mask, causal=causal, memory=memory, angles=angles
            )
        masks = split_mask(mask, x, self.num_heads)
        maps = [
            head.attention_weights(x, own, causal=causal, memory=memory)  # type: ignore[operator]
            for head, own in zip(self.heads, masks, strict=True)
        ]
        return torch.stack(maps, dim=1)  # H of (B, T, K) -> (B, H, T, K)

    def _project(
        self, x: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        for head in self.heads:
            if not is_unmodified(head, SelfAttention):
                raise ValueError(
                    "a head has hooks or was replaced, and a head can only be called "
                    "without angles and a cache: leave them out, or use a kind other "
                    'than "wrapper"'
                )
        first = self.heads[0].get_submodule("q_proj")
        source = require_source(x, memory, first, self.d_model)
        inputs = {"q_proj": x, "k_proj": source, "v_proj": source}
        query, key, value = (
            torch.stack([head.get_submodule(name)(of) for head in self.heads], dim=1)
            for name, of in inputs.items()
        )  # (B, H, T, D) each
        return query, key, value

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Return the parameters themselves: each belongs to one head already."""
        shared = self.out_proj.named_parameters(prefix="out_proj")
        parts: dict[str, Sequence[Tensor]] = {name: [whole] for name, whole in shared}
        each = [dict(head.named_parameters()) for head in self.heads]
        for name in dict.fromkeys(chain(*each)):  # such as q_proj.weight
            parts[name] = [own[name] for own in each if name in own]
        return parts


class MultiHeadAttention(MultiHeadLayer):
    """One projection each for all queries, keys and values, then split into heads.

    Vaswani et al. (2017), section 3.2.2. Its options and its call are those of
    ``MultiHeadLayer``.
    """

    def _build(self, d_model: int, head_dim: int, d_out: int, qkv_bias: bool) -> None:
        width = self.num_heads * head_dim
        self.q_proj = nn.Linear(d_model, width, bias=qkv_bias)
        self.k_proj = nn.Linear(d_model, width, bias=qkv_bias)
        self.v_proj = nn.Linear(d_model, width, bias=qkv_bias)
        self.out_proj = nn.Linear(width, d_out)

    def _project(
        self, x: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        source = require_source(x, memory, self.q_proj, self.d_model)
        return (
            split_heads(self.q_proj(x), self.num_heads),
            split_heads(self.k_proj(source), self.num_heads),
            split_heads(self.v_proj(source), self.num_heads),
        )

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Return views of all parameters: head 0 is the first D rows, and so on."""
        return {
            name: [own] if name.startswith("out_proj") else own.chunk(self.num_heads)
            for name, own in self.named_parameters()
        }


def copy_weights(source: MultiHeadLayer, target: MultiHeadLayer) -> None:
    """Copy the weights of ``source`` to ``target``; their kinds may differ.

    Raises:
        TypeError: not a multi-head layer.
        ValueError: layers of different widths, heads or biases, or with an option that
            makes equal weights compute something else, such as a window.
    """
    for name, layer in (("source", source), ("target", target)):
        if isinstance(layer, type) or not hasattr(layer, "weights_by_head"):
            kind = repr(layer) if isinstance(layer, type) else type(layer).__name__
            raise TypeError(f"{name} must be a multi-head layer; got {kind}")
    given, wanted = source.weights_by_head(), target.weights_by_head()
    built = [
        {name: f"{len(parts)} of {tuple(parts[0].shape)}" for name, parts in of.items()}
        | _options(layer)
        for of, layer in ((given, source), (wanted, target))
    ]
    if built[0] != built[1]:
        of, to = built
        name = next(it for it in {**of, **to} if of.get(it) != to.get(it))
        raise ValueError(
            f"source and target must be built the same way; got {name} "
            f"{of.get(name)} in the source and {to.get(name)} in the target"
        )
    with torch.no_grad():
        for name, parts in wanted.items():
            for part, new in zip(parts, given[name], strict=True):
                part.copy_(new)  # a view, so this fills the target's own parameter


def _options(layer: MultiHeadLayer) -> dict[str, Any]:
    """Return what changes the numbers of a layer besides its weights."""
    scale = getattr(layer, "scale", getattr(layer, "head_dim", 1) ** -0.5)
    norms = [part for part in layer.modules() if hasattr(part, "eps")]
    buckets = getattr(layer, "num_buckets", 0)
    return {
        "layout": getattr(layer, "layout", "half"),
        # 1/√D can be computed in several ways.
        "scale": f"{scale:.6g}" if isinstance(scale, float) else str(scale),
        "softcap": getattr(layer, "softcap", None),
        "window": getattr(layer, "window", None),
        "rope_scale": getattr(layer, "rope_scale", 1.0),
        # Without buckets, nothing depends on the distance.
        "buckets": buckets and (layer.max_distance, layer.both_ways),
        "norms": [
            (f"{part.eps or -1:.6g}", getattr(part, "unit_offset", False))
            for part in norms
        ],
    }
