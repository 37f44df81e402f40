"""The texts of views without a script: a second language is a second table.

A table for each view. Names in braces are filled in by ``str.format``: keep each name,
put it where the language needs it. Texts shown once a script runs are in
``explorer_source/src/strings.js``. ``line`` is what a console shows.
"""

from typing import Any

TABLE = {
    "corner": "query ↓ key →",
    "queries": " Shown: the first {shown} of {count} queries.",
    "keys": " Shown: the first {shown} of {count} keys.",
}

ABLATION: dict[str, Any] = {
    "caption": (
        "The loss in nats per token without a head alone, and without it and all "
        "before it in its order. With all heads: {whole}. With JavaScript on, the page "
        "lets you switch the heads off."
    ),
    "loss": "{text} {loss}",
    "between": ", ",
    "head": "order: head",
    "alone": "{text}, it alone",
    "together": "{text}, all up to it",
    "line": "<losses with heads off: {count} heads>",
}

ALIGN = {
    "caption": (
        "Cross-attention of a translator, for the first sentence: a row is a word that "
        "is written, a column a word that was read. With JavaScript on, the page shows "
        "the rows one by one."
    ),
    "line": "<alignment of {count} translations, word by word>",
}

CACHE: dict[str, Any] = {
    "caption": "Each step: how many tokens it reads, and what it keeps and computes.",
    "word": "“{word}”",
    "head": ["writes", "reads", "bytes kept", "FLOPs", "FLOPs without the cache"],
    "line": "<a cache that fills: {words} words, {steps} steps>",
}

COSTS: dict[str, Any] = {
    "caption": (
        "FLOPs of one layer, {width:,} wide, for one text, and the share of each part"
    ),
    "head": ["", "FLOPs", "Q, K and V", "scores", "mix", "output"],
    "length": "{length:,} tokens",
    "line": "<what a layer of width {width} costs, and in which parts>",
}

FLASH: dict[str, Any] = {
    "caption": (
        "Attention tile by tile: bytes in fast memory at once, and bytes moved from "
        "and to slow memory so far. Step by step, {apart} would move. With JavaScript "
        "on, the page shows the running numbers."
    ),
    "head": ["tile", "in fast memory", "moved so far"],
    "tile": "queries {queries}, keys {keys}",
    "range": "{first} to {last}",
    "line": "<attention in {count} tiles>",
}

GROUPS: dict[str, Any] = {
    "caption": (
        "{heads} query heads of width {width}, {layers} layers, {bytes} bytes per "
        "number."
    ),
    "head": ["", "name", "queries per head", "per token", "{tokens:,} tokens"],
    "one": "1 KV head",
    "several": "{count} KV heads",
    "all": "multi-head attention",
    "single": "multi-query attention",
    "grouped": "grouped queries",
    "units": ["bytes", "KiB", "MiB", "GiB"],
    "size": "{size:g} {unit}",
    "line": "<{heads} query heads, and {most} to 1 KV heads>",
}

GROWTH: dict[str, Any] = {
    "caption": (
        "Each snapshot: the loss, and the score of each head. With JavaScript on, the "
        "page shows the maps as well."
    ),
    "head": ["training step", "loss"],
    "score": "score of {head}",
    "line": "<heads that grow: {count} snapshots>",
}

KERNELS: dict[str, Any] = {
    "caption": (
        "The kernel of a call with one property. With JavaScript on, the page lets you "
        "combine them."
    ),
    "head": ["property", "kernel"],
    "none": "none of these",
    "line": "<kernels of {count} calls>",
}

LATENT: dict[str, Any] = {
    "caption": (
        "A trained head whose keys come from a latent: bytes per token in one layer, "
        "the weight of its map that changes most, and the loss of the model. With "
        "JavaScript on, the page shows the maps."
    ),
    "head": ["", "bytes", "largest change", "loss"],
    "none": "no latent",
    "latent": "latent of {width}",
    "line": "<a trained head with latents of {widths} numbers>",
}

# The answers for a row that may attend to nothing; chapter 3 computes all of them.
MASK: dict[str, Any] = {
    "answers": {
        "zeros": "this book",
        "inf": "−∞ filled in",
        "fill": "−1e9 filled in",
        "add": "−1e9 added",
    },
    "note": (
        "Zeros come also from PyTorch’s SDPA, and from nn.MultiheadAttention where its "
        "weights are not asked for. Where they are asked for, it gives nan. −1e9 is "
        "added in float64 here."
    ),
    "caption": "Weights under the mask “{name}”: a row is a query, a column a key.",
    "empty": (
        "Under “{name}”, row {row} (“{word}”) may look at nothing. There are four "
        "answers. {note}"
    ),
    "hidden": "score of what is hidden",
    "line": "<mask to click together: {queries} queries × {keys} keys; {masks}>",
}

MUSEUM: dict[str, Any] = {
    "caption": (
        "{count} bugs: the symptom, the program with its fix (- is wrong, + is right), "
        "and what the faulty line does. With JavaScript on, the page shows one bug at "
        "a time, and lets you look for the faulty line."
    ),
    "checks": "Seen by",
    "source": "Made in",
    "article": "article {source}",
    "line": "<{count} bugs with {tags} symptoms>",
}

PAGES: dict[str, Any] = {
    "caption": (
        "Requests on a server with {pages} pages of {tokens} tokens: {steps} steps, at "
        "most {most} pages in use at once, a shared page in {shared} of the steps. "
        "With JavaScript on, the page shows every step."
    ),
    "head": ["request", "first step", "last step", "tokens read", "pages", "preempted"],
    "never": "–",
    "line": "<{steps} steps of a server with {pages} pages>",
}

PIPE: dict[str, Any] = {
    # For each step its name next to its letters.
    "does": {
        "x": "the words",
        "q": "queries",
        "s": "scores",
        "d": "scaled",
        "m": "who may look",
        "w": "weights",
        "o": "the mix",
        "r": "word + place",
        "c": "side by side",
        "p": "attention adds",
        "a": "stream",
        "f": "each word alone",
        "y": "out",
    },
    # Names and formulas that are words.
    "mask": "mask",
    "stream": "stream",
    "joined": "heads",
    "hidden": "−∞ where hidden",
    "adds": "r + attention",
    "where": "chapter {number}",
    "heads": ["1: belongs to", "2: word before"],
    "tasks": ["head 1 the one that a word belongs to", "head 2 the one before it"],
    "about": (
        "Each head was trained to name a word: {tasks}. Nothing told it where to look. "
        "This is one start of several. All numbers are rounded to two decimals, and "
        "the page computes with them."
    ),
    "weights": "Attention weights of head {head}: rows are queries.",
    "row": "The row of “{word}”, step by step.",
    "step": "step",
    "line": "<attention, step by step: {words} words, {steps} steps>",
}

REACH: dict[str, Any] = {
    "caption": (
        "How many tokens can change the last output: a window of {window}, {sinks}. "
        "With JavaScript on, the page shows a map, with sliders for all three."
    ),
    "head": ["layers", "tokens that reach the last"],
    "layer": "1 layer",
    "layers": "{count} layers",
    "sink": "1 sink",
    "sinks": "{count} sinks",
    "reached": "{count} of {length}",
    "line": "<reach of a window of {window}, {sinks}, in {length} tokens>",
}

SINKS: dict[str, Any] = {
    "caption": (
        "The loss in nats per token, by window and first tokens kept; with all tokens "
        "in sight it is {full}. With JavaScript on, the page shows the mask as well."
    ),
    "window": "keys in sight",
    "first": "of these, {count} first",
    "line": "<losses with {count} windows>",
}

RING: dict[str, Any] = {
    "caption": (
        "A causal text of {length} tokens on {processes} processes: pairs of query and "
        "key in each step. After each step but the last, each process sends {bytes} "
        "bytes. With JavaScript on, the page shows every step."
    ),
    "head": ["process", "plain order", "zigzag order"],
    "line": "<a ring of {processes} processes>",
}

ROPE: dict[str, Any] = {
    "caption": (
        "The score of one pair of coordinates, for each speed: it stays while the "
        "offset stays. With JavaScript on, the page shows both vectors, and you can "
        "move them."
    ),
    "head": ["positions", "offset"],
    "positions": "{query} at {first}, {key} at {second}",
    "line": "<a query and a key that turn: {query} and {key}; {frequencies}>",
}

# Descriptions of words: the page has the same in `strings.js`.
SENTENCE: dict[str, Any] = {
    "looks": "To go on after {word}, this head takes {shares}.",
    "share": "{weight} from {word}",
    "one": "{weight} from one {word}",
    "another": "{weight} from another {word}",
    "between": ", ",
    "last": " and ",
    "next": "The next word is {word}.",
    "signs": {".": "full stop", "⏎": "line break"},
    "caption": "Each word, and the words on which its largest weights are.",
    "head": ["word", "looks at"],
    "nothing": "nothing",
    "all": "All words in numbers",
    "line": "<a sentence to point at: {words}>",
}

SNAPSHOTS: dict[str, Any] = {
    "caption": (
        "Each snapshot: loss, the largest weight on what is to be found, a sample."
    ),
    "head": ["step", "held-out loss"],
    "largest": "largest weight: {name}",
    "sample": "sample",
    "line": "<a training run: {steps} snapshots, {heads} heads>",
}

SPLIT = {
    "cells": "Step 1, {shape}: the heads side by side.",
    "viewed": "Step 2, view to {shape}: each token's row is cut, nothing moves.",
    "split": "Step 3, transpose to {shape}: each head has every token.",
    "wrapper": "The wrapper: {heads} heads, each with columns of its own.",
    "mistake": "The mistake, view straight to {shape}: only the shape is right.",
    "row": "row",
    # Of blocks of rows: which block and which row, counted from 0 and from 1.
    "token": "token {row_from_1}",
    "token_head": "token {block_from_1}, head {row}",
    "head_token": "head {block}, token {row_from_1}",
    "head_row": "head {block}, row {row}",
    "line": "<cells followed from {before} to {after}>",
}

VECTORS: dict[str, Any] = {
    "caption": (
        "The query “{query}” and its keys. Its mix is ({first}, {second}). With "
        "JavaScript on, the page shows the arrows, and you can move them."
    ),
    "head": ["key", "{axes}", "score", "÷ √2", "weight"],
    "line": "<attention in the plane: {words}; the query is {query}>",
}

WEIGHTS = {
    "caption": (
        "Attention weights, {which}: a row is a query, a column a key. With JavaScript "
        "on, the page shows all of them, and each row in numbers."
    ),
    "head": "head {head}",
    "head_of": "head {head} of {heads}",
    "layer_head": "layer {layer}, head {head} of {layers} × {heads}",
    "of": "{which}, for “{name}”, the first of {count}",
    "line": (
        "<attention weights: {layers} × {heads} heads, {queries} queries × {keys} keys>"
    ),
    "lines": (
        "<attention weights: {count} sentences, {layers} × {heads} heads, {queries} "
        "queries × {keys} keys>"
    ),
}
