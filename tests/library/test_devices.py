"""Nothing is allocated on a fixed device: all that the library offers runs on `meta`.

On ``meta`` a tensor has a shape and no numbers, so whatever is made elsewhere shows. A
public module or function without a case here fails by its name.
"""

import inspect
from functools import partial as P
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from attention_lib.linear_attention import FORMS
from attention_lib.mha_variants import MHA_VARIANTS
from attention_lib.rope import SCALINGS
from tests import modules as library

pytestmark = pytest.mark.long

# What the library's modules define, exported at the top or not.
PUBLIC = {
    name: value
    for source in library.TOP
    for name, value in vars(source).items()
    if name[0] != "_"
    and f"{getattr(value, '__module__', '')}.".startswith(f"{source.__name__}.")
}
al = SimpleNamespace(**PUBLIC)
BATCH, LENGTH, WIDTH, HEADS, WORDS = 2, 5, 6, 3, 7


def floats(*shape):
    return torch.zeros(*shape, device="meta", requires_grad=True)


def whole(*shape):
    return torch.zeros(*shape, dtype=torch.int64, device="meta")


def allowed(*shape):
    return torch.zeros(*shape, dtype=torch.bool, device="meta")


def tokens():
    return floats(BATCH, LENGTH, WIDTH)


def model(**options):
    sizes = dict(context_len=9, d_model=WIDTH, num_heads=HEADS, num_layers=1)
    return al.TinyLM(al.ModelConfig(vocab_size=WORDS, dropout=0.1, **sizes, **options))


def llama_config(**options):
    return al.LlamaConfig(WORDS, 9, WIDTH, HEADS, 1, 1, 4, **options)


def latent(q_latent_dim, **options):
    widths = dict(kv_latent_dim=4, nope_dim=3, rope_dim=2, value_dim=5)
    return al.MultiHeadLatentAttention(
        WIDTH, HEADS, q_latent_dim=q_latent_dim, **widths, **options
    )


def decoder(**options):
    layers = (al.LayerConfig(window=2), al.LayerConfig(rope_base=None))
    config = al.DecoderConfig(WORDS, 9, WIDTH, HEADS, 1, 2, 4, layers, **options)
    return al.Decoder(config)


def translator(**options):
    config = al.TranslatorConfig(WORDS, 9, WIDTH, HEADS, 1, dropout=0.1, **options)
    return al.TinyTranslator(config)


def split_layer():
    return al.make_mha("split", WIDTH, HEADS).to("meta")


def scaling(kind):
    named = SCALINGS[kind][0]
    numbers = {key: number for number, key in enumerate(named, start=1)}
    return {"rope_type": kind, **numbers}


# What modules are called with.


def no_memory(*more):
    masks = [(LENGTH, LENGTH), (BATCH, 1, LENGTH), *more]
    options = {"causal": True}
    masked = [((tokens(), allowed(*shape)), options) for shape in masks]
    return [((tokens(),), {}), ((tokens(),), options), *masked]


def heads_alone():
    return no_memory((BATCH, HEADS, LENGTH, LENGTH))


def one_head(*more):
    memory = floats(BATCH, 4, WIDTH)
    return [*no_memory(*more), ((tokens(),), {"memory": memory, "causal": True})]


def many_heads():
    return one_head((BATCH, HEADS, LENGTH, LENGTH))


def x_alone():
    return [((tokens(),), {})]


def x_and_mask():
    return [*x_alone(), ((tokens(), allowed(BATCH, 1, LENGTH)), {})]


def x_and_memory():
    return [((tokens(), floats(BATCH, 4, WIDTH), allowed(BATCH, 1, 4)), {})]


def texts():
    texts = whole(BATCH, LENGTH)
    return [((texts,), {}), ((texts, whole(BATCH)), {})]


def both_texts():
    source, target = whole(BATCH, 4), whole(BATCH, LENGTH)
    return [((source, target), {}), ((source, target, whole(BATCH)), {})]


# By what they are called with: how to build each public module in its kinds.
MODULES = {
    one_head: [
        lambda: al.SelfAttention(WIDTH, 4, qkv_bias=True, dropout=0.1),
    ],
    many_heads: [
        *(
            P(kind, WIDTH, HEADS, qkv_bias=True, dropout=0.1)
            for kind in MHA_VARIANTS.values()
        ),
        lambda: latent(None, dropout=0.1),
        lambda: latent(4, absorb=True),
    ],
    heads_alone: [
        lambda: al.GroupedQueryAttention(WIDTH, HEADS, 1, dropout=0.1),
        lambda: al.GroupedQueryAttention(
            WIDTH, HEADS, 1, window=2, softcap=9.0, sinks=True, qk_norm="rms"
        ),
        lambda: al.RelativeAttention(WIDTH, HEADS, dropout=0.1),
        lambda: al.RelativeAttention(WIDTH, HEADS, both_ways=False),
    ],
    no_memory: [
        lambda: al.AttentionBlock(WIDTH, HEADS, dropout=0.1),
        lambda: al.TinyBlock(WIDTH, HEADS, norm="post", mha="split", dropout=0.1),
        lambda: al.TinyBlock(WIDTH, HEADS, norm="none", mha="torch", dropout=0.1),
    ],
    x_and_memory: [
        lambda: al.CrossBlock(WIDTH, HEADS, dropout=0.1),
        lambda: al.CrossBlock(WIDTH, HEADS, norm="post", num_cross_heads=1),
    ],
    x_and_mask: [
        lambda: al.PublishedAttention(al.make_mha("split", WIDTH, HEADS), head_dim=2)
    ],
    x_alone: [
        lambda: al.FeedForward(WIDTH),
        lambda: al.RMSNorm(WIDTH),
        lambda: al.RMSNorm(WIDTH, unit_offset=True),
        lambda: al.SwiGLU(WIDTH, 4),
        lambda: al.PlainMLP(WIDTH, 4, "gelu"),
    ],
    texts: [
        model,
        lambda: model(tie_weights=True, norm="post"),
        lambda: al.AttentionOnlyLM(al.ModelConfig(WORDS, 9, WIDTH, HEADS, 2)),
        lambda: al.TinyLlama(llama_config(tie_weights=True)),
        decoder,
        lambda: decoder(
            norm="layer", mlp="plain", activation="gelu", learned_positions=True
        ),
        lambda: decoder(norm_outputs=True, logits_softcap=9.0, tie_weights=True),
    ],
    both_texts: [translator, lambda: translator(num_encoder_layers=0)],
    lambda: [((3, 2), {})]: [lambda: al.LearnedPositions(9, 6)],
    lambda: [((tokens(),), {"causal": True})]: [lambda: al.LlamaBlock(llama_config())],
    lambda: [((tokens(), [floats(LENGTH, WIDTH // HEADS // 2)]), {})]: [
        lambda: decoder().blocks[0]
    ],
    lambda: [((whole(BATCH, 2), [floats(BATCH, HEADS, 4, 2)] * 2), {})]: [
        lambda: al.DynamicCacheStep(model(positions="rotary"))
    ],
    lambda: [((whole(BATCH, 2), whole(1), [floats(BATCH, HEADS, 9, 2)] * 2), {})]: [
        lambda: al.StaticCacheStep(model(), 9)
    ],
}

X, LINE = tokens(), floats(BATCH, LENGTH)
# Calls of exported functions that return tensors; every one of them is on meta.
FUNCTIONS = [
    P(al.published_tensors, "gpt2", {"blocks.0.mlp.up_proj.weight": floats(4, WIDTH)}),
    P(al.attention_weights, X, X),
    P(al.attention_weights, X, X, allowed(LENGTH, LENGTH)),
    P(al.scaled_dot_product_attention, X, X, X, dropout=0.1),
    P(al.scaled_dot_product_attention, X, X, X, allowed(1, LENGTH)),
    P(al.causal_mask, 2, 3, device="meta"),
    P(al.sliding_window_mask, 2, 1, 3, device="meta"),
    P(al.window_mask_at, whole(2), whole(3), 1),
    P(al.padding_mask, whole(BATCH), 3),
    P(al.padding_mask, whole(BATCH), 3, side="left"),
    P(al.with_causal, None, True, X, X),
    P(al.combine_masks, allowed(3, 3), allowed(BATCH, 1, 3)),
    P(al.split_heads, X, HEADS),
    P(al.merge_heads, floats(BATCH, HEADS, LENGTH, 2)),
    P(al.add_head_axis, allowed(BATCH, 1, 3)),
    P(al.split_mask, allowed(2, 3, 5, 5), X, HEADS),
    P(al.attend_cached, split_layer(), X, al.cache_memory(split_layer(), X)),
    P(al.translate, translator().to("meta"), whole(2, 4), start=1, stop=2,
      max_new_tokens=3),
    P(al.repeat_kv, floats(BATCH, HEADS, LENGTH, 2), 2),
    *(P(al.rope_angles, whole(LENGTH), WIDTH, scaling=scaling(k)) for k in SCALINGS),
    P(al.rope_frequencies, floats(LENGTH), WIDTH, 1e4, {}),
    P(al.convert_layout, floats(12, 5), HEADS, layout="half"),
    P(al.apply_rope, X, al.rope_angles(whole(LENGTH), WIDTH), layout="half"),
    P(al.apply_rope, X, al.rope_angles(whole(LENGTH), WIDTH), layout="interleaved"),
    P(al.sinusoidal_positions, 5, 6, device="meta"),
    P(al.layer_norm, X, floats(WIDTH), floats(WIDTH)),
    P(al.next_token_loss, floats(2, 3, WORDS), whole(2, 3)),
    P(al.next_token_loss, floats(2, 3, WORDS), whole(2, 3), whole(2)),
    P(al.flash_attention, X, X, X, causal=True, tile=2),
    P(al.flash_attention, X, X, X, allowed(1, LENGTH), tile=(3, 2)),
    P(al.ring_attention, X, X, X, causal=True),
    P(al.shard_tokens, whole(2, 8), 1, 2),
    *(P(al.linear_attention, X, X, X, form=form, chunk_len=2) for form in FORMS),
    *(P(al.gated_delta_rule, X, X, X, LINE, LINE, form=form, chunk_len=2)
      for form in FORMS),
    P(al.elu_plus_one, X),
    P(al.widened, X, X.half()),
    P(al.sink_window_mask, 4, 2, 1, 5, device="meta"),
    P(al.chunk_mask, 4, 2, 5, device="meta"),
    P(al.top_k_keys, floats(2, 3, 4), 2),
    P(al.top_k_keys, floats(2, 3, 4), 2, allowed(3, 4)),
    # Above temperature 0 it draws on the CPU, and meta has no numbers to fetch.
    P(al.sample_token, floats(BATCH, WORDS)),
    P(al.induction_targets, whole(2, 3)),
    P(al.previous_token_score, floats(2, 3, 4, 4)),
    P(al.induction_score, floats(2, 3, 4, 4), whole(2, 4)),
    P(al.head_outputs, model().to("meta"), whole(2, 3)),
    P(al.generate, model().to("meta"), whole(1, 2), max_new_tokens=2, stop=1),
    P(al.generate, model().to("meta"), whole(2, 3), max_new_tokens=2,
      lengths=whole(2)),
]  # fmt: skip
# Of what these give, tensors come.
SOURCES_OF_TENSORS = {
    "SlidingWindowDataset": lambda: [*al.SlidingWindowDataset(whole(9), 4, 4)],
    "inlined": lambda: [
        al.inlined(nn.Linear(WIDTH, 2, device="meta"))(X),
        al.inlined(nn.LayerNorm(WIDTH, device="meta"))(X),
    ],
    "make_decode_step": lambda: al.make_decode_step(
        model().to("meta"), model().to("meta").new_cache(1, 2)
    )(whole(1, 1)),
}
# What else is exported and returns tensors, and why it has no case.
ELSEWHERE = {
    name: "gives batches of a data set, which go to the device one at a time"
    for name in ("pad_texts", "make_loader")
} | {
    **dict.fromkeys(
        ("attend_in_tiles", "flash_forward", "flash_backward"),
        "the two halves of flash_attention",
    ),
    "generate_in_onnx": "onnxruntime computes, and takes the numbers of the CPU",
    "ring_forward": "a half of ring_attention",
    "speculative_generate": "compares tokens, so it asks for values",
    **dict.fromkeys(("delta_step", "delta_chunk"), "the steps of gated_delta_rule"),
    "flash_kernel": "needs Triton, and numbers: tests/library/test_flash_attention.py",
    "packed_linear": "needs Triton, and numbers: tests/library/test_packed_kernel.py",
    "require_source": "gives back what it was given",
    "weight_of": "gives the weight of a layer, wherever that is",
    "repeated_texts": "gives texts, which go to the device a batch at a time",
    "published_names": "gives a function, which takes the device of its tensor",
}


def modules(exported):
    """The names of all modules that can be built."""
    classes = {name: it for name, it in exported.items() if inspect.isclass(it)}
    return {name for name, it in classes.items() if issubclass(it, nn.Module)}


def functions(exported):
    """The names of all functions that say that they return tensors."""
    return {
        name
        for name, value in exported.items()
        if inspect.isfunction(value)
        and "Tensor" in str(inspect.signature(value).return_annotation)
    }


def elsewhere(found):
    """The devices of all tensors in a result that are not on meta."""
    if isinstance(found, Tensor):
        return [] if found.is_meta else [str(found.device)]
    parts = found if isinstance(found, list | tuple) else []
    return [device for part in parts for device in elsewhere(part)]


def off_meta(made, calls):
    """What of a module, its results and gradients is not on meta."""
    faults = []
    for method in ("forward", "attention_weights"):
        for arguments, options in calls if hasattr(made, method) else []:
            call = made if method == "forward" else getattr(made, method)
            result = call(*arguments, **options)
            faults += [f"{method}: {device}" for device in elsewhere(result)]
            parts = result if isinstance(result, list) else [result]
            torch.stack([part.sum() for part in parts]).sum().backward()
    own = [*made.named_parameters(), *made.named_buffers()]
    faults += [name for name, tensor in own if elsewhere(tensor)]
    return faults + [f"gradient of {name}" for name, t in own if elsewhere(t.grad)]


@pytest.mark.parametrize(("how", "training"), [("made there", True), ("moved", False)])
@pytest.mark.parametrize("calls", MODULES)
def test_module_runs_on_meta(calls, how, training):
    for build in MODULES[calls]:
        if how == "made there":
            with torch.device("meta"):
                made = build()
        else:
            made = build().to("meta")
        assert off_meta(made.train(training), calls()) == [], type(made)


@pytest.mark.parametrize("call", [*FUNCTIONS, *SOURCES_OF_TENSORS.values()])
def test_function_stays_on_meta(call):
    result = call()
    assert result is not None
    assert elsewhere(result) == []


def test_every_public_name_has_a_case():
    # What all kinds share; and experts, which ask for values to choose tokens.
    shared = {"MultiHeadLayer", "LanguageModel"}
    # Layers after published ones: test_hf_layers_long.py takes them to meta.
    theirs = {n for n in modules(PUBLIC) if ".hf_layers" in PUBLIC[n].__module__}
    built = {type(build()).__name__ for each in MODULES.values() for build in each}
    assert modules(PUBLIC) - theirs == (built | shared | {"Experts"}) - theirs
    called = {call.func.__name__ for call in FUNCTIONS} | {*SOURCES_OF_TENSORS}
    named = functions(PUBLIC) | {"SlidingWindowDataset"}
    assert named == called | set(ELSEWHERE)
