"""The checks of chapter 8: each usual mistake is made, and must be named."""

import math
from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib.course.exercises import ch08
from attention_lib.course.exercises.curves import CAUSES
from attention_lib.training import next_token_loss, train_step, warmup_cosine
from tests.answers import solution
from tests.course.odd_runs import CAUSES as ALL

# What readers write: each solution, and below it with pieces of its text replaced.

kept, share, generate = (
    ch08.check_top_k.made,
    ch08.check_schedule.made,
    ch08.check_generate.made,
)
# What is above the best one that is cut: with ties that is too little.
above_the_next = kept("(k)", "(k + 1)", "< lowest", "<= lowest")


def causes(**others):
    """The right answer, with other causes for some runs."""
    return CAUSES | others


def loss_by_ignored_targets(logits, token_ids, lengths):
    targets = token_ids[:, 1:].clone()
    targets[torch.arange(1, token_ids.shape[1]) >= lengths[:, None]] = -100
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets.flatten())


def mean_of_means(logits, ids, lengths):
    return torch.stack(
        [next_token_loss(a[None, :n], b[None, :n]) for a, b, n in
         zip(logits, ids, lengths.tolist(), strict=True)]
    ).mean()  # fmt: skip


def clip_by_hand(model):
    grads = [p.grad for p in model.parameters()]
    norm = torch.cat([g.flatten() for g in grads]).norm()
    for g in grads:
        g.mul_(min(1.0, 1.0 / float(norm)))


def loop_of_library(model, optimizer, batches):
    return [train_step(model, optimizer, ids, n) for ids, n in batches]


loop = solution(
    ch08.check_training_loop.solution,
    clip_by_hand=clip_by_hand,
    loss_by_ignored_targets=loss_by_ignored_targets,
    mean_of_means=mean_of_means,
    next_token_loss=next_token_loss,
)
BEST = "argmax(-1, keepdim=True)"


def no_last_step(model, optimizer, batches):
    losses = loop()(model, optimizer, batches[:-1])
    return [*losses, next_token_loss(model(batches[-1][0]), *batches[-1]).item()]


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


MISTAKES = {
    "training_loop": [
        (loop("grad_norm_", "grad_value_"), "a later one is not: what"),
        (loop("train()", "eval()"), "The model is in evaluation mode"),
        (loop("s)\n", "s) * (lengths - 1).sum()\n"), "The first loss must be"),
        (loop("next_token_loss", "mean_of_means"), "The first loss"),
        (loop("item()", "detach()"), "Your losses are tensors"),
        (loop("return losses", "return losses[-1]"), "returns a float, not a list"),
        (loop("return losses", "return losses[1:]"), "are 4 batches: your function gi"),
        (loop("in batches", "in batches[:1]"), "There are 4 batches"),
        (loop("loss.item()", "str(loss)"), "something other than a list of numbers"),
        (loop("in batches", "in batches[::-1]"), "The first loss must be"),
        (lambda model, optimizer, batches: [], "There are 4 batches"),
        (loop(ch08.STEP, 2 * ch08.STEP), "a later one is not"),
        (loop("return losses", "token_ids += 1\n    return losses"), "changes its inp"),
        (lambda *_: np.array("x"), "Your function returns a ndarray, not a list"),
        (no_last_step, "The losses are right, the weights afterwards are not"),
    ],
    "generate": [
        (generate("[:, -context_len:]", ""), "Beyond it: Your code raised ValueError"),
        (
            generate(BEST, BEST.replace("argmax", "median") + "[1]"),
            "The shape is right",
        ),
        (generate("return", "if context_len > 4: return"), "it: your code gives nothi"),
    ],
    "causes": [
        *(
            (causes(**{run: name}), f"Run {run} is not “{name}”.")
            for run in CAUSES
            for name in ALL
            if name != CAUSES[run]
        ),
        (causes(C="sorted"), "Run C: “sorted” is none of the nine names."),
        (causes(D=4), "Run D: “4” is none of"),
        (causes(E=np.zeros(2)), "Run E: “[0. 0.]” is none of"),
        (causes(F=...), "Right so far. Run F has no cause yet."),
        (causes(A=None), "Right so far. Run A has no cause yet."),
        ([*CAUSES.values()][:5], "The answer is a dictionary"),
        ([*CAUSES.values()][::-1], "Run A is not “wild batch”."),
        ("sorted texts", "The answer is a dictionary"),
        ({1: "leak"}, "The answer is a dictionary"),
    ],
    "top_k": [
        (kept("(k)", "(3)"), "right for the best 3 of 5. For the best 1"),
        (above_the_next, "best 5: Your code"),
    ],
    "schedule": [
        (share(ch08.UP, "(step + 2) / (warmup + 2)"), "Step 0 is not"),
        (share(ch08.UP, f"({ch08.UP}) ** 2"), "Step 0 is not"),
        (lambda *_: 0.5, "Step 0 is not right: you give 0.500"),
        (lambda *_: 10**400, "Step 0 is not right: you give inf"),
        (lambda *_: math.nan, "Step 0 is not right: you give nan"),
        (
            lambda s, w, n: min((s + 1) / w, share()(s, w, n)),
            "For warmup = 0: Your code raised ZeroDivisionErro",
        ),
        (lambda s, w, n: share()(s, w, n) if w else None, "0: at step 0 your code"),
        (share(ch08.DOWN, "None"), "at step 4 your code gives nothing"),
        (lambda *_: "1", "Your function returns a str, not a number"),
        (lambda *_: True, "Your function returns a bool, not a number"),
        (lambda *_: (1, 2), "Your function returns a tuple, not a number"),
        (lambda *_: torch.ones(2), "returns a Tensor, not a number"),
    ],
}


# What is right in other ways.


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
        loop_of_library,
        loop(ch08.ZERO, "", "        loss =", f"{ch08.ZERO}        loss ="),
        loop(ch08.ZERO, "", ch08.STEP, ch08.STEP + ch08.ZERO),
        loop("optimizer.zero", "model.zero"),
        loop("zero_grad()", "zero_grad(set_to_none=False)"),
        loop(
            "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip_by_hand(model)"
        ),
        loop("next_token_loss", "loss_by_ignored_targets"),
        loop("loss.item()", "float(loss.detach())"),
        loop("return losses", "return tuple(losses)"),
        loop("return losses", "return np.array(losses)"),
    ],
    "generate": [
        generate_by_rows,
        generate_into,
        generate("cat([", "hstack([", ", dim=1)", ")"),
        torch.no_grad()(generate()),
        generate("-context_len:", "max(0, token_ids.shape[1] - context_len):"),
        generate(BEST, "topk(1).indices"),
        generate(BEST, "max(-1).indices[:, None]"),
        generate(")[:, -1]", ")", BEST, "argmax(-1)[:, -1:]"),
        generate(BEST, "softmax(-1).sort().indices[:, -1:]"),
    ],
    "causes": [
        causes(),
        dict(reversed(causes().items())),
        [*CAUSES.values()],
        (*CAUSES.values(),),
        {run: cause.upper() for run, cause in CAUSES.items()},
        {run: cause.title() for run, cause in CAUSES.items()},
        {run: f" {cause} " for run, cause in CAUSES.items()},
        {run: cause.replace(" ", "  ") for run, cause in CAUSES.items()},
        {run: np.str_(cause) for run, cause in CAUSES.items()},
        defaultdict(str, CAUSES),
        causes(D="Leak"),
    ],
    "top_k": [
        top_k_by_scatter,
        top_k_by_loops,
        kept(
            *(
                ch08.KEPT,
                "F.normalize(logits.softmax(-1).masked_fill(logits < lowest, 0), 1)",
            ),
            *(".softmax(dim=-1)", ""),
        ),
        last_of_ties,
        kept("-torch.inf", "-1e9"),
        kept("topk(k).values[:, -1:]", "sort().values[:, -k, None]"),
        kept(ch08.PROBABILITIES, f"F.softmax({ch08.KEPT}, dim=1)"),
        kept(".softmax(dim=-1)", ".log_softmax(dim=-1).exp()"),
        kept(ch08.PROBABILITIES, f"F.normalize({ch08.KEPT}.exp(), p=1, dim=-1)"),
    ],
    "schedule": [
        schedule_by_torch,
        lambda step, *rest: np.float32(share()(step, *rest)),
        lambda s, w, n: warmup_cosine(s, warmup=w, steps=n),
        share(ch08.UP, "(step + 1) / (warmup + 1)"),  # nanoGPT's
        lambda s, w, n: min((s + 1) / (w + 1), 1) if s <= w else share()(s, w, n),
        share(ch08.DOWN, "math.cos(math.pi / 2 * done) ** 2"),
        share(ch08.DOWN, "(1 + math.cos(done * math.pi)) / 2"),
        share(ch08.DOWN, "1 - math.sin(math.pi / 2 * done) ** 2"),
        lambda s, w, n: torch.tensor(share()(s, w, n), dtype=torch.float32),
    ],
}
