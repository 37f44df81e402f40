"""The calls of a layer as a table: each in words, and as what gives the output."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_lib.examine.caching import beyond, in_pieces, in_turns
from attention_lib.examine.probe import BATCH, KEYS, LENGTH, LONG, VERY_LONG, Probe, Run
from attention_lib.examine.recorder import Operations

Case = tuple[str, Run]
ONE_BY_ONE = "with a cache, one by one"
PIECES = "with a cache, in pieces of 3, 2, 1"
_CHANGED = "after its weights have changed"
_UNDROPPED = "in training mode where nothing is dropped"


class OwnDrawError(Exception):
    """A layer samples in its own way: its dropout cannot be left out."""


@dataclass(frozen=True)
class Call:
    """One way to call a layer; called with a probe, it returns the output."""

    batch: int = BATCH
    length: int = LENGTH
    seed: int = 1
    causal: bool = True  # whether the layer is asked to hide the future
    change: Callable[[Tensor], Tensor] | None = None  # of the input
    padding: tuple[int, ...] = ()  # how many tokens of each text are real
    side: str = "right"  # of the padding
    mask: Callable[[Probe], Tensor] | None = None
    pieces: tuple[int, ...] = ()  # which are read with a cache
    memory: int = 0  # tokens

    def __call__(self, each: Probe) -> Tensor:
        x = each.x(self.batch, sum(self.pieces) or self.length, self.seed)
        x = self.change(x) if self.change else x
        mask = self.mask(each) if self.mask else None
        if self.padding:
            mask = each.padding([*self.padding], self.side)
        options = dict(each.causal_options) if self.causal else {}
        if self.memory:
            options["memory"] = each.x(length=self.memory, seed=self.seed + 2)
        if self.pieces:
            found = in_pieces(each, x, [*self.pieces], mask)
        else:
            found = each.run(x, mask, **options)
        if mask is None or not self.padding:
            return found  # else what padding itself gives is no matter
        return found.masked_fill(~mask.diagonal(dim1=1, dim2=2)[..., None], 0)


PLAIN, BARE = Call(), Call(causal=False)


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
        yield words[1:] or "in a plain call", Call(causal=causal)
        for length in (1, 7, LONG, VERY_LONG):
            batch = 2 if length < VERY_LONG else 1
            yield f"at T = {length}{words}", Call(batch, length, causal=causal)
        if "mask" in both:
            yield from _masked(causal, words, masks)
    names, theirs = (dict(it.layer.named_parameters()) for it in (mine, other))
    for words, run in _SINGLE.items():
        if names.keys() == theirs.keys() or words not in (_CHANGED, _UNDROPPED):
            yield words, run
    if "mask" in both:
        masked = Call(padding=(3,), causal=False)
        yield "after a call with a mask", _chain(masked, BARE)
        yield (
            "with a mask after a call with another",
            _chain(masked, Call(padding=(4,))),
        )
    if "cache" in both:
        yield from _CACHED.items()
        for side in ("right", "left") if "mask" in both else ():
            padding = (4,) if "(T, T)" in masks else (4, 2, 6)
            read = Call(padding=padding, side=side, pieces=(3, 1, 2))
            yield f"with a cache beside padding on the {side}", read
    if "memory" in both:
        for count in (4, 9):
            yield f"with a memory of {count} tokens", Call(memory=count, causal=False)
        first, second = (Call(memory=4, seed=n, causal=False) for n in (2, 1))
        yield "with a second memory after a first", _chain(first, second)
        if "mask" in both and "(T, T)" not in masks:
            masked = Call(memory=9, causal=False, mask=_mask_of_memory)
            yield "with a memory and a mask of it", masked
    yield "in its input's gradient", partial(gradient, "", False)
    if "mask" in both:
        beside = "in its input's gradient beside padding"
        yield beside, partial(gradient, "", True)
    for name in names:
        if name in theirs:
            yield f"in the gradient of {name}", partial(gradient, name, False)


def in_training(run: Run, seed: int = 0) -> Run:
    """Return a call in training mode, whose random numbers have one seed."""

    def call(each: Probe) -> Tensor:
        each.layer.train()
        torch.manual_seed(each.seed + seed)
        return run(each)

    return call


def _chain(first: Run, then: Run) -> Run:
    """Return the second of two calls of one layer."""
    return lambda each: (first(each), then(each))[1]


def _masked(causal: bool, words: str, shapes: set[str | None]) -> Iterator[Case]:
    one_mask, keys = "(T, T)" in shapes, bool({"(B, T)", KEYS} & shapes)
    for side in ("right", "left"):
        name = f"with padding on the {side}"
        yield f"{name}{words}", Call(padding=(4,), side=side, causal=causal)
        if not one_mask:
            padded = Call(padding=(4, 2, 6), side=side, causal=causal)
            yield f"{name}, other in each text{words}", padded

    def nothing(each: Probe) -> Tensor:
        mask = each.padding([LENGTH]).clone()
        texts = slice(None) if one_mask else slice(1, 2)
        mask[texts, slice(None) if keys else slice(2, 4)] = False
        return mask

    empty = Call(mask=nothing, causal=causal)
    yield f"with a row that sees nothing{words}", empty
    if not one_mask and not keys:
        pairs = Call(mask=Probe.any_pairs, causal=causal)
        yield f"with a mask of any pairs{words}", pairs


def _mask_of_memory(each: Probe) -> Tensor:
    seen = torch.arange(9) < torch.tensor([9, 4, 7, 2, 9, 5, 1])[:, None]
    return seen[:, None].expand(BATCH, LENGTH, 9).to(each.device)


def _without_third(x: Tensor) -> Tensor:
    return x * (torch.arange(LENGTH, device=x.device) != 2)[:, None]


def _loud_and_quiet(x: Tensor) -> Tensor:
    return x * x.new_tensor([1, 100, 0.01, 1, 30, 1, 1])[:, None, None]


def _input_after(each: Probe) -> Tensor:
    x = each.x()
    each.run_causal(x, raw=True)
    return x


def _with_other_weights(each: Probe) -> Tensor:
    for weight in each.layer.parameters():
        weight.data *= 1.1
    return PLAIN(each)


def _undropped(each: Probe) -> Tensor:
    with Operations(drop=False), sdpa_kernel(SDPBackend.MATH):
        found = [in_training(PLAIN, seed)(each) for seed in range(2)]
    if not torch.equal(*found):
        raise OwnDrawError
    return found[0]


def _by_twin(each: Probe) -> Tensor:
    other = copy.deepcopy(each.layer)
    for weight in other.parameters():
        weight.data *= -1.1
    return each.run_causal(each.x(), layer=other)


def _within(mode: Any, each: Probe) -> Tensor:
    with mode():
        found = PLAIN(each)
    return found.detach().clone()


def _trained(each: Probe) -> Tensor:
    each.layer.train()
    PLAIN(each)
    each.layer.eval()
    return PLAIN(each)


# Inputs of other sizes, and of different sizes in one batch; then calls after another
# one, or in another mode: what is kept must be right.
_SINGLE: dict[str, Run] = {
    "with inputs 100 times smaller": Call(change=lambda x: x / 100),
    "with inputs 30 times larger": Call(change=lambda x: 30 * x),
    "with a token of zeros": Call(change=_without_third),
    "with loud and quiet texts in one batch": Call(change=_loud_and_quiet),
    "after a longer text": _chain(Call(2, LONG, causal=False), BARE),
    "after a shorter text": _chain(Call(2, 3, causal=False), BARE),
    "in its input after a call": _input_after,
    _CHANGED: _chain(PLAIN, _with_other_weights),
    _UNDROPPED: _undropped,
    "after a call of a second layer of its class": _chain(_by_twin, PLAIN),
    "where gradients are kept": partial(_within, torch.enable_grad),
    "in inference mode": partial(_within, torch.inference_mode),
    "after a call in training mode": _trained,
    "with an input that is not contiguous": Call(change=lambda x: x.mT.contiguous().mT),
}
_CACHED: dict[str, Run] = {
    "with a cache, at once": Call(pieces=(LENGTH,)),
    ONE_BY_ONE: Call(pieces=(1,) * LENGTH),
    PIECES: Call(pieces=(3, 2, 1)),
    f"with a cache, at T = {LONG}": Call(pieces=(LONG - 9, 7, 1, 1)),
    f"with a cache, one by one, to T = {LONG}": Call(pieces=(1,) * LONG),
    "with a cache for one text alone": Call(1, pieces=(3, 1, 2)),
    "with a second cache for a second text": (
        _chain(Call(pieces=(3, 1, 2)), Call(pieces=(3, 1, 2), seed=2))
    ),
    "with two texts read in turns, a cache each": in_turns,
    # Whether a cache that is full raises an error, or serves all the same.
    "with more tokens than a cache has room for": (
        lambda each: torch.tensor(not beyond(each))
    ),
}


def gradient(name: str, padded: bool, each: Probe) -> Tensor:
    """Return the gradient of a weight, or of the input; zeros where there is none."""
    x, mask = each.x(), each.padding([4]) if padded else None
    weight = each.layer.get_parameter(name) if name else x.requires_grad_()
    with torch.enable_grad():
        found = each.run_causal(x, mask)
        loss = (found * each.x(seed=5)[..., :1] * found.detach().sin()).sum()
        (grad,) = torch.autograd.grad(loss, [weight], allow_unused=True)
    return torch.zeros_like(weight) if grad is None else grad
