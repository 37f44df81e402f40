"""The checks of chapter 8: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attention_lib.reproducibility import seeded
from attention_lib.training import next_token_loss, train_step, warmup_cosine

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


def kept_scores(logits, k):
    return logits.masked_fill(logits < logits.topk(k).values[:, -1:], -math.inf)


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


LOSS, ZERO, BACK, CLIP, STEP = range(5)


def loop(
    order=(LOSS, ZERO, BACK, CLIP, STEP),
    *,
    mode=True,
    loss=next_token_loss,
    clip=lambda model: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
    zero=lambda model, optimizer: optimizer.zero_grad(),
    give=lambda losses: losses,
    number=lambda value: value.item(),
    take=lambda batches: batches,
):
    """A training loop, whose parts come in an order."""

    def answer(model, optimizer, batches):
        model.train(mode)
        losses, value = [], None
        for ids, lengths in take(batches):
            for part in order:
                if part == LOSS:
                    value = loss(model(ids, lengths), ids, lengths)
                elif part == ZERO:
                    zero(model, optimizer)
                elif part == BACK:
                    value.backward()
                elif part == CLIP:
                    clip(model)
                else:
                    optimizer.step()
            losses.append(number(value))
        return give(losses)

    return answer


def clip_by_hand(model):
    grads = [p.grad for p in model.parameters()]
    norm = torch.cat([g.flatten() for g in grads]).norm()
    for g in grads:
        g.mul_(min(1.0, 1.0 / float(norm)))


def clip_values(model):
    nn.utils.clip_grad_value_(model.parameters(), 1.0)


def loop_of_library(model, optimizer, batches):
    return [train_step(model, optimizer, ids, n) for ids, n in batches]


def no_last_step(model, optimizer, batches):
    losses = loop()(model, optimizer, batches[:-1])
    return [*losses, next_token_loss(model(batches[-1][0]), *batches[-1]).item()]


def sum_of_losses(logits, ids, lengths):
    return next_token_loss(logits, ids, lengths) * (lengths - 1).sum()


def generation(
    read=lambda ids, n: ids[:, -n:],
    pick=lambda logits: logits[:, -1].argmax(-1, keepdim=True),
    give=lambda ids, new: torch.cat([ids, new], dim=1),
    more=0,
    again=True,
):
    """Greedy generation, with one step another."""

    def answer(model, token_ids, max_new_tokens, context_len):
        ids, new = token_ids, token_ids[:, :0]
        for _ in range(max_new_tokens + more):
            logits = model(read(ids if again else token_ids, context_len))
            new = torch.cat([new, pick(logits)], dim=1)
            ids = torch.cat([token_ids, new], dim=1)
        return give(token_ids, new)

    return answer


def generate_by_rows(model, token_ids, max_new_tokens, context_len):
    rows = []
    for row in token_ids.tolist():
        for _ in range(max_new_tokens):
            scores = model(torch.tensor([row[-context_len:]]))[0, -1].tolist()
            row.append(scores.index(max(scores)))
        rows.append(row)
    return torch.tensor(rows)


def generate_into(model, token_ids, max_new_tokens, context_len):
    length = token_ids.shape[1]
    text = F.pad(token_ids, (0, max_new_tokens))
    for end in range(length, length + max_new_tokens):
        logits = model(text[:, max(0, end - context_len) : end])
        text[:, end] = logits[:, -1].argmax(dim=-1)
    return text


def generate_recursive(model, token_ids, max_new_tokens, context_len):
    if max_new_tokens == 0:
        return token_ids
    best = model(token_ids[:, -context_len:])[:, -1:].argmax(-1)
    longer = torch.cat([token_ids, best], dim=1)
    return generate_recursive(model, longer, max_new_tokens - 1, context_len)


def generate_in_place(model, token_ids, max_new_tokens, context_len):
    answer = generation()(model, token_ids, max_new_tokens, context_len)
    token_ids[:] = 0
    return answer


def cuts_the_text(model, token_ids, max_new_tokens, context_len):
    for _ in range(max_new_tokens):
        token_ids = token_ids[:, -context_len:]
        best = model(token_ids)[:, -1].argmax(-1, keepdim=True)
        token_ids = torch.cat([token_ids, best], dim=1)
    return token_ids[:, -context_len:]


def drawn(logits):
    return torch.multinomial(logits[:, -1].softmax(-1), 1, generator=seeded(1))


def all_at_once(model, token_ids, max_new_tokens, context_len):
    best = model(token_ids[:, -context_len:])[:, -1].argmax(-1, keepdim=True)
    return torch.cat([token_ids, best.expand(-1, max_new_tokens)], dim=1)


def silent_beyond(model, token_ids, max_new_tokens, context_len):
    if context_len == 4:
        return None
    return generation()(model, token_ids, max_new_tokens, context_len)


def whole(ids, n):
    return ids


def without_padding_left_out(logits, ids, lengths):
    return next_token_loss(logits, ids)


def mean_of_means(logits, ids, lengths):
    return torch.stack(
        [next_token_loss(a[None, :n], b[None, :n]) for a, b, n in
         zip(logits, ids, lengths.tolist(), strict=True)]
    ).mean()  # fmt: skip


MISTAKES = {
    "training_loop": [
        (loop((LOSS, BACK, CLIP, STEP)), "Old gradients are still there: remove"),
        (loop((LOSS, ZERO, BACK, STEP)), "The gradient is not clipped"),
        (loop((LOSS, ZERO, BACK, STEP, CLIP)), "The gradient is not clipped"),
        (loop((LOSS, BACK, STEP)), "Old gradients are still there, and nothing is"),
        (loop((LOSS, ZERO, BACK, CLIP)), "No weight has changed"),
        (loop((LOSS, BACK, ZERO, STEP)), "No weight has changed"),
        (loop((LOSS, ZERO, STEP, BACK, CLIP)), "No weight has changed"),
        (
            loop(clip=lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.5)),
            "clipped to another length",
        ),
        (loop(clip=clip_values), "a later one is not: what does the step"),
        (loop(mode=False), "The model is in evaluation mode"),
        (loop(loss=without_padding_left_out), "Padding is counted"),
        (loop(loss=sum_of_losses), "The first loss must be"),
        (loop(loss=mean_of_means), "The first loss must be"),
        (loop(number=lambda value: value.detach()), "Your losses are tensors"),
        (loop(give=lambda losses: losses[-1]), "returns a float, not a list"),
        (
            loop(give=lambda losses: losses[1:]),
            "There are 4 batches: your function gives 3",
        ),
        (loop(take=lambda batches: batches[:1]), "There are 4 batches"),
        (
            loop(
                take=lambda batches: [b for b in batches for _ in "12"],
                give=lambda losses: losses[::2],
            ),
            "a later one is not",
        ),
        (
            loop(take=lambda batches: batches * 2, give=lambda losses: losses[:4]),
            "Each batch is taken twice",
        ),
        (loop(number=str), "something else than a list of numbers"),
        (loop(take=lambda batches: batches[::-1]), "The first loss must be"),
        (lambda model, optimizer, batches: [], "There are 4 batches"),
        (loop((LOSS, ZERO, BACK, CLIP, STEP, STEP)), "a later one is not"),
        (no_last_step, "The losses are right, the weights afterwards are not"),
    ],
    "generate": [
        (generation(give=lambda ids, new: new), "Only the new tokens come back"),
        (cuts_the_text, "Beyond it: The text itself is cut"),
        (generation(more=-1), "One token too few"),
        (generation(more=1), "One token too many"),
        (generation(give=lambda ids, new: torch.cat([ids, new[:, :1]], 1)), "Only one"),
        (lambda model, ids, *rest: ids, "No token is added"),
        (all_at_once, "The same token is added each time"),
        (generation(again=False), "The same token is added each time"),
        (
            generation(pick=lambda logits: logits[:, 0].argmax(-1, keepdim=True)),
            "These logits belong to the first token",
        ),
        (
            generation(pick=lambda logits: logits[:, -1].argmin(-1, keepdim=True)),
            "The tokens with the lowest logits",
        ),
        (generation(lambda ids, n: ids[:, :n]), "The model reads the first tokens"),
        (generation(lambda ids, n: ids[:, 1 - n :]), "one token less than it can"),
        (generation(lambda ids, n: ids[:, -1:]), "The model reads the last token only"),
        (generation(whole), "Beyond it: Your code raised ValueError"),
        (generation(pick=drawn), "The shape is right, the content is not"),
        (generate_in_place, "Your code changes the text that"),
        (silent_beyond, "Beyond it: your code gives nothing back"),
        (lambda *given: generation()(*given).tolist(), "returns a list; it must be"),
    ],
    "next_token_loss": [
        (loss(shift=0), "Nothing is shifted"),
        (loss(shift=2), "The targets are shifted twice"),
        (previous, "shifted the wrong way"),
        (rolled, "The last token is asked for the first one"),
        (loss(lambda x, real, _: x[real].sum()), "That is the sum: di"),
        (loss(lambda x, real, _: x.sum() / len(x)), "a loss per text: a loss per tok"),
        (loss(lambda x, real, _: x.sum(0).mean()), "the sum over the texts"),
        (loss(lambda x, real, lengths: x.sum() / lengths.sum()), "This divides by the"),
        (loss(lambda x, *_: x), "the losses of all tokens"),
        (loss(lambda x, *_: -x.mean()), "The sign is wrong"),
        (loss(lambda x, *_: x.mean() / math.log(2)), "These are bits"),
        (loss(lambda x, *_: x.exp().mean()), "leave the logarithm"),
        (loss(lambda x, *_: x.mean().exp()), "That is the perplexity"),
        (of_scores(lambda x: x.softmax(-1)), "The logarithm is missing"),
        (loss(lambda x, *_: -(-x).exp().mean().log()), "the logarithm first, then the"),
        (of_scores(lambda x: x), "The scores are no probabilities"),
        (loss(dim=1), "over the positions: it"),
        (loss(dim=0), "The softmax runs over the texts"),
        (reshaped, "mixes positions and vocabulary"),
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
        (padded_mean(lambda x, real, n: (x * real).sum() / n.sum()), "this divides by"),
        (padded_mean(lambda x, real, _: x[real].sum()), "that is the su"),
        (padded_mean(lambda x, real, _: (x * real).sum() / len(x)), "is a loss per te"),
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
        (lambda x, k: kept()(x, 3), "right for the best 3 of 5. For the best 1"),
        (lambda x, k: kept(1, lambda x, lowest: x > lowest)(x, k), "best 5: Your code"),
        (above_the_next, "both are dropped, and one token is left"),
        (lambda x, k: x.softmax(-1) if len(x) == 1 else kept()(x, k), "place: The"),
        (top_k_in_place, "changes its input"),
    ],
    "schedule": [
        (schedule(lambda step, warmup, _: step / warmup), "The first step has"),
        (schedule(until=1), "The warm-up takes a step too many"),
        (schedule(lambda step, warmup, _: (step + 2) / (warmup + 2)), "Step 0 is not"),
        (schedule(lambda step, warmup, _: ((step + 1) / warmup) ** 2), "Step 0 is not"),
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
    "training_loop": [
        loop(),
        loop_of_library,
        loop((ZERO, LOSS, BACK, CLIP, STEP)),
        loop((LOSS, BACK, CLIP, STEP, ZERO)),
        loop(zero=lambda model, optimizer: model.zero_grad()),
        loop(zero=lambda model, optimizer: optimizer.zero_grad(set_to_none=False)),
        loop(clip=clip_by_hand),
        loop(loss=loss_by_ignored_targets),
        loop(loss=loss()),
        loop(number=lambda value: float(value.detach())),
        loop(give=tuple),
        loop(give=np.array),
    ],
    "generate": [
        generation(),
        generate_by_rows,
        generate_into,
        generate_recursive,
        torch.no_grad()(generation()),
        generation(lambda ids, n: ids[:, max(0, ids.shape[1] - n) :]),
        generation(lambda ids, n: ids if ids.shape[1] <= n else ids[:, -n:]),
        generation(pick=lambda logits: logits[:, -1].topk(1).indices),
        generation(pick=lambda logits: logits[:, -1].max(-1).indices[:, None]),
        generation(pick=lambda logits: logits.argmax(-1)[:, -1:]),
        generation(
            pick=lambda logits: logits.softmax(-1)[:, -1].sort().indices[:, -1:]
        ),
    ],
    "next_token_loss": [
        next_token_loss,
        loss(),
        loss_by_loops,
        loss_by_ignored_targets,
        loss(lambda x, real, n: (x * real).sum() / (n - 1).sum()),
        loss(lambda x, real, _: x.masked_select(real).mean()),
        loss(lambda x, real, _: (x * real).sum() / real.sum()),
        loss(lambda x, real, _: x.where(real, torch.nan).nanmean()),
        loss(
            lambda x, real, n: torch.cat(
                [row[: k - 1] for row, k in zip(x, n.tolist(), strict=True)]
            ).mean()
        ),
        lambda *given: loss()(*given).double().float(),
    ],
    "top_k": [
        kept(),
        top_k_by_scatter,
        top_k_by_loops,
        top_k_by_division,
        last_of_ties,
        lambda x, k: kept(fill=-1e9)(x, k),
        lambda x, k: x.where(x >= x.sort().values[:, -k, None], -math.inf).softmax(-1),
        lambda x, k: F.softmax(kept_scores(x, k), dim=1),
        lambda x, k: kept_scores(x, k).log_softmax(-1).exp(),
        lambda x, k: F.normalize(kept_scores(x, k).exp(), p=1, dim=-1),
    ],
    "schedule": [
        schedule(),
        schedule_by_torch,
        lambda step, *rest: np.float32(schedule()(step, *rest)),
        lambda s, w, n: warmup_cosine(s, warmup=w, steps=n),
        schedule(lambda step, warmup, _: (step + 1) / (warmup + 1)),  # nanoGPT's
        lambda s, w, n: min((s + 1) / (w + 1), 1) if s <= w else schedule()(s, w, n),
        schedule(
            down=lambda _, since, whole, __: math.cos(math.pi / 2 * since / whole) ** 2
        ),
        schedule(
            down=lambda _, since, whole, __: (1 + math.cos(since * math.pi / whole)) / 2
        ),
        schedule(
            down=lambda _, since, whole, __: (
                1 - math.sin(math.pi / 2 * since / whole) ** 2
            )
        ),
        lambda s, w, n: torch.tensor(schedule()(s, w, n), dtype=torch.float32),
    ],
}
