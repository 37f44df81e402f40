"""Checks of chapter 8: loss, top-k, schedule, a training loop and generation."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    after,
    judge,
    run,
)
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import next_token_loss, warmup_cosine


def check_next_token_loss(answer: object) -> Verdict:
    """Checks ``loss(logits, token_ids, lengths)``, the mean over real targets."""
    logits = 2 * torch.randn(3, 5, 7, generator=seeded(0))
    token_ids = torch.tensor([[4, 0, 6, 2, 5], [3, 1, 0, 0, 0], [1, 5, 0, 3, 0]])
    full, lengths = torch.tensor([5, 5, 5]), torch.tensor([5, 2, 4])
    return (
        judge(
            answer,
            (logits, token_ids, full),
            next_token_loss(logits, token_ids, full),
            _shift_mistakes(logits, token_ids),
        )
        or judge(
            answer,
            (logits, token_ids, lengths),
            next_token_loss(logits, token_ids, lengths),
            _padding_mistakes(logits, token_ids, lengths),
            so_far="This is right without padding. For texts of 5, 2 and 4 tokens:",
        )
        or Verdict(True, "This is the mean over the real targets, each shifted once.")
    )


def check_top_k(answer: object) -> Verdict:
    """Checks ``top_k_probabilities(logits, k)``, ties included."""
    logits = torch.tensor([[1.0, 3.0, -1.0, 2.0, 0.0], [0.5, -2.0, 4.0, 0.0, 1.0]])
    wrong = judge(answer, (logits, 3), _kept(logits, 3), _top_k_mistakes(logits))
    for k in (1, 5):
        wrong = wrong or judge(
            answer,
            (logits, k),
            _kept(logits, k),
            so_far=f"This is right for the best 3 of 5. For the best {k}:",
        )
    return wrong or _wrong_lows(answer) or _wrong_ties(answer) or Verdict(
        True, "What is cut has the probability 0, and the rest sums to 1."
    )  # fmt: skip


def check_schedule(answer: object) -> Verdict:
    """Checks ``share(step, warmup, steps)``: up in a line, down in a cosine."""
    for warmup, steps, so_far in [
        (4, 12, ""),
        (0, 5, "This is right so far. For warmup = 0:"),
    ]:
        step = np.arange(steps)
        right = np.array(
            [warmup_cosine(n, warmup=warmup, steps=steps) for n in range(steps)]
        )
        later = np.where(step < warmup, (step + 1) / (warmup + 1), right)
        came = _shares(answer, warmup, steps)
        if isinstance(came, Verdict):
            return after(so_far, came)
        if message := _wrong_shares(came, [right, later], warmup):
            return after(so_far, Verdict(False, message))
    return Verdict(True, "The share rises in a line, then falls along half a wave.")


def check_training_loop(answer: object) -> Verdict:
    """Checks ``train(model, optimizer, batches)``, which gives a list of losses."""
    for long, so_far in [
        (True, ""),
        (False, "This is right for gradients longer than 1. For shorter ones:"),
    ]:
        model, modes = _small_model(long), list[bool]()
        model.register_forward_pre_hook(
            lambda part, _, modes=modes: modes.append(part.training)
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
        with torch.random.fork_rng(devices=[]):
            came = run(answer, model.eval(), optimizer, _batches())
        if isinstance(came, Verdict):
            return after(so_far, came)
        message = _wrong_loop(came, model, long)
        if not message and not all(modes):
            message = "The model is in evaluation mode while it learns."
        if message:
            return after(so_far, Verdict(False, message))
    return Verdict(True, "There is one step for each batch, and the weights are right.")


def check_generate(answer: object) -> Verdict:
    """Checks greedy ``generate(model, token_ids, max_new_tokens, context_len)``."""
    cases = [
        (torch.tensor([[3, 1], [0, 5]]), 3, 9, ""),
        (torch.tensor([[3, 1, 4], [0, 5, 2]]), 6, 4, "This is right within the "
         "context. Beyond "
         "it:"),
    ]  # fmt: skip
    for token_ids, count, context_len, so_far in cases:
        model = _Reader(context_len)
        right = _continued(token_ids, count, context_len)
        mistakes = _generation_mistakes(token_ids, count, context_len)
        options = count, context_len
        if wrong := judge_texts(
            answer, model, token_ids, options, right, mistakes, so_far
        ):
            return wrong
    return Verdict(True, "The text grows, and the model reads as much as it takes.")


def judge_texts(
    answer: object,
    model: Any,
    token_ids: Tensor,
    options: tuple[int, ...],
    right: Tensor,
    mistakes: Mistakes,
    so_far: str,
) -> Verdict | None:
    """Runs a reader's generation once, which shall leave its beginnings as they are.

    Args:
        answer: what the reader wrote.
        model: counts what it reads.
        token_ids: the beginnings.
        options: what else the answer is called with.
        right: the texts wanted.
        mistakes: as for ``judge``.
        so_far: as for ``judge``.
    """
    given = token_ids.clone()
    came = run(answer, model, given, *options)
    if isinstance(came, Verdict):
        return after(so_far, came)
    if not torch.equal(given, token_ids):
        return Verdict(
            False, "Your code changes the text that it was given: use a copy."
        )
    return judge(lambda: came, (), right, mistakes, so_far=so_far)


def _losses(logits: Tensor, token_ids: Tensor, shift: int) -> Tensor:
    """Gives the loss of each token (B, T - shift), its target so many tokens later."""
    seen = logits[:, : logits.shape[1] - shift]
    return F.cross_entropy(seen.mT, token_ids[:, shift:], reduction="none")


def _shift_mistakes(logits: Tensor, token_ids: Tensor) -> Mistakes:
    """What the usual mistakes give where no text is padded."""
    batch, length, width = logits.shape
    losses = _losses(logits, token_ids, 1)
    targets = token_ids[:, 1:]
    scores = logits[:, :-1].gather(-1, targets[..., None])
    p = logits[:, :-1].softmax(-1).gather(-1, targets[..., None])
    over = {dim: logits.log_softmax(dim)[:, :-1] for dim in (0, 1)}
    mixed = logits[:, :-1].mT.reshape(-1, width)
    return [
        (_losses(logits, token_ids, 0).mean(), "Nothing is shifted: each token is its "
         "own target."),
        (_losses(logits, token_ids, 2).mean(), "The targets are shifted twice: these "
         "stand two tokens later."),
        (F.cross_entropy(logits[:, 1:].mT, token_ids[:, :-1]), "The targets are "
         "shifted the wrong way: these are the tokens before."),
        (F.cross_entropy(logits.mT, token_ids.roll(-1, 1)), "The last token is asked "
         "for the first one of its text: it has no target."),
        (losses.sum(), "That is the sum: divide it by the number of targets."),
        (losses.sum() / batch, "That is a loss per text: a loss per token is wanted."),
        (losses.sum() / (length - 1), "That is the sum over the texts: divide by the "
         "number of all targets."),
        (losses.sum() / token_ids.numel(), "This divides by the number of tokens: the "
         "first ones are no targets."),
        (losses, "These are the losses of all tokens: their mean is asked for."),
        (-losses.mean(), "The sign is wrong: a logarithm of a probability is below 0."),
        (losses.mean() / math.log(2), "These are bits: nats are asked for, so take "
         "ln."),
        (losses.exp().mean(), "e to the loss of each token: leave the logarithm."),
        (losses.mean().exp(), "That is the perplexity, e to the loss."),
        (-p.mean(), "The logarithm is missing."),
        (p.mean(), "The logarithm is missing."),
        (-p.mean().log(), "Take the logarithm first, then the mean."),
        (-scores.mean(), "The scores are no probabilities yet."),
        (scores.mean(), "The scores are no probabilities yet."),
        (-over[1].gather(-1, targets[..., None]).mean(), "The softmax runs over the "
         "positions: it must run over the vocabulary."),
        (-over[0].gather(-1, targets[..., None]).mean(), "The softmax runs over the "
         "texts: it must run over the vocabulary."),
        (losses[targets != 0].mean(), "The id 0 is skipped, but it is a real token, "
         "too: ask the lengths, not the ids."),
        (F.cross_entropy(mixed, targets.flatten()), "The reshape mixes positions and "
         "vocabulary: see which axis comes last."),
    ]  # fmt: skip


def _padding_mistakes(logits: Tensor, token_ids: Tensor, lengths: Tensor) -> Mistakes:
    """What the usual mistakes give where texts are padded."""
    losses = _losses(logits, token_ids, 1)
    place = torch.arange(token_ids.shape[1] - 1)
    real = place + 1 < lengths[:, None]
    one_more, one_less = place < lengths[:, None], place + 2 < lengths[:, None]
    count = real.sum()
    means = (losses * real).sum(1) / real.sum(1)
    return [
        (losses.mean(), "padding is counted: use the lengths."),
        (losses[one_more].mean(), "one padding token per text is counted: the mask "
         "must "
         "be shifted with the targets."),
        (losses[one_less].mean(), "the last real target of each text is lost."),
        (losses[~real].mean(), "only padding is counted: the mask is the wrong way "
         "round."),
        (losses[token_ids[:, 1:] != 0].mean(), "the id 0 is skipped, but it is a real "
         "token, too: ask the lengths, not the ids."),
        (means.mean(), "this is a mean of the texts' means: every target counts the "
         "same."),
        ((losses * real).mean(), "padding adds nothing, but is counted in the number "
         "that you divide by."),
        ((losses * real).sum() / lengths.sum(), "this divides by the number of tokens: "
         "the first ones are no targets."),
        (losses[real].sum(), "that is the sum: divide it by the number of targets."),
        ((losses * real).sum() / len(lengths), "that is a loss per text: a loss per "
         "target is wanted."),
        (_with_zeroed_scores(logits, token_ids, real) / count, "scores of padding are "
         "set to 0, and still counted: leave them out."),
    ]  # fmt: skip


def _with_zeroed_scores(logits: Tensor, token_ids: Tensor, real: Tensor) -> Tensor:
    scores = logits[:, :-1] * real[..., None]
    return F.cross_entropy(scores.mT, token_ids[:, 1:], reduction="sum")


def _kept(logits: Tensor, k: int) -> Tensor:
    """Gives the softmax over the k best, and all that tie with the last of them."""
    lowest = logits.topk(k).values[:, -1:]
    return logits.masked_fill(logits < lowest, -math.inf).softmax(-1)


def _top_k_mistakes(logits: Tensor) -> Mistakes:
    """What the usual mistakes give for the best 3 of 5."""
    lowest = logits.topk(3).values[:, -1:]
    cut = logits < lowest
    best = logits.topk(3).values
    return [
        (logits.softmax(-1).masked_fill(cut, 0), "What is kept does not sum to 1: cut "
         "the scores first, then take the softmax."),
        (logits.masked_fill(cut, 0).softmax(-1), "A score of 0 is not small: it has a "
         "probability, too."),
        (logits.masked_fill(cut, 0), "These are scores: probabilities are asked for."),
        (logits.masked_fill(cut, -math.inf), "These are scores: probabilities are "
         "asked for."),
        (_kept(-logits, 3), "The lowest scores get the most: do not change the sign."),
        (logits.masked_fill(logits > lowest, -math.inf).softmax(-1), "The lowest "
         "scores are kept: the highest are asked for."),
        (_kept(logits, 2), "One token too few is kept."),
        (_kept(logits, 4), "One token too many is kept."),
        (logits.softmax(-1), "Nothing is cut."),
        (best.softmax(-1), "Only the k that are kept are here: each token must stay "
         "in its own column."),
        (logits.topk(3).indices, "These are the best tokens: their probabilities are "
         "asked for."),
        (logits.masked_fill(logits < logits.flatten().topk(3).values[-1], -math.inf)
         .softmax(-1), "The best of the whole batch are kept: each text has its own."),
        (logits.masked_fill(cut, -math.inf).softmax(0), "The softmax runs "
         "over the texts: it must run over the vocabulary."),
    ]  # fmt: skip


def _wrong_lows(answer: object) -> Verdict | None:
    """Wants the same where all scores are very low: what is cut must be below them."""
    logits = torch.tensor([[-23.0, -21.0, -25.0, -22.0]])
    filled = [
        (logits.masked_fill(logits < logits[:, 3:], fill).softmax(-1), "what you cut "
         "gets a fixed score that is above these: use minus infinity.")
        for fill in (-10.0, -20.0)
    ]  # fmt: skip
    return judge(
        answer,
        (logits, 2),
        _kept(logits, 2),
        filled,
        so_far="This is right so far. For the best 2 of very low scores:",
    )


def _wrong_ties(answer: object) -> Verdict | None:
    """Wants at least k tokens where scores are equal: all that tie, or any of them."""
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0]])
    rights = [_kept(logits, 2)]
    for lost in (1, 2):
        scores = logits.clone()
        scores[:, lost] = -math.inf
        rights.append(scores.masked_fill(logits == 0, -math.inf).softmax(-1))
    dropped = "both are dropped, and one token is left."
    so_far = (
        "This is right so far. For the best 2 of 4, where two share the second place:"
    )
    verdicts = [
        judge(answer, (logits, 2), right, [(_kept(logits, 1), dropped)], so_far=so_far)
        for right in rights
    ]
    return None if None in verdicts else verdicts[0]


def _shares(answer: Any, warmup: int, steps: int) -> np.ndarray | Verdict:
    """Gives the reader's share at each step, or a verdict where one is no number."""
    shares = []
    for step in range(steps):
        came = run(answer, step, warmup, steps)
        if came is NOT_YET and (step or not warmup):
            return Verdict(False, f"at step {step} your code gives nothing back.")
        if isinstance(came, Verdict):
            return came
        if isinstance(came, np.generic | np.ndarray | Tensor) and came.shape == ():
            came = came.item()
        if isinstance(came, bool) or not isinstance(came, int | float):
            kind = type(came).__name__
            return Verdict(False, f"Your function returns a {kind}, not a number.")
        shares.append(float(came))
    return np.array(shares)


def _wrong_shares(came: np.ndarray, rights: list[np.ndarray], warmup: int) -> str:
    """Says what is wrong with the shares of all steps; nothing where all is right."""
    right = rights[0]
    if any(np.allclose(came, each, atol=1e-4) for each in rights):
        return ""
    fits = (
        message
        for mistaken, message in _schedule_mistakes(warmup, len(right))
        if np.allclose(came, mistaken, atol=1e-4)
    )
    first = int(np.argmax(~np.isclose(came, right, atol=1e-4)))
    return next(fits, f"Step {first} is not right: you give {came[first]:.3f}.")


def _schedule_mistakes(warmup: int, steps: int) -> Mistakes:
    """What the usual mistakes give."""
    step = np.arange(steps)
    since, whole = step - warmup, steps - warmup
    warming = step < warmup
    up = (step + 1) / max(warmup, 1)

    def then(down: Any, before: Any = up) -> Any:
        return np.where(warming, before, down)

    def cosine(angle: Any) -> Any:
        return 0.5 + 0.5 * np.cos(np.pi * angle)

    down = cosine(since / whole)
    return [
        (then(down, step / max(warmup, 1)), "The first step has the share 0: it is "
         "made, but changes nothing."),
        (np.where(step <= warmup, (step + 1) / (warmup + 1), cosine((since - 1) / whole
         )), "The warm-up takes a step too many."),
        (then(down, 1), "There is no warm-up."),
        (then(down, 0), "During the warm-up nothing is learnt: the share grows."),
        (cosine(step / steps), "There is no warm-up: the cosine falls from the first "
         "step on."),
        (then(cosine(step / steps)), "The cosine is not moved by the warm-up: it has "
         "already fallen when its turn comes."),
        (then(cosine(since / steps)), "The cosine does not come down far enough: it "
         "has only the steps after the warm-up."),
        (then(cosine(step / whole)), "The cosine begins at the end of the warm-up: "
         "count its steps from there."),
        (then(cosine(since / max(whole - 1, 1))), "The last step has the share 0: it "
         "is made, but changes nothing."),
        (then(1), "After the warm-up nothing falls."),
        (then(1 - since / whole), "That falls in a line: a cosine is wanted."),
        (then(np.cos(np.pi * since / whole)), "The cosine falls from 1 to -1: the "
         "share must end at 0."),
        (then(np.cos(np.pi / 2 * since / whole)), "That is a quarter of a wave: half "
         "of one is wanted."),
        (then(0.5 + 0.5 * np.cos(since / whole)), "Half a wave is an angle of π."),
        (then(1 - down), "The cosine rises here: it must fall."),
        (then(down, 1 - up + up[0]), "The warm-up falls: it must rise."),
        (then(down, np.minimum(1, (step + 1) / steps)), "The warm-up rises too slowly: "
         "it must be at 1 when the cosine begins."),
    ]  # fmt: skip


def _small_model(long: bool = True) -> TinyLM:
    """Gives a model whose gradients are longer than 1, or all shorter."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = TinyLM(ModelConfig(7, 6, d_model=4, num_heads=2, num_layers=1)).float()
    with torch.no_grad():
        model.head.weight *= 30 if long else 3
    return model


def _batches() -> list[tuple[Tensor, Tensor]]:
    """Gives batches with padding that is no token 0, so that lengths matter."""
    token_ids = torch.randint(7, (4, 2, 6), generator=seeded(0))
    return [(ids, torch.tensor([6, 3])) for ids in token_ids]


def _trained(
    long: bool = True,
    *,
    zero: bool = True,
    clip: float = 1.0,
    early: bool = True,
    longer: bool = False,
    epochs: int = 1,
) -> tuple[list[float], list[Tensor]]:
    """Gives losses and weights after the loop, or after one with a mistake."""
    model = _small_model(long)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    losses = []
    for token_ids, lengths in _batches() * epochs:
        loss = next_token_loss(model(token_ids, lengths), token_ids, lengths)
        if zero:
            optimizer.zero_grad()
        loss.backward()
        if early:
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            for parameter in model.parameters():
                if longer and norm < 1 and parameter.grad is not None:
                    parameter.grad /= norm
        optimizer.step()
        losses.append(loss.item())
    return losses, _weights(model)


_NO_STEP = (
    "No weight has changed: is there a step of the optimiser, and a gradient when it "
    "is made?"
)
# What goes wrong in a loop, and what to say of it.
_LOOPS: list[tuple[dict[str, Any], str]] = [
    ({"zero": False}, "Old gradients are still there: remove them before backward."),
    ({"early": False}, "The gradient is not clipped, or only after the step."),
    ({"longer": True}, "A gradient that is shorter than 1 is made longer: leave it as "
     "it is."),
    ({"clip": 0.5}, "The gradient is clipped to another length than 1."),
    ({"zero": False, "early": False}, "Old gradients are still there, and nothing is "
     "clipped."),
    ({"epochs": 0}, _NO_STEP),
    ({"epochs": 2}, "Each batch is taken twice."),
]  # fmt: skip


def _wrong_loop(came: Any, model: TinyLM, long: bool) -> str:
    """Says what is wrong with losses and weights; nothing where all are right."""
    losses, weights = _trained(long)
    if message := _wrong_losses(came, losses, long):
        return message
    if _close(_weights(model), weights):
        return ""
    fits = (words for options, words in _LOOPS if _close(_weights(model),
            _trained(long, **options)[1]))  # fmt: skip
    return next(fits, "The losses are right, the weights afterwards are not.")


def _wrong_losses(came: Any, right: list[float], long: bool) -> str:
    """Says what is wrong with the losses; nothing where all are right."""
    if not isinstance(came, list | tuple | np.ndarray | Tensor):
        return f"Your function returns a {type(came).__name__}, not a list of losses."
    if isinstance(came, Tensor) or any(isinstance(loss, Tensor) for loss in came):
        return "Your losses are tensors: plain numbers are asked for."
    if len(came) != len(right):
        return (
            f"There are {len(right)} batches: your function gives {len(came)} losses."
        )
    if not all(isinstance(loss, float | np.floating) for loss in came):
        return "Your function returns something else than a list of numbers."
    if np.allclose(came, right, rtol=1e-3):
        return ""
    for options, words in _LOOPS:
        wrong = _trained(long, **options)[0]
        if len(wrong) == len(came) and np.allclose(came, wrong, rtol=1e-3):
            return words
    model = _small_model(long)
    still = [(model(ids), ids, n) for ids, n in _batches()]
    if np.allclose(came, [next_token_loss(*each).item() for each in still], rtol=1e-3):
        return _NO_STEP
    if math.isclose(came[0], next_token_loss(*still[0][:2]).item(), rel_tol=1e-3):
        return "Padding is counted: give the lengths to the loss."
    if not math.isclose(came[0], right[0], rel_tol=1e-3):
        return f"The first loss must be {right[0]:.3f}; yours is {came[0]:.3f}."
    return "The first loss is right, a later one is not: what does the step do?"


def _weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def _close(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(
        torch.allclose(a, b, atol=1e-4) for a, b in zip(some, others, strict=True)
    )


class _Reader(nn.Module):
    """Gives most to a token that depends on all that it reads."""

    def __init__(self, context_len: int) -> None:
        super().__init__()
        self.context_len = context_len

    def forward(self, token_ids: Tensor) -> Tensor:
        length = token_ids.shape[1]
        if length > self.context_len:
            raise ValueError(f"{length} tokens; the context holds {self.context_len}")
        place = torch.arange(1, length + 1)
        best = ((token_ids * place).cumsum(1) + 2 * place + 1) % 7
        near = torch.arange(7) - best[..., None]
        return -near.abs().float()  # (B, T, 7)


def _continued(
    token_ids: Tensor,
    count: int,
    context_len: int,
    *,
    first: bool = False,
    place: int = -1,
    shortest: int = 0,
    lowest: bool = False,
) -> Tensor:
    """Goes on greedily, rightly or with one mistake."""
    for _ in range(count):
        size = max(1, context_len - shortest)
        read = token_ids[:, :size] if first else token_ids[:, -size:]
        scores = _Reader(context_len)(read)[:, place]
        picked = (-scores if lowest else scores).argmax(-1)
        token_ids = torch.cat([token_ids, picked[:, None]], dim=1)
    return token_ids


def _generation_mistakes(token_ids: Tensor, count: int, context_len: int) -> Mistakes:
    """What the usual mistakes give."""
    given = token_ids, count, context_len
    right, length = _continued(*given), token_ids.shape[1]
    scores = _Reader(context_len)(token_ids)[:, -1]
    at_once = scores.argmax(-1, keepdim=True).expand(-1, count)
    return [
        (right[:, length:], "Only the new tokens come back: the beginning is missing."),
        (right[:, -context_len:], "The text itself is cut: cut only what the model "
         "reads."),
        (right[:, :-1], "One token too few is added."),
        (_continued(token_ids, count + 1, context_len), "One token too many is added."),
        (_continued(token_ids, 1, context_len), "Only one token is added."),
        (token_ids, "No token is added."),
        (torch.cat([token_ids, at_once], 1), "The same token is added each time: read "
         "the text anew after each one."),
        (_continued(*given, place=0), "These logits belong to the first token read: "
         "what comes after the last one?"),
        (_continued(*given, lowest=True), "The tokens with the lowest logits are "
         "taken."),
        (_continued(*given, first=True), "The model reads the first tokens: give it "
         "the last ones."),
        (_continued(*given, shortest=1), "The model reads one token less than it can."),
        (_continued(*given, shortest=context_len - 1), "The model reads the last token "
         "only."),
    ]  # fmt: skip
