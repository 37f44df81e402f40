# ruff: noqa: E501
"""Right layers that are made otherwise, as replacements in ``faulty_layers.BASE``."""

from tests.samples.faulty_masks import OWN

LAST = "        self.drop = nn.Dropout(dropout)"
START = "        B, T, M = x.shape"
SCORES = "        scores = q @ k."
MASK = "(mask[:, None] if mask.ndim == 3 else mask)"
PAST = "        start = 0 if cache is None else cache.length\n"
PLACE = "torch.arange(start, start + T, device=x.device)"
WAVES = f"""{START}
{PAST}        angles = {PLACE}.double()[:, None] / 10 ** torch.arange(M // 2, device=x.device)
        x = x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)
"""
TURN = f"""{PAST}        angles = {PLACE}.double()[:, None] * 10000.0 ** -(torch.arange(0, 4, 2, device=x.device) / 4)
        turn = lambda a: torch.cat([a[..., :2] * angles.cos() - a[..., 2:] * angles.sin(), a[..., 2:] * angles.cos() + a[..., :2] * angles.sin()], -1)
        q, k = turn(q).to(x.dtype), turn(k).to(x.dtype)
        if cache is not None:
"""


def table(made, used):
    """Positions of a table that ends after 64, added to the input."""
    return [
        (LAST, f"{LAST}\n        {made}"),
        (START, f"{START}\n{PAST}        x = x + {used}"),
    ]


POSITIONS = table(
    "self.pos = nn.Parameter(torch.randn(64, d_model))", "self.pos[start : start + T]"
)
NO_CAUSAL = [
    ("*, causal=False, cache=None", "cache=None"),
    ("        if causal:\n            seen = seen.tril(S - T)\n", ""),
]
VARIANTS = {
    "causal": OWN,
    "QK-norm": [
        (
            SCORES,
            "        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)\n" + SCORES,
        )
    ],
    "RoPE": [("        if cache is not None:\n", TURN)],
    "causal, RoPE": [*OWN, ("        if cache is not None:\n", TURN)],
    "learned positions": POSITIONS,
    "causal, learned positions": [*OWN, *POSITIONS],
    "embedded positions, no mask": [
        *table("self.wpe = nn.Embedding(64, d_model)", f"self.wpe({PLACE})"),
        ("mask=None, *, causal=False, cache=None", "cache=None"),
        (
            "        if causal:\n            seen = seen.tril(S - T)\n        if mask is not None:\n            seen = seen & (mask[:, None] if mask.ndim == 3 else mask)\n",
            "",
        ),
        ("    def new_cache", "    def other_cache"),
    ],
    "causal, sinusoids": [*OWN, (START, WAVES)],
    "mask (B, T, K)": [*NO_CAUSAL, (MASK, "mask[:, None].reshape(B, 1, T, S)")],
    "mask (B, 1, T, K)": [*NO_CAUSAL, (MASK, "mask")],
    "mask (B, K)": [*OWN, (MASK, "mask.reshape(B, S)[:, None, None]")],
    "no dropout": [("dropout=0.1", "dropout=0.0")],
    "dropout of the output, too": [
        ("return self.out_proj(out)", "return self.drop(self.out_proj(out))")
    ],
    "cache, no mask": [
        *OWN,
        ("self, x, mask=None, cache=None", "self, x, cache=None"),
        ("        if mask is not None:\n            seen = seen & " + MASK + "\n", ""),
    ],
    "cache or mask": [
        *OWN,
        (
            START,
            START
            + "\n        if mask is not None and cache is not None:\n            raise NotImplementedError",
        ),
    ],
    "at most 16": [
        (START, START + "\n        if T > 16: raise ValueError('too long')"),
    ],
    "one matrix": [
        (
            "self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)",
            "self.in_proj = nn.Linear(d_model, 3 * d_model)",
        ),
        ("self.q_proj = nn.Linear(d_model, d_model)", "pass"),
        ("self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)", "pass"),
        (START, START + "\n        parts = self.in_proj(x).chunk(3, -1)"),
        *((f"self.{name}_proj(x)", f"parts[{at}]") for at, name in enumerate("qkv")),
    ],
}
