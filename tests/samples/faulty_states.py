# ruff: noqa: E501
"""Faults of caches, gradients, training, types and tools, in ``faulty_layers.BASE``."""

STATES = {
    "top left": ("cache", [("seen.tril(S - T)", "seen.tril()")]),
    "dropout always": (
        "deterministic",
        [("weights = self.drop(weights)", "weights = F.dropout(weights, 0.1)")],
    ),
    "k from q": ("gradients", [("k = self.k_proj(x)", "k = self.q_proj(x)")]),
    "no out": ("gradients", [("return self.out_proj(out)", "return out")]),
    "detach": (
        "gradients",
        [("weights = self.drop(weights)", "weights = self.drop(weights.detach())")],
    ),
    "detach k": ("gradients", [("scores = q @ k", "scores = q @ k.detach()")]),
    "cache kv swapped": ("cache", [("return k, v\n", "return v, k\n")]),
    "cache order": (
        "cache",
        [
            ("torch.cat([self.k, k], dim=2)", "torch.cat([k, self.k], dim=2)"),
            ("torch.cat([self.v, v], dim=2)", "torch.cat([v, self.v], dim=2)"),
        ],
    ),
    "cache shared": (
        "cache",
        [
            (
                "        self.drop = nn.Dropout(dropout)",
                "        self.drop = nn.Dropout(dropout)\n        self.cache = Cache()",
            ),
            ("return Cache()", "return self.cache"),
        ],
    ),
    "cache last only": (
        "cache",
        [
            (
                "v = torch.cat([self.v, v], dim=2)",
                "v = torch.cat([self.v[:, :, -1:].expand(-1, -1, self.v.shape[2], -1), v], dim=2)",
            )
        ],
    ),
    "float32 out": (
        "shape",
        [("return self.out_proj(out)", "return self.out_proj(out).float()")],
    ),
    "device": (
        "device",
        [("dtype=torch.bool, device=x.device", "dtype=torch.bool, device='cpu'")],
    ),
    "item": (
        "compile",
        [
            (
                "        if cache is not None:",
                "        if x.abs().max().item() > 1e6: x = x / 2\n        if cache is not None:",
            )
        ],
    ),
    "T frozen": (
        "export",
        [
            (
                "        self.drop = nn.Dropout(dropout)",
                "        self.drop = nn.Dropout(dropout)\n        self.register_buffer('tri', torch.ones(16, 16, dtype=torch.bool).tril())",
            ),
            (
                "seen = seen.tril(S - T)",
                "seen = seen & self.tri[S - T:S, :S] if S <= 16 else seen",
            ),
        ],
    ),
    "squeeze": ("shape", [("out = weights @ v", "out = (weights @ v).squeeze()")]),
    "inplace": (
        "deterministic",
        [
            (
                "        B, T, M = x.shape",
                "        x.mul_(0.5)\n        B, T, M = x.shape",
            )
        ],
    ),
    "state": (
        "deterministic",
        [
            (
                "        B, T, M = x.shape",
                "        self.n = getattr(self, 'n', 0) + 1\n        x = x * (1 + 0.01 * self.n)\n        B, T, M = x.shape",
            )
        ],
    ),
    "list": (
        "gradients",
        [
            (
                "self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)",
                "self.vs = [nn.Linear(d_model, num_kv_heads * self.head_dim)]\n        self.v_proj = self.vs[0].__call__ if False else (lambda x: self.vs[0](x))",
            )
        ],
    ),
    "unused": (
        "gradients",
        [
            (
                "        self.drop = nn.Dropout(dropout)",
                "        self.drop = nn.Dropout(dropout)\n        self.extra = nn.Linear(d_model, d_model)",
            )
        ],
    ),
    "one head dead": (
        "gradients",
        [
            (
                "out = weights @ v",
                "out = weights @ v\n        out = torch.cat([out[:, :1] * 0, out[:, 1:]], 1)",
            )
        ],
    ),
}

DROP = "weights = self.drop(weights)"
LAST = "        self.drop = nn.Dropout(dropout)"
# With what its line must say.
TRAINING = {
    "not divided": (
        "training",
        "must be divided by 1 - p",
        [
            (
                DROP,
                "weights = weights * (torch.rand_like(weights) > 0.1) if self.training else weights",
            )
        ],
    ),
    "scores": (
        "training",
        "scores are dropped",
        [
            ("scores = q @ k", "scores = self.drop(q) @ k"),
            (DROP, "pass"),
            (
                "self.drop(q) @ k.transpose(-2, -1)",
                "self.drop(q @ k.transpose(-2, -1))",
            ),
        ],
    ),
    "future": (
        "training",
        "with later token",
        [("if causal:", "if causal and not self.training:")],
    ),
    "padding": (
        "training",
        "padding changes outputs",
        [("if mask is not None:", "if mask is not None and not self.training:")],
    ),
    "batch norm": (
        "training",
        "changing text 3",
        [
            (LAST, LAST + "\n        self.norm = nn.BatchNorm1d(d_model)"),
            ("q = self.q_proj(x)", "q = self.q_proj(self.norm(x.mT).mT)"),
        ],
    ),
    "keep": (
        "training",
        "drops 90%",
        [("nn.Dropout(dropout)", "nn.Dropout(1 - dropout)")],
    ),
    "other scale": (
        "training",
        "nothing is dropped",
        [(DROP, "weights = weights * (2 if self.training else 1)")],
    ),
    "frozen": (
        "trainable",
        "2 of 8 weights are frozen: k_proj.weight, k_proj.bias",
        [(LAST, LAST + "\n        self.k_proj.requires_grad_(False)")],
    ),
    "not new": (
        "cache",
        "a new cache is not empty",
        [
            (LAST, LAST + "\n        self.cache = Cache()"),
            ("return Cache()", "return self.cache"),
        ],
    ),
    "not trained": (
        "training",
        "in training mode alone, no gradient reaches k_proj.bias",
        [
            (
                "scores = q @ k.tr",
                "k = k.detach() if self.training else k\n        scores = q @ k.tr",
            )
        ],
    ),
    "first text": (
        "cache",
        "one text shows in another",
        [
            (
                "self.k, self.v, self.length = k, v,",
                "self.k, self.v, self.length = k[:1].expand_as(k), v,",
            )
        ],
    ),
    "values": (
        "cache",
        "wrong positions or values",
        [
            (
                "self.k, self.v, self.length = k, v,",
                "self.k, self.v, self.length = k, 2 * v,",
            )
        ],
    ),
}
