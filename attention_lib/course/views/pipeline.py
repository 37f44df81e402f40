"""All of attention as one interactive picture: `view_pipeline`."""

import html
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attention_lib.attention import attention_weights
from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._packing import pack, static_table
from attention_lib.course.views._strings import PIPE
from attention_lib.course.views._tables import plain_table
from attention_lib.course.views.sentence_model import HEADS, WORDS, SentenceModel
from attention_lib.masks import causal_mask, padding_mask, sliding_window_mask
from attention_lib.multi_head import split_heads
from attention_lib.validation import require_choice

MASKS = ("none", "causal", "window", "padding", "causal + padding")


class Stage(NamedTuple):
    """A step of the picture: its name, its formula, its line of code, its section."""

    id: str
    name: str
    formula: str
    code: str
    href: str

    def data(self) -> dict[str, str]:
        """Return the stage with its texts."""
        where = PIPE["where"].format(number=int(self.href[:2]))
        first = {"id": self.id, "name": self.name, "does": PIPE["does"][self.id]}
        return first | self._asdict() | {"where": where}


STAGES = (
    Stage(
        "x",
        "X",
        "X",
        "x = layer_norm(words + places)",
        "01-toy-attention.html#sentence",
    ),
    Stage(
        "q",
        "Q",
        "Q, K, V = XW<sub>Q</sub>, XW<sub>K</sub>, XW<sub>V</sub>",
        "query, key, value = x @ w_q, x @ w_k, x @ w_v",
        "02-single-head.html#three-projections",
    ),
    Stage(
        "s",
        "QKᵀ",
        "QK<sup>⊤</sup>",
        "scores = query @ key.T",
        "01-toy-attention.html#scores",
    ),
    Stage(
        "d",
        "÷ √D",
        "QK<sup>⊤</sup> / √D",
        "scores = scores / head_dim**0.5",
        "01-toy-attention.html#why-sqrt",
    ),
    Stage(
        "m",
        PIPE["mask"],
        PIPE["hidden"],
        "scores = scores.masked_fill(~mask, -inf)",
        "03-masks.html#causal",
    ),
    Stage(
        "w",
        "softmax",
        "w = softmax(…)",
        "weights = scores.softmax(dim=-1)",
        "01-toy-attention.html#softmax",
    ),
    Stage(
        "o",
        "w · V",
        "wV",
        "context = weights @ value",
        "01-toy-attention.html#look-up",
    ),
)
BLOCK_STAGES = (
    Stage(
        "r",
        PIPE["stream"],
        "r",
        "stream = words + places",
        "06-tiny-block.html#residual",
    ),
    Stage(
        "c",
        PIPE["joined"],
        "[o₁, o₂]",
        "joined = torch.cat([context_1, context_2], dim=-1)",
        "04-multi-head.html#heads-by-formula",
    ),
    Stage(
        "p",
        "W_O",
        "[o₁, o₂] W<sub>O</sub>",
        "found = joined @ w_o + b_o",
        "04-multi-head.html#sum-of-heads",
    ),
    Stage(
        "a",
        "+",
        PIPE["adds"],
        "stream = stream + found",
        "06-tiny-block.html#residual",
    ),
    Stage(
        "f",
        "MLP",
        "MLP(norm(r))",
        "made = feed_forward(layer_norm(stream))",
        "06-tiny-block.html#feed-forward",
    ),
    Stage(
        "y",
        "+",
        "r + MLP",
        "stream = stream + made",
        "06-tiny-block.html#block",
    ),
)


class Goal(NamedTuple):
    """A goal for the reader: the least weight of ``key`` for ``query``."""

    text: str
    query: str
    key: str
    least: float


def view_pipeline(
    model: SentenceModel,
    sentence: str,
    *,
    query: int = 0,
    masks: Sequence[str] = ("none", "causal"),
    heads: int = 1,
    flips: bool = False,
    block: bool = False,
    cache: bool = False,
    goal: Goal | tuple[str, str, str, float] | None = None,
) -> Interactive:
    """Show how a sentence becomes queries, keys, values, scores, weights and a mix.

    Mouse, finger or arrow keys choose a word, whose row is lit in every matrix, and a
    cell, whose two vectors appear with their products. Scale, temperature, mask, head
    and sentence can be changed; the page recomputes everything.

    Args:
        model: from ``train_sentence_model``.
        sentence: words that the model knows, with spaces between them.
        query: the word that is lit initially, counted from 0.
        masks: which masks the reader may choose, of ``none``, ``causal``, ``window``
            (of three), ``padding`` and ``causal + padding``; the first is on initially.
        heads: how many heads the reader may choose from, 1 or 2.
        flips: whether a click on a cell of the mask flips it.
        block: whether the block around the heads is shown as well.
        cache: whether the sentence is read word by word, with a cache.
        goal: a question, the query word, the word it should attend to, and the least
            weight that answers the question.

    Raises:
        TypeError: not a ``SentenceModel``.
        ValueError: unknown words, masks or heads; a query that does not exist.
    """
    if not isinstance(model, SentenceModel):
        raise TypeError(f"model must be a SentenceModel; got {type(model).__name__}")
    ids = model.encode(sentence)
    words = sentence.split()
    for name in masks:
        require_choice("masks", name, MASKS)
    if not 1 <= heads <= HEADS:
        raise ValueError(f"heads must be 1 or {HEADS}; got {heads}")
    if not 0 <= query < len(words):
        raise ValueError(f"query must be 0 to {len(words) - 1}; got {query}")
    stages = (BLOCK_STAGES[0], *STAGES, *BLOCK_STAGES[1:]) if block else STAGES
    data: dict[str, Any] = {
        "model": _numbers(model, block),
        "stages": [stage.data() for stage in stages],
        "masks": list(masks),
        "heads": PIPE["heads"][:heads],
        "start": {"text": sentence, "word": query},
        "about": PIPE["about"].format(
            tasks=", ".join(PIPE["tasks"][: HEADS if block else heads])
        ),
    }
    data |= {name: True for name, on in (("flips", flips), ("cache", cache)) if on}
    if goal is not None:
        data["goal"] = Goal(*goal)._asdict()
    mask = mask_of("causal" if cache else masks[0], words)
    line = PIPE["line"].format(words=len(words), steps=len(stages))
    return Interactive(
        "pipe", data, _static(model, ids, words, mask, query, heads), line
    )


def mask_of(name: str, words: Sequence[str]) -> Tensor:
    """Return a mask of ``MASKS`` for a sentence, (T, T)."""
    length = len(words)
    seen = padding_mask(torch.tensor([length]), length)[0]  # all of them
    seen = seen & torch.tensor([word != "pad" for word in words])
    return {
        "none": torch.ones(length, length, dtype=torch.bool),
        "causal": causal_mask(length),
        "window": sliding_window_mask(length, 3),
        "padding": seen.expand(length, length),
        "causal + padding": causal_mask(length) & seen,
    }[name]


def steps_of(
    model: SentenceModel,
    ids: Tensor,
    mask: Tensor,
    *,
    head: int = 0,
    scaled: bool = True,
    temperature: float = 1.0,
) -> dict[str, Tensor]:
    """Return the matrices of one head and of the block, by the letters of the page."""
    layer = model.attention
    stream = model.stream(ids)
    x = model.block.attention_norm(stream)
    query, key, value = (
        split_heads(project(x), HEADS)[0]
        for project in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    scale = (query.shape[-1] ** -0.5 if scaled else 1.0) / temperature
    weights = attention_weights(query, key, mask, scale=scale)
    mixes = weights @ value
    joined = mixes.transpose(0, 1).flatten(1)
    added = layer.out_proj(joined)
    after = stream[0] + added
    made = model.block.feed_forward(model.block.feed_forward_norm(after)[None])[0]
    scores = query @ key.mT
    maps = {"q": query, "k": key, "v": value, "s": scores, "d": scores * scale}
    maps |= {"w": weights, "o": mixes}
    steps = {name: tensor[head] for name, tensor in maps.items()}
    steps["m"] = steps["d"].masked_fill(~mask, float("-inf"))
    steps |= {"r": stream[0], "x": x[0], "c": joined, "p": added}
    return steps | {"a": after, "f": made, "y": after + made}


def _numbers(model: SentenceModel, block: bool) -> dict[str, Any]:
    """Return all numbers of the model, to their two decimals."""
    layer, mlp = model.attention, model.block.feed_forward
    tensors = {
        "table": model.embedding.weight,
        "places": model.positions.weight,
        "query": layer.q_proj.weight,
        "key": layer.k_proj.weight,
        "value": layer.v_proj.weight,
    }
    if block:
        tensors |= {"out": layer.out_proj.weight, "out_bias": layer.out_proj.bias}
        tensors |= {"up": mlp.up_proj.weight, "up_bias": mlp.up_proj.bias}
        tensors |= {"down": mlp.down_proj.weight, "down_bias": mlp.down_proj.bias}
    width = model.embedding.weight.shape[1]
    return {
        "words": list(WORDS),
        "sizes": [width, width // HEADS, HEADS],
        "numbers": {name: pack(_array(it), 2) for name, it in tensors.items()},
    }


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _static(
    model: SentenceModel,
    ids: Tensor,
    words: Sequence[str],
    mask: Tensor,
    query: int,
    heads: int,
) -> str:
    """Return each head's weights, and the row of the first lit word step by step."""
    tables = []
    for head in range(heads):
        steps = steps_of(model, ids, mask, head=head)
        caption = PIPE["weights"].format(head=PIPE["heads"][head])
        tables.append(static_table(_array(steps["w"]), words, words, caption))
    steps = steps_of(model, ids, mask)
    lines = [
        (stage.name, [_short(number) for number in steps[stage.id][query].tolist()])
        for stage in STAGES
    ]
    lines.insert(2, ("K", [_short(number) for number in steps["k"][query].tolist()]))
    lines.insert(3, ("V", [_short(number) for number in steps["v"][query].tolist()]))
    longest = max(len(cells) for _, cells in lines)
    rows = [(name, cells + [""] * (longest - len(cells))) for name, cells in lines]
    caption = PIPE["row"].format(word=words[query])
    tables.append(plain_table(caption, [PIPE["step"], *[""] * longest], rows))
    code = "\n".join(stage.code for stage in STAGES)
    return "\n".join([*tables, f"<pre>{html.escape(code)}</pre>"])


def _short(number: float) -> str:
    return "−∞" if number == float("-inf") else f"{number + 0.0:.2f}"
