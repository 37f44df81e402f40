"""Every layer and model × types × masks × padding × caches × replaced projections.

Each text of a batch equals that text alone. A line of ``TABLE`` is a layer: what it is
made of, how it is called, and its slow reference. A combination that fails is printed
as a ``Case``, which ``check(TABLE[case.layer], case)`` repeats.
"""

import json
import zlib
from dataclasses import replace
from functools import partial as P
from random import Random

import pytest
import torch
from hypothesis import HealthCheck, example, given, seed, settings
from hypothesis import strategies as st
from torch import nn

from attention_lib.attention import SelfAttention, scaled_dot_product_attention
from attention_lib.block import TinyBlock
from attention_lib.cross_attention import (
    CrossBlock,
    TinyTranslator,
    TranslatorConfig,
    cache_memory,
)
from attention_lib.flash_attention import flash_attention
from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.hf_layers import KNOWN, from_transformers
from attention_lib.interpret import AttentionBlock, AttentionOnlyLM
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.linear_attention import FORMS, gated_delta_rule, linear_attention
from attention_lib.masks import causal_mask, combine_masks
from attention_lib.mha_variants import MHA_VARIANTS as MHA
from attention_lib.mha_variants import make_mha
from attention_lib.multi_head import MultiHeadLayer
from attention_lib.pretrained import Decoder, read_config
from attention_lib.relative_attention import RelativeAttention
from attention_lib.reproducibility import seeded
from attention_lib.tiny_llama import LlamaConfig, TinyLlama
from attention_lib.tiny_lm import LanguageModel, ModelConfig, TinyLM
from benchmarks import published_layers
from tests import reference
from tests.library.published_models import FAMILIES, OF_TWO_KINDS
from tests.library.published_models import SIZES as OF_MODELS
from tests.matrix import (
    MASKS,
    PARTS,
    SIZES,
    WINDOW,
    Case,
    Entry,
    check,
    first,
    takes,
    takes_rows,
)
from tests.tensors import global_seed

pytestmark = pytest.mark.long

D_MODEL, HEADS = 12, 3
CONTEXT, VOCAB = 320, 30
CAUSAL = tuple(name for name in MASKS if name != "none")


def past(query, key):
    return key <= query


def near(query, key):
    return query - WINDOW < key <= query


def settled(make):
    """Make a module in float64 with random weights, norms and biases too."""

    def build():
        with global_seed(0):
            module = make()
        generator = seeded(0)
        for name, weight in module.double().named_parameters():
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            if weight.ndim < 2:
                weight.data += 0.3 * drawn
            elif "embedding" in name or "bias" in name:
                weight.data = drawn
            else:  # (out, in), or (experts, in, out)
                width = weight.shape[1]
                weight.data = drawn * width**-0.5
        return module.eval()

    return build


def vectors(width):
    def tokens(count, generator):
        return torch.randn(count, width, generator=generator, dtype=torch.float64)

    return tokens


def ids(count, generator):
    return torch.randint(VOCAB, (count,), generator=generator)


# --- layers with heads -------------------------------------------------------------


def attend(module, x, told):
    also = {"cache": told.cache, "angles": told.angles}
    also = {name: it for name, it in also.items() if it is not None}
    if takes(module, "positions"):
        also["positions"] = told.places
    if takes(module, "key_positions"):
        also["key_positions"] = told.known
    return module(x, told.mask, causal=told.causal, **also)


def layer(make, alone, **options):
    options = {"angles": D_MODEL // HEADS} | options
    return Entry(settled(make), attend, by_hand(alone), vectors(D_MODEL), **options)


def by_hand(alone):
    return lambda module, x, *told: alone(module, x.numpy(), *told)


def heads(kind, **options):
    make = P(make_mha, kind, D_MODEL, HEADS, **options)
    return layer(make, reference.multi_head)


def grouped(**options):
    own = {"own": near, "counts": True} if "window" in options else {}
    make = P(GroupedQueryAttention, D_MODEL, HEADS, 1, **options)
    return layer(make, reference.grouped, **own)


SPLIT = dict(kv_latent_dim=6, nope_dim=3, rope_dim=4, value_dim=5)


def latent(**options):
    make = P(MultiHeadLatentAttention, D_MODEL, HEADS, **SPLIT | options)
    return layer(make, reference.latent)


LAYERS = {
    "head": layer(
        P(SelfAttention, D_MODEL, 7), reference.single_head, angles=None,
        caches=("none",),
    ),
    **{kind: heads(kind, qkv_bias=True) for kind in MHA},
    "sdpa, no bias": heads("sdpa"),
    **{
        f"block, {norm}, {kind}": layer(
            P(TinyBlock, D_MODEL, HEADS, norm=norm, mha=kind), reference.block
        )
        for norm, kind in (("pre", "split"), ("post", "sdpa"), ("none", "torch"))
    },
    "block without an MLP": layer(P(AttentionBlock, D_MODEL, HEADS), reference.block),
    "grouped": grouped(),
    "grouped, biases": grouped(qkv_bias=True, out_bias=True, layout="interleaved"),
    "grouped, window": grouped(window=WINDOW),
    "grouped, window, sinks": grouped(window=WINDOW, sinks=True),
    "grouped, softcap": grouped(softcap=0.7, scale=0.9),
    "grouped, normed, sinks": grouped(qk_norm="rms", sinks=True),
    "grouped, all": grouped(
        window=WINDOW, softcap=2.0, sinks=True, qk_norm="rms_plus_one"
    ),
    "latent": latent(q_latent_dim=None),
    "latent, compressed queries": latent(q_latent_dim=7, bias=True),
    "latent, absorbed": latent(q_latent_dim=None, absorb=True),
    "latent, absorbed, all": latent(q_latent_dim=7, absorb=True, bias=True),
    "relative": layer(
        P(RelativeAttention, D_MODEL, HEADS, num_buckets=8, max_distance=7),
        reference.relative, counts=True,
    ),
    "relative, past": layer(
        P(RelativeAttention, D_MODEL, HEADS, num_buckets=8, max_distance=9,
          both_ways=False),
        reference.relative, counts=True, masks=CAUSAL,
    ),
}  # fmt: skip

# --- to a memory: the same for all texts, 4 tokens and 2 of padding ------------------

REAL, PAD = 4, 2
MEMORY = vectors(D_MODEL)(REAL + PAD, seeded(7))
SOURCE = ids(REAL + PAD, seeded(7))
HIDDEN = (torch.arange(REAL + PAD) < REAL)[None, None]


def to_memory(module, x, told):
    memory = MEMORY.to(x.dtype).expand(len(x), -1, -1)
    return module(x, HIDDEN.expand(len(x), -1, -1), memory=memory)


def remembering(make, alone):
    def slowly(module, x, sees, angles):
        sees = reference.np.ones((len(x), REAL), dtype=bool)
        return alone(module, x, sees, memory=MEMORY[:REAL].numpy())

    only = {"masks": ("none",), "caches": ("none",), "middle": False}
    return Entry(settled(make), to_memory, by_hand(slowly), vectors(D_MODEL), **only)


def cross(module, x, told, kept=False):
    memory = MEMORY.to(x.dtype).expand(len(x), -1, -1)
    if kept:
        memory = cache_memory(module.cross_attention, memory)
    seen = HIDDEN.expand(len(x), -1, -1)
    return module(x, memory, seen, mask=told.mask, cache=told.cache)


def cross_alone(module, x, sees, angles):
    seen = reference.np.ones((len(x), REAL), dtype=bool)
    return reference.cross_block(module, x, sees, MEMORY[:REAL].numpy(), seen)


def crossing(norm, kept):
    make = P(CrossBlock, D_MODEL, HEADS, num_cross_heads=2, norm=norm, qkv_bias=True)
    call, only = P(cross, kept=kept), {"masks": CAUSAL, "own": past}
    return Entry(settled(make), call, by_hand(cross_alone), vectors(D_MODEL), **only)


TO_MEMORY = {
    "head, memory": remembering(P(SelfAttention, D_MODEL, 7), reference.single_head),
    **{
        f"{kind}, memory": remembering(
            P(make_mha, kind, D_MODEL, HEADS, qkv_bias=True), reference.multi_head
        )
        for kind in MHA
    },
    "grouped, memory": remembering(
        P(GroupedQueryAttention, D_MODEL, HEADS, 1, sinks=True), reference.grouped
    ),
    "grouped, window, memory": replace(
        remembering(
            P(GroupedQueryAttention, D_MODEL, HEADS, 1, window=2), reference.grouped
        ),
        refuses=((lambda case: True, ValueError, "memory does not go with a window"),),
    ),
    "latent, memory": remembering(
        P(MultiHeadLatentAttention, D_MODEL, HEADS, q_latent_dim=None, **SPLIT),
        reference.latent,
    ),
    "latent, absorbed, memory": remembering(
        P(
            MultiHeadLatentAttention,
            D_MODEL,
            HEADS,
            q_latent_dim=7,
            absorb=True,
            **SPLIT,
        ),
        reference.latent,
    ),
    "relative, memory": remembering(
        P(RelativeAttention, D_MODEL, HEADS, num_buckets=8), reference.relative
    ),
    "cross block": crossing("pre", kept=False),
    "cross block, kept": crossing("pre", kept=True),
    "cross block, post, kept": crossing("post", kept=True),
}

# --- functions ---------------------------------------------------------------------

WIDTHS = {"attention": [4, 4, 5], "delta": [4, 4, 5, 1, 1]}


def function(name):
    def call(_, x, told):
        query, key, value = x.split(WIDTHS["attention"], dim=-1)
        if name == "flash":
            tile = (4, 3) if x.shape[1] < 20 else (128, 100)
            return flash_attention(
                query, key, value, told.mask, causal=told.causal, tile=tile
            )
        mask, size = told.mask, x.shape[1]
        if told.causal:
            masks = [causal_mask(size)] + ([] if mask is None else [mask])
            mask = combine_masks(*masks)
        return scaled_dot_product_attention(query, key, value, mask)

    def alone(_, x, sees, angles):
        query, key, value = (it.numpy() for it in x.split(WIDTHS["attention"], dim=-1))
        return reference.attend(query[None], key[None], value[None], sees, 0.5)[0]

    return Entry(None, call, alone, vectors(13), caches=("none",), middle=False)


def delta_numbers(count, generator):
    draw = vectors(4 + 4 + 5 + 2)(count, generator)
    query, key, value, decay, beta = draw.split(WIDTHS["delta"], dim=-1)
    key = nn.functional.normalize(key, dim=-1)
    return torch.cat((query, key, value, -decay.abs(), beta.sigmoid()), dim=-1)


def summed(form, rule):
    """Linear attention and the delta rule, which see the past and take no mask."""
    widths = WIDTHS["attention" if rule is linear_attention else "delta"]

    def cut(x):
        parts = x.split(widths, dim=-1)
        return [*parts[:3], *(it.squeeze(-1) for it in parts[3:])]

    def call(_, x, told):
        return rule(*cut(x), form=form, chunk_len=3)

    def alone(_, x, sees, angles):
        return getattr(reference, rule.__name__)(*(it.numpy() for it in cut(x)))

    only = dict(masks=("causal",), paddings=("none", "right"), caches=("none",))
    tokens, sizes = vectors(13), SIZES
    if rule is gated_delta_rule:
        tokens, sizes = delta_numbers, ("plain", "long")
    return Entry(None, call, alone, tokens, sizes=sizes, empties=False, **only)


FUNCTIONS = {
    "function flash": function("flash"),
    "function attention": function("attention"),
    **{f"linear, {form}": summed(form, linear_attention) for form in FORMS},
    **{f"delta rule, {form}": summed(form, gated_delta_rule) for form in FORMS},
}

# --- models ------------------------------------------------------------------------


def read(model, x, told):
    """Call a model as generation does; the shortest call where that is enough."""
    told_lengths = told.case.padding == "right" and told.case.cache == "none"
    if told_lengths and told.case.mask == "causal" and not told.case.empty:
        return model(x, torch.tensor(told.totals))
    if told.mask is None:
        return model(x, cache=told.cache)
    return model(x, mask=told.mask, positions=told.places, cache=told.cache)


def read_alone(model, x, sees, angles):
    return model(x[None], mask=torch.from_numpy(sees)[None])[0]


def read_without_window(model, x, sees, angles):
    for block in model.blocks:
        block.attention.window = None
    return read_alone(model, x, sees, angles)


def model(make, alone=read_alone, **options):
    options = {"masks": CAUSAL, "sizes": ("plain", "long"), "own": past} | options
    return Entry(settled(make), read, alone, ids, **options)


def tiny(kind=TinyLM, **options):
    return model(
        lambda: kind(ModelConfig(VOCAB, CONTEXT, D_MODEL, HEADS, 2, **options))
    )


def llama(alone=read_alone, entry=None, **options):
    sizes = VOCAB, CONTEXT, 24, 4, 2, 2, 20
    return model(
        lambda: TinyLlama(LlamaConfig(*sizes, **options)), alone, **entry or {}
    )


TRAINED = {"factor": 4.0, "original_max_position_embeddings": 6}
STRETCHED = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "yarn": {"rope_type": "yarn", **TRAINED},
    "llama3": {
        "rope_type": "llama3", **TRAINED, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}  # fmt: skip
DYNAMIC = {"rope_type": "dynamic", **TRAINED}


def decoder(name):
    """A model of a published family, read from a config as in its folder."""

    def make():
        import transformers

        kind, options = FAMILIES[name]
        options = OF_MODELS | {"max_position_embeddings": CONTEXT} | options
        options |= {"vocab_size": VOCAB}
        if kind == "GPT2":
            new = dict(n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT)
            options = {"vocab_size": VOCAB} | new | FAMILIES[name][1]
        if kind == "GptOss":  # a choice of some would jump where scores are rounded
            options["num_experts_per_tok"] = options["num_local_experts"]
        config = getattr(transformers, f"{kind}Config")(**options)
        return Decoder(read_config(json.loads(config.to_json_string())))

    return model(make)


def translate(model, x, told):
    source = SOURCE.expand(len(x), -1)
    memory, mask = model.encode(source, torch.full((len(x),), REAL))
    kept = model.cache_memory(memory) if told.cache else [memory] * len(model.decoder)
    return model.decode(x, kept, mask, cache=told.cache)


MODELS = {
    **{
        f"TinyLM, {positions}, {mha}": tiny(positions=positions, mha=mha)
        for positions, mha in (
            *(("learned", "split"), ("learned", "sdpa"), ("sinusoidal", "wrapper")),
            *(("rotary", "sdpa"), ("rotary", "split"), ("none", "torch")),
        )
    },
    "TinyLM, post": tiny(norm="post", mha="sdpa"),
    "TinyLM, tied": tiny(tie_weights=True),
    "AttentionOnlyLM": tiny(AttentionOnlyLM, positions="rotary", mha="sdpa"),
    "TinyLlama": llama(),
    "TinyLlama, all": llama(qkv_bias=True, qk_norm="rms", tie_weights=True, head_dim=8),
    "TinyLlama, window": llama(read_without_window, {"own": near}, window=WINDOW),
    "TinyLlama, window, yarn": llama(
        read_without_window,
        {"own": near},
        window=WINDOW,
        rope_scaling=STRETCHED["yarn"],
    ),
    **{
        f"TinyLlama, {kind}": llama(rope_scaling=own) for kind, own in STRETCHED.items()
    },
    # Keys that a cache holds keep their old angles: chapter 9.
    "TinyLlama, dynamic": llama(
        entry={"caches": ("none",)},
        rope_scaling=DYNAMIC | {"original_max_position_embeddings": 2},
    ),
    "TinyLlama, dynamic, short": llama(
        rope_scaling=DYNAMIC | {"original_max_position_embeddings": CONTEXT}
    ),
    **{f"Decoder, {name}": decoder(name) for name in FAMILIES},
    "TinyTranslator": Entry(
        settled(
            lambda: TinyTranslator(
                TranslatorConfig(VOCAB, CONTEXT, D_MODEL, HEADS, 2, num_cross_heads=2)
            )
        ),
        translate,
        lambda model, x, sees, angles: model(SOURCE[None, :REAL], x[None])[0],
        ids,
        masks=("causal",), paddings=("none", "right"), sizes=("plain", "long"),
        middle=False, empties=False,
    ),
}  # fmt: skip

# --- published layers, rebuilt -------------------------------------------------------

OF_HEADS = dict.fromkeys(
    ("ModernBert", "Longformer", "Bloom", "Mpt", "GPT2", "Bert", "Bart"), 24
)
OF_HEADS |= {"T5": 20}
STATES = (
    "Qwen3NextGatedDeltaNet",
    "KimiLinearDeltaAttention",
    "MiniMaxLightningAttention",
)


def rebuilt_call(module, x, told):
    also = {} if told.cache is None else {"cache": told.cache}
    if takes_rows(module):
        also["positions"] = told.places
    elif not told.uneven:
        also["positions"] = told.places[0]
    return module(x, told.mask, **also)


def rebuilt_alone(module, x, sees, angles):
    return module(x[None], torch.from_numpy(sees)[None])[0]


def state_call(module, x, told):
    also = {} if told.cache is None else {"cache": told.cache}
    return module(x, None if told.real.all() else told.real, **also)


# A state would fade between the tokens of a text.
WITHIN = {
    "paddings": ("left", "right"),
    "caches": ("prefix",),
    "sizes": ("plain",),
    "refuses": (
        (
            lambda case: True,
            ValueError,
            "mask must be True after a text's first token",
        ),
    ),
}


def published(name, number=0, *, both=False, entry=None, **options):
    """A line for a small published layer; ``both``: it sees what comes later, too."""

    def make():
        layer = published_layers.build(
            name, number, published_layers.SIZES[0], **options
        )
        return from_transformers(layer).double()

    width = next((own for kind, own in OF_HEADS.items() if name.startswith(kind)), 18)
    if options.get("memory"):
        memory = vectors(width)(REAL + PAD, seeded(7))

        def call(module, x, told):
            kept = memory.to(x.dtype).expand(len(x), -1, -1)
            return module(x, HIDDEN.expand(len(x), -1, -1), memory=kept)

        def alone(module, x, sees, angles):
            return module(x[None], memory=memory[None, :REAL])[0]

        only = {"masks": ("none",), "caches": ("none",), "middle": False}
        return Entry(make, call, alone, vectors(width), **only, empties=False)
    if name in STATES:
        return Entry(
            make, state_call, lambda module, x, sees, angles: module(x[None])[0],
            vectors(width), masks=("causal",), least=torch.float32, empties=False,
            **{"sizes": ("plain", "long")} | (entry or {}),
        )  # fmt: skip
    told = {"masks": CAUSAL, "counts": True}
    if both:
        masks = tuple(name for name in MASKS if name != "causal")
        told = {"masks": masks, "caches": ("none",)}
    return Entry(
        make, rebuilt_call, rebuilt_alone, vectors(width), **told | (entry or {})
    )


WHOLE = {"index_topk": 1000}
EXACT = {"dtypes": ("float64",)}
PLACES = {"places": True}
PUBLISHED = {
    **{
        f"{name}, {number}": published(name, number)
        for name in published_layers.KINDS
        if name not in (*OF_HEADS, "Llama4TextAttention", "T5Attention")
        and not name.startswith(tuple(OF_HEADS))
        and name not in ("DeepseekV32Attention", "GlmMoeDsaAttention", *STATES)
        and not name.startswith(("Kimi", "Qwen3Next", "MiniMax"))
        for number in ((0, 1) if name in OF_TWO_KINDS else (0,))
    },
    "Qwen3NextAttention": published("Qwen3NextAttention", 1),
    "KimiLinearAttention": published("KimiLinearAttention", 1, entry={"counts": False}),
    "MiniMaxAttention": published("MiniMaxAttention", 1),
    **{name: published(name, entry={"caches": ("none",)}) for name in STATES},
    **{
        f"{name}, cached": published(name, entry={"paddings": ("none",)})
        for name in STATES
    },
    **{f"{name}, padding within": published(name, entry=WITHIN) for name in STATES},
    "Llama4TextAttention, chunks": published("Llama4TextAttention", 0, entry=PLACES),
    # Its temperature counts columns, as the published model's does.
    "Llama4TextAttention, all": published(
        "Llama4TextAttention", 1,
        entry=PLACES | {"paddings": ("none", "right"), "middle": False},
    ),
    # A choice jumps where scores are rounded: so all keys, or exact numbers.
    "DeepseekV32Attention": published("DeepseekV32Attention", **WHOLE),
    "DeepseekV32Attention, chosen": published("DeepseekV32Attention", entry=EXACT),
    "GlmMoeDsaAttention": published("GlmMoeDsaAttention", **WHOLE),
    "GlmMoeDsaAttention, chosen": published("GlmMoeDsaAttention", entry=EXACT),
    "GlmMoeDsaAttention, no index": published("GlmMoeDsaAttention", 1),
    "ModernBertAttention, window": published("ModernBertAttention", 1, both=True),
    "ModernBertAttention, all": published("ModernBertAttention", 0, both=True),
    "LongformerSelfAttention": published(
        "LongformerSelfAttention",
        both=True,
        entry={"masks": ("none",), "empties": False},
    ),
    "BloomAttention": published("BloomAttention"),
    "MptAttention": published("MptAttention"),
    "GPT2Attention": published("GPT2Attention", entry={"counts": False}),
    "BertAttention": published("BertAttention", both=True),
    "BertAttention, memory": published("BertAttention", memory=True),
    "BertAttention, causal": published(
        "BertAttention", causal=True, entry={"counts": False}
    ),
    "BartAttention": published("BartAttention", both=True),
    "BartAttention, memory": published("BartAttention", memory=True),
    "BartAttention, causal": published(
        "BartAttention", causal=True, entry={"counts": False}
    ),
    "T5Attention": published("T5Attention", both=True),
    "T5Attention, memory": published("T5Attention", memory=True),
    "T5Attention, causal": published("T5Attention", causal=True, both=True,
                                     entry={"masks": CAUSAL[1:]}),
}  # fmt: skip
TABLE = LAYERS | TO_MEMORY | FUNCTIONS | MODELS | PUBLISHED


def choices(entry):
    """All that a case of this line may choose from, the plainest first."""
    whole = entry.make is not None
    return {
        "dtype": entry.dtypes,
        "mask": sorted(entry.masks, key=("causal", *MASKS).index),
        "padding": entry.paddings,
        "cache": entry.caches,
        "part": PARTS if whole else PARTS[:1],
        "projection": range(30) if whole else [0],
        "empty": (False, True) if entry.empties else (False,),
        "turned": (False, True) if entry.angles else (False,),
        "size": [size for size in ("plain", *SIZES) if size in entry.sizes],
        "lengths": [(3, 5), (4, 1), (3, 3)],
    }


@st.composite
def cases(draw, name):
    """A call that there is, of one line of the table; it shrinks to the plainest."""
    chosen = {
        it: draw(st.sampled_from(values)) for it, values in choices(TABLE[name]).items()
    }
    return TABLE[name].nearest(Case(name, **chosen))


def spread(name, count):
    """So many cases of one line, in which each choice is made about as often."""
    generator, columns = Random(name), {}
    for it, values in choices(TABLE[name]).items():
        turns = generator.sample(values, len(values)) * (count // len(values) + 1)
        columns[it] = generator.sample(turns[:count], count)
    rows = zip(*columns.values(), strict=True)
    return [
        TABLE[name].nearest(Case(name, **dict(zip(columns, row, strict=True))))
        for row in rows
    ]


def test_table_has_every_layer_and_model():
    made = [first(entry) for entry in TABLE.values() if entry.make]
    here = {type(part) for module in made for part in module.modules()}
    missing = {*kinds(MultiHeadLayer), *kinds(LanguageModel)} - here
    # What probes make of a function is theirs, and only there once they are imported.
    ours = {it for it in missing if it.__module__.startswith("attention_lib.")}
    assert {it for it in ours if ".examine." not in it.__module__} == set()
    # These two are the parts of a BertAttention.
    parts = {"BertSelfAttention", "BertCrossAttention"}
    assert {*KNOWN} - {name.split(",")[0] for name in PUBLISHED} == parts


def kinds(base):
    found = {*base.__subclasses__()}
    return found.union(*map(kinds, found))


def run(name, count):
    """Try so many combinations of one line; each line has its own.

    Two thirds are spread over all choices, which few random draws are not.
    """

    @seed(zlib.crc32(name.encode()))
    @settings(
        max_examples=count - count * 2 // 3,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(cases(name))
    def every(case):
        check(TABLE[case.layer], case)

    for case in spread(name, count * 2 // 3):
        every = example(case)(every)
    every()


# As users call it: all other tests check the shapes, which takes longer than to attend.
@pytest.mark.no_cover  # sampled: what it runs, other tests run
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", TABLE)
def test_text_in_a_batch_equals_the_text_alone(name):
    run(name, 6 if name in MODELS else 10)  # half a minute in all


@pytest.mark.slow
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", TABLE)
def test_text_in_a_batch_equals_the_text_alone_in_many_ways(name):
    run(name, 60 if name in MODELS else 90)
