"""Every layer and the model under PyTorch's tools that know no tensor's values."""

from functools import partial as P

import pytest
import torch
from torch.export import Dim, export
from torch.func import functional_call, grad, vmap

from attention_lib.attention import SelfAttention
from attention_lib.block import FeedForward, TinyBlock
from attention_lib.cross_attention import (
    TinyTranslator,
    TranslatorConfig,
    translate,
)
from attention_lib.export import DynamicCacheStep, StaticCacheStep
from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.masks import padding_mask
from attention_lib.mha_variants import MHA_VARIANTS, make_mha
from attention_lib.pretrained import load_pretrained, save_pretrained
from attention_lib.relative_attention import RelativeAttention
from attention_lib.reproducibility import seeded
from attention_lib.serving import Server
from attention_lib.tiny_llama import LlamaConfig, SwiGLU, TinyLlama
from attention_lib.tiny_lm import ModelConfig, TinyLM
from tests.library.tiny_tokenizers import MODEL_FIELDS, tiny_decoder
from tests.tensors import assert_same, global_seed

# jaxtyping's checks are no part of what users compile.
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("shapes_unchecked"),
    # Tracing the compilers would take half as long again, and covers no line more.
    pytest.mark.no_cover,
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]
D_MODEL, HEADS, VOCAB_SIZE, CONTEXT_LEN = 12, 3, 11, 16
SIZES = VOCAB_SIZE, CONTEXT_LEN, D_MODEL, HEADS, 1
LATENT = dict(q_latent_dim=5, kv_latent_dim=6, nope_dim=3, rope_dim=2, value_dim=4)
OPTIONS = dict(window=3, softcap=5.0, sinks=True, qk_norm="rms")
LAYERS = {
    "SelfAttention": P(SelfAttention, D_MODEL, 4),
    "FeedForward": P(FeedForward, D_MODEL),
    **{kind: P(make_mha, kind, D_MODEL, HEADS) for kind in MHA_VARIANTS},
    "TinyBlock": P(TinyBlock, D_MODEL, HEADS, norm="post"),
    "grouped": P(GroupedQueryAttention, D_MODEL, HEADS, 1),
    "grouped, all options": P(GroupedQueryAttention, D_MODEL, HEADS, 1, **OPTIONS),
    "latent": P(MultiHeadLatentAttention, D_MODEL, HEADS, absorb=False, **LATENT),
    "latent, absorbed": P(
        MultiHeadLatentAttention, D_MODEL, HEADS, absorb=True, **LATENT
    ),
    "relative": P(RelativeAttention, D_MODEL, HEADS),
    "SwiGLU": P(SwiGLU, D_MODEL, 7),
    "TinyLM, Llama": P(
        TinyLlama, LlamaConfig(VOCAB_SIZE, CONTEXT_LEN, D_MODEL, HEADS, 1, 1, 20)
    ),
    "TinyLM, split": P(TinyLM, ModelConfig(*SIZES, tie_weights=True)),
    "TinyLM, sdpa": P(TinyLM, ModelConfig(*SIZES, mha="sdpa")),
}
each_layer = pytest.mark.parametrize("name", LAYERS)
# Compilers take their time. These three hold all that the others are made of, but for
# two ways to attend; the others are compiled by `make test-rest`.
QUICK = {"split", "TinyLM, sdpa", "TinyLM, Llama"}


def compiled(names):
    slow = pytest.mark.slow
    return [name if name in QUICK else pytest.param(name, marks=slow) for name in names]


each_compiled = pytest.mark.parametrize("name", compiled(LAYERS))


def made(name):
    with global_seed(0):
        return LAYERS[name]()


def called(name):
    return {} if name in ("FeedForward", "SwiGLU") or "LM" in name else {"causal": True}


def inputs(name, batch=3, length=7):
    if "LM" in name:
        return torch.randint(VOCAB_SIZE, (batch, length), generator=seeded(batch))
    return torch.randn(batch, length, D_MODEL, generator=seeded(batch))


def assert_equal_at_other_sizes(run, layer, name):
    x = inputs(name, batch=5, length=13)
    torch.testing.assert_close(run(x), layer(x, **called(name)))


@each_compiled
def test_layer_exports_with_any_batch_and_length(name):
    layer, options = made(name), called(name)
    first = "token_ids" if "LM" in name else "x"
    free = {0: Dim("batch"), 1: Dim("length", max=CONTEXT_LEN)}
    shapes = {first: free, **dict.fromkeys(options)}
    program = export(layer, (inputs(name),), options, dynamic_shapes=shapes).module()
    assert_equal_at_other_sizes(lambda x: program(x, **options), layer, name)


@pytest.mark.parametrize("kind", compiled(MHA_VARIANTS))
def test_layer_exports_with_a_memory_of_any_length(kind):
    layer = make_mha(kind, D_MODEL, HEADS)
    batch, length, other = Dim("batch"), Dim("length"), Dim("other")
    shapes = {"x": {0: batch, 1: length}, "memory": {0: batch, 1: other}}
    options = {"causal": True, "memory": inputs(kind, length=4)}
    shapes["causal"] = None
    program = export(layer, (inputs(kind),), options, dynamic_shapes=shapes).module()
    for length in (2, 7):
        x = inputs(kind, batch=5)
        options["memory"] = inputs(kind, batch=5, length=length)
        torch.testing.assert_close(program(x, **options), layer(x, **options))


def test_model_exports_with_lengths_of_any_batch():
    model, batch = TinyLM(ModelConfig(*SIZES)), Dim("batch")
    shapes = {0: batch, 1: Dim("length", max=CONTEXT_LEN)}, {0: batch}
    given = inputs("LM"), torch.tensor([7, 3, 1])
    program = export(model, given, dynamic_shapes=shapes).module()
    more = inputs("LM", batch=5, length=13), torch.tensor([13, 1, 2, 9, 4])
    torch.testing.assert_close(program(*more), model(*more))


@each_compiled
def test_layer_compiles_without_a_graph_break(name):
    layer, options = made(name), called(name)
    torch.compiler.reset()
    fast = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    fast(inputs(name), **options).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    assert_equal_at_other_sizes(lambda x: fast(x, **options), layer, name)


def test_masks_compile_with_a_layer():
    layer, x = made("split"), inputs("split")

    def attend(x, lengths):
        return layer(x, padding_mask(lengths, x.shape[1]), causal=True)

    torch.compiler.reset()
    fast = torch.compile(attend, fullgraph=True, backend="aot_eager")
    lengths = torch.tensor([7, 3, 1])
    torch.testing.assert_close(fast(x, lengths), attend(x, lengths))


@each_layer
def test_gradients_of_each_text_are_those_of_it_alone(name):
    layer, texts = made(name), inputs(name)
    weights = dict(layer.named_parameters())

    def loss(weights, text):
        result = functional_call(layer, weights, (text[None],), called(name))
        return result.square().sum()

    found = vmap(grad(loss), in_dims=(None, 0))(weights, texts)
    for row, text in enumerate(texts):
        wanted = torch.autograd.grad(loss(weights, text), weights.values())
        for name_, gradient in zip(weights, wanted, strict=True):
            own = found[name_][row]
            torch.testing.assert_close(own, gradient, rtol=1e-3, atol=1e-4)


@pytest.fixture
def both():
    """A model, and the same model compiled."""
    model = TinyLM(ModelConfig(*SIZES)).eval()
    torch.compiler.reset()
    return model, torch.compile(model, backend="eager")


def test_compiled_model_is_served_as_the_plain_one(both):
    texts = []
    for model in both:
        server = Server(model, num_pages=8, page_len=4, max_batch=2)
        texts.append(server.submit([1, 2], max_new_tokens=4))
        server.run()
    assert texts[0].tokens == texts[1].tokens


@pytest.mark.parametrize(
    ("step", "sizes"),
    [(DynamicCacheStep, (2, 3, 1)), (P(StaticCacheStep, max_len=8), (2, 3))],
)
def test_compiled_model_is_exported_as_the_plain_one(both, step, sizes):
    plain, fast = (step(model) for model in both)
    args = plain.example(*sizes)
    program = export(fast, fast.example(*sizes)).module()
    torch.testing.assert_close(program(*args), plain(*args))


def test_compiled_translator_translates_as_the_plain_one():
    model = TinyTranslator(TranslatorConfig(*SIZES)).eval()
    ids, options = inputs("LM"), dict(start=1, stop=2, max_new_tokens=3)
    fast = torch.compile(model, backend="eager")
    assert translate(fast, ids, **options).equal(translate(model, ids, **options))


def test_compiled_decoder_is_saved_as_the_plain_one(tmp_path):
    model = tiny_decoder()
    save_pretrained(tmp_path, torch.compile(model, backend="eager"), MODEL_FIELDS)
    found = load_pretrained(tmp_path).state_dict()
    assert_same(found, model.state_dict())
