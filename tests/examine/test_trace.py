"""Steps of a layer: the first that differs from a reference, and those that explain."""

import pytest
import torch
from torch import nn

from attention_lib.examine import CHECKS, examine
from attention_lib.examine.recorder import Recorder
from tests.samples.plain_layer import OUT, before, made

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


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
