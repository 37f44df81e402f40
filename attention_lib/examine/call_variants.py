"""The calls in which a layer is compared with its reference, each with its words.

Shapes: B batch, T length, M d_model.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attention_lib.examine.caching import beyond, in_pieces
from attention_lib.examine.probe import BATCH, KEYS, LENGTH, LONG, VERY_LONG, Probe

Run = Callable[[Probe], Tensor]
Case = tuple[str, Run]
ONE_BY_ONE = "with a cache, one by one"
PIECES = "with a cache, in pieces of 3, 2, 1"


class OwnDrawError(Exception):
    """A layer samples in its own way: its dropout cannot be left out."""


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
        if func is nn.functional.scaled_dot_product_attention:
            if len(args) > 4:
                args = (*args[:4], 0.0, *args[5:])
            else:
                kwargs = {**kwargs, "dropout_p": 0.0}
        return func(*args, **kwargs)


def both_told(mine: Probe, other: Probe) -> bool:
    """Return whether both hide the future, and one of them as it is told."""
    hide = all(each.causal_options or each.is_causal for each in (mine, other))
    return hide and bool(mine.causal_options or other.causal_options)


def find_cases(mine: Probe, other: Probe) -> Iterator[Case]:
    """Yield the calls that both layers take."""
    both = mine.takes & other.takes
    masks = {mine.mask_shape, other.mask_shape}
    told = both_told(mine, other)
    bare = not told or mine.takes == other.takes or mine.is_causal == other.is_causal
    for causal in [False] * bare + [True] * told:
        words = " told causal" if causal else ""
        yield words[1:] or "in a plain call", plain(causal=causal)
        for length in (1, 7, LONG, VERY_LONG):
            batch = 2 if length < VERY_LONG else 1
            yield f"at T = {length}{words}", plain(batch, length, causal=causal)
        if "mask" in both:
            yield from _masked(causal, words, masks)
    yield from _sizes()
    names = [dict(each.layer.named_parameters()).keys() for each in (mine, other)]
    yield from _after(same_names=names[0] == names[1])
    if "mask" in both:
        masked = partial(_padded, [3], "right", False)
        padded = partial(_padded, [4], "right", True)
        yield "after a call with a mask", _chain(masked, plain(causal=False))
        yield "with a mask after a call with another", _chain(masked, padded)
    if "cache" in both and mine.new_cache and other.new_cache:
        yield from _cached("mask" in both, "(T, T)" in masks)
    if "memory" in both:
        for count in (4, 9):
            yield f"with a memory of {count} tokens", partial(_with_memory, count)
        twice = _chain(partial(_with_memory, 4, seed=4), partial(_with_memory, 4))
        yield "with a second memory after a first", twice
        if "mask" in both and "(T, T)" not in masks:
            yield "with a memory and a mask of it", _masked_memory
    yield "in its input's gradient", partial(gradient, "", False)
    if "mask" in both:
        beside = "in its input's gradient beside padding"
        yield beside, partial(gradient, "", True)
    for name in dict(mine.layer.named_parameters()):
        if name in dict(other.layer.named_parameters()):
            yield f"in the gradient of {name}", partial(gradient, name, False)


def plain(batch: int = BATCH, length: int = LENGTH, *, causal: bool = True) -> Run:
    """Return a call with one random input."""
    return lambda each: each.run(each.x(batch, length), **_options(each, causal))


def in_training(run: Run, seed: int = 0) -> Run:
    """Return a call in training mode, whose random numbers have one seed."""

    def call(each: Probe) -> Tensor:
        each.layer.train()
        torch.manual_seed(each.seed + seed)
        return run(each)

    return call


def _options(each: Probe, causal: bool) -> dict[str, Any]:
    return each.causal_options if causal else {}


def _chain(first: Run, then: Run) -> Run:
    """Return the second of two calls of one layer."""

    def run(each: Probe) -> Tensor:
        first(each)
        return then(each)

    return run


def _masked(causal: bool, words: str, shapes: set[str | None]) -> Iterator[Case]:
    one_mask, keys = "(T, T)" in shapes, bool({"(B, T)", KEYS} & shapes)
    for side in ("right", "left"):
        name = f"with padding on the {side}"
        yield f"{name}{words}", partial(_padded, [4], side, causal)
        if not one_mask:
            padded = partial(_padded, [4, 2, 6], side, causal)
            yield f"{name}, other in each text{words}", padded
    texts = slice(None) if one_mask else slice(1, 2)
    rows = slice(None) if keys else slice(2, 4)

    def nothing(each: Probe) -> Tensor:
        mask = each.padding([LENGTH]).clone()
        mask[texts, rows] = False
        return each.run(each.x(), mask, **_options(each, causal))

    yield f"with a row that sees nothing{words}", nothing
    if not one_mask and not keys:
        yield (
            f"with a mask of any pairs{words}",
            lambda each: each.run(each.x(), each.any_pairs(), **_options(each, causal)),
        )


def _real(found: Tensor, mask: Tensor) -> Tensor:
    """Keep the outputs of real tokens; what padding itself gives is no matter."""
    return found.masked_fill(~mask.diagonal(dim1=1, dim2=2)[..., None], 0)


def _padded(lengths: list[int], side: str, causal: bool, each: Probe) -> Tensor:
    mask = each.padding(lengths, side)
    return _real(each.run(each.x(), mask, **_options(each, causal)), mask)


def _padded_pieces(lengths: list[int], side: str, each: Probe) -> Tensor:
    mask = each.padding(lengths, side)
    return _real(in_pieces(each, each.x(), [3, 1, 2], mask), mask)


def _sizes() -> Iterator[Case]:
    """Yield inputs of other sizes, and of different sizes in one batch."""

    def zeros(each: Probe) -> Tensor:
        x = each.x()
        x[:, 2] = 0
        return each.run_causal(x)

    def mixed(each: Probe) -> Tensor:
        sizes = torch.tensor([1, 100, 0.01, 1, 30, 1, 1], dtype=each.dtype)
        x = each.x() * sizes[:, None, None].to(each.device)
        return each.run_causal(x)

    def scaled(factor: float) -> Run:
        return lambda each: each.run_causal(factor * each.x())

    yield "with inputs 100 times smaller", scaled(1 / 100)
    yield "with inputs 30 times larger", scaled(30.0)
    yield "with a token of zeros", zeros
    yield "with loud and quiet texts in one batch", mixed


def _after(same_names: bool) -> Iterator[Case]:
    """Yield calls after another one, or in another mode: what is kept must be right."""
    call, bare = plain(), plain(causal=False)

    def input_after(each: Probe) -> Tensor:
        x = each.x()
        each.run_causal(x, raw=True)
        return x

    def changed(each: Probe) -> Tensor:
        for weight in each.layer.parameters():
            weight.data *= 1.1
        return call(each)

    def undropped(each: Probe) -> Tensor:
        with _NothingDropped():
            found = [in_training(call, seed)(each) for seed in range(2)]
        if not torch.equal(*found):
            raise OwnDrawError
        return found[0]

    def twin(each: Probe) -> Tensor:
        other = copy.deepcopy(each.layer)
        for weight in other.parameters():
            weight.data *= -1.1
        return each.run_causal(each.x(), layer=other)

    def trained(each: Probe) -> Tensor:
        each.layer.train()
        call(each)
        each.layer.eval()
        return call(each)

    def within(mode: Any) -> Run:
        def run(each: Probe) -> Tensor:
            with mode():
                found = call(each)
            return found.detach().clone()

        return run

    def strided(each: Probe) -> Tensor:
        return each.run_causal(each.x().mT.contiguous().mT)

    yield "after a longer text", _chain(plain(2, LONG, causal=False), bare)
    yield "after a shorter text", _chain(plain(2, 3, causal=False), bare)
    yield "in its input after a call", input_after
    if same_names:
        yield "after its weights have changed", _chain(call, changed)
        yield "in training mode where nothing is dropped", undropped
    yield "after a call of a second layer of its class", _chain(twin, call)
    yield "where gradients are kept", within(torch.enable_grad)
    yield "in inference mode", within(torch.inference_mode)
    yield "after a call in training mode", trained
    yield "with an input that is not contiguous", strided


def _cached(masked: bool, one_mask: bool) -> Iterator[Case]:
    def read(*cut: int, batch: int = BATCH, seed: int = 1) -> Run:
        return lambda each: in_pieces(each, each.x(batch, sum(cut), seed), list(cut))

    yield "with a cache, at once", read(LENGTH)
    yield ONE_BY_ONE, read(*[1] * LENGTH)
    yield PIECES, read(3, 2, 1)
    yield f"with a cache, at T = {LONG}", read(LONG - 9, 7, 1, 1)
    yield f"with a cache, one by one, to T = {LONG}", read(*[1] * LONG)
    yield "with a cache for one text alone", read(3, 1, 2, batch=1)
    second = _chain(read(3, 1, 2), read(3, 1, 2, seed=2))
    yield "with a second cache for a second text", second
    yield "with two texts read in turns, a cache each", _in_turns
    # Whether a cache that is full raises an error, or serves all the same.
    yield (
        "with more tokens than a cache has room for",
        lambda each: torch.tensor(not beyond(each)),
    )
    for side in ("right", "left") if masked else ():
        name = f"with a cache beside padding on the {side}"
        yield name, partial(_padded_pieces, [4] if one_mask else [4, 2, 6], side)


def _in_turns(each: Probe) -> Tensor:
    assert each.new_cache is not None
    caches = [each.new_cache(each.layer, BATCH, LENGTH) for _ in range(2)]
    found = []
    for part in (slice(0, 4), slice(4, None)):
        for cache, x in zip(caches, (each.x(), each.x(seed=2)), strict=True):
            piece = x[:, part].contiguous()
            found.append(each.run_causal(piece, cache=cache))
    return torch.cat(found, dim=1)


def _with_memory(count: int, each: Probe, seed: int = 3) -> Tensor:
    return each.run(each.x(), memory=each.x(length=count, seed=seed))


def _masked_memory(each: Probe) -> Tensor:
    seen = torch.arange(9) < torch.tensor([9, 4, 7, 2, 9, 5, 1])[:, None]
    mask = seen[:, None].expand(BATCH, LENGTH, 9).to(each.device)
    return each.run(each.x(), mask, memory=each.x(length=9, seed=3))


def gradient(name: str, padded: bool, each: Probe) -> Tensor:
    """Return the gradient of a weight, or of the input; zeros where there is none."""
    x, mask = each.x(), each.padding([4]) if padded else None
    weight = each.layer.get_parameter(name) if name else x.requires_grad_()
    with torch.enable_grad():
        found = each.run_causal(x, mask)
        loss = (found * each.x(seed=5)[..., :1] * found.detach().sin()).sum()
        (grad,) = torch.autograd.grad(loss, [weight], allow_unused=True)
    return torch.zeros_like(weight) if grad is None else grad
