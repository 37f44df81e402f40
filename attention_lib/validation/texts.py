"""Data that enters: texts, rows of ids, and batches for a model, their values too.

Tensors on ``meta`` have no values, so there only shapes and types are checked.
"""

import inspect
import operator
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.modules import uncompiled
from attention_lib.validation._common import (
    is_readable,
    require_between,
    require_same_device,
    require_whole,
)
from attention_lib.validation.layers import require_length_values, require_token_ids
from attention_lib.validation.sizes import require_instance, require_positive


def require_text(text: Any) -> None:
    """Check that a text can be written in every encoding.

    Half of a pair of surrogates is not a character, so it is refused.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str; got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds {text[error.start]!r} at {error.start}, which is not a "
            "character: was it read with the right encoding?"
        ) from None


def require_texts(texts: Any) -> None:
    """Check that there are texts, and something in them to learn from."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        received = "a single one" if isinstance(texts, str) else type(texts).__name__
        raise TypeError(f"texts must be a list of texts; got {received}: write [text]")
    for text in texts:
        require_text(text)
    if not any(texts):
        raise ValueError("the text is empty: there is nothing to learn from")


def require_messages(messages: Any) -> None:
    """Check the messages of a chat: each has a role, and a content.

    That is a text, a list or mapping for a template that takes one, or None beside
    the calls of a tool.
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise TypeError(
            "messages must be a list of mappings with a role and a content; got "
            f"{type(messages).__name__}"
        )
    for number, message in enumerate(messages):
        require_instance(f"messages[{number}]", message, Mapping)
        require_instance(f"messages[{number}]['role']", message.get("role"), str)
        content = message.get("content", "")
        calls = content is None and message.get("tool_calls")
        if not calls and not isinstance(content, str | list | Mapping):
            raise TypeError(
                f"messages[{number}]['content'] must be a text, a list or a mapping, "
                f"or None beside tool_calls; got {content!r}"
            )


def require_token_texts(texts: Any) -> list[Any]:
    """Check that there are texts, each one a row of ids, and return them as a list."""
    is_list = hasattr(texts, "__len__") and hasattr(texts, "__getitem__")
    if not is_list or isinstance(texts, str | dict):
        raise TypeError(
            "texts must be a list of tensors, one tensor of token ids per text; got "
            f"{type(texts).__name__}"
        )
    if len(texts) == 0:
        raise ValueError("texts is empty: give at least one text")
    rows = [texts[i] for i in range(len(texts))]
    for number, text in enumerate(rows):
        require_whole(f"texts[{number}]", text)
        if text.ndim != 1:
            raise ValueError(
                f"texts[{number}] must have one axis, its tokens; got "
                f"{tuple(text.shape)}: texts is a list with one tensor per text"
            )
        require_same_device(f"texts[{number}]", text, "texts[0]", rows[0])
    return rows


def require_ids(ids: Any, vocab_size: int, name: str = "ids") -> list[int]:
    """Check that a tokenizer knows these ids, and return them as plain numbers.

    Args:
        ids: whole numbers in one row.
        vocab_size: how many ids there are.
        name: the caller's name for the argument.
    """
    _require_row(name, ids)
    plain = [int(i) for i in ids]
    _require_known(name, [i for i in plain if not 0 <= i < vocab_size], vocab_size)
    return plain


def require_window_sizes(token_ids: Any, length: int, stride: int) -> None:
    """Check that a text can be cut into windows of ``length + 1`` tokens."""
    require_positive(length=length, stride=stride)
    _require_row("token_ids", token_ids)
    if len(token_ids) < length + 1:
        raise ValueError(
            f"the text has {len(token_ids)} tokens, a window of length {length} needs "
            f"{length + 1}: take a longer text or a shorter window"
        )


def require_token_values(token_ids: Tensor, vocab_size: int) -> None:
    """Check that all ids are in the vocabulary."""
    if token_ids.is_meta or token_ids.numel() == 0:
        return
    ends = [int(end) for end in token_ids.aminmax()]
    wrong = [end for end in ends if not 0 <= end < vocab_size]
    _require_known("token_ids", wrong, vocab_size)


def require_targets(logits: Tensor, token_ids: Tensor, lengths: Any = None) -> None:
    """Check the ids for a loss, where reading them costs nothing.

    That is the case on the CPU: on a GPU, reading would mean waiting. Nor can they be
    read while a graph is traced or a call is vectorised. Padding is not checked.
    """
    given = [token_ids] if lengths is None else [token_ids, lengths]
    if not all(is_readable(tensor) for tensor in given):
        return
    if lengths is not None:
        token_ids = token_ids[torch.arange(token_ids.shape[1]) < lengths[:, None]]
    require_token_values(token_ids, logits.shape[-1])


def require_padding(
    cache: Any,
    start: int,
    mask: Any = None,
    lengths: Any = None,
    longest: int = 0,
) -> None:
    """Check that padding in a cache is hidden; note where new padding begins.

    A ``KVCache`` notes where the first padding begins. The note is void if the cache is
    no longer than that: it was cropped, or the call failed.
    """
    padded_from = getattr(cache, "padded_from", None)
    if padded_from is not None and padded_from >= start:
        padded_from = cache.padded_from = None
    if padded_from is not None and mask is None:
        raise ValueError(
            f"the cache holds padding after token {padded_from} of a text: crop the "
            "cache, pad on the left, or call the model with positions and a mask that "
            "hides it"
        )
    if lengths is None or padded_from is not None or not is_readable(lengths):
        return
    if (shortest := int(lengths.min())) < longest and hasattr(cache, "padded_from"):
        cache.padded_from = start + shortest


def require_range(least: float, most: float, **numbers: Tensor) -> None:
    """Check the values of tensors where reading them costs nothing; nan passes."""
    for name, tensor in numbers.items():
        if not is_readable(tensor):
            continue
        low, high = (end.item() for end in tensor.detach().aminmax())
        if low < least or high > most:
            found = f"{low:.3g} to {high:.3g}"
            raise ValueError(f"{name} must be from {least:g} to {most:g}; got {found}")


def require_columns(positions: Tensor, start: int) -> None:
    """Check, where reading is free, that columns of a cache serve as positions.

    They rise by 1 from token to token. In an empty cache they may also stay or fall:
    before a text is padding, or a different text. Pages count no tokens, so their
    ``start`` is negative, and they pad on the left.
    """
    if start < 0 or not is_readable(positions):
        return
    steps = positions.diff(dim=-1)
    if not ((steps == 1) | ((steps <= 0) & (start == 0))).all():
        raise ValueError(
            "positions must go up by 1 in a layer with a window whose cache does not "
            "keep them: use a cache of `new_cache` of the same layer"
        )


def require_fits(model: Any, token_ids: Tensor, longest: int) -> None:
    """Check ids, and a number of tokens, against the sizes in the model's ``config``.

    A model whose ``config`` lacks ``vocab_size`` or ``context_len`` is not checked; it
    may still refuse them itself.
    """
    context_len = _config_size(model, "context_len")
    if longest > context_len:
        raise ValueError(
            f"token_ids hold {longest} tokens; the context has {context_len}: cut the "
            "text, or build a model with a longer context_len"
        )
    require_token_values(token_ids, _config_size(model, "vocab_size"))


def require_batch(model: Any, token_ids: Any, lengths: Any = None) -> None:
    """Check a batch for training: some text must have two tokens."""
    require_instance("model", model, nn.Module)
    weight = next(model.parameters(), None)
    require_token_ids(token_ids, lengths, like=weight)
    longest = token_ids.shape[1]
    require_fits(model, token_ids, longest)
    if lengths is not None and not lengths.is_meta:
        require_length_values(lengths, longest)
        longest = int(lengths.max())
    if longest < 2:
        raise ValueError("no text has two tokens: there is no next token to predict")


def require_optimizer(optimizer: Any, model: nn.Module) -> None:
    """Check that an optimizer holds some weight of a model that is not frozen."""
    require_instance("optimizer", optimizer, torch.optim.Optimizer)
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        kind = type(optimizer).__name__
        raise TypeError(f"optimizer must step without a closure; got {kind}")
    own = {id(weight) for weight in model.parameters() if weight.requires_grad}
    groups = optimizer.param_groups
    if own and own.isdisjoint(id(p) for group in groups for p in group["params"]):
        raise ValueError(
            "optimizer must hold weights of the model: make it from "
            "this model's `parameters()`"
        )


def require_scorer(model: Any) -> None:
    """Check that a model's call needs token ids alone: a translator needs a target."""
    require_instance("model", model, nn.Module)
    call = uncompiled(model).forward
    if getattr(call, "__name__", "") == nn.Module.forward.__name__:
        raise TypeError(
            f"model must have a forward; {type(model).__name__} has none: pass the "
            "whole model"
        )
    try:
        needed = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # written in C
        return
    plain = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [it.name for it in needed if it.default is it.empty and it.kind in plain]
    if len(names) > 1:
        raise TypeError(
            f"model must score token ids alone; {type(model).__name__} also needs "
            f"{', '.join(names[1:])}: a TinyTranslator is called by `translate`"
        )


def require_prompt(
    model: Any, token_ids: Any, max_new_tokens: int, lengths: Any = None, start: int = 0
) -> None:
    """Check the beginnings of texts before a model adds tokens to them.

    The last new token is not read again, so it needs no position in the context.

    Args:
        model: may state its sizes in its ``config``.
        token_ids: the argument.
        max_new_tokens: how many will be added.
        lengths: how many tokens of each text are real, if given.
        start: how many tokens a cache holds already.
    """
    weight = next(model.parameters(), None)
    require_token_ids(token_ids, lengths, shortest=1, like=weight)
    length, context_len = start + token_ids.shape[1], _config_size(model, "context_len")
    require_fits(model, token_ids, length)
    if length + max_new_tokens - 1 > context_len:
        raise ValueError(
            f"max_new_tokens must be at most {max(0, context_len + 1 - length)} after "
            f"{length} tokens in a context of {context_len}; got {max_new_tokens}"
        )
    if lengths is not None and not lengths.is_meta:  # on a GPU, too
        require_length_values(lengths, token_ids.shape[1], shortest=1)


def require_grown(model: Any, length: int) -> None:
    """Check that the angles of a text do not depend on how it is read.

    Args:
        model: may have ``grows_beyond``, the longest text for which this holds.
        length: how many tokens of the text are read at most.
    """
    most = getattr(model, "grows_beyond", None)
    if most is not None and length > most:
        raise ValueError(
            f"with rope_type 'dynamic', a text may have at most {most} tokens here; "
            f"this one grows to {length}: its angles would depend on the pieces in "
            "which it is read; use generate, or a model whose rope_type is default, "
            "linear, yarn or llama3"
        )


def require_request(model: Any, prompt: Any, max_new_tokens: int) -> list[int]:
    """Check a single text before a server adds tokens to it, and return its ids."""
    text = require_ids(prompt, _config_size(model, "vocab_size"), "prompt")
    require_positive(max_new_tokens=max_new_tokens)
    if not text:
        raise ValueError("prompt must hold at least one token; got none")
    context_len = _config_size(model, "context_len")
    if len(text) + max_new_tokens - 1 > context_len:
        raise ValueError(
            f"max_new_tokens must be at most {max(0, context_len + 1 - len(text))} "
            f"after a prompt of {len(text)} tokens in a context of {context_len}; got "
            f"{max_new_tokens}"
        )
    require_grown(model, len(text) + max_new_tokens - 1)
    return text


def require_stop(model: Any, stop: Any, name: str = "stop") -> None:
    """Check the token that ends a text, if given, against the model's vocabulary."""
    if stop is not None:
        most = _config_size(model, "vocab_size") - 1
        require_between(name, stop, 0, most, f"{most}, the last token")


def require_draft(draft: Any) -> None:
    """Check that a draft can be called for guesses."""
    if not callable(draft):
        raise TypeError(
            "draft must be a model, or a function of the tokens so far and of how many "
            f"to guess; got {type(draft).__name__}"
        )


def require_guesses(model: Any, guesses: Any) -> list[int]:
    """Check that the model knows the tokens that a draft guessed, and return them."""
    return require_ids(
        guesses, _config_size(model, "vocab_size"), "the draft's guesses"
    )


def _config_size(model: Any, name: str) -> int:
    """Return a size from a model's ``config``; without one, no text is too large."""
    return getattr(getattr(model, "config", None), name, sys.maxsize)


def _require_known(name: str, wrong: list[int], vocab_size: int) -> None:
    if wrong:
        hint = "were they made by a different tokenizer?"
        if wrong[0] == -100:
            hint = "give the lengths of the texts instead of marking padding"
        raise ValueError(
            f"{name} must be between 0 and {vocab_size - 1}; got {wrong[0]}: {hint}"
        )


def _require_row(name: str, ids: Any) -> None:
    if isinstance(ids, Tensor):
        received = f"{ids.dtype} of shape {tuple(ids.shape)}"
        whole = ids.ndim == 1 and ids.dtype in (torch.int32, torch.int64)
    else:
        received = type(ids).__name__
        whole = _holds_whole_numbers(ids)
    if not whole:
        hint = "give a list of ints"
        entries = ids if isinstance(ids, list | tuple) else ()
        floats = [i for i in entries if isinstance(i, float)]
        if getattr(ids, "ndim", 1) > 1 or any(isinstance(i, list) for i in entries):
            hint = "one text at a time"
        elif getattr(ids, "ndim", 1) == 0 or isinstance(ids, int | float):
            hint = "write a single id as `[id]`"
        elif floats or "float" in str(getattr(ids, "dtype", "")):
            received += f" with {floats[0]!r}" if floats else ""
            hint = "convert them to whole numbers"
        elif isinstance(ids, str | bytes) or any(isinstance(i, str) for i in entries):
            hint = "encode a text first"
        raise TypeError(
            f"{name} must be whole numbers in one row; got {received}: {hint}"
        )


def _holds_whole_numbers(ids: Any) -> bool:
    if isinstance(ids, Set | Mapping):
        return False  # no row: sets have no order, and mappings hold more than ids
    try:
        plain = [operator.index(i) for i in ids if not isinstance(i, bool)]
        return len(plain) == len(ids)
    except TypeError:
        return False
