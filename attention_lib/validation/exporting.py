"""The arguments of an export: free axes, the sizes to try, and what fits."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from attention_lib.validation._common import require_int
from attention_lib.validation.sizes import require_instance, require_path


def require_new_file(path: Any) -> Path:
    """Check that a file can be written to a path, before the work starts."""
    path = require_path(path)
    if path.is_dir():
        raise ValueError(f"path must be a file; {path} is a folder")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise ValueError(f"path must be in a folder; {above} is a file")
    return path


def require_names(**names: Any) -> None:
    """Check that each argument, if given, is a list of words."""
    for name, words in names.items():
        if words is None:
            continue
        if not isinstance(words, list | tuple):
            raise TypeError(f"{name} must be a list of words; got {words!r}")
        for word in words:
            require_instance(f"each of {name}", word, str)


def require_input_names(names: Any, args: Any, free: Any) -> None:
    """Check that there are no more names than tensors among the arguments."""
    count = len(_pairs(args, free))
    if names is not None and len(names) > count:
        raise ValueError(
            f"input_names must be at most one per tensor, {count}; got {len(names)}"
        )


def require_axes(args: Any, axes: Sequence[Any]) -> list[Any]:
    """Check the names of free axes, and return a dict of them for each tensor.

    Args:
        args: tensors, and lists of them.
        axes: for each, a dict such as ``{0: "batch"}``, a list of such, or None.
    """
    if any(axes[len(args) :]):
        raise ValueError(
            f"dynamic_shapes names axes of {len(axes)} arguments; args holds "
            f"{len(args)}"
        )
    padded = [*axes, *[None] * (len(args) - len(axes))]
    return [_axes(arg, names) for arg, names in zip(args, padded, strict=False)]


def _axes(arg: Any, names: Any) -> Any:
    if isinstance(arg, list | tuple):
        parts = names if names is not None else [None] * len(arg)
        if not isinstance(parts, list | tuple) or len(parts) != len(arg):
            raise ValueError(
                f"dynamic_shapes must hold one entry for each of {len(arg)} tensors of "
                "a list"
            )
        return [_axes(part, named) for part, named in zip(arg, parts, strict=True)]
    if not isinstance(arg, Tensor):
        raise TypeError(
            f"args must hold tensors, or lists of them; got {type(arg).__name__}"
        )
    if not isinstance(names or {}, Mapping):
        raise TypeError(
            f"dynamic_shapes must hold dicts, such as {{0: 'batch'}}; got {names!r}"
        )
    for axis, name in (names or {}).items():
        require_int("each axis of dynamic_shapes", axis)
        if not 0 <= axis < arg.ndim:
            raise ValueError(
                f"dynamic_shapes names axis {axis} of a tensor with {arg.ndim} axes"
            )
        if not isinstance(name, str) or not name.isidentifier():
            raise TypeError(
                f"dynamic_shapes must name axis {axis} by a word; got {name!r}"
            )
    return dict(names or {})


def require_sizes(
    args: Any,
    free: Sequence[Any],
    sizes: Mapping[str, Iterable[int]],
    usual: Iterable[int],
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return the size of each free axis in the example, and those to try for it."""
    example: dict[str, int] = {}
    for arg, names in _pairs(args, free):
        for axis, name in names.items():
            size = arg.shape[axis]
            if example.setdefault(name, size) != size:
                raise ValueError(
                    f"the axis {name!r} has size {example[name]} in one tensor of "
                    f"args, and {size} in another: give different axes different names"
                )
    if extra := sorted(set(sizes) - set(example)):
        raise ValueError(
            f"sizes names {extra[0]!r}; the free axes are "
            f"{', '.join(example) or 'none'}"
        )
    for name, wanted in sizes.items():
        require_instance(f"sizes[{name!r}]", wanted, Iterable)
    tried = {name: list(sizes.get(name, usual)) for name in example}
    for name, wanted in tried.items():
        for size in wanted:
            require_int(f"each of sizes[{name!r}]", size)
        if not wanted or min(wanted) < 0:
            raise ValueError(
                f"sizes[{name!r}] must hold numbers from 0 on; got {wanted}"
            )
    return example, tried


def _pairs(args: Any, free: Any) -> list[tuple[Tensor, dict[int, str]]]:
    if isinstance(args, Tensor):
        return [(args, free)]
    parts = zip(args, free, strict=True)
    return [pair for arg, names in parts for pair in _pairs(arg, names)]


def require_static(model: Any, max_len: int) -> None:
    """Check that a model can work on a cache of fixed size."""
    context_len = model.config.context_len
    if max_len > context_len:
        raise ValueError(
            f"max_len must be at most the context, {context_len}; got {max_len}"
        )
    attentions = (getattr(block, "attention", None) for block in model.blocks)
    if any(getattr(attention, "window", None) for attention in attentions):
        raise ValueError(
            "model must not have a window: it is counted from the last position of the "
            "cache, which is still empty; export it with a cache that grows"
        )


def require_place(longest: int, room: int) -> None:
    """Check that a cache of fixed size has room for all tokens."""
    if longest > room:
        raise ValueError(
            f"there is room for {room} tokens; got {longest}: export the model with a "
            "larger max_len"
        )
