"""Right layers that are made otherwise, as replacements in ``plain_layer.BASE``."""

from tests.samples.plain_layer import (
    CACHED,
    CAUSAL,
    KEYS,
    LAST,
    MASK,
    MASKED,
    OWN,
    QUERIES,
    RETURN,
    SCORES,
    START,
    VALUES,
    after,
    before,
)

PAST = "        start = 0 if cache is None else cache.length\n"
PLACE = "torch.arange(start, start + T, device=x.device)"
ANGLES = f"{PAST}        angles = {PLACE}.double()[:, None]"
WAVES = f"""
{ANGLES} / 10 ** torch.arange(M // 2, device=x.device)
        x = x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)"""
ROTATED = f"""{ANGLES} * 10000.0 ** -(torch.arange(0, 4, 2, device=x.device) / 4)
        turn = lambda a: torch.cat([
            a[..., :2] * angles.cos() - a[..., 2:] * angles.sin(),
            a[..., 2:] * angles.cos() + a[..., :2] * angles.sin()
        ], -1)
        q, k = turn(q).to(x.dtype), turn(k).to(x.dtype)
{CACHED}"""
ROPE = CACHED, ROTATED


def table(made, used):
    """Positions of a table that ends after 64, added to the input."""
    return *after(LAST, made), START, f"{START}\n{PAST}        x = x + {used}"


POSITIONS = table(
    "self.pos = nn.Parameter(torch.randn(64, d_model))", "self.pos[start : start + T]"
)
NO_CAUSAL = "*, causal=False, cache=None", "cache=None", CAUSAL, ""
VARIANTS = {
    "causal": OWN,
    "QK-norm": before(SCORES, "q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)"),
    "RoPE": ROPE,
    "causal, RoPE": (*OWN, *ROPE),
    "learned positions": POSITIONS,
    "causal, learned positions": (*OWN, *POSITIONS),
    "embedded positions, no mask": (
        *table("self.wpe = nn.Embedding(64, d_model)", f"self.wpe({PLACE})"),
        *("mask=None, *, causal=False, cache=None", "cache=None"),
        *(CAUSAL, "", MASKED, "", "    def new_cache", "    def other_cache"),
    ),
    "causal, sinusoids": (*OWN, START, f"{START}{WAVES}"),
    "mask (B, T, K)": (*NO_CAUSAL, MASK, "mask[:, None].reshape(B, 1, T, S)"),
    "mask (B, 1, T, K)": (*NO_CAUSAL, MASK, "mask"),
    "mask (B, K)": (*OWN, MASK, "mask.reshape(B, S)[:, None, None]"),
    "no dropout": ("dropout=0.1", "dropout=0.0"),
    "dropout of the output, too": (RETURN, "return self.drop(self.out_proj(out))"),
    "cache, no mask": (*OWN, "x, mask=None, cache=None", "x, cache=None", MASKED, ""),
    "cache or mask": (
        *OWN,
        *after(START, "if cache and mask is not None: raise NotImplementedError"),
    ),
    "at most 16": after(START, "if T > 16: raise ValueError('too long')"),
    "one matrix": (
        *(KEYS, "self.in_proj = nn.Linear(d_model, 3 * d_model)"),
        *(QUERIES, "pass", VALUES, "pass"),
        *after(START, "parts = self.in_proj(x).chunk(3, -1)"),
        *("self.q_proj(x)", "parts[0]", "self.k_proj(x)", "parts[1]"),
        *("self.v_proj(x)", "parts[2]"),
    ),
}
