"""Half precision: which numbers are widened, and where autocast is switched off.

Sums, scores, slopes and states need more digits than half precision keeps.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

HALF = torch.float16, torch.bfloat16
_NOTHING = nullcontext()


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context in which no product on the device of ``x`` is narrowed.

    Autocast would multiply in half precision, where a score can overflow.
    """
    kind = "cpu" if x.is_meta else x.device.type
    # A compiled or exported graph may run under autocast later.
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return _NOTHING  # made once: a layer asks at each token


def widened(*tensors: Tensor) -> list[Tensor]:
    """Return half precision as float32, and wider tensors as they are."""
    return [x.float() if x.dtype in HALF else x for x in tensors]
