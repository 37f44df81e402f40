"""The pretended GPU: it refuses what CUDA refuses, and else gives the CPU's numbers.

It stays in processes of its own: once there, the device cannot be taken out of torch.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
import yaml
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from torch import nn

from tools.check import devices
from tools.check.placement import ON_PURPOSE, misplaced
from tools.record.execute import kernel_environment

ROOT = Path(__file__).resolve().parents[1]
GPU_WORKFLOW = ROOT / ".github" / "workflows" / "gpu.yml"
START = """\
import copy, io, json, sys
import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from tools.check.pretend import install
install()
device = torch.device("pretend")
here = torch.arange(12.0).view(3, 4).to(device)
torch.use_deterministic_algorithms(True)
"""

MIX, GENERATOR = "on the same device", "device type for generator"
TO_NUMPY, REPEAT = "to numpy. Use Tensor.cpu()", "have a deterministic implementation"
LEFT_OUT = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = torch.arange(4.0)  # no buffer, so `.to` misses it
    def forward(self, x):
        return x + self.places
Layer().to(device)(here)"""
# What a learner may write, and CUDA's words for it.
MISTAKES = {
    "positions made on the CPU": ("here + torch.arange(4.0)", MIX),
    "mask made on the CPU": ("here.masked_fill(torch.ones(3, 4) > 0, 0.0)", MIX),
    "SDPA's mask made on the CPU": (
        "F.scaled_dot_product_attention(here, here, here, torch.ones(3, 3) > 0)",
        MIX,
    ),
    "ids on the CPU": ("F.embedding(torch.tensor([1, 2]), here)", MIX),
    "targets on the CPU": ("F.cross_entropy(here, torch.tensor([1, 2, 3]))", MIX),
    "module never moved": ("nn.Linear(4, 2)(here)", MIX),
    "buffer not registered": (LEFT_OUT, MIX),
    "written to the CPU": ("torch.zeros(3, 4).add_(here)", MIX),
    "number on the CPU changed": ("torch.tensor(1.0).add_(here[0, 0])", MIX),
    "joined": ("torch.cat([here, torch.ones(1, 4)])", MIX),
    "compared": ("torch.equal(here, here.cpu())", MIX),
    "CPU tensor with indices there": (
        "torch.ones(3)[torch.tensor([0], device=device)]",
        MIX,
    ),
    "meta": ("here + torch.ones(4, device='meta')", "meta"),
    "generator": (
        "torch.randn(3, device=device, generator=torch.Generator())",
        GENERATOR,
    ),
    "dropout's generator": ("here.bernoulli_(generator=torch.Generator())", GENERATOR),
    "numpy": ("here.numpy()", TO_NUMPY),
    "asarray": ("np.asarray(here)", TO_NUMPY),
    "loss with a length axis": (
        "F.cross_entropy(here[None], torch.zeros(1, 4, device=device).long())",
        REPEAT,
    ),
    "float cumsum": ("here.cumsum(0)", REPEAT),
    "median with its place": ("here.median(dim=0)", REPEAT),
    "weighted bincount": (
        "torch.bincount(here[0].long(), weights=here[0])",
        REPEAT,
    ),
}
# What CUDA takes as well.
ALLOWED = {
    "a number on the CPU": "here + torch.tensor(2.0)",
    "CPU indices": "here[torch.tensor([0, 2])]",
    "CPU indices to write at": "here.clone()[torch.tensor([0, 2])].zero_()",
    "copying": "here.clone().copy_(torch.ones(3, 4))",
    "whole cumsum": "here.long().cumsum(0)",
    "plain bincount": "torch.bincount(here[0].long())",
    "median": "here.median()",
    "printing": "repr(here), f'{here[0, 0]:.1f}', here.tolist(), here.any().item()",
    "fetched": "here.cpu().numpy()",
}
# Functions of a device that return a tensor; both devices must give the same.
AGREE = {
    "attention": """
def f(device):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True).double().to(device)
    x = torch.randn(2, 5, 8, dtype=torch.double).to(device).requires_grad_()
    mask = torch.ones(5, 5, dtype=torch.bool, device=device).triu(1)
    layer(x, x, x, attn_mask=mask, need_weights=False)[0].square().sum().backward()
    return torch.cat([p.grad.flatten() for p in [x, *layer.parameters()]])""",
    "SDPA": """
def f(device):
    x = torch.sin(torch.arange(48.0)).view(1, 2, 3, 8).to(device).requires_grad_()
    mask = torch.ones(3, 3, dtype=torch.bool, device=device).tril()
    F.scaled_dot_product_attention(x, x, x, mask).square().sum().backward()
    return x.grad""",
    **{
        kind: f"""
def f(device):
    torch.manual_seed(0)
    layer = nn.{kind}(4, 3, num_layers=2, batch_first=True).double().to(device)
    x = torch.randn(2, 5, 4, dtype=torch.double).to(device).requires_grad_()
    layer(x)[0].square().sum().backward()
    with torch.inference_mode():
        again = layer(x)[0].flatten()
    return torch.cat([again, *(p.grad.flatten() for p in [x, *layer.parameters()])])"""
        for kind in ("RNN", "LSTM", "GRU")
    },
    "training": """
def f(device):
    torch.manual_seed(0)
    layers = nn.Embedding(7, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 7)
    model = nn.Sequential(*layers).double().to(device)
    ids = torch.arange(12).view(3, 4).remainder(7).to(device)
    for fused in (False, True):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
        for _ in range(4):
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])""",
    "tied weights, moved late": """
def f(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.LSTM(3, 2)).double()
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(device)
    assert model[1].weight is model[0].weight
    loss = model(torch.ones(2, 3, dtype=torch.double, device=device))[0].square().sum()
    loss.backward()
    optimizer.step()
    model.float()  # while a graph still holds the weights
    assert model[1].weight is model[0].weight
    return model[0].weight.detach()""",
    "views written to": """
def f(device):
    x = torch.arange(12.0, device=device).view(3, 4).requires_grad_()
    y = x * 2
    y[1:, 1] *= 3
    y.T[2].add_(1)
    (y * torch.arange(12.0, device=device).view(3, 4)).sum().backward()
    return torch.cat([x.grad, y.detach()])""",
    "copies and files": """
def f(device):
    layer = copy.deepcopy(nn.Linear(3, 2).double().to(device))
    nn.init.constant_(layer.weight, 0.5)
    file = safetensors.torch.save(dict(w=layer.weight.detach()))
    return safetensors.torch.load(file)["w"].to(device)""",
    "leak map": """
def f(device):
    x = torch.arange(6.0, device=device).view(3, 2)
    return torch.autograd.functional.jacobian(lambda x: (x @ x.T).softmax(-1), x)""",
    "FLOPs": """
def f(device):
    with FlopCounterMode(display=False) as counter:
        torch.ones(3, 4, device=device) @ torch.ones(4, 5, device=device)
    return torch.tensor(counter.get_total_flops(), device=device)""",
    "growing results": """
def f(device):
    x = torch.arange(-6.0, 6.0, device=device)
    wanted = [x.abs(), x.sort(descending=True).values, x[x > 2], x.nonzero().flatten()]
    return torch.cat([*wanted, x.unique(), torch.linspace(0, 1, 3, device=device)])""",
    "conjugates": """
def f(device):
    x = torch.complex(torch.ones(3), torch.arange(3.0)).to(device)
    return torch.stack([torch.view_as_real(x.conj() @ x), x.conj().imag[:2]])""",
}
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
sources = json.load(sys.stdin)
print(json.dumps({name: run(source) for name, source in sources.items()}))"""


def python(source: str, given: str = "") -> str:
    """Return what a fresh interpreter prints, warnings being errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        input=given,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """Run all sources in one process; each is fine, or ends with an error."""
    sources = {name: source for name, (source, _) in MISTAKES.items()} | ALLOWED
    check = "torch.testing.assert_close(f(device).cpu(), f(torch.device('cpu')))"
    placed = "assert f(device).device.type == 'pretend'"
    sources |= {name: f"{body}\n{check}\n{placed}" for name, body in AGREE.items()}
    sources["drawn"] = DRAWN
    return json.loads(python(START + RUN, json.dumps(sources)))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_fails_as_on_cuda(said: dict[str, str], name: str) -> None:
    kind = "TypeError" if MISTAKES[name][1] == TO_NUMPY else "RuntimeError"
    assert said[name].startswith(kind)
    assert MISTAKES[name][1] in said[name]


@pytest.mark.parametrize("name", [*ALLOWED, *AGREE, "drawn"])
def test_what_is_right_passes_with_the_numbers_of_the_cpu(
    said: dict[str, str], name: str
) -> None:
    assert said[name] == "fine"


# A notebook's run.

BEGIN = """\
import torch
from torch import nn
from attention_lib import causal_mask, make_repeatable, seeded
device = make_repeatable()
x = torch.randn(3, 4, generator=seeded(0)).to(device)
print(device.type == "pretend")"""
RIGHT = [
    BEGIN.replace('print(device.type == "pretend")', "print(x.sum().item())"),
    "layer = nn.Linear(4, 2).to(device)\nprint(layer(x).detach().cpu())",
]
WRONG = [
    BEGIN,
    "print((x + torch.arange(4)).sum().item() > -100)",
    "print((x @ x.T).masked_fill(causal_mask(3), 0.0).shape)",
    "print(torch.randn(3, generator=seeded(0), device=device).shape)",
    "print(x.numpy().shape)",
    "layer = nn.Linear(4, 2)\nprint(tuple(layer(x).shape))",
    "print('untouched')",
]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """Record two notebooks on the CPU, run them on the pretended GPU."""
    folder = tmp_path_factory.mktemp("devices")
    (folder / "notebooks").mkdir()
    for stem, sources in {"01-right": RIGHT, "02-wrong": WRONG}.items():
        notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
        on_cpu = {**kernel_environment(ROOT), "ATTENTION_DEVICE": "cpu"}
        NotebookClient(notebook, kernel_name="python3").execute(env=on_cpu)
        nbformat.write(notebook, folder / "notebooks" / f"{stem}.ipynb")
    return run(folder, {"ATTENTION_DEVICE": "pretend"}, "notebooks")


def run(folder: Path, changed: dict[str, str], *options: str) -> tuple[int, str]:
    """Run the comparison, and return its status and its words."""
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    plugins = ["-p", "tools.check.compare", "-p", "tools.check.devices", "--nbval"]
    kept = {n: v for n, v in os.environ.items() if n != "ATTENTION_DEVICE"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **changed},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_run_fails_on_each_wrong_cell_and_no_other(outcome: tuple[int, str]) -> None:
    status, words = outcome
    failed = {line.split(" - ")[0] for line in words.splitlines() if "FAILED" in line}
    assert status == 1
    # Cell 0 says on which device it is; cell 6, the last, which module is not on it.
    assert failed == {f"FAILED notebooks/02-wrong.ipynb::Cell {n}" for n in range(7)}
    assert "device: pretend, torch" in words


def test_run_names_the_module_that_was_not_moved(outcome: tuple[int, str]) -> None:
    assert (
        "code cell 6: layer, 2 of its tensors: weight is on cpu, not on pretend"
        in outcome[1]
    )


def test_run_wants_a_device(tmp_path: Path) -> None:
    status, words = run(tmp_path, {})
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "set ATTENTION_DEVICE to `cuda` or `pretend`" in words


# Where modules are.


def linear(device: str = "cpu") -> nn.Linear:
    return nn.Linear(2, 3, device=device)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (linear(), "name"),
        ([linear("meta"), linear()], "name[1]"),
        ({"split": (0, linear())}, "name['split'][1]"),
        ([{"mlp": [linear()]}], "name[0]['mlp'][0]"),
        (nn.Sequential(linear("meta"), linear()), "name"),
    ],
    ids=["module", "list", "dictionary", "deeper", "part of a module"],
)
def test_misplaced_names_the_module(value: Any, place: str) -> None:
    (fault,) = misplaced({"name": value}, "cuda")
    assert fault.startswith(f"{place}, 2 of its tensors: ")


def test_misplaced_sees_buffers_and_what_was_not_registered() -> None:
    with_buffer, without = linear("meta"), nn.Sequential(linear("meta"))
    with_buffer.register_buffer("mask", torch.ones(2))
    without[0].places = torch.ones(2)
    found = misplaced({"one": with_buffer, "two": without}, "cuda")
    assert found == [
        "one, 1 of its tensors: mask is on cpu, not on cuda",
        "two, 1 of its tensors: 0.places is on cpu, not on cuda",
    ]


def test_misplaced_ends_in_a_collection_that_holds_itself() -> None:
    loop: list[Any] = [linear()]
    loop.append(loop)
    assert len(misplaced({"loop": loop}, "cuda")) == 1


def test_misplaced_passes_what_is_right() -> None:
    right = {
        "counted": linear("meta"),
        "placed": linear(),
        "ids": torch.arange(3),
        "Linear": nn.Linear,
        "_1": linear("meta"),
    }
    assert misplaced(right, "cpu") == []
    assert misplaced({name: linear() for name in ON_PURPOSE}, "cuda") == []


# The real GPU: what can be checked without one.


@pytest.mark.parametrize(
    ("driver", "cuda", "words"),
    [
        (False, None, "no NVIDIA driver is found"),
        (True, None, "has no CUDA: remove .venv and set up again"),
        (True, "13.0", "its CUDA may be newer than the driver"),
    ],
)
def test_missing_gpu_is_said_in_one_line_with_status_2(
    driver: bool,
    cuda: str | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(Path, "exists", lambda _: driver)
    assert devices.main() == 2
    line = capsys.readouterr().err
    assert words in line
    assert "make test-devices" in line
    assert line.count("\n") == 1


def test_make_looks_for_the_gpu_first_and_stops() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "test-gpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    look, compare = done.stdout.split("ATTENTION_DEVICE=cuda", 1)
    assert look.rstrip().endswith("-m tools.check.devices")
    assert "-n0" in compare


def test_workflow_runs_no_code_of_a_pull_request() -> None:
    workflow = yaml.safe_load(GPU_WORKFLOW.read_text(encoding="utf-8"))
    # YAML reads the key `on` as true.
    assert set(workflow[True]) == {"push", "schedule", "workflow_dispatch"}
    assert workflow[True]["push"] == {"branches": ["main"]}
    job = workflow["jobs"]["notebooks"]
    assert job["environment"] == "gpu"
    assert "needs.runner.outputs.named" in job["if"]


@pytest.mark.parametrize("label", ["", "gpu-large"])
def test_workflow_says_that_it_was_skipped(label: str, tmp_path: Path) -> None:
    workflow = yaml.safe_load(GPU_WORKFLOW.read_text(encoding="utf-8"))
    (step,) = workflow["jobs"]["runner"]["steps"]
    files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.touch()
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        env={**os.environ, "LABEL": label, **{n: str(f) for n, f in files.items()}},
        capture_output=True,
        text=True,
        check=True,
    )
    output, summary = (file.read_text() for file in files.values())
    assert output == ("named=yes\n" if label else "")
    assert ("was skipped" in summary) == (not label)
    assert done.stdout.startswith("::warning") == (not label)
