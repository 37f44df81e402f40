"""Exercises of chapter 8: loss, top-k, schedule, a training loop and generation."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attention_lib.course.exercises.exercise import Exercise, slip
from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    run,
)
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import next_token_loss

MEAN = "surprise[real].mean()"
CUT = "logits[:, :-1].log_softmax(dim=-1)"
LOGITS = "logits[:, :-1]"
REAL = "(torch.arange(1, token_ids.shape[1]) < lengths[:, None])"
TARGETS = "token_ids[:, 1:]"
PADDED = "lengths.min() < token_ids.shape[1]"
NO_LOGARITHM = "The logarithm is missing."
NO_P = "The scores are no probabilities yet."
check_next_token_loss = Exercise(
    solution="""
def my_loss(logits, token_ids, lengths):
    log_p = logits[:, :-1].log_softmax(dim=-1)
    targets = token_ids[:, 1:]
    surprise = -log_p.gather(-1, targets[:, :, None])[:, :, 0]
    real = torch.arange(1, token_ids.shape[1]) < lengths[:, None]
    return surprise[real].mean()
""",
    cases=[
        (([5, 5, 5],), ""),
        (([5, 2, 4],), "This is right without padding. For texts of 5, 2 and 4 "
         "tokens:"),
    ],
    inputs=lambda lengths: (
        2 * torch.randn(3, 5, 7, generator=seeded(0)),
        torch.tensor([[4, 0, 6, 2, 5], [3, 1, 0, 0, 0], [1, 5, 0, 3, 0]]),
        torch.tensor(lengths),
    ),
    slips=[
        # What shows where texts are padded.
        slip("padding is counted: use the lengths.", "[real]", ""),
        slip("one padding token per text is counted: the mask must be shifted with the "
             "targets.", "arange(1, token_ids.shape[1])", "arange(targets.shape[1])"),
        slip("the last real target of each text is lost.",
             "< lengths[:, None]", f"< lengths[:, None] - 1 * ({PADDED})"),
        slip("only padding is counted: the mask is the wrong way round.",
             "[real]", f"[~real if {PADDED} else real]"),
        slip("this is a mean of the texts' means: every target counts the same.",
             MEAN, "((surprise * real).sum(1) / real.sum(1)).mean()"),
        slip("padding adds nothing, but is counted in the number that you divide by.",
             MEAN, "(surprise * real).mean()"),
        slip("scores of padding are set to 0, and still counted: leave them out.",
             CUT, f"({LOGITS} * {REAL}[..., None]).log_softmax(dim=-1)",
             MEAN, "surprise.sum() / real.sum()"),
        # What shows where no text is padded, too.
        slip("Nothing is shifted: each token is its own target.",
             LOGITS, "logits", TARGETS, "token_ids", "arange(1,", "arange(0,"),
        slip("The targets are shifted twice: these are two tokens later.",
             LOGITS, "logits[:, :-2]", TARGETS, "token_ids[:, 2:]",
             "arange(1,", "arange(2,"),
        slip("The targets are shifted the wrong way: these are the tokens before.",
             LOGITS, "logits[:, 1:]", TARGETS, "token_ids[:, :-1]"),
        slip("The last token is asked for the first one of its text: it has no target.",
             LOGITS, "logits", TARGETS, "token_ids.roll(-1, 1)", "[real]", ""),
        slip("That is the sum: divide by the number of targets.", ".mean()", ".sum()"),
        slip("That is a loss per text: a loss per target is wanted.",
             MEAN, "surprise[real].sum() / len(lengths)"),
        slip("That is the sum over the texts: divide by the number of all targets.",
             MEAN, "(surprise * real).sum(0).mean()"),
        slip("This divides by the number of tokens: the first ones are no targets.",
             MEAN, "surprise[real].sum() / lengths.sum()"),
        slip("These are the losses of all tokens: take their mean.", MEAN, "surprise"),
        slip("The sign is wrong: a loss is never below 0.", "-log_p", "log_p"),
        slip("These are bits, not nats: take ln.", MEAN, f"{MEAN} / math.log(2)"),
        slip("e to the loss of each token: leave the logarithm.",
             MEAN, "surprise[real].exp().mean()"),
        slip("That is the perplexity, e to the loss.", MEAN, f"{MEAN}.exp()"),
        slip(NO_LOGARITHM, "log_softmax", "softmax"),
        slip(NO_LOGARITHM, "log_softmax", "softmax", "-log_p", "log_p"),
        slip("Take the logarithm first, then the mean.",
             MEAN, "-(-surprise[real]).exp().mean().log()"),
        slip(NO_P, ".log_softmax(dim=-1)", ""),
        slip(NO_P, ".log_softmax(dim=-1)", "", "-log_p", "log_p"),
        slip("The softmax runs over the positions: it must run over the vocabulary.",
             CUT, "logits.log_softmax(dim=1)[:, :-1]"),
        slip("The softmax runs over the texts: it must run over the vocabulary.",
             CUT, "logits.log_softmax(dim=0)[:, :-1]"),
        slip("The id 0 is skipped, but it is a real token, too: ask the lengths.",
             "[real]", "[targets != 0]"),
        slip("The reshape mixes positions and vocabulary: see which axis comes last.",
             LOGITS, "logits[:, :-1].mT.reshape(3, 4, -1)"),
    ],
    praise="This is the mean over the real targets, each shifted once.",
)  # fmt: skip

KEPT = "logits.masked_fill(logits < lowest, -torch.inf)"
PROBABILITIES = f"{KEPT}.softmax(dim=-1)"
ARE_SCORES = "These are scores: probabilities are asked for."
FIXED = "what you cut gets a fixed score that is above these: use minus infinity."
CUT_OFF = "logits < lowest"
RANK = "argsort(dim=-1, descending=True, stable=True).argsort(-1)"
NEXT = "F.pad(logits, (0, 1), value=-torch.inf).topk(k + 1).values[:, -1:]"
FEW = torch.tensor([[1.0, 3, -1, 2, 0], [0.5, -2, 4, 0, 1]])
check_top_k = Exercise(
    solution="""
def my_top_k(logits, k):
    lowest = logits.topk(k).values[:, -1:]
    return logits.masked_fill(logits < lowest, -torch.inf).softmax(dim=-1)
""",
    # Of tokens that tie, any may be kept.
    also=[
        (CUT_OFF, f"logits.{RANK} >= k"),
        (CUT_OFF, f"logits.flip(-1).{RANK}.flip(-1) >= k"),
    ],
    cases=[
        ((FEW, 3), ""),
        ((FEW, 1), "This is right for the best 3 of 5. For the best 1:"),
        ((FEW, 5), "This is right for the best 3 of 5. For the best 5:"),
        ((torch.tensor([[-23.0, -21, -25, -22]]), 2),
         "This is right so far. For the best 2 of very low scores:"),
        ((torch.tensor([[2.0, 1, 1, 0]]), 2), "This is right so far. For the best 2 of "
         "4, where two share the second place:"),
    ],
    slips=[
        slip("What is kept does not sum to 1: cut the scores first, then take the "
             "softmax.", PROBABILITIES,
             "logits.softmax(dim=-1).masked_fill(logits < lowest, 0)"),
        slip(FIXED, "-torch.inf", "-10.0"),
        slip(FIXED, "-torch.inf", "-20.0"),
        slip("A score of 0 is no ban: it has a probability.", "-torch.inf", "0"),
        slip(ARE_SCORES, PROBABILITIES, "logits.masked_fill(logits < lowest, 0)"),
        slip(ARE_SCORES, ".softmax(dim=-1)", ""),
        slip("The lowest scores get the most: do not change the sign.",
             "    lowest", "    logits = -logits\n    lowest"),
        slip("The lowest scores are kept, not the highest.", "< lowest", "> lowest"),
        slip("One token too few is kept.", "topk(k)", "topk(k - (k == 3))"),
        slip("One token too many is kept.", "topk(k)", "topk(k + (k == 3))"),
        slip("Nothing is cut.", KEPT, "logits"),
        slip("Only the k that are kept are here: each token must stay in its own "
             "column.", KEPT, "logits.topk(k).values"),
        slip("These are the best tokens: their probabilities are asked for.",
             PROBABILITIES, "logits.topk(k).indices"),
        slip("The best of the whole batch are kept: each text has its own.",
             "topk(k).values[:, -1:]", "flatten().topk(k).values[-1]"),
        slip("The softmax runs over the texts: it must run over the vocabulary.",
             "dim=-1", "dim=0"),
        slip("both are dropped, and one token is left.", CUT_OFF, f"logits <= {NEXT}"),
    ],
    praise="What is cut has the probability 0, and the rest sums to 1.",
)  # fmt: skip


class ScheduleExercise(Exercise):
    """An exercise whose solution gives a number for each step."""

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        came = _shares(answer, *numbers)
        if isinstance(came, Verdict):
            return came
        for also in ((), *self.also):
            if np.allclose(came, _shares(self.made(*also), *numbers), atol=1e-4):
                return None
        right = _shares(self.made(), *numbers)
        results = self._results(lambda slipped: _shares(slipped, *numbers))
        fits = (
            words
            for found, words in results
            if not isinstance(found, Verdict) and np.allclose(came, found, atol=1e-4)
        )
        first = int(np.argmax(~np.isclose(came, right, atol=1e-4)))
        otherwise = f"Step {first} is not right: you give {came[first]:.3f}."
        return Verdict(False, next(fits, otherwise))


def _shares(answer: Any, warmup: int, steps: int) -> Any:
    """Return the reader's share at each step, or a verdict if one is not a number."""
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


UP = "(step + 1) / warmup"
DOWN = "0.5 + 0.5 * math.cos(math.pi * done)"
DONE = "(step - warmup) / (steps - warmup)"
check_schedule = ScheduleExercise(
    solution="""
def my_schedule(step, warmup, steps):
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / (steps - warmup)
    return 0.5 + 0.5 * math.cos(math.pi * done)
""",
    also=[(UP, "(step + 1) / (warmup + 1)")],
    cases=[((4, 12), ""), ((0, 5), "This is right so far. For warmup = 0:")],
    slips=[
        slip("The first step has the share 0: it is made, but changes nothing.",
             UP, "step / warmup"),
        slip("The warm-up takes a step too many.",
             "    if", "    warmup, steps = warmup + 1, steps + 1\n    if"),
        slip("There is no warm-up.", UP, "1"),
        slip("During the warm-up nothing is learnt: the share grows.", UP, "0"),
        slip("There is no warm-up: the cosine falls from the first step on.",
             "step < warmup", "False", DONE, "step / steps"),
        slip("The cosine is not moved by the warm-up: it has already fallen when its "
             "turn comes.", DONE, "step / steps"),
        slip("The cosine does not come down far enough: it has only the steps after "
             "the warm-up.", DONE, "(step - warmup) / steps"),
        slip("The cosine begins at the end of the warm-up: count its steps from there.",
             DONE, "step / (steps - warmup)"),
        slip("The last step has the share 0: it is made, but changes nothing.",
             "(steps - warmup)", "(steps - warmup - 1)"),
        slip("After the warm-up nothing falls.", DOWN, "1"),
        slip("That falls in a line: a cosine is wanted.", DOWN, "1 - done"),
        slip("The cosine falls from 1 to -1: it must end at 0.", "0.5 + 0.5 * ", ""),
        slip("That is a quarter of a wave: half of one is wanted.",
             DOWN, "math.cos(math.pi / 2 * done)"),
        slip("Half a wave is an angle of π.", "math.pi * ", ""),
        slip("The cosine rises here: it must fall.", "0.5 + 0.5", "0.5 - 0.5"),
        slip("The warm-up falls: it must rise.", UP, "(warmup - step) / warmup"),
        slip("The warm-up rises too slowly: it must be at 1 when the cosine begins.",
             UP, "(step + 1) / steps"),
    ],
    praise="The share rises in a line, then falls along half a wave.",
)  # fmt: skip


def _small_model(long: bool = True) -> TinyLM:
    """Return a model whose gradients are longer than 1, or all shorter."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = TinyLM(ModelConfig(7, 6, d_model=4, num_heads=2, num_layers=1)).float()
    with torch.no_grad():
        model.head.weight *= 30 if long else 3
    return model


def _batches() -> list[tuple[Tensor, Tensor]]:
    """Return batches whose padding is not token 0, so that lengths matter."""
    token_ids = torch.randint(7, (4, 2, 6), generator=seeded(0))
    return [(ids, torch.tensor([6, 3])) for ids in token_ids]


class LoopExercise(Exercise):
    """A training loop that the reader writes: its losses and the weights count."""

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        modes: list[bool] = []
        with torch.random.fork_rng(devices=[]):
            losses, weights = _trained(answer, numbers[0], modes)
        if isinstance(losses, Verdict):
            return losses
        right = _trained(self.made(), *numbers)
        mistakes = self._results(lambda loop: _trained(loop, *numbers))
        words = _wrong_losses(losses, right[0], mistakes)
        if not words and not _close(weights, right[1]):
            fits = (words for (_, own), words in mistakes if _close(weights, own))
            words = next(fits, "The losses are right, the weights afterwards are not.")
        if not words and not all(modes):
            words = "The model is in evaluation mode while it learns."
        return Verdict(False, words) if words else None


def _wrong_losses(came: Any, right: list[float], mistakes: Mistakes) -> str:
    if words := _other_than_losses(came, len(right)):
        return words
    if np.allclose(came, right, rtol=1e-3):
        return ""
    for (losses, _), words in mistakes:
        if len(losses) == len(came) and np.allclose(came, losses, rtol=1e-3):
            return words
    if not math.isclose(came[0], right[0], rel_tol=1e-3):
        return f"The first loss must be {right[0]:.3f}; yours is {came[0]:.3f}."
    return "The first loss is right, a later one is not: what does the step do?"


def _trained(
    loop: Any, long: bool, modes: list[bool] | None = None
) -> tuple[Any, list[Tensor]]:
    """Return what a loop gives, and the weights after it."""
    model, seen = _small_model(long), [] if modes is None else modes
    model.register_forward_pre_hook(lambda part, _: seen.append(part.training))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    came = run(loop, model.eval(), optimizer, _batches())
    return came, [weight.detach().clone() for weight in model.parameters()]


def _other_than_losses(came: Any, count: int) -> str:
    """Say what was returned if it is not a list of losses, one per batch."""
    if not isinstance(came, list | tuple | np.ndarray | Tensor):
        return f"Your function returns a {type(came).__name__}, not a list of losses."
    if isinstance(came, Tensor) or any(isinstance(loss, Tensor) for loss in came):
        return "Your losses are tensors: plain numbers are asked for."
    if len(came) != count:
        return f"There are {count} batches: your function gives {len(came)} losses."
    if not all(isinstance(loss, float | np.floating) for loss in came):
        return "Your function returns something other than a list of numbers."
    return ""


def _close(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(
        torch.allclose(a, b, atol=1e-4) for a, b in zip(some, others, strict=True)
    )


NO_STEP = (
    "No weight has changed: is there a step of the optimiser, and a gradient when it "
    "is made?"
)
ZERO = "        optimizer.zero_grad()\n"
CLIP = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "        optimizer.step()\n"
TO_ONE = """        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for weight in model.parameters():
            weight.grad /= norm.clamp(max=1)
"""
check_training_loop = LoopExercise(
    solution="""
def my_train(model, optimizer, batches):
    losses = []
    model.train()
    for token_ids, lengths in batches:
        loss = next_token_loss(model(token_ids, lengths), token_ids, lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses
""",
    cases=[
        ((True,), ""),
        ((False,), "This is right for gradients longer than 1. For shorter ones:"),
    ],
    slips=[
        slip("Old gradients are still there: remove them before backward.", ZERO, ""),
        slip("The gradient is not clipped, or only after the step.", CLIP, ""),
        slip("A gradient that is shorter than 1 is made longer: leave it as it is.",
             CLIP, TO_ONE),
        slip("The gradient is clipped to another length than 1.", "1.0", "0.5"),
        slip("Old gradients are still there, nothing is clipped.", ZERO, "", CLIP, ""),
        slip(NO_STEP, STEP, ""),
        slip("Each batch is taken twice.", "in batches:", "in batches * 2:",
             "return losses", "return losses[: len(batches)]"),
        slip("Padding is counted: give the lengths to the loss.",
             "token_ids, lengths), token_ids, lengths)", "token_ids), token_ids)"),
    ],
    praise="There is one step for each batch, and the weights are right.",
    names={"next_token_loss": next_token_loss},
)  # fmt: skip


class _Reader(nn.Module):
    """A model whose best token depends on all that it reads."""

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


SAME = "The same token is added each time: read the whole text again after each one."
check_generate = Exercise(
    solution="""
def my_generate(model, token_ids, max_new_tokens, context_len):
    for _ in range(max_new_tokens):
        logits = model(token_ids[:, -context_len:])[:, -1]  # (B, V)
        token_ids = torch.cat([token_ids, logits.argmax(-1, keepdim=True)], dim=1)
    return token_ids
""",
    cases=[
        (([[3, 1], [0, 5]], 3, 9), ""),
        (([[3, 1, 4], [0, 5, 2]], 6, 4), "This is right within the context. Beyond "
         "it:"),
    ],
    inputs=lambda text, count, context_len: (
        _Reader(context_len), torch.tensor(text), count, context_len
    ),
    slips=[
        slip("Only the new tokens come back: the beginning is missing.",
             "return token_ids", "return token_ids[:, -max_new_tokens:]"),
        slip("The text itself is cut: cut only what the model reads.",
             "return token_ids", "return token_ids[:, -context_len:]"),
        slip("One token too few is added.",
             "range(max_new_tokens)", "range(max_new_tokens - 1)"),
        slip("One token too many is added.",
             "range(max_new_tokens)", "range(max_new_tokens + 1)"),
        slip("Only one token is added.", "range(max_new_tokens)", "range(1)"),
        slip("No token is added.", "range(max_new_tokens)", "range(0)"),
        slip(SAME, "    for", "    beginning = token_ids\n    for",
             "model(token_ids", "model(beginning"),
        slip("These logits belong to the first token read: what comes after the last "
             "one?", "[:, -1]", "[:, 0]"),
        slip("The tokens with the lowest logits are taken.", "argmax", "argmin"),
        slip("The model reads the first tokens: give it the last ones.",
             "-context_len:", ":context_len"),
        slip("The model reads one token less than it can.",
             "-context_len:", "1 - context_len:"),
        slip("The model reads the last token only.", "-context_len:", "-1:"),
    ],
    praise="The text grows, and the model reads as much as it takes.",
)  # fmt: skip
