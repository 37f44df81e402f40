"""The checks of chapter 8: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib import next_token_loss, warmup_cosine

# What readers write. Each function is named in MISTAKES with the words it must meet.


def losses_of(logits, token_ids, shift=1, dim=-1):
    """The loss of each target, (B, T - shift)."""
    logp = logits.log_softmax(dim)[:, : logits.shape[1] - shift]
    return -logp.gather(-1, token_ids[:, shift:, None])[..., 0]


def loss(then=lambda losses, real, lengths: losses[real].mean(), **options):
    """The mean over the real targets, with one step another."""

    def answer(logits, token_ids, lengths):
        losses = losses_of(logits, token_ids, **options)
        shift = token_ids.shape[1] - losses.shape[1]
        real = torch.arange(losses.shape[1]) + shift < lengths[:, None]
        return then(losses, real, lengths)

    return answer


def previous(logits, token_ids, lengths):
    return F.cross_entropy(logits[:, 1:].mT, token_ids[:, :-1])


def rolled(logits, token_ids, lengths):
    return F.cross_entropy(logits.mT, token_ids.roll(-1, 1))


def reshaped(logits, token_ids, lengths):
    logits = logits[:, :-1].transpose(1, 2).reshape(-1, logits.shape[-1])
    return F.cross_entropy(logits, token_ids[:, 1:].flatten())


def of_scores(then):
    def answer(logits, token_ids, lengths):
        return then(logits[:, :-1]).gather(-1, token_ids[:, 1:, None]).mean()

    return answer


def zero_skipped(logits, token_ids, lengths):
    return losses_of(logits, token_ids)[token_ids[:, 1:] > 0].mean()


def zero_skipped_if_padded(logits, token_ids, lengths):
    answer = zero_skipped if lengths.min() < 5 else loss()
    return answer(logits, token_ids, lengths)


def zeroed_scores(logits, token_ids, lengths):
    real = torch.arange(1, 5) < lengths[:, None]
    scores = logits[:, :-1] * real[..., None]
    total = F.cross_entropy(scores.mT, token_ids[:, 1:], reduction="sum")
    return total / real.sum()


def loss_in_place(logits, token_ids, lengths):
    token_ids[:, 1:][torch.arange(1, 5) >= lengths[:, None]] = -100
    return F.cross_entropy(logits[:, :-1].mT, token_ids[:, 1:])


def only_padded(answer):
    """Right where nothing is padded."""

    def chosen(logits, token_ids, lengths):
        return (answer if lengths.min() < 5 else loss())(logits, token_ids, lengths)

    return chosen


def padded_mean(of):
    """The loss, where all of them, what is real and the lengths give the mean."""
    return only_padded(loss(of))


def kept(shift=0, keep=lambda scores, lowest: scores >= lowest, fill=-math.inf):
    """The softmax over the best, with one step another."""

    def answer(logits, k):
        lowest = logits.topk(k + shift).values[:, -1:]
        return logits.masked_fill(~keep(logits, lowest), fill).softmax(-1)

    return answer


def above_the_next(logits, k):
    """Keeps what is above the best one that is cut: with ties that is too little."""
    if k == logits.shape[-1]:
        return logits.softmax(-1)
    return kept(1, lambda scores, lowest: scores > lowest)(logits, k)


def cut_scores(logits, k, fill=-math.inf):
    return logits.masked_fill(logits < logits.topk(k).values[:, -1:], fill)


def cut_after_softmax(logits, k):
    p = logits.softmax(-1)
    return p * (p >= p.topk(k).values[:, -1:])


def best_of_batch(logits, k):
    lowest = logits.flatten().topk(k).values[-1]
    return logits.masked_fill(logits < lowest, -math.inf).softmax(-1)


def top_k_in_place(logits, k):
    logits[logits < logits.topk(k).values[:, -1:]] = -math.inf
    return logits.softmax(-1)


def schedule(up=None, down=None, until=0):
    """Up in a line, down in a cosine, with one of both another."""

    def answer(step, warmup, steps):
        if step < warmup + until:
            return up(step, warmup, steps) if up else (step + 1) / (warmup + until)
        since, whole = step - warmup - until, steps - warmup
        if down:
            return down(step, since, whole, steps)
        return 0.5 + 0.5 * math.cos(math.pi * since / whole)

    return answer


def wave(angle):
    return 0.5 + 0.5 * math.cos(math.pi * angle)


def divided_by_warmup(step, warmup, steps):
    return min((step + 1) / warmup, schedule()(step, warmup, steps))


def silent_without_warmup(step, warmup, steps):
    return schedule()(step, warmup, steps) if warmup else None


def flat_without_warmup(step, warmup, steps):
    return schedule()(step, warmup, steps) if warmup else 1


MISTAKES = {
    "next_token_loss": [
        (loss(shift=0), "Nothing is shifted"),
        (loss(shift=2), "The targets are shifted twice"),
        (previous, "shifted the wrong way"),
        (rolled, "The last token is asked for the first one"),
        (loss(lambda x, real, _: x[real].sum()), "That is the sum: di"),
        (loss(lambda x, real, _: x.sum() / len(x)), "a loss a text: one a token"),
        (loss(lambda x, real, _: x.sum(0).mean()), "the sum over the texts"),
        (loss(lambda x, real, lengths: x.sum() / lengths.sum()), "Divided by the"),
        (loss(lambda x, *_: x), "the losses of all tokens"),
        (loss(lambda x, *_: -x.mean()), "The sign is wrong"),
        (loss(lambda x, *_: x.mean() / math.log(2)), "These are bits"),
        (loss(lambda x, *_: x.exp().mean()), "leave the logarithm"),
        (loss(lambda x, *_: x.mean().exp()), "That is the perplexity"),
        (of_scores(lambda x: x.softmax(-1)), "The logarithm is missing"),
        (loss(lambda x, *_: -(-x).exp().mean().log()), "the logarithm first, then the"),
        (of_scores(lambda x: x), "The scores are no probabilities"),
        (loss(dim=1), "The softmax runs over the places"),
        (loss(dim=0), "The softmax runs over the texts"),
        (reshaped, "The reshape mixes places and vocabulary"),
        (zero_skipped, "The id 0 is skipped"),
        (loss(lambda x, *_: x.mean()), "padding is counted: use"),
        (loss(lambda x, _, n: x[torch.arange(4) < n[:, None]].mean()), "the mask must"),
        (
            padded_mean(lambda x, _, n: x[torch.arange(4) + 2 < n[:, None]].mean()),
            "the last real target of each text is lost",
        ),
        (padded_mean(lambda x, real, _: x[~real].mean()), "only padding"),
        (zero_skipped_if_padded, "ask the lengths, not the ids"),
        (loss(lambda x, real, n: ((x * real).sum(1) / (n - 1)).mean()), "texts' means"),
        (loss(lambda x, real, _: (x * real).mean()), "padding adds noth"),
        (padded_mean(lambda x, real, n: (x * real).sum() / n.sum()), "divided by the"),
        (padded_mean(lambda x, real, _: x[real].sum()), "that is the su"),
        (padded_mean(lambda x, real, _: (x * real).sum() / len(x)), "that is a loss a"),
        (zeroed_scores, "scores of padding are set to 0"),
        (loss_in_place, "changes its input"),
        (only_padded(lambda *_: None), "4 tokens: your code gives noth"),
        (lambda *given: loss()(*given).item(), "it must be a torch tens"),
    ],
    "top_k": [
        (cut_after_softmax, "What is kept does not sum to 1"),
        (kept(fill=0.0), "A score of 0 is not small"),
        (lambda x, k: cut_scores(x, k, 0.0), "These are scores"),
        (lambda x, k: kept()(-x, k), "The lowest scores get the most"),
        (kept(keep=lambda x, lowest: x <= lowest), "The lowest scores are kept"),
        (kept(-1), "One token too few is kept"),
        (kept(1), "One token too many is kept"),
        (lambda x, k: x.softmax(-1), "Nothing is cut"),
        (lambda x, k: x.topk(k).values.softmax(-1), "must stay in its own column"),
        (lambda x, k: x.topk(k).indices, "These are the best tokens"),
        (best_of_batch, "The best of the whole batch are kept"),
        (lambda x, k: cut_scores(x, k).softmax(0), "The softmax runs over the te"),
        (lambda x, k: kept()(x, 3), "Right for the best 3 of 5. For the best 1"),
        (lambda x, k: kept(1, lambda x, lowest: x > lowest)(x, k), "best 5: Your code"),
        (above_the_next, "both are dropped, and one token is left"),
        (lambda x, k: x.softmax(-1) if len(x) == 1 else kept()(x, k), "place: The"),
        (top_k_in_place, "changes its input"),
    ],
    "schedule": [
        (schedule(lambda step, warmup, _: step / warmup), "The first step has"),
        (schedule(until=1), "The warm-up takes a step too many"),
        (schedule(lambda *_: 1), "There is no warm-up."),
        (schedule(lambda *_: 0), "During the warm-up nothing is learnt"),
        (lambda step, warmup, steps: wave(step / steps), "cosine falls from the first"),
        (
            schedule(down=lambda step, since, whole, steps: wave(step / steps)),
            "The cosine is not moved by the warm-up",
        ),
        (
            schedule(down=lambda step, since, whole, steps: wave(since / steps)),
            "The cosine does not come down far enough",
        ),
        (
            schedule(down=lambda step, since, whole, steps: wave(step / whole)),
            "The cosine begins at the end of the warm-up",
        ),
        (
            schedule(down=lambda step, since, whole, steps: wave(since / (whole - 1))),
            "The last step has the share 0",
        ),
        (schedule(down=lambda *_: 1), "After the warm-up nothing falls"),
        (
            schedule(down=lambda step, since, whole, steps: 1 - since / whole),
            "That falls in a line",
        ),
        (
            schedule(
                down=lambda step, since, whole, _: math.cos(math.pi * since / whole)
            ),
            "falls from 1 to -1",
        ),
        (
            schedule(
                down=lambda _, since, whole, __: math.cos(since / whole * np.pi / 2)
            ),
            "That is a quarter of a wave",
        ),
        (
            schedule(down=lambda _, since, whole, __: wave(since / whole / math.pi)),
            "Half a wave is an angle of π",
        ),
        (
            schedule(down=lambda _, since, whole, __: 1 - wave(since / whole)),
            "The cosine rises here",
        ),
        (schedule(lambda step, warmup, _: (warmup - step) / warmup), "warm-up falls"),
        (schedule(lambda step, warmup, steps: (step + 1) / steps), "The warm-up rises"),
        (lambda *_: 0.5, "Step 0 is not right: you give 0.500"),
        (lambda *_: math.nan, "Step 0 is not right: you give nan"),
        (divided_by_warmup, "For warmup = 0: Your code raised ZeroDivisionErro"),
        (silent_without_warmup, "For warmup = 0: at step 0 your code gives"),
        (schedule(down=lambda *_: None), "at step 4 your code gives nothing"),
        (flat_without_warmup, "For warmup = 0: After the warm-up nothing falls"),
        (lambda *_: "1", "Your function returns a str, not a number"),
        (lambda *_: True, "Your function returns a bool, not a number"),
        (lambda *_: (1, 2), "Your function returns a tuple, not a number"),
        (lambda *_: torch.ones(2), "returns a Tensor, not a number"),
    ],
}


# What is right, in the book's way and in others.


def loss_by_loops(logits, token_ids, lengths):
    losses = []
    for scores, text, length in zip(logits, token_ids, lengths, strict=True):
        for place in range(1, int(length)):
            losses.append(-scores[place - 1].log_softmax(-1)[text[place]])
    return torch.stack(losses).mean()


def loss_by_ignored_targets(logits, token_ids, lengths):
    targets = token_ids[:, 1:].clone()
    targets[torch.arange(1, token_ids.shape[1]) >= lengths[:, None]] = -100
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets.flatten())


def top_k_by_scatter(logits, k):
    best = logits.topk(k)
    return torch.zeros_like(logits).scatter(-1, best.indices, best.values.softmax(-1))


def top_k_by_loops(logits, k):
    rows = []
    for row in logits.tolist():
        lowest = sorted(row)[-k]
        exps = [math.exp(score) * (score >= lowest) for score in row]
        rows.append([e / sum(exps) for e in exps])
    return torch.tensor(rows)


def top_k_by_division(logits, k):
    p = cut_after_softmax(logits, k)
    return p / p.sum(-1, keepdim=True)


def last_of_ties(logits, k):
    return top_k_by_scatter(logits.flip(-1), k).flip(-1)


def schedule_by_torch(step, warmup, steps):
    up = torch.tensor((step + 1) / max(warmup, 1))
    down = 0.5 + 0.5 * torch.tensor(math.pi * (step - warmup) / (steps - warmup)).cos()
    return torch.where(torch.tensor(step < warmup), up, down)


RIGHT = {
    "next_token_loss": [
        next_token_loss,
        loss(),
        loss_by_loops,
        loss_by_ignored_targets,
    ],
    "top_k": [
        kept(),
        top_k_by_scatter,
        top_k_by_loops,
        top_k_by_division,
        last_of_ties,
    ],
    "schedule": [
        schedule(),
        schedule_by_torch,
        lambda step, *rest: np.float32(schedule()(step, *rest)),
        lambda s, w, n: warmup_cosine(s, warmup=w, steps=n),
    ],
}
