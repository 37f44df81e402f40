"""In which ways a layer and its reference are called, to be compared.

Each way has its words and a call, which gives what is compared. Shapes: B batch, T
length, M d_model.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attention_lib.examine.behaviour import LONG_LEN
from attention_lib.examine.caching import beyond, in_pieces
from attention_lib.examine.probe import BATCH, KEYS, LENGTH, LONG, Probe

Case = tuple[str, Callable[[Probe], Tensor]]
CallOptions = Callable[[Probe], dict[str, Any]]


ONE_BY_ONE = "with a cache, one by one"
PIECES = "with a cache, in pieces of 3, 2, 1"


class OwnDrawError(Exception):
    """A layer draws random numbers in its own way: they cannot be left out."""


class _NothingDropped(TorchFunctionMode):
    """Inside of it, dropout drops nothing."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("dropout", "dropout_"):
            return args[0] if args else kwargs["input"]
        if func is torch.nn.functional.scaled_dot_product_attention:
            if len(args) > 4:
                args = (*args[:4], 0.0, *args[5:])
            else:
                kwargs = {**kwargs, "dropout_p": 0.0}
        return func(*args, **kwargs)


def find_ways(mine: Probe, other: Probe) -> Iterator[Case]:
    """The calls that both take; what a case gives is compared."""
    both = mine.takes & other.takes
    masks = {mine.mask_shape, other.mask_shape}
    told = both_told(mine, other)
    bare = not told or mine.takes == other.takes or mine.is_causal == other.is_causal
    for causal in [False] * bare + [True] * told:
        modes = told_causal if causal else bare_call
        words = " told causal" if causal else ""
        yield words[1:] or "in a plain call", partial(_plain, modes, BATCH, LENGTH)
        for length in (1, 7, LONG, LONG_LEN):
            batch = 2 if length < LONG_LEN else 1
            yield f"at T = {length}{words}", partial(_plain, modes, batch, length)
        if "mask" in both:
            yield from _masked(modes, words, masks)
    more = told_causal if told else bare_call
    yield from _loud(more)
    names = [dict(each.layer.named_parameters()).keys() for each in (mine, other)]
    yield from _after(more, alike=names[0] == names[1])
    if "mask" in both:
        yield (
            "after a call with a mask",
            lambda t: (t.run(t.x(), t.hidden([3])), t.run(t.x()))[1],
        )
        yield (
            "with a mask after a call with another",
            lambda t: (t.run(t.x(), t.hidden([3])), _padded([4], "right", more, t))[1],
        )
    if "cache" in both and mine.calling.new_cache and other.calling.new_cache:
        yield from _cached("mask" in both, "(T, T)" in masks)
    if "memory" in both:
        for count in (4, 9):
            yield f"with a memory of {count} tokens", partial(_with_memory, count)
        yield (
            "with a second memory after a first",
            lambda t: (_with_memory(4, t, seed=4), _with_memory(4, t))[1],
        )
        if "mask" in both and "(T, T)" not in masks:
            yield "with a memory and a mask of it", _masked_memory
    yield "in its input's gradient", partial(_gradient, more, "the input")
    if "mask" in both:
        yield (
            "in its input's gradient beside padding",
            partial(_gradient, _beside, "the input"),
        )
    for name in dict(mine.layer.named_parameters()):
        if name in dict(other.layer.named_parameters()):
            yield f"in the gradient of {name}", partial(_gradient, more, name)


def both_told(mine: Probe, other: Probe) -> bool:
    """Whether both hide the future, and one of them as it is told."""
    hide = all(each.hides_future or each.is_causal for each in (mine, other))
    return hide and bool(mine.hides_future or other.hides_future)


def bare_call(t: Probe) -> dict[str, Any]:
    return {}


def told_causal(t: Probe) -> dict[str, Any]:
    return t.hides_future


def _plain(modes: CallOptions, batch: int, length: int, t: Probe) -> Tensor:
    return t.run(t.x(batch, length), **modes(t))


def _with_memory(count: int, t: Probe, seed: int = 3) -> Tensor:
    return t.run(t.x(), memory=t.x(length=count, seed=seed))


def _masked_memory(t: Probe) -> Tensor:
    seen = torch.arange(9) < torch.tensor([9, 4, 7, 2, 9, 5, 1])[:, None]
    mask = seen[:, None].expand(BATCH, LENGTH, 9).to(t.device)
    return t.run(t.x(), mask, memory=t.x(length=9, seed=3))


def _after(more: CallOptions, *, alike: bool) -> Iterator[Case]:
    """Calls after another one, or in another mode: what is kept must be right."""
    yield "after a longer text", lambda t: (t.run(t.x(2, LONG)), t.run(t.x()))[1]
    yield "after a shorter text", lambda t: (t.run(t.x(2, 3)), t.run(t.x()))[1]

    def changed(t: Probe) -> Tensor:
        t.run(t.x(), **more(t))
        for weight in t.layer.parameters():
            weight.data *= 1.1
        return t.run(t.x(), **more(t))

    def twin(t: Probe) -> Tensor:
        other = copy.deepcopy(t.layer)
        for weight in other.parameters():
            weight.data *= -1.1
        t.run(t.x(), layer=other, **more(t))
        return t.run(t.x(), **more(t))

    def graded(t: Probe) -> Tensor:
        with torch.enable_grad():
            return t.run(t.x(), **more(t)).detach()

    def inference(t: Probe) -> Tensor:
        with torch.inference_mode():
            found = t.run(t.x(), **more(t))
        return found.clone()

    def trained(t: Probe) -> Tensor:
        t.layer.train()
        t.run(t.x(), **more(t))
        t.layer.eval()
        return t.run(t.x(), **more(t))

    def whole(t: Probe) -> Tensor:
        t.layer.train()
        found = []
        for seed in range(2):
            torch.manual_seed(seed)
            with _NothingDropped():
                found.append(t.run(t.x(), **more(t)))
        if not torch.equal(*found):
            raise OwnDrawError
        return found[0]

    def kept(t: Probe) -> Tensor:
        x = t.x()
        t.run(x, raw=True, **more(t))
        return x

    yield "in its input after a call", kept
    if alike:
        yield "after its weights have changed", changed
        yield "in training mode where nothing is dropped", whole
    yield "after a call of a second layer of its class", twin
    yield "where gradients are kept", graded
    yield "in inference mode", inference
    yield "after a call in training mode", trained
    yield (
        "with an input that is not contiguous",
        lambda t: t.run(t.x().mT.contiguous().mT, **more(t)),
    )


def _masked(modes: CallOptions, words: str, shapes: set[str | None]) -> Iterator[Case]:
    one = "(T, T)" in shapes
    for side in ("right", "left"):
        for lengths, how in ([4], ""), ([4, 2, 6], ", other in each text"):
            if not how or not one:
                name = f"with padding on the {side}{how}{words}"
                yield name, partial(_padded, lengths, side, modes)
    keys = bool({"(B, T)", KEYS} & shapes)
    texts = slice(None) if one else slice(1, 2)
    rows = slice(None) if keys else slice(2, 4)
    nothing = partial(_nothing, texts, rows, modes)
    yield f"with a row that sees nothing{words}", nothing
    if not one and not keys:
        yield f"with a mask of any pairs{words}", lambda t: _any_pairs(t, modes(t))


def _padded(lengths: list[int], side: str, more: CallOptions, t: Probe) -> Tensor:
    """Outputs of real tokens; what padding itself gives is no matter."""
    mask = t.hidden(lengths, side)
    real = mask.diagonal(dim1=1, dim2=2)[..., None]
    return t.run(t.x(), mask, **more(t)).masked_fill(~real, 0)


def _any_pairs(t: Probe, more: dict[str, Any]) -> Tensor:
    mask = torch.rand(BATCH, LENGTH, LENGTH, generator=t.generator()) < 0.5
    mask |= torch.eye(LENGTH, dtype=torch.bool)
    return t.run(t.x(), mask.to(t.device), **more)


def _nothing(texts: slice, rows: slice, more: CallOptions, t: Probe) -> Tensor:
    """Hides all from rows of texts: those that a mask of either layer can name."""
    mask = t.hidden([LENGTH]).clone()
    mask[texts, rows] = False
    return t.run(t.x(), mask, **more(t))


def _loud(more: CallOptions) -> Iterator[Case]:
    """Inputs of other sizes, and of different sizes in one batch."""
    yield "with inputs 100 times smaller", lambda t: t.run(t.x() / 100, **more(t))
    yield "with inputs 30 times larger", lambda t: t.run(30 * t.x(), **more(t))

    def zeros(t: Probe) -> Tensor:
        x = t.x()
        x[:, 2] = 0
        return t.run(x, **more(t))

    yield "with a token of zeros", zeros

    def mixed(t: Probe) -> Tensor:
        sizes = torch.tensor([1, 100, 0.01, 1, 30, 1, 1], dtype=t.dtype)
        return t.run(t.x() * sizes[:, None, None].to(t.device), **more(t))

    yield "with loud and quiet texts in one batch", mixed


def _cached(masked: bool, one: bool) -> Iterator[Case]:
    def read(*cut: int) -> Callable[[Probe], Tensor]:
        return lambda t: in_pieces(t, t.x(length=sum(cut)), list(cut))

    yield "with a cache, at once", read(LENGTH)
    yield ONE_BY_ONE, read(*[1] * LENGTH)
    yield PIECES, read(3, 2, 1)
    yield f"with a cache, at T = {LONG}", read(LONG - 9, 7, 1, 1)
    yield f"with a cache, one by one, to T = {LONG}", read(*[1] * LONG)
    yield "with a cache for one text alone", lambda t: in_pieces(t, t.x(1), [3, 1, 2])
    yield (
        "with a second cache for a second text",
        lambda t: (read(3, 1, 2)(t), in_pieces(t, t.x(seed=2), [3, 1, 2]))[1],
    )
    yield "with two texts read in turns, a cache each", _in_turns
    yield "with more tokens than a cache has room for", _right_beyond
    if masked:
        for side in ("right", "left"):
            name = f"with a cache beside padding on the {side}"
            yield name, partial(_padded_pieces, [4] if one else [4, 2, 6], side)


def _in_turns(t: Probe) -> Tensor:
    assert t.calling.new_cache is not None
    caches = [t.calling.new_cache(t.layer, BATCH, LENGTH) for _ in range(2)]
    texts, found = [t.x(), t.x(seed=2)], []
    for part in (slice(0, 4), slice(4, None)):
        for cache, x in zip(caches, texts, strict=True):
            piece = x[:, part].contiguous()
            found.append(t.run(piece, cache=cache, **t.hides_future))
    return torch.cat(found, dim=1)


def _right_beyond(t: Probe) -> Tensor:
    """Gives whether a cache that is full raises an error, or serves all the same."""
    return torch.tensor(not beyond(t))


def _padded_pieces(lengths: list[int], side: str, t: Probe) -> Tensor:
    mask = t.hidden(lengths, side)
    real = mask.diagonal(dim1=1, dim2=2)[..., None]
    return in_pieces(t, t.x(), [3, 1, 2], mask).masked_fill(~real, 0)


def _beside(t: Probe) -> dict[str, Any]:
    return {"mask": t.hidden([4]), **told_causal(t)}


def _gradient(more: CallOptions, name: str, t: Probe) -> Tensor:
    """Gives the gradient of the input or of a weight; zeros where none comes."""
    weight = t.x() if name == "the input" else t.layer.get_parameter(name)
    with torch.enable_grad():
        x = weight.requires_grad_() if name == "the input" else t.x()
        found = t.run(x, **more(t))
        loss = (found * t.x(seed=5)[..., :1] * found.detach().sin()).sum()
        (grad,) = torch.autograd.grad(loss, [weight], allow_unused=True)
    return torch.zeros_like(weight) if grad is None else grad
