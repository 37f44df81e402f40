"""The checks of chapter 8: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib.training import next_token_loss, train_step, warmup_cosine
from tests.answers import solution

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


share = solution(
    """
def share(step, warmup, steps):
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / (steps - warmup)
    return 0.5 + 0.5 * math.cos(math.pi * done)
""",
)


def up(formula):
    """A schedule that rises in another way."""
    return share("(step + 1) / warmup", formula)


def down(formula):
    """A schedule that falls in another way."""
    return share("0.5 + 0.5 * math.cos(math.pi * done)", formula)


LOOP = {
    "mode": "model.train()",
    "loss": "loss = next_token_loss(model(ids, lengths), ids, lengths)",
    "zero": "optimizer.zero_grad()",
    "back": "loss.backward()",
    "clip": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "step": "optimizer.step()",
    "number": "loss.item()",
    "batches": "batches",
    "give": "losses",
}


def loop(order="loss zero back clip step", **other):
    """A training loop, whose parts come in an order; some are written otherwise."""
    code = LOOP | other
    parts = "\n        ".join(code[part] for part in order.split())
    return solution(
        f"""
def train(model, optimizer, batches):
    {code["mode"]}
    losses = []
    for ids, lengths in {code["batches"]}:
        {parts}
        losses.append({code["number"]})
    return {code["give"]}
""",
        **globals(),
    )()


def clip_by_hand(model):
    grads = [p.grad for p in model.parameters()]
    norm = torch.cat([g.flatten() for g in grads]).norm()
    for g in grads:
        g.mul_(min(1.0, 1.0 / float(norm)))


def loop_of_library(model, optimizer, batches):
    return [train_step(model, optimizer, ids, n) for ids, n in batches]


def no_last_step(model, optimizer, batches):
    losses = loop()(model, optimizer, batches[:-1])
    return [*losses, next_token_loss(model(batches[-1][0]), *batches[-1]).item()]


generate = solution(
    """
def generate(model, token_ids, max_new_tokens, context_len):
    for _ in range(max_new_tokens):
        logits = model(token_ids[:, -context_len:])
        best = logits[:, -1].argmax(-1, keepdim=True)
        token_ids = torch.cat([token_ids, best], dim=1)
    return token_ids
""",
)


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


def mean_of_means(logits, ids, lengths):
    return torch.stack(
        [next_token_loss(a[None, :n], b[None, :n]) for a, b, n in
         zip(logits, ids, lengths.tolist(), strict=True)]
    ).mean()  # fmt: skip


MISTAKES = {
    "training_loop": [
        (loop("loss back clip step"), "Old gradients are still there: remove"),
        (loop("loss zero back step"), "The gradient is not clipped"),
        (loop("loss zero back step clip"), "The gradient is not clipped"),
        (loop("loss back step"), "Old gradients are still there, and nothing is"),
        (loop("loss zero back clip"), "No weight has changed"),
        (loop("loss back zero step"), "No weight has changed"),
        (loop("loss zero step back clip"), "No weight has changed"),
        (loop(clip=LOOP["clip"].replace("1.0", "0.5")), "clipped to another length"),
        (loop(clip=LOOP["clip"].replace("norm", "value")), "a later one is not: what"),
        (loop(mode="model.eval()"), "The model is in evaluation mode"),
        (loop(loss="loss = next_token_loss(model(ids), ids)"), "Padding is counted"),
        (loop(loss=LOOP["loss"] + " * (lengths - 1).sum()"), "The first loss must be"),
        (loop(loss="loss = mean_of_means(model(ids), ids, lengths)"), "The first loss"),
        (loop(number="loss.detach()"), "Your losses are tensors"),
        (loop(give="losses[-1]"), "returns a float, not a list"),
        (loop(give="losses[1:]"), "There are 4 batches: your function gives 3"),
        (loop(batches="batches[:1]"), "There are 4 batches"),
        (
            loop(batches="[b for b in batches for _ in '12']", give="losses[::2]"),
            "a later one is not",
        ),
        (loop(batches="batches * 2", give="losses[:4]"), "Each batch is taken twice"),
        (loop(number="str(loss)"), "something else than a list of numbers"),
        (loop(batches="batches[::-1]"), "The first loss must be"),
        (lambda model, optimizer, batches: [], "There are 4 batches"),
        (loop("loss zero back clip step step"), "a later one is not"),
        (no_last_step, "The losses are right, the weights afterwards are not"),
    ],
    "generate": [
        (generate("n token_ids", "n token_ids[:, -max_new_tokens:]"), "Only the new"),
        (generate("n token_ids", "n token_ids[:, -context_len:]"), "text itself is"),
        (generate("for _", "max_new_tokens -= 1\n    for _"), "One token too few"),
        (generate("for _", "max_new_tokens += 1\n    for _"), "One token too many"),
        (generate("    return", "        return"), "Only one"),
        (lambda model, ids, *rest: ids, "No token is added"),
        (
            generate("max_new_tokens):", "1):", "best]", "*[best] * max_new_tokens]"),
            "The same token is added each time",
        ),
        (
            generate("for _", "given = token_ids\n    for _", "(token_ids[", "(given["),
            "The same token is added each time",
        ),
        (generate("[:, -1]", "[:, 0]"), "These logits belong to the first token"),
        (generate("argmax", "argmin"), "The tokens with the lowest logits"),
        (generate("-context_len:", ":context_len"), "The model reads the first tokens"),
        (generate("-context_len:", "1 - context_len:"), "one token less than it can"),
        (generate("-context_len:", "-1:"), "The model reads the last token only"),
        (generate("[:, -context_len:]", ""), "Beyond it: Your code raised ValueError"),
        (generate("argmax(-1", "median(-1", "True)", "True)[1]"), "The shape is right"),
        (generate("for _", "token_ids.mul_(0)\n    for _"), "Your code changes the te"),
        (generate("return", "if context_len > 4: return"), "it: your code gives nothi"),
        (generate("return token_ids", "return token_ids.tolist()"), "returns a list"),
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
        (padded_mean(lambda x, real, _: x[:, :-1][real[:, 1:]].mean()), "the last rea"),
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
        (up("step / warmup"), "The first step has"),
        (share("if", "steps += 1\n    warmup += 1\n    if"), "takes a step too many"),
        (up("(step + 2) / (warmup + 2)"), "Step 0 is not"),
        (up("((step + 1) / warmup) ** 2"), "Step 0 is not"),
        (up("1"), "There is no warm-up."),
        (up("0"), "During the warm-up nothing is learnt"),
        (share("step < warmup", "0", " - warmup", ""), "cosine falls from the first"),
        (share(" - warmup", ""), "The cosine is not moved by the warm-up"),
        (share("(steps - warmup)", "steps"), "The cosine does not come down far enou"),
        (share("(step - warmup)", "step"), "cosine begins at the end of the warm-up"),
        (share("steps - warmup", "steps - warmup - 1"), "The last step has the share"),
        (down("1"), "After the warm-up nothing falls"),
        (down("1 - done"), "That falls in a line"),
        (down("math.cos(math.pi * done)"), "falls from 1 to -1"),
        (down("math.cos(math.pi / 2 * done)"), "That is a quarter of a wave"),
        (share("math.pi * ", ""), "Half a wave is an angle of π"),
        (share("+ 0.5 *", "- 0.5 *"), "The cosine rises here"),
        (up("(warmup - step) / warmup"), "warm-up falls"),
        (up("(step + 1) / steps"), "The warm-up rises"),
        (lambda *_: 0.5, "Step 0 is not right: you give 0.500"),
        (lambda *_: math.nan, "Step 0 is not right: you give nan"),
        (
            lambda s, w, n: min((s + 1) / w, share()(s, w, n)),
            "For warmup = 0: Your code raised ZeroDivisionErro",
        ),
        (lambda s, w, n: share()(s, w, n) if w else None, "0: at step 0 your code"),
        (down("None"), "at step 4 your code gives nothing"),
        (lambda s, w, n: share()(s, w, n) if w else 1, "0: After the warm-up nothing"),
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
        loop("zero loss back clip step"),
        loop("loss back clip step zero"),
        loop(zero="model.zero_grad()"),
        loop(zero="optimizer.zero_grad(set_to_none=False)"),
        loop(clip="clip_by_hand(model)"),
        loop(loss="loss = loss_by_ignored_targets(model(ids, lengths), ids, lengths)"),
        loop(number="float(loss.detach())"),
        loop(give="tuple(losses)"),
        loop(give="np.array(losses)"),
    ],
    "generate": [
        generate(),
        generate_by_rows,
        generate_into,
        generate_recursive,
        torch.no_grad()(generate()),
        generate("-context_len:", "max(0, token_ids.shape[1] - context_len):"),
        generate("argmax(-1, keepdim=True)", "topk(1).indices"),
        generate("argmax(-1, keepdim=True)", "max(-1).indices[:, None]"),
        generate("[:, -1].argmax(-1, keepdim=True)", ".argmax(-1)[:, -1:]"),
        generate("argmax(-1, keepdim=True)", "softmax(-1).sort().indices[:, -1:]"),
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
        loss(lambda x, real, n: x[(torch.arange(1, 5) - n[:, None]) < 0].mean()),
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
        lambda x, k: F.softmax(cut_scores(x, k), dim=1),
        lambda x, k: cut_scores(x, k).log_softmax(-1).exp(),
        lambda x, k: F.normalize(cut_scores(x, k).exp(), p=1, dim=-1),
    ],
    "schedule": [
        share(),
        schedule_by_torch,
        lambda step, *rest: np.float32(share()(step, *rest)),
        lambda s, w, n: warmup_cosine(s, warmup=w, steps=n),
        up("(step + 1) / (warmup + 1)"),  # nanoGPT's
        lambda s, w, n: min((s + 1) / (w + 1), 1) if s <= w else share()(s, w, n),
        down("math.cos(math.pi / 2 * done) ** 2"),
        down("(1 + math.cos(done * math.pi)) / 2"),
        down("1 - math.sin(math.pi / 2 * done) ** 2"),
        lambda s, w, n: torch.tensor(share()(s, w, n), dtype=torch.float32),
    ],
}
