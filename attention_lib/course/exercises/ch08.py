"""Exercises of chapter 8: curves, top-k, schedule, a training loop and generation."""

import math
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attention_lib.course.exercises.curves import CAUSES
from attention_lib.course.exercises.exercise import Exercise, slip
from attention_lib.course.exercises.verdict import (
    CHANGED,
    NOT_YET,
    Mistakes,
    Verdict,
    run,
)
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import next_token_loss

# How a run with each cause looks.
_LOOKS = {
    "double shift": "After a double shift, the training loss looks healthy, but the "
    "held-out loss, measured with the right shift, rises far above ln V.",
    "few texts": "With few texts, the training loss falls below the floor, and the "
    "held-out loss soon rises.",
    "healthy": "In a healthy run, both losses fall together and stay above the floor.",
    "high rate": "A rate that is too high does harm in the first steps: the loss rises "
    "at once.",
    "leak": "With a leak, both losses fall below the floor.",
    "no zero_grad": "Without zero_grad, a run begins well, and then becomes worse "
    "little by little, because old gradients add up.",
    "softmax first": "With a softmax before the loss, both losses stay between 3 and "
    "ln V.",
    "sorted texts": "With sorted texts, the training loss jumps whenever a new kind of "
    "text begins.",
    "wild batch": "A wild batch breaks a good run at a single step: until then, the "
    "losses are healthy.",
}
# What is odd in each run.
_ODD = {
    "A": "Here the training loss jumps up again and again.",
    "B": "Here the losses move apart: which of them is below the floor?",
    "C": "Here the loss rises before it has ever fallen.",
    "D": "Here no loss rises, and both end below the floor.",
    "E": "Here the losses fall, turn, and rise further and further.",
    "F": "Here the losses are healthy for half of the run.",
}


def check_causes(answer: object) -> Verdict:
    """Judge the causes that a reader names for the recorded runs; never raise."""
    if answer is None or answer is ...:
        return NOT_YET
    if isinstance(answer, list | tuple) and len(answer) == len(CAUSES):
        answer = dict(zip(CAUSES, answer, strict=True))
    if not isinstance(answer, dict) or {*answer} != {*CAUSES}:
        words = "The answer is a dictionary: from each letter, A to F, to a cause."
        return Verdict(False, words)
    named = {
        run: answer[run]
        for run in CAUSES
        if answer[run] is not None and answer[run] is not ...
    }
    if not named:
        return NOT_YET
    for letter, name in named.items():
        cause = " ".join(str(name).lower().split())
        if cause not in _LOOKS:
            return Verdict(False, f"Run {letter}: “{name}” is none of the nine names.")
        if cause != CAUSES[letter]:
            words = f"Run {letter} is not “{cause}”. {_LOOKS[cause]} {_ODD[letter]}"
            return Verdict(False, words)
    if missing := [letter for letter in CAUSES if letter not in named]:
        return Verdict(False, f"Right so far. Run {missing[0]} has no cause yet.")
    return Verdict(True, "Each cause has left its own trace in the two losses.")


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
        with suppress(OverflowError):  # an int may be too large
            came = float(came)
        shares.append(came if isinstance(came, float) else math.inf)
    return np.array(shares)


def _first_wrong(came: Any, right: Any, *numbers: int) -> str:
    first = int(np.argmax(~np.isclose(came, right, rtol=1e-4, atol=1e-5)))
    return f"Step {first} is not right: you give {came[first]:.3f}."


UP = "(step + 1) / warmup"
DOWN = "0.5 + 0.5 * math.cos(math.pi * done)"
DONE = "(step - warmup) / (steps - warmup)"
check_schedule = Exercise(
    solution="""
def my_schedule(step, warmup, steps):
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / (steps - warmup)
    return 0.5 + 0.5 * math.cos(math.pi * done)
""",
    also=[(UP, "(step + 1) / (warmup + 1)")],
    cases=[((4, 12), ""), ((0, 5), "This is right so far. For warmup = 0:")],
    use=_shares,
    otherwise=_first_wrong,
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
    """Return what a loop gives, and the weights after it; it must leave its batches."""
    model, seen = _small_model(long), [] if modes is None else modes
    model.register_forward_pre_hook(lambda part, _: seen.append(part.training))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    batches = _batches()
    came = run(loop, model.eval(), optimizer, batches)
    if any(
        not torch.equal(a[0], b[0]) for a, b in zip(batches, _batches(), strict=True)
    ):
        came = Verdict(False, CHANGED)
    return came, [weight.detach().clone() for weight in model.parameters()]


def _other_than_losses(came: Any, count: int) -> str:
    """Say what was returned if it is not a list of losses, one per batch."""
    if not isinstance(came, list | tuple | np.ndarray | Tensor) or np.ndim(came) == 0:
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
