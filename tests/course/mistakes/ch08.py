"""The checks of chapter 8: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib.training import next_token_loss, train_step, warmup_cosine
from tests.answers import solution
from tests.library.test_training import loss_by_loops

# What readers write: each solution, and below it with pieces of its text replaced.

loss = solution("""
def loss(logits, token_ids, lengths):
    real = torch.arange(1, token_ids.shape[1]) < lengths[:, None]
    losses = -logits.log_softmax(-1)[:, :-1].gather(-1, token_ids[:, 1:, None])[..., 0]
    return losses[real].mean()
""")


ZEROED = "logits.log", "(logits * F.pad(real, (0, 1))[..., None]).log"
ZEROED += "losses[real].mean()", "losses.sum() / real.sum()"
RESHAPED = ".log_softmax(-1)[:, :-1]", "[:, :-1].mT.reshape(3, 4, -1).log_softmax(-1)"


def mean(formula):
    """The loss, where another formula of ``losses`` and ``real`` gives the mean."""
    return loss("losses[real].mean()", formula)


def padded(formula):
    """Right where nothing is padded."""
    return mean(f"{formula} if lengths.min() < 5 else losses.mean()")


def to_length_one(model):
    """A wrong clip: short gradients become longer."""
    grads = [parameter.grad for parameter in model.parameters()]
    norm = torch.stack([grad.square().sum() for grad in grads]).sum().sqrt()
    for grad in grads:
        grad /= norm


kept = solution("""
def top_k(logits, k):
    lowest = logits.topk(k).values[:, -1:]
    cut = logits.masked_fill(logits < lowest, -math.inf)
    return cut.softmax(-1)
""")
LOWEST, SHARES = "topk(k).values[:, -1:]", "cut.softmax(-1)"
AFTER_SOFTMAX = "logits.masked", "logits.softmax(-1).masked", "-math.inf", "0"
# What is above the best one that is cut: with ties that is too little.
above_the_next = kept("(k)", "(k + 1)", "< lowest", "<= lowest")
share = solution("""
def share(step, warmup, steps):
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / (steps - warmup)
    return 0.5 + 0.5 * math.cos(math.pi * done)
""")


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


generate = solution("""
def generate(model, token_ids, max_new_tokens, context_len):
    for _ in range(max_new_tokens):
        logits = model(token_ids[:, -context_len:])
        best = logits[:, -1].argmax(-1, keepdim=True)
        token_ids = torch.cat([token_ids, best], dim=1)
    return token_ids
""")


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


def mean_of_means(logits, ids, lengths):
    return torch.stack(
        [next_token_loss(a[None, :n], b[None, :n]) for a, b, n in
         zip(logits, ids, lengths.tolist(), strict=True)]
    ).mean()  # fmt: skip


SAME = "The same token is added each time"
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
        (loop(clip="to_length_one(model)"), "shorter ones: A gradient that is shorter"),
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
            SAME,
        ),
        (generate("for _", "x = token_ids\n    for _", "(token_ids[", "(x["), SAME),
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
        (loss("[:, :-1]", "", "[:, 1:,", "[...,", "(1,", "(0,"), "Nothing is shifted"),
        (loss("-1]", "-2]", "1:", "2:", "(1,", "(2,"), "The targets are shifted twice"),
        (lambda x, ids, _: F.cross_entropy(x[:, 1:].mT, ids[:, :-1]), "the wrong way"),
        (lambda x, ids, _: F.cross_entropy(x.mT, ids.roll(-1, 1)), "The last token is"),
        (mean("losses[real].sum()"), "That is the sum: di"),
        (mean("losses.sum() / len(losses)"), "a loss per text: a loss per tok"),
        (mean("losses.sum(0).mean()"), "the sum over the texts"),
        (mean("losses.sum() / lengths.sum()"), "This divides by the"),
        (mean("losses"), "the losses of all tokens"),
        (mean("-losses.mean()"), "The sign is wrong"),
        (mean("losses.mean() / math.log(2)"), "These are bits"),
        (mean("losses.exp().mean()"), "leave the logarithm"),
        (mean("losses.mean().exp()"), "That is the perplexity"),
        (loss("-logits", "logits", "log_soft", "soft"), "The logarithm is missing"),
        (mean("-(-losses).exp().mean().log()"), "the logarithm first, then the"),
        (loss("-logits", "logits", ".log_softmax(-1)", ""), "scores are no probabi"),
        (loss("softmax(-1)", "softmax(1)"), "over the positions: it"),
        (loss("softmax(-1)", "softmax(0)"), "The softmax runs over the texts"),
        (loss(*RESHAPED), "mixes positions and vocabulary"),
        (loss("[real]", "[token_ids[:, 1:] > 0]"), "The id 0 is skipped"),
        (mean("losses.mean()"), "padding is counted: use"),
        (loss("(1, token_ids.shape[1])", "(4)"), "the mask must"),
        (padded("losses[:, :-1][real[:, 1:]].mean()"), "the last rea"),
        (padded("losses[~real].mean()"), "only padding"),
        (padded("losses[token_ids[:, 1:] > 0].mean()"), "ask the lengths, not the ids"),
        (mean("((losses * real).sum(1) / (lengths - 1)).mean()"), "texts' means"),
        (mean("(losses * real).mean()"), "padding adds noth"),
        (padded("(losses * real).sum() / lengths.sum()"), "this divides by"),
        (padded("losses[real].sum()"), "that is the su"),
        (padded("(losses * real).sum() / len(losses)"), "is a loss per te"),
        (loss(*ZEROED), "scores of padding are set to 0"),
        (loss("return", "token_ids[:, 1:][~real] = -1\n    return"), "changes its inp"),
        (padded("None"), "4 tokens: your code gives noth"),
        (mean("losses[real].mean().item()"), "it must be a torch tens"),
    ],
    "top_k": [
        (kept(*AFTER_SOFTMAX, SHARES, "cut"), "What is kept does not sum to 1"),
        (kept("-math.inf", "0.0"), "A score of 0 is not small"),
        (kept("-math.inf", "-10.0"), "low scores: what you cut gets a fixed score"),
        (kept("-math.inf", "-20.0"), "low scores: what you cut gets a fixed score"),
        (kept("-math.inf", "0.0", SHARES, "cut"), "These are scores"),
        (lambda x, k: kept()(-x, k), "The lowest scores get the most"),
        (kept("< lowest", "> lowest"), "The lowest scores are kept"),
        (kept("(k)", "(k - 1)"), "One token too few is kept"),
        (kept("(k)", "(k + 1)"), "One token too many is kept"),
        (lambda x, k: x.softmax(-1), "Nothing is cut"),
        (lambda x, k: x.topk(k).values.softmax(-1), "must stay in its own column"),
        (lambda x, k: x.topk(k).indices, "These are the best tokens"),
        (kept(LOWEST, "flatten().topk(k).values[-1]"), "The best of the whole batch"),
        (kept("(-1)", "(0)"), "The softmax runs over the te"),
        (kept("(k)", "(3)"), "right for the best 3 of 5. For the best 1"),
        (above_the_next, "best 5: Your code"),
        (
            lambda x, k: (kept() if k == len(x[0]) else above_the_next)(x, k),
            "both are dropped, and one token is left",
        ),
        (lambda x, k: x.softmax(-1) if x[0, 1] == x[0, 2] else kept()(x, k), "place: "),
        (kept("masked_fill", "masked_fill_"), "changes its input"),
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
        generate("cat([token_ids, best], dim=1)", "hstack([token_ids, best])"),
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
        mean("(losses * real).sum() / (lengths - 1).sum()"),
        mean("losses.masked_select(real).mean()"),
        mean("(losses * real).sum() / real.sum()"),
        mean("losses.where(real, torch.nan).nanmean()"),
        mean("losses[(torch.arange(1, 5) - lengths[:, None]) < 0].mean()"),
        mean("losses[real].mean().double().float()"),
    ],
    "top_k": [
        kept(),
        top_k_by_scatter,
        top_k_by_loops,
        kept(*AFTER_SOFTMAX, SHARES, "cut / cut.sum(-1, keepdim=True)"),
        last_of_ties,
        kept("-math.inf", "-1e9"),
        kept(LOWEST, "sort().values[:, -k, None]"),
        kept(SHARES, "F.softmax(cut, dim=1)"),
        kept(SHARES, "cut.log_softmax(-1).exp()"),
        kept(SHARES, "F.normalize(cut.exp(), p=1, dim=-1)"),
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
