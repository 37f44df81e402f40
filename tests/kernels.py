"""Whether kernels of Triton can run here, and whether they compile for a GPU."""

import os
import sys
from importlib.util import find_spec

import pytest
import torch

from tests.running import ran

TRITON = find_spec("triton") is not None
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(not TRITON, reason="needs Triton")
needs_kernel = pytest.mark.skipif(
    not (TRITON and (torch.cuda.is_available() or INTERPRETED)),
    reason="needs Triton, and a GPU or TRITON_INTERPRET=1",
)
COMPILE = """
from {module} import {kernel}
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
types = dict(zip({kernel}.arg_names, {types}, strict=True))
source = ASTSource({kernel}, types, {known})
assert "ptx" in compile(source, target=GPUTarget("cuda", 80, 32)).asm
"""


def compile_for_a_gpu(module, kernel, types, **known):
    """Compile a kernel for a GPU that need not be here.

    The interpreter takes what the compiler refuses, such as a name of two types.
    """
    types = [*types.split(), *["constexpr"] * len(known)]
    code = COMPILE.format(module=module, kernel=kernel, types=types, known=known)
    own = os.environ | {"TRITON_INTERPRET": "0"}
    ran([sys.executable, "-c", code], env=own, check=True)
