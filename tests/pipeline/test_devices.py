"""The pretended GPU: it refuses what CUDA refuses, and else gives the CPU's numbers.

It stays in processes of its own: once there, the device cannot be taken out of torch.
"""

import json
import os
import sys
from unittest.mock import Mock

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from torch import nn

from tests.running import ROOT, ran
from tools.check import devices
from tools.check.placement import ON_PURPOSE, misplaced
from tools.record.execute import kernel_environment

START = """\
import json, sys
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tools.check.pretend import install
install()
device = torch.device("pretend")
here = torch.arange(12.0).view(3, 4).to(device)
torch.use_deterministic_algorithms(True)
"""

MIX, GENERATOR = "on the same device", "device type for generator"
TO_NUMPY, REPEAT = "to numpy. Use Tensor.cpu()", "have a deterministic implementation"
# What a learner may write, by CUDA's words for it.
MISTAKES = {
    MIX: [
        "here + torch.arange(4.0)",
        "here.masked_fill(torch.ones(3, 4) > 0, 0.0)",
        "F.scaled_dot_product_attention(here, here, here, torch.ones(3, 3) > 0)",
        "F.embedding(torch.tensor([1, 2]), here)",
        "nn.Linear(4, 2)(here)",
        "torch.zeros(3, 4).add_(here)",
        "torch.cat([here, torch.ones(1, 4)])",
    ],
    "meta": ["here + torch.ones(4, device='meta')"],
    GENERATOR: [
        "torch.randn(3, device=device, generator=torch.Generator())",
        "here.bernoulli_(generator=torch.Generator())",
    ],
    TO_NUMPY: ["here.numpy()", "np.asarray(here)"],
    REPEAT: [
        "F.cross_entropy(here[None], torch.zeros(1, 4, device=device).long())",
        "here.cumsum(0)",
        "here.median(dim=0)",
        "torch.bincount(here[0].long(), weights=here[0])",
    ],
}
# What CUDA takes as well.
ALLOWED = [
    "here + torch.tensor(2.0)",
    "here[torch.tensor([0, 2])]",
    "here.clone().copy_(torch.ones(3, 4))",
    "here.long().cumsum(0)",
    "torch.bincount(here[0].long())",
    "here.median()",
    "repr(here), f'{here[0, 0]:.1f}', here.any().item(), here.cpu().numpy()",
]
# Functions of a device that return a tensor; both devices must give the same.
AGREE = {
    "training": """
def f(device):
    torch.manual_seed(0)
    layers = nn.Embedding(7, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 7)
    model = nn.Sequential(*layers).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model[0].weight = model[3].weight
    model.to(device)
    assert model[0].weight is model[3].weight
    ids = torch.arange(12).view(3, 4).remainder(7).to(device)
    for _ in range(4):
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])""",
    "views written to": """
def f(device):
    x = torch.arange(12.0, device=device).view(3, 4).requires_grad_()
    y = x * 2
    y[1:, 1] *= 3
    y.T[2].add_(1)
    (y * y.detach()).sum().backward()
    return torch.cat([x.grad, y.detach()])""",
    "growing results": """
def f(device):
    x = torch.arange(-6.0, 6.0, device=device)
    wanted = [x.abs(), x.sort(descending=True).values, x[x > 2], x.nonzero().flatten()]
    return torch.cat([*wanted, x.unique(), torch.linspace(0, 1, 3, device=device)])""",
    "numbers with tensors": """
def f(device):
    x = torch.arange(20, dtype=torch.uint8, device=device)
    wanted = [x % 16, x & 15, x | 3, x ^ 3, 3 & x, x >> 2, 3 - x, 2 % (x + 1), x // 4]
    wanted += [torch.fmod(x, 3), torch.xlogy(2, x), x.clamp(min=3), x * 2.5]
    return torch.cat(wanted)""",
}
SAME = """
torch.testing.assert_close(f(device).cpu(), f(torch.device("cpu")))
assert f(device).device.type == 'pretend'"""
DRAWN = """
torch.manual_seed(0)
one, other = torch.randn(5), torch.randn(5)
torch.manual_seed(0)
first = torch.randn(5)
there = torch.randn(5, device=device)
assert torch.equal(first, one) and torch.equal(torch.randn(5), other)
torch.manual_seed(0)
assert torch.equal(torch.randn(5, device=device), there)
assert not torch.isin(there.cpu(), torch.cat([one, other])).any()"""
RUN = """
def run(source):
    try:
        exec(source, {**globals()})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "fine"
print(json.dumps([run(source) for source in json.load(sys.stdin)]))"""


def outcomes(sources):
    """Run each source in one fresh interpreter, warnings being errors."""
    done = ran(
        [sys.executable, "-W", "error", "-c", START + RUN],
        input=json.dumps(sources),
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(sources, json.loads(done.stdout), strict=True))


def test_pretended_gpu_refuses_what_cuda_refuses_and_else_computes_as_the_cpu():
    agree = [body + SAME for body in AGREE.values()]
    mistakes = [source for sources in MISTAKES.values() for source in sources]
    said = outcomes([*mistakes, *ALLOWED, *agree, DRAWN])
    for words, sources in MISTAKES.items():
        kind = "TypeError" if words == TO_NUMPY else "RuntimeError"
        for source in sources:
            assert said[source].startswith(kind), source
            assert words in said[source], source
    right = [*ALLOWED, *agree, DRAWN]
    assert {source: said[source] for source in right} == dict.fromkeys(right, "fine")


# A notebook's run.

BEGIN = """\
import torch
from torch import nn
from attention_lib import causal_mask, make_deterministic, seeded
device = make_deterministic()
x = torch.randn(3, 4, generator=seeded(0)).to(device)
print(device.type == "pretend")"""
# The first cell says on which device it is; the last, which module is not on it.
RIGHT = ["part = nn.Linear(4, 2).to(device)", "print(part(x).shape)"]
WRONG = [
    "print((x @ x.T).masked_fill(causal_mask(3), 0.0).shape)",
    "print(torch.randn(3, generator=seeded(0), device=device).shape)",
    "print(x.numpy().shape)",
    "layer = nn.Linear(4, 2)\nprint(tuple(layer(x).shape))",
    "print('untouched')",
]


@pytest.mark.slow
def test_run_fails_on_each_wrong_cell_and_no_other(tmp_path):
    cells = [new_code_cell(source) for source in (BEGIN, *RIGHT, *WRONG)]
    notebook = new_notebook(cells=cells)
    on_cpu = {**kernel_environment(ROOT), "ATTENTION_DEVICE": "cpu"}
    NotebookClient(notebook, kernel_name="python3").execute(env=on_cpu)
    nbformat.write(notebook, tmp_path / "one.ipynb")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    plugins = ["-p", "tools.check.compare", "-p", "tools.check.devices", "--nbval"]
    own = {"ATTENTION_DEVICE": "pretend", "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = ran(
        [sys.executable, "-m", "pytest", *plugins, "one.ipynb"],
        cwd=tmp_path,
        env={**os.environ, **own},
    )
    words = done.stdout + done.stderr
    assert done.returncode == 1, words
    failed = {line.split(" - ")[0] for line in words.splitlines() if "FAILED" in line}
    wrong = [0, *range(len(RIGHT) + 1, len(cells))]
    assert failed == {f"FAILED one.ipynb::Cell {n}" for n in wrong}
    assert "device: pretend, torch" in words
    assert "\nlayer.weight is on cpu, not on pretend" in words


@pytest.mark.parametrize(
    ("device", "words"),
    [("cpu", "to `cuda` or `pretend`"), ("cuda", "no device .torch")],
)
def test_run_wants_a_device_that_is_there(monkeypatch, device, words):
    broken = Mock(side_effect=RuntimeError("no device\nand more"))
    monkeypatch.setattr(torch, "ones", broken)
    monkeypatch.setenv("ATTENTION_DEVICE", device)
    with pytest.raises(pytest.UsageError, match=words):
        devices.pytest_configure()


# Where modules are.


def linear(device="cpu"):
    return nn.Linear(2, 3, device=device)


def test_misplaced_names_each_module_and_tensor():
    loop = [linear()]
    loop.append(loop)  # it ends there
    buffer, unregistered = linear("meta"), nn.Sequential(linear("meta"))
    buffer.register_buffer("mask", torch.ones(2))
    unregistered[0].places = torch.ones(2)
    named = {
        "one": linear(),
        "deep": [{"mlp": (linear("meta"), linear())}],
        "loop": loop,
        "buffer": buffer,
        "unregistered": unregistered,
    }
    faults = [fault.split(" is on cpu, not")[0] for fault in misplaced(named, "cuda")]
    assert faults == [
        "one.weight",
        "deep[0]['mlp'][1].weight",
        "loop[0].weight",
        "buffer.mask",
        "unregistered.0.places",
    ]


def test_misplaced_passes_what_is_right():
    right = {"counted": linear("meta"), "ids": torch.arange(3), "Linear": nn.Linear}
    right |= {name: linear() for name in ("_1", *ON_PURPOSE)}
    assert misplaced(right, "cuda") == []
    assert misplaced({"placed": linear()}, "cpu") == []
