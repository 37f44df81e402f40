"""Refuse bad input early, in words: which argument, what came, what was wanted.

Every check raises a ``TypeError`` for what is of another kind, type or device than
wanted, and a ``ValueError`` for shapes that do not fit and for numbers out of bounds.

What layers check on each call reads shapes, types and devices only, never values: it
is plain Python, stops neither a compiler nor a GPU, and holds on ``meta``. Values are
checked where data comes in, by ``check_token_values``.
"""

# fmt: off
# isort: off
from attention_lib.validation.arrays import (
    as_floats, check_inputs, check_key_positions, check_lengths, check_mask,
    check_masks, check_scores, check_sequence, check_table, check_value,
)
from attention_lib.validation.exporting import (
    check_axes, check_names, check_new_file, check_place, check_sizes, check_static,
)
from attention_lib.validation.inside import (
    check_compared, check_head_maps, check_head_path, check_head_places, check_periods,
)
from attention_lib.validation.layers import (
    check_alone, check_angles, check_crop, check_device, check_dim, check_dtype,
    check_features, check_layout, check_logits, check_published, check_room,
    check_rotation, check_source, check_space, check_token_ids, check_token_positions,
    check_tokens, check_window,
)
from attention_lib.validation.picking import (
    check_best_scores, check_generator, check_next_scores, check_sampling,
)
from attention_lib.validation.rotation import (
    check_rows, check_scaling,
)
from attention_lib.validation.sizes import (
    check_above_zero, check_calls, check_choice, check_config, check_dropout,
    check_flags, check_function, check_groups, check_heads, check_instance, check_llama,
    check_max_grad_norm, check_not_negative, check_offset, check_open, check_pages,
    check_pairs, check_path, check_positive, check_power_of_two, check_run,
    check_step_tokens, check_tile, check_warmup, check_ways,
)
from attention_lib.validation.texts import (
    check_batch, check_draft, check_fits, check_grown, check_guesses, check_ids,
    check_prompt, check_request, check_stop, check_targets, check_text, check_texts,
    check_token_texts, check_token_values, check_window_sizes,
)

__all__ = [
    "as_floats", "check_above_zero", "check_alone", "check_angles", "check_axes",
    "check_batch", "check_best_scores", "check_calls", "check_choice", "check_compared",
    "check_config", "check_crop", "check_device", "check_dim", "check_draft",
    "check_dropout", "check_dtype", "check_features", "check_fits", "check_flags",
    "check_function", "check_generator", "check_groups", "check_grown", "check_guesses",
    "check_head_maps", "check_head_path", "check_head_places", "check_heads",
    "check_ids", "check_inputs", "check_instance", "check_key_positions",
    "check_layout", "check_lengths", "check_llama", "check_logits", "check_mask",
    "check_masks", "check_max_grad_norm", "check_names", "check_new_file",
    "check_next_scores", "check_not_negative", "check_offset", "check_open",
    "check_pages", "check_pairs", "check_path", "check_periods", "check_place",
    "check_positive", "check_power_of_two", "check_prompt", "check_published",
    "check_request", "check_room", "check_rotation", "check_rows", "check_run",
    "check_sampling", "check_scaling", "check_scores", "check_sequence", "check_sizes",
    "check_source", "check_space", "check_static", "check_step_tokens", "check_stop",
    "check_table", "check_targets", "check_text", "check_texts", "check_tile",
    "check_token_ids", "check_token_positions", "check_token_texts",
    "check_token_values", "check_tokens", "check_value", "check_warmup", "check_ways",
    "check_window", "check_window_sizes",
]
