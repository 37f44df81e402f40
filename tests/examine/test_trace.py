# ruff: noqa: E501
"""Steps of a layer: the first that differs from a reference, and those that explain."""

import pytest
import torch
from torch import nn

from attention_lib.examine import CHECKS, examine
from attention_lib.examine.recorder import Recorder
from tests.samples.plain_layer import OUT, SOFTMAX, START, after, before, made
from tests.samples.right_layers import ROPE

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
DIFFERENT = {
    "axis": (SOFTMAX, SOFTMAX.replace("-1", "1"), "softmax(7×3×6×6, dim=1)"),
    "reference's axis": (SOFTMAX, SOFTMAX.replace("-1", "1"), "dim=-1) (in forward"),
    "scale": (
        "math.sqrt(self.head_dim)", "self.head_dim", "7×3×6×6 are 0.5 times as large",
    ),
    "more": (OUT, "out = weights.flip(1) @ v", "flip(7×3×6×6, 1) (in forward, line"),
    "less": ("weights = weights.masked_fill(~seen, 0.0)", "", "which the layer does not"),
    "mask": ("tril(S - T)", "tril(S - T + 1)", "at [0, 1] of 6×6 it has True, not False"),
    "order": (
        "q = self.q_proj(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)",
        "q = self.q_proj(x).view(B, T, 4, 3).permute(0, 3, 1, 2)",
        "are the same, in another order",
    ),
    "gradient": (OUT, "out = weights.detach() @ v", "gradients end at detach(7×3×6×6)"),
    "gradient in training": (
        OUT,
        "out = (weights.detach() if self.training else weights) @ v",
        "gradients end at detach(7×3×6×6)",
    ),
    "16 bits": (
        SOFTMAX, "weights = scores.bfloat16().softmax(-1).to(scores.dtype)", "in bfloat16",
    ),
    "dropout": (
        "weights = self.drop(weights)",
        "weights = F.dropout(weights, 0.4, self.training)",
        "dropout(7×3×6×6, p=0.4, training=True)",
    ),
    "old": (
        "k = self.k_proj(x)",
        "k = self.kept = self.k_proj(x) if self.training or not hasattr(self, 'kept')"
        " or self.kept.shape[:2] != x.shape[:2] else self.kept\n        k = k",
        "the layer reads what its call 1 made",
    ),
}  # fmt: skip
SEEN = {
    "offset": {
        "values carry positions": (
            *ROPE,
            *("        if cache", "        v = turn(v)\n        if cache"),
        ),
        "not distances alone": (*ROPE, "q @ k.trans", "(q + T) @ k.trans"),
    },
    "deterministic": {"add(x, 1)": before(START, "x += 1")},
    "future": {
        "it takes the mean over tokens: mean(x, 1, keepdim=True)": (
            "self.q_proj(x)",
            "self.q_proj(x - x.mean(1, keepdim=True))",
        ),
        "in 600 tokens, 472 outputs, from 128 to 599, do not depend on earlier token 100": before(
            SOFTMAX, "scores[:, :, 128:, 90:110] = -1e30"
        ),
        # The last of a block of 512 is lost to those behind it.
        "from 512 to 599, do not depend on earlier token 511": before(
            SOFTMAX, "scores[:, :, 512:, 511:512] = -1e30"
        ),
        "sees the next token, too": ("tril(S - T)", "tril(S - T + 1)"),
    },
    "large scores": {
        "is a maximum taken of the whole batch": (
            *(SOFTMAX, "weights = (scores - scores.max()).exp()"),
            *after(".exp()", "weights = weights / weights.sum(-1, True)"),
        ),
        "no larger than 1, though it names a cap of 9": (
            *before("self.drop = nn", "self.softcap = 9"),
            *before("scores = scores.masked", "scores = scores.tanh()"),
        ),
    },
    "training": {
        "scores are dropped, not weights: dropout(17×3×13×13, p=0.1, training=True)": before(
            SOFTMAX, "scores = self.drop(scores)"
        )
    },
    "cache": {
        "beside a cache the mask is ignored": (
            "if mask is not None:",
            "if mask is not None and cache is None:",
        ),
        "40 tokens, in pieces of 31, 7, 1, 1": before(
            "if causal:", "if S > T > 5: seen[:, :9] = 0"
        ),
        "positions begin at 0 again": (*ROPE, "else cache.length\n", "else 0\n"),
    },
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_reference_names_the_first_step_that_differs(name):
    old, new, words = DIFFERENT[name]
    layers = {"layer": made(old, new), "reference": made()}
    found = examine(**layers, checks=["reference"], progress=False)
    seen = found["reference"].seen
    assert words in seen.partition("Step by step: ")[2], seen


@pytest.mark.parametrize(("check", "words"), [(c, w) for c in SEEN for w in SEEN[c]])
def test_examine_names_what_no_reference_is_needed_for(check, words):
    layer = made(*SEEN[check][words])
    seen = examine(layer, checks=[check], progress=False)[check].seen
    assert words in seen, seen


def test_memory_that_is_kept_between_calls_is_seen():
    class Keeps(nn.MultiheadAttention):
        def forward(self, x, memory=None):
            if memory is not None:
                memory = self.__dict__.setdefault("kept", memory)
            memory = x if memory is None else memory
            return super().forward(x, memory, memory)[0]

    found = examine(
        Keeps(12, 3, batch_first=True), checks=["memory"], progress=False,
        calls=lambda layer, x, memory=None: layer(x, memory),
    )  # fmt: skip
    assert "the first is kept between calls" in found["memory"].seen


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("assert T != 40", "AssertionError"),
        ("[1 / (T - 40) for _ in range(1)]", "ZeroDivisionError"),
    ],
)
def test_an_error_is_told_with_its_line(line, error):
    """A comprehension has a frame of its own in Python 3.11, and none later."""
    wrong = made(*before(OUT, line))
    seen = examine(wrong, checks=["shape"], progress=False)["shape"].seen
    assert f"raised {error}" in seen
    assert "in forward, line" in seen


def test_fused_attention_is_recorded_as_its_steps():
    class Fused(nn.Linear):
        def forward(self, x):
            q = super().forward(x)
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    layer, x = Fused(5, 5), torch.randn(2, 3, 5)
    with Recorder(layer) as recorder:
        found = layer(x)
    torch.testing.assert_close(found, layer(x))
    names = [step.name for step in recorder.steps]
    assert names[:3] == ["linear", "mT", "matmul"]
    assert names[-3:] == ["masked_fill", "softmax", "matmul"]


def test_steps_do_not_hurt_what_cannot_be_recorded():
    class Strange(nn.Linear):
        def forward(self, x):
            modes = torch.overrides._get_current_function_mode_stack()
            if any(isinstance(mode, Recorder) for mode in modes):
                raise RuntimeError("not in a mode")
            return super().forward(x)

    one, two = Strange(5, 5), nn.Linear(5, 5)
    two.load_state_dict(one.state_dict())
    fast = [name for name in CHECKS if name not in ("compile", "export")]
    assert (
        "reference"
        not in examine(one, reference=two, checks=fast, progress=False).failed
    )
