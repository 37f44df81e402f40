"""Training: one step, then many, with a schedule, a progress bar and a record.

Shapes: B batch, T length, V vocabulary. Losses are in nats a token.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from attention_lib.data import pad_texts
from attention_lib.masks import padding_mask
from attention_lib.reproducibility import seeded
from attention_lib.validation import check_logits, check_positive, check_run


def next_token_loss(
    logits: Float[Tensor, "B T V"],
    token_ids: Int[Tensor, "B T"],
    lengths: Int[Tensor, " B"] | None = None,
) -> Float[Tensor, ""]:
    """Says how surprised a model is, on average, by the next token: cross-entropy.

    The target of a token is the one after it. This shift happens here and nowhere else:
    ``token_ids`` are those that the model got.

    Args:
        logits: the model's scores.
        token_ids: the texts, padded on the right where they are shorter.
        lengths: how many tokens of each text are real; all when left out.

    Returns:
        The mean of -ln p(target) over all targets that are no padding, in nats.

    Raises:
        TypeError: ids or lengths that are not whole numbers.
        ValueError: shapes that do not fit together; no target in the whole batch.
    """
    check_logits(logits, token_ids, lengths)
    targets = token_ids.long()
    if lengths is not None:
        real = padding_mask(lengths, token_ids.shape[1])[:, 0]  # (B, T)
        targets = targets.masked_fill(~real, -100)  # what cross_entropy skips
    targets = F.pad(targets[:, 1:], (0, 1), value=-100)  # the last has no next one
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    token_ids: Int[Tensor, "B T"],
    lengths: Int[Tensor, " B"] | None = None,
    *,
    max_grad_norm: float = 1.0,
) -> float:
    """Makes one step down the loss of one batch, and gives the loss before it.

    Args:
        model: gives logits (B, T, V) for ids and lengths.
        optimizer: holds the model's parameters.
        token_ids: the texts, padded on the right where they are shorter.
        lengths: how many tokens of each text are real; all when left out.
        max_grad_norm: a longer gradient is shortened to this; ``math.inf`` never is.

    Raises:
        ValueError: a loss that is not finite; nothing was changed then.
    """
    model.train()
    loss = next_token_loss(model(token_ids, lengths), token_ids, lengths)
    if not loss.isfinite():
        raise ValueError(f"the loss is {loss.item()}: try a smaller learning rate")
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    optimizer.step()
    return loss.item()


def warmup_cosine(step: int, *, warmup: int, steps: int) -> float:
    """Gives the share of the learning rate at a step: up in a line, down in a cosine.

    >>> [round(warmup_cosine(step, warmup=2, steps=6), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15]
    """
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / (steps - warmup))


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Attributes:
        steps: batches in the whole run.
        batch_size: texts in a batch.
        learning_rate: the largest one, after the warm-up.
        warmup: steps until then.
        max_grad_norm: a longer gradient is shortened to this.
        seed: says in which order the texts come.

    Raises:
        TypeError: a number of steps or texts that is not an int.
        ValueError: one below 1; a warm-up that is longer than the run; a
            ``max_grad_norm`` that is not above 0.
    """

    steps: int
    batch_size: int = 16
    learning_rate: float = 6e-3
    warmup: int = 50
    max_grad_norm: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_run(self)


class Training:
    """One run that can stop at any step, and go on later as if it never had.

    What a batch holds follows from the step and the seed alone.

    Args:
        model: what to train; it is changed.
        texts: ids, one tensor a text.
        config: how.

    Attributes:
        losses: of each step so far.

    Raises:
        ValueError: fewer texts than a batch holds.
    """

    def __init__(
        self, model: nn.Module, texts: Sequence[Tensor], config: TrainConfig
    ) -> None:
        if len(texts) < config.batch_size:
            raise ValueError(
                f"there are {len(texts)} texts for batches of {config.batch_size}: "
                "take more texts or a smaller batch_size"
            )
        self.model = model
        self.texts = texts
        self.config = config
        self.losses: list[float] = []
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98)
        )

    def run(self, until: int | None = None) -> None:
        """Makes the steps that are missing, with a progress bar.

        Args:
            until: the step to stop before; the end when left out.
        """
        config = self.config
        until = config.steps if until is None else min(until, config.steps)
        steps = range(len(self.losses), until)
        bar = tqdm(steps, desc="training", unit="step", leave=False)
        for step in bar:
            rate = warmup_cosine(step, warmup=config.warmup, steps=config.steps)
            for group in self.optimizer.param_groups:
                group["lr"] = config.learning_rate * rate
            token_ids, lengths = self.batch(step)
            loss = train_step(
                self.model,
                self.optimizer,
                token_ids,
                lengths,
                max_grad_norm=config.max_grad_norm,
            )
            self.losses.append(loss)
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

    def batch(self, step: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]:
        """Gives the batch of a step, on the model's device.

        Each round takes the texts in a new order; those that fill no batch wait.
        """
        size = self.config.batch_size
        a_round = len(self.texts) // size  # steps
        generator = seeded(self.config.seed + step // a_round)
        order = torch.randperm(len(self.texts), generator=generator)
        chosen = order[step % a_round * size :][:size].tolist()
        token_ids, lengths = pad_texts([self.texts[i] for i in chosen])
        device = next(self.model.parameters()).device
        return token_ids.to(device), lengths.to(device)


def train(
    model: nn.Module, texts: Sequence[Tensor], config: TrainConfig
) -> list[float]:
    """Trains a model from its start to its end, and gives the loss of each step."""
    training = Training(model, texts, config)
    training.run()
    return training.losses


@torch.no_grad()
def evaluate(
    model: nn.Module, texts: Sequence[Tensor], *, batch_size: int = 64
) -> float:
    """Gives the mean loss over all targets of all texts, without dropout.

    Raises:
        TypeError: a batch size that is not an int.
        ValueError: a batch size below 1; no target in any text.
    """
    check_positive(batch_size=batch_size)
    texts = [text for text in texts if len(text) > 1]  # others have no target
    if not texts:
        raise ValueError("no text has two tokens: there is no next token to predict")
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    total, targets = 0.0, 0
    try:
        for start in range(0, len(texts), batch_size):
            token_ids, lengths = pad_texts(texts[start : start + batch_size])
            token_ids, lengths = token_ids.to(device), lengths.to(device)
            count = int((lengths - 1).sum())  # the first token of a text is no target
            loss = next_token_loss(model(token_ids, lengths), token_ids, lengths)
            total, targets = total + loss.item() * count, targets + count
    finally:
        model.train(was_training)
    return total / targets
