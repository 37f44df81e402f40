"""The checks of chapter 13: each usual mistake is made, and must be named."""

import torch

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.masks import causal_mask
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.rope import apply_rope
from tests.answers import as_numbers, solution

NUMBER = 24 * 4096 * 2  # the bytes of one number per token and layer

absorbed = solution(
    """
def absorbed(w_q, w_uk, num_heads):
    own = w_q.view(len(w_q), num_heads, -1).transpose(0, 1)
    up = w_uk.view(len(w_uk), num_heads, -1).transpose(0, 1)
    return own @ up.mT
"""
)
OWN = "w_q.view(len(w_q), num_heads, -1).transpose(0, 1)"
UP = "w_uk.view(len(w_uk), num_heads, -1).transpose(0, 1)"
FAR = "w_q.view(len(w_q), -1, num_heads).permute(2, 0, 1)"
FAR_UP = "w_uk.view(len(w_uk), -1, num_heads).permute(2, 0, 1)"
CUT, CUT_UP = (f"{w}.reshape(num_heads, len({w}), -1)" for w in ("w_q", "w_uk"))

low_rank = solution(
    """
def low_rank(weight, width):
    u, s, vh = torch.linalg.svd(weight, full_matrices=False)
    return u[:, :width] * s[:width] @ vh[:width]
"""
)
MADE = "u[:, :width] * s[:width] @ vh[:width]"

layer = solution(
    """
class MyLatentAttention(nn.Module):
    def __init__(self, d_model, num_heads, latent_dim, head_dim, rope_dim):
        super().__init__()
        self.num_heads, self.parts = num_heads, [head_dim, rope_dim]
        both, down = num_heads * (head_dim + rope_dim), latent_dim + rope_dim
        self.q_proj = nn.Linear(d_model, both, bias=False)
        self.kv_down_proj = nn.Linear(d_model, down, bias=False)
        self.kv_up_proj = nn.Linear(latent_dim, num_heads * 2 * head_dim, bias=False)
        self.out_proj = nn.Linear(num_heads * head_dim, d_model, bias=False)

    def forward(self, x, angles):
        rope_dim = self.parts[1]
        query = split_heads(self.q_proj(x), self.num_heads)
        query, turned = query.split(self.parts, -1)
        latent, shared = self.kv_down_proj(x).split(
            [self.kv_up_proj.in_features, rope_dim], dim=-1
        )
        turned = apply_rope(turned, angles, layout="interleaved")
        shared = apply_rope(shared[:, None], angles, layout="interleaved")
        grown = split_heads(self.kv_up_proj(latent), self.num_heads)
        key, value = grown.chunk(2, dim=-1)
        key = torch.cat([key, shared.expand(-1, self.num_heads, -1, -1)], dim=-1)
        query = torch.cat([query, turned], dim=-1)
        mask = causal_mask(x.shape[1])
        context = scaled_dot_product_attention(query, key, value, mask)
        return self.out_proj(merge_heads(context))
""",
    apply_rope=apply_rope,
    causal_mask=causal_mask,
    merge_heads=merge_heads,
    split_heads=split_heads,
    scaled_dot_product_attention=scaled_dot_product_attention,
)
CALL = "scaled_dot_product_attention(query, key, value, mask)"
SCALED = "scaled_dot_product_attention(query, key, value, mask, scale={})"
TURN_Q = 'turned = apply_rope(turned, angles, layout="interleaved")'
TURN_K = 'apply_rope(shared[:, None], angles, layout="interleaved")'
GROWN = "split_heads(self.kv_up_proj(latent), self.num_heads)"
CHUNK = "key, value = grown.chunk(2, dim=-1)"
SPLIT = "query, turned = query.split(self.parts, -1)"
DOWN = """latent, shared = self.kv_down_proj(x).split(
            [self.kv_up_proj.in_features, rope_dim], dim=-1
        )"""


class OfLibrary(MultiHeadLatentAttention):
    """The library's layer, absorbed, without its norm."""

    def __init__(self, d_model, heads, latent, head, rope):
        widths = dict(nope_dim=head, rope_dim=rope, value_dim=head, q_latent_dim=None)
        super().__init__(d_model, heads, kv_latent_dim=latent, absorb=True, **widths)
        self.kv_norm = torch.nn.Identity()

    def forward(self, x, angles):
        return super().forward(x, causal=True, angles=angles)


def eigen(weight, width):
    found = torch.linalg.eigh(weight.T @ weight)[1][:, -width:]
    return weight @ found @ found.T


def one_by_one(weight, width):
    u, s, vh = torch.linalg.svd(weight)
    return sum(s[i] * torch.outer(u[:, i], vh[i]) for i in range(width))


def by_loop(w_q, w_uk, num_heads):
    pairs = zip(w_q.chunk(num_heads, 1), w_uk.chunk(num_heads, 1), strict=True)
    return torch.stack([own @ up.T for own, up in pairs])


def by_einsum(w_q, w_uk, num_heads):
    own, up = (w.unflatten(1, (num_heads, -1)) for w in (w_q, w_uk))
    return torch.einsum("mhd,chd->hmc", own, up)


def in_place(w_q, w_uk, num_heads):
    found = by_loop(w_q, w_uk, num_heads)
    w_q.zero_()
    return found


RIGHT = {
    "latent_bytes": [
        NUMBER * (192 + 32), 24 * 2 * 4096 * 224, *as_numbers(44_040_192),
        42 * 2**20,
    ],
    "absorbed": [
        absorbed(), by_loop, by_einsum,
        absorbed("own @ up.mT", "torch.bmm(own, up.transpose(1, 2))"),
        absorbed("own @ up.mT", "(up @ own.mT).mT"),
        absorbed(OWN, "w_q.unflatten(1, (num_heads, -1)).movedim(1, 0)"),
        absorbed(OWN, "torch.stack(w_q.chunk(num_heads, dim=1))"),
        absorbed(UP, "torch.stack(w_uk.split(w_uk.shape[1] // num_heads, dim=1))"),
        absorbed("own @ up.mT", "torch.einsum('hmd,hcd->hmc', own, up)"),
        absorbed("own @ up.mT", "(own.double() @ up.double().mT).float()"),
    ],
    "low_rank": [
        low_rank(), eigen, one_by_one,
        low_rank(MADE, "(u[:, :width] * s[:width]) @ vh[:width, :]"),
        low_rank(MADE, "u[:, :width] @ torch.diag(s[:width]) @ vh[:width]"),
        low_rank(MADE, "weight @ vh[:width].T @ vh[:width]"),
        low_rank(MADE, "u[:, :width] @ u[:, :width].T @ weight"),
        low_rank(MADE, "u @ torch.diag(s * (torch.arange(len(s)) < width)) @ vh"),
        low_rank(MADE, "(vh[:width].T * s[:width] @ u[:, :width].T).T"),
        low_rank(MADE, "weight - u[:, width:] * s[width:] @ vh[width:]"),
    ],
    "latent_attention": [
        layer(), OfLibrary, lambda *sizes: layer()(*sizes),
        layer(CALL, "F.scaled_dot_product_attention(query, key, value, "
              "is_causal=True)"),
        layer(CALL, "F.scaled_dot_product_attention(query, key, value, mask)"),
        layer(CALL, SCALED.format("sum(self.parts) ** -0.5")),
        layer(GROWN, "self.kv_up_proj(latent).unflatten(-1, (self.num_heads, -1))"
              ".transpose(1, 2)"),
        layer(CHUNK, "key, value = grown.split([self.parts[0]] * 2, dim=-1)"),
        layer("shared.expand(-1, self.num_heads, -1, -1)",
              "shared.repeat(1, self.num_heads, 1, 1)"),
        layer("merge_heads(context)", "torch.cat(context.unbind(1), -1)"),
    ],
}  # fmt: skip
MISTAKES = {
    "latent_bytes": [
        (NUMBER * 192, "is no part of the latent"),
        (NUMBER * (192 + 16 * 32), "share one rotated key"),
        (NUMBER * 16 * (192 + 32), "share the latent and the rotated key"),
        (NUMBER * 16 * 160, "made of the latent and not kept"),
        (NUMBER * 16 * 128, "made of the latent and not kept"),
        (NUMBER * (192 + 32 + 384), "latent of the queries is not kept"),
        (NUMBER * 2 * 224, "a number takes 2 bytes, not 4"),
        (NUMBER * (2 * 192 + 32), "which is kept once"),
        (NUMBER * 224 / 2**10, "in KiB"),
        (NUMBER * 224 / 2**20, "in MiB"),
        (NUMBER * 112, "takes 2 bytes"),
        (4096 * 2 * 224, "there are 24"),
        (24 * 2 * 224, "there are 4,096"),
        (NUMBER * 32, "where is the latent"),
        (NUMBER * 100, "first the numbers of one token"),
    ],
    "absorbed": [
        (absorbed("own @ up.mT", "up @ own.mT"), "turned round"),
        (lambda q, up, heads: q @ up.T, "The heads are added up"),
        (lambda q, up, heads: (q @ up.T).expand(heads, -1, -1), "the sum over all"),
        (absorbed("own @ up.mT", "(own @ up.mT).transpose(0, 1)"), "comes first"),
        (absorbed(OWN, FAR, UP, FAR_UP), "of a head stand side by side"),
        (absorbed(OWN, FAR), "columns of w_q belong to other heads"),
        (absorbed(UP, FAR_UP), "columns of w_uk belong to other heads"),
        (absorbed(OWN, CUT), "w_q is cut along its rows"),
        (absorbed(UP, CUT_UP), "w_uk is cut along its rows"),
        (absorbed(OWN, CUT, UP, CUT_UP), "Both are cut along their rows"),
        (absorbed("own @ up.mT", "own @ up.mT / own.shape[-1] ** 0.5"), "not scaled"),
        (absorbed("own @ up.mT", "own @ up.flip(0).mT"), "each other's"),
        (in_place, "changes its input"),
        (lambda q, up, heads: by_loop(q, up, 2), "For three"),
        (lambda q, up, heads: by_loop(q, up, max(heads, 2)), "For a single one"),
    ],
    "low_rank": [
        (lambda weight, width: weight.clone(), "Nothing is left out"),
        (low_rank(MADE, "u[:, width:] * s[width:] @ vh[width:]"), "to be left out"),
        (low_rank(MADE, "u[:, -width:] * s[-width:] @ vh[-width:]"), "smallest"),
        (low_rank(MADE, "u[:, :width] @ vh[:width]"), "values are missing"),
        (low_rank("* s[:width]", "* s[:width].sqrt()"), "The roots of"),
        (low_rank("* s[:width]", "* s[:width] ** 2"), "enter twice"),
        (low_rank("return", "width += 1; return"), "One direction too many"),
        (low_rank("return", "width -= 1; return"), "One direction too few"),
        (lambda weight, width: weight * (torch.arange(weight.shape[1]) < width),
         "The first columns of the matrix"),
        (lambda weight, width: weight * (torch.arange(len(weight)) < width)[:, None],
         "The first rows of the matrix"),
        (low_rank(MADE, "u[:, :width] * s[:width]"), "the way down alone"),
        (low_rank(MADE, "vh[:width]"), "the way up alone"),
        (low_rank(MADE, f"({MADE}).T"), "turned round"),
        (low_rank("return", "width = 2; return"), "For a tall one"),
        (low_rank("return", "width = min(width, 2); return"), "For three"),
    ],
    "latent_attention": [
        (layer(CALL, "scaled_dot_product_attention(query, key, value)"), "the mask"),
        (layer("causal_mask(x.shape[1])", "causal_mask(x.shape[1]).T"), "not the past"),
        (layer(CALL, SCALED.format("1.0")), "not scaled"),
        (layer(CALL, SCALED.format("self.parts[0] ** -0.5")), "forgets the rotated"),
        (layer(CALL, SCALED.format("self.kv_down_proj.out_features ** -0.5")),
         "takes the width of the latent"),
        (layer(CALL, SCALED.format("self.kv_up_proj.in_features ** -0.5")),
         "takes the width of the latent"),
        (layer(TURN_Q, ""), "The queries' rotated part"),
        (layer(TURN_K, "shared[:, None]"), "The shared key is not turned"),
        (layer(TURN_K, "shared[:, None]", TURN_Q, ""), "Nothing is turned"),
        (layer("interleaved", "half"), "The pairs are i and"),
        (layer(CHUNK, "value, key = grown.chunk(2, dim=-1)"), "key's rows come first"),
        (layer(SPLIT, "turned, query = query.split(self.parts[::-1], -1)"),
         "parts of a query have changed"),
        (layer(DOWN, "shared, latent = self.kv_down_proj(x).split([rope_dim, "
               "self.kv_up_proj.in_features], dim=-1)"), "parts of kv_down_proj"),
        (layer(CHUNK, "key, value = (split_heads(part, self.num_heads) for part in "
               "self.kv_up_proj(latent).chunk(2, dim=-1))"), "head after head"),
        (layer("shared.expand(-1", "0 * shared.expand(-1"), "miss the rotated part"),
        (layer("merge_heads(context)", "context.reshape(*x.shape[:2], -1)"),
         "The way back"),
        (layer("both, bias=False", "both"), "Too many parameters: q_proj.bias"),
        (layer("num_heads * 2 * head_dim", "2 * head_dim"), "kv_up_proj.weight is (10"),
        (layer("out_proj", "o_proj"), "no parameter out_proj.weight"),
        (layer()(10, 3, 4, 5, 2), "Give the class itself"),
        (lambda *sizes: "text", "Your function returns a str"),
        (lambda *sizes: layer(*(() if sizes[1] > 1 else (TURN_Q, "")))(*sizes),
         "For a single one"),
        (lambda *sizes: layer(*((TURN_Q, "") if sizes[2] > sizes[0] else ()))(*sizes),
         "For a latent wider than a token"),
    ],
}  # fmt: skip
