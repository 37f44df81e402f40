"""Half precision and autocast: each result is that of float64, but for its rounding."""

import copy
from functools import cache
from functools import partial as P

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attention_lib.attention import attention_weights, scaled_dot_product_attention
from attention_lib.block import layer_norm
from attention_lib.flash_attention import OnlineSoftmax, flash_attention
from attention_lib.hf_layers import PublishedAttention, from_transformers
from attention_lib.hf_layers.alibi import AlibiAttention
from attention_lib.hf_layers.lightning import fading_attention
from attention_lib.linear_attention import (
    FORMS,
    delta_chunk,
    delta_step,
    gated_delta_rule,
    linear_attention,
)
from attention_lib.masks import causal_mask
from attention_lib.norms import RMSNorm
from attention_lib.parallel import ring_attention
from attention_lib.pretrained import DecoderConfig, Experts, LayerConfig
from attention_lib.reproducibility import seeded
from attention_lib.rope import apply_rope, rope_angles
from attention_lib.training import next_token_loss
from benchmarks.published_layers import KINDS, SIZES, build, lightning, stated
from tests.library.layers_table import D_MODEL, LAYERS, made

pytestmark = pytest.mark.long

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
# The type of the inputs, and that of autocast.
MODES = {
    "bfloat16": (BF16, None),
    "float16": (F16, None),
    "autocast to bfloat16": (F32, BF16),
    "autocast to float16": (F32, F16),
    "bfloat16 under autocast": (BF16, BF16),
    "float16 under autocast": (F16, F16),
}
each_mode = pytest.mark.parametrize("mode", MODES)
TEXTS, LENGTH, WIDTH, DECAY = 2, 70, 4, 0.1


def random(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def sequence(scale=1.0):
    """Query, key and value."""
    return [random(TEXTS, LENGTH, WIDTH, seed=n, scale=scale) for n in range(3)]


def far_apart():
    """Whole numbers, exact in each type; scores of up to 56,000, times 1/√D."""
    query = torch.full((TEXTS, LENGTH, WIDTH), 100.0, dtype=torch.float64)
    step = torch.arange(LENGTH, dtype=torch.float64)[:, None] - LENGTH
    key = 4 * step.expand(TEXTS, -1, WIDTH)
    return [query, key, random(TEXTS, LENGTH, WIDTH)]


def delta_inputs():
    query, key, value = sequence()
    log_decay = -random(TEXTS, LENGTH, seed=3).abs() / 20
    beta = random(TEXTS, LENGTH, seed=4).sigmoid()
    return [query, 0.9 * F.normalize(key, dim=-1), value, log_decay, beta]


# One token after the other, in float64.


def slow_weights(query, key):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    shown = scores.masked_fill(~causal_mask(LENGTH), -torch.inf)
    shares = (shown - shown.amax(-1, keepdim=True)).exp()
    return shares / shares.sum(-1, keepdim=True)


def slow_attention(query, key, value):
    return slow_weights(query, key) @ value


def slow_linear(query, key, value):
    query, key = (x.clamp(max=0).exp() + x.relu() for x in (query, key))
    shares = (query @ key.mT).tril()
    return shares @ value / shares.sum(-1, keepdim=True)


def slow_delta(query, key, value, log_decay, beta):
    state, found = torch.zeros(TEXTS, WIDTH, WIDTH, dtype=torch.float64), []
    for t in range(LENGTH):
        q, k, v = (x[:, t, :, None] for x in (query, key, value))
        state = state * log_decay[:, t, None, None].exp()
        state = state + k @ (beta[:, t, None, None] * (v - state.mT @ k)).mT
        found.append((state.mT @ q).squeeze(-1))
    return torch.stack(found, dim=1)


def slow_fading(query, key, value):
    state, found = torch.zeros(TEXTS, WIDTH, WIDTH, dtype=torch.float64), []
    for t in range(LENGTH):
        q, k, v = (x[:, t, :, None] for x in (query, key, value))
        state = state * torch.tensor(-DECAY, dtype=torch.float64).exp() + k @ v.mT
        found.append((state.mT @ q).squeeze(-1))
    return torch.stack(found, dim=1)


def slow_norm(x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def slow_layer_norm(x):
    return slow_norm(x - x.mean(-1, keepdim=True))


def slow_loss(logits):
    return -logits.log_softmax(-1)[:, :-1, 1].mean()


# The library's, called alike.


def in_pieces(query, key, value):
    """Attention by the running sums of ``OnlineSoftmax``."""
    scores = query.double() @ key.double().mT * WIDTH**-0.5
    scores = scores.masked_fill(~causal_mask(LENGTH), -torch.inf)
    online = OnlineSoftmax((TEXTS, LENGTH, WIDTH))
    for columns in torch.arange(LENGTH).split(16):
        online.add(scores[..., columns].float(), value[..., columns, :])
    return online.result()[0]


def by_steps(step, size):
    """The delta rule by the function that reads one token, or one chunk."""

    def call(query, key, value, log_decay, beta):
        state, found = torch.zeros(TEXTS, WIDTH, WIDTH, dtype=query.dtype), []
        columns = query, key, value, log_decay[..., None], beta[..., None]
        for piece in zip(*(x.split(size, dim=-2) for x in columns), strict=True):
            context, state = step(*piece, state)
            found.append(context)
        return torch.cat(found, dim=-2)

    return call


def fading(query, key, value):
    state, found = None, []
    decay = torch.full((1, 1, 1), DECAY)
    for piece in zip(*(x.split(16, dim=1) for x in (query, key, value)), strict=True):
        context, state = fading_attention(*piece, decay, state)
        found.append(context)
    return torch.cat(found, dim=1)


def rms(x):
    return RMSNorm(WIDTH).to(x.dtype)(x)


def layer_norm_(x):
    ones = torch.ones(WIDTH, dtype=x.dtype)
    return layer_norm(x, ones, 0 * ones, eps=1e-6)


ANGLES = rope_angles(torch.arange(50_000, 50_000 + LENGTH), WIDTH)


def slow_rotation(x):
    first, second = x.chunk(2, dim=-1)
    turned = torch.complex(first, second) * torch.polar(torch.ones(()), ANGLES)
    return torch.cat((turned.real, turned.imag), dim=-1)


def loss(logits):
    return next_token_loss(logits, torch.ones(logits.shape[:2], dtype=torch.int64))


MIXED = {
    "attention": P(scaled_dot_product_attention, mask=causal_mask(LENGTH)),
    "flash": P(flash_attention, causal=True, tile=16),
    "ring": P(ring_attention, causal=True),
    "online softmax": in_pieces,
}
WEIGHTS = P(attention_weights, mask=causal_mask(LENGTH))
# What is called, what it equals, and its inputs.
FUNCTIONS = {
    "weights": (WEIGHTS, slow_weights, sequence()[:2]),
    "weights, far apart": (WEIGHTS, slow_weights, far_apart()[:2]),
    **{name: (it, slow_attention, sequence()) for name, it in MIXED.items()},
    **{
        f"{name}, far apart": (it, slow_attention, far_apart())
        for name, it in MIXED.items()
    },
    **{
        f"linear, {form}": (P(linear_attention, form=form), slow_linear, sequence())
        for form in FORMS
    },
    **{
        f"linear, {form}, large": (
            P(linear_attention, form=form),
            slow_linear,
            sequence(scale=60.0),
        )
        for form in FORMS
    },
    **{
        f"delta, {form}": (P(gated_delta_rule, form=form), slow_delta, delta_inputs())
        for form in FORMS
    },
    "delta, by steps": (by_steps(delta_step, 1), slow_delta, delta_inputs()),
    "delta, by chunks": (by_steps(delta_chunk, 16), slow_delta, delta_inputs()),
    "fading": (fading, slow_fading, sequence()),
    "fading, large": (fading, slow_fading, sequence(scale=8.0)),
    "rms": (rms, slow_norm, sequence()[:1]),
    "rms, large": (rms, slow_norm, sequence(scale=2000.0)[:1]),
    "layer norm": (layer_norm_, slow_layer_norm, sequence(scale=2000.0)[:1]),
    "rotation": (P(apply_rope, angles=ANGLES), slow_rotation, sequence()[:1]),
    "loss": (loss, slow_loss, sequence(scale=9.0)[:1]),
}


# Sums and states, which stay in float32.
WIDE = "online", "delta, by", "fading", "loss"


@each_mode
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_equals_float64_but_for_the_rounding_of_its_type(name, mode):
    function, slow, tensors = FUNCTIONS[name]
    dtype, auto = MODES[mode]
    tensors = [x.to(dtype).requires_grad_() for x in tensors]
    wanted = slow(*(x.detach().double() for x in tensors))
    with torch.autocast("cpu", auto, enabled=auto is not None):
        found = function(*tensors)
    # Autocast narrows what is mixed, as PyTorch does; all else is computed in float32.
    narrow = name.startswith("attention") and auto is not None
    kind = auto if narrow else dtype
    bound = torch.finfo(kind).eps if kind != F32 else 1e-5
    assert (found - wanted).abs().max() <= bound * wanted.abs().max()
    assert found.dtype == (F32 if name.startswith(WIDE) else kind)
    found.sum().backward()
    assert all(x.grad.isfinite().all() for x in tensors)


ROUNDINGS = 3  # of the input, the projections and the output
MORE_ROUNDINGS = 5  # of a convolution, of shares and gates as well
CHOSEN = "DeepseekV32Attention", "GlmMoeDsaAttention"  # another choice of keys is no
# small change, and rounding can decide it: see the test of the index


@cache
def published(name, number):
    """A rebuilt layer, and the width of its input."""
    layer = build(name, number, SIZES[1])
    width = 20 if name == "T5Attention" else layer.config.hidden_size
    return from_transformers(layer), width


def experts():
    """All of them are chosen: another choice is no small change."""
    sizes = dict(vocab_size=9, context_len=9, d_model=6, num_heads=2, num_kv_heads=1)
    chosen = dict(mlp="experts", num_experts=4, experts_per_token=4)
    layers = (LayerConfig(),)
    layer = Experts(
        DecoderConfig(**sizes, head_dim=3, hidden_dim=5, layers=layers, **chosen)
    )
    for number, weight in enumerate(layer.parameters()):
        nn.init.normal_(weight, std=0.3, generator=seeded(number))
    return layer, 6


SECOND = "Llama4TextAttention", "Qwen3NextAttention"  # another kind than the first
REBUILT = {f"{it}, 0": P(published, it, 0) for it in KINDS}
REBUILT |= {f"{it}, 1": P(published, it, 1) for it in SECOND}
MODULES = {
    **{name: P(lambda it: (made(it), D_MODEL), name) for name in LAYERS},
    **{it: make for it, make in REBUILT.items() if not it.startswith(CHOSEN)},
    "experts": experts,
}
STATES = [name for name, kind in KINDS.items() if kind.call in (stated, lightning)]


def kind_of(name):
    return name.split(",")[0]


def run(layer, x, mode):
    """A copy of a layer in a mode's type, its input and its result."""
    dtype, auto = MODES[mode]
    layer, x = copy.deepcopy(layer).to(dtype), x.detach().to(dtype).requires_grad_()
    with torch.autocast("cpu", auto, enabled=auto is not None):
        return layer, x, layer(x)


def gradients_are_finite(layer, x):
    all_of_them = [p.grad for p in (x, *layer.parameters()) if p.grad is not None]
    return all(gradient.isfinite().all() for gradient in all_of_them)


each_layers_mode = pytest.mark.parametrize("mode", list(MODES)[:4])


@each_layers_mode
@pytest.mark.parametrize("name", MODULES)
def test_layer_equals_float64_but_for_a_few_roundings(name, mode):
    layer, width = MODULES[name]()
    x = random(TEXTS, LENGTH, width, seed=1)
    layer, x, found = run(layer, x, mode)
    wanted = copy.deepcopy(layer).double()(x.detach().double())
    half = MODES[mode][1] or MODES[mode][0]
    roundings = MORE_ROUNDINGS if kind_of(name) in STATES else ROUNDINGS
    bound = roundings * torch.finfo(half).eps * wanted.abs().max()
    assert (found - wanted).abs().max() <= bound
    found.float().mean().backward()
    assert gradients_are_finite(layer, x)


@each_layers_mode
@pytest.mark.parametrize("name", [it for it in REBUILT if not it.startswith(CHOSEN)])
def test_layer_stays_finite_where_scores_are_large(name, mode):
    layer, width = REBUILT[name]()
    # Scores of more than 65,504. What a state gives is a product of three.
    scale = 5 if kind_of(name) in STATES else 200
    x = random(TEXTS, LENGTH, width, seed=1, scale=scale)
    layer, x, found = run(layer, x, mode)
    assert found.isfinite().all()
    found.float().mean().backward()
    assert gradients_are_finite(layer, x)


@each_layers_mode
def test_norm_of_large_queries_in_half_precision(mode):
    layer, width = published("Llama4TextAttention", 0)
    x = random(TEXTS, LENGTH, width, seed=1, scale=1000)  # squares above 65,504
    layer, x, found = run(layer, x, mode)
    wanted = copy.deepcopy(layer).double()(x.detach().double())
    half = MODES[mode][1] or MODES[mode][0]
    bound = ROUNDINGS * torch.finfo(half).eps * wanted.abs().max()
    assert (found - wanted).abs().max() <= bound


@each_layers_mode
def test_index_scores_are_summed_in_float32(mode):
    layer, width = published("DeepseekV32Attention", 0)
    index, (dtype, auto) = copy.deepcopy(layer.attention.index), MODES[mode]
    for projection in (index.q_proj, index.weight_proj):
        projection.weight.data *= 1000  # so that scores do not fit into float16
    index, angles = index.to(dtype), ANGLES[:, :1].expand(-1, layer.head_dim // 2)
    latent = index.q_proj.in_features
    x, latent = (random(TEXTS, LENGTH, n, seed=n).to(dtype) for n in (width, latent))
    with torch.autocast("cpu", auto, enabled=auto is not None):
        found = index(x, latent, angles)
    wanted = copy.deepcopy(index).double()(x.double(), latent.double(), angles.double())
    bound = ROUNDINGS * torch.finfo(auto or dtype).eps * wanted.abs().max()
    assert found.dtype == F32
    assert wanted.abs().max() > torch.finfo(F16).max
    assert (found - wanted).abs().max() <= bound


@pytest.mark.parametrize("dtype", [F32, BF16, F16], ids=str)
def test_slopes_cost_no_digits_far_in_a_text(dtype):
    # Slope · place is 2,500 here: two digits of bfloat16, and what float32 has behind
    # the point would not do.
    length, width = 40_000, 128
    layer = PublishedAttention(AlibiAttention(width, 2), placed=True)
    generator = seeded(0)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.1, generator=generator)
    layer, found = layer.to(dtype), []
    before = [random(1, 2, length, 64, seed=n).to(dtype) for n in (1, 2)]
    for own in (layer, copy.deepcopy(layer).double()):
        cache = own.new_cache(1, length + 1)
        cache.append(*(x.to(cache.keys.dtype) for x in before))
        x = random(1, 1, width, seed=3).to(dtype).to(cache.keys.dtype)
        found.append(own(x, cache=cache))
    eps = torch.finfo(dtype).eps
    error = (found[0] - found[1]).abs().max() / found[1].abs().max()
    assert error <= (ROUNDINGS if dtype != F32 else 8) * eps


@each_layers_mode
def test_layer_with_slopes_in_a_text_of_600_tokens(mode):
    layer, width = published("MptAttention", 0)
    layer, x, found = run(layer, random(1, 600, width, seed=1), mode)
    wanted = copy.deepcopy(layer).double()(x.detach().double())
    half = MODES[mode][1] or MODES[mode][0]
    assert (found - wanted).norm() <= torch.finfo(half).eps * wanted.norm()
