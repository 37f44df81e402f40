"""The checks of chapter 23: each usual mistake is made, and must be named."""

import torch

from tests.answers import solution

duplicate = solution(
    """
def duplicate_score(weights, ids):
    earlier = (ids[:, None] == ids).tril(-1)
    asked = earlier.any(dim=-1)
    return (weights * earlier).sum(dim=-1)[:, asked].mean(dim=-1)
"""
)
EARLIER, MEAN = "tril(-1)", "[:, asked].mean(dim=-1)"
ON = "(weights * earlier).sum(dim=-1)"

without = solution(
    """
def without_head(context, num_heads, head):
    width = context.shape[-1] // num_heads
    own = slice(head * width, (head + 1) * width)
    changed = context.clone()
    changed[..., own] = context[..., own].mean(dim=(0, 1))
    return changed
"""
)
OWN, VALUE = (
    "slice(head * width, (head + 1) * width)",
    "context[..., own].mean(dim=(0, 1))",
)

lookup = solution(
    """
class MyLookup:
    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def __call__(self, ids):
        tokens = 1.0 * F.one_hot(ids, self.vocab_size)
        before = torch.zeros_like(tokens)
        before[1:] = tokens[:-1]
        scores = 10 * tokens @ before.T
        visible = torch.ones(len(ids), len(ids)).tril().bool()
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        return weights @ tokens
"""
)
KEYS, MIX = "10 * tokens @ before.T", "weights @ tokens"
SHIFT = "before[1:] = tokens[:-1]"


def looped(vocab_size):
    """Token by token, without a matrix."""

    def call(ids):
        shares = torch.zeros(len(ids), vocab_size)
        for t, query in enumerate(ids):
            match = [10.0 * (j > 0 and ids[j - 1] == query) for j in range(t + 1)]
            for j, weight in enumerate(torch.tensor(match).exp()):
                shares[t, ids[j]] += weight
        return shares / shares.sum(dim=1, keepdim=True)

    return call


RIGHT = {
    "duplicate_score": [
        duplicate(),
        duplicate(EARLIER, "tril(diagonal=-1)"),
        duplicate(MEAN, "[:, asked].sum(dim=-1) / asked.sum()"),
        duplicate(MEAN, ".sum(dim=-1) / asked.sum()"),
        duplicate(ON, "torch.einsum('htk,tk->ht', weights, 1.0 * earlier)"),
        duplicate(ON, "weights.masked_fill(~earlier, 0).sum(dim=-1)"),
        duplicate(ON, "torch.where(earlier, weights, 0).sum(dim=-1)"),
        duplicate("ids[:, None] == ids", "ids.unsqueeze(1).eq(ids)"),
        duplicate("earlier.any(dim=-1)", "earlier.sum(dim=-1) > 0"),
        duplicate("earlier.any(dim=-1)", "earlier.any(dim=-1).nonzero().flatten()"),
    ],
    "without_head": [
        without(),
        without(VALUE, "context.mean(dim=(0, 1))[own]"),
        without(VALUE, "context[..., own].flatten(0, 1).mean(dim=0)"),
        without(VALUE, "context[..., own].mean(dim=0).mean(dim=0)"),
        without(VALUE, "context[..., own].mean((0, 1), keepdim=True)"),
        without(VALUE, "context[..., own].sum((0, 1)) / context[..., 0].numel()"),
        without("context.clone()", "context * 1"),
        without(OWN, "torch.arange(width) + head * width"),
        without("width = context.shape[-1] // num_heads",
                "width = context.size(2) // num_heads"),
        without("changed = context.clone()",
                "heads = context.unflatten(-1, (num_heads, -1)).clone(); "
                "heads[:, :, head] = heads[:, :, head].mean((0, 1)); "
                "return heads.flatten(2)"),
    ],
    "lookup": [
        lookup(), looped,
        lookup(KEYS, "(10 * tokens) @ before.T"),
        lookup(KEYS, "torch.einsum('qv,kv->qk', tokens, before) * 10"),
        lookup(SHIFT, "before[1:].copy_(tokens[:-1])"),
        lookup(SHIFT, "before = torch.diag(torch.ones(len(ids) - 1), -1) @ tokens"),
        lookup(SHIFT, "before = F.pad(tokens, (0, 0, 1, 0))[:-1]"),
        lookup("scores.masked_fill(~visible, -torch.inf)",
               "scores.where(visible, -1e9)"),
        lookup("torch.ones(len(ids), len(ids)).tril().bool()",
               "torch.arange(len(ids))[:, None] >= torch.arange(len(ids))"),
        lookup("1.0 * F.one_hot(ids, self.vocab_size)",
               "F.one_hot(ids, self.vocab_size).double()"),
    ],
}  # fmt: skip
MISTAKES = {
    "duplicate_score": [
        (duplicate(EARLIER, "tril()"), "no earlier copy"),
        (duplicate(EARLIER + "\n    asked = earlier.any(dim=-1)",
                   "tril(-1)\n    asked = earlier.any(dim=-1); "
                   "earlier = (ids[:, None] == ids).tril()"), "no earlier copy"),
        (duplicate(MEAN, ".mean(dim=-1)"), "must not count"),
        (duplicate(MEAN, ".sum(dim=-1)"), "this is the sum"),
        (duplicate("(ids[:, None] == ids).tril(-1)",
                   "F.pad(ids[:, None] == ids, (1, 0))[:, :-1].tril()"), "induction"),
        (duplicate("(ids[:, None] == ids).tril(-1)",
                   "(ids[:, None] == ids).roll(-1, 1).tril()"), "one place before"),
        (duplicate(EARLIER, EARLIER + "; earlier = earlier & (earlier.flip(1).cumsum(1)"
                   ".flip(1) == 1)"), "Only the last copy"),
        (duplicate(EARLIER, EARLIER + "; earlier = earlier & (earlier.cumsum(1) == 1)"),
         "Only the first copy"),
        (duplicate(ON + MEAN, "(weights * earlier).sum((1, 2)) / earlier.sum()"),
         "counts once"),
        (duplicate(ON, f"({ON} / earlier.sum(dim=-1).clamp(min=1))"), "not averaged"),
        (duplicate(MEAN, "[:, asked].mean()"), "not their mean"),
        (duplicate(MEAN, ""), "mean over the queries is missing"),
        (duplicate(EARLIER, EARLIER + "; earlier = earlier & (ids < 4)"),
         "Right for one text. For another"),
    ],
    "without_head": [
        (without(VALUE, "0"), "Zeros"),
        (without(VALUE, "context[..., own].mean(1, keepdim=True)"), "in each text"),
        (without(VALUE, "context[..., own].mean(0)"), "at each place"),
        (without(VALUE, "context.mean()"), "One number for all"),
        (without(VALUE, "context[..., own].mean()"), "One number for all"),
        (without(VALUE, "context[..., own].mean(-1, keepdim=True)"), "head's numbers"),
        (without(OWN, "slice(head, None, num_heads)"), "side by side"),
        (without(OWN, "[i for i in range(context.shape[-1]) if i // width != head]"),
         "other heads"),
        (without(OWN, "slice(None)"), "All heads"),
        (without(OWN, "slice(width, 2 * width)"), "For head 0 of 2"),
        (without(OWN, "slice(head % 3 * width, (head % 3 + 1) * width)"),
         "For the last one of 4"),
        (without(OWN, "slice((head + 1) * width, (head + 2) * width)"), "next head"),
        (without(OWN, "slice((head - 1) * width, head * width)"), "head before"),
        (without("return changed", "return context"), "Nothing is replaced"),
        (without("context.clone()", "context"), "changes its input"),
        (without(VALUE, VALUE + "\n    changed = torch.cat([context[..., : own.start], "
                 "context[..., own.stop :]], -1)"), "cut out"),
    ],
    "lookup": [
        (lookup("~visible", "visible & ~visible"), "sees the future"),
        (lookup(SHIFT, "before = tokens"), "tokens themselves"),
        (lookup(SHIFT, "before[:-1] = tokens[1:]"), "stands after a place"),
        (lookup(SHIFT, "before = tokens.roll(1, 0)"), "Nothing does"),
        (lookup(SHIFT, SHIFT + "; before[0] = tokens[0]"), "Nothing does"),
        (lookup(MIX, "weights @ before"), "the copy itself"),
        (lookup(MIX, "weights @ F.pad(tokens, (0, 0, 0, 1))[1:]"), "too far"),
        (lookup(KEYS, "tokens @ before.T"), "not 1"),
        (lookup(KEYS, "10 * before @ before.T"), "a query is the token itself"),
        (lookup(KEYS, KEYS + " / self.vocab_size**0.5"), "divide it by nothing"),
        (lookup(MIX, "weights"), "shares of the keys"),
        (lookup("-torch.inf", "0"), "minus infinity"),
        (lookup("scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)",
                "scores.softmax(dim=-1) * visible"), "before, so that"),
        (lookup("scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)",
                "scores * visible"), "where is the softmax"),
        (lookup(MIX, "(weights @ tokens).argmax(-1)"), "best guess"),
        (lookup(MIX, "(weights @ tokens)[-1]"), "not only the last"),
        (lookup(MIX, "(weights @ tokens).log()"), "logarithms"),
        (lookup(MIX, "weights @ tokens * (ids < 4).all()"), "one text. For another"),
        (lookup(MIX, "weights @ tokens * (len(ids.unique()) < len(ids))"),
         "Where none does"),
        (lookup(MIX, "weights @ tokens * (len(ids) != 5)"), "without its end"),
        (lambda size: size, "whose objects can be called"),
    ],
}  # fmt: skip
