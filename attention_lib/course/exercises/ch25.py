"""Exercises of chapter 25: a score of maps, a head removed, a lookup by hand."""

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import Exercise, make_object, slip
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded


def _maps(*ids: int) -> tuple[Tensor, Tensor]:
    """Return the causal maps of two heads, and the tokens."""
    scores = torch.randn(2, len(ids), len(ids), generator=seeded(len(ids)))
    visible = causal_mask(len(ids))
    return scores.where(visible, -torch.inf).softmax(dim=-1), torch.tensor(ids)


EARLIER = "(ids[:, None] == ids).tril(-1)"
ASKED = "    asked = earlier.any(dim=-1)\n"
ON = "(weights * earlier).sum(dim=-1)"
MEAN = "[:, asked].mean(dim=-1)"
check_duplicate_score = Exercise(
    solution="""
def duplicate_score(weights, ids):
    earlier = (ids[:, None] == ids).tril(-1)  # (T, T)
    asked = earlier.any(dim=-1)
    return (weights * earlier).sum(dim=-1)[:, asked].mean(dim=-1)
""",
    inputs=_maps,
    cases=[
        ((3, 1, 3, 0, 1, 3), ""),
        ((2, 2, 5, 0, 5, 2, 4), "Right for one text. For another:"),
    ],
    slips=[
        slip("The query itself is not an earlier copy.", "tril(-1)", "tril()"),
        slip("The query itself is not an earlier copy.",
             ASKED, ASKED + "    earlier = (ids[:, None] == ids).tril()\n"),
        slip("Queries without an earlier copy must not count.",
             MEAN, ".mean(dim=-1)"),
        slip("The mean over the queries is missing: this is the sum.",
             MEAN, ".sum(dim=-1)"),
        slip("That is the induction score: it looks one position further.",
             EARLIER, "F.pad(ids[:, None] == ids, (1, 0))[:, :-1].tril()"),
        slip("You look one position before the copies.",
             EARLIER, "(ids[:, None] == ids).roll(-1, 1).tril()"),
        slip("Only the last copy counts: take all of them.", ASKED, ASKED +
             "    earlier &= earlier.flip(1).cumsum(1).flip(1) == 1\n"),
        slip("Only the first copy counts: take all of them.",
             ASKED, ASKED + "    earlier &= earlier.cumsum(1) == 1\n"),
        slip("A query with two copies adds both weights, and counts once.",
             ON + MEAN, "(weights * earlier).sum((1, 2)) / earlier.sum()"),
        slip("The weights on all earlier copies are added up, not averaged.",
             ON, f"({ON} / earlier.sum(dim=-1).clamp(min=1))"),
        slip("One number for each head is wanted, not their mean.",
             MEAN, "[:, asked].mean()"),
        slip("The mean over the queries is missing.", MEAN, ""),
    ],
    praise="Such a score finds heads that look at earlier copies.",
)  # fmt: skip

OWN = "slice(head * width, (head + 1) * width)"
VALUE = "context[..., own].mean(dim=(0, 1))"
check_without_head = Exercise(
    solution="""
def without_head(context, num_heads, head):
    width = context.shape[-1] // num_heads
    own = slice(head * width, (head + 1) * width)
    changed = context.clone()
    changed[..., own] = context[..., own].mean(dim=(0, 1))
    return changed
""",
    inputs=lambda heads, head, width: (
        torch.randn(5, 6, heads * width, generator=seeded(heads)) + 1, heads, head
    ),
    cases=[
        ((3, 1, 4), ""),
        ((2, 0, 3), "Right for head 1 of 3. For head 0 of 2:"),
        ((4, 3, 2), "Right for two heads. For the last one of 4:"),
    ],
    slips=[
        slip("Zeros: a head that finds nothing at all is unlike anything that the "
             "model knows. Take the mean.", VALUE, "0"),
        slip("The mean is taken in each text: take it over the texts, too.",
             "dim=(0, 1)", "dim=1, keepdim=True"),
        slip("The mean is taken at each position: take it over the positions, too.",
             "dim=(0, 1)", "dim=0"),
        slip("One number for all: each of the head's numbers has a mean of its own.",
             VALUE, "context.mean()"),
        slip("One number for all: each of the head's numbers has a mean of its own.",
             "dim=(0, 1)", ""),
        slip("The mean is taken over the head's numbers: take it over texts and "
             "positions.", "dim=(0, 1)", "dim=-1, keepdim=True"),
        slip("The numbers of a head are side by side: head 0 first.",
             OWN, "slice(head, None, num_heads)"),
        slip("The other heads are replaced, not this one.",
             OWN, "torch.arange(context.shape[-1]) // width != head"),
        slip("All heads are replaced.", OWN, "slice(None)"),
        slip("That is the next head: they are counted from 0.",
             OWN, "slice((head + 1) * width, (head + 2) * width)"),
        slip("That is the head before: they are counted from 0.",
             OWN, "slice((head - 1) * width, head * width)"),
        slip("Nothing is replaced.", "return changed", "return context"),
        slip("The head's numbers are cut out: the output projection wants all of them.",
             "return changed", "return torch.cat([context[..., : own.start], "
             "context[..., own.stop :]], dim=-1)"),
    ],
    praise="What it adds keeps its usual size, and says nothing.",
)  # fmt: skip


KEYS, MIX = "10 * tokens @ before.T", "weights @ tokens"
SHIFT = "before[1:] = tokens[:-1]"
SHARES = "scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)"
check_lookup = Exercise(
    solution="""
class MyLookup:
    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def __call__(self, ids):
        tokens = 1.0 * F.one_hot(ids, self.vocab_size)  # (T, V)
        before = torch.zeros_like(tokens)
        before[1:] = tokens[:-1]
        scores = 10 * tokens @ before.T
        visible = torch.ones(len(ids), len(ids)).tril().bool()
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        return weights @ tokens
""",
    inputs=lambda *ids: (torch.tensor(ids),),
    use=lambda answer, ids: make_object(answer, 6, methods=["__call__"])(ids),
    cases=[
        ((3, 1, 3, 0, 1, 3), ""),
        ((3, 1, 3, 0, 1), "Right for a text. For the same text without its end:"),
        ((2, 2, 5, 0, 5, 2, 4), "Right for one text. For another:"),
        ((0, 1, 2, 3), "Right where tokens come back. Where none does:"),
    ],
    slips=[
        slip("A query sees the future: where is the mask?",
             ".masked_fill(~visible, -torch.inf)", ""),
        slip("The keys are the tokens themselves: they must say which one came before.",
             SHIFT, "before = tokens"),
        slip("The keys say which token comes after a position: they must say which "
             "one came before.", SHIFT, "before[:-1] = tokens[1:]"),
        slip("At the first position, the key says that a token came before it. Nothing "
             "does.", SHIFT, "before = tokens.roll(1, 0)"),
        slip("The values are the tokens before: so the copy itself is copied, not what "
             "followed.", MIX, "weights @ before"),
        slip("The values are one position too far.",
             MIX, "weights @ F.pad(tokens, (0, 0, 0, 1))[1:]"),
        slip("A match has the score 10, not 1.", KEYS, "tokens @ before.T"),
        slip("The queries are the tokens before: a query is the token itself.",
             KEYS, "10 * before @ before.T"),
        slip("A match has the score 10: divide it by nothing.",
             KEYS, f"{KEYS} / self.vocab_size**0.5"),
        slip("Those are the shares of the keys: the shares of the tokens at those "
             "positions are wanted.", MIX, "weights"),
        slip("A hidden key with the score 0 still gets a share: its score must be "
             "minus infinity.", "-torch.inf", "0"),
        slip("The future is hidden after the softmax: it must be hidden before, so "
             "that all shares sum to 1.",
             SHARES, "scores.softmax(dim=-1) * visible"),
        slip("Those are sums of scores: where is the softmax?",
             SHARES, "scores * visible"),
        slip("That is the best guess: the shares of all tokens are wanted.",
             MIX, f"({MIX}).argmax(-1)"),
        slip("Every position is a query, not only the last one.", MIX, f"({MIX})[-1]"),
        slip("Those are logarithms: shares are wanted.", MIX, f"({MIX}).log()"),
    ],
    praise="The keys say which token came before: this is an induction head.",
)  # fmt: skip
