"""Checks of the reader's own code: each says what is wrong and where to look.

Every check gives a ``Verdict`` and never raises. A chapter's checks stand
in the module named like the chapter's own; ``verdict`` holds what all share.
"""

from attention_lib.exercises.attention import (
    check_head,
    check_linear,
    check_parameter_count,
    check_self_attention,
)
from attention_lib.exercises.block import (
    check_block_parameters,
    check_layer_norm,
    check_pre_norm,
    check_tiny_block,
    check_write_sizes,
)
from attention_lib.exercises.bugs import (
    check_faulty_lines,
    check_mended_weights,
    check_small_bug,
)
from attention_lib.exercises.cross_attention import (
    check_both_caches,
    check_cross_attention,
    check_one_text_mask,
    check_translation,
)
from attention_lib.exercises.export import (
    check_graph,
    check_room_mask,
    check_size_finder,
    check_wrong_lengths,
)
from attention_lib.exercises.flash_attention import (
    check_flash_bytes,
    check_join,
    check_online_softmax,
)
from attention_lib.exercises.grouped_query import (
    check_grouped_query,
    check_shared_bytes,
    check_sink_weights,
    check_to_groups,
)
from attention_lib.exercises.health_checks import (
    check_divisor_finder,
    check_examiner,
    check_flops,
    check_mixing_finder,
)
from attention_lib.exercises.inside import (
    check_duplicate_score,
    check_lookup,
    check_without_head,
)
from attention_lib.exercises.kv_cache import (
    check_cache,
    check_cache_bytes,
    check_step_mask,
    check_write,
)
from attention_lib.exercises.latent_attention import (
    check_absorbed,
    check_latent_attention,
    check_latent_bytes,
    check_low_rank,
)
from attention_lib.exercises.leaks import check_leak_finder
from attention_lib.exercises.long_texts import (
    check_delta_memory,
    check_kept,
    check_window_layers,
)
from attention_lib.exercises.masks import (
    check_causal_mask,
    check_from_additive,
    check_padding_mask,
    check_visible_pairs,
)
from attention_lib.exercises.model import (
    check_entropy,
    check_language_model,
    check_model_parameters,
    check_windows,
)
from attention_lib.exercises.multi_head import (
    check_head_windows,
    check_multi_head,
    check_multi_head_count,
    check_multi_head_layer,
    check_pruned,
)
from attention_lib.exercises.parallel import (
    check_ring_process,
    check_sharded_traffic,
    check_whole_gradient,
    check_zigzag,
)
from attention_lib.exercises.performance import (
    check_attend_joined,
    check_median_ratio,
    check_ratios_in_turns,
)
from attention_lib.exercises.positions import (
    check_order_finder,
    check_place_with_itself,
    check_position_table,
    check_positions,
    check_trained_positions,
)
from attention_lib.exercises.rope import (
    check_offset_finder,
    check_pair_layout,
    check_rotary,
    check_slow_pairs,
)
from attention_lib.exercises.serving import (
    check_accept,
    check_batch_steps,
    check_places,
    check_small_server,
)
from attention_lib.exercises.toy import (
    check_attention,
    check_batched_attention,
    check_head_width,
    check_softmax,
    check_temperature,
)
from attention_lib.exercises.training import (
    check_generate,
    check_next_token_loss,
    check_schedule,
    check_top_k,
    check_training_loop,
)
from attention_lib.exercises.verdict import Verdict
from attention_lib.exercises.weights import (
    check_checkpoint_reader,
    check_gpt2_projections,
    check_llama_parameters,
    check_suspect,
)

__all__ = [
    "Verdict",
    "check_absorbed",
    "check_accept",
    "check_attend_joined",
    "check_attention",
    "check_batch_steps",
    "check_batched_attention",
    "check_block_parameters",
    "check_both_caches",
    "check_cache",
    "check_cache_bytes",
    "check_causal_mask",
    "check_checkpoint_reader",
    "check_cross_attention",
    "check_delta_memory",
    "check_divisor_finder",
    "check_duplicate_score",
    "check_entropy",
    "check_examiner",
    "check_faulty_lines",
    "check_flash_bytes",
    "check_flops",
    "check_from_additive",
    "check_generate",
    "check_gpt2_projections",
    "check_graph",
    "check_grouped_query",
    "check_head",
    "check_head_width",
    "check_head_windows",
    "check_join",
    "check_kept",
    "check_language_model",
    "check_latent_attention",
    "check_latent_bytes",
    "check_layer_norm",
    "check_leak_finder",
    "check_linear",
    "check_llama_parameters",
    "check_lookup",
    "check_low_rank",
    "check_median_ratio",
    "check_mended_weights",
    "check_mixing_finder",
    "check_model_parameters",
    "check_multi_head",
    "check_multi_head_count",
    "check_multi_head_layer",
    "check_next_token_loss",
    "check_offset_finder",
    "check_one_text_mask",
    "check_online_softmax",
    "check_order_finder",
    "check_padding_mask",
    "check_pair_layout",
    "check_parameter_count",
    "check_place_with_itself",
    "check_places",
    "check_position_table",
    "check_positions",
    "check_pre_norm",
    "check_pruned",
    "check_ratios_in_turns",
    "check_ring_process",
    "check_room_mask",
    "check_rotary",
    "check_schedule",
    "check_self_attention",
    "check_sharded_traffic",
    "check_shared_bytes",
    "check_sink_weights",
    "check_size_finder",
    "check_slow_pairs",
    "check_small_bug",
    "check_small_server",
    "check_softmax",
    "check_step_mask",
    "check_suspect",
    "check_temperature",
    "check_tiny_block",
    "check_to_groups",
    "check_top_k",
    "check_trained_positions",
    "check_training_loop",
    "check_translation",
    "check_visible_pairs",
    "check_whole_gradient",
    "check_window_layers",
    "check_windows",
    "check_without_head",
    "check_write",
    "check_write_sizes",
    "check_wrong_lengths",
    "check_zigzag",
]
