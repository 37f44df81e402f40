"""One combination of the matrix: a batch, as a user calls it, against each text alone.

A ``Case`` names everything that is varied; ``check(entry, case)`` runs it. What a query
may see is said by positions in its own text, so the reference knows neither columns
nor padding nor pieces.

Bounds: a stable computation errs about as much as if each weight and each number of
the input had been rounded once to the type. The reference is computed again with such
a rounding: ``SLACK`` times the most by which this moves a token is allowed.
"""

import copy
import inspect
import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attention_lib.reproducibility import seeded

SLACK = 10  # a layer rounds about ten times in a row
WINDOW, CHUNK = 3, 4
PREFIX, TAIL, LONG = 5, 2, 300
JUNK = 2  # tokens that a crop forgets

WIDE = {"float64": torch.float64, "float32": torch.float32}
HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
AUTOCAST = {f"autocast {name}": dtype for name, dtype in HALF.items()}
DTYPES = WIDE | HALF | AUTOCAST
MASKS = {
    "none": lambda text, query, key: True,
    "causal": lambda text, query, key: key <= query,
    "boolean": lambda text, query, key: (7 * query + 5 * key + text) % 3 != 0,
    "window": lambda text, query, key: query - WINDOW < key <= query,
    "chunk": lambda text, query, key: key <= query and key // CHUNK == query // CHUNK,
}
PADDINGS = "none", "right", "left"
BEGUN = "prefix", "repeated", "cropped"
CACHES = "none", "tokens", "pieces", *BEGUN
COPIED = {"repeated": "repeat", "cropped": "crop"}
SIZES = "plain", "large", "long"
PARTS = "plain", "hook", "adapter"


@dataclass(frozen=True)
class Case:
    """One combination. Its ``repr`` is what ``check`` is called with.

    Attributes:
        layer: the line of the table.
        dtype: of weights and inputs; or that of autocast around float32.
        mask: what is told to the layer, of ``MASKS``.
        padding: the side of it; after a cached beginning it stands in the middle.
        cache: how the text is read; see ``Layout``.
        part: what replaces a projection, and which: ``hook``, ``adapter``.
        empty: whether one query of each text may see nothing.
        turned: whether angles are given.
        size: ``large`` overflows float16 where scores are not summed in float32.
        lengths: of the texts; those behind a cached beginning.
    """

    layer: str
    dtype: str = "float64"
    mask: str = "causal"
    padding: str = "none"
    cache: str = "none"
    part: str = "plain"
    projection: int = 0
    empty: bool = False
    turned: bool = False
    size: str = "plain"
    lengths: tuple[int, int] = (3, 5)

    @property
    def wide(self) -> bool:
        return self.dtype in WIDE

    @property
    def middle(self) -> bool:
        """Whether padding stands behind tokens that were read."""
        return self.padding != "none" and self.cache in (
            "prefix",
            "repeated",
            "cropped",
        )


@dataclass(frozen=True)
class Entry:
    """A line of the table: what is made, how it is called, what it must equal.

    Attributes:
        make: gives the module, in float64, or None for a function.
        call: ``call(module, x, **told)`` gives what comes for the columns of x.
        alone: ``alone(module, x, sees, angles)`` gives the same of one text, slowly.
        tokens: ``tokens(count, generator)`` gives random inputs.
        own: the positions that the layer itself lets a query see.
        masks, paddings, caches, sizes, dtypes: what it can be told.
        angles: the width that is turned; None where it takes no angles.
        empties: whether a mask can hide all from a query.
        counts: whether distances matter, so that padding in the middle needs positions.
        places: whether places matter, so that padding on the left needs positions.
        middle: whether padding may stand behind what was read.
        refuses: what it is right to refuse: a condition, the error, and its words.
        least: the coarsest type that it computes in, whatever the type of its inputs.
    """

    make: Any
    call: Any
    alone: Any
    tokens: Any
    own: Any = None
    masks: tuple = tuple(MASKS)
    paddings: tuple = PADDINGS
    caches: tuple = CACHES
    sizes: tuple = SIZES
    dtypes: tuple = tuple(DTYPES)
    angles: int | None = None
    empties: bool = True
    counts: bool = False
    places: bool = False
    middle: bool = True
    refuses: tuple = ()
    least: torch.dtype = torch.float64

    def nearest(self, case):
        """The case, with the plainest choice wherever there is no such call."""
        module = first(self)
        if case.part == "plain":
            case = replace(case, projection=0)
        if case.mask == "none" and case.cache != "none":
            case = replace(case, cache="none")  # what comes later is not read yet
        if case.size == "large" and case.wide:
            case = replace(case, size="plain")
        if case.size == "long" and case.cache not in ("none", "pieces"):
            case = replace(case, cache="pieces" if "pieces" in self.caches else "none")
        if case.cache in COPIED and module is not None:
            kept = module.new_cache(1, 1)  # a state may be copied, and not cut back
            if not hasattr(kept, COPIED[case.cache]):
                case = replace(case, cache="prefix")
        uneven = len({*case.lengths}) > 1 or case.size == "long"
        rows = module is not None and takes_rows(module)
        left = self.places and case.padding == "left"
        needs = left or (self.counts and case.middle)
        if needs and not rows:  # positions of one text for all, or none at all
            told = takes(module, "positions")
            lengths = (3, 3) if uneven else case.lengths
            padding = case.padding if told else "none"
            case = replace(case, lengths=lengths, size="plain", padding=padding)
        if case.middle and not self.middle:
            case = replace(case, padding="none")
        return case


class Layout:
    """Which position of its text stands in which column, and what each call reads.

    A cached beginning of ``PREFIX`` tokens comes first, ``TAIL`` tokens come last, one
    by one, as in generation; between them stand texts with their padding.
    """

    def __init__(self, case):
        first, last = (PREFIX, TAIL) if case.cache in BEGUN else (0, 0)
        lengths = case.lengths if case.size != "long" else (LONG, 7)
        if case.padding == "none":  # equal
            lengths = (max(lengths),) * len(lengths)
        width = max(lengths)
        if case.padding != "none" and len({*lengths}) == 1:
            width += 2  # padding of the same size for all
        rows = []
        for length in lengths:
            text, gap = [*range(first, first + length)], [-1] * (width - length)
            text = gap + text if case.padding == "left" else text + gap
            new = range(first + length, first + length + last)
            rows.append([*range(first), *text, *new])
        self.places = np.array(rows)  # (B, K), -1 for padding
        self.totals = [first + length + last for length in lengths]
        columns = self.places.shape[1]
        if case.cache == "none":
            ends = [columns]
        elif case.cache == "tokens":
            ends = [*range(1, columns + 1)]
        elif case.cache == "pieces":
            sizes = [3, 1, 2, 1] if columns < 50 else [130, 1, 64]
            ends = [*np.cumsum(sizes)]
            ends = [end for end in ends if end < columns] + [columns]
        else:
            ends = [first, first + width, *range(first + width + 1, columns + 1)]
        self.calls = [*zip([0, *ends[:-1]], ends, strict=True)]


@cache
def rule_table(name, text, length):
    """A table (Q, K): which positions a query may see by a rule."""
    rule = MASKS[name] if isinstance(name, str) else name
    places = range(length)
    if isinstance(name, str):
        rows = [[rule(text, q, k) for k in places] for q in places]
    else:
        rows = [[rule(q, k) for k in places] for q in places]
    return np.array(rows, dtype=bool)


def sights(case, entry, totals):
    """What each query sees, text by text: told, and what of it is known anyway."""
    told, seen = [], []
    for text, length in enumerate(totals):
        table = rule_table(case.mask, text, length).copy()
        if case.empty:
            table[length // 2] = False
        told.append(table)
        if case.cache != "none":
            table = table & rule_table("causal", text, length)
        if entry.own is not None:
            table = table & rule_table(entry.own, text, length)
        if case.cache == "repeated" and text:  # its beginning is that of the first
            told[-1][:PREFIX] = table[:PREFIX] = False
            told[-1][:PREFIX, :PREFIX] = told[0][:PREFIX, :PREFIX]
            table[:PREFIX, :PREFIX] = seen[0][:PREFIX, :PREFIX]
        seen.append(table)
    return told, seen


def told_mask(case, layout, told):
    """The mask as a user makes it: (B, K, K), (B, 1, K), (K, K), or None."""
    places = layout.places
    real = places >= 0
    if case.mask in ("none", "causal") and not case.empty:
        return None if real.all() else torch.from_numpy(real[:, None])
    rows = []
    for own, table in zip(places, told, strict=True):
        seen = table[own.clip(0)][:, own.clip(0)]
        rows.append(seen & (own >= 0) & (own >= 0)[:, None])
    mask = torch.from_numpy(np.stack(rows))
    one = case.mask in ("window", "chunk") and bool((mask == mask[:1]).all())
    return mask[0] if one else mask


class Adapter(nn.Module):
    """A projection and a correction of low rank: it has no weight of its own."""

    def __init__(self, inner, generator):
        super().__init__()
        self.inner = inner
        rows, columns = inner.weight.shape
        self.down = nn.Linear(columns, 2, bias=False, dtype=torch.float64)
        self.up = nn.Linear(2, rows, bias=False, dtype=torch.float64)
        for part in (self.down, self.up):
            size = part.weight.shape
            part.weight.data = (
                torch.randn(size, generator=generator, dtype=torch.float64)
                * size[1] ** -0.5
            )

    def forward(self, x):
        return self.inner(x) + self.up(self.down(x))


def projections(module):
    """The names of all linear layers."""
    if module is None:
        return []
    return [name for name, it in module.named_modules() if isinstance(it, nn.Linear)]


def replaced(module, case):
    """The module with a hook or an adapter; and the plain one that it must equal."""
    if case.part == "plain":
        return module, module
    plain = copy.deepcopy(module)
    names = projections(module)
    name = names[case.projection % len(names)]
    inner, merged = module.get_submodule(name), plain.get_submodule(name)
    for weight in ("weight", "bias"):  # of its own, also where an embedding shares it
        if getattr(merged, weight) is not None:
            setattr(merged, weight, nn.Parameter(getattr(merged, weight).data.clone()))
    if case.part == "hook":
        inner.register_forward_hook(lambda _, x, y: 1.5 * y)
        for weight in merged.parameters():
            weight.data *= 1.5
        return module, plain
    adapter = Adapter(inner, seeded(5))
    parent, _, child = name.rpartition(".")
    setattr(module.get_submodule(parent), child, adapter)
    merged.weight.data += adapter.up.weight.data @ adapter.down.weight.data
    return module, plain


def rounded(tensor, dtype, generator):
    """A tensor as if each of its numbers had been rounded at random."""
    if not tensor.is_floating_point():
        return tensor
    unit = torch.finfo(dtype).eps
    noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) - 0.5
    return tensor * (1 + unit * noise)


def texts_of(case, entry, layout):
    """The tokens of each text, (T, ...) in float64, and those of all padding."""
    generator = seeded(3)
    texts = [entry.tokens(total, generator) for total in layout.totals]
    if case.size == "large":
        texts = [512 * text for text in texts]
    if case.cache == "repeated":  # one beginning
        for text in texts[1:]:
            text[:PREFIX] = texts[0][:PREFIX]
    return texts, entry.tokens(layout.places.size, generator)


def batch_of(texts, filler, places):
    """Put texts in their columns, and random tokens where there is padding."""
    rows = filler.unflatten(0, places.shape).clone()
    for row, text, own in zip(rows, texts, places, strict=True):
        row[own >= 0] = text[own[own >= 0]]
    return rows


def as_type(tensor, dtype):
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


@dataclass
class Told:
    """What a call is told besides its tokens."""

    case: Case
    places: torch.Tensor  # (B, T), of the new columns
    known: torch.Tensor  # (B, K), of all so far
    real: torch.Tensor  # (B, T)
    mask: torch.Tensor | None
    causal: bool
    cache: Any
    angles: torch.Tensor | None
    totals: tuple = ()

    @property
    def uneven(self):
        """Whether positions differ from text to text."""
        return bool((self.places != self.places[:1]).any())


class Batch:
    """A case, made ready: the module in its type, and all texts with their padding."""

    def __init__(self, entry, case):
        self.entry, self.case, self.layout = entry, case, Layout(case)
        self.dtype = DTYPES[case.dtype]
        autocast = case.dtype in AUTOCAST
        stored = torch.float32 if autocast else self.dtype
        self.around = torch.autocast("cpu", self.dtype) if autocast else nullcontext()
        self.module = self.plain = None
        if entry.make:
            module, plain = replaced(made(entry), case)
            self.module, self.plain = module.to(stored), plain.to(stored)
        texts, filler = texts_of(case, entry, self.layout)
        self.texts = [as_type(text, stored) for text in texts]
        self.x = batch_of(self.texts, as_type(filler, stored), self.layout.places)
        told, self.sees = sights(case, entry, self.layout.totals)
        self.mask, self.angles = told_mask(case, self.layout, told), None
        if case.turned:
            self.angles = angles_of(max(self.layout.totals), entry.angles, stored)

    def read(self):
        """Read call by call, and return all that came, (B, K, ...)."""
        found, kept, case = [], None, self.case
        batch, columns = self.x.shape[:2]
        if case.cache != "none":
            several = 1 if case.cache == "repeated" else batch
            kept = self.module.new_cache(several, columns + JUNK)
        for start, end in self.layout.calls:
            first = start == 0
            rows = slice(1 if first and case.cache == "repeated" else None)
            told = self.told(rows, start, end, kept)
            came = self.entry.call(self.module, self.x[rows, start:end], told)
            if first and case.cache == "repeated":
                original, kept = kept, kept.repeat(batch)
                came = came.repeat(batch, *[1] * (came.ndim - 1))
                self.go_on(told, original, rows)  # its copies must not notice
            if first and case.cache == "cropped":
                self.go_on(told, kept, rows)
                kept.crop(PREFIX)
            found.append(came)
        return torch.cat(found, dim=1)

    def told(self, rows, start, end, kept):
        places, case = self.layout.places[rows, :end], self.case
        new = torch.from_numpy(places[:, start:].clip(0))
        mask = self.mask
        if mask is not None:
            mask = mask[rows] if mask.ndim == 3 else mask
            mask = mask[..., :end]
            mask = mask[..., start:end, :] if mask.shape[-2] > 1 else mask
        return Told(
            case,
            places=new,
            known=torch.from_numpy(places.clip(0)),
            real=torch.from_numpy(places[:, start:] >= 0),
            mask=mask,
            causal=case.mask == "causal" or case.cache != "none",
            cache=kept,
            angles=None if self.angles is None else self.angles[new],
            totals=tuple(self.layout.totals),
        )

    def go_on(self, told, kept, rows):
        """Go on behind the beginning, with tokens that the texts must not notice."""
        x = self.x[rows, -JUNK:]
        known = torch.arange(PREFIX + JUNK).expand(len(x), -1)
        angles = None if told.angles is None else told.angles[:, -JUNK:]
        real = torch.ones(x.shape[:2], dtype=torch.bool)
        more = Told(told.case, known[:, PREFIX:], known, real, None, True, kept, angles)
        self.entry.call(self.module, x, more)

    def alone(self):
        """Give what each text alone gives, slowly, and the error that is allowed."""
        entry, generator = self.entry, seeded(11)
        unit = max(self.dtype, entry.least, key=lambda it: torch.finfo(it).eps)
        exact = [text.double() if text.is_floating_point() else text
                 for text in self.texts]  # fmt: skip
        near = [rounded(text, unit, generator) for text in exact]

        def each(texts):
            turns = None if self.angles is None else self.angles.double().numpy()
            return [
                tensor(entry.alone(self.plain, text, sees,
                                   None if turns is None else turns[: len(sees)]))
                for text, sees in zip(texts, self.sees, strict=True)
            ]  # fmt: skip

        if self.plain is not None:
            self.plain.double()  # the module itself, where it was read as it is
        right = each(exact)
        for weight in () if self.plain is None else self.plain.parameters():
            weight.data = rounded(weight.data, unit, generator)
        pairs = zip(right, each(near), strict=True)
        shift = max(norms(other - it).max() for it, other in pairs)
        size = max(norms(it).max() for it in right)
        return right, SLACK * shift + 4 * torch.finfo(unit).eps * size


@torch.no_grad()
def check(entry, case):
    """Compare a batch with each of its texts alone.

    Returns the largest error of a token, as a share of what is allowed.
    """
    batch, worst = Batch(entry, case), 0.0
    for when, error, words in entry.refuses:
        if when(case):
            with batch.around, pytest.raises(error, match=re.escape(words)):
                batch.read()
            return worst
    with batch.around:
        found = batch.read()
    assert found.isfinite().all(), "not finite"
    if case.size == "large":
        return worst
    right, allowed = batch.alone()
    for row, wanted in enumerate(right):
        came = found[row, torch.from_numpy(batch.layout.places[row] >= 0)]
        error = norms(came.double() - wanted)
        assert error.max() <= allowed, (
            f"text {row}, position {int(error.argmax())}: off by {error.max():.2g}; "
            f"rounding explains {allowed:.2g}"
        )
        worst = max(worst, (error.max() / allowed).item())
    return worst


def norms(found):
    """The length of the vector of each token."""
    return found.flatten(1).norm(dim=1)


def tensor(found):
    return torch.from_numpy(found) if isinstance(found, np.ndarray) else found


def angles_of(length, head_dim, dtype):
    """Angles of all positions, (T, P), in the type that a layer gets them in."""
    wide = torch.promote_types(dtype, torch.float32)
    pair = torch.arange(head_dim // 2, dtype=torch.float64)
    angles = torch.arange(length)[:, None] * 100.0 ** (-2 * pair / head_dim)
    return angles.to(wide)


def made(entry):
    """A copy of what a line of the table makes."""
    return copy.deepcopy(first(entry))


def first(entry):
    """What a line of the table makes, made once; to be looked at only."""
    if entry.make and id(entry) not in MADE:
        MADE[id(entry)] = entry.make()
    return MADE.get(id(entry))


MADE = {}


def takes(module, name):
    return name in inspect.signature(module.forward).parameters


def takes_rows(module):
    """Whether positions may differ from text to text: (B, T), or (B, K) of all keys."""
    given = inspect.signature(module.forward).parameters
    told = [given[name] for name in ("positions", "key_positions") if name in given]
    return any("B" in str(own.annotation).partition("Tensor")[2] for own in told)
