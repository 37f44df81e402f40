"""attention_lib.reproducibility: the same numbers again, on the device asked for."""

import os
import sys

import numpy as np
import pytest
import torch

from attention_lib.reproducibility import (
    RUN_ENVIRONMENT,
    choose_device,
    make_deterministic,
    seeded,
)
from tests.running import ran

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
COMPILER = "TORCHINDUCTOR_DETERMINISTIC"
pytestmark = pytest.mark.usefixtures("settings_restored")


def test_seeded_gives_the_recorded_numbers_on_the_cpu_and_for_itself():
    before = torch.get_rng_state()
    wanted = torch.tensor([1.5410, -0.2934, -2.1788])
    result = torch.randn(3, generator=seeded(0))
    torch.testing.assert_close(result, wanted, rtol=0, atol=5e-5)
    assert torch.get_rng_state().equal(before)
    with torch.device("meta"):
        assert seeded(0).device.type == "cpu"


@pytest.mark.parametrize(("gpu", "wanted"), [(True, "cuda"), (False, "cpu")])
@pytest.mark.parametrize("name", [None, ""])
def test_choose_device_takes_the_gpu_where_there_is_one(monkeypatch, gpu, wanted, name):
    monkeypatch.delenv("ATTENTION_DEVICE", raising=False)
    if name is not None:
        monkeypatch.setenv("ATTENTION_DEVICE", name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch, "empty", lambda *size, device: None)  # it works
    assert choose_device() == torch.device(wanted)


@pytest.mark.parametrize("name", ["cpu", "meta"])
def test_choose_device_obeys_the_environment(monkeypatch, name):
    monkeypatch.setenv("ATTENTION_DEVICE", name)
    assert choose_device() == make_deterministic() == torch.device(name)


@pytest.mark.parametrize("name", ["cuda:99", "banana", "cpu:x", "mps:3"])
def test_choose_device_refuses_what_is_missing(monkeypatch, refused, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("ATTENTION_DEVICE", name)
    words = f"ATTENTION_DEVICE={name} cannot be used here: unset it, or set it to `cpu`"
    with refused(ValueError, words):
        choose_device()


def test_make_repeatable_seeds_with_zero_by_default():
    make_deterministic()
    wanted = torch.randn(4, generator=seeded(0))
    torch.testing.assert_close(torch.randn(4), wanted, rtol=0, atol=0)


def test_make_deterministic_asks_for_kernels_that_repeat():
    torch.use_deterministic_algorithms(False)
    make_deterministic()
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


def test_make_deterministic_asks_the_compiler_to_repeat_and_does_not_load_it():
    """Loading it takes a second, in the first cell of each chapter."""
    code = """if True:
        import sys
        from attention_lib.reproducibility import make_deterministic
        make_deterministic()
        print("torch._inductor" in sys.modules)
        import torch._inductor.config
        print(torch._inductor.config.deterministic)"""
    known = {name: text for name, text in os.environ.items() if name != COMPILER}
    run = ran([sys.executable, "-c", code], env=known, check=True)
    assert run.stdout.split() == ["False", "True"]


def test_make_deterministic_asks_cublas_to_repeat_and_keeps_what_was_asked(monkeypatch):
    monkeypatch.delenv(CUBLAS)
    make_deterministic()
    assert os.environ[CUBLAS] == RUN_ENVIRONMENT[CUBLAS]
    monkeypatch.setenv(CUBLAS, ":16:8")
    make_deterministic()
    assert os.environ[CUBLAS] == ":16:8"


def test_make_repeatable_turns_tf32_off():
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    make_deterministic()
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


def test_make_repeatable_prints_few_digits():
    torch.set_printoptions(precision=8, sci_mode=True)
    np.set_printoptions(precision=8, suppress=False)
    make_deterministic()
    printed = repr(torch.tensor([1e-3, 123456.789012], dtype=torch.float64))
    assert printed.startswith("tensor([     0.0010, 123456.7890]")
    assert repr(np.array([1e-9, 0.123456])) == "array([0.    , 0.1235])"


@pytest.mark.parametrize("full", [torch.full, np.full])
def test_make_repeatable_prints_lines_that_fit_the_page(full):
    make_deterministic()
    printed = [repr(full((60,), 10**digits)) for digits in range(9)]
    assert 80 < max(len(line) for text in printed for line in text.splitlines()) <= 88


def test_run_environment_silences_progress_bars():
    """A bar would stand in a record with its times."""
    code = "import tqdm; print(list(tqdm.tqdm(range(3))), list(tqdm.trange(2)))"
    known = {**os.environ, **RUN_ENVIRONMENT}
    run = ran([sys.executable, "-c", code], env=known, check=True)
    assert (run.stdout, run.stderr) == ("[0, 1, 2] [0, 1]\n", "")
