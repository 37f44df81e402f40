"""One new token per text, read in less time: the calls of a ``TinyLM``, taken apart.

Where a single token is read there is little to compute, and what Python does for each
call counts. So a step fetches the weights once, leaves out checks of shapes that it
makes itself, and calls PyTorch's functions. It gives the numbers of the model's call.
What is not known here, or has hooks, runs as it is called.

Shapes: B batch, H heads, M d_model, D head_dim, V vocabulary.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.block import FeedForward, TinyBlock
from attention_lib.kv_cache import CacheLike, KVCache
from attention_lib.mha_variants import FusedMultiHeadAttention
from attention_lib.modules import inlined, is_hooked, is_unmodified, weight_of
from attention_lib.rope import apply_rope
from attention_lib.tiny_lm import TinyLM
from attention_lib.validation import require_token_ids

PartStep = Callable[[Tensor, Tensor | None], Tensor]  # of x (B, 1, M) and its angles

# Hooks on the calls of all modules, which a step would leave out.
_EVERYWHERE = (
    nn.modules.module._global_forward_hooks,
    nn.modules.module._global_forward_pre_hooks,
)


def make_decode_step(model: nn.Module, cache: KVCache) -> Callable[[Tensor], Tensor]:
    """Makes a function that reads one new token (B, 1) of each text.

    It gives the scores (B, V) after it, equal to those of a call with the cache. It
    holds on to the weights: make it anew when they, or the hooks of a part, have
    changed.

    Args:
        model: takes a cache.
        cache: of the model's ``new_cache``; takes each token in.
    """
    # A compiler would compile anew as the cache grows: it serves the first call only.
    if not is_hooked(model):
        model = getattr(model, "_orig_mod", model)
    if (
        any(_EVERYWHERE)
        or not is_unmodified(model, TinyLM)
        or not can_inline(model.dropout, nn.Dropout)
    ):
        return lambda token_ids: model(token_ids, cache=cache)[:, -1]
    steps = [
        _block_step(block, own)
        for block, own in zip(model.blocks, cache.layers, strict=True)
    ]
    norm, head, config = inlined(model.last_norm), inlined(model.head), model.config
    embed, like = model.token_embedding, weight_of(model.token_embedding)

    def step(token_ids: Tensor) -> Tensor:
        start = cache.length
        require_token_ids(token_ids, max_len=config.context_len - start, like=like)
        x = embed(token_ids) * config.d_model**0.5  # (B, 1, M)
        vectors, angles = model.places(token_ids, start)
        x = x if vectors is None else x + vectors
        for each in steps:
            x = each(x, angles)
        return head(norm(x))[:, -1]

    return step


def _block_step(block: nn.Module, cache: CacheLike) -> PartStep:
    """Inline a pre-norm block, unless a part that this skips does more."""
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
    """Takes the kind ``sdpa`` apart; the others are called."""
    kind = FusedMultiHeadAttention
    if not is_unmodified(layer, kind) or not can_inline(layer, kind, nn.Linear):
        return lambda x, angles: layer(x, causal=True, angles=angles, cache=cache)
    heads = layer.num_heads
    project, join = inlined(layer.qkv_proj), inlined(layer.out_proj)

    def step(x: Tensor, angles: Tensor | None) -> Tensor:
        packed = project(x).view(len(x), 1, 3 * heads, -1).transpose(1, 2)
        query, key, value = packed.chunk(3, dim=1)  # (B, H, 1, D) each
        if angles is not None:
            query, key = apply_rope(query, angles), apply_rope(key, angles)
        context = F.scaled_dot_product_attention(query, *cache.append(key, value))
        return join(context.transpose(1, 2).flatten(start_dim=2))

    return step


def can_inline(part: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Return whether a step may leave out the call of a part, and of all in it.

    It may where each module is of one of these classes, does nothing else than its
    class says, and drops nothing.

    Args:
        part: what a step inlines or skips.
        kinds: the classes that the step knows.
    """
    return all(
        type(own) in kinds and is_unmodified(own, type(own)) and not own.training
        for own in part.modules()
    )
