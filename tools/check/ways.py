"""The ways in which `variations` runs the notebooks, and what each one needs."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path


class UnfitError(Exception):
    """This machine cannot make a variation; the text says why."""


@dataclass(frozen=True)
class Variation:
    """One way to run all notebooks.

    Attributes:
        name: for the command line.
        what: for people.
        settings: gives the environment variables; may raise UnfitError.
        python: the environment whose interpreter runs the kernels; ours if empty.
        plugin: of pytest, beside the comparison.
    """

    name: str
    what: str
    settings: Callable[[], dict[str, str]] = field(default=dict)
    python: str = ""
    plugin: str = ""


def instructions(level: str) -> dict[str, str]:
    """Return what keeps torch, MKL, OpenBLAS and NumPy to one set of instructions.

    Raises:
        UnfitError: the processor has no such instructions.
    """
    from numpy._core import _multiarray_umath as numpy_core  # type: ignore[attr-defined]

    levels = {
        "default": ("COMPATIBLE", "Prescott", ()),
        "avx2": ("AVX2", "Haswell", ("AVX2", "FMA3", "X86_V3")),
        "avx512": (
            "AVX512",
            "SkylakeX",
            ("AVX2", "FMA3", "X86_V3", "AVX512", "X86_V4"),
        ),
    }
    mkl, blas, kept = levels[level]
    has = numpy_core.__cpu_features__
    needed = {"default": "SSE2", "avx2": "AVX2", "avx512": "AVX512F"}[level]
    if not has.get(needed, False):
        raise UnfitError(f"this processor has no {needed}")
    off = [
        name
        for name in numpy_core.__cpu_dispatch__
        if has.get(name) and not name.startswith(kept or ("none",))
    ]
    return {
        "ATEN_CPU_CAPABILITY": level,
        "MKL_CBWR": mkl,
        "OPENBLAS_CORETYPE": blas,
        "NPY_DISABLE_CPU_FEATURES": " ".join(off),
    }


def layout(folder: Path) -> dict[str, str]:
    """Return what reads weights by columns, and fills new memory with garbage."""
    start = "import tools.check.layouts; del tools\n"
    return starting(folder, start) | {"MALLOC_PERTURB_": "165"}


def elsewhere(folder: Path) -> dict[str, str]:
    """Return a locale with a decimal comma, made on the spot, and a time zone far away.

    Raises:
        UnfitError: the system cannot make it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "de_DE.UTF-8"
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(made)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnfitError(f"no German locale can be made: {error}") from error
    settings = {"LC_ALL": made.name, "LOCPATH": str(folder), "TZ": "Pacific/Kiritimati"}
    start = "__import__('locale').setlocale(__import__('locale').LC_ALL, '')\n"
    return settings | starting(folder, start)


def starting(folder: Path, code: str) -> dict[str, str]:
    """Return what has every kernel run some code before its first cell."""
    startup = folder / "profile_default/startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "00-variation.py").write_text(code, encoding="utf-8")
    return {"IPYTHONDIR": str(folder)}


def gpu() -> dict[str, str]:
    """Return what sends the chapters to the GPU.

    Raises:
        UnfitError: there is none.
    """
    import torch

    if not torch.cuda.is_available():
        raise UnfitError("no GPU at hand")
    return {"ATTENTION_DEVICE": "cuda"}


def variations(folder: Path) -> list[Variation]:
    """Return all variations; `folder` holds what their kernels start with."""
    return [
        Variation("as-recorded", "as recorded"),
        Variation("default", "SSE instructions", partial(instructions, "default")),
        Variation("avx2", "AVX2 instructions", partial(instructions, "avx2")),
        Variation("avx512", "AVX-512 instructions", partial(instructions, "avx512")),
        Variation(
            "two-threads",
            "two threads",
            # Two notebooks run at once; threads that spin would wait for each other.
            lambda: {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
        ),
        Variation(
            "layout",
            "other memory, hash seed 1",
            lambda: {"PYTHONHASHSEED": "1"} | layout(folder / "layout"),
        ),
        Variation(
            "elsewhere",
            "German locale, far time zone, hash seed 2",
            lambda: {"PYTHONHASHSEED": "2"} | elsewhere(folder / "elsewhere"),
        ),
        Variation("python-3.11", "Python 3.11", python="python-3.11"),
        Variation("python-3.12", "Python 3.12", python="python-3.12"),
        Variation("python-3.13", "Python 3.13", python="python-3.13"),
        Variation("oldest", "oldest versions", python="oldest"),
        Variation(
            "pretended-gpu",
            "simulated GPU",
            lambda: {"ATTENTION_DEVICE": "pretend"},
            plugin="tools.check.devices",
        ),
        Variation("gpu", "GPU", gpu, plugin="tools.check.devices"),
    ]
