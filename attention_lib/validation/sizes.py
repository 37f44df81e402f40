"""Sizes, probabilities and choices: what layers, models and runs are built with."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_lib.modules import uncompiled
from attention_lib.validation._common import (
    require_between,
    require_int,
    require_number,
    require_whole,
)


def require_positive(**sizes: int) -> None:
    """Check that each named size is a whole number of at least 1."""
    for name, size in sizes.items():
        _require_least(name, size, 1)


def require_offset(offset: int, length: int = 0, positions: Any = None) -> None:
    """Check the first position of a text, or positions (..., T), one per token."""
    _require_least("offset", offset, 0)
    if type(offset) is int and offset > 2**52:  # float64 soon skips whole numbers
        raise ValueError(f"offset must be at most 2**52; got {offset}")
    if positions is not None:
        require_whole("positions", positions)
        if positions.ndim == 0 or positions.shape[-1] != length:
            raise ValueError(
                f"positions must be (..., {length}), one per token; got "
                f"{tuple(positions.shape)}"
            )


def require_not_negative(**numbers: int) -> None:
    """Check that each named number is a whole one from 0 to below 2⁶³."""
    for name, number in numbers.items():
        require_between(name, number, 0, 2**63 - 1, "2**63 - 1")


def require_above_zero(**numbers: float) -> None:
    """Check that each named number is above 0 and finite."""
    for name, number in numbers.items():
        require_number(name, number, "above 0 and finite", lambda n: 0 < n < math.inf)


def require_base(**bases: float) -> None:
    """Check bases of rotary frequencies, whose powers float32 must hold."""
    wanted = "from 1e-20 to 1e20"
    for name, base in bases.items():
        require_number(name, base, wanted, lambda n: 1e-20 <= n <= 1e20)


def require_dropout(dropout: float) -> None:
    """Check that a dropout probability is at least 0 and below 1."""
    require_number("dropout", dropout, "at least 0 and below 1", lambda p: 0 <= p < 1)


def require_probabilities(options: Any) -> None:
    """Check the probabilities of options, by name: from 0, and 1 together."""
    require_instance("options", options, Mapping)
    for option, p in options.items():
        require_number(f"options[{option!r}]", p, "at least 0", lambda n: n >= 0)
    if abs(sum(options.values()) - 1) > 1e-6:
        raise ValueError(
            f"options must have probabilities that sum to 1; got {dict(options)}"
        )


def require_flags(**flags: bool) -> None:
    """Check that each named choice is True or False: Python would take "no" as true."""
    for name, flag in flags.items():
        if flag is not True and flag is not False:
            raise TypeError(f"{name} must be True or False; got {flag!r}")


def require_choice(name: str, choice: Any, choices: Iterable[str]) -> None:
    """Check that a choice is among the available ones."""
    if choice not in tuple(choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {choice!r}")


def require_instance(name: str, thing: Any, kind: type) -> None:
    """Check that an object, perhaps compiled, is of a kind, such as ``nn.Module``."""
    if not isinstance(thing, kind) and not isinstance(uncompiled(thing), kind):
        received = repr(thing) if isinstance(thing, type) else type(thing).__name__
        an = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{name} must be {an} {kind.__name__}; got {received}")


def require_mapping(name: str, entries: Any, kind: type) -> None:
    """Check that an object maps names to objects of a kind."""
    require_instance(name, entries, Mapping)
    for key, entry in entries.items():
        require_instance(f"{name}[{key!r}]", entry, kind)


def require_calls(**calls: Any) -> None:
    """Check that each named object can be called, for calls without arguments."""
    wanted = "called without arguments, as `lambda: layer(x)` is"
    for name, call in calls.items():
        require_function(name, call, wanted)


def require_timed_calls(calls: Any) -> None:
    """Check the calls to be timed: by name, without arguments."""
    if not isinstance(calls, Mapping):
        raise TypeError(f"calls must be a dict of calls; got {type(calls).__name__}")
    if not calls:
        raise ValueError("calls must hold at least one call; got none")
    require_calls(**{f"calls[{name!r}]": call for name, call in calls.items()})


def require_function(name: str, thing: Any, wanted: str = "a function") -> None:
    """Check that an object can be called."""
    if not callable(thing):
        raise TypeError(f"{name} must be {wanted}; got {type(thing).__name__}")


def require_path(path: Any) -> Path:
    """Check that a path is a str or a ``Path``, and return it as a ``Path``."""
    if not isinstance(path, str | Path):
        raise TypeError(f"path must be a str or a Path; got {type(path).__name__}")
    return Path(path)


def require_tensor(name: Any, known: Iterable[str], path: Path) -> None:
    """Check that a file has a tensor of this name."""
    if name not in known:
        raise ValueError(f"name must be that of a tensor in {path.name}; got {name!r}")


def require_heads(
    d_model: int, num_heads: int, head_dim: int | None = None, d_out: int | None = None
) -> int:
    """Check the widths of a multi-head layer, and return the width of one head.

    Args:
        d_model: the width that heads share, if ``head_dim`` is left out.
        num_heads: how many heads.
        head_dim: the width of one head, if it is chosen freely.
        d_out: the width of the output, if it differs from ``d_model``.
    """
    _require_least("d_model", d_model, 1)
    _require_least("num_heads", num_heads, 1)
    if d_out is not None:
        _require_least("d_out", d_out, 1)
    if head_dim is not None:
        _require_least("head_dim", head_dim, 1)
        return head_dim
    if d_model % num_heads:
        raise ValueError(
            f"num_heads must divide d_model; got {num_heads} heads for a width of "
            f"{d_model}: choose another number, or give head_dim to a layer"
        )
    return d_model // num_heads


def require_groups(num_heads: int, num_kv_heads: int) -> None:
    """Check that KV heads can be shared evenly by query heads."""
    require_positive(num_kv_heads=num_kv_heads)
    if num_heads % num_kv_heads:
        raise ValueError(
            f"num_kv_heads must divide num_heads; got {num_kv_heads} for {num_heads} "
            "query heads: each KV head is shared by equally many query heads"
        )


def require_tile(tile: Any) -> tuple[int, int]:
    """Check the size of a tile, one number or (rows, columns), and return both."""
    if not isinstance(tile, tuple):
        require_positive(tile=tile)
        return tile, tile
    if len(tile) != 2:
        raise ValueError(f"tile must be one number or (rows, columns); got {tile}")
    for size in tile:
        require_positive(**{"a size of tile": size})
    return tile


def require_power_of_two(**sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Check the sizes of a kernel's tiles: powers of 2, at least 16."""
    for name, each in sizes.items():
        if any(size < 16 or size & (size - 1) for size in each):
            raise ValueError(
                f"{name} must be made of powers of 2, at least 16; got {each}"
            )
    return tuple(size for each in sizes.values() for size in each)


def require_pairs(**widths: int) -> None:
    """Check named widths that are rotated in pairs: even ones."""
    require_positive(**widths)
    for name, width in widths.items():
        if width % 2:
            raise ValueError(f"{name} must be even, two numbers per pair; got {width}")


def require_config(config: Any) -> None:
    """Check the sizes that a model is built from."""
    names = "vocab_size", "context_len", "d_model", "num_heads", "num_layers"
    require_positive(**{name: getattr(config, name) for name in names})
    head_dim = require_heads(config.d_model, config.num_heads)
    if getattr(config, "positions", None) == "rotary":
        require_pairs(**{"d_model / num_heads, which is rotated,": head_dim})
    require_dropout(config.dropout)
    require_flags(tie_weights=config.tie_weights)


def require_llama(config: Any) -> None:
    """Check the sizes that a model with grouped queries is built from."""
    names = "vocab_size", "context_len", "d_model", "num_heads", "num_layers"
    require_positive(**{name: getattr(config, name) for name in names})
    require_positive(hidden_dim=config.hidden_dim)
    head_dim = require_heads(config.d_model, config.num_heads, config.head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, to be rotated; got {head_dim}")
    require_groups(config.num_heads, config.num_kv_heads)
    require_base(rope_base=config.rope_base)
    require_above_zero(norm_eps=config.norm_eps)
    require_flags(tie_weights=config.tie_weights, qkv_bias=config.qkv_bias)
    if config.window is not None:
        require_positive(window=config.window)
    if config.qk_norm is not None:
        require_choice("qk_norm", config.qk_norm, ("rms", "rms_plus_one"))


def require_run(config: Any) -> None:
    """Check the settings of a training run."""
    require_positive(steps=config.steps, batch_size=config.batch_size)
    require_warmup(0, config.warmup, config.steps)
    require_above_zero(learning_rate=config.learning_rate)
    require_max_grad_norm(config.max_grad_norm)
    require_not_negative(seed=config.seed)


def require_warmup(step: int, warmup: int, steps: int) -> None:
    """Check the numbers of a schedule: the warm-up is shorter than the run."""
    require_positive(steps=steps)
    require_not_negative(step=step)
    require_between("warmup", warmup, 0, steps - 1, f"steps - 1, {steps - 1}")


def require_max_grad_norm(max_grad_norm: float) -> None:
    """Check the longest allowed gradient: above 0, possibly infinite."""
    hint = ": math.inf never shortens a gradient"
    require_number("max_grad_norm", max_grad_norm, "above 0", lambda n: n > 0, hint)


def _require_least(name: str, size: Any, least: int) -> None:
    # The usual case is tested first: layers check on each call.
    if type(size) is int and size >= least:
        return
    require_int(name, size)
    if size < least:
        raise ValueError(f"{name} must be at least {least}; got {size}")


def require_step_tokens(step_tokens: int, max_batch: int) -> None:
    """Check that a server's step reads at least one token for each request."""
    require_positive(step_tokens=step_tokens)
    if step_tokens < max_batch:
        raise ValueError(
            f"step_tokens must be at least {max_batch}, one for each request of "
            f"max_batch; got {step_tokens}"
        )


def require_page(page: Any, users: Sequence[int], *, used: bool = False) -> None:
    """Check the number of a page, and where asked that some text uses it."""
    last = len(users) - 1
    require_between("page", _plain(page), 0, last, f"{last}, the last page")
    if used and not users[page]:
        raise ValueError(f"page {page} is free: no text uses it")


def require_tables(
    tables: Any, starts: Any, new_tokens: Any, page_len: int, num_pages: int
) -> None:
    """Check block tables: one per text, with existing pages for all of its tokens."""
    for name, each in (("tables", tables), ("starts", starts)):
        _require_sized(name, each)
        if not len(each) == len(new_tokens) > 0:
            raise ValueError(
                f"{name} must hold one entry for each of new_tokens, at least one; got "
                f"{len(each)} for {len(new_tokens)}"
            )
    written: list[Any] = []  # the pages of all new tokens
    for pages, start, new in zip(tables, starts, new_tokens, strict=True):
        require_not_negative(**{"each of starts": _plain(start)})
        _require_sized("each of tables", pages)
        _require_sized("each of new_tokens", new)
        require_positive(**{"the length of each of new_tokens": len(new)})
        needed = -(-(start + len(new)) // page_len)
        if len(pages) < needed:
            raise ValueError(
                f"each of tables must have pages for all tokens of its text; got "
                f"{len(pages)} where {needed} are needed"
            )
        if not 0 <= min(pages) <= max(pages) < num_pages:
            raise ValueError(
                f"tables must name pages from 0 to {num_pages - 1}; got {list(pages)}"
            )
        written += pages[start // page_len : needed]
    if twice := [page for page, times in Counter(written).items() if times > 1]:
        raise ValueError(
            f"tables must not write one page twice; got {twice[0]}: copy "
            "it with `copy_page`"
        )
    if len(set(map(len, new_tokens))) > 1 and any(starts[1:]):
        raise ValueError(
            "starts must be 0 for all texts but the first if new_tokens differ in "
            f"length; got {list(starts)}"
        )


def _plain(number: Any) -> Any:
    return number.item() if isinstance(number, np.integer) else number


def _require_sized(name: str, thing: Any) -> None:
    if not isinstance(thing, Sequence | np.ndarray):
        raise TypeError(f"{name} must be a sequence; got {type(thing).__name__}")


def require_pages(length: int, page_len: int, num_pages: int) -> None:
    """Check that a text fits into all the pages of a server."""
    needed = -(-length // page_len)
    if needed > num_pages:
        raise ValueError(
            f"the request needs {needed} pages, for {length} tokens at {page_len} per "
            f"page; the server has {num_pages}: ask for fewer tokens, give the server "
            "more pages, or cancel the request"
        )


def require_open(request: Any, known: Iterable[Any]) -> None:
    """Check that a request is waiting or running on this server."""
    state = getattr(request, "state", None)
    if state is None:
        raise TypeError(f"request must be a Request; got {type(request).__name__}")
    if request not in known:
        raise ValueError(
            f"the request is {state}, and this server does not know it: it has ended, "
            "or belongs to a different server"
        )
