"""Any part may be replaced or hooked into: it acts and learns, with and without cache.

Every part of each layer and model in ``calls_of_layers`` is tried.
"""

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

import benchmarks.published_layers as published
from attention_lib.cross_attention import (
    TinyTranslator,
    attend_cached,
    cache_memory,
    translate,
)
from attention_lib.hf_layers import from_transformers
from attention_lib.mha_variants import make_mha
from attention_lib.multi_head import MultiHeadAttention, copy_weights
from attention_lib.norms import RMSNorm
from attention_lib.relative_attention import RelativeAttention
from attention_lib.reproducibility import seeded
from tests.library.calls_of_layers import (
    BATCH,
    D_MODEL,
    HEADS,
    LENGTH,
    PIECES,
    SUBJECTS,
    TRANSLATOR,
    drawn,
    numbers,
    words,
)

pytestmark = [
    pytest.mark.usefixtures("shapes_unchecked"),  # most of the time otherwise
    pytest.mark.long,
]

PARTS = nn.Linear, nn.Embedding, nn.LayerNorm, RMSNorm


class Adapter(nn.Module):
    """A part with a change beside it that can be merged into its weight.

    It has no ``weight``, ``bias`` or width that anyone could read.
    """

    def __init__(self, part):
        super().__init__()
        self.inner = part
        noise = torch.randn(part.weight.shape, generator=seeded(len(part.weight)))
        self.change = nn.Parameter(0.5 * noise.to(part.weight))

    def forward(self, x):
        if isinstance(self.inner, nn.Linear):
            return self.inner(x) + F.linear(x, self.change)
        if isinstance(self.inner, nn.Embedding):
            return self.inner(x) + F.embedding(x, self.change)
        return self.inner(x) * (1 + self.change)

    @torch.no_grad()
    def merged(self):
        part = copy.deepcopy(self.inner)
        if isinstance(part, nn.Linear | nn.Embedding):
            part.weight += self.change
        else:
            one = float(getattr(part, "unit_offset", False))
            part.weight.copy_((part.weight + one) * (1 + self.change) - one)
            if getattr(part, "bias", None) is not None:
                part.bias *= 1 + self.change
        return part


def put(module, name, part):
    parent, _, last = name.rpartition(".")
    module.get_submodule(parent)._modules[last] = part


# The matrix of layers draws adapters and hooks in all of these; so one model is enough
# for `make test`, where each of its parts takes its turn.
QUICK = [name for name in SUBJECTS if name[0].islower() and name != "translator"]
QUICK = {*QUICK, "TinyLM, sdpa, rotary"} - {"gpt-oss"}


def slow_but(quick, names):
    """The names as parameters, those marked slow that are not quick."""
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


each_subject = pytest.mark.parametrize("name", slow_but(QUICK, SUBJECTS))


def assert_parts_adapt(model, calls, part_names, *, close=assert_close):
    """Each part is replaced by an adapter: equal to merged weights, and it learns."""
    with torch.no_grad():
        plain = [call(model) for call in calls]
    for name in part_names:
        part = model.get_submodule(name)
        adapter, same, acts = Adapter(part), copy.deepcopy(model), []
        put(same, name, adapter.merged())
        put(model, name, adapter)
        with torch.no_grad():
            for call, before in zip(calls, plain, strict=True):
                found, wanted = call(model), call(same)
                close(found, wanted, msg=lambda text, name=name: f"{name}: {text}")
                acts.append(not found.allclose(before))
        assert any(acts), f"{name} does nothing"  # distances: not for a memory
        found = calls[0](model)
        (found * torch.linspace(-1, 1, found.numel()).view_as(found)).sum().backward()
        assert adapter.change.grad is not None, f"{name} is not called"
        assert adapter.change.grad.any(), f"{name} learns nothing"
        put(model, name, part)


def parts_of(model):
    return [name for name, own in model.named_modules() if isinstance(own, PARTS)]


@each_subject
def test_adapter_in_place_of_any_part_acts_and_learns(name):
    make, groups = SUBJECTS[name]
    model, calls = drawn(make), [call for group in groups for call in group]
    assert_parts_adapt(model, calls, parts_of(model))


@pytest.mark.parametrize("name", slow_but({"LlamaAttention"}, published.KINDS))
def test_adapter_in_place_of_any_part_of_a_rebuilt_layer_acts(name):
    pytest.importorskip("transformers")
    layer = published.build(name, int(name == "Qwen3NextAttention"), published.SIZES[0])
    ours, width = from_transformers(layer).double(), own_width(layer)
    cached = hasattr(ours, "new_cache") and not name.startswith(("Bert", "Bart", "T5"))
    cached &= name != "ModernBertAttention"  # it sees both sides

    def whole(model):
        return model(numbers(width=width))

    def pieces(model):
        cache = model.new_cache(BATCH, LENGTH)
        parts = numbers(width=width).split(PIECES, dim=1)
        return torch.cat([model(piece, cache=cache) for piece in parts], dim=1)

    # What the index chooses has no gradient; Longformer's others are of global tokens.
    names = [at for at in parts_of(ours) if "index." not in at and "_global" not in at]
    close = partial(assert_close, rtol=1e-4, atol=1e-5)
    assert_parts_adapt(ours, [whole, pieces][: 1 + cached], names, close=close)


def own_width(layer):
    return getattr(layer.config, "d_model", None) or layer.config.hidden_size


def scaled(module, inputs, output):
    """Scale each column by another number: no norm behind it makes that undone."""
    if isinstance(output, tuple):  # of nn.MultiheadAttention
        return scaled(module, inputs, output[0]), output[1]
    columns = torch.linspace(0.5, 1.5, output.shape[-1], dtype=output.dtype)
    return output * columns


def outcomes_of(calls, model, at, excluded):
    """What the calls give, but for those that refuse a hook at this part."""
    found = []
    for call in calls:
        try:
            found.append(call(model))
        except ValueError as error:
            if "hooks" not in str(error) or not excluded:
                raise AssertionError(at) from error
    return found


@each_subject
@torch.no_grad()
def test_hook_on_any_part_acts_the_same_in_each_call(name):
    make, groups = SUBJECTS[name]
    model = drawn(make)
    plain = [group[0](model) for group in groups]
    for at, part in model.named_modules():
        if isinstance(part, nn.ModuleList) or (at, name) == ("", "translator"):
            continue  # nobody calls it
        # What must be called as a whole: its hooks and a cache exclude each other.
        whole = "heads" in at.split(".")[-2:] or isinstance(part, nn.MultiheadAttention)
        excluded, acts = whole or at == "cross_attention", []
        hook = part.register_forward_hook(scaled)
        for group, before in zip(groups, plain, strict=True):
            found = outcomes_of(group, model, at, excluded)
            for each in found:
                assert_close(each, found[0], msg=lambda text, at=at: f"{at}: {text}")
                acts.append(not each.allclose(before))
        hook.remove()
        assert any(acts), f"{at} does nothing"  # distances: not for a memory


def test_half_precision_and_meta_take_adapters():
    for dtype in (torch.float16, torch.bfloat16):
        for name in ("sdpa", "latent, absorb=True, wide=6", "TinyLlama"):
            model = drawn(SUBJECTS[name][0])
            for part in parts_of(model):
                put(model, part, Adapter(model.get_submodule(part)))
            cache = model.to(dtype).new_cache(BATCH, LENGTH)
            first = cache.layers[0] if hasattr(cache, "layers") else cache
            assert first.keys.dtype == dtype
            x = words() if name == "TinyLlama" else numbers().to(dtype)
            call = {} if name == "TinyLlama" else {"causal": True}
            wanted = model(x, **call)
            pieces = [model(each, cache=cache, **call) for each in x.split(1, dim=1)]
            assert_close(torch.cat(pieces, 1), wanted, rtol=0.1, atol=0.1)
            assert wanted.dtype == dtype
            assert model.to("meta")(x.to("meta"), **call).shape == wanted.shape


def test_layer_of_the_wrong_type_is_still_refused(refused):
    layer = MultiHeadAttention(D_MODEL, HEADS)
    with refused(TypeError, "x must have the type of the layer, torch.float32; got"):
        layer(numbers())
    layer.q_proj = Adapter(layer.q_proj)  # it may take any type; this one does not
    with pytest.raises(RuntimeError):
        layer(numbers())
    with refused(ValueError, "x must be (batch, length, 12); got (2, 5, 5): this"):
        layer(numbers(width=5).float())


class Lora(nn.Linear):
    """A linear layer with more parameters, as in loralib."""

    def __init__(self, part):
        super().__init__(part.in_features, part.out_features, bias=False)
        self.down = nn.Parameter(torch.ones(2, part.in_features))


def test_copied_weights_of_adapters_do_not_get_lost():
    packed, split = (make_mha(kind, D_MODEL, HEADS) for kind in ("sdpa", "split"))
    packed.qkv_proj = Adapter(packed.qkv_proj)
    with pytest.raises(ValueError, match="built the same way"):
        copy_weights(packed, split)
    for head in (0, 1):
        heads = make_mha("wrapper", D_MODEL, HEADS)
        heads.heads[head].q_proj = Lora(heads.heads[head].q_proj)
        with pytest.raises(ValueError, match="built the same way"):
            copy_weights(heads, split)


def test_counting_operations_changes_none():
    for name in ("torch", "wrapper", "latent, absorb=True, wide=6", "translator"):
        make, groups = SUBJECTS[name]
        model = drawn(make)
        call = groups[0][-1]  # with a cache, and where there is one a kept memory
        with torch.no_grad():
            wanted = call(model)
            with FlopCounterMode(display=False) as counter:  # hooks into all modules
                assert call(model).equal(wanted), name
        assert counter.get_total_flops(), name


def test_kept_memory_does_not_leave_hooks_out(refused):
    layer = drawn(lambda: MultiHeadAttention(D_MODEL, HEADS))
    kept = cache_memory(layer, numbers(4))
    layer.register_forward_hook(scaled)
    for call in (
        lambda: cache_memory(layer, numbers(4)),
        lambda: attend_cached(layer, numbers(), kept),
        lambda: cache_memory(RelativeAttention(D_MODEL, HEADS), numbers(4)),
    ):
        with refused(ValueError, "layer must be a MultiHeadAttention without hooks"):
            call()
    model = drawn(lambda: TinyTranslator(TRANSLATOR))
    model.decoder[1].cross_attention.register_forward_hook(scaled)
    both = (
        translate(model, words(), start=0, stop=1, max_new_tokens=6, use_cache=use)
        for use in (False, True)
    )
    assert next(both).equal(next(both))
