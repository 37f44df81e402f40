"""Training: one step, then many, with a schedule, a progress bar and a record.

Shapes: B batch, T length, V vocabulary. Losses are in nats per token.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.data import Dataset
from tqdm import tqdm

from attention_lib.data import pad_texts
from attention_lib.reproducibility import evaluation_mode, seeded
from attention_lib.validation import (
    require_batch,
    require_fits,
    require_instance,
    require_logits,
    require_max_grad_norm,
    require_not_negative,
    require_optimizer,
    require_positive,
    require_run,
    require_targets,
    require_token_texts,
    require_warmup,
)


def next_token_loss(
    logits: Float[Tensor, "B T V"],
    token_ids: Int[Tensor, "B T"],
    lengths: Int[Tensor, " B"] | None = None,
) -> Float[Tensor, ""]:
    """Return the mean surprise of a model at the next token: cross-entropy.

    The target of a token is the one after it. This shift happens here and nowhere else:
    ``token_ids`` are those that the model was given. Logits in half precision are
    summed in float32, as under PyTorch's autocast. The loss can be compiled and
    vectorised: the values of ids and lengths are checked only where a plain call gets
    them on the CPU. ``train_step`` and ``evaluate`` check them on every device.

    Args:
        logits: the model's scores.
        token_ids: the texts, padded on the right where they are shorter.
        lengths: how many tokens of each text are real; all when left out.

    Returns:
        The mean of -ln p(target) over all targets that are not padding, in nats; nan
        where all are padding. Its type is float32, or that of the logits if wider.

    Raises:
        TypeError: logits that are not floats; ids or lengths that are not whole
            numbers.
        ValueError: shapes that do not fit together; texts of a single token; ids
            outside the vocabulary; lengths below 0 or beyond the text.
    """
    require_logits(logits, token_ids, lengths)
    require_targets(logits, token_ids, lengths)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    targets = token_ids.long()
    if lengths is not None:
        positions = torch.arange(token_ids.shape[1], device=token_ids.device)
        padding = positions >= lengths[:, None]  # (B, T)
        targets = targets.masked_fill(padding, -100)  # cross_entropy ignores it
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
    """Take one step down the loss of one batch, and return the loss before it.

    Args:
        model: returns logits (B, T, V) for ids and lengths.
        optimizer: holds the weights that are trained.
        token_ids: the texts, padded on the right where they are shorter.
        lengths: how many tokens of each text are real; all when left out.
        max_grad_norm: a longer gradient is shortened to this; ``math.inf`` never is.

    Raises:
        TypeError: not a model or not an optimizer; ids or lengths that are not whole
            numbers.
        ValueError: ids or lengths outside their range; a norm that is not above 0; no
            weight that can learn; a loss or a gradient that is not finite. The weights
            and the optimizer then stay as they were.
    """
    require_batch(model, token_ids, lengths)
    require_optimizer(optimizer, model)
    require_max_grad_norm(max_grad_norm)
    if not model.training:  # train() would also switch parts kept in eval mode
        model.train()
    loss = next_token_loss(model(token_ids, lengths), token_ids, lengths)
    if not loss.isfinite():
        raise ValueError(f"the loss is {loss.item()}: try a smaller learning rate")
    if not loss.requires_grad:
        raise ValueError("no weight can learn: look for requires_grad=False or no_grad")
    optimizer.zero_grad()
    loss.backward()
    learning = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(learning, max_grad_norm)
    if not norm.isfinite():
        optimizer.zero_grad()
        raise ValueError(
            f"the gradient has the length {norm.item()}, though the loss is "
            f"{loss.item():.3g}: try a smaller learning rate; else look for the square "
            "root of 0, a division by 0, and numbers that float16 cannot hold"
        )
    optimizer.step()
    return loss.item()


def warmup_cosine(step: int, *, warmup: int, steps: int) -> float:
    """Return the fraction of the learning rate at a step: linear up, cosine down.

    >>> [round(warmup_cosine(step, warmup=2, steps=6), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15]

    From the step ``steps`` on it stays 0.

    Raises:
        TypeError: a number that is not an int.
        ValueError: a step below 0; a warm-up that is not shorter than the run.
    """
    require_warmup(step, warmup, steps)
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / (steps - warmup))
    return 0.5 + 0.5 * math.cos(math.pi * done)


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Attributes:
        steps: batches in the whole run.
        batch_size: texts in a batch.
        learning_rate: the largest one, after the warm-up.
        warmup: its number of steps; when left out 50, or half of a shorter run.
        max_grad_norm: a longer gradient is shortened to this.
        seed: determines the order of the texts.

    Raises:
        TypeError: a number of steps or texts or a seed that is not an int; a rate or
            a norm that is not a number.
        ValueError: steps or texts below 1; a warm-up that is not shorter than the run;
            a ``learning_rate`` or a ``max_grad_norm`` that is not above 0.
    """

    steps: int
    batch_size: int = 16
    learning_rate: float = 6e-3
    warmup: int | None = None
    max_grad_norm: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        require_positive(steps=self.steps)
        if self.warmup is None:  # a frozen class has no other way to fill it in
            object.__setattr__(self, "warmup", min(50, self.steps // 2))
        require_run(self)


class Training:
    """One run that can stop at any step, and continue later as if it never had.

    The content of a batch depends on the step and the seed alone.

    Args:
        model: what to train; it is changed.
        texts: ids, one tensor per text, or windows of one long text.
        config: how to train.

    Attributes:
        losses: of each step so far.
        optimizer: AdamW for all weights. You may replace it before the first step, for
            example by one with parameter groups. Each step sets the learning rate of
            all groups.

    Raises:
        TypeError: texts that are not tensors of whole numbers.
        ValueError: fewer texts than a batch holds; a text that the model's context or
            vocabulary does not hold.
    """

    def __init__(
        self,
        model: nn.Module,
        texts: Sequence[Tensor] | Dataset[Tensor],
        config: TrainConfig,
    ) -> None:
        require_instance("model", model, nn.Module)
        require_instance("config", config, TrainConfig)
        texts = require_token_texts(texts)
        require_fits(model, torch.cat(texts), max(len(text) for text in texts))
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
        self._order = -1, torch.empty(0)  # an epoch, and the order of its texts

    def run(self, until: int | None = None) -> None:
        """Run the steps that are missing, with a progress bar.

        Args:
            until: the step to stop before; the end when left out or earlier.

        Raises:
            TypeError: a step that is not an int.
            ValueError: a step below 0; what ``train_step`` refuses.
        """
        config, warmup = self.config, self.config.warmup or 0
        until = config.steps if until is None else until
        require_not_negative(until=until)
        until = min(until, config.steps)
        steps = range(len(self.losses), until)
        bar = tqdm(steps, desc="training", unit="step", leave=False)
        for step in bar:
            rate = warmup_cosine(step, warmup=warmup, steps=config.steps)
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
        """Return the batch of a step, on the model's device.

        Each epoch takes the texts in a new order; a last incomplete batch is left out.
        """
        require_not_negative(step=step)
        size = self.config.batch_size
        epoch, number = divmod(step, len(self.texts) // size)
        if self._order[0] != epoch:
            generator = seeded(self.config.seed + epoch)
            order = torch.randperm(len(self.texts), generator=generator)
            self._order = epoch, order
        chosen = self._order[1][number * size :][:size].tolist()
        token_ids, lengths = pad_texts([self.texts[i] for i in chosen])
        device = _device_of(self.model)
        return token_ids.to(device), lengths.to(device)


def train(
    model: nn.Module, texts: Sequence[Tensor] | Dataset[Tensor], config: TrainConfig
) -> list[float]:
    """Train a model from start to end, and return the loss of each step."""
    training = Training(model, texts, config)
    training.run()
    return training.losses


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    texts: Sequence[Tensor] | Dataset[Tensor],
    *,
    batch_size: int = 64,
) -> float:
    """Return the mean loss over all targets of all texts, without dropout.

    Raises:
        TypeError: not a model; texts that are not tensors of whole numbers; a batch
            size that is not an int.
        ValueError: a batch size below 1; no target in any text; a text that the
            model's context or vocabulary does not hold.
    """
    require_instance("model", model, nn.Module)
    require_positive(batch_size=batch_size)
    # Shorter ones have no target.
    texts = [text for text in require_token_texts(texts) if len(text) > 1]
    if not texts:
        raise ValueError("no text has two tokens: there is no next token to predict")
    require_fits(model, torch.cat(texts), max(len(text) for text in texts))
    device = _device_of(model)
    total, targets = 0.0, 0
    with evaluation_mode(model):
        for start in range(0, len(texts), batch_size):
            token_ids, lengths = pad_texts(texts[start : start + batch_size])
            token_ids, lengths = token_ids.to(device), lengths.to(device)
            count = int((lengths - 1).sum())  # the first token is not a target
            loss = next_token_loss(model(token_ids, lengths), token_ids, lengths)
            total, targets = total + loss.item() * count, targets + count
    return total / targets


def _device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's first weight; the CPU if it has none."""
    return next(model.parameters(), torch.empty(0)).device
