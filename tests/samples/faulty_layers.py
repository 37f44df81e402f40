"""Faults of the formula, of gradients, caches, training and types: check, pieces."""

from tests.samples.plain_layer import (
    DROP,
    LAST,
    LINEAR,
    OUT,
    PRODUCT,
    RETURN,
    START,
    TRIL,
    VALUES,
    after,
    before,
)

ROOT = "math.sqrt(self.head_dim)"
SPLIT = ".view(B, T, self.num_heads, self.head_dim).transpose(1, 2)"
SPLIT_KEYS = ".view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)"
MERGE = "out.transpose(1, 2).reshape"
K_SPLIT = "k = self.k_proj(x).view(B, T, self.num_kv_heads, self.head_dim)"
K_GROUPS, V_GROUPS = (f"{name}.repeat_interleave(groups, dim=1)" for name in "kv")
FAULTS = {
    "scale missing": ("formula", f" / {ROOT}", ""),
    "scale d_model": ("formula", ROOT, "math.sqrt(M)"),
    "scale by D": ("formula", ROOT, "self.head_dim"),
    "scale times": ("formula", f" / {ROOT}", f" * {ROOT}"),
    "scale 1.1": ("formula", ROOT, f"1.1 / {ROOT} ** -1"),
    "softmax queries": ("formula", "softmax(dim=-1)", "softmax(dim=-2)"),
    "softmax heads": ("formula", "softmax(dim=-1)", "softmax(dim=1)"),
    "softmax batch": ("batch", "softmax(dim=-1)", "softmax(dim=0)"),
    "merge no transpose": ("order", MERGE, "out.reshape"),
    "split all no transpose": (
        "formula",
        *(SPLIT, ".view(B, self.num_heads, T, self.head_dim)"),
        *(SPLIT_KEYS, ".view(B, self.num_kv_heads, T, self.head_dim)"),
        *(MERGE, "out.reshape"),
    ),
    "split k odd": (
        "formula",
        K_SPLIT,
        "k = self.k_proj(x).view(B, T, self.head_dim, self.num_kv_heads).mT",
    ),
    "v from k": ("formula", "v = self.v_proj(x)", "v = self.k_proj(x)"),
    "swapped kv": ("formula", OUT, "out = weights @ k", "= q @ k", "= q @ v"),
    "q not k": ("formula", "scores = q @ k", "scores = k @ q"),
    "no bias": ("formula", RETURN, "return F.linear(out, self.out_proj.weight)"),
    "batch first": ("batch", "scores = q @ k.", "scores = q @ k[:1]."),
    "seed in init": (
        "parameters",
        *before("self.q_proj = nn", "torch.manual_seed(0)"),
        *before("self.k_proj = nn", "torch.manual_seed(0)"),
    ),
    "heads averaged": (
        "formula",
        OUT,
        "out = (weights @ v).mean(1, True).expand_as(q)",
    ),
    "out twice": ("flops", RETURN, "return self.out_proj(self.out_proj(out))"),
    "clamp": ("formula", *after(PRODUCT, "scores = scores.clamp(-1, 1)")),
    "eps": ("formula", DROP, "weights = weights / (weights.sum(-1, True) + 0.1)"),
    "quadratic waste": ("flops", "q_proj(x)", "q_proj(x + 0 * self.k_proj(x).sum())"),
    "top left": ("cache", TRIL, "seen = seen.tril()"),
    "dropout always": ("deterministic", DROP, "weights = F.dropout(weights, 0.1)"),
    "k from q": ("gradients", "k = self.k_proj(x)", "k = self.q_proj(x)"),
    "no out": ("gradients", RETURN, "return out"),
    "detach": ("gradients", DROP, "weights = self.drop(weights.detach())"),
    "cache kv swapped": ("cache", "return k, v\n", "return v, k\n"),
    "cache order": (
        "cache",
        *("[self.k, k]", "[k, self.k]"),
        *("[self.v, v]", "[v, self.v]"),
    ),
    "cache last only": ("cache", "[self.v,", "[self.v[:, :, -1:].expand_as(self.v),"),
    "float32 out": ("shape", RETURN, f"{RETURN}.float()"),
    "device": ("device", "torch.bool, device=x.device", "torch.bool, device='cpu'"),
    "item": ("compile", *after(START, "if x.abs().max().item() > 1e6: x = x / 2")),
    "T frozen": (
        "export",
        *after(LAST, "self.register_buffer('tri', torch.ones(16, 16).tril() > 0)"),
        *(TRIL, "seen = seen & self.tri[S - T:S, :S] if S <= 16 else seen"),
    ),
    "squeeze": ("shape", OUT, "out = (weights @ v).squeeze()"),
    "state": (
        "deterministic",
        *before(START, "self.n = getattr(self, 'n', 0) + 1"),
        *after(START, "x = x * (1 + 0.01 * self.n)"),
    ),
    "list": (
        "gradients",
        VALUES,
        f"self.vs = [{LINEAR}]\n        self.v_proj = lambda x: self.vs[0](x)",
    ),
    "unused": ("gradients", *after(LAST, "self.extra = nn.Linear(d_model, d_model)")),
    "one head dead": (
        "gradients",
        *after(OUT, "out = torch.cat([out[:, :1] * 0, out[:, 1:]], 1)"),
    ),
}
# With 6 query heads and 2 heads of keys.
GROUPED = {
    "tile": (
        "formula",
        *(K_GROUPS, "k.repeat(1, groups, 1, 1)"),
        *(V_GROUPS, "v.repeat(1, groups, 1, 1)"),
    ),
    "tile v": ("formula", V_GROUPS, "v.repeat(1, groups, 1, 1)"),
    "first kv": ("formula", K_GROUPS, "k[:, :1].repeat_interleave(6, dim=1)"),
}
