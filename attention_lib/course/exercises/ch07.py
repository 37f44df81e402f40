"""Exercises of chapter 7: windows, a model and its parameters, a grammar's entropy."""

import math
import operator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.block import TinyBlock
from attention_lib.course.exercises.exercise import Exercise, NumberExercise, slip
from attention_lib.course.exercises.verdict import (
    Verdict,
    after,
    make_layer,
    run,
)
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded

Windows = list[list[int]]


class WindowsExercise(Exercise):
    """An exercise whose solution returns a list of rows of ids."""

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        given = self.inputs(*numbers)
        ids = given[0].clone()
        came = run(answer, ids, *given[1:])
        windows = came if isinstance(came, Verdict) else _as_lists(came)
        if isinstance(windows, Verdict):
            return windows
        rights = [_as_lists(self.made(*also)(*given)) for also in ((), *self.also)]
        if windows not in rights:
            results = self._results(lambda slipped: _as_lists(slipped(*given)))
            fits = (message for found, message in results if found == windows)
            words = next(fits, None) or _first_difference(windows, rights[-1])
            return Verdict(False, words)
        if not torch.equal(ids, given[0]):
            return Verdict(False, "Your code changes the ids: work on a copy.")
        return None


def _as_lists(came: Any) -> Any:
    """Return windows as lists of numbers; a verdict where they are no windows."""
    if not isinstance(came, list | tuple | Tensor | np.ndarray):
        kind = type(came).__name__
        return Verdict(False, f"Your function returns a {kind}, not a list of windows.")
    try:
        return [[operator.index(i) for i in window] for window in came]
    except (TypeError, ValueError):
        words = "A window is one row of ids. Inputs and targets are cut out of it later"
        return Verdict(False, f"{words}, in the loss.")


def _first_difference(windows: Windows, right: Windows) -> str:
    for i, (window, wanted) in enumerate(zip(windows, right, strict=False)):
        if window != wanted:
            return f"Window {i} is not right: yours is {window}."
    return f"There must be {len(right)} windows here; you give {len(windows)}."


# No id is its own position, so that the two are told apart.
TEXT = torch.tensor([31, 41, 59, 26, 53, 58, 97, 93, 23, 84, 62, 64, 33])
STEP = "- 1, stride)"
END = "len(token_ids) - 1"
FULL = END, "len(token_ids) - length"
UNTIL_LAST = END, "len(token_ids) - length - 1 + stride"
NO_TARGET = "A token after each window is nobody's target: 4 targets need 5 tokens."
SHARED = "The first token of a window is nobody's target: neighbours share a token."
TWICE = "Some targets are in two windows: a window of 4 targets holds 5 tokens."
EACH = "A window starts at every token: use the stride."
UNUSED = "the length is not used: these windows hold 5 tokens."
check_windows = WindowsExercise(
    solution="""
def my_windows(token_ids, length, stride):
    # The library also leaves out windows whose targets are all in the one before.
    starts = range(0, len(token_ids) - 1, stride)
    return [token_ids[start : start + length + 1] for start in starts]
""",
    also=[UNTIL_LAST],
    cases=[
        ((13, 4, 4), ""),
        ((11, 4, 4), "This is right for 13 ids. For 11, length and stride 4:"),
        ((10, 3, 2), "This is right so far. For 10 ids, length 3, stride 2:"),
        ((10, 4, 4), "This is right so far. For 10 ids, length and stride 4:"),
    ],
    inputs=lambda count, length, stride: (TEXT[:count].clone(), length, stride),
    slips=[
        slip("the last window is missing: with two tokens it holds a target.",
             END, "len(token_ids) - 2"),
        slip(UNUSED, "length + 1", "5"),
        slip(UNUSED, "length + 1", "5", END, "len(token_ids) - 5 + stride"),
        slip("the last targets are lost: the last window may be shorter.", *FULL),
        slip(NO_TARGET, "length + 1", "length"),
        slip(NO_TARGET, "length + 1", "length", END, "len(token_ids)"),
        slip(SHARED, STEP, "- 1, length + 1)"),
        slip(SHARED, STEP, "- 1, length + 1)", *FULL),
        slip(TWICE, "length + 1", "length + 2"),
        slip(TWICE, "length + 1", "length + 2", END, f"{END} - length"),
        slip("The first token is lost: the targets are shifted in the loss, and "
             "nowhere else.", "range(0", "range(1"),
        slip("The first token is lost, and the end.", "range(0", "range(1", *FULL),
        slip("These are the targets: the token before the first one is lost.",
             "range(0", "range(1", "length + 1", "length"),
        slip(EACH, STEP, "- 1)"),
        slip(EACH, STEP, "- 1)", *FULL),
        slip("The last window holds one token: no target.", END, "len(token_ids)"),
        slip("The last window is missing: each one that holds a target is wanted.",
             END, f"{END} - length"),
        slip("These are the positions of the tokens: their ids are wanted.",
             "token_ids[", "torch.arange(len(token_ids))["),
        slip("the last window was moved back: some targets occur twice. It may be "
             "shorter.", "[start : start + length + 1]",
             "[: start + length + 1][-length - 1 :]"),
        slip("the last window was filled up: padding is the loader's work.",
             "token_ids[", "F.pad(token_ids, (0, length))["),
        slip("the stride is not used: the next window starts 3 tokens later.",
             STEP, "- 1, length)"),
        slip("the last window is empty.", END, f"{END} + 2 * (stride < length)"),
    ],
    praise="With stride = length, each token but the first is a target once.",
)  # fmt: skip


WORDS, POSITIONS, LAST = 1000 * 32, 64 * 32, 2 * 32
ATTENTION, MLP, NORMS = 4 * 32**2 + 32, 2 * 32 * 128 + 128 + 32, 2 * 2 * 32
BLOCK = ATTENTION + MLP + NORMS
TOTAL = 2 * WORDS + POSITIONS + 2 * BLOCK + LAST
check_model_parameters = NumberExercise(
    right=TOTAL,
    praise="That is 2 · 32,000 for words, 2,048, 2 · 12,608 for blocks, and 64.",
    mistakes=[
        (TOTAL - WORDS, "One table of 1,000 words is missing: by default the embedding "
         "and the head have one each."),
        (TOTAL - POSITIONS, "The positions are missing: each of 64 has a vector."),
        (TOTAL - WORDS - POSITIONS, "The positions and one of the two tables of words "
         "are missing."),
        (TOTAL - LAST, "64 are missing: the last norm, or the bias of each attention's "
         "output."),
        (TOTAL - 2 * LAST, "The last norm and the biases of the attentions' outputs "
         "are missing."),
        (TOTAL - 320, "320 are missing: the five norms, or the biases of the MLPs."),
        (TOTAL - 384, "384 are missing: all biases, or all norms with the biases of "
         "the attentions' outputs."),
        (TOTAL - 704, "All biases and all norms are missing."),
        (TOTAL - 2 * NORMS, "The norms inside the blocks are missing."),
        (TOTAL - 160, "A norm has two numbers for each column: a scale and a shift."),
        (TOTAL + 192, "Queries, keys and values have no bias here."),
        (TOTAL + 1000, "The head has no bias."),
        (TOTAL - BLOCK, "There are two blocks."),
        (TOTAL + 6 * ATTENTION, "Four heads share the width: together they are as "
         "large as one."),
        (TOTAL + 18 * 32**2, "Four heads share the width: together they are as "
         "large as one."),
        (TOTAL - 2 * (MLP - 2 * 32**2 - 64), "The hidden layer of the MLP is four "
         "times as wide."),
        (2 * WORDS, "Those are the words alone: add positions, blocks, the last norm."),
        (2 * BLOCK, "Those are the blocks alone: what comes before and after them?"),
        (BLOCK, "That is one block: what else is there?"),
    ],
    otherwise="That is not the number: list the parts from the ids to the scores.",
)  # fmt: skip


def check_language_model(answer: object) -> Verdict:
    """Check a model built as ``MyLM(vocab_size, d_model, num_heads, num_layers)``."""
    vocab_size, d_model, num_heads, num_layers = 11, 8, 2, 3
    model = make_layer(answer, vocab_size, d_model, num_heads, num_layers)
    if isinstance(model, Verdict):
        return model
    model.eval()  # dropout is allowed
    ids = torch.randint(vocab_size - 1, (2, 7), generator=seeded(0))
    longer = torch.full((1, 40), 3)  # one token, again and again
    for given, so_far in [
        (ids, ""),
        (longer, "This is right for 7 tokens. For 40 of them:"),
        (longer.repeat(1, 28), "This is right for 40 tokens. For 1,120 of them:"),
    ]:
        logits = run(model.forward, given)
        if isinstance(logits, Verdict):
            return after(so_far, logits)
        if message := _wrong_logits(logits, (*given.shape, vocab_size)):
            return after(so_far, Verdict(False, message))
    blocks = [part for part in model.modules() if isinstance(part, TinyBlock)]
    message = (
        _wrong_blocks(model, blocks, ids, num_layers)
        or _wrong_sight(model, ids)
        or _wrong_positions(model, _order(model, blocks, ids)[0], longer)
        or _wrong_ends(model, blocks, ids)
        or _wrong_parameters(model, blocks[0], vocab_size, d_model, num_layers)
        or _wrong_way(model, blocks, ids)
    )
    if message:
        return Verdict(False, message)
    return Verdict(
        True, "This is a causal language model that uses all its parameters."
    )


def _wrong_logits(logits: Any, shape: tuple[int, ...]) -> str:
    if not isinstance(logits, Tensor):
        return f"Your forward returns a {type(logits).__name__}, not a tensor."
    if logits.shape != shape:
        came = tuple(logits.shape)
        return f"The logits must have the shape {shape} here; yours have {came}."
    return ""


def _wrong_blocks(
    model: nn.Module, blocks: list[TinyBlock], ids: Tensor, wanted: int
) -> str:
    if not blocks:
        return (
            "PyTorch finds no TinyBlock in the model: a plain list hides its blocks, "
            "an nn.ModuleList does not."
        )
    if len(blocks) != wanted:
        found = f"{wanted} blocks are wanted here, PyTorch finds {len(blocks)}: "
        return found + "each must be built on its own, and is kept in the model."
    order = _order(model, blocks, ids)
    once = len(order) == wanted and set(order) == set(blocks)
    return "" if once else "Each block must run once in a forward pass."


def _order(model: nn.Module, blocks: list[TinyBlock], ids: Tensor) -> list[TinyBlock]:
    """Return the blocks as a forward pass runs them."""
    order: list[TinyBlock] = []
    hooks = [
        block.register_forward_hook(lambda block, *_: order.append(block))
        for block in blocks
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return order


def _wrong_sight(model: nn.Module, ids: Tensor) -> str:
    """Change the last token, then the first."""
    before = model(ids)
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % 10
    if not torch.allclose(model(other)[:, :-1], before[:, :-1], atol=1e-5):
        return "A position sees the future: are all blocks causal?"
    other = ids.clone()
    other[:, 0] = (other[:, 0] + 1) % 10
    if torch.allclose(model(other)[:, -1], before[:, -1], atol=1e-5):
        return "The last position does not see the first: what do the blocks attend to?"
    return ""


def _wrong_positions(model: nn.Module, first: TinyBlock, repeated: Tensor) -> str:
    """Look at what the first block reads where all tokens are the same."""
    read: list[Tensor] = []
    hook = first.register_forward_pre_hook(
        lambda _, given, named: read.append([*given, *named.values()][0]),
        with_kwargs=True,
    )
    model(repeated)
    hook.remove()
    stream = read[0][0] - read[0][0, :1]  # (T, M), without the token
    right = sinusoidal_positions(*stream.shape).to(stream)
    if torch.allclose(stream, right - right[0], atol=1e-4):
        return ""
    if torch.allclose(stream, torch.zeros(()), atol=1e-6):
        return "The first block reads the same vector at each position: add positions."
    return "The positions are not the sinusoids, added to the tokens before any block."


def _wrong_ends(model: nn.Module, blocks: list[TinyBlock], ids: Tensor) -> str:
    """Make what leaves the last block a thousand times larger; then the head."""
    before, last = model(ids), _order(model, blocks, ids)[-1]
    hook = last.register_forward_hook(lambda *came: 1000 * came[-1])
    after = model(ids)
    hook.remove()
    if float(after.detach().abs().max()) > 30 * float(before.detach().abs().max()):
        return "The last norm is missing, or is not between blocks and head."
    tables = [weight for weight in model.parameters() if tuple(weight.shape) == (11, 8)]
    gradients = torch.autograd.grad(before[..., 10].sum(), tables, allow_unused=True)
    # Token 10 is not read: only a head can use its vector.
    if not any(grad is not None and bool(grad[10].any()) for grad in gradients):
        return "Nothing that a gradient reaches serves as the head's matrix."
    return ""


def _wrong_parameters(
    model: nn.Module, block: TinyBlock, vocab_size: int, d_model: int, layers: int
) -> str:
    table = vocab_size * d_model
    inside = sum(weight.numel() for weight in block.parameters())
    more = sum(weight.numel() for weight in model.parameters())
    more -= table + layers * inside + 2 * d_model
    if more in (table, table + vocab_size):
        return "The head has a matrix of its own: tie it to the embedding."
    if more == vocab_size:
        return "The head has a bias: one matrix is asked for, and nothing else."
    if more:
        beside = "than the embedding, the blocks and one last norm have."
        return f"There are {abs(more)} parameters {_more_or_less(more)} {beside}"
    return ""


@torch.no_grad()
def _wrong_way(model: nn.Module, blocks: list[TinyBlock], ids: Tensor) -> str:
    """Follow the stream: from block to block, through the norm, to the logits."""
    if any(block.norm != "pre" for block in blocks):
        return "The blocks must be those of ShortLM: TinyBlock(d_model, num_heads)."
    stream: list[Tensor] = []
    hooks = [
        block.register_forward_hook(
            lambda _, given, named, came: stream.extend(
                [[*given, *named.values()][0], came]
            ),
            with_kwargs=True,
        )
        for block in blocks
    ]
    logits = model(ids)
    for hook in hooks:
        hook.remove()
    for came, read in zip(stream[1:-1:2], stream[2::2], strict=True):
        if not torch.allclose(came, read, atol=1e-5):
            return "A block must read what the block before it gives, unchanged."
    normed = F.layer_norm(stream[-1], stream[-1].shape[-1:])
    logits = logits - logits.mean(dim=-1, keepdim=True)  # equal after a softmax
    for table in [weight for weight in model.parameters() if len(weight) == 11]:
        right = normed @ table.T
        right = right - right.mean(dim=-1, keepdim=True)
        size = (logits * right).sum() / right.square().sum()
        if size > 0 and torch.allclose(logits, size * right, atol=1e-4 * float(size)):
            return ""
    return (
        "The logits are not the last norm's output times the embedding's matrix: is "
        "there a softmax, which belongs to the loss, or something else between?"
    )


def _more_or_less(difference: int) -> str:
    return "more" if difference > 0 else "fewer"


NAME, CHOICE, VERB = math.log(8), math.log(2), math.log(6)
ENTROPY = NAME + CHOICE + VERB / 2
check_entropy = NumberExercise(
    right=ENTROPY,
    praise="The name costs ln 8, the choice ln 2, and half of the time a verb ln 6.",
    mistakes=[
        (ENTROPY / math.log(2), "These are bits: the question asks for nats, so take "
         "ln."),
        (NAME + VERB / 2, "Whether there is a verb is a choice, too: it has an entropy "
         "of its own."),
        (NAME + CHOICE + VERB, "Only half of the texts have a verb: multiply its "
         "entropy by the probability that there is one."),
        (NAME + VERB, "That is a text that always has a verb: here only half of them "
         "do, and whether there is one is a choice of its own."),
        (NAME + CHOICE / 2 + VERB / 2, "The choice has two outcomes: −p ln p of both."),
        (NAME + CHOICE / 2 + VERB, "The choice has two outcomes, and only half of the "
         "texts have a verb."),
        (math.log(8 * 7), "There are 56 texts, but not all are as probable."),
        (CHOICE + VERB / 2, "Is the name left out, or the logarithm one of base 10?"),
        (NAME + CHOICE, "Which verb it is must be drawn, too, in half of the texts."),
        (NAME, "That is the name alone."),
        (math.exp(ENTROPY), "That is e to the entropy: the number of equally probable "
         "texts that would be as hard to guess."),
        (ENTROPY / 1.5, "That is the entropy per word: the question asks for a text."),
    ],
    otherwise="That is not the number: add up the entropies of what is drawn, each as "
    "often as it is drawn.",
)  # fmt: skip
