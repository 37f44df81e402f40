"""Refuse bad input early, in words: which argument, what came, what was wanted.

What layers check on each call reads shapes, types and devices only, never values: it
is plain Python, stops neither a compiler nor a GPU, and holds on ``meta``. Values are
checked where data comes in, by ``check_token_values``.
"""

import math
import operator
import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

INTS = int, torch.SymInt  # the second while a compiler looks at a layer


def check_inputs(
    query: Any,
    key: Any,
    value: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    kind: type = Tensor,
) -> None:
    """Checks what attention gets, before anything is computed.

    Args:
        query: (..., Q, D).
        key: (..., K, D); its leading axes broadcast to the query's.
        value: (..., K, V), where there is one; likewise.
        mask: boolean, broadcasts to (..., Q, K), where there is one.
        scale: a number, where there is one.
        kind: what the arrays must be, ``Tensor`` or ``np.ndarray``.

    Raises:
        TypeError: an argument of another kind, type or device than wanted.
        ValueError: shapes that do not fit together, or an axis of length zero; a scale
            that is not finite.
    """
    _check_float_array("query", query, kind)
    shape = query.shape
    if len(shape) < 2 or 0 in shape:
        _refuse_axes("query", query)
    _check_kind("key", key, kind)
    _check_same_type("key", key, "the query", query)
    _check_leading("key", key, query)
    key_shape = key.shape
    if shape[-1] != key_shape[-1]:
        raise ValueError(
            f"query and key must have the same width; got query {tuple(query.shape)} "
            f"and key {tuple(key.shape)}: project both to one head_dim"
        )
    if value is not None:
        check_value(query, key, value, kind=kind)
    if mask is not None:
        check_mask(mask, (*shape[:-1], key_shape[-2]), like=query)
    if scale is not None:
        _check_real("scale", scale)
        if not math.isfinite(scale):
            raise ValueError(f"scale must be finite; got {scale}")


def check_value(query: Any, key: Any, value: Any, *, kind: type = Tensor) -> None:
    """Checks that values go with a query and a key that fit together.

    Raises:
        TypeError: values of another kind, type or device.
        ValueError: not one value for each key; leading axes that do not broadcast.
    """
    _check_kind("value", value, kind)
    _check_same_type("value", value, "the query", query)
    if value.shape == key.shape:  # and the key fits the query
        return
    _check_leading("value", value, query)
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"key and value must have the same length; got key {tuple(key.shape)} and "
            f"value {tuple(value.shape)}: each key needs exactly one value"
        )


def check_mask(mask: Any, scores_shape: tuple[int, ...], *, like: Any) -> None:
    """Checks that a mask is boolean and broadcasts to the scores.

    Args:
        mask: what came.
        scores_shape: (..., Q, K), which the mask may not enlarge.
        like: an array whose kind and device the mask must share.

    Raises:
        TypeError: not boolean, or of another kind or device than ``like``.
        ValueError: a shape that does not broadcast to ``scores_shape``.
    """
    _check_boolean("mask", mask)
    _check_kind("mask", mask, Tensor if isinstance(like, Tensor) else np.ndarray)
    _check_same_device("mask", mask, "the query", like)
    if not _broadcasts(mask.shape, scores_shape):
        raise ValueError(
            f"mask {tuple(mask.shape)} does not broadcast to the scores "
            f"{tuple(scores_shape)}: rows are queries, columns are keys"
        )


def check_masks(masks: Sequence[Any]) -> None:
    """Checks that there are masks, boolean, on one device, that broadcast together.

    Raises:
        TypeError: a mask that is not a boolean tensor, or on another device.
        ValueError: no mask at all; shapes that do not broadcast.
    """
    if not masks:
        raise ValueError("combine_masks needs at least one mask")
    for mask in masks:
        _check_boolean("masks", mask)
        _check_kind("each mask", mask, Tensor)
        _check_same_device("each mask", mask, "the first", masks[0])
    for one, other in combinations(masks, 2):
        sizes = zip(reversed(one.shape), reversed(other.shape), strict=False)
        if not all(a == b or a == 1 or b == 1 for a, b in sizes):
            shapes = " and ".join(str(tuple(mask.shape)) for mask in masks)
            raise ValueError(f"masks do not broadcast: {shapes}")


def check_lengths(lengths: Any, max_len: int, side: str = "right") -> None:
    """Checks what a padding mask is made from, but not the values of the lengths.

    Raises:
        TypeError: lengths that are not whole numbers in a tensor.
        ValueError: lengths with another number of axes; a side that is neither left
            nor right.
    """
    check_positive(max_len=max_len)
    came = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
    if came not in (torch.int32, torch.int64):
        raise TypeError(
            f"lengths must be a tensor of int64; got {came}: `torch.tensor([3, 5])`"
        )
    if lengths.ndim != 1 or lengths.shape[0] == 0:  # len would fix it under export
        raise ValueError(
            f"lengths must be (batch,), one per sequence; got {tuple(lengths.shape)}"
        )
    if side not in ("left", "right"):
        raise ValueError(f'side must be "left" or "right"; got {side!r}')


def check_scores(x: np.ndarray, axis: int, temperature: float) -> None:
    """Checks what a softmax in NumPy gets, its values too.

    Raises:
        TypeError: a temperature that is no number; an axis that is not an int.
        ValueError: temperature not above 0 and finite; no such axis, or an empty one;
            NaN or +inf among the scores.
    """
    _check_real("temperature", temperature)
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"axis must be an int; got {axis!r}")
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be above 0 and finite; got {temperature}")
    if not -x.ndim <= axis < x.ndim or x.shape[axis] == 0:
        raise ValueError(f"x has nothing to share out along axis {axis}: {x.shape}")
    if np.isnan(x).any() or np.isposinf(x).any():
        raise ValueError("x holds NaN or +inf: look at what made the scores")


def check_tokens(x: Any, weight: Tensor, *, name: str = "x") -> None:
    """Checks that ``x`` is (B, T, M), ready for a layer with this (out, M) weight.

    Raises:
        TypeError: no tensor, or of another type or device than the weight.
        ValueError: another number of axes, another width, or an empty axis.
    """
    _check_kind(name, x, Tensor)
    _check_same_type(name, x, "the layer", weight)
    shape, width = x.shape, weight.shape[-1]
    if len(shape) != 3 or shape[-1] != width:
        raise ValueError(
            f"{name} must be (batch, length, {width}); got {tuple(shape)}: "
            f"this layer was built for d_model={width}"
        )
    if 0 in shape:
        _refuse_axes(name, x)


def check_source(x: Any, memory: Any, weight: Tensor) -> Tensor:
    """Checks what a layer gets, and gives what its keys and values are made of.

    Args:
        x: (B, T, M), see ``check_tokens``.
        memory: (B, S, M), where keys and values come from elsewhere.
        weight: one of the layer's, (out, M).

    Raises:
        TypeError: no tensor, or of another type or device than the weight.
        ValueError: other axes or another width; a memory for other texts.
    """
    check_tokens(x, weight)
    if memory is None:
        return x
    check_tokens(memory, weight, name="memory")
    if memory.shape[0] != x.shape[0]:
        raise ValueError(
            f"memory must hold as many texts as x; got memory {tuple(memory.shape)} "
            f"and x {tuple(x.shape)}"
        )
    return memory


def check_layout(x: Any, *axes: str) -> None:
    """Checks that ``x`` is a tensor with these axes.

    Raises:
        TypeError: no tensor.
        ValueError: another number of axes.
    """
    _check_kind("x", x, Tensor)
    if x.ndim != len(axes):
        raise ValueError(f"x must be ({', '.join(axes)}); got {tuple(x.shape)}")


def check_features(x: Any, *, eps: float = 0.0, **vectors: Any) -> None:
    """Checks that each named vector has one number for each number of a token.

    Args:
        x: (..., M), a tensor of floats.
        eps: what is added to the variance.
        vectors: each (M,), of the type and on the device of ``x``.

    Raises:
        TypeError: no tensor of floats; types or devices that differ.
        ValueError: a vector of another shape; an eps below 0, or not finite.
    """
    _check_float_array("x", x, Tensor)
    _check_real("eps", eps)
    if not 0 <= eps < math.inf:
        raise ValueError(f"eps must be at least 0 and finite; got {eps}")
    for name, vector in vectors.items():
        _check_float_array(name, vector, Tensor)
        _check_same_type(name, vector, "x", x)
        if x.ndim == 0 or vector.shape != x.shape[-1:]:
            raise ValueError(
                f"{name} must be {tuple(x.shape[-1:])}, one number for each number of "
                f"a token; got {tuple(vector.shape)} for x {tuple(x.shape)}"
            )


def check_token_ids(
    token_ids: Any, lengths: Any = None, *, max_len: int, like: Tensor | None = None
) -> None:
    """Checks that ids are (B, T) and fit the context; reads none of their values.

    Args:
        token_ids: what came.
        lengths: how many tokens of each text are real, where that was said.
        max_len: how many tokens a text may have.
        like: one of the model's weights, whose device the ids must share.

    Raises:
        TypeError: no tensor of whole numbers; another device.
        ValueError: another number of axes, or an empty one; a text longer than
            ``max_len``; lengths that are not one per text.
    """
    is_tensor = isinstance(token_ids, Tensor)
    came = token_ids.dtype if is_tensor else type(token_ids).__name__
    if came not in (torch.int32, torch.int64):
        raise TypeError(f"token_ids must be a tensor of int64; got {came}")
    _check_same_device("token_ids", token_ids, "the model", like)
    if token_ids.ndim != 2 or 0 in token_ids.shape:
        raise ValueError(
            f"token_ids must be (batch, length); got {tuple(token_ids.shape)}: write a "
            "single text as one row, `token_ids[None, :]`"
        )
    if token_ids.shape[1] > max_len:
        raise ValueError(
            f"token_ids hold {token_ids.shape[1]} tokens; the context has {max_len}: "
            "cut the text, or build a model with a longer context_len"
        )
    if lengths is not None:
        check_lengths(lengths, token_ids.shape[1])
        _check_same_device("lengths", lengths, "the token_ids", token_ids)
        if lengths.shape[0] != token_ids.shape[0]:
            raise ValueError(
                f"lengths must hold one number per text; got {lengths.shape[0]} for "
                f"{token_ids.shape[0]} texts"
            )


def check_token_values(token_ids: Tensor, vocab_size: int) -> None:
    """Checks that all ids lie in the vocabulary. It reads values, except on ``meta``.

    Raises:
        ValueError: an id below 0, or of ``vocab_size`` and more.
    """
    if token_ids.is_meta or token_ids.numel() == 0:
        return
    low, high = (int(end) for end in token_ids.aminmax())
    if low < 0 or high >= vocab_size:
        raise ValueError(
            f"token_ids must lie between 0 and {vocab_size - 1}; got "
            f"{low if low < 0 else high}: were they made by another tokenizer?"
        )


def check_logits(logits: Any, token_ids: Any, lengths: Any = None) -> None:
    """Checks that scores belong to these ids; shapes and types only, no values.

    Raises:
        TypeError: logits that are not floats; ids or lengths that are not whole
            numbers; tensors on different devices.
        ValueError: shapes that do not fit together; no token that has a next one.
    """
    _check_floats("logits", logits)
    _check_batch(token_ids, lengths)
    if logits.ndim != 3 or logits.shape[:2] != token_ids.shape:
        raise ValueError(
            f"logits must be (batch, length, vocabulary) for token_ids "
            f"{tuple(token_ids.shape)}; got {tuple(logits.shape)}"
        )
    _check_same_device("token_ids", token_ids, "the logits", logits)
    if token_ids.shape[1] < 2:
        raise ValueError("no text has two tokens: there is no next token to predict")


def check_batch(model: Any, token_ids: Any, lengths: Any = None) -> None:
    """Checks a batch, values too, before a model gets it to learn from.

    Raises:
        TypeError: no model; ids or lengths that are not whole numbers in a tensor.
        ValueError: shapes that do not fit together; what ``check_fits`` refuses;
            lengths outside 0 to T; no text that has two tokens.
    """
    check_instance("model", model, nn.Module)
    _check_batch(token_ids, lengths)
    weight = next(model.parameters(), None)
    _check_same_device("token_ids", token_ids, "the model", weight)
    check_fits(model, token_ids, token_ids.shape[1])
    longest = token_ids.shape[1]
    if lengths is not None and not lengths.is_meta:
        if lengths.min() < 0 or lengths.max() > longest:
            raise ValueError(
                f"lengths must lie between 0 and {longest}, the length of the batch; "
                f"got {lengths.tolist()}"
            )
        longest = int(lengths.max())
    if longest < 2:
        raise ValueError("no text has two tokens: there is no next token to predict")


def check_fits(model: Any, token_ids: Tensor, longest: int) -> None:
    """Checks ids, and a number of tokens, by what the model's ``config`` says of both.

    A model without a ``config`` that has ``vocab_size`` and ``context_len`` is not
    asked; it may still refuse by itself.

    Raises:
        ValueError: an id outside the vocabulary; more tokens than the context has.
    """
    config = getattr(model, "config", None)
    vocab_size = getattr(config, "vocab_size", sys.maxsize)
    context_len = getattr(config, "context_len", sys.maxsize)
    if longest > context_len:
        raise ValueError(
            f"token_ids hold {longest} tokens; the context has {context_len}: cut the "
            "text, or build a model with a longer context_len"
        )
    check_token_values(token_ids, vocab_size)


def check_token_texts(texts: Any) -> list[Any]:
    """Checks that there are texts, each one a row of ids, and gives them as a list.

    Raises:
        TypeError: no list or data set; a text that is no tensor of whole numbers.
        ValueError: no text at all; a text with another number of axes than one; texts
            on different devices.
    """
    if not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")) or isinstance(
        texts, str | dict
    ):
        raise TypeError(
            "texts must be a list of tensors, one tensor of token ids per text; got "
            f"{type(texts).__name__}"
        )
    if len(texts) == 0:
        raise ValueError("texts is empty: give at least one text")
    found = [texts[i] for i in range(len(texts))]
    for number, text in enumerate(found):
        _check_ids_type(f"texts[{number}]", text)
        if text.ndim != 1:
            raise ValueError(
                f"texts[{number}] must have one axis, its tokens; got "
                f"{tuple(text.shape)}: texts is a list with one tensor per text"
            )
        _check_same_device(f"texts[{number}]", text, "texts[0]", found[0])
    return found


def check_instance(name: str, thing: Any, kind: type) -> None:
    """Checks that a thing is of a kind, such as a model of ``nn.Module``.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(thing, kind):
        came = repr(thing) if isinstance(thing, type) else type(thing).__name__
        raise TypeError(f"{name} must be a {kind.__name__}; got {came}")


def check_config(config: Any) -> None:
    """Checks the sizes that a model is built from.

    Raises:
        TypeError: a size that is not an int; a choice that is not True or False.
        ValueError: a size below 1; a width that the heads do not divide; a dropout
            below 0, or of 1 and more.
    """
    names = "vocab_size", "context_len", "d_model", "num_heads", "num_layers"
    check_positive(**{name: getattr(config, name) for name in names})
    check_heads(config.d_model, config.num_heads)
    check_dropout(config.dropout)
    check_flags(tie_weights=config.tie_weights)


def check_run(config: Any) -> None:
    """Checks how a model shall be trained.

    Raises:
        TypeError: a number of steps or texts or a seed that is not an int; a rate or
            a norm that is no number.
        ValueError: a number below its least; a warm-up that is longer than the run.
    """
    check_positive(steps=config.steps, batch_size=config.batch_size)
    check_warmup(0, config.warmup, config.steps)
    check_above_zero(learning_rate=config.learning_rate)
    check_max_grad_norm(config.max_grad_norm)
    check_not_negative(seed=config.seed)


def check_warmup(step: int, warmup: int, steps: int) -> None:
    """Checks the numbers that a schedule of the learning rate is made from.

    Raises:
        TypeError: one that is not an int.
        ValueError: a step below 0; a warm-up that is longer than the run.
    """
    check_positive(steps=steps)
    check_not_negative(step=step)
    _check_int("warmup", warmup)
    if not 0 <= warmup < steps:
        raise ValueError(
            f"warmup must lie between 0 and steps - 1, {steps - 1}; got {warmup}"
        )


def check_max_grad_norm(max_grad_norm: float) -> None:
    """Checks the length that a gradient may have; it may be infinite.

    Raises:
        TypeError: no number.
        ValueError: not above 0.
    """
    _check_real("max_grad_norm", max_grad_norm)
    if not max_grad_norm > 0:
        raise ValueError(
            f"max_grad_norm must be above 0; got {max_grad_norm}: math.inf "
            "never shortens a gradient"
        )


def check_above_zero(**numbers: float) -> None:
    """Checks that each named number is above 0 and finite.

    Raises:
        TypeError: no number.
        ValueError: 0 or below, inf or nan.
    """
    for name, number in numbers.items():
        _check_real(name, number)
        if not 0 < number < float("inf"):
            raise ValueError(f"{name} must be above 0 and finite; got {number}")


def check_not_negative(**numbers: int) -> None:
    """Checks that each named number is a whole one of at least 0, below 2⁶³.

    Raises:
        TypeError: not an ``int``.
        ValueError: below 0, or more than a seed or a step may be.
    """
    for name, number in numbers.items():
        _check_int(name, number)
        if not 0 <= number < 2**63:
            raise ValueError(f"{name} must lie between 0 and 2**63 - 1; got {number}")


def check_path(path: Any) -> Path:
    """Checks that a path is one, and gives it as a ``Path``.

    Raises:
        TypeError: neither a text nor a ``Path``.
    """
    if not isinstance(path, str | Path):
        raise TypeError(f"path must be a str or a Path; got {type(path).__name__}")
    return Path(path)


def check_ids(ids: Any, vocab_size: int, name: str = "ids") -> list[int]:
    """Checks that a tokenizer knows these ids, and gives them as plain numbers.

    Args:
        ids: whole numbers in one row.
        vocab_size: how many ids there are.
        name: what the caller's argument is called.

    Raises:
        TypeError: not whole numbers in one row.
        ValueError: an id below 0, or of ``vocab_size`` and more.
    """
    _check_row(name, ids)
    plain = [int(i) for i in ids]
    wrong = [i for i in plain if not 0 <= i < vocab_size]
    if wrong:
        raise ValueError(
            f"{name} must lie between 0 and {vocab_size - 1}; got {wrong[0]}: were "
            "they made by another tokenizer?"
        )
    return plain


def check_window_sizes(token_ids: Any, length: int, stride: int) -> None:
    """Checks that a text can be cut into windows of ``length + 1`` tokens.

    Raises:
        TypeError: ids that are not whole numbers in one row; a size that is no int.
        ValueError: a size below 1; a text shorter than one window.
    """
    check_positive(length=length, stride=stride)
    _check_row("token_ids", token_ids)
    if len(token_ids) < length + 1:
        raise ValueError(
            f"the text has {len(token_ids)} tokens, a window of length {length} needs "
            f"{length + 1}: take a longer text or a shorter window"
        )


def check_text(text: Any) -> None:
    """Checks that a text is one that every encoding can write.

    Raises:
        TypeError: no text.
        ValueError: half of a pair of surrogates, which is no character.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str; got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds {text[error.start]!r} at {error.start}, which is no "
            "character: was it read with the right encoding?"
        ) from None


def check_texts(texts: Any) -> None:
    """Checks that there is something to learn from.

    Raises:
        TypeError: one text where several are wanted; something that is no text.
        ValueError: no text, or nothing in any of them; no character, see
            ``check_text``.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        came = "a single one" if isinstance(texts, str) else type(texts).__name__
        raise TypeError(f"texts must be a list of texts; got {came}: write [text]")
    for text in texts:
        check_text(text)
    if not any(texts):
        raise ValueError("the text is empty: there is nothing to learn from")


def check_sampling(
    temperature: float, top_k: int | None, top_p: float | None = None
) -> None:
    """Checks how the next token shall be picked.

    Raises:
        TypeError: a ``top_k`` that is not an int; a temperature or a ``top_p`` that is
            no number.
        ValueError: a temperature below 0 or not finite; a ``top_k`` below 1; a
            ``top_p`` that is not above 0, or above 1.
    """
    _check_real("temperature", temperature)
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature must be 0 or more, finite; got {temperature}")
    if top_k is not None:
        check_positive(top_k=top_k)
    if top_p is not None:
        _check_real("top_p", top_p)
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1; got {top_p}")


def check_prompt(model: Any, token_ids: Any, max_new_tokens: int) -> None:
    """Checks the beginnings of texts, values too, before a model adds tokens to them.

    Raises:
        TypeError: ids that are not whole numbers in a tensor; another device.
        ValueError: not (B, T), or an empty axis; an id outside the vocabulary; a text
            that does not fit the context with its new tokens. The last of these is not
            read again, so it needs no place.
    """
    _check_batch(token_ids, None)
    weight = next(model.parameters(), None)
    _check_same_device("token_ids", token_ids, "the model", weight)
    length = token_ids.shape[1]
    context_len = getattr(getattr(model, "config", None), "context_len", sys.maxsize)
    if length + max_new_tokens - 1 > context_len:
        raise ValueError(
            f"max_new_tokens must be at most {max(0, context_len + 1 - length)} after "
            f"{length} tokens in a context of {context_len}; got {max_new_tokens}"
        )
    check_fits(model, token_ids, length)


def check_generator(generator: Any) -> None:
    """Checks that random numbers come from a generator on the CPU, or the global one.

    Raises:
        TypeError: no generator, or one of another device.
    """
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator; got {generator!r}: write "
            "`seeded(0)` for the seed 0"
        )
    if generator.device.type != "cpu":
        raise TypeError(f"generator must be on the cpu; got {generator.device}")


def check_next_scores(logits: Any, temperature: float) -> None:
    """Checks the scores that a token is picked from, values too, except on ``meta``.

    Raises:
        TypeError: no tensor of floats.
        ValueError: not (B, V), or an empty axis; nan or inf, or no finite score; no
            numbers to draw by, on ``meta``.
    """
    _check_floats("logits", logits)
    if logits.ndim != 2 or 0 in logits.shape:
        raise ValueError(
            f"logits must be (batch, vocabulary); got {tuple(logits.shape)}: write the "
            "scores of a single text as one row, `logits[None, :]`"
        )
    if temperature and logits.is_meta:
        raise ValueError("logits on meta have no numbers: only temperature 0 works")
    # A row's largest score is nan where it holds nan, and -inf where nothing is finite.
    if not logits.is_meta and not logits.amax(dim=-1).isfinite().all():
        raise ValueError("logits hold nan or inf: no token can be picked from them")


def check_positive(**sizes: int) -> None:
    """Checks that each named size is a whole number of at least 1.

    Raises:
        TypeError: not an ``int``.
        ValueError: below 1.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, INTS):
            raise TypeError(f"{name} must be an int; got {size!r}")
        if size < 1:
            raise ValueError(f"{name} must be at least 1; got {size}")


def check_offset(offset: int) -> None:
    """Checks that a text begins at a place that there is.

    Raises:
        TypeError: not an ``int``.
        ValueError: below 0.
    """
    if isinstance(offset, bool) or not isinstance(offset, INTS):
        raise TypeError(f"offset must be an int; got {offset!r}")
    if offset < 0:
        raise ValueError(f"offset must be at least 0; got {offset}")


def check_heads(
    d_model: int, num_heads: int, head_dim: int | None = None, d_out: int | None = None
) -> int:
    """Checks the widths of a multi-head layer, and gives the width of one head.

    Args:
        d_model: the width that heads share out, where ``head_dim`` is left out.
        num_heads: how many heads.
        head_dim: the width of one head, where it is chosen freely.
        d_out: the width of the output, where it differs from ``d_model``.

    Raises:
        TypeError: a size that is not an int.
        ValueError: a size below 1; a width that the heads do not divide.
    """
    check_positive(d_model=d_model, num_heads=num_heads)
    if d_out is not None:
        check_positive(d_out=d_out)
    if head_dim is not None:
        check_positive(head_dim=head_dim)
        return head_dim
    if d_model % num_heads:
        raise ValueError(
            f"num_heads must divide d_model; got {num_heads} heads for a width of "
            f"{d_model}: choose another number, or say head_dim"
        )
    return d_model // num_heads


def check_dropout(dropout: float) -> None:
    """Checks that a probability to drop lies from 0 to below 1.

    Raises:
        TypeError: no number.
        ValueError: it does not.
    """
    _check_real("dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1; got {dropout}")


def check_flags(**flags: bool) -> None:
    """Checks that each named choice is True or False.

    Raises:
        TypeError: anything else, such as "no", which Python takes for true.
    """
    for name, flag in flags.items():
        if flag is not True and flag is not False:
            raise TypeError(f"{name} must be True or False; got {flag!r}")


def check_choice(name: str, choice: Any, choices: Iterable[str]) -> None:
    """Checks that a choice is one of those that there are.

    Raises:
        ValueError: it is not.
    """
    if choice not in tuple(choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {choice!r}")


def as_floats(name: str, array: Any) -> np.ndarray:
    """Gives an array of floats: whole numbers become float64, floats stay as they are.

    Raises:
        TypeError: booleans, which NumPy would multiply as in logic; no numbers.
    """
    array = np.asarray(array)
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise TypeError(
            f"{name} must hold numbers; got {array.dtype}: convert booleans with "
            "`.astype(float)`"
        )
    return array


def _check_batch(token_ids: Any, lengths: Any) -> None:
    _check_ids_type("token_ids", token_ids)
    if token_ids.ndim != 2 or 0 in token_ids.shape:
        raise ValueError(
            f"token_ids must be (batch, length); got {tuple(token_ids.shape)}: write a "
            "single text as one row, `token_ids[None, :]`"
        )
    if lengths is None:
        return
    _check_ids_type("lengths", lengths)
    _check_same_device("lengths", lengths, "the token_ids", token_ids)
    if lengths.shape != token_ids.shape[:1]:
        came = len(lengths) if lengths.ndim == 1 else tuple(lengths.shape)
        raise ValueError(
            f"lengths must hold one number per text; got {came} for {len(token_ids)} "
            "texts"
        )


def _check_ids_type(name: str, ids: Any) -> None:
    came = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
    if came not in (torch.int32, torch.int64):
        raise TypeError(f"{name} must be a tensor of int64; got {came}")


def _check_floats(name: str, scores: Any) -> None:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        came = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"{name} must be a tensor of floats; got {came}")


def _check_int(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name} must be an int; got {number!r}")


def _check_real(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name} must be a number; got {number!r}")


def _check_row(name: str, ids: Any) -> None:
    if isinstance(ids, Tensor):
        came = f"{ids.dtype} of shape {tuple(ids.shape)}"
        whole = ids.ndim == 1 and ids.dtype in (torch.int32, torch.int64)
    else:
        came = type(ids).__name__
        whole = _holds_whole_numbers(ids)
    if not whole:
        raise TypeError(
            f"{name} must be whole numbers in one row; got {came}: encode a text first"
        )


def _holds_whole_numbers(ids: Any) -> bool:
    try:
        return len([operator.index(i) for i in ids]) == len(ids)
    except TypeError:
        return False


def _check_kind(name: str, array: Any, kind: type[Any]) -> None:
    if not isinstance(array, kind):
        raise TypeError(
            f"{name} must be a {kind.__module__}.{kind.__name__}; "
            f"got {type(array).__name__}"
        )


def _check_float_array(name: str, array: Any, kind: type[Any]) -> None:
    _check_kind(name, array, kind)
    if not _holds_floats(array):
        raise TypeError(
            f"{name} must hold floats; got {array.dtype}: convert it with `.float()`"
        )


def _holds_floats(array: Any) -> bool:
    if isinstance(array, Tensor):
        return array.dtype.is_floating_point
    return bool(array.dtype.kind == "f")


def _check_boolean(name: str, mask: Any) -> None:
    dtype = getattr(mask, "dtype", None)
    if dtype is not torch.bool and (dtype is None or dtype != np.bool_):
        came = f"{type(mask).__name__}, no tensor" if dtype is None else dtype
        raise TypeError(
            f"{name} must be boolean (True: may attend); got {came}: turn an additive "
            "mask of 0 and -inf into `mask == 0`, a 0/1 mask into `mask == 1`"
        )


def _check_leading(name: str, array: Any, query: Any) -> None:
    shape = array.shape
    if len(shape) < 2 or 0 in shape:
        _refuse_axes(name, array)
    leading, wanted = shape[:-2], query.shape[:-2]
    if leading != wanted and not _broadcasts(leading, wanted):
        raise ValueError(
            f"the leading axes of {name}, {tuple(leading)}, do not broadcast to the "
            f"query's, {tuple(wanted)}: expand the query first"
        )


def _check_same_type(name: str, array: Any, of: str, like: Any) -> None:
    if array.dtype != like.dtype:
        _check_float_array(name, array, type(array))
        # Under autocast, PyTorch itself brings the types together.
        if not (isinstance(array, Tensor) and _is_autocast(array.device.type)):
            raise TypeError(
                f"{name} must have the type of {of}, {like.dtype}; got {array.dtype}: "
                "convert one to the other's type"
            )
    if isinstance(like, Tensor) and array.device != like.device:
        _check_same_device(name, array, of, like)


def _is_autocast(device: str) -> bool:
    return device != "meta" and torch.is_autocast_enabled(device)


def _check_same_device(name: str, array: Any, of: str, like: Any) -> None:
    if isinstance(like, Tensor) and array.device != like.device:
        raise TypeError(
            f"{name} must be on the device of {of}, {like.device}; got {array.device}: "
            "move it with `.to(device)`"
        )


def _refuse_axes(name: str, array: Any) -> None:
    shape = tuple(array.shape)
    if len(shape) < 2:
        raise ValueError(
            f"{name} must have at least two axes, (length, width); got {shape}: write "
            f"a single vector as one row, `{name}[None, :]`"
        )
    raise ValueError(
        f"{name} has an axis of length zero, {shape}: leave empty batches and "
        "sequences out"
    )


def _broadcasts(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Says whether a shape can be stretched to the one that is wanted."""
    if len(shape) > len(wanted):
        return False
    for axis in range(-len(shape), 0):
        if shape[axis] != wanted[axis] and shape[axis] != 1:
            return False
    return True
