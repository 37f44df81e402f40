"""The checks of chapter 4: each usual mistake is made, and must be named."""

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib.masks import causal_mask, sliding_window_mask
from attention_lib.multi_head import merge_heads, split_heads

# What readers write, with one step another or more.


def view_alone(x, num_heads):
    batch, length, width = x.shape
    return x.view(batch, num_heads, length, width // num_heads)


def by_token(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


def apart(x, num_heads):
    return x.unflatten(-1, (-1, num_heads))


def view_back(context):
    batch, _, length, _ = context.shape
    return context.reshape(batch, length, -1)


def layer(cut=split_heads, join=merge_heads, by=None, swapped=False, mixed=True):
    """Multi-head attention; ``by`` says whose root divides the scores."""

    def answer(x, w_q, w_k, w_v, w_o, num_heads):
        query, key, value = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
        if swapped:
            query, key = key, query
        widths = {"input": x.shape[-1], "inner": len(w_o), "none": 1}
        width = widths.get(by, query.shape[-1])
        weights = (query @ key.mT / width**0.5).softmax(dim=-1)
        found = join(weights @ value)
        return found @ w_o if mixed else found

    return answer


def one_wide_head(x, w_q, w_k, w_v, w_o, num_heads):
    return layer()(x, w_q, w_k, w_v, w_o, 1)


def cut_by_the_input(x, w_q, w_k, w_v, w_o, num_heads):
    head_dim = x.shape[-1] // num_heads
    batch, length, _ = x.shape
    return layer(
        lambda y, num_heads: y.view(batch, length, num_heads, head_dim).transpose(1, 2)
    )(x, w_q, w_k, w_v, w_o, num_heads)


def printing(*given):
    print("scores")
    return layer()(*given)


def pruned(found, w_o, keep):
    return merge_heads(found * torch.tensor(keep)[:, None, None]) @ w_o


def without_return_if_none(found, w_o, keep):
    return pruned(found, w_o, keep) if any(keep) else None


def windows(length, widths, of=sliding_window_mask):
    return torch.stack([of(length, width) for width in widths])[None]


# What a message of these checks must not hold, for it would give a solution away.
CODE = "transpose|reshape|permute"

MISTAKES = {
    "multi_head_count": [
        (418816, "The biases are missing"),
        (418916, "biases of the three projections"),
        (419584, "output projection has a bias, too"),
        (393984, "output projection is missing"),
        (525568, "The output is 100 wide"),
        (445284, "where the heads stand side by side"),
        (74948, "one head's queries"),
        (420384, "bias of its own here"),
        (157028, "have a projection each"),
        (813668, "goes from 512 to the inner width"),
        (7, "Not that many: list"),
    ],
    "split_heads": [
        (view_alone, "a view alone moves"),
        (by_token, "do not stand before the tokens"),
        (lambda x, h: apart(x, h).permute(0, 3, 1, 2), "be neighbours"),
        (apart, "The heads are the last axis"),
        (lambda x, h: split_heads(x, h).mT, "Tokens and features have"),
        (lambda x, h: by_token(x, h).transpose(0, 2), "batch and the heads"),
        (lambda x, h: split_heads(x, h).transpose(0, 1), "before the batch"),
        (lambda x, h: split_heads(x, h) if h > 1 else x, "For a single one: The shape"),
        (lambda x, h: (split_heads(x, h), x), "returns 2 things"),
    ],
    "multi_head": [
        (layer(view_alone, view_back, "input"), "mixed, and the scale takes"),
        (layer(view_alone, view_back), "mixed: a view alone moves nothing"),
        (layer(view_alone, by="input"), "heads are mixed, and the scale"),
        (layer(view_alone), "mixed: a view alone moves nothing"),
        (layer(join=view_back, by="input"), "One step is right; but on the"),
        (layer(join=view_back), "Nearly: on the way back"),
        (layer(by="input"), "One bug is left: the scale."),
        (layer(by="none"), "The scores are not scaled"),
        (
            lambda *given: layer(by="inner" if len(given[4]) > 6 else None)(*given),
            "For wider ones: The scale takes the width of all heads together",
        ),
        (one_wide_head, "one wide head, not several"),
        (layer(mixed=False), "what mixes it?"),
        (layer(swapped=True), "Queries and keys have changed"),
        (cut_by_the_input, "the input. For wider ones: Your code raised RuntimeError"),
        (printing, "One bug is left: it prints"),
    ],
    "pruned": [
        (lambda f, w, keep: merge_heads(f) @ w, "No head is left out"),
        (lambda f, w, keep: pruned(f, w, [not k for k in keep]), "heads to keep"),
        (lambda f, w, keep: pruned(f, w, keep) / 3, "This averages"),
        (lambda f, w, keep: pruned(f, torch.eye(12), keep), "side by side: what"),
        (
            lambda f, w, keep: view_back(f * torch.tensor(keep)[:, None, None]) @ w,
            "which axes change",
        ),
        (lambda f, w, keep: f[:, torch.tensor(keep)].sum(1), "has its own block"),
        (without_return_if_none, "With none kept: your code gives nothing back"),
    ],
    "head_windows": [
        (lambda n, w: windows(n, w)[0], "axis of the texts is missing"),
        (lambda n, w: windows(n, w)[0][:, None], "where the texts belong"),
        (lambda n, w: ~windows(n, w), "True means blocked"),
        (lambda n, w: windows(n, w).mT, "what is to come: is the triangle"),
        (lambda n, w: windows(n, w) | windows(n, w).mT, "in sight as well"),
        (lambda n, w: windows(n, [k + 1 for k in w]), "one place too many"),
        (lambda n, w: windows(n, w[::-1]), "in reverse order"),
        (lambda n, w: causal_mask(n).expand(1, 3, n, n), "the whole past"),
        (lambda n, w: windows(n, w).float(), "must hold True and False"),
    ],
}


# What is right, in the book's way and in others.


def split_by_loops(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def layer_by_loops(x, w_q, w_k, w_v, w_o, num_heads):
    heads = zip(*(w.chunk(num_heads, dim=-1) for w in (w_q, w_k, w_v)), strict=True)
    found = [F.scaled_dot_product_attention(x @ q, x @ k, x @ v) for q, k, v in heads]
    return torch.cat(found, dim=-1) @ w_o


def pruned_by_einsum(found, w_o, keep):
    blocks = w_o.unflatten(0, (found.shape[1], -1))
    kept = torch.tensor(keep, dtype=found.dtype)
    return torch.einsum("bhtd,hdm,h->btm", found, blocks, kept)


RIGHT = {
    "multi_head_count": [
        3 * (512 * 256 + 256) + 256 * 100 + 100,
        np.int64(419684),
    ],
    "split_heads": [
        split_heads,
        split_by_loops,
        lambda x, h: x.unflatten(-1, (h, -1)).permute(0, 2, 1, 3),
    ],
    "multi_head": [
        layer(),
        layer_by_loops,
    ],
    "pruned": [
        pruned,
        pruned_by_einsum,
    ],
    "head_windows": [
        windows,
    ],
}
