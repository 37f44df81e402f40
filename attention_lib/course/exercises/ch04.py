"""Exercises of chapter 4: how many heads, built, repaired, left out and masked."""

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import torch

from attention_lib.course.exercises.exercise import (
    Exercise,
    LayerExercise,
    NumberExercise,
    Slip,
    slip,
)
from attention_lib.course.exercises.verdict import Verdict
from attention_lib.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    sliding_window_mask,
)
from attention_lib.reproducibility import seeded

BLOCKED = "True means blocked here: it must mean 'may attend'."


FEWER = "That is not the largest number with this share: try more heads."
NARROW = "The heads are so narrow here that a run stays below 0.8: look at all three."
DIVIDES = "The heads share a width of 24: such a number of heads does not divide it."
check_most_heads = NumberExercise(
    right=6,
    praise="With these seeds. Another seed can fail here, too: try 6.",
    mistakes=[
        (4, "One head for each question: a good prediction, and they are enough. But "
         "can there be more?"),
        *((heads, FEWER) for heads in (1, 2, 3)),
        *((heads, NARROW) for heads in (8, 12, 24)),
        *((heads, DIVIDES) for heads in (5, 7, 9, 10)),
        (0.8, "That is the share of texts: how many heads reach it?"),
    ],
    otherwise="That is not the number: it is one of those in the list.",
)  # fmt: skip


def _mixed(
    cut: tuple[str, str], join: tuple[str, str], scale: tuple[str, str]
) -> list[Slip]:
    """Return the slips of three steps, together and alone."""
    both = "The split and the merge both mix tokens with heads"
    split = "The split mixes tokens with heads"
    merge = "The split is right; but the merge mixes tokens with heads"
    by_input = "the scale takes a width that is not the head's."
    return [
        slip(f"{both}, and {by_input}", *cut, *join, *scale),
        slip(f"{both}: a view alone moves nothing.", *cut, *join),
        slip(f"{split}, and {by_input}", *cut, *scale),
        slip(f"{split}: a view alone moves nothing.", *cut),
        slip(f"{merge}, and {by_input}", *join, *scale),
        slip(f"{merge}.", *join),
        slip("The heads are right; but the scale takes a width that is not the head's: "
             "how many products does a score sum?", *scale),
    ]  # fmt: skip


UNMIXED = "The outputs of the heads are side by side: what mixes them?"
CUT = (
    "projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)",
    "projected.view(len(x), self.num_heads, x.shape[1], -1)",
)
JOIN = "context.transpose(1, 2).flatten(start_dim=2)"
JOINED = JOIN, "context.reshape(*x.shape[:2], -1)"
SHARES = "scores.softmax(dim=-1)"
MASKS = {
    "(Q, K)": causal_mask(5),
    "(B, 1, K)": padding_mask(torch.tensor([2, 5, 4]), 5),
}
MASKS["(B, Q, K)"] = combine_masks(*MASKS.values())
WITHOUT = "This is right without a mask. With a mask"
OTHER_WIDTH = "This is right for three heads of width 2. For two of width 4:"
check_multi_head_layer = LayerExercise(
    solution="""
class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        query, key, value = (
            projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projected in (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )  # (B, H, T, D) each
        scores = query @ key.mT / query.shape[-1] ** 0.5  # (B, H, Q, K)
        if mask is not None:
            mask = mask[:, None] if mask.ndim == 3 else mask
            scores = scores.masked_fill(~mask, -math.inf)
        context = scores.softmax(dim=-1) @ value
        return self.out_proj(context.transpose(1, 2).flatten(start_dim=2))
""",
    surplus="Four weights and the bias of out_proj are all.",
    sizes=2,
    cases=[
        ((6, 3, ""), ""),
        *(((6, 3, shape), f"{WITHOUT} {shape}:") for shape in MASKS),
        *(((8, 2, shape), OTHER_WIDTH) for shape in ("", *MASKS)),
    ],
    # As many texts as heads: a mask without an axis for the heads broadcasts.
    inputs=lambda d_model, heads, shape: (
        torch.randn(heads, 5, d_model, generator=seeded(0)),
        *([MASKS[shape][:heads] if "B" in shape else MASKS[shape]] if shape else []),
    ),
    slips=[
        *_mixed(CUT, JOINED, ("query.shape[-1]", "x.shape[-1]")),
        slip("The scores are not scaled.", " / query.shape[-1] ** 0.5", ""),
        slip("This is one wide head, not several.", "(self.num_heads, -1)", "(1, -1)"),
        slip(UNMIXED, f"self.out_proj({JOIN})", JOIN),
        slip(UNMIXED, f"self.out_proj({JOIN})", f"{JOIN} + self.out_proj.bias"),
        slip("Queries and keys have changed places.",
             "query, key, value = (", "key, query, value = ("),
        slip("The bias of the output projection is missing.",
             f"self.out_proj({JOIN})", f"{JOIN} @ self.out_proj.weight.T"),
        slip("The mask changes nothing.", "mask is not None", "False"),
        slip(BLOCKED, "~mask", "mask"),
        slip(BLOCKED, "~mask, -math.inf", "mask, -1e9"),
        slip("The texts are on the axis of the heads: which axis does the mask lack?",
             "mask.ndim == 3", "False"),
        slip("The mask acts after the softmax: the weights that are left do not sum to "
             "1.", "scores = scores.masked_fill(~mask, -math.inf)", "",
             SHARES, f"{SHARES} * (True if mask is None else mask)"),
    ],
    praise="Your multi-head attention equals the library's.",
)  # fmt: skip


def _prints(answer: Any) -> Verdict | None:
    with redirect_stdout(StringIO()) as printed:
        answer(*check_multi_head.inputs(6))
    words = "The numbers are right, but your function prints."
    return Verdict(False, words) if printed.getvalue() else None


HEADS = (
    "view(batch, length, num_heads, head_dim).transpose(1, 2)",
    "view(batch, num_heads, length, head_dim)",
)
BACK = "transpose(1, 2).flatten(start_dim=2)", "reshape(batch, length, -1)"
BY_INPUT = "head_dim**0.5", "x.shape[-1] ** 0.5"
check_multi_head = Exercise(
    solution="""
def my_multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    head_dim = w_q.shape[-1] // num_heads
    query, key, value = (
        (x @ w).view(batch, length, num_heads, head_dim).transpose(1, 2)
        for w in (w_q, w_k, w_v)
    )
    weights = (query @ key.mT / head_dim**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(start_dim=2) @ w_o
""",
    cases=[
        ((6,), ""),
        ((12,), "This is right where the heads together are as wide as the input. For "
         "wider ones:"),
    ],
    inputs=lambda inner: (
        torch.randn(2, 5, 6, generator=seeded(0)),
        *torch.randn(3, 6, inner, generator=seeded(1)),
        torch.randn(inner, 6, generator=seeded(2)),
        3,
    ),
    lastly=_prints,
    slips=[
        *_mixed(HEADS, BACK, BY_INPUT),
        slip("The scale takes the width of all heads together: how many products does "
             "a score sum?",
             "head_dim**0.5", "max(head_dim, 2 * len(w_o) - 12) ** 0.5"),
        slip("The scores are not scaled.", " / head_dim**0.5", ""),
        slip("This is one wide head, not several.",
             "    query, key,", "    num_heads, head_dim = 1, num_heads * head_dim\n"
             "    query, key,"),
        slip(UNMIXED, " @ w_o", ""),
        slip("Queries and keys have changed places.", "query @ key", "key @ query"),
    ],
    praise="Your function equals the library's, and prints nothing.",
)  # fmt: skip

TERMS = "sum(found[:, h] @ blocks[h] for h in range(len(blocks)) if keep[h])"
KEPT = "(found * torch.tensor(keep)[:, None, None])"
AVERAGE = "This is an average: the terms must be added."
check_pruned = Exercise(
    solution="""
def my_pruned(found, w_o, keep):
    blocks = w_o.chunk(found.shape[1])  # H of (D, M)
    return sum(found[:, h] @ blocks[h] for h in range(len(blocks)) if keep[h])
""",
    cases=[
        (([True, False, True],), ""),
        (([False, True, False],), "This is right for two heads of three. With one "
         "kept:"),
        (([True, True, True],), "This is right for some heads of three. With all "
         "kept:"),
    ],
    inputs=lambda keep: (
        torch.randn(2, 3, 5, 4, generator=seeded(0)),  # (B, H, T, D)
        torch.randn(12, 6, generator=seeded(1)),
        keep,
    ),
    slips=[
        slip("No head is left out.", " if keep[h]", ""),
        slip("The heads to keep are left out, not the others.",
             "if keep", "if not keep"),
        slip(AVERAGE, TERMS, f"{TERMS} / len(keep)"),
        slip(AVERAGE, TERMS, f"{TERMS} / sum(keep)"),
        slip("The heads are side by side: what mixes them?",
             TERMS, f"{KEPT}.transpose(1, 2).flatten(2)"),
        slip("Heads and tokens are mixed: which axes change places before the heads "
             "are side by side?", TERMS, f"{KEPT}.reshape(2, 5, 12) @ w_o"),
        slip("The heads are added before they are projected: each has its own block.",
             TERMS, "found[:, torch.tensor(keep)].sum(1)"),
    ],
    praise="This is the sum of the terms of the heads that are kept.",
)  # fmt: skip

WINDOW = "sliding_window_mask(length, w)"
check_head_windows = Exercise(
    solution="""
def my_windows(length, windows):
    return torch.stack([sliding_window_mask(length, w) for w in windows])[None]
""",
    cases=[
        ((6, [1, 4, 2]), ""),
        ((5, [3, 1]), "This is right for three heads and six tokens. For two and "
         "five:"),
    ],
    slips=[
        slip("The axis of the texts is missing in front.", "[None]", ""),
        slip("The heads are where the texts belong.", "[None]", "[:, None]"),
        slip(BLOCKED, "return ", "return ~"),
        slip("Each head sees what is to come: is the triangle flipped?",
             WINDOW, f"{WINDOW}.mT"),
        slip("What is to come can be seen as well.", WINDOW, f"{WINDOW} | {WINDOW}.mT"),
        slip("Each head sees one place too many: its own counts, too.",
             "length, w)", "length, w + 1)"),
        slip("Each head sees too few places.", "length, w)", "length, max(w - 1, 1))"),
        slip("The windows are in reverse order.", "in windows", "in windows[::-1]"),
        slip("Every head sees the whole past.", "length, w)", "length, length)"),
    ],
    praise="Each head has its window, and the axis of the texts broadcasts.",
    names={"sliding_window_mask": sliding_window_mask},
)  # fmt: skip
