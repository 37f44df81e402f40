"""The checks of chapter 4: each usual mistake is made, and must be named."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attention_lib import exercises
from attention_lib.masks import causal_mask, sliding_window_mask
from attention_lib.multi_head import merge_heads, split_heads

FUNCTIONS = ["split_heads", "multi_head", "pruned", "head_windows"]


def check(name, answer):
    return getattr(exercises, f"check_{name}")(answer)


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


MISTAKES = [
    # Exercise 4.1
    ("multi_head_count", 418816, "The biases are missing"),
    ("multi_head_count", 418916, "biases of the three projections"),
    ("multi_head_count", 419584, "output projection has a bias, too"),
    ("multi_head_count", 393984, "output projection is missing"),
    ("multi_head_count", 525568, "The output is 100 wide"),
    ("multi_head_count", 445284, "where the heads stand side by side"),
    ("multi_head_count", 74948, "one head's queries"),
    ("multi_head_count", 420384, "bias of its own here"),
    ("multi_head_count", 157028, "have a projection each"),
    ("multi_head_count", 813668, "goes from 512 to the inner width"),
    ("multi_head_count", 839268, "goes from 512 to the inner width"),
    ("multi_head_count", 1050624, "goes from 512 to the inner width"),
    ("multi_head_count", 7, "Not that many: list"),
    # Exercise 4.2
    ("split_heads", view_alone, "a view alone moves"),
    ("split_heads", by_token, "do not stand before the tokens"),
    ("split_heads", lambda x, h: apart(x, h).permute(0, 3, 1, 2), "be neighbours"),
    ("split_heads", apart, "The heads are the last axis"),
    ("split_heads", lambda x, h: split_heads(x, h).mT, "Tokens and features have"),
    ("split_heads", lambda x, h: by_token(x, h).transpose(0, 2), "batch and the heads"),
    ("split_heads", lambda x, h: split_heads(x, h).transpose(0, 1), "before the batch"),
    (
        "split_heads",
        lambda x, h: split_heads(x, h) if h > 1 else x,
        "For a single one: The shape",
    ),
    ("split_heads", lambda x, h: (split_heads(x, h), x), "returns 2 things"),
    # Exercise 4.3
    ("multi_head", layer(view_alone, view_back, "input"), "mixed, and the scale takes"),
    ("multi_head", layer(view_alone, view_back), "mixed: a view alone moves nothing"),
    ("multi_head", layer(view_alone, by="input"), "heads are mixed, and the scale"),
    ("multi_head", layer(view_alone), "mixed: a view alone moves nothing"),
    ("multi_head", layer(join=view_back, by="input"), "One step is right; but on the"),
    ("multi_head", layer(join=view_back), "Nearly: on the way back"),
    ("multi_head", layer(by="input"), "One bug is left: the scale."),
    ("multi_head", layer(by="none"), "The scores are not scaled"),
    (
        "multi_head",
        lambda *given: layer(by="inner" if len(given[4]) > 6 else None)(*given),
        "For wider ones: The scale takes the width of all heads together",
    ),
    ("multi_head", one_wide_head, "one wide head, not several"),
    ("multi_head", layer(mixed=False), "what mixes it?"),
    ("multi_head", layer(swapped=True), "Queries and keys have changed"),
    (
        "multi_head",
        cut_by_the_input,
        "Right where the heads together are as wide as the input. For wider ones: "
        "Your code raised RuntimeError",
    ),
    ("multi_head", printing, "One bug is left: it prints"),
    # Exercise 4.4
    ("pruned", lambda f, w, keep: merge_heads(f) @ w, "No head is left out"),
    ("pruned", lambda f, w, keep: pruned(f, w, [not k for k in keep]), "heads to keep"),
    ("pruned", lambda f, w, keep: pruned(f, w, keep) / 3, "This averages"),
    ("pruned", lambda f, w, keep: pruned(f, w, keep) / max(sum(keep), 1), "This avera"),
    ("pruned", lambda f, w, keep: pruned(f, torch.eye(12), keep), "side by side: what"),
    (
        "pruned",
        lambda f, w, keep: view_back(f * torch.tensor(keep)[:, None, None]) @ w,
        "which axes change",
    ),
    ("pruned", lambda f, w, keep: f[:, torch.tensor(keep)].sum(1), "has its own block"),
    ("pruned", without_return_if_none, "With none kept: your code gives nothing back"),
    # Exercise 4.5
    ("head_windows", lambda n, w: windows(n, w)[0], "axis of the texts is missing"),
    ("head_windows", lambda n, w: windows(n, w)[0][:, None], "where the texts belong"),
    ("head_windows", lambda n, w: ~windows(n, w), "True means blocked"),
    ("head_windows", lambda n, w: windows(n, w).mT, "what is to come: is the triangle"),
    ("head_windows", lambda n, w: windows(n, w) | windows(n, w).mT, "in sight as well"),
    ("head_windows", lambda n, w: windows(n, [k + 1 for k in w]), "one place too many"),
    ("head_windows", lambda n, w: windows(n, w[::-1]), "in reverse order"),
    ("head_windows", lambda n, w: causal_mask(n).expand(1, 3, n, n), "the whole past"),
    ("head_windows", lambda n, w: windows(n, w).float(), "must hold True and False"),
]


@pytest.mark.parametrize(("name", "answer", "words"), MISTAKES)
def test_check_names_the_mistake(name, answer, words):
    verdict = check(name, answer)
    assert verdict.passed is False
    assert words in verdict.message


# What is right, in the book's way and in others.


def split_by_loops(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def layer_by_loops(x, w_q, w_k, w_v, w_o, num_heads):
    heads = zip(*(w.chunk(num_heads, dim=-1) for w in (w_q, w_k, w_v)), strict=True)
    found = [F.scaled_dot_product_attention(x @ q, x @ k, x @ v) for q, k, v in heads]
    return torch.cat(found, dim=-1) @ w_o


def pruned_by_sums(found, w_o, keep):
    output = torch.zeros(len(found), found.shape[2], w_o.shape[1])
    for head, block in enumerate(w_o.split(found.shape[-1])):
        if keep[head]:
            output += found[:, head] @ block
    return output


def pruned_by_einsum(found, w_o, keep):
    blocks = w_o.unflatten(0, (found.shape[1], -1))
    kept = torch.tensor(keep, dtype=found.dtype)
    return torch.einsum("bhtd,hdm,h->btm", found, blocks, kept)


def windows_by_loops(length, widths):
    mask = torch.zeros(1, len(widths), length, length, dtype=torch.bool)
    for head, width in enumerate(widths):
        for row in range(length):
            mask[0, head, row, max(0, row - width + 1) : row + 1] = True
    return mask


RIGHT = [
    ("multi_head_count", 3 * (512 * 256 + 256) + 256 * 100 + 100),
    ("multi_head_count", np.int64(419684)),
    ("split_heads", split_heads),
    ("split_heads", split_by_loops),
    ("split_heads", lambda x, h: x.unflatten(-1, (h, -1)).permute(0, 2, 1, 3)),
    ("multi_head", layer()),
    ("multi_head", layer_by_loops),
    ("pruned", pruned),
    ("pruned", pruned_by_sums),
    ("pruned", pruned_by_einsum),
    ("head_windows", windows),
    ("head_windows", windows_by_loops),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_check_passes_what_is_right(name, answer):
    verdict = check(name, answer)
    assert verdict.passed is True, verdict


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("came", [(1, 2), [1.0], 0.5, "text", {}, np.ones(2)])
def test_check_says_what_came_instead_of_an_array(name, came):
    assert "Your function returns" in check(name, lambda *inputs: came).message


def test_check_of_a_layer_prints_nothing_of_its_own(capsys):
    check("multi_head", layer())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_leaves_random_numbers_alone(name):
    state = torch.get_rng_state()
    check(name, dict(RIGHT)[name])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("name", "answer", "words"), MISTAKES)
def test_message_gives_nothing_away(name, answer, words):
    message = re.sub(r" in `.*`.*|of type .*", "", check(name, answer).message)
    code = r"view\(|transpose|reshape|permute|dim=|torch\.|\*\*|\.mT|@|<|=="
    assert not re.search(rf"{code}|\b419,?684\b", message)


def test_every_message_is_tested(spoken):
    said = " ".join(
        [check(name, answer).message for name, answer, _ in MISTAKES]
        + [check(name, answer).message for name, answer in RIGHT]
    )
    assert [words for words in spoken("multi_head") if words not in said] == []
