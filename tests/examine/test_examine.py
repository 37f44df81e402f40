"""Examining layers: right ones pass, faults are named, counts agree with formulas."""

import importlib
from itertools import pairwise

import pytest
import torch
from torch import nn

from attention_lib.attention import SelfAttention, scaled_dot_product_attention
from attention_lib.block import TinyBlock
from attention_lib.examine import CHECKS, examine
from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.masks import causal_mask
from attention_lib.mha_variants import make_mha
from attention_lib.multi_head import copy_weights
from attention_lib.relative_attention import RelativeAttention
from tests.samples.blocks import BLOCK, BLOCK_FAULTS, BLOCKS
from tests.samples.faulty_layers import FAULTS, OWN_MASKS, UNNAMED
from tests.samples.plain_layer import CAUSAL, DROP, MASK, OWN, made
from tests.samples.right_layers import NO_CAUSAL, VARIANTS
from tests.samples.twins import TWINS
from tests.tensors import global_seed

pytestmark = [
    pytest.mark.usefixtures("shapes_unchecked"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
]
LATENT = dict(q_latent_dim=7, kv_latent_dim=6, nope_dim=3, rope_dim=4, value_dim=5)
MASK_SHAPES = {
    "(B, T, K)": "mask.reshape(B, T, S)[:, None]",
    "(B, 1, T, K)": "mask.reshape(B, 1, T, S)",
    "(B, K)": "mask.reshape(B, S)[:, None, None]",
    "(T, K)": "mask\n            assert mask.ndim == 2",
}
SMALL = dict(hidden_size=12, num_attention_heads=3, intermediate_size=16)
SHARED = SMALL | dict(num_key_value_heads=1, head_dim=4)
DEEPSEEK = dict(q_lora_rank=5, kv_lora_rank=6, qk_rope_head_dim=4, qk_nope_head_dim=3)


def peer(**options):
    from x_transformers.x_transformers import Attention

    return Attention(12, **options)


def published(family, layer, config, **options):
    stem = f"transformers.models.{family}"
    options |= {"attn_implementation": "eager"}
    config = getattr(importlib.import_module(f"{stem}.configuration_{family}"), config)(
        **options
    )
    made = getattr(importlib.import_module(f"{stem}.modeling_{family}"), layer)
    return made(config, layer_idx=0)


RIGHT = {
    "a head": lambda: SelfAttention(12, 12),
    **{
        kind: lambda kind=kind: make_mha(kind, 12, 3)
        for kind in ("wrapper", "split", "sdpa", "torch")
    },
    "block": lambda: TinyBlock(12, 3),
    "block, post-norm": lambda: TinyBlock(12, 3, norm="post", mha="sdpa"),
    "grouped": lambda: GroupedQueryAttention(12, 6, 2, head_dim=4),
    "grouped, all options": lambda: GroupedQueryAttention(
        12, 3, 1, window=3, softcap=5.0, sinks=True, qk_norm="rms"
    ),
    "latent": lambda: MultiHeadLatentAttention(12, 3, **LATENT),
    "latent, absorbed": lambda: MultiHeadLatentAttention(12, 3, **LATENT, absorb=True),
    "relative": lambda: RelativeAttention(12, 3, num_buckets=4, max_distance=3),
    "torch's": lambda: nn.MultiheadAttention(12, 3, batch_first=True),
    "torch's, time first": lambda: nn.MultiheadAttention(12, 3, bias=False),
    "torch's block, time first": lambda: nn.TransformerEncoderLayer(12, 3, 16),
    "torch's block": lambda: nn.TransformerEncoderLayer(12, 3, 16, batch_first=True),
    "x-transformers": lambda: peer(heads=3, dim_head=4),
    "x-transformers, causal": lambda: peer(heads=3, dim_head=4, causal=True),
    "x-transformers, grouped": lambda: peer(heads=4, kv_heads=2, dim_head=3),
    "Llama": lambda: published("llama", "LlamaAttention", "LlamaConfig", **SHARED),
    "Qwen3": lambda: published("qwen3", "Qwen3Attention", "Qwen3Config", **SHARED),
    "Gemma2": lambda: published("gemma2", "Gemma2Attention", "Gemma2Config", **SHARED),
    "GPT-2": lambda: published(
        "gpt2", "GPT2Attention", "GPT2Config", n_embd=12, n_head=3
    ),
    "BERT": lambda: published("bert", "BertSelfAttention", "BertConfig", **SMALL),
    "DeepSeek": lambda: published(
        "deepseek_v3", "DeepseekV3Attention", "DeepseekV3Config",
        v_head_dim=5, **(SHARED | DEEPSEEK | {"num_key_value_heads": 3}),
    ),
    "plain": made,
    **{f"plain, {name}": lambda name=name: made(*VARIANTS[name]) for name in VARIANTS},
    "plain, grouped": lambda: made(num_heads=6, num_kv_heads=2),
}  # fmt: skip
# Compilers take their time.
SLOW = {"compile", "export"}


def failed(layer, checks=None, **options):
    return examine(layer, checks=checks, progress=False, **options).failed


# These reach each line and branch of the checks that any reaches.
QUICK = {"a head", "block", "grouped", "grouped, all options", "latent", "GPT-2"}
QUICK |= {"torch's block, time first", "x-transformers", "Qwen3", "Gemma2"}
QUICK |= {"plain, at most 16", "plain, cache or mask", "plain, cache, no mask"}
QUICK |= {f"plain, causal, {it}" for it in ("RoPE", "learned positions", "sinusoids")}


def first(quick):
    """The right layers; all but these wait for `make test MARK=slow`."""
    assert {*RIGHT} >= quick
    slow = pytest.mark.slow
    return [it if it in quick else pytest.param(it, marks=slow) for it in RIGHT]


@pytest.mark.parametrize("name", first(QUICK))
def test_examine_finds_nothing_in_right_layers(name):
    with global_seed(0):
        layer = RIGHT[name]()
    names = [name for name in CHECKS if name not in SLOW]
    assert failed(layer, names) == []


@pytest.mark.parametrize("name", first({"plain", "plain, at most 16"}))
def test_compilers_find_nothing_in_right_layers(name):
    assert failed(RIGHT[name](), sorted(SLOW)) == []


def says(verdict, words, check, layer, **options):
    """Assert that one check of a layer ends so, in these words."""
    found = examine(layer, checks=[check], progress=False, **options)[check]
    assert (found.verdict, words in found.seen) == (verdict, True), found.seen


def by_words(faults, of="check"):
    """A test for each of the words that a check, or a reference, must say."""
    cases = [(each, words) for each in faults for words in faults[each]]
    return pytest.mark.parametrize((of, "words"), cases)


@by_words(FAULTS)
def test_examine_says_what_it_sees(check, words):
    says("fails", words, check, made(*FAULTS[check][words]))


@pytest.mark.parametrize("name", UNNAMED)
def test_examine_says_why_it_cannot_judge(name):
    says("does not apply", "no names tell", "formula", made(*UNNAMED[name]))


@pytest.mark.parametrize("sizes", [(4, 4), (6, 2), (3, 3)])
def test_formula_says_how_far_a_layer_is_without_a_known_slip(sizes):
    bare = "out_proj = nn.Linear(d_model, d_model", "out_proj = nn.Linear(12, 12, False"
    pieces = DROP, "weights = weights / (weights.sum(-1, True) + 0.1)", *bare
    layer = made(*pieces, num_heads=sizes[0], num_kv_heads=sizes[1])
    says("fails", "apart from softmax", "formula", layer)


@by_words(OWN_MASKS)
def test_examine_tries_a_causal_mask_that_the_layer_has_of_its_own(check, words):
    for causal in (True, None):
        layer = made(*OWN, *OWN_MASKS[check][words])
        says("fails", words, check, layer, causal=causal)


def test_examine_says_that_a_layer_hides_the_future_unasked():
    words = "hides the future, yet you say causal=False"
    says("fails", words, "future", made(*OWN), causal=False)
    assert failed(made(), ["future"], causal=False) == []


def test_examine_a_function_and_names_its_slip():
    def mine(query, key, value, mask=None):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        return scores.softmax(-1) @ value

    fast = [name for name in CHECKS if name not in SLOW]
    assert failed(mine, fast) == ["empty rows", "half precision"]
    assert failed(scaled_dot_product_attention, fast) == []
    assert failed(nn.functional.scaled_dot_product_attention, fast) == []
    report = examine(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, progress=False)
    assert report["formula"].seen == "the scores are not scaled"
    assert report["padding"].verdict == "does not apply"


def test_examine_compares_with_a_reference():
    ours, other = make_mha("split", 12, 3), make_mha("sdpa", 12, 3)
    assert failed(ours, ["reference"], reference=other) == ["reference"]
    copy_weights(ours, other)
    assert failed(ours, ["reference"], reference=other) == []
    assert failed(ours, ["reference"], reference=ours.forward) == []
    plain = made(*VARIANTS["mask (B, T, K)"])
    assert failed(plain, ["reference"], reference=made(*NO_CAUSAL)) == []
    near = made(CAUSAL, f"        seen = seen.triu(-9)\n{CAUSAL}")
    found = examine(near, checks=["reference"], reference=made(), progress=False)
    seen = found["reference"].seen
    assert seen.startswith("the same in a plain call, at T = 1, at T = 7, with pad")
    assert "at T = 40: output 10 does not depend on token 0, as it does in" in seen


@pytest.mark.parametrize(("one", "two"), [*pairwise([*MASK_SHAPES, "(B, T, K)"])])
def test_layers_that_differ_in_the_shape_of_their_mask_agree(one, two):
    ours, theirs = (made(*NO_CAUSAL, MASK, MASK_SHAPES[n]) for n in (one, two))
    assert failed(ours, ["reference"], reference=theirs) == []


def test_a_mask_per_text_that_breaks_is_told_where_one_mask_for_all_is_right():
    wrong = made(*NO_CAUSAL, MASK, "mask.unsqueeze(0)")
    right = made(*NO_CAUSAL, MASK, MASK_SHAPES["(B, T, K)"])
    found = examine(wrong, checks=["padding"], progress=False)["padding"]
    assert found.verdict == "holds"
    assert "mask (T, T); it takes no mask per text (B, T, K): Runtime" in found.seen
    found = examine(wrong, checks=["reference"], reference=right, progress=False)
    assert found.failed == ["reference"]
    assert "no mask per text (B, T, K): RuntimeError" in found["reference"].seen
    assert ", line " in found["reference"].seen
    assert "; the reference does; else 0 apart" in found["reference"].seen
    assert failed(wrong, ["reference"], reference=wrong) == []


@by_words(TWINS, of="both")
def test_reference_says_where_a_layer_differs(both, words):
    right, wrong = made(*both), made(*both, *TWINS[both][words])
    found = examine(wrong, checks=["reference"], reference=right, progress=False)
    assert found.failed == ["reference"]
    for each in words.split("; "):
        assert each in found["reference"].seen


@pytest.mark.no_cover
@pytest.mark.parametrize("both", TWINS)
def test_reference_finds_no_difference_between_a_layer_and_its_like(both):
    assert failed(made(*both), ["reference"], reference=made(*both)) == []


def test_reference_may_draw_its_dropout_otherwise():
    one = made(DROP, "weights = F.dropout(weights, 0.1, self.training)")
    two = made(DROP, "weights = weights * self.drop(torch.ones_like(weights.mT)).mT")
    for seed in range(3):
        assert failed(one, ["reference"], reference=two, seed=seed) == []


def test_reference_has_weights_of_its_own_names():
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    ours = make_mha("torch", 12, 3)
    found = examine(ours, checks=["reference"], reference=theirs, progress=False)
    assert "apart in a plain call" in found["reference"].seen

    def refuses(x):
        raise TypeError("not this")

    found = examine(ours, checks=["reference"], reference=refuses, progress=False)
    assert found["reference"].seen == "the reference cannot be called: not this"


@pytest.mark.no_cover
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_examine_finds_nothing_in_right_blocks(name, seed):
    names = [name for name in CHECKS if name not in SLOW]
    assert failed(made(*BLOCKS[name], code=BLOCK), names, seed=seed) == []


def test_examine_says_that_a_norm_is_the_last_step():
    for norm, words in (("post", "tokens come out of one"), ("pre", "input passes")):
        says("holds", words, "parts", TinyBlock(12, 3, norm=norm))


@by_words(BLOCK_FAULTS)
def test_examine_says_what_is_wrong_in_a_block(check, words):
    says("fails", words, check, made(*BLOCK_FAULTS[check][words], code=BLOCK))


@pytest.mark.parametrize("refuse", [False, True])
def test_examine_knows_a_call_that_reads_a_mask_of_keys(refuse):
    def calls(layer, x, mask=None):
        if refuse and mask is not None and not (mask == mask[:, :1]).all():
            raise ValueError("keys alone")
        return layer(x, None if mask is None else mask[:, 0])

    names = [name for name in CHECKS if name not in SLOW]
    pieces = VARIANTS["mask (B, K)"]
    assert failed(made(*pieces), names, calls=calls) == []
    wrong = made(*pieces, "[:, None, None]", "[:, None, :, None]")
    says("fails", "it hides queries, not keys", "padding", wrong, calls=calls)


def test_gradients_of_a_layer_that_computes_in_float32_inside_raise_no_alarm():
    narrow = "scores.softmax(dim=-1)", "scores.float().softmax(dim=-1).to(v.dtype)"
    layer = made(*narrow, "q @ k.trans", "30 * q @ k.trans", d_model=24)
    for seed in range(12):
        assert failed(layer, ["gradients"], seed=seed) == []


def attend(query, key, value):
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value


def other_length(function):
    """The function for queries and keys of two texts, else attention."""
    return lambda q, k, v: (function if q.shape[2] != k.shape[2] else attend)(q, k, v)


def places(x):
    return torch.arange(x.shape[2], device=x.device, dtype=x.dtype)[:, None]


@pytest.mark.parametrize(
    ("words", "function"),
    [
        ("from T = 6 and S = 4 comes (7, 4, 12)", lambda q, k, v: attend(k, q, q)),
        ("on token 0 of", lambda q, k, v: attend(q, k[:, :, 1:], v[:, :, 1:])),
        ("in another order", lambda q, k, v: attend(q, k + places(k), v)),
        ("another query", lambda q, k, v: attend(q + q.mean(2, keepdim=True), k, v)),
    ],
)
def test_examine_says_what_is_wrong_with_a_memory(words, function):
    says("fails", words, "memory", other_length(function))


def test_examine_says_why_a_memory_does_not_apply():
    def refuses(query, key, value):
        raise ValueError("one text only")

    found = examine(other_length(refuses), checks=["memory"], progress=False)
    assert found["memory"].seen == "it refuses: one text only"

    def causal(query, key, value):
        hidden = torch.ones(query.shape[2], key.shape[2]).triu(1) > 0
        return (query @ key.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ value

    found = examine(causal, checks=["memory"], progress=False)
    assert found["memory"].seen.startswith("it hides the future")


def test_examine_says_what_is_wrong_with_positions_from_outside():
    layer = nn.Linear(12, 12)
    for words, calls in {
        "positions change nothing": lambda layer, x, start=None: layer(x),
        "11 positions later": lambda layer, x, start=-1: layer(x) + start,
    }.items():
        says("fails", words, "offset", layer, calls=calls)


def test_examine_says_how_to_call_what_it_does_not_know():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = make_mha("split", 12, 3)

        def forward(self, x, key_padding_mask=None):
            return self.layer(x, key_padding_mask)

    class Two(Padded):
        def forward(self, x, key_padding_mask):
            return self.layer(x, key_padding_mask)

    seen = examine(Padded(), checks=["padding"], progress=False)["padding"].seen
    assert "for key_padding_mask, say how it is called: calls=" in seen
    found = examine(Two(), checks=["shape", "future"], progress=False)
    assert "it takes key_padding_mask, too: say how" in found["shape"].seen
    assert found["future"].seen == "the layer cannot be called"


def test_examine_finds_the_width_or_asks_for_it():
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix = nn.Parameter(torch.ones(3, 5))
            self.number = nn.Parameter(torch.tensor([2, 3]), requires_grad=False)

        def forward(self, x):
            return x @ self.matrix.mT * self.number.sum()

    found = examine(Bare(), checks=["shape", "formula", "flops"], progress=False)
    assert found["shape"].seen == "(B, T, 5) gives (B, T, 3), T from 1 to 40"
    assert "does not see its kernel" in found["flops"].seen
    with pytest.raises(TypeError, match="is not known: give d_model"):
        examine(nn.Identity())
    with pytest.raises(TypeError, match="checks must be a list of names"):
        examine(Bare(), checks="shape")
    with pytest.raises(TypeError, match="layer must be a module or a function"):
        examine(Bare)


def test_examine_leaves_frozen_weights_to_whom_they_belong():
    layer = make_mha("split", 12, 3)
    layer.requires_grad_(False)
    layer.register_parameter("small", nn.Parameter(torch.ones(2)))
    seen = examine(layer, checks=["trainable"], progress=False)["trainable"]
    assert seen.verdict == "does not apply"
    assert "they are most of its numbers" in seen.seen
    layer.small.requires_grad_(False)
    seen = examine(layer, checks=["trainable"], progress=False)["trainable"]
    assert seen.seen == "all weights are frozen"
    bare = examine(nn.Identity(), d_model=4, checks=["trainable"], progress=False)
    assert bare["trainable"].seen == "it has no weights"


def test_examine_does_not_judge_a_mean_of_nothing():
    class Centred(nn.Dropout):
        def forward(self, x):
            return super().forward(x - x.mean(dim=1, keepdim=True))

    found = examine(Centred(0.1), d_model=4, checks=["training"], progress=False)
    assert found["training"].seen == "equal tokens give nothing"


def test_examine_does_not_judge_dropout_that_it_cannot_repeat():
    class Own(nn.Linear):
        generator = torch.Generator()

        def forward(self, x):
            out = super().forward(x)
            drawn = torch.rand(out.shape, generator=self.generator)
            return out * (drawn > 0.5) if self.training else out

        def __deepcopy__(self, memo):
            return Own(12, 12).to(self.weight.dtype)

    found = examine(Own(12, 12), checks=["training"], progress=False)["training"]
    assert found.seen.startswith("one seed gives two results")


def test_examine_calls_a_layer_as_the_reader_says():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = make_mha("split", 12, 3)

        def forward(self, hidden, tokens):
            return self.layer(tokens, ~hidden)

    def calls(layer, x, mask=None, *, causal=False):
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        mask = seen if mask is None else mask
        return layer(~(mask & seen.tril()) if causal else ~mask, x)

    fast = ["future", "padding", "batch", "empty rows", "half precision"]
    assert failed(Hidden(), fast, calls=calls) == []
    report = examine(Hidden(), checks=fast, progress=False)  # as if x came first
    assert report["future"].verdict != "holds"


def test_report_is_text_a_table_and_a_picture_and_leaves_the_layer_alone():
    layer = make_mha("split", 12, 3).train()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    report = examine(layer, checks=["future", "order"], progress=False)
    lines = str(report).splitlines()
    assert lines[0] == "MultiHeadAttention: 2 hold, 0 fail, 0 do not apply"
    assert lines[1].startswith("✓ future  told causal: 0 from later tokens")
    shown = report._repr_html_()
    assert '<span data-section="03-masks.html#leak-map">future</span>' in shown
    assert "href" not in shown  # it is read where the book's pages are not
    assert (report.leaks["causal"][~causal_mask(6).numpy()] == 0).all()
    assert report.plot().get_axes()[1].get_title() == "causal"
    assert layer.training
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name])
    assert len(report) == 2
    with pytest.raises(KeyError, match="no check 'cache' was run"):
        report["cache"]
