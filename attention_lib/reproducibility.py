"""What makes a run repeat: seeds, the device, the kernels. All of it is set here.

Random numbers come from seeded generators on the CPU and move to the device afterwards,
because a GPU's generator draws different numbers for the same seed.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from attention_lib.validation import require_instance, require_not_negative

# Read once, when a process starts, so whoever starts the process sets it: the recorder,
# the comparison, CI. cuBLAS needs the first to repeat itself; a second thread would
# change the order in which sums are taken, and so their last digits. A progress bar
# would put its times into the record.
RUN_ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",
}


def seeded(seed: int) -> torch.Generator:
    """Return a generator on the CPU that yields the same numbers on every machine.

    >>> torch.randn(2, generator=seeded(0)).equal(torch.randn(2, generator=seeded(0)))
    True

    Raises:
        TypeError: a seed that is not an int.
        ValueError: a seed below 0, or of 2⁶³ and more.
    """
    require_not_negative(seed=seed)
    return torch.Generator(device="cpu").manual_seed(seed)


def choose_device() -> torch.device:
    """Return the GPU if there is one, else the CPU; ``ATTENTION_DEVICE`` overrides it.

    Raises:
        ValueError: ``ATTENTION_DEVICE`` names a device that this machine lacks.
    """
    default = "cuda" if torch.cuda.is_available() else "cpu"
    wanted = os.environ.get("ATTENTION_DEVICE") or default
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ValueError(
            f"ATTENTION_DEVICE={wanted} cannot be used here: unset it, or set it to "
            f"`{default}`"
        ) from error
    return device


def make_deterministic(seed: int = 0) -> torch.device:
    """Set everything that makes a chapter's numbers repeat, and return the device.

    Seeds torch, requires deterministic kernels, turns TF32 off (it rounds to ten bits),
    and prints few digits. NumPy is seeded where it is used, by ``default_rng(seed)``.

    Raises:
        TypeError: a seed that is not an int.
        ValueError: a seed below 0, or of 2⁶³ and more.
    """
    require_not_negative(seed=seed)
    # A notebook's kernel may have been started without it; setting it here is early
    # enough until the first product on a GPU.
    cublas = "CUBLAS_WORKSPACE_CONFIG"
    os.environ.setdefault(cublas, RUN_ENVIRONMENT[cublas])
    torch.manual_seed(seed)
    # As torch.use_deterministic_algorithms(True), which would import the compiler,
    # in half of the time of a chapter's first cell. The compiler reads the variable.
    os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")
    torch.set_deterministic_debug_mode("error")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    # Said once on a GPU, where a backward pass begins with a product; all goes well.
    warnings.filterwarnings("ignore", message="Attempting to run cuBLAS")
    torch.set_printoptions(precision=4, sci_mode=False, linewidth=88)
    np.set_printoptions(precision=4, suppress=True, linewidth=88)
    return choose_device()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode; afterwards restore the mode of each part.

    So parts that are frozen in evaluation mode stay so; ``model.train()`` changes them.
    """
    require_instance("model", model, nn.Module)
    modes = [(part, part.training) for part in model.modules()]
    if any(training for _, training in modes):  # a server calls this at every step
        model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            if part.training is not training:
                part.training = training
