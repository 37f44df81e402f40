"""The checks of chapter 25: each usual mistake is made, and must be named."""

import torch

from attention_lib.course.exercises import ch25

duplicate, without = ch25.check_duplicate_score.made, ch25.check_without_head.made
lookup = ch25.check_lookup.made


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
        duplicate("tril(-1)", "tril(diagonal=-1)"),
        duplicate(ch25.MEAN, "[:, asked].sum(dim=-1) / asked.sum()"),
        duplicate(ch25.MEAN, ".sum(dim=-1) / asked.sum()"),
        duplicate(ch25.ON, "torch.einsum('htk,tk->ht', weights, 1.0 * earlier)"),
        duplicate(ch25.ON, "weights.masked_fill(~earlier, 0).sum(dim=-1)"),
        duplicate(ch25.ON, "torch.where(earlier, weights, 0).sum(dim=-1)"),
        duplicate("ids[:, None] == ids", "ids.unsqueeze(1).eq(ids)"),
        duplicate("earlier.any(dim=-1)", "earlier.sum(dim=-1) > 0"),
        duplicate("earlier.any(dim=-1)", "earlier.any(dim=-1).nonzero().flatten()"),
    ],
    "without_head": [
        without(ch25.VALUE, "context.mean(dim=(0, 1))[own]"),
        without(ch25.VALUE, "context[..., own].flatten(0, 1).mean(dim=0)"),
        without(ch25.VALUE, "context[..., own].mean(dim=0).mean(dim=0)"),
        without(ch25.VALUE, "context[..., own].mean((0, 1), keepdim=True)"),
        without(ch25.VALUE, "context[..., own].sum((0, 1)) / context[..., 0].numel()"),
        without("context.clone()", "context * 1"),
        without(ch25.OWN, "torch.arange(width) + head * width"),
        without("width = context.shape[-1] // num_heads",
                "width = context.size(2) // num_heads"),
        without("changed = context.clone()",
                "heads = context.unflatten(-1, (num_heads, -1)).clone(); "
                "heads[:, :, head] = heads[:, :, head].mean((0, 1)); "
                "return heads.flatten(2)"),
    ],
    "lookup": [
        looped,
        lookup(ch25.KEYS, "tokens @ (10 * before.T)"),
        lookup(ch25.KEYS, "torch.einsum('qv,kv->qk', tokens, before) * 10"),
        lookup(ch25.SHIFT, "before[1:].copy_(tokens[:-1])"),
        lookup(ch25.SHIFT,
               "before = torch.diag(torch.ones(len(ids) - 1), -1) @ tokens"),
        lookup(ch25.SHIFT, "before = F.pad(tokens, (0, 0, 1, 0))[:-1]"),
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
        (duplicate(ch25.EARLIER, f"{ch25.EARLIER} & (ids < 4)"),
         "Right for one text. For another"),
    ],
    "without_head": [
        (without(ch25.OWN, "slice(width, 2 * width)"), "For head 0 of 2"),
        (without(ch25.OWN, "slice(head % 3 * width, (head % 3 + 1) * width)"),
         "For the last one of 4"),
    ],
    "lookup": [
        (lookup(ch25.MIX, "weights @ tokens * (ids < 4).all()"),
         "one text. For another"),
        (lookup(ch25.MIX, "weights @ tokens * (len(ids.unique()) < len(ids))"),
         "Where none does"),
        (lookup(ch25.MIX, "weights @ tokens * (len(ids) != 5)"), "without its end"),
    ],
}  # fmt: skip
