"""attention_lib.launch and parallel: three processes against one, and no hang."""

import ast
import importlib.util
import subprocess
import sys
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attention_lib._supervisor import supervised
from attention_lib.attention import scaled_dot_product_attention
from attention_lib.launch import CommunicationCounter, program_of, run_processes
from attention_lib.parallel import (
    rank_ranges,
    ring_attention,
    ring_pair_counts,
    shard_tokens,
)
from attention_lib.reproducibility import seeded
from tests.running import ROOT, left_alive
from tools.chapters import code_of, read_chapter

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
]


def ring_errors(device):
    """How far a ring is from the whole text, forward and backward, in each process."""
    place, found = (dist.get_rank(), dist.get_world_size()), {}
    for dtype in ("float64", "float32", "bfloat16"):
        for order in ("zigzag", "plain"):
            for causal in (True, False):
                q, k, v, grad = (
                    torch.randn(2, 3, 24, width, generator=seeded(0)).to(
                        device, getattr(torch, dtype)
                    )
                    for width in (4, 4, 5, 5)
                )
                whole = [x.double().requires_grad_() for x in (q, k, v)]
                mask = torch.ones(24, 24, dtype=torch.bool).tril() if causal else None
                wanted = scaled_dot_product_attention(*whole, mask)
                wanted = [wanted, *torch.autograd.grad(wanted, whole, grad.double())]

                def own(x, order=order):
                    return shard_tokens(x.detach(), *place, order=order, dim=2)

                mine = [own(x).requires_grad_() for x in (q, k, v)]
                came = ring_attention(*mine, causal=causal, order=order)
                came = [came, *torch.autograd.grad(came, mine, own(grad))]
                found[f"{dtype} {order} {causal}"] = max(
                    (a - own(b)).abs().max().item()
                    for a, b in zip(came, wanted, strict=True)
                )
    return found


def ring_in_a_group(device):
    """Processes 1 and 2 are a ring of their own, in this order."""
    group = dist.new_group([1, 2])
    rank = dist.get_rank()
    if rank not in (1, 2):
        return None
    value = torch.full((1, 1, 2), float(rank), device=device)
    zeros = torch.zeros_like(value)
    return ring_attention(zeros, zeros, value, group=group)


def counted(device):
    """What is handed over in each kind of call, and what leaves the process."""
    rows, found, size = torch.ones(12, 4, device=device), {}, dist.get_world_size()
    ring = [torch.ones(1, 12, 4, device=device, requires_grad=True) for _ in range(3)]

    def gather():
        dist.all_gather_into_tensor(torch.empty(12 * size, 4, device=device), rows)

    def scatter():
        dist.reduce_scatter_tensor(torch.empty(12 // size, 4, device=device), rows)

    for name, call in [
        ("all-reduce", lambda: dist.all_reduce(rows)),
        ("all-gather", gather),
        ("reduce-scatter", scatter),
        ("broadcast", lambda: dist.broadcast(rows, 0)),
        ("ring", lambda: ring_attention(*ring)),
        ("ring, backward", lambda: ring_attention(*ring).sum().backward()),
    ]:
        with CommunicationCounter() as seen:
            call()
        found[name] = [seen.sent, dict(seen.calls), dict(seen.sizes)]
    return found


def run_as(rank, folder):
    """Do what one of three processes does, and keep what it finds."""
    limit, store = timedelta(seconds=60), f"file://{folder}/store"
    dist.init_process_group("gloo", store, limit, world_size=3, rank=rank)
    try:
        found = {
            it.__name__: it("cpu") for it in (ring_errors, ring_in_a_group, counted)
        }
        torch.save(found, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """What each of three processes finds; the first is this one: coverage sees it."""
    folder = tmp_path_factory.mktemp("three")
    text = "from tests.library.test_parallel import run_as; run_as({}, {!r})"
    command = [sys.executable, "-W", "ignore", "-c"]
    others = [
        subprocess.Popen(
            supervised([*command, text.format(rank, str(folder))], 150.0), cwd=ROOT
        )
        for rank in (1, 2)
    ]
    try:
        run_as(0, folder)
        assert [other.wait(timeout=60) for other in others] == [0, 0]
    finally:
        for other in others:
            other.terminate()
    each = [torch.load(f"{folder}/{rank}.pt") for rank in range(3)]
    return {name: [found[name] for found in each] for name in each[0]}


def test_ring_equals_the_whole_text_forward_and_backward(three):
    bounds = {"float64": 1e-12, "float32": 5e-6, "bfloat16": 0.05}
    for found in three["ring_errors"]:
        assert len(found) == 12
        for name, error in found.items():
            assert error < bounds[name.split()[0]], name


def test_ring_stays_inside_its_group(three):
    alone, *both = three["ring_in_a_group"]
    assert alone is None
    assert [it.tolist() for it in both] == [[[[1.5, 1.5]]]] * 2  # the mean of 1 and 2


def test_sent_bytes_are_those_of_the_formulas(three):
    size = 12 * 4 * 4  # float32
    for found in three["counted"]:
        assert found["all-reduce"] == [
            2 * 2 * size // 3,
            {"all-reduce": 1},
            {"all-reduce": size},
        ]
        assert found["all-gather"][0] == 2 * size  # two pieces of others pass by
        assert found["reduce-scatter"][0] == found["broadcast"][0] == 2 * size // 3
        assert found["ring"] == [4 * size, {"send": 2}, {"send": 4 * size}]
        # forward, keys and values again, and their gradients once more often
        assert found["ring, backward"][0] == (4 + 4 + 6) * size


def dies(device):
    import os

    if dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()  # the other one never comes


def raises(device):
    if dist.get_rank() == 1:
        raise ValueError("this is what went wrong")
    dist.barrier()


def waits(device):
    if dist.get_rank() == 0:
        dist.recv(torch.empty(1))  # nobody sends


@pytest.mark.parametrize(
    ("function", "timeout", "words"),
    [
        (dies, 100.0, "a process failed"),
        (raises, 100.0, "this is what went wrong"),
        pytest.param(waits, 30.0, "a process failed", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_fails_hangs_no_other(function, timeout, words):
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=words):
        run_processes([function], timeout=timeout)
    assert time.monotonic() - start < timeout


def test_all_processes_are_ended_when_the_time_is_over():
    def sleeps(device):
        import time

        time.sleep(1000)

    with pytest.raises(TimeoutError, match="must end within 4 seconds; they did not"):
        run_processes([sleeps], timeout=4.0)


def leaves(device):
    import os
    import runpy

    runpy.run_path(os.environ["LEAVES"])
    return torch.tensor([dist.get_rank()])


@pytest.fixture
def pids(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAVES", str(ROOT / "tests/samples/leaves.py"))
    monkeypatch.setenv("PIDS", str(tmp_path))
    return tmp_path


def test_what_functions_left_behind_ends_with_them(pids, monkeypatch):
    monkeypatch.setenv("STAYS", "0")
    start = time.monotonic()
    assert run_processes([leaves], timeout=200.0) == {"leaves": [[0], [1]]}
    assert time.monotonic() - start < 100
    assert left_alive(pids) == (8, [])


@pytest.mark.slow
def test_functions_that_pass_the_limit_leave_nothing_behind(pids, monkeypatch):
    monkeypatch.setenv("STAYS", "300")
    start = time.monotonic()
    with pytest.raises(TimeoutError, match="must end within 60 seconds; they did not"):
        run_processes([leaves], timeout=60.0)
    assert time.monotonic() - start < 75
    assert left_alive(pids) == (8, [])


def test_program_holds_the_functions_and_no_path():
    text = program_of([raises], using=[dies])
    compile(text, "program.py", "exec")
    assert "def dies" in text
    assert "for function in [raises]:" in text
    assert "/work" not in text


@pytest.mark.usefixtures("shapes_unchecked")
def test_program_refuses_a_function_whose_text_is_lost():
    names = {}
    exec("def lost(device): pass", names)
    with pytest.raises(TypeError, match="functions: the text of lost is not known"):
        program_of([names["lost"]])


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from(["zigzag", "plain"]))
def test_tokens_are_dealt_out_and_joined_again(size, unit, order):
    length = 2 * size * unit
    x = torch.arange(3 * length).view(3, length)
    parts = [shard_tokens(x, rank, size, order=order) for rank in range(size)]
    assert {part.shape for part in parts} == {(3, 2 * unit)}
    assert sorted(torch.cat(parts, dim=1)[0].tolist()) == list(range(length))


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from(["zigzag", "plain"]))
def test_work_of_a_ring_is_what_a_mask_counts(size, unit, order):
    length = 2 * size * unit
    mask = torch.ones(length, length).tril()
    for rank, steps in enumerate(ring_pair_counts(length, size, order)):
        rows = shard_tokens(mask, rank, size, order=order, dim=0)
        for step, count in enumerate(steps):
            seen = shard_tokens(rows, (rank - step) % size, size, order=order)
            assert count == seen.sum()


def test_zigzag_gives_all_the_same_work_in_every_step():
    assert rank_ranges(12, 1, 3) == [range(2, 4), range(8, 10)]
    assert ring_pair_counts(16, 4) == [[10, 8, 8, 8]] * 4
    plain = ring_pair_counts(16, 4, "plain")
    assert [sum(steps) for steps in plain] == [10, 26, 42, 58]
    assert ring_pair_counts(16, 4, "plain", causal=False) == [[16] * 4] * 4


@pytest.mark.parametrize("causal", [False, True])
def test_ring_of_one_is_attention(causal):
    x = torch.randn(3, 2, 7, 4, generator=seeded(0)).double().requires_grad_()
    mask = torch.ones(7, 7, dtype=torch.bool).tril() if causal else None
    assert_close(
        ring_attention(*x, causal=causal), scaled_dot_product_attention(*x, mask)
    )
    assert torch.autograd.gradcheck(lambda *x: ring_attention(*x, causal=causal), (*x,))


@pytest.fixture(scope="module")
def in_float32(tmp_path_factory):
    """Chapter 24's functions, in float32: what two processes and one make of them."""
    cells = code_of(read_chapter(ROOT / "chapters/24-many-devices.md"))
    functions = [
        ast.get_source_segment(cell.source, node)
        for cell in cells
        if cell.source.startswith("def ")
        for node in ast.parse(cell.source).body
        if isinstance(node, ast.FunctionDef)
    ]
    imports = "import torch", "import torch.distributed as dist"
    code = "\n\n\n".join([*imports, *functions]) + "\n"
    file = tmp_path_factory.mktemp("chapter") / "functions.py"
    file.write_text(code.replace("float64", "float32"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("functions", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    names = "by_hand data_parallel shard_by_hand sharded cut_heads ring"
    ways = [getattr(made, name) for name in names.split()]
    tools = "fresh_model batch train report average_gradients"
    using = [getattr(made, name) for name in tools.split()]
    found = [run_processes(ways, using=using, timeout=200.0) for _ in range(2)]
    alone = made.fresh_model("cpu")
    losses = made.train(alone, lambda x: x, "cpu")
    weights = torch.cat([p.detach().flatten() for p in alone.parameters()])
    return *found, torch.tensor(losses), weights


@pytest.mark.slow
def test_two_processes_train_as_one_in_float32(in_float32):
    found, _, losses, weights = in_float32
    assert weights.dtype == torch.float32
    for both in found.values():
        mean = torch.tensor([each["losses"] for each in both]).mean(0)
        assert_close(mean, losses, rtol=0, atol=1e-6)
        for each in both:
            ours = torch.tensor(each["weights"])
            assert_close(ours, weights, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_two_runs_are_the_same_bit_for_bit(in_float32):
    first, second, *_ = in_float32
    assert first == second
