"""Views of small numbers that several tests show, and what the views are made of."""

import numpy as np
import torch

from attention_lib.attention import attention_weights
from attention_lib.course.museum import BUGS, run_checks
from attention_lib.course.views import (
    view_ablation,
    view_cache,
    view_costs,
    view_flash,
    view_groups,
    view_growth,
    view_kernels,
    view_latent,
    view_mask,
    view_museum,
    view_pages,
    view_reach,
    view_ring,
    view_rope,
    view_sinks,
    view_split,
    view_vectors,
)
from attention_lib.course.views.snapshots import view_snapshots
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded

# Vectors, a mask, heads that are split, and a cache.

X = np.array([[2.0, 0.5], [1.5, 0.3], [0.4, 2.0]])
WORDS = ["cat", "it", "tired"]
VECTORS = view_vectors(X, WORDS, query=1, axes=("thing", "state"))

SCORES = 2 * torch.randn(3, 4, generator=seeded(0), dtype=torch.float64)
KEYS = ["the", "cat", "slept", "pad"]
# Causal, and query 1 may look at nothing.
EMPTY = causal_mask(3, 4) & torch.tensor([[True], [False], [True]])
MASKS = {
    "none": torch.ones(3, 4, dtype=torch.bool),
    "causal": causal_mask(3, 4),
    "an empty row": EMPTY,
}
MASK = view_mask(SCORES, WORDS, KEYS, masks=MASKS)

NUMBERED = 10 * torch.arange(1, 4)[:, None] + torch.arange(8)  # T 3, H 2, D 4
SPLIT = view_split(NUMBERED, 2)

CACHE_GIVEN = {"prompt": 2, "num_layers": 1, "num_heads": 2, "head_dim": 4}
CACHE_GIVEN |= {"vocab_size": 7, "bytes_per_number": 2}
CACHE = view_cache(["the", "cat", "sat", "down"], **CACHE_GIVEN)

# What layers cost and see.

COSTS = view_costs(768, lengths=[64, 1536, 16384])
GROUPS = view_groups(12, head_dim=8, num_layers=2, tokens=100)
REACH = view_reach(16, window=3, num_sinks=0, layers=1)
SINKS_GIVEN = {"losses": {0: [4.5, 4.25], 1: [3.5, 3.0]}, "windows": [8, 16]}
SINKS_GIVEN |= {"full": 2.9, "length": 64}
SINKS = view_sinks(**SINKS_GIVEN)
RING_GIVEN = {"num_processes": 3, "length": 12, "width": 5}
RING = view_ring(**RING_GIVEN)

ROPE_GIVEN = {"query": [1.0, 0.2], "key": [0.5, 0.7], "words": ["it", "cat"]}
ROPE_GIVEN |= {"frequencies": {"fast": 1.0, "slow": 0.1}}
ROPE = view_rope(**ROPE_GIVEN)

FLASH_GIVEN = {
    "scores": torch.randn(4, 6, generator=seeded(0), dtype=torch.float64),
    "value": torch.randn(6, 2, generator=seeded(1), dtype=torch.float64),
    "tile": (3, 4),
    "head_dim": 5,
}
FLASH = view_flash(**FLASH_GIVEN)


def kernel_of(code):
    return "math" if "(8,)" in code or "drop = 0.1" in code else "flash"


PROGRAM = [
    ("half", "dtype = float32", "dtype = float16"),
    ("three axes", "heads = (2, 4)", "heads = (8,)"),
    ("dropout", "drop = 0.0", "drop = 0.1"),
    ("shared", "", "key = key[:2]"),
    "attend(query, key, value, drop)",
]
KERNELS = view_kernels(PROGRAM, kernel_of)

# Heads that are switched off.

ABLATION_GIVEN = {
    "orders": {
        "induction": {
            "3.1": ((1.5, 3.0), (1.5, 3.0)),
            "3.2": ((1.25, 3.0), (9.0, 3.25)),
        },
        "other": {"1.0": ((7.25, 3.1), (7.25, 3.1))},
    },
    "texts": ["repeated", "Alice"],
    "whole": (1.25, 3.1),
}
ABLATION = view_ablation(**ABLATION_GIVEN)

# The width of a latent.

QUERY, KEY = torch.randn(2, 4, 3, generator=seeded(0), dtype=torch.float64)
LATENT_GIVEN = {
    "weights": attention_weights(QUERY, KEY, causal_mask(4)),
    "latents": {
        width: attention_weights(QUERY, KEY * (torch.arange(3) < width), causal_mask(4))
        for width in (1, 2, 3)
    },
    "words": ["the", "cat", "slept", "the"],
    "losses": {0: 0.5, 1: 2.25, 2: 1.0, 3: 0.5},
    "all_numbers": 12,
}
LATENT = view_latent(**LATENT_GIVEN)

# Heads that grow, and a training run.

GROWTH_GIVEN = {
    "words": [*"abcabc"],
    "weights": {
        step: torch.rand(2, 6, 6, generator=seeded(step)).tril().double()
        for step in (10, 20, 40)
    },
    "wanted": {"first": torch.eye(6).roll(1, 0).tril(-1), "second": torch.eye(6)},
    "scores": {10: (0.5, 0.25), 20: (0.25, 0.75), 40: (0.5, 1.0)},
    "measured": {10: 3.5, 20: 1.25, 40: 0.5},
}
GROWTH = view_growth(**GROWTH_GIVEN)


def weights_at(step):
    scores = torch.randn(2, 5, 5, generator=seeded(step)) * step / 10
    weights = attention_weights(scores, torch.eye(5).expand(2, 5, 5), causal_mask(5))
    if step == 20:
        weights[1, 3] = torch.tensor([0.1, 0.8, 0.1, 0, 0])
    return weights


STEPS = [10, 20, 30]
SNAPSHOTS_GIVEN = {
    "words": ["a", "red", "ball", "was", "red"],
    "weights": {step: weights_at(step) for step in STEPS},
    "queries": {"colour": (3, 1), "thing": (4, 2)},
    "heads": ["1.1", "1.2"],
    "samples": {step: f"a story of step {step}" for step in STEPS},
    "measured": {step: 10 / step for step in STEPS},
    "losses": [3.0] * 300,
}
SNAPSHOTS = view_snapshots(**SNAPSHOTS_GIVEN)

# A server's pages.


def server_step(tables, states, fed, **more):
    return {"tables": tables, "states": states.split(), "fed": fed} | more


PAGES_GIVEN = {
    "steps": [
        server_step([[0, 1]], "prefill", [6]),
        server_step([[0, 1], [0, 2], []], "decoding prefill waiting", [1, 3, 0]),
        server_step(
            [[0, 1, 2], [], []], "decoding preempted waiting", [1, 0, 0], kept=[3]
        ),
        server_step([[], [0, 4], [1]], "done decoding prefill", [0, 5, 4], kept=[2]),
        server_step([[], [], [1]], "done cancelled decoding", [0, 0, 1]),
    ],
    "num_pages": 5,
    "page_len": 4,
}
PAGES = view_pages(**PAGES_GIVEN)

# The room of bugs.

KINDS = "loss", "train", "pages", "chances"  # those that take no time
SOME = [bug for bug in BUGS if bug.kind in KINDS]
SEEN = {bug.name: run_checks(bug) for bug in SOME}
MUSEUM = view_museum(SOME, SEEN)
