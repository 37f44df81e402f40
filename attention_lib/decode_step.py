"""One new token per text, read in less time: the calls of a ``TinyLM``, taken apart.

Where a single token is read there is little to compute, and what Python does for each
call counts. So a step fetches the weights once, leaves out checks of shapes that it
makes itself, and calls PyTorch's functions. It gives the numbers of the model's call.
What is not known here, or has hooks, runs as it is called.

Shapes: B batch, H heads, M d_model, D head_dim, V vocabulary.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeGuard, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.backends import FusedMultiHeadAttention
from attention_lib.block import FeedForward, TinyBlock
from attention_lib.caches import KVCache, LayerCache
from attention_lib.model import TinyLM
from attention_lib.rope import apply_rope
from attention_lib.validation import check_token_ids

Kind = TypeVar("Kind", bound=nn.Module)
PartStep = Callable[[Tensor, Tensor | None], Tensor]  # of x (B, 1, M) and its angles

_EVERYWHERE = (
    nn.modules.module._global_forward_hooks,
    nn.modules.module._global_forward_pre_hooks,
)


def new_step(model: nn.Module, cache: KVCache) -> Callable[[Tensor], Tensor]:
    """Makes a function that reads one new token (B, 1) of each text.

    It gives the scores (B, V) after it, equal to those of a call with the cache. It
    holds on to the weights: make it anew when they, or the hooks of a part, have
    changed.

    Args:
        model: takes a cache.
        cache: of the model's ``new_cache``; takes each token in.
    """
    # A compiler would compile anew as the cache grows: it serves the first call only.
    model = getattr(model, "_orig_mod", model)
    if not is_plain(model, TinyLM) or model.dropout.training:
        return lambda token_ids: model(token_ids, cache=cache)[:, -1]
    steps = [
        _block_step(block, own)
        for block, own in zip(model.blocks, cache.layers, strict=True)
    ]
    norm, head, config = bound(model.last_norm), bound(model.head), model.config
    embed, weight = model.token_embedding, model.token_embedding.weight

    def step(token_ids: Tensor) -> Tensor:
        start = cache.length
        check_token_ids(token_ids, max_len=config.context_len - start, like=weight)
        x = embed(token_ids) * config.d_model**0.5  # (B, 1, M)
        vectors, angles = model.places(token_ids, start)
        x = x if vectors is None else x + vectors
        for each in steps:
            x = each(x, angles)
        return head(norm(x))[:, -1]

    return step


def _block_step(block: nn.Module, cache: LayerCache) -> PartStep:
    """Takes a pre-norm block apart, where nothing is dropped."""
    if (
        not is_plain(block, TinyBlock)
        or not is_plain(block.feed_forward, FeedForward)
        or block.norm != "pre"
        or block.dropout.training
    ):
        return lambda x, angles: block(x, causal=True, angles=angles, cache=cache)
    attend = _attention_step(block.attention, cache)
    first, second = bound(block.attention_norm), bound(block.feed_forward_norm)
    up = bound(block.feed_forward.up_proj)
    down = bound(block.feed_forward.down_proj)

    def step(x: Tensor, angles: Tensor | None) -> Tensor:
        x = x + attend(first(x), angles)
        return x + down(F.gelu(up(second(x))))

    return step


def _attention_step(layer: nn.Module, cache: LayerCache) -> PartStep:
    """Takes the kind ``sdpa`` apart; the others are called."""
    if not is_plain(layer, FusedMultiHeadAttention) or layer.training:
        return lambda x, angles: layer(x, causal=True, angles=angles, cache=cache)
    heads = layer.num_heads
    project, join = bound(layer.qkv_proj), bound(layer.out_proj)

    def step(x: Tensor, angles: Tensor | None) -> Tensor:
        packed = project(x).view(len(x), 1, 3 * heads, -1).transpose(1, 2)
        query, key, value = packed.chunk(3, dim=1)  # (B, H, 1, D) each
        if angles is not None:
            query, key = apply_rope(query, angles), apply_rope(key, angles)
        context = F.scaled_dot_product_attention(query, *cache.append(key, value))
        return join(context.transpose(1, 2).flatten(start_dim=2))

    return step


def is_plain(module: nn.Module, kind: type[Kind]) -> TypeGuard[Kind]:
    """Says whether a call of a module does nothing but the ``forward`` of this class.

    It does more where somebody hooked into it, compiled it or replaced its ``forward``.
    """
    hooks = module._forward_hooks, module._forward_pre_hooks
    own = "forward" in vars(module) or module._compiled_call_impl is not None
    return type(module) is kind and not (any(hooks) or any(_EVERYWHERE) or own)


def bound(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Gives a plain layer of PyTorch as a function with its weights at hand.

    It gives the same numbers and takes less time, which counts where a single token
    is read. Any other module is given as it is.
    """
    if isinstance(module, nn.Linear) and is_plain(module, nn.Linear):
        return partial(F.linear, weight=module.weight, bias=module.bias)
    if isinstance(module, nn.LayerNorm) and is_plain(module, nn.LayerNorm):
        weight, bias, eps = module.weight, module.bias, module.eps
        shape = list(module.normalized_shape)
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return module
