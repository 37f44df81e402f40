# ruff: noqa: E501
"""Layers beside the right one, both in ``plain_layer.BASE``: both, words, one."""

from tests.samples.plain_layer import (
    DROP,
    LAST,
    LINEAR,
    ONES,
    OUT,
    RETURN,
    SOFTMAX,
    START,
    VALUES,
    after,
    before,
    ends,
    masks_if,
)
from tests.samples.right_layers import ROPE

SAME, DROPS = "the same in a plain call", "dropout changes outputs"
PROJECTION = "self.out_proj = nn.Linear(d_model, d_model)"
TWINS = {
    (): {
        "(q_proj, k_proj, v_proj, drop the same; out_proj gets other numbers in features 0 to 3 of 12)": after(
            OUT, "out = torch.cat([out[:, :1] / 2, out[:, 1:]], 1)"
        ),
        "apart in a plain call; (the reference calls out_proj, too)": (
            RETURN,
            "return F.linear(out, self.out_proj.weight)",
        ),
        f"{SAME}; apart in outputs; with padding on the left: output": masks_if(
            "mask[..., 0].all()"
        ),
        "apart with padding on the right, other in each text": (
            "seen & (mask[:, None] if",
            "seen & (mask[:1, None] if",
        ),
        f"{SAME}; with a second cache for a second text": (
            *("class Cache:", "class Cache:\n    old = False"),
            *before("if self.k is", "if second and k.shape[2] == 3: k = 0.5 * k"),
            *before("if second", "second = Cache.old and self.k is None"),
            *("return k, v\n", "Cache.old = True\n        return k, v\n"),
        ),
        f"{SAME}; apart at T = 600": ends("out = out * (1.1 if T > 500 else 1)"),
        f"{SAME}; in its input's gradient; in the gradient of k_proj.weight; gradients end at detach(7×3×6×4)": (
            "scores = q @ k.tr",
            "scores = q @ k.detach().tr",
        ),
        f"{DROPS}; times as much (it drops 40%, the reference 10%) in training mode; dropout(7×3×6×6, p=0.4, training=True)": (
            DROP,
            "weights = F.dropout(weights, 0.4, self.training)",
        ),
        f"{DROPS}; in training mode": (
            DROP,
            "pass",
            RETURN,
            "return self.drop(self.out_proj(out))",
        ),
        f"{SAME}; with inputs 30 times larger": before(
            ONES, "scores = scores.clamp(-50, 50)"
        ),
        f"{SAME}; with inputs 100 times smaller": before(
            ONES, "scores = scores * (x.abs().amax() > 0.1)"
        ),
        "AssertionError (no 40, in forward, line": after(
            START, "assert T != 40, 'no 40'"
        ),
        f"{SAME}; after a longer text": (
            *ends("out = out * T / self.most"),
            *after(START, "self.most = max(T, getattr(self, 'most', T))"),
        ),
        "v_proj.weight is k_proj.weight; in the reference they are two weights": after(
            LAST, "self.v_proj = self.k_proj"
        ),
        "its weights are not the reference's: q_proj.bias": after(
            LAST, "self.q_proj.bias.data += 1"
        ),
        "; it lacks the weights v_proj.bias, v_proj.weight": (
            *(VALUES, f"self.vs = [{LINEAR}]"),
            *("self.v_proj(x)", "2 * self.vs[0].to(x.dtype)(x)"),
        ),
        "; it has more weights: extra": (
            *after(LAST, "self.extra = nn.Parameter(torch.ones(1))"),
            *ends("out = out + self.extra"),
        ),
        # Its first step that differs.
        "softmax(7×3×6×6, dim=1); dim=-1) (in forward": (
            SOFTMAX,
            SOFTMAX.replace("-1", "1"),
        ),
        "7×3×6×6 are 0.5 times as large": ("math.sqrt(self.head_dim)", "self.head_dim"),
        "flip(7×3×6×6, 1) (in forward, line": (OUT, "out = weights.flip(1) @ v"),
        "which the layer does not": ("weights = weights.masked_fill(~seen, 0.0)", ""),
        "at [0, 1] of 6×6 it has True, not False": ("tril(S - T)", "tril(S - T + 1)"),
        "are the same, in another order": (
            "q = self.q_proj(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)",
            "q = self.q_proj(x).view(B, T, 4, 3).permute(0, 3, 1, 2)",
        ),
        "in training mode; gradients end at detach(7×3×6×6)": (
            OUT,
            "out = (weights.detach() if self.training else weights) @ v",
        ),
        "in bfloat16 (in forward": (
            SOFTMAX,
            "weights = scores.bfloat16().softmax(-1).to(scores.dtype)",
        ),
        "the layer reads what its call 1 made": (
            "k = self.k_proj(x)",
            "k = self.kept = self.k_proj(x) if self.training or not hasattr(self, 'kept')"
            " or self.kept.shape[:2] != x.shape[:2] else self.kept\n        k = k",
        ),
    },
    ROPE: {
        f"{SAME}; apart in outputs 1 to 5, with a cache, one by one": (
            "else cache.length\n",
            "else 0\n",
        ),
        "apart; in bfloat16 at T = 600": ("double()", "to(x.dtype)"),
    },
    (PROJECTION, "self.out_proj = nn.Linear(d_model, 6)"): {
        "the shape of out_proj.weight is (12, 12), not (6, 12)": (
            "self.out_proj = nn.Linear(d_model, 6)",
            PROJECTION,
        )
    },
}
