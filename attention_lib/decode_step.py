"""A fast path for one new token per text: the calls of a ``TinyLM``, inlined.

For a single token there is little to compute, and the time that Python takes for each
call matters. So a step looks up the weights once, skips checks of shapes that it makes
itself, and calls PyTorch's functions. The results are those of the model's call. A part
that has hooks, was replaced or is of an unknown class is called as usual.

Shapes: B batch, H heads, M d_model, D head_dim, V vocabulary.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.block import FeedForward, TinyBlock
from attention_lib.kv_cache import CacheLike, KVCache
from attention_lib.mha_variants import FusedMultiHeadAttention
from attention_lib.modules import (
    inlined,
    is_hooked,
    is_unmodified,
    uncompiled,
    weight_of,
)
from attention_lib.rope import apply_rope
from attention_lib.tiny_lm import TinyLM
from attention_lib.validation import (
    require_cache,
    require_instance,
    require_padding,
    require_token_ids,
    require_token_values,
)

PartStep = Callable[[Tensor, Tensor | None], Tensor]  # of x (B, 1, M) and its angles

# Hooks on the calls of all modules, which a step would skip.
_GLOBAL_HOOKS = (
    nn.modules.module._global_forward_hooks,
    nn.modules.module._global_forward_pre_hooks,
)


def make_decode_step(model: nn.Module, cache: KVCache) -> Callable[[Tensor], Tensor]:
    """Return a function that reads one new token (B, 1) of each text.

    It returns the scores (B, V) after the token, equal to those of a call with the
    cache. It holds on to the weights: make a new one when they, or hooks, have changed.

    Args:
        model: takes a cache.
        cache: of the model's ``new_cache``; each token is added to it.
    """
    # A compiled model would be compiled again as the cache grows.
    if not is_hooked(model):
        model = uncompiled(model)
    if isinstance(model, TinyLM):
        if cache is None:
            require_instance("cache", cache, KVCache)
        require_cache(cache, len(model.blocks))
    if (
        any(_GLOBAL_HOOKS)
        or not is_unmodified(model, TinyLM)
        or not can_inline(model.dropout, nn.Dropout)
    ):
        return lambda token_ids: model(token_ids, cache=cache)[:, -1]
    steps = [
        _block_step(block, layer_cache)
        for block, layer_cache in zip(model.blocks, cache.layers, strict=True)
    ]
    norm, head, config = inlined(model.last_norm), inlined(model.head), model.config
    embed, like = model.token_embedding, weight_of(model.token_embedding)

    def step(token_ids: Tensor) -> Tensor:
        start = cache.length
        most = config.context_len
        if isinstance(token_ids, Tensor) and token_ids.shape[1:] != (1,):
            shape = tuple(token_ids.shape)
            raise ValueError(f"token_ids must be (batch, 1), one new each; got {shape}")
        require_token_ids(token_ids, max_len=most, start=start, like=like)
        require_padding(cache, start)
        try:
            x = embed(token_ids) * config.d_model**0.5  # (B, 1, M)
        except IndexError:  # on the CPU, of a table's look-up
            require_token_values(token_ids, config.vocab_size)
            raise
        vectors, angles = model.position_terms(token_ids, start)
        x = x if vectors is None else x + vectors
        for block_step in steps:
            x = block_step(x, angles)
        return head(norm(x))[:, -1]

    return step


def _block_step(block: nn.Module, cache: CacheLike) -> PartStep:
    """Inline a pre-norm block, or call it if a part that is skipped does more."""
    if (
        not is_unmodified(block, TinyBlock)
        or block.norm != "pre"
        or not can_inline(block.dropout, nn.Dropout)
        or not can_inline(block.feed_forward, FeedForward, nn.Linear)
    ):
        return lambda x, angles: block(x, causal=True, angles=angles, cache=cache)
    attend = _attention_step(block.attention, cache)
    first, second = inlined(block.attention_norm), inlined(block.feed_forward_norm)
    up = inlined(block.feed_forward.up_proj)
    down = inlined(block.feed_forward.down_proj)

    def step(x: Tensor, angles: Tensor | None) -> Tensor:
        x = x + attend(first(x), angles)
        return x + down(F.gelu(up(second(x))))

    return step


def _attention_step(layer: nn.Module, cache: CacheLike) -> PartStep:
    """Inline attention of the kind ``sdpa``; call the others."""
    kind = FusedMultiHeadAttention
    if not is_unmodified(layer, kind) or not can_inline(layer, kind, nn.Linear):
        return lambda x, angles: layer(x, causal=True, angles=angles, cache=cache)
    heads = layer.num_heads
    project, project_out = inlined(layer.qkv_proj), inlined(layer.out_proj)

    def step(x: Tensor, angles: Tensor | None) -> Tensor:
        packed = project(x).view(len(x), 1, 3 * heads, -1).transpose(1, 2)
        query, key, value = packed.chunk(3, dim=1)  # (B, H, 1, D) each
        if angles is not None:
            query, key = apply_rope(query, angles), apply_rope(key, angles)
        context = F.scaled_dot_product_attention(query, *cache.append(key, value))
        return project_out(context.transpose(1, 2).flatten(start_dim=2))

    return step


def can_inline(part: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Return whether a step may inline or skip a part, and all modules in it.

    It may if each of them is of one of these classes, does only what its class does,
    and is in evaluation mode.

    Args:
        part: the part to inline or to skip.
        kinds: the classes that the step inlines.
    """
    require_instance("part", part, nn.Module)
    return all(
        type(it) in kinds and is_unmodified(it, type(it)) and not it.training
        for it in part.modules()
    )
