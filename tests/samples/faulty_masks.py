# ruff: noqa: E501
"""Faults in masks, as replacements in ``faulty_layers.BASE``."""

MASKS = {
    "triu": ("future", [("seen.tril(S - T)", "seen.triu(S - T)")]),
    "diagonal 1": ("future", [("seen.tril(S - T)", "seen.tril(S - T + 1)")]),
    "diagonal -1": ("future", [("seen.tril(S - T)", "seen.tril(S - T - 1)")]),
    "causal ignored": (
        "future",
        [("        if causal:\n            seen = seen.tril(S - T)\n", "")],
    ),
    "causal or mask": ("padding", [("if mask is not None:", "elif mask is not None:")]),
    "mask arg inverted": (
        "padding",
        [
            (
                "(mask[:, None] if mask.ndim == 3 else mask)",
                "~(mask[:, None] if mask.ndim == 3 else mask)",
            )
        ],
    ),
    "mask after softmax": (
        "future",
        [
            (
                "        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)\n",
                "",
            )
        ],
    ),
    "mask rows": (
        "padding",
        [
            (
                "(mask[:, None] if mask.ndim == 3 else mask)",
                "(mask[:, None].transpose(-1, -2) if mask.ndim == 3 else mask)",
            )
        ],
    ),
    "mask first text": (
        "padding",
        [
            (
                "(mask[:, None] if mask.ndim == 3 else mask)",
                "(mask[:1, None] if mask.ndim == 3 else mask)",
            )
        ],
    ),
    "mask ignored": (
        "padding",
        [("seen = seen & (mask[:, None] if mask.ndim == 3 else mask)", "pass")],
    ),
    "mask times score": (
        "padding",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores * seen",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "small fill": (
        "padding",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores.masked_fill(~seen, -10.0)",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "-1e4 fill": (
        "large scores",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores.masked_fill(~seen, -1e4)",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "-1e9 fill": (
        "empty rows",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                "scores = scores.masked_fill(~seen, -1e9)",
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "-inf nan": (
        "empty rows",
        [
            (
                "scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)",
                'scores = scores.masked_fill(~seen, float("-inf"))',
            ),
            ("        weights = weights.masked_fill(~seen, 0.0)\n", ""),
        ],
    ),
    "exp unsafe": (
        "large scores",
        [
            (
                "weights = scores.softmax(dim=-1)",
                "e = scores.exp()\n        weights = e / e.sum(-1, keepdim=True)",
            )
        ],
    ),
    "last leaks": (
        "future",
        [("out = weights @ v", "out = weights @ v + 0.001 * v[:, :, -1:]")],
    ),
}

# The same layer, which always hides the future and takes no word for it.
OWN = [
    ("*, causal=False, cache=None", "cache=None"),
    ("        if causal:\n            seen", "        seen"),
]
SEEN = "        seen = seen.tril(S - T)\n"
FAR = "        seen = seen & (torch.arange(S, device=x.device) < 32)\n"
NEAR = "        seen = seen.triu(S - T - 7)\n"
# With what its line must say.
OWN_MASKS = {
    "one ahead": (
        "future",
        "later token 1; 10 of 15",
        [("tril(S - T)", "tril(S - T + 1)")],
    ),
    "not itself": (
        "future",
        "output 0 does not depend on token 0",
        [("tril(S - T)", "tril(S - T - 1)")],
    ),
    "opened": ("future", "True everywhere, output", [("seen & (mask", "(mask")]),
    "window": ("future", "only the last 8 count", [(SEEN, SEEN + NEAR)]),
    "far keys": ("future", "does not depend on token 32", [(SEEN, SEEN + FAR)]),
    "far future": (
        "future",
        "in 40 tokens, output",
        [(SEEN, "        seen = seen.tril(S - T) if S < 20 else seen\n")],
    ),
    "instead": (
        "padding",
        "takes the place of the causal one",
        [("seen & (mask", "(mask")],
    ),
    "no mask": (
        "padding",
        "the mask is ignored",
        [
            ("if mask is not None:", "if mask is None:"),
            ("(mask[:, None] if mask.ndim == 3 else mask)", "seen"),
        ],
    ),
    "other way": (
        "padding",
        "the other way round",
        [("(mask[:, None] if mask.ndim == 3 else mask)", "~mask[:, None]")],
    ),
    "first": (
        "padding",
        "mask of the first text",
        [("mask[:, None] if", "mask[:1, None] if")],
    ),
    "turned": (
        "padding",
        "by (key, query)",
        [("mask[:, None] if", "mask[:, None].mT if")],
    ),
    "cache alone": (
        "cache",
        "with padding beside a cache",
        [("if mask is not None:", "if mask is not None and cache is None:")],
    ),
    "cache, future": (
        "cache",
        "with later token",
        [(SEEN, SEEN + "        seen = seen if cache is None else seen | True\n")],
    ),
    "cache, top left": (
        "cache",
        "does not depend on token 1",
        [("tril(S - T)", "tril()")],
    ),
}
