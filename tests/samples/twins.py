# ruff: noqa: E501
"""Layers beside the right one, both in ``faulty_layers.BASE``: words, both, one."""

from tests.samples.rare_faults import CACHED, RETURN, ends
from tests.samples.right_layers import TURN

OUT = "        out = weights @ v"
DROP = "weights = self.drop(weights)"
ROPE = [(CACHED, TURN)]
MASK = "        if mask is not None:"
TWINS = {
    "one head": (
        "(q_proj, k_proj, v_proj, drop the same; out_proj gets other numbers in features 0 to 3 of 12)",
        [],
        [(OUT, OUT + "\n        out = torch.cat([out[:, :1] / 2, out[:, 1:]], 1)")],
    ),
    "bias": (
        "apart in a plain call; (the reference calls out_proj, too)",
        [],
        [(RETURN, "return F.linear(out, self.out_proj.weight)")],
    ),
    "left": (
        "the same in a plain call; apart in outputs; with padding on the left: output",
        [],
        [(MASK, "        if mask is not None and mask[..., 0].all():")],
    ),
    "texts": (
        "apart with padding on the right, other in each text",
        [],
        [("seen & (mask[:, None] if", "seen & (mask[:1, None] if")],
    ),
    "cached": (
        "the same in a plain call; apart in outputs 1 to 5, with a cache, one by one",
        ROPE,
        [("else cache.length\n", "else 0\n")],
    ),
    "second cache": (
        "the same in a plain call; with a second cache for a second text",
        [],
        [
            (
                "if self.k is not None:",
                "if self.k is not None or Cache.old is not None and k.shape[2] == 3:",
            ),
            (
                "torch.cat([self.k, k]",
                "torch.cat([self.k, k] if self.k is not None else [k[:0], 0.5 * k]",
            ),
            (
                "torch.cat([self.v, v]",
                "torch.cat([self.v, v] if self.v is not None else [v[:0], v]",
            ),
            ("class Cache:", "class Cache:\n    old = None"),
            ("        return k, v\n", "        Cache.old = k\n        return k, v\n"),
        ],
    ),
    "long": (
        "the same in a plain call; apart at T = 600",
        [],
        ends("out = out * (1.1 if T > 500 else 1)"),
    ),
    "16 bits": (
        "apart; in bfloat16 at T = 600",
        ROPE,
        [
            (
                "angles = torch.arange(start, start + T, device=x.device).double()",
                "angles = torch.arange(start, start + T, device=x.device).to(x.dtype)",
            )
        ],
    ),
    "gradient": (
        "the same in a plain call; in its input's gradient; in the gradient of k_proj.weight",
        [],
        [("scores = q @ k.tr", "scores = q @ k.detach().tr")],
    ),
    "rate": (
        "dropout changes outputs; times as much (it drops 40%, the reference 10%) in training mode",
        [],
        [(DROP, "weights = F.dropout(weights, 0.4, self.training)")],
    ),
    "place": (
        "dropout changes outputs; in training mode",
        [],
        [(DROP, "pass"), (RETURN, "return self.drop(self.out_proj(out))")],
    ),
    "loud": (
        "the same in a plain call; with inputs 30 times larger",
        [],
        [
            (
                "        seen = torch",
                "        scores = scores.clamp(-50, 50)\n        seen = torch",
            )
        ],
    ),
    "quiet": (
        "the same in a plain call; with inputs 100 times smaller",
        [],
        [
            (
                "        seen = torch",
                "        scores = scores * (x.abs().amax() > 0.1)\n        seen = torch",
            )
        ],
    ),
    "raises": (
        "AssertionError (no 40, in forward, line",
        [],
        [
            (
                "        B, T, M = x.shape",
                "        B, T, M = x.shape\n        assert T != 40, 'no 40'",
            )
        ],
    ),
    "after": (
        "the same in a plain call; after a longer text",
        [],
        ends(
            "self.most = max(T, getattr(self, 'most', T))\n        out = out * T / self.most"
        ),
    ),
    "shape": (
        "the shape of out_proj.weight is (12, 12), not (6, 12)",
        [
            (
                "self.out_proj = nn.Linear(d_model, d_model)",
                "self.out_proj = nn.Linear(d_model, 6)",
            )
        ],
        [
            (
                "self.out_proj = nn.Linear(d_model, 6)",
                "self.out_proj = nn.Linear(d_model, d_model)",
            )
        ],
    ),
    "one weight": (
        "v_proj.weight is k_proj.weight; in the reference they are two weights",
        [],
        [
            (
                "        self.drop = nn",
                "        self.v_proj = self.k_proj\n        self.drop = nn",
            )
        ],
    ),
    "another": (
        "its weights are not the reference's: q_proj.bias",
        [],
        [
            (
                "        self.drop = nn",
                "        self.q_proj.bias.data += 1\n        self.drop = nn",
            )
        ],
    ),
    "lacks": (
        "; it lacks the weights v_proj.bias, v_proj.weight",
        [],
        [
            (
                "self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)",
                "self.vs = [nn.Linear(d_model, num_kv_heads * self.head_dim)]",
            ),
            ("self.v_proj(x)", "2 * self.vs[0].to(x.dtype)(x)"),
        ],
    ),
    "more": (
        "; it has more weights: extra",
        [],
        [
            (
                "        self.drop = nn",
                "        self.extra = nn.Parameter(torch.ones(1))\n        self.drop = nn",
            ),
            *ends("out = out + self.extra"),
        ],
    ),
}
