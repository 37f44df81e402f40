"""Nothing is allocated on a fixed device: all that the library offers runs on `meta`.

On ``meta`` a tensor has a shape and no numbers, so whatever is made elsewhere shows. A
public module or function without a case here fails by its name.
"""

import importlib
import inspect
import pkgutil
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import attention_lib
from attention_lib.linear_attention import FORMS
from attention_lib.rope_scaling import SCALINGS

# What the library's modules define, exported at the top or not.
SOURCES = [
    importlib.import_module(f"attention_lib.{found.name}")
    for found in pkgutil.iter_modules(attention_lib.__path__)
]
PUBLIC = {
    name: value
    for source in SOURCES
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


def no_memory(*more):
    masks = [(LENGTH, LENGTH), (BATCH, 1, LENGTH), *more]
    options = {"causal": True}
    masked = [((tokens(), allowed(*shape)), options) for shape in masks]
    return [((tokens(),), {}), ((tokens(),), options), *masked]


def one_head(*more):
    memory = floats(BATCH, 4, WIDTH)
    return [*no_memory(*more), ((tokens(),), {"memory": memory, "causal": True})]


def many_heads():
    return one_head((BATCH, HEADS, LENGTH, LENGTH))


def texts():
    texts = whole(BATCH, LENGTH)
    return [((texts,), {}), ((texts, whole(BATCH)), {})]


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


def look_at(layer):
    return al.look_at(layer, tokens(), al.remember(layer, floats(BATCH, 4, WIDTH)))


def both_texts():
    source, target = whole(BATCH, 4), whole(BATCH, LENGTH)
    return [((source, target), {}), ((source, target, whole(BATCH)), {})]


def scaling(kind):
    named = SCALINGS[kind][0]
    numbers = {key: number for number, key in enumerate(named, start=1)}
    return {"rope_type": kind, **numbers}


def multi_head(kind):
    build = partial(al.make_mha, kind, WIDTH, HEADS, qkv_bias=True, dropout=0.1)
    return [build], many_heads


# For each exported module: how to build it in its kinds, and what to call it with.
MODULES = {
    "SelfAttention": (
        [lambda: al.SelfAttention(WIDTH, 4, qkv_bias=True, dropout=0.1)],
        one_head,
    ),
    "MultiHeadAttentionWrapper": multi_head("wrapper"),
    "MultiHeadAttention": multi_head("split"),
    "FusedMultiHeadAttention": multi_head("sdpa"),
    "TorchMultiHeadAttention": multi_head("torch"),
    "FunctionLayer": (
        [lambda: al.FunctionLayer(al.scaled_dot_product_attention, WIDTH, HEADS)],
        one_head,
    ),
    "LearnedPositions": ([lambda: al.LearnedPositions(9, 6)], lambda: [((3, 2), {})]),
    "FeedForward": ([lambda: al.FeedForward(WIDTH)], lambda: [((tokens(),), {})]),
    "AttentionBlock": (
        [lambda: al.AttentionBlock(WIDTH, HEADS, dropout=0.1)],
        no_memory,
    ),
    "AttentionOnlyLM": (
        [lambda: al.AttentionOnlyLM(al.ModelConfig(WORDS, 9, WIDTH, HEADS, 2))],
        texts,
    ),
    "TinyBlock": (
        [
            lambda: al.TinyBlock(WIDTH, HEADS, norm="post", mha="split", dropout=0.1),
            lambda: al.TinyBlock(WIDTH, HEADS, norm="none", mha="torch", dropout=0.1),
        ],
        no_memory,
    ),
    "GroupedQueryAttention": (
        [
            lambda: al.GroupedQueryAttention(WIDTH, HEADS, 1, dropout=0.1),
            lambda: al.GroupedQueryAttention(
                WIDTH, HEADS, 1, window=2, softcap=9.0, sinks=True, qk_norm="rms"
            ),
        ],
        lambda: no_memory((BATCH, HEADS, LENGTH, LENGTH)),
    ),
    "MultiHeadLatentAttention": (
        [partial(latent, None, dropout=0.1), partial(latent, 4, absorb=True)],
        many_heads,
    ),
    "RelativeAttention": (
        [
            lambda: al.RelativeAttention(WIDTH, HEADS, dropout=0.1),
            lambda: al.RelativeAttention(WIDTH, HEADS, both_ways=False),
        ],
        lambda: no_memory((BATCH, HEADS, LENGTH, LENGTH)),
    ),
    "CrossBlock": (
        [
            lambda: al.CrossBlock(WIDTH, HEADS, dropout=0.1),
            lambda: al.CrossBlock(WIDTH, HEADS, norm="post", num_cross_heads=1),
        ],
        lambda: [((tokens(), floats(BATCH, 4, WIDTH), allowed(BATCH, 1, 4)), {})],
    ),
    "TinyTranslator": (
        [translator, lambda: translator(num_encoder_layers=0)],
        both_texts,
    ),
    "RMSNorm": (
        [lambda: al.RMSNorm(WIDTH), lambda: al.RMSNorm(WIDTH, plus_one=True)],
        lambda: [((tokens(),), {})],
    ),
    "SwiGLU": ([lambda: al.SwiGLU(WIDTH, 4)], lambda: [((tokens(),), {})]),
    "LlamaBlock": (
        [lambda: al.LlamaBlock(llama_config())],
        lambda: [((tokens(),), {"causal": True})],
    ),
    "Decoder": (
        [
            decoder,
            lambda: decoder(norm="layer", mlp="plain", learned_positions=True),
            lambda: decoder(norm_outputs=True, logits_softcap=9.0, tie_weights=True),
        ],
        texts,
    ),
    "DecoderBlock": (
        [lambda: decoder().blocks[0]],
        lambda: [((tokens(), [floats(LENGTH, WIDTH // HEADS // 2)]), {})],
    ),
    "PlainMLP": ([lambda: al.PlainMLP(WIDTH, 4, "gelu")], lambda: [((tokens(),), {})]),
    "TinyLlama": ([lambda: al.TinyLlama(llama_config(tie_weights=True))], texts),
    "Rebuilt": (
        [lambda: al.Rebuilt(al.make_mha("split", WIDTH, HEADS), head_dim=2)],
        lambda: [((tokens(),), {}), ((tokens(), allowed(BATCH, 1, LENGTH)), {})],
    ),
    "TinyLM": ([model, lambda: model(tie_weights=True, norm="post")], texts),
    "GrowingStep": (
        [lambda: al.GrowingStep(model(positions="rotary"))],
        lambda: [((whole(BATCH, 2), [floats(BATCH, HEADS, 4, 2)] * 2), {})],
    ),
    "StaticStep": (
        [lambda: al.StaticStep(model(), 9)],
        lambda: [((whole(BATCH, 2), whole(1), [floats(BATCH, HEADS, 9, 2)] * 2), {})],
    ),
}

# For each exported function that returns tensors: calls whose every tensor is on meta.
FUNCTIONS = {
    "SlidingWindowDataset": [
        lambda: [*al.SlidingWindowDataset(whole(9), length=4, stride=4)]
    ],
    "published_tensors": [
        lambda: al.published_tensors(
            "gpt2", {"blocks.0.mlp.up_proj.weight": floats(4, WIDTH)}
        )
    ],
    "attention_weights": [
        lambda: al.attention_weights(tokens(), tokens()),
        lambda: al.attention_weights(tokens(), tokens(), allowed(LENGTH, LENGTH)),
    ],
    "scaled_dot_product_attention": [
        lambda: al.scaled_dot_product_attention(*[tokens()] * 3, dropout=0.1),
        lambda: al.scaled_dot_product_attention(*[tokens()] * 3, allowed(1, LENGTH)),
    ],
    "causal_mask": [lambda: al.causal_mask(2, 3, device="meta")],
    "sliding_window_mask": [lambda: al.sliding_window_mask(2, 1, 3, device="meta")],
    "padding_mask": [
        lambda: al.padding_mask(whole(BATCH), 3),
        lambda: al.padding_mask(whole(BATCH), 3, side="left"),
    ],
    "with_causal": [lambda: al.with_causal(None, True, tokens(), tokens())],
    "combine_masks": [lambda: al.combine_masks(allowed(3, 3), allowed(BATCH, 1, 3))],
    "split_heads": [lambda: al.split_heads(tokens(), HEADS)],
    "merge_heads": [lambda: al.merge_heads(floats(BATCH, HEADS, LENGTH, 2))],
    "add_head_axis": [lambda: al.add_head_axis(allowed(BATCH, 1, 3))],
    "split_mask": [lambda: al.split_mask(allowed(2, 3, 5, 5), tokens(), HEADS)],
    "look_at": [lambda: look_at(split_layer())],
    "translate": [
        lambda: al.translate(
            translator().to("meta"), whole(2, 4), start=1, stop=2, max_new_tokens=3
        )
    ],
    "repeat_kv": [lambda: al.repeat_kv(floats(BATCH, HEADS, LENGTH, 2), 2)],
    "rope_angles": [
        lambda kind=kind: al.rope_angles(whole(LENGTH), WIDTH, scaling=scaling(kind))
        for kind in SCALINGS
    ],
    "pair_speeds": [lambda: al.pair_speeds(floats(LENGTH), WIDTH, 1e4, {})],
    "convert_layout": [lambda: al.convert_layout(floats(12, 5), HEADS, layout="half")],
    "apply_rope": [
        lambda layout=layout: al.apply_rope(
            tokens(), al.rope_angles(whole(LENGTH), WIDTH), layout=layout
        )
        for layout in ("half", "interleaved")
    ],
    "sinusoidal_positions": [lambda: al.sinusoidal_positions(5, 6, device="meta")],
    "layer_norm": [lambda: al.layer_norm(tokens(), floats(WIDTH), floats(WIDTH))],
    "next_token_loss": [
        lambda: al.next_token_loss(floats(2, 3, WORDS), whole(2, 3)),
        lambda: al.next_token_loss(floats(2, 3, WORDS), whole(2, 3), whole(2)),
    ],
    "flash_attention": [
        lambda: al.flash_attention(*[tokens()] * 3, causal=True, tile=2),
        lambda: al.flash_attention(*[tokens()] * 3, allowed(1, LENGTH), tile=(3, 2)),
    ],
    "ring_attention": [lambda: al.ring_attention(*[tokens()] * 3, causal=True)],
    "take_tokens": [lambda: al.take_tokens(whole(2, 8), 1, 2)],
    "join_tokens": [lambda: al.join_tokens([whole(2, 4)] * 2)],
    "linear_attention": [
        lambda form=form: al.linear_attention(*[tokens()] * 3, form=form, chunk_len=2)
        for form in FORMS
    ],
    "gated_delta_rule": [
        lambda form=form: al.gated_delta_rule(
            *[tokens()] * 3, *[floats(BATCH, LENGTH)] * 2, form=form, chunk_len=2
        )
        for form in FORMS
    ],
    "elu_plus_one": [lambda: al.elu_plus_one(tokens())],
    "sink_window_mask": [lambda: al.sink_window_mask(4, 2, 1, 5, device="meta")],
    "chunk_mask": [lambda: al.chunk_mask(4, 2, 5, device="meta")],
    "choose_keys": [
        lambda: al.choose_keys(floats(2, 3, 4), 2),
        lambda: al.choose_keys(floats(2, 3, 4), 2, allowed(3, 4)),
    ],
    # Above temperature 0 it draws on the CPU, and meta has no numbers to fetch.
    "pick_token": [lambda: al.pick_token(floats(BATCH, WORDS))],
    "bound": [
        lambda: al.bound(nn.Linear(WIDTH, 2, device="meta"))(tokens()),
        lambda: al.bound(nn.LayerNorm(WIDTH, device="meta"))(tokens()),
    ],
    "new_step": [
        lambda: al.new_step(model().to("meta"), model().to("meta").new_cache(1, 2))(
            whole(1, 1)
        )
    ],
    "copied_successors": [lambda: al.copied_successors(whole(2, 3))],
    "previous_token_score": [lambda: al.previous_token_score(floats(2, 3, 4, 4))],
    "induction_score": [
        lambda: al.induction_score(floats(2, 3, 4, 4), whole(2, 4)),
    ],
    "head_contexts": [lambda: al.head_contexts(model().to("meta"), whole(2, 3))],
    "generate": [
        lambda: al.generate(model().to("meta"), whole(1, 2), max_new_tokens=2, stop=1),
        lambda: al.generate(
            model().to("meta"), whole(2, 3), max_new_tokens=2, lengths=whole(2)
        ),
    ],
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
    "flash_kernel": "needs Triton, and numbers: tests/test_flash_attention.py",
    "check_source": "gives back what it was given",
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
@pytest.mark.parametrize("name", MODULES)
def test_module_runs_on_meta(name, how, training):
    kinds, calls = MODULES[name]
    for build in kinds:
        if how == "made there":
            with torch.device("meta"):
                made = build()
        else:
            made = build().to("meta")
        assert type(made).__name__ == name
        assert off_meta(made.train(training), calls()) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_stays_on_meta(name):
    for call in FUNCTIONS[name]:
        result = call()
        assert result is not None
        assert elsewhere(result) == []


def test_every_public_name_has_a_case():
    # What all kinds share; and experts, which ask for values to choose tokens.
    shared = {"MultiHeadLayer", "LanguageModel"}
    # Layers after published ones: tests/test_published_long.py takes them to meta.
    theirs = {n for n in modules(PUBLIC) if ".published" in PUBLIC[n].__module__}
    wanted = set(MODULES) | shared | {"Experts"}
    assert modules(PUBLIC) - theirs == wanted - theirs
    named = functions(PUBLIC) | {"SlidingWindowDataset"}
    assert named == set(FUNCTIONS) | set(ELSEWHERE)
