"""Exercises of chapter 14: bytes, a width, matrices absorbed, a layer built."""

import torch

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.course.exercises.exercise import (
    Exercise,
    LayerExercise,
    NumberExercise,
    slip,
)
from attention_lib.course.exercises.shared import as_number
from attention_lib.masks import causal_mask
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded
from attention_lib.rope import apply_rope, rope_angles

NUMBER = 24 * 4096 * 2  # the bytes of one number per token and layer
check_latent_bytes = NumberExercise(
    solution="""
my_bytes = 24 * 4096 * (192 + 32) * 2  # layers, tokens, latent and rotated key, bytes
""",
    mistakes=[
        (NUMBER * 192, "The rotated key is kept as well: it is no part of the latent."),
        (NUMBER * (192 + 16 * 32), "All heads share one rotated key."),
        (NUMBER * 16 * 224, "All heads share the latent and the rotated key."),
        (NUMBER * 16 * 160, "Those are the keys and values of all heads: they are made "
         "of the latent and not kept."),
        (NUMBER * 16 * 128, "Those are the keys and values of all heads: they are made "
         "of the latent and not kept."),
        (NUMBER * (224 + 384), "The latent of the queries is not kept: old queries are "
         "never needed."),
        (NUMBER * 2 * 224, "Twice that many. Keys and values come from the same "
         "latent, which is kept once; and a number takes 2 bytes, not 4."),
        (NUMBER * (2 * 192 + 32), "Keys and values come from the same latent, which is "
         "kept once; the latent of the queries is not kept."),
        (NUMBER * 112, "Each number takes 2 bytes."),
        (NUMBER * 224 / 2**10, "Right in KiB: the question is for bytes."),
        (NUMBER * 224 / 2**20, "Right in MiB: the question is for bytes."),
        (4096 * 2 * 224, "That is one layer: there are 24."),
        (24 * 2 * 224, "That is one token: there are 4,096."),
        (NUMBER * 32, "That is the rotated key alone: where is the latent?"),
    ],
    praise="192 + 32 numbers per token and layer, whatever the number of heads.",
    otherwise="Not that many: first the numbers of one token in one layer.",
)  # fmt: skip

OWN = "w_q.view(len(w_q), num_heads, -1).transpose(0, 1)"
UP = "w_uk.view(len(w_uk), num_heads, -1).transpose(0, 1)"
FAR, FAR_UP = (
    f"{w}.view(len({w}), -1, num_heads).permute(2, 0, 1)" for w in ("w_q", "w_uk")
)
CUT, CUT_UP = (f"{w}.reshape(num_heads, len({w}), -1)" for w in ("w_q", "w_uk"))
PRODUCT = "own @ up.mT"

check_absorbed = Exercise(
    solution="""
def absorbed_matrices(w_q, w_uk, num_heads):
    own = w_q.view(len(w_q), num_heads, -1).transpose(0, 1)  # (H, M, D)
    up = w_uk.view(len(w_uk), num_heads, -1).transpose(0, 1)  # (H, C, D)
    return own @ up.mT


# DeepSeek-V3 makes queries from 1,536 numbers (M = 1536 here) and has C = 512, D = 128.
# There a joined matrix has 1536 * 512 / (128 * (1536 + 512)) = 3 times as many numbers
# as its two factors. Keeping these, and only moving the brackets, takes less memory.
""",
    cases=[
        ((5, 4, 2, 3), ""),
        ((7, 3, 3, 2), "Right for two heads. For three:"),
        ((4, 6, 1, 5), "Right for several heads. For a single one:"),
    ],
    inputs=lambda width, latent, heads, head: (
        torch.randn(width, heads * head, generator=seeded(0)),
        torch.randn(latent, heads * head, generator=seeded(1)),
        heads,
    ),
    slips=[
        slip("Each matrix is turned round: tokens come from the left, latents from the "
             "right.", PRODUCT, "up @ own.mT"),
        slip("The heads are added up: each has a matrix of its own.",
             PRODUCT, "w_q @ w_uk.T"),
        slip("Every head gets the sum over all heads.",
             PRODUCT, "(w_q @ w_uk.T).expand(num_heads, -1, -1)"),
        slip("The axis of the heads comes first.",
             PRODUCT, "(own @ up.mT).transpose(0, 1)"),
        slip("The columns of a head are side by side: head 0 comes first.",
             OWN, FAR, UP, FAR_UP),
        slip("The columns of w_q belong to other heads: head 0 comes first.", OWN, FAR),
        slip("The columns of w_uk belong to other heads: head 0 comes first.",
             UP, FAR_UP),
        slip("w_q is cut along its rows: the heads are in its columns.", OWN, CUT),
        slip("w_uk is cut along its rows: the heads are in its columns.", UP, CUT_UP),
        slip("Both are cut along their rows: the heads are in their columns.",
             OWN, CUT, UP, CUT_UP),
        slip("The scores are not scaled here.",
             PRODUCT, "own @ up.mT / own.shape[-1] ** 0.5"),
        slip("The heads get each other's up-projections.",
             PRODUCT, "own @ up.flip(0).mT"),
    ],
    praise="One matrix per head, from a token to what latents are for.",
)  # fmt: skip


SQUARES = "torch.linalg.svdvals(weight).square()"
LEFT, COUNT = "1 - squares.cumsum(0) / squares.sum()", "(left_out > lost).sum()"
WHOLE = "The share counts squares, not the strengths themselves."
check_smallest_width = Exercise(
    solution="""
def smallest_width(weight, lost):
    squares = torch.linalg.svdvals(weight).square()  # the strongest first
    left_out = 1 - squares.cumsum(0) / squares.sum()  # by 1, 2, 3, … directions
    return int((left_out > lost).sum()) + 1
""",
    cases=[
        ((20, 40, 0.1), ""),
        ((60, 30, 0.1), "Right for a wide matrix. For a tall one:"),
        ((20, 40, 0.4), "Right where a tenth may be lost. Where more may be:"),
        ((20, 40, 0.995), "Right where some directions are needed. Where one is "
         "enough:"),
    ],
    inputs=lambda rows, columns, lost: (
        torch.randn(rows, columns, generator=seeded(0), dtype=torch.float64),
        lost,
    ),
    use=as_number,
    slips=[
        slip(WHOLE, ".square()", ""),
        slip("One direction too few: with it, more is lost than may be.", " + 1", ""),
        slip("One direction too many: it was enough without it.", " + 1", " + 2"),
        slip("So many are left out: how many are kept?",
             f"int({COUNT}) + 1", f"len(squares) - int({COUNT}) - 1"),
        slip("That is the share that is kept: so much may be lost.", "1 - ", ""),
        slip("The weakest are kept: begin with the strongest.",
             SQUARES, f"{SQUARES}.flip(0)"),
        slip("That is a share of the directions: they are not equally strong.",
             f"int({COUNT}) + 1", "math.ceil(len(squares) * (1 - lost))"),
        slip("That many directions are themselves stronger than the share: add up what "
             "is left out.", LEFT, "squares / squares.sum()"),
    ],
    otherwise=lambda came, *_: (
        f"{came:g} is not the smallest: how much is lost with this width, and how much "
        "with one direction less?"
    ),
    praise="What is lost is the sum of the squares that are left out.",
)  # fmt: skip
SOLUTION = """
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
        query = split_heads(self.q_proj(x), self.num_heads)
        query, rotated = query.split(self.parts, dim=-1)
        rotated = apply_rope(rotated, angles, layout="interleaved")
        latent_dim, rope_dim = self.kv_up_proj.in_features, self.parts[1]
        latent, shared = self.kv_down_proj(x).split([latent_dim, rope_dim], dim=-1)
        shared = apply_rope(shared[:, None], angles, layout="interleaved")
        expanded = split_heads(self.kv_up_proj(latent), self.num_heads)
        key, value = expanded.chunk(2, dim=-1)
        key = torch.cat([key, shared.expand(-1, self.num_heads, -1, -1)], dim=-1)
        query = torch.cat([query, rotated], dim=-1)
        mask = causal_mask(x.shape[1], device=x.device)
        context = scaled_dot_product_attention(query, key, value, mask)
        return self.out_proj(merge_heads(context))
"""
CALL = "scaled_dot_product_attention(query, key, value, mask)"
SCALED = "scaled_dot_product_attention(query, key, value, mask, scale={})"
TURN_Q = 'rotated = apply_rope(rotated, angles, layout="interleaved")'
TURN_K = 'apply_rope(shared[:, None], angles, layout="interleaved")'
CHUNK = "key, value = expanded.chunk(2, dim=-1)"
check_latent_attention = LayerExercise(
    solution=SOLUTION,
    surplus="Four weights without a bias are all.",
    cases=[
        ((10, 3, 4, 5, 4), ""),
        ((7, 1, 3, 2, 4), "Right for three heads. For a single one:"),
        ((6, 2, 9, 3, 6), "Right for small latents. For a latent wider than a token:"),
    ],
    inputs=lambda d_model, heads, latent, head, rope: (
        torch.randn(2, 5, d_model, generator=seeded(0)),
        rope_angles(torch.arange(5), rope),
    ),
    slips=[
        slip("A token sees the future: where is the mask?",
             CALL, "scaled_dot_product_attention(query, key, value)"),
        slip("A token sees the future, not the past: is the triangle flipped?",
             "causal_mask(x.shape[1], device=x.device)",
             "causal_mask(x.shape[1], device=x.device).T"),
        slip("The scores are not scaled.", CALL, SCALED.format("1.0")),
        slip("The scale forgets the rotated part: a key is head_dim + rope_dim wide.",
             CALL, SCALED.format("self.parts[0] ** -0.5")),
        slip("The scale takes the width of the latent: it is that of a key, head_dim + "
             "rope_dim.", CALL, SCALED.format("self.kv_up_proj.in_features ** -0.5")),
        slip("The scale takes the width of the latent: it is that of a key, head_dim + "
             "rope_dim.",
             CALL, SCALED.format("self.kv_down_proj.out_features ** -0.5")),
        slip("The queries' rotary part is not rotated.", TURN_Q, ""),
        slip("The shared key is not rotated.", TURN_K, "shared[:, None]"),
        slip("Nothing is rotated: where do the angles go?",
             TURN_K, "shared[:, None]", TURN_Q, ""),
        slip('The pairs are i and i + R/2: take layout="interleaved".',
             "interleaved", "half"),
        slip("Keys and values have changed places in the up-projection: the key's rows "
             "come first in each head.",
             CHUNK, "value, key = expanded.chunk(2, dim=-1)"),
        slip("The parts of a query have changed places: first what is not rotated, "
             "then what is.",
             "query, rotated = query.split(self.parts, dim=-1)",
             "rotated, query = query.split(self.parts[::-1], dim=-1)"),
        slip("The parts of kv_down_proj have changed places: first the latent, then "
             "the key that is rotated.", "latent, shared", "shared, latent",
             "[latent_dim, rope_dim]", "[rope_dim, latent_dim]"),
        slip("The rows of the up-projection come head after head, not all keys first.",
             CHUNK,
             "both = self.kv_up_proj(latent).chunk(2, dim=-1); key, value = "
             "(split_heads(part, self.num_heads) for part in both)"),
        slip("The scores miss the rotated part.",
             "shared.expand(-1", "0 * shared.expand(-1"),
        slip("The way back mixes tokens and heads: which axes change places before the "
             "heads are side by side?",
             "merge_heads(context)", "context.reshape(*x.shape[:2], -1)"),
    ],
    praise="Latent attention: what DeepSeek-V3 does, without its norms.",
    names=dict(
        apply_rope=apply_rope,
        causal_mask=causal_mask,
        merge_heads=merge_heads,
        split_heads=split_heads,
        scaled_dot_product_attention=scaled_dot_product_attention,
    ),
)  # fmt: skip
