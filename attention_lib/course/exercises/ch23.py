"""Checks of chapter 23: a score of maps, a head removed, a lookup by hand."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lib.course.exercises.verdict import Mistakes, Verdict, after, judge, run
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded

TEXTS = [
    torch.tensor([3, 1, 3, 0, 1, 3]),
    torch.tensor([2, 2, 5, 0, 5, 2, 4]),
    torch.tensor([0, 1, 2, 3]),
]


def check_duplicate_score(answer: object) -> Verdict:
    """Checks each head's mean weight on earlier copies of the query's own token."""
    for ids, so_far in [(TEXTS[0], ""), (TEXTS[1], "Right for one text. For another:")]:
        length = len(ids)
        scores = torch.randn(2, length, length, generator=seeded(length))
        maps = scores.where(causal_mask(length), -torch.inf).softmax(dim=-1)
        equal = ids[:, None] == ids
        earlier = equal.tril(-1)
        asked = earlier.any(dim=-1)
        count = asked.sum()
        later = (equal.roll(1, dims=1)).tril()
        later[:, 0] = False
        places = torch.arange(length)
        last = F.one_hot((earlier * (places + 1)).argmax(-1), length).bool() & earlier
        first = F.one_hot(earlier.int().argmax(-1), length).bool() & earlier
        before = equal.roll(-1, dims=1).tril()
        on = maps * earlier
        right = on.sum(dim=(1, 2)) / count
        mistakes = [
            ((maps * equal.tril()).sum((1, 2)) / length, "The query itself is no "
             "earlier copy."),
            ((maps * equal.tril())[:, asked].sum((1, 2)) / count, "The query itself is "
             "no earlier copy."),
            (on.sum((1, 2)) / length, "Queries without an earlier copy must not "
             "count."),
            (on.sum((1, 2)), "The mean over the queries is missing: this is the sum."),
            ((maps * later).sum((1, 2)) / later.any(-1).sum(), "That is the induction "
             "score: it looks one place further."),
            ((maps * before).sum((1, 2)) / before.any(-1).sum(), "You look one place "
             "before the copies."),
            ((maps * last).sum((1, 2)) / count, "Only the last copy counts: take all "
             "of them."),
            ((maps * first).sum((1, 2)) / count, "Only the first copy counts: take all "
             "of them."),
            (on.sum((1, 2)) / earlier.sum(), "A query with two copies adds both "
             "weights, and counts once."),
            ((on.sum(-1) / earlier.sum(-1).clamp(min=1))[:, asked].mean(-1), "The "
             "weights on all earlier copies are added up, not averaged."),
            (right.mean(), "One number for each head is wanted, not their mean."),
            (on.sum(-1), "The mean over the queries is missing."),
        ]  # fmt: skip
        if wrong := judge(answer, (maps, ids), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "Such a score finds heads that look at earlier copies.")


def check_without_head(answer: object) -> Verdict:
    """Checks a head replaced by what it finds on average over texts and tokens."""
    for heads, head, width, so_far in [
        (3, 1, 4, ""),
        (2, 0, 3, "Right for head 1 of 3. For head 0 of 2:"),
        (4, 3, 2, "Right for two heads. For the last one of 4:"),
    ]:
        context = torch.randn(5, 6, heads * width, generator=seeded(heads)) + 1
        own = torch.zeros(heads * width, dtype=torch.bool)
        own[head * width : (head + 1) * width] = True
        woven = torch.arange(heads * width) % heads == head
        mean = context.mean(dim=(0, 1))
        right = mean.where(own, context)
        mistakes: list[tuple[Any, str]] = [
            (context.where(~own, 0), "Zeros: a head that finds nothing at all is "
             "unlike anything that the model knows. Take the mean."),
            (context.mean(1, keepdim=True).where(own, context), "The mean is taken in "
             "each text: take it over the texts, too."),
            (context.mean(0).where(own, context), "The mean is taken at each place: "
             "take it over the places, too."),
            (context.mean().where(own, context), "One number for all: each of the "
             "head's numbers has a mean of its own."),
            (context[..., own].mean().where(own, context), "One number for all: each "
             "of the head's numbers has a mean of its own."),
            (context[..., own].mean(-1, keepdim=True).where(own, context), "The mean "
             "is taken over the head's numbers: take it over texts and places."),
            (mean.where(woven, context), "The numbers of a head stand side by side: "
             "head 0 first."),
            (mean.where(~own, context), "The other heads are replaced, not this one."),
            (mean.expand_as(context), "All heads are replaced."),
            (mean.where(own.roll(width), context), "That is the next head: they are "
             "counted from 0."),
            (mean.where(own.roll(-width), context), "That is the head before: they "
             "are counted from 0."),
            (context, "Nothing is replaced."),
            (context[..., ~own], "The head's numbers are cut out: the output "
             "projection wants all of them."),
        ]  # fmt: skip
        inputs = (context, heads, head)
        if wrong := judge(answer, inputs, right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "What it adds keeps its usual size, and says nothing.")


def check_lookup(answer: object) -> Verdict:
    """Checks two heads by hand: what followed earlier copies of each token."""
    made = run(answer, 6)
    if isinstance(made, Verdict):
        return made
    if not callable(made):
        came = type(made).__name__
        return Verdict(False, f"Your function returns a {came}: a class whose objects "
                       "can be called is wanted.")  # fmt: skip
    for ids, so_far in [
        (TEXTS[0], ""),
        (TEXTS[1], "Right for one text. For another:"),
        (TEXTS[2], "Right where tokens come back. Where none does:"),
    ]:
        right = _lookup(ids)
        if wrong := judge(made, (ids,), right, _mistaken(ids), so_far=so_far):
            return wrong
        if wrong := judge(made, (ids[:-1],), right[:-1]):
            return after("Right for a text. For the same text without its end:", wrong)
    return Verdict(True, "The keys say what stands before: this is an induction head.")


def _lookup(
    ids: Tensor,
    *,
    before: Tensor | None = None,
    value: Tensor | None = None,
    sharpness: float = 10.0,
    causal: bool = True,
    query: Tensor | None = None,
) -> Tensor:
    """What comes of two heads by hand, or of a mistake in one of their parts."""
    tokens = 1.0 * F.one_hot(ids, 6)
    before = F.pad(tokens, (0, 0, 1, 0))[:-1] if before is None else before
    scores = sharpness * (tokens if query is None else query) @ before.T
    if causal:
        scores = scores.where(causal_mask(len(ids)), -torch.inf)
    return scores.softmax(dim=-1) @ (tokens if value is None else value)


def _mistaken(ids: Tensor) -> Mistakes:
    """Gives what comes of each usual mistake."""
    tokens = 1.0 * F.one_hot(ids, 6)
    before = F.pad(tokens, (0, 0, 1, 0))[:-1]
    behind = F.pad(tokens, (0, 0, 0, 1))[1:]
    right, scores = _lookup(ids), 10 * tokens @ before.T
    weights = _lookup(ids, value=torch.eye(len(ids)))
    return [
        (_lookup(ids, causal=False), "A query sees the future: where is the mask?"),
        (_lookup(ids, before=tokens), "The keys are the tokens themselves: they must "
         "say what stands before."),
        (_lookup(ids, before=behind), "The keys say what stands after a place: they "
         "must say what stands before."),
        (_lookup(ids, before=tokens.roll(1, 0)), "At the first place, the key says "
         "that a token stands before it. Nothing does."),
        (_lookup(ids, value=before), "The values are the tokens before: so the copy "
         "itself is copied, not what followed."),
        (_lookup(ids, value=behind), "The values are one place too far."),
        (_lookup(ids, sharpness=1.0), "A match has the score 10, not 1."),
        (_lookup(ids, query=before), "The queries are the tokens before: a query is "
         "the token itself."),
        (_lookup(ids, sharpness=10 * 6**-0.5), "A match has the score 10: divide it by "
         "nothing."),
        (weights, "Those are the shares of the keys: the shares of the tokens that "
         "stand there are wanted."),
        (scores.tril().softmax(-1) @ tokens, "A hidden key with the score 0 still gets "
         "a share: its score must be minus infinity."),
        (scores.softmax(-1).tril() @ tokens, "The future is hidden after the softmax: "
         "it must be hidden before, so that all shares sum to 1."),
        (scores.tril() @ tokens, "Those are sums of scores: where is the softmax?"),
        (right.argmax(-1), "That is the best guess: the shares of all tokens are "
         "wanted."),
        (right[-1], "Every place is a query, not only the last one."),
        (right.log(), "Those are logarithms: shares are wanted."),
    ]  # fmt: skip
