"""Attention, built step by step: one idea a module, each shown by a chapter.

Every public name of every module can be imported from here. Note that
``attention_lib.attention`` is thereby the function of ``toy``; what the module of that
name holds is imported from it: ``from attention_lib.attention import SelfAttention``.
"""

from attention_lib.attention import (
    SelfAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from attention_lib.exercises import (
    Verdict,
    check_attention,
    check_causal_mask,
    check_from_additive,
    check_head,
    check_head_width,
    check_leak_finder,
    check_linear,
    check_padding_mask,
    check_parameter_count,
    check_softmax,
    check_temperature,
    check_visible_pairs,
)
from attention_lib.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    sliding_window_mask,
)
from attention_lib.plotting import (
    BookFigure,
    show_bars,
    show_curves,
    show_masks,
    show_matrices,
    show_weights,
)
from attention_lib.reproducibility import (
    RUN_ENVIRONMENT,
    choose_device,
    make_repeatable,
    seeded,
)
from attention_lib.toy import attention, softmax
from attention_lib.validation import (
    check_dropout,
    check_inputs,
    check_lengths,
    check_mask,
    check_masks,
    check_positive,
    check_scores,
    check_tokens,
)

__all__ = [
    "RUN_ENVIRONMENT",
    "BookFigure",
    "SelfAttention",
    "Verdict",
    "attention",
    "attention_weights",
    "causal_mask",
    "check_attention",
    "check_causal_mask",
    "check_dropout",
    "check_from_additive",
    "check_head",
    "check_head_width",
    "check_inputs",
    "check_leak_finder",
    "check_lengths",
    "check_linear",
    "check_mask",
    "check_masks",
    "check_padding_mask",
    "check_parameter_count",
    "check_positive",
    "check_scores",
    "check_softmax",
    "check_temperature",
    "check_tokens",
    "check_visible_pairs",
    "choose_device",
    "combine_masks",
    "make_repeatable",
    "padding_mask",
    "scaled_dot_product_attention",
    "seeded",
    "show_bars",
    "show_curves",
    "show_masks",
    "show_matrices",
    "show_weights",
    "sliding_window_mask",
    "softmax",
]
