"""The checks of chapter 14: each usual mistake is made, and must be named."""

import torch

from attention_lib.course.exercises import ch14
from attention_lib.latent_attention import MultiHeadLatentAttention
from tests.answers import as_numbers

absorbed, width, layer = (
    check.made
    for check in (
        ch14.check_absorbed,
        ch14.check_smallest_width,
        ch14.check_latent_attention,
    )
)


class OfLibrary(MultiHeadLatentAttention):
    """The library's layer, absorbed, without its norm."""

    def __init__(self, d_model, heads, latent, head, rope):
        widths = dict(nope_dim=head, rope_dim=rope, value_dim=head, q_latent_dim=None)
        super().__init__(d_model, heads, kv_latent_dim=latent, absorb=True, **widths)
        self.kv_norm = torch.nn.Identity()

    def forward(self, x, angles):
        return super().forward(x, causal=True, angles=angles)


def by_loop(w_q, w_uk, num_heads):
    pairs = zip(w_q.chunk(num_heads, 1), w_uk.chunk(num_heads, 1), strict=True)
    return torch.stack([own @ up.T for own, up in pairs])


def by_einsum(w_q, w_uk, num_heads):
    own, up = (w.unflatten(1, (num_heads, -1)) for w in (w_q, w_uk))
    return torch.einsum("mhd,chd->hmc", own, up)


def by_trying(weight, lost):
    u, s, vh = torch.linalg.svd(weight, full_matrices=False)
    for rank in range(1, len(s) + 1):
        near = u[:, :rank] @ torch.diag(s[:rank]) @ vh[:rank]
        if (weight - near).square().sum() <= lost * weight.square().sum():
            return rank
    return 0


def by_eigenvalues(weight, lost):
    squares = torch.linalg.eigvalsh(weight @ weight.T)  # the smallest first
    return len(weight) - int((squares.cumsum(0) <= lost * squares.sum()).sum())


RIGHT = {
    "latent_bytes": [
        ch14.NUMBER * (192 + 32), *as_numbers(44_040_192), 42 * 2**20,
    ],
    "absorbed": [
        by_loop, by_einsum,
        absorbed(ch14.PRODUCT, "torch.bmm(own, up.transpose(1, 2))"),
        absorbed(ch14.PRODUCT, "(up @ own.mT).mT"),
        absorbed(ch14.OWN, "w_q.unflatten(1, (num_heads, -1)).movedim(1, 0)"),
        absorbed(ch14.OWN, "torch.stack(w_q.chunk(num_heads, dim=1))"),
        absorbed(ch14.UP, "torch.stack(w_uk.split(w_uk.shape[1] // num_heads, dim=1))"),
        absorbed(ch14.PRODUCT, "torch.einsum('hmd,hcd->hmc', own, up)"),
        absorbed(ch14.PRODUCT, "(own.double() @ up.double().mT).float()"),
    ],
    "smallest_width": [
        by_trying, by_eigenvalues,
        width(ch14.SQUARES, "torch.linalg.svd(weight, full_matrices=False)[1] ** 2"),
        width(ch14.SQUARES, "torch.linalg.svdvals(weight.T).square()"),
        width("squares.sum()", "weight.square().sum()"),
        width(ch14.COUNT, "(left_out >= lost).sum()"),
        width("int((left_out > lost).sum()) + 1", "(left_out > lost).sum() + 1"),
        width(ch14.LEFT, "squares.flip(0).cumsum(0).flip(0).roll(-1) / squares.sum()",
              ch14.COUNT, "(left_out[:-1] > lost).sum()"),
        lambda weight, lost: width()(weight.float(), lost),
    ],
    "latent_attention": [
        OfLibrary, lambda *sizes: layer()(*sizes),
        layer(ch14.CALL, "F.scaled_dot_product_attention(query, key, value, "
              "is_causal=True)"),
        layer(ch14.CALL, "F.scaled_dot_product_attention(query, key, value, mask)"),
        layer(ch14.CALL, ch14.SCALED.format("sum(self.parts) ** -0.5")),
        layer("split_heads(self.kv_up_proj(latent), self.num_heads)",
              "self.kv_up_proj(latent).unflatten(-1, (self.num_heads, -1))"
              ".transpose(1, 2)"),
        layer(ch14.CHUNK, "key, value = expanded.split([self.parts[0]] * 2, dim=-1)"),
        layer("shared.expand(-1, self.num_heads, -1, -1)",
              "shared.repeat(1, self.num_heads, 1, 1)"),
        layer("merge_heads(context)", "torch.cat(context.unbind(1), -1)"),
    ],
}  # fmt: skip
MISTAKES = {
    "latent_bytes": [(ch14.NUMBER * 100, "first the numbers of one token")],
    "absorbed": [
        (lambda q, up, heads: by_loop(q, up, 2), "For three"),
        (lambda q, up, heads: by_loop(q, up, max(heads, 2)), "For a single one"),
    ],
    "smallest_width": [
        (width("    return", "    return 3.5\n    return"), "3.5 is not the smallest"),
        (width("weight)", "weight[:20])"), "For a tall one"),
        (width("    return", "    lost = 0.1; return"), "Where more may be"),
        (width("int((left_out > lost).sum()) + 1",
               "max(2, int((left_out > lost).sum()) + 1)"), "Where one is enough"),
        (width("    return", "    return [1]\n    return"), "returns a list: give a "),
    ],
    "latent_attention": [
        (layer("both, bias=False", "both"), "Too many parameters: q_proj.bias"),
        (lambda *sizes: layer(*(() if sizes[1] > 1 else (ch14.TURN_Q, "")))(*sizes),
         "For a single one"),
        (lambda *sizes: layer(
            *((ch14.TURN_Q, "") if sizes[2] > sizes[0] else ()))(*sizes),
         "For a latent wider than a token"),
    ],
}  # fmt: skip
