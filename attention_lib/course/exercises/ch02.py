"""Checks of chapter 2: a projection, its parameters, and a trainable head."""

from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.attention import SelfAttention, scaled_dot_product_attention
from attention_lib.course.exercises.verdict import (
    Mistakes,
    Verdict,
    judge,
    judge_number,
    make_layer,
    run,
)
from attention_lib.reproducibility import seeded


def check_linear(answer: object) -> Verdict:
    """Checks x·wᵀ + b, with w as ``nn.Linear`` stores it: (out, in)."""
    rng = seeded(0)
    # Square, so that a weight that is not transposed gives numbers and no error.
    x, w = torch.randn(2, 3, 3, generator=rng), torch.randn(3, 3, generator=rng)
    b = torch.randn(3, generator=rng)
    wrong = judge(answer, (x, w, b), x @ w.T + b, _linear_mistakes(x, w, b))
    others = [
        (
            x,
            w[:2],
            b[:2],
            "This is right for a square weight. For one of shape (2, 3):",
        ),
        (x[0], w, b, "This is right for three axes. For x of shape (3, 3):"),
        (x[None], w, b, "This is right for three axes. For x of shape (1, 2, 3, 3):"),
    ]
    for x, w, b, so_far in others:
        wrong = wrong or judge(answer, (x, w, b), x @ w.T + b, so_far=so_far)
    return wrong or Verdict(
        True, "Your function equals nn.Linear, for all widths and axes in front."
    )


def check_parameter_count(answer: object) -> Verdict:
    """Checks the parameters of ``SelfAttention(768, 64, qkv_bias=True)``."""
    weight, bias = 768 * 64, 64
    mistakes = [
        (3 * weight, "The three biases are missing."),
        (3 * weight + bias, "There is only one bias: each projection has its own."),
        (3 * bias, "Only biases are counted: the weights are missing."),
        (weight + bias, "That is one projection: how many does a head have?"),
        (weight, "That is one weight: what else does a head have?"),
        (2 * (weight + bias), "Those are two projections: how many does a head have?"),
        (3 * (weight + 768), "A bias is as long as its projection's output."),
        (4 * (weight + bias), "There is no output projection in this head."),
        (12 * 3 * (weight + bias), "Those are all twelve heads: this one is 64 wide."),
        (3 * (64 * 64 + 64), "A projection is not square: it starts at 768."),
        (3 * (768 + 64), "A weight is a matrix: how many numbers does it hold?"),
    ]
    return judge_number(
        answer,
        3 * (weight + bias),
        "There are three weights of 64 × 768 and three biases of 64.",
        mistakes,
        "That is not the number: list each weight and each bias with its shape.",
    )


def check_head(answer: object) -> Verdict:
    """Checks a head, ``head(x, w_q, w_k, w_v)``, its weights stored as (in, out)."""
    rng = seeded(0)
    x = torch.randn(2, 3, 6, generator=rng)
    # All lengths and widths differ, so that no wrong scale is right.
    w_q, w_k = torch.randn(2, 6, 5, generator=rng)
    w_v = torch.randn(6, 7, generator=rng)
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    right = scaled_dot_product_attention(query, key, value)
    mistakes = [
        *_wrong_scales(x, query, key, value),
        *_wrong_inputs(x, query, key, value),
        *_wrong_weights(query, key, value),
    ]
    return judge(answer, (x, w_q, w_k, w_v), right, mistakes) or Verdict(
        True, "Your head equals the library's, for values of another width too."
    )


def check_self_attention(answer: object) -> Verdict:
    """Checks the reader's class of a head, ``MyHead(d_model, head_dim, dropout)``."""
    x = torch.randn(2, 3, 6, generator=seeded(0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = [make_layer(answer, 6, 5, dropout) for dropout in (0.25, 0.0)]
        for head in made:
            came = head if isinstance(head, Verdict) else _of_module(head, x)
            if isinstance(came, Verdict):
                return came
        return _judge_module(made[0], made[1], x)


def _of_module(head: Any, x: Tensor) -> Any:
    """Gives what the reader's layer makes of x; a verdict where it is no such layer."""
    came = run(head.forward, x)
    right = {name: p.shape for name, p in SelfAttention(6, 5).named_parameters()}
    yours = {name: p.shape for name, p in head.named_parameters()}
    if isinstance(came, Verdict) or yours == right:
        return came
    owned = ", ".join(f"{name} {tuple(shape)}" for name, shape in yours.items())
    message = "The head should own three linear layers, q_proj, k_proj and v_proj, "
    message += f"from 6 to 5 here, without biases. It owns: {owned or 'nothing'}."
    return Verdict(False, message)


def _judge_module(dropping: Any, head: Any, x: Tensor) -> Verdict:
    """Judges two layers of the reader: one drops a quarter of the weights, one none."""
    named = dict(head.named_parameters())
    query, key, value = (
        x @ named[f"{name}_proj.weight"].detach().mT for name in ["q", "k", "v"]
    )
    right = scaled_dot_product_attention(query, key, value)
    mistakes = [
        *_wrong_scales(x, query, key, value),
        *_wrong_inputs(x, query, key, value),
        *_wrong_weights(query, key, value),
    ]
    if wrong := judge(head.forward, (x,), right, mistakes):
        return wrong
    head(x).square().sum().backward()
    if any(p.grad is None or not p.grad.any() for p in head.parameters()):
        return Verdict(
            False, "This is right, but no gradient reaches all three projections."
        )
    dropping.load_state_dict(head.state_dict())
    dropping.eval()
    if not torch.allclose(dropping(x), right, atol=1e-5):
        return Verdict(
            False, "This is right without dropout. In evaluation it still drops."
        )
    return _judge_dropout(dropping.train())


def _judge_dropout(head: nn.Module) -> Verdict:
    """Judges what a layer drops: equal weights, all values 1, so sums of weights."""
    x = torch.randn(8, 40, 6, generator=seeded(1))
    x[..., 0] = 1
    with torch.no_grad():
        head.get_parameter("q_proj.weight").zero_()
        head.get_parameter("v_proj.weight").copy_(torch.eye(6)[:1].expand(5, 6))
        sums = head(x)
    still = "This is right in evaluation. While training"
    if torch.allclose(sums, torch.ones_like(sums), atol=1e-5):
        message = f"{still}, each row of weights still sums to 1: what is dropped?"
        return Verdict(False, message)
    if not torch.allclose(sums, sums[..., :1].expand_as(sums), atol=1e-5):
        message = f"{still}, numbers of the values or of the mix are dropped, not "
        return Verdict(False, f"{message}weights.")
    if abs(sums.mean() - 1) > 0.1:
        message = f"{still}, rows sum to {sums.mean():.1f} on average, not to 1: what "
        return Verdict(False, f"{message}is kept should be enlarged.")
    alike = [sums.std(0).max() < 1e-5, sums.std(1).max() < 1e-5, (sums == 0).any()]
    for found, what in zip(alike, ["texts", "queries", "keys"], strict=True):
        if found:
            message = f"{still}, all {what} lose their weights together: drop each "
            return Verdict(False, f"{message}weight on its own.")
    # Each of 40 equal weights is lost in a quarter of the cases, else divided by 3/4.
    if not 0.5 < sums.var() / (0.25 / 0.75 / 40) < 2:
        message = f"{still}, another share of the weights is lost than `dropout` says."
        return Verdict(False, message)
    return Verdict(True, "Your head equals the library's, and it drops weights only.")


def _linear_mistakes(x: Tensor, w: Tensor, b: Tensor) -> Mistakes:
    left = "The weight stands on the left: it mixes positions, not features."
    return [
        (x @ w + b, "The weight is not transposed: it is stored as (out, in)."),
        (x @ w, "The weight is not transposed, and the bias is missing."),
        (x @ w.T, "The bias is missing."),
        (x @ w.T - b, "The bias is subtracted."),
        ((x + b) @ w.T, "The bias is added before the product, not after."),
        (x @ w.T + b[:, None], "The bias changes by position, not by feature."),
        (w @ x + b, left),
        (w.T @ x + b, left),
        (x * w + b, "This multiplies number by number: no products are summed."),
    ]


def _wrong_scales(x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Mistakes:
    def scaled(by: float, mixed: Tensor = value) -> Tensor:
        return scaled_dot_product_attention(query, key, mixed, scale=by)

    length, width = x.shape[-2:]
    head_dim = query.shape[-1]
    return [
        (scaled(width**-0.5, x), "Two bugs are left."),
        (scaled(width**-0.5), "One bug is left: the scale takes the input's width. How "
         "many products does a score sum?"),
        (scaled(1.0, x), "The scores are not scaled, and the input is mixed."),
        (scaled(1.0), "The scores are not scaled at all."),
        (scaled(1 / head_dim), "The scale is the width: take its root."),
        (scaled(head_dim**0.5), "The scores are multiplied by the root: divide them."),
        (scaled(value.shape[-1] ** -0.5), "The scale takes the width of the values: a "
         "score has nothing to do with them."),
        (scaled(length**-0.5), "The scale takes the length, not a width."),
    ]  # fmt: skip


def _wrong_inputs(x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Mistakes:
    attend = scaled_dot_product_attention
    return [
        (attend(query, key, x), "One bug is left: the input is mixed, not the values."),
        (attend(query, key, query), "The queries are mixed, not the values."),
        (attend(query, key, key), "The keys are mixed, not the values."),
        (attend(key, query, value), "Queries and keys have changed places."),
        (attend(query, query, value), "The queries are compared with themselves."),
        (attend(key, key, value), "The keys are compared with themselves."),
        (attend(x, x, value), "The inputs are compared, not queries with keys."),
    ]


def _wrong_weights(query: Tensor, key: Tensor, value: Tensor) -> Mistakes:
    raw = query @ key.mT
    scores = raw * query.shape[-1] ** -0.5
    unweighted = "The scores were never turned into weights."
    return [
        (scores.softmax(1) @ value, "The softmax runs over the queries, not the keys."),
        (scores.softmax(0) @ value, "The softmax runs over the batch, not the keys."),
        (scores @ value, unweighted),
        (raw @ value, unweighted),
        (scores.softmax(-1), "These are the weights: what do they mix?"),
    ]
