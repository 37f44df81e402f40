"""The runs whose curves exercise 8.1 shows: `python -m tests.course.odd_runs`.

Each is a run of 80 steps, of a model of one layer, that differs from the healthy one in
what its cause says.
"""

import math
from functools import cache

import torch
from torch import nn

from attention_lib.data import pad_texts
from attention_lib.reproducibility import seeded
from attention_lib.stories import make_stories
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import next_token_loss

STEPS, BATCH, EVERY = 80, 8, 5
CAUSES = {
    "double shift": {"shift": 1},
    "few texts": {"few": 16},
    "healthy": {},
    "high rate": {"rate": 0.5},
    "leak": {"ahead": 1},
    "no zero_grad": {"zero": False, "clip": math.inf},
    "softmax first": {"first": nn.Softmax(-1)},
    "sorted texts": {"key": lambda story: story.words[5]},  # a colour
    "wild batch": {"wild": 1e6, "clip": math.inf},
}


@cache
def told():
    """Stories to learn from and held-out ones, and the number of each word."""
    stories, held_out = make_stories(STEPS * BATCH, seed=0), make_stories(40, seed=1)
    words = sorted({word for story in stories for word in story.words})
    return stories, held_out, {word: i for i, word in enumerate(words, start=1)}


def padded(stories):
    ids = told()[2]
    return pad_texts([torch.tensor([0, *map(ids.get, it.words)]) for it in stories])


def odd_run(
    seed, *, rate=0.02, zero=True, clip=1.0, wild=1, ahead=0, shift=0, few=0, key=None,
    first=lambda logits: logits,
):  # fmt: skip
    """The training loss, a mean of five steps, and the held-out loss after them."""
    stories, held_out, ids = told()
    order = [stories[i] for i in torch.randperm(len(stories), generator=seeded(seed))]
    order = order[:few] * (len(order) // few) if few else order
    order = sorted(order, key=key) if key else order
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = ModelConfig(len(ids) + 1, 96, d_model=32, num_heads=4, num_layers=1)
        model = TinyLM(sizes).double()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98))

    def allows(block, given, options):
        size = given[0].shape[1]
        mask = torch.ones(size, size, dtype=torch.bool).tril(ahead)
        return given, {"mask": mask}  # instead of causal=True

    model.blocks[0].register_forward_pre_hook(allows, with_kwargs=True)
    losses, training, outside = [], [], []
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / 10)
        token_ids, n = padded(order[step * BATCH :][:BATCH])
        logits = first(model(token_ids, n))[:, : token_ids.shape[1] - shift]
        loss = next_token_loss(logits, token_ids[:, shift:], n - shift)
        if zero:
            optimizer.zero_grad()
        (loss * (wild if step == STEPS // 2 else 1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % EVERY == 0:
            token_ids, n = padded(held_out)
            with torch.no_grad():
                own = next_token_loss(first(model(token_ids, n)), token_ids, n)
            outside.append(own.item())
            training.append(sum(losses[-EVERY:]) / EVERY)
    return training, outside


if __name__ == "__main__":
    for cause, options in CAUSES.items():
        for losses in odd_run(0, **options):
            print(cause, *(f"{loss:.2f}" for loss in losses))
