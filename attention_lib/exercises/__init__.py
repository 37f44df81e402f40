"""Checks of the reader's own code: each says what is wrong and where to look.

Every check gives a ``Verdict`` and never raises. A chapter's checks stand
in the module named like the chapter's own; ``verdict`` holds what all share.
"""

from attention_lib.exercises.attention import (
    check_head,
    check_linear,
    check_parameter_count,
)
from attention_lib.exercises.leaks import check_leak_finder
from attention_lib.exercises.masks import (
    check_causal_mask,
    check_from_additive,
    check_padding_mask,
    check_visible_pairs,
)
from attention_lib.exercises.toy import (
    check_attention,
    check_head_width,
    check_softmax,
    check_temperature,
)
from attention_lib.exercises.verdict import Verdict

__all__ = [
    "Verdict",
    "check_attention",
    "check_causal_mask",
    "check_from_additive",
    "check_head",
    "check_head_width",
    "check_leak_finder",
    "check_linear",
    "check_padding_mask",
    "check_parameter_count",
    "check_softmax",
    "check_temperature",
    "check_visible_pairs",
]
