"""A cache of keys and values, and generation: nothing that was read is read again.

Shapes: B batch, H heads, T new tokens, K all tokens so far, D head_dim, V vocabulary.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from attention_lib.masks import padding_mask
from attention_lib.reproducibility import evaluation_mode
from attention_lib.sampling import pick_token
from attention_lib.validation import (
    check_crop,
    check_flags,
    check_instance,
    check_positive,
    check_prompt,
    check_room,
    check_space,
    check_stop,
)

_EVERYWHERE = (
    nn.modules.module._global_forward_hooks,
    nn.modules.module._global_forward_pre_hooks,
)
Step = Callable[..., Tensor]  # one new token per text, and its angles if it is turned


class LayerCache:
    """The keys and values of one layer, in memory that is set aside once.

    Args:
        batch_size: how many texts.
        num_heads: heads of the keys and values.
        max_len: how many tokens there is room for.
        head_dim: width of a key.
        value_dim: width of a value; ``head_dim`` when left out.
        device: where the memory lies.
        dtype: the type of keys and values.

    Raises:
        TypeError: a size that is not an int.
        ValueError: a size below 1; more tokens than there is room for.
    """

    def __init__(
        self,
        batch_size: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        check_positive(batch_size=batch_size, num_heads=num_heads, max_len=max_len)
        check_positive(head_dim=head_dim, value_dim=value_dim)
        room = batch_size, num_heads, max_len
        self.keys = torch.zeros(*room, head_dim, device=device, dtype=dtype)
        self.values = torch.zeros(*room, value_dim, device=device, dtype=dtype)
        self.max_len = max_len
        self.length = 0

    def append(
        self, key: Float[Tensor, "B H T D"], value: Float[Tensor, "B H T V"]
    ) -> tuple[Float[Tensor, "B H K D"], Float[Tensor, "B H K V"]]:
        """Adds new tokens behind the old ones, and gives all: views, not copies."""
        start, end = self.length, self.length + key.shape[-2]
        check_room(key, value, self.keys, end)
        self.keys[:, :, start:end] = key
        self.values[:, :, start:end] = value
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def crop(self, length: int) -> None:
        """Forgets all but the first tokens; their room is free again."""
        check_crop(length, self.length)
        self.length = length

    def repeat(self, times: int) -> "LayerCache":
        """Gives a cache of ``times`` as many texts, each with a copy of its own."""
        check_positive(times=times)
        copy = object.__new__(type(self))
        copy.__dict__ |= self.__dict__
        copy.keys = self.keys.repeat(times, 1, 1, 1)
        copy.values = self.values.repeat(times, 1, 1, 1)
        return copy

    @property
    def nbytes(self) -> int:
        """The bytes that are set aside."""
        return self.keys.nbytes + self.values.nbytes


class KVCache:
    """The caches of a model's layers; made by ``model.new_cache``.

    Args:
        layers: one cache per layer, as ``layer.new_cache`` makes it.
    """

    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = list(layers)

    @property
    def length(self) -> int:
        """How many tokens were read."""
        return self.layers[0].length

    @property
    def max_len(self) -> int:
        """How many tokens there is room for."""
        return self.layers[0].max_len

    def crop(self, length: int) -> None:
        """Forgets all but the first ``length`` tokens of every text.

        Raises:
            TypeError: a length that is not an int.
            ValueError: a length below 0, or above the tokens that were read.
        """
        for layer in self.layers:
            layer.crop(length)

    def repeat(self, times: int) -> "KVCache":
        """Gives a cache with all texts ``times`` over, as ``Tensor.repeat`` does.

        So a beginning is read once and serves many texts; this cache stays as it is.

        Raises:
            TypeError: a number that is not an int.
            ValueError: a number below 1.
        """
        return KVCache([layer.repeat(times) for layer in self.layers])

    @property
    def nbytes(self) -> int:
        """The bytes that are set aside for all layers."""
        return sum(layer.nbytes for layer in self.layers)


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
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


def generate(
    model: nn.Module,
    token_ids: Int[Tensor, "B T"],
    *,
    max_new_tokens: int,
    lengths: Int[Tensor, " B"] | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | None = None,
    use_cache: bool = True,
    cache: KVCache | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B T+{max_new_tokens}"]:
    """Adds tokens to each text, one by one; with a cache, each token is read once.

    Args:
        model: gives logits (B, T, V) for ids; its context must hold the result, all but
            the last token. One without ``new_cache`` is never given a cache.
        token_ids: the beginnings, padded on the right where they are shorter.
        max_new_tokens: how many to add.
        lengths: how many tokens of each text are real; all when left out. Then the
            model must be causal, and with a cache take a mask and positions.
        temperature: see ``pick_token``.
        top_k: see ``pick_token``.
        top_p: see ``pick_token``.
        stop: the token that ends a text; it fills the rest of a text that met it.
        use_cache: False reads each text anew for every token: the same, but slower.
        cache: of ``model.new_cache``, holds what stands before ``token_ids``, and takes
            in all that is read. After texts of unequal length it is cut back to what it
            held before, since padding lies among them.
        generator: see ``pick_token``.

    Returns:
        The texts (B, T + n); each has its tokens, then the new ones, then the padding
        that it came with.

    Raises:
        TypeError: no model; ids, lengths or a stop that are not whole numbers; another
            cache; see ``pick_token``.
        ValueError: a result that the context or the cache does not hold, before the
            first token is added; an id outside the vocabulary; lengths below 1 or
            above T; a cache beside ``use_cache=False``; see ``pick_token``.
    """
    check_instance("model", model, nn.Module)
    check_positive(max_new_tokens=max_new_tokens)
    check_flags(use_cache=use_cache)
    if cache is not None:
        check_instance("cache", cache, KVCache)
        check_space(cache, token_ids, max_new_tokens, use_cache)
    start = 0 if cache is None else cache.length
    check_prompt(model, token_ids, max_new_tokens, lengths, start)
    check_stop(model, stop)
    real = _real(token_ids, lengths)
    own = cache
    with evaluation_mode(model), torch.inference_mode():
        if cache is None and use_cache and hasattr(model, "new_cache"):
            longest = token_ids.shape[1] + max_new_tokens - 1  # the last is never read
            own = model.new_cache(len(token_ids), longest)  # type: ignore[operator]
        step = None
        if own is not None and real is None and hasattr(model, "new_step"):
            step = model.new_step(own)  # type: ignore[operator]
        new: list[Tensor] = []
        ended = torch.zeros_like(token_ids[:, 0], dtype=torch.bool)
        for _ in _count(max_new_tokens):
            if step is not None and new:
                logits = step(new[-1][:, None])
            elif own is None:
                logits = _read_anew(model, token_ids, new, real)
            else:
                logits = _read_on(model, token_ids, new, real, own, start)
            picked = pick_token(
                logits,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                generator=generator,
            )
            if stop is not None:
                picked = picked.masked_fill(ended, stop)
                ended |= picked == stop
            new.append(picked)
            if stop is not None and not ended.is_meta and ended.all():
                break
    if real is not None and cache is not None:
        cache.crop(start)
    added = torch.stack(new, dim=1)
    # Made anew, out of inference mode: a model may learn from it.
    added = F.pad(added, (0, max_new_tokens - len(new)), value=stop or 0)
    return _joined(token_ids, added, real)


def _count(steps: int) -> Iterable[int]:
    """Counts the tokens, with a progress bar where they are many."""
    if steps < 200:
        return range(steps)
    return tqdm(range(steps), desc="generating", unit="token", leave=False)


def _real(token_ids: Tensor, lengths: Tensor | None) -> Tensor | None:
    """Says which tokens are real, (B, T); None where all are."""
    longest = token_ids.shape[1]
    if lengths is None or not (lengths.is_meta or (lengths < longest).any()):
        return None
    return padding_mask(lengths, longest)[:, 0]


def _joined(token_ids: Tensor, added: Tensor, real: Tensor | None) -> Tensor:
    """Puts the new tokens of each text behind its real ones."""
    joined = torch.cat([token_ids, added], dim=1)
    if real is None:
        return joined
    # A stable sort keeps each kind in order: real ones, new ones, padding.
    kind = torch.cat([2 - 2 * real.long(), torch.ones_like(added)], dim=1)
    return joined.gather(1, kind.argsort(dim=1, stable=True))


def _read_anew(
    model: nn.Module, token_ids: Tensor, new: list[Tensor], real: Tensor | None
) -> Tensor:
    """Reads all of each text, and gives the scores (B, V) after its last token."""
    texts = _joined(token_ids, torch.stack(new, dim=1), real) if new else token_ids
    logits = model(texts)  # padding on the right: no real token sees it
    if real is None:
        return logits[:, -1]
    last = real.sum(dim=1) + len(new) - 1  # (B,)
    return logits[torch.arange(len(texts), device=texts.device), last]


def _read_on(
    model: nn.Module,
    token_ids: Tensor,
    new: list[Tensor],
    real: Tensor | None,
    cache: KVCache,
    start: int,
) -> Tensor:
    """Reads what is not in the cache yet, and gives the scores (B, V) after it."""
    if real is None:
        unread = new[-1][:, None] if new else token_ids
        return model(unread, cache=cache)[:, -1]
    # Padding on the left: all texts end in one column, where the next token goes.
    left = real.flip(1)  # (B, T)
    if new:
        unread = new[-1][:, None]
    else:
        unread = token_ids.gather(1, real.long().argsort(dim=1, stable=True))
    seen = F.pad(left, (start, len(new)), value=True)  # (B, K)
    places = (seen.cumsum(dim=1) - 1).clamp(min=0)[:, -unread.shape[1] :]
    logits = model(unread, mask=seen[:, None], positions=places, cache=cache)
    return logits[:, -1]
