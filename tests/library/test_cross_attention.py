"""attention_lib.cross_attention: PyTorch's blocks, a kept memory, padding."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_lib.block import TinyBlock
from attention_lib.cross_attention import (
    CrossBlock,
    TinyTranslator,
    TranslatorConfig,
    attend_cached,
    cache_memory,
    translate,
)
from attention_lib.masks import causal_mask, padding_mask
from attention_lib.mha_variants import make_mha
from attention_lib.multi_head import MultiHeadAttention, copy_weights
from attention_lib.reproducibility import seeded
from tests.tensors import assert_same, global_seed, values_and_gradients

BATCH, TARGET, SOURCE, D_MODEL, HEADS = 2, 4, 6, 12, 3
LENGTHS = torch.tensor([4, 6])
SEEN = padding_mask(LENGTHS, SOURCE)


def vectors(length, seed=0):
    shape = BATCH, length, D_MODEL
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def random(module):
    for number, weight in enumerate(module.parameters()):  # norms and biases too
        nn.init.normal_(weight, std=0.4, generator=seeded(number))
    return module.double()


def ids(length, seed=0):
    return torch.randint(3, 11, (BATCH, length), generator=seeded(seed))


def translator(**options):
    with global_seed(0):
        config = TranslatorConfig(11, 9, D_MODEL, HEADS, 2, **options)
        return random(TinyTranslator(config))


def fill(ours, theirs):
    """Give a block the weights of one of PyTorch's layers, part by part."""
    pairs = {"attention": "self_attn", "cross_attention": "multihead_attn"}
    for mine, name in pairs.items():
        if hasattr(ours, mine):
            holder = make_mha("torch", D_MODEL, HEADS, qkv_bias=True).double()
            holder.attention = getattr(theirs, name)
            copy_weights(holder, getattr(ours, mine))
    norms = [part for name, part in ours.named_children() if name.endswith("_norm")]
    parts = [ours.feed_forward.up_proj, ours.feed_forward.down_proj, *norms]
    found = [theirs.linear1, theirs.linear2, theirs.norm1, theirs.norm2]
    found += [theirs.norm3] if hasattr(theirs, "norm3") else []
    for part, own in zip(parts, found, strict=True):
        part.load_state_dict(own.state_dict())
    return ours


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_blocks_equal_those_of_pytorch(norm):
    sizes = dict(dim_feedforward=4 * D_MODEL, dropout=0.0, activation="gelu")
    sizes |= dict(batch_first=True, norm_first=norm == "pre")
    theirs = random(nn.TransformerEncoderLayer(D_MODEL, HEADS, **sizes))
    ours = TinyBlock(D_MODEL, HEADS, norm=norm)
    ours.attention = MultiHeadAttention(D_MODEL, HEADS, qkv_bias=True)
    fill(ours.double(), theirs)
    hidden = ~SEEN[:, 0]
    found = values_and_gradients(lambda x: ours(x, SEEN), vectors(SOURCE))
    wanted = values_and_gradients(
        lambda x: theirs(x, src_key_padding_mask=hidden), vectors(SOURCE)
    )
    assert_close(found, wanted)

    theirs = random(nn.TransformerDecoderLayer(D_MODEL, HEADS, **sizes))
    ours = fill(CrossBlock(D_MODEL, HEADS, norm=norm, qkv_bias=True).double(), theirs)
    future = ~causal_mask(TARGET)
    found, wanted = (
        values_and_gradients(call, vectors(TARGET), vectors(SOURCE, seed=1))
        for call in (
            lambda x, memory: ours(x, memory, SEEN),
            lambda x, memory: theirs(
                x, memory, tgt_mask=future, memory_key_padding_mask=hidden
            ),
        )
    )
    assert_close(found, wanted)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_block_says_the_weights_that_it_uses(norm):
    block = random(CrossBlock(D_MODEL, HEADS, norm=norm))
    x, memory, used = vectors(TARGET), vectors(SOURCE, seed=1), []
    inner = block.cross_attention
    keep = lambda layer, given, named: used.append((given, named))  # noqa: E731
    with_hook = inner.register_forward_pre_hook(keep, with_kwargs=True)
    block(x, memory, SEEN)
    with_hook.remove()
    (given, named) = used[0]
    assert_same(
        block.cross_weights(x, memory, SEEN), inner.attention_weights(*given, **named)
    )
    assert (block.cross_weights(x, memory, SEEN)[0, ..., 4:] == 0).all()


def test_a_kept_memory_gives_what_the_memory_gives():
    layer, memory = random(MultiHeadAttention(D_MODEL, HEADS)), vectors(SOURCE, seed=1)
    kept = cache_memory(layer, memory)
    for mask in (None, SEEN, SEEN.expand(-1, TARGET, -1)):
        wanted = layer(vectors(TARGET), mask, memory=memory)
        assert_close(attend_cached(layer, vectors(TARGET), kept, mask), wanted)
    assert kept.nbytes == 2 * 8 * BATCH * SOURCE * D_MODEL


def test_translator_sees_no_padding_and_no_later_word():
    model, source, target = translator(), ids(SOURCE), ids(TARGET, seed=1)
    logits = model(source, target, LENGTHS)
    alone = model(source[:1, :4], target[:1])
    assert_close(logits[:1], alone)
    changed = target.clone()
    changed[:, 2:] += 1
    other = model(source, changed % 11, LENGTHS)
    assert_close(other[:, :2], logits[:, :2])
    assert not torch.isclose(other[:, 2:], logits[:, 2:]).all(-1).any()
    maps = model.cross_weights(source, target, LENGTHS)
    assert [tuple(own.shape) for own in maps] == [(BATCH, HEADS, TARGET, SOURCE)] * 2
    assert_close(sum(own.sum(-1) for own in maps), torch.full((2, 3, 4), 2.0).double())
    assert (maps[1][0, ..., 4:] == 0).all()


def test_translate_writes_the_same_with_and_without_its_caches():
    model = translator(num_encoder_layers=0, num_cross_heads=1)
    source, call = ids(SOURCE), dict(start=4, stop=2, max_new_tokens=9)
    found = translate(model, source, LENGTHS, **call)
    assert not translate(model, source, **call).equal(found)  # padding would show
    assert_same(translate(model, source, LENGTHS, use_cache=False, **call), found)
    alone = translate(model, source[:1, :4], **call)[0]
    assert_same(alone, found[0, : len(alone)])
    texts = torch.cat([torch.full_like(found[:, :1], 4), found], dim=1)
    best = model(source, texts[:, :-1], LENGTHS).argmax(-1)
    for row, scores in zip(found, best, strict=True):
        end = ([*row.tolist(), 2]).index(2) + 1
        assert_same(row[:end], scores[:end])


def test_translate_writes_what_a_model_may_learn_from():
    model = translator()
    found = translate(model, ids(SOURCE), start=1, stop=2, max_new_tokens=3)
    model(ids(SOURCE), found).sum().backward()


def test_translate_stops_where_every_text_has_ended():
    model = translator()
    with torch.no_grad():
        model.head.weight.zero_()
        model.decoder_norm.bias.fill_(1.0)
        model.decoder_norm.weight.zero_()
        model.head.weight[7] = 1.0
    found = translate(model, ids(SOURCE), start=1, stop=7, max_new_tokens=9)
    assert found.tolist() == [[7], [7]]


@pytest.mark.usefixtures("shapes_unchecked")
def test_translator_refuses(refused):
    model = translator()
    for read in (model.encode, lambda texts: model(ids(SOURCE), texts)):
        for wrong in (-1, 11):
            with refused(ValueError, "token_ids must be between 0 and 10"):
                read(torch.full((BATCH, 2), wrong))
    with refused(TypeError, "layer must be a MultiHeadAttention; got"):
        cache_memory(make_mha("sdpa", D_MODEL, HEADS), vectors(SOURCE).float())
    with refused(ValueError, "token_ids hold 10 tokens; the context has 9"):
        model(ids(10), ids(3))


@pytest.mark.usefixtures("shapes_unchecked")
def test_block_refuses_a_memory_that_is_missing_or_of_other_texts(refused):
    block, x, memory = random(CrossBlock(D_MODEL, HEADS)), vectors(4), vectors(SOURCE)
    for call in (block, block.cross_weights):
        with refused(TypeError, "memory must be a Tensor; got NoneType"):
            call(x, None)
    kept = cache_memory(block.cross_attention, memory[:1])
    with refused(ValueError, "memory must hold as many texts as x; got 1 and 2"):
        block(x, kept)
