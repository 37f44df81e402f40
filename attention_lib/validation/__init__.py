"""Refuse bad input early, in words: which argument, what came, what was wanted.

Every check raises a ``TypeError`` for what is of another kind, type or device than
wanted, and a ``ValueError`` for shapes that do not fit and for numbers out of bounds.

What layers check on each call reads shapes, types and devices only, never values: it
is plain Python, stops neither a compiler nor a GPU, and holds on ``meta``. Values are
checked where data comes in, by ``require_token_values``.
"""

# fmt: off
# isort: off
from attention_lib.validation.arrays import (
    as_floats,
    require_inputs,
    require_key_positions,
    require_lengths,
    require_mask,
    require_masks,
    require_scores,
    require_sequence,
    require_table,
    require_value,
)
from attention_lib.validation.exporting import (
    require_axes,
    require_names,
    require_new_file,
    require_place,
    require_sizes,
    require_static,
)
from attention_lib.validation.interpret import (
    require_compared,
    require_head_maps,
    require_head_path,
    require_head_places,
    require_periods,
)
from attention_lib.validation.layers import (
    require_alone,
    require_angles,
    require_crop,
    require_device,
    require_dim,
    require_dtype,
    require_features,
    require_layout,
    require_logits,
    require_published,
    require_room,
    require_rotation,
    require_source,
    require_space,
    require_token_ids,
    require_token_positions,
    require_tokens,
    require_window,
)
from attention_lib.validation.sampling import (
    require_best_scores,
    require_generator,
    require_next_scores,
    require_sampling,
)
from attention_lib.validation.rotation import require_rows, require_scaling
from attention_lib.validation.sizes import (
    require_above_zero,
    require_calls,
    require_choice,
    require_config,
    require_dropout,
    require_flags,
    require_function,
    require_groups,
    require_heads,
    require_instance,
    require_llama,
    require_max_grad_norm,
    require_not_negative,
    require_offset,
    require_open,
    require_pages,
    require_pairs,
    require_path,
    require_positive,
    require_power_of_two,
    require_run,
    require_step_tokens,
    require_tile,
    require_warmup,
    require_ways,
)
from attention_lib.validation.texts import (
    require_batch,
    require_draft,
    require_fits,
    require_grown,
    require_guesses,
    require_ids,
    require_prompt,
    require_request,
    require_stop,
    require_targets,
    require_text,
    require_texts,
    require_token_texts,
    require_token_values,
    require_window_sizes,
)

__all__ = [
    "as_floats", "require_above_zero", "require_alone", "require_angles", "require_axes",
    "require_batch", "require_best_scores", "require_calls", "require_choice", "require_compared",
    "require_config", "require_crop", "require_device", "require_dim", "require_draft",
    "require_dropout", "require_dtype", "require_features", "require_fits", "require_flags",
    "require_function", "require_generator", "require_groups", "require_grown", "require_guesses",
    "require_head_maps", "require_head_path", "require_head_places", "require_heads",
    "require_ids", "require_inputs", "require_instance", "require_key_positions",
    "require_layout", "require_lengths", "require_llama", "require_logits", "require_mask",
    "require_masks", "require_max_grad_norm", "require_names", "require_new_file",
    "require_next_scores", "require_not_negative", "require_offset", "require_open",
    "require_pages", "require_pairs", "require_path", "require_periods", "require_place",
    "require_positive", "require_power_of_two", "require_prompt", "require_published",
    "require_request", "require_room", "require_rotation", "require_rows", "require_run",
    "require_sampling", "require_scaling", "require_scores", "require_sequence", "require_sizes",
    "require_source", "require_space", "require_static", "require_step_tokens", "require_stop",
    "require_table", "require_targets", "require_text", "require_texts", "require_tile",
    "require_token_ids", "require_token_positions", "require_token_texts",
    "require_token_values", "require_tokens", "require_value", "require_warmup", "require_ways",
    "require_window", "require_window_sizes",
]
