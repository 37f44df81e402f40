"""Speculative decoding with n-grams, against plain generation: one text, and eight.

Whether it pays depends on how often a text repeats itself. So there are two models, of
one size and trained for some seconds: one has learnt the stories of chapter 7, which
use the same phrases over and over, the other a book. A case writes eight texts.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch

from attention_lib.data import BPETokenizer, SlidingWindowDataset
from attention_lib.generation import generate
from attention_lib.serving import DraftStats, Server, ngram_draft, speculative_generate
from attention_lib.stories import load_alice, make_stories
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import TrainConfig, train

VOCAB_SIZE, CONTEXT_LEN, D_MODEL, NUM_HEADS, NUM_LAYERS = 1000, 256, 128, 4, 3
STEPS, WINDOW = 200, 64
TEXTS, PROMPT, NEW_TOKENS, DRAFT_LEN = 8, 64, 160, 6
PAGE_LEN = 16
PLAIN, GUESSED = "plain", "n-grams"
STORIES, BOOK = "stories", "a book"
SLOTS = (1, TEXTS)


class Written(NamedTuple):
    """The new tokens of each text, and a ``DraftStats`` for each pass of the model."""

    tokens: list[list[int]]
    passes: list[DraftStats]


@cache
def trained(source: str) -> tuple[TinyLM, torch.Tensor]:
    """Return the model, and prompts (B, T) from the held-out part."""
    stories = [story.text.strip() for story in make_stories(3000, seed=0)]
    text = load_alice() if source == BOOK else "\n".join(stories)
    cut = len(text) * 9 // 10
    bpe = BPETokenizer([text[:cut]], vocab_size=VOCAB_SIZE)
    windows = SlidingWindowDataset(bpe.encode(text[:cut]), WINDOW, WINDOW)
    sizes = bpe.vocab_size, CONTEXT_LEN, D_MODEL, NUM_HEADS, NUM_LAYERS
    torch.manual_seed(0)
    # Rotary: it goes on beyond the windows that it learnt from.
    model = TinyLM(ModelConfig(*sizes, mha="sdpa", positions="rotary"))
    train(model, windows, TrainConfig(steps=STEPS, batch_size=16, learning_rate=4e-3))
    unseen = torch.tensor(bpe.encode(text[cut:]))
    places = torch.linspace(0, len(unseen) - PROMPT, TEXTS).long()
    prompts = torch.stack([unseen[place : place + PROMPT] for place in places.tolist()])
    return model.eval(), prompts


def one_at_a_time(model: TinyLM, prompts: torch.Tensor, name: str) -> Written:
    """Generate the texts one after another."""
    if name == PLAIN:
        rows = [
            generate(model, row[None], max_new_tokens=NEW_TOKENS) for row in prompts
        ]
        passes = [DraftStats(0, 0)] * (len(prompts) * NEW_TOKENS)
        return Written([row[0, PROMPT:].tolist() for row in rows], passes)
    passes = []
    texts = speculative_generate(
        model,
        ngram_draft,
        prompts,
        max_new_tokens=NEW_TOKENS,
        draft_len=DRAFT_LEN,
        on_pass=passes.append,
    )
    return Written(texts[:, PROMPT:].tolist(), passes)


def at_once(model: TinyLM, prompts: torch.Tensor, name: str) -> Written:
    """Let a server generate all texts together; count all its steps together."""
    server = Server(
        model,
        num_pages=TEXTS * -(-(PROMPT + NEW_TOKENS + DRAFT_LEN) // PAGE_LEN),
        page_len=PAGE_LEN,
        max_batch=TEXTS,
        draft=None if name == PLAIN else ngram_draft,
        draft_len=DRAFT_LEN,
    )
    requests = [server.submit(row, max_new_tokens=NEW_TOKENS) for row in prompts]
    server.run()
    counts = server.counts
    passes = [DraftStats(counts["guessed"], counts["accepted"])]
    passes += [DraftStats(0, 0)] * (counts["steps"] - 1)
    return Written([request.tokens for request in requests], passes)


def make_call(source: str, name: str, slots: int) -> Callable[[], Written]:
    """Return the timed call: all texts."""
    model, prompts = trained(source)
    write = one_at_a_time if slots == 1 else at_once
    return lambda: write(model, prompts, name)
