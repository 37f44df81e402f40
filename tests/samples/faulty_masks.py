"""Faults in masks: the check of ``examine`` that must name each, and pieces."""

from tests.samples.plain_layer import (
    CAUSAL,
    FILL,
    MASK,
    MASKED,
    OUT,
    SOFTMAX,
    TRIL,
    ZEROS,
    after,
)

MASKS = {
    "triu": ("future", TRIL, "seen = seen.triu(S - T)"),
    "diagonal -1": ("future", TRIL, "seen = seen.tril(S - T - 1)"),
    "causal ignored": ("future", CAUSAL, ""),
    "causal or mask": ("padding", "if mask is not None:", "elif mask is not None:"),
    "mask arg inverted": ("padding", MASK, f"~{MASK}"),
    "mask after softmax": ("future", FILL, "pass"),
    "mask rows": ("padding", "mask[:, None] if", "mask[:, None].mT if"),
    "mask first text": ("padding", "mask[:, None] if", "mask[:1, None] if"),
    "mask ignored": ("padding", MASKED, ""),
    "mask times score": ("padding", FILL, "scores = scores * seen", ZEROS, ""),
    "small fill": (
        "padding",
        *(FILL, "scores = scores.masked_fill(~seen, -10.0)", ZEROS, ""),
    ),
    "-1e4 fill": (
        "large scores",
        *(FILL, "scores = scores.masked_fill(~seen, -1e4)", ZEROS, ""),
    ),
    "-1e9 fill": (
        "empty rows",
        *(FILL, "scores = scores.masked_fill(~seen, -1e9)", ZEROS, ""),
    ),
    "-inf nan": (
        "empty rows",
        *(FILL, "scores = scores.masked_fill(~seen, -torch.inf)", ZEROS, ""),
    ),
    "exp unsafe": (
        "large scores",
        *(SOFTMAX, "e = scores.exp()\n        weights = e / e.sum(-1, keepdim=True)"),
    ),
    "last leaks": ("future", OUT, f"{OUT} + 0.001 * v[:, :, -1:]"),
}
FAR = "seen = seen & (torch.arange(S, device=x.device) < 32)"
# Of a layer that always hides the future: with what the check must say, too.
OWN_MASKS = {
    "future": {
        "later token 1; 10 of 15": ("(S - T)", "(S - T + 1)"),
        "output 0 does not depend on token 0": ("(S - T)", "(S - T - 1)"),
        "True everywhere, output": ("seen & (mask", "(mask"),
        "only the last 8 count": after(TRIL, "seen = seen.triu(S - T - 7)"),
        "does not depend on token 32": after(TRIL, FAR),
        "in 40 tokens, output": (TRIL, f"{TRIL} if S < 20 else seen"),
    },
    "padding": {
        "takes the place of the causal one": ("seen & (mask", "(mask"),
        "the mask is ignored": (
            "if mask is not None:",
            "if mask is None:",
            MASK,
            "seen",
        ),
        "the other way round": (MASK, "~mask[:, None]"),
        "mask of the first text": ("mask[:, None]", "mask[:1, None]"),
        "by (key, query)": ("mask[:, None] if", "mask[:, None].mT if"),
    },
    "cache": {
        "with padding beside a cache": (
            "if mask is not None:",
            "if mask is not None and cache is None:",
        ),
        "with later token": after(
            TRIL, "seen = seen if cache is None else seen | True"
        ),
        "does not depend on token 1": ("tril(S - T)", "tril()"),
    },
}
