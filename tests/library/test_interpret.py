"""attention_lib.interpret: scores by hand, heads removed, paths patched."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from attention_lib import interpret
from attention_lib.data import BPETokenizer, pad_texts
from attention_lib.multi_head import copy_weights, merge_heads, split_heads
from attention_lib.pretrained import Decoder, DecoderConfig, LayerConfig
from attention_lib.reproducibility import seeded
from attention_lib.rope import apply_rope
from attention_lib.stories import make_stories
from attention_lib.tiny_llama import LlamaConfig, TinyLlama
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import evaluate
from tests.tensors import global_seed

IDS = torch.tensor([[3, 1, 4, 3, 1, 3], [0, 1, 2, 3, 4, 5]])


def model_of(kind=interpret.AttentionOnlyLM, **options):
    sizes = dict(vocab_size=7, context_len=9, d_model=12, num_heads=3, num_layers=2)
    with global_seed(0):
        return kind(ModelConfig(**sizes | options)).double()


@torch.no_grad()
def logits_of(model, *contexts):
    with interpret.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        return model(IDS)


def test_repeated_texts_repeat_a_piece_of_different_tokens():
    ids, repeats = interpret.repeated_texts(
        300, 12, 9, periods=(2, 5), generator=seeded(0)
    )
    periods = (~repeats).sum(dim=1)
    assert sorted(set(periods.tolist())) == [2, 3, 4, 5]
    for text, period in zip(ids, periods.tolist(), strict=True):
        assert len(set(text[:period].tolist())) == period
        assert torch.equal(text[period:], text[:-period])


def test_copied_successors_by_hand():
    found = interpret.induction_targets(IDS).nonzero().tolist()
    # Query 3 has an earlier 3 at 0; query 4 a 1 at 1; query 5 a 3 at 0 and at 3.
    assert found == [[0, 3, 1], [0, 4, 2], [0, 5, 1], [0, 5, 4]]


def test_scores_by_hand():
    weights = torch.zeros(2, 2, 6, 6)
    weights[:, 0] = torch.eye(6).roll(-1, dims=1)  # head 0: the token before
    weights[:, 1, :, 1] = 1  # head 1: always place 1
    assert_close(interpret.previous_token_score(weights), torch.tensor([1.0, 0.2]))
    # Of the three queries that have a copy, place 4 is right for one, 1 for two.
    assert_close(interpret.induction_score(weights, IDS), torch.tensor([1 / 3, 2 / 3]))
    assert not interpret.induction_score(weights[1:], IDS[1:]).any()  # no copy at all


def test_attention_only_is_the_block_without_its_mlp():
    with_mlp, without = model_of(TinyLM), model_of()
    for block in with_mlp.blocks:
        for parameter in block.feed_forward.down_proj.parameters():
            torch.nn.init.zeros_(parameter)
    without.load_state_dict(with_mlp.state_dict(), strict=False)
    assert_close(logits_of(without), logits_of(with_mlp))
    ours, theirs = without.attention_weights(IDS), with_mlp.attention_weights(IDS)
    assert_close(ours, theirs)
    assert not [name for name, _ in without.named_parameters() if "feed" in name]


@pytest.mark.parametrize("mha", ["split", "sdpa", "wrapper"])
def test_a_head_replaced_by_nothing_is_its_columns_at_zero(mha):
    model = model_of(mha=mha)
    ours = logits_of(model, interpret.patch_heads(model, {(1, 2): 0.0}))
    whole = logits_of(model)
    with torch.no_grad():
        model.blocks[1].attention.out_proj.weight[:, 8:] = 0
    assert_close(ours, logits_of(model))
    assert not torch.allclose(ours, whole)


def test_heads_replaced_by_what_they_found_change_nothing():
    model = model_of()
    whole = logits_of(model)
    contexts = interpret.head_outputs(model, IDS)
    assert [tuple(each.shape) for each in contexts] == [(2, 3, 6, 4)] * 2
    values = {(i, h): contexts[i][:, h] for i in range(2) for h in range(3)}
    same = [interpret.patch_heads(model, values)]
    same += [
        interpret.patch_path(model, (0, 1), (1, 2), into, values[0, 1])
        for into in ("query", "key", "value")
    ]
    assert_close(logits_of(model, *same), whole)
    assert torch.equal(logits_of(model), whole)  # no hook is left


def test_all_paths_together_are_the_head_without_its_direct_way():
    """Cut from all that layer 2 reads, head 1 changes only what it adds itself."""
    model = model_of()
    cut = [
        interpret.patch_path(model, (0, 1), (1, head), into, 0.0)
        for head in range(3)
        for into in ("query", "key", "value")
    ]
    cut_logits = logits_of(model, *cut)
    with torch.no_grad():
        first, second = model.blocks
        streams = model.stream(IDS)
        own = interpret.head_outputs(model, IDS)[0][:, 1]
        sent = own @ first.attention.out_proj.weight[:, 4:8].T
        reads = second.attention_norm(streams[1] - sent)
        stream = streams[1] + second.attention(reads, causal=True)
        assert_close(cut_logits, model.head(model.last_norm(stream)))


def test_a_path_reaches_one_head_only():
    model = model_of()
    with interpret.patch_path(model, (0, 0), (1, 1), "key", 0.0):
        changed = model.attention_weights(IDS)
    plain = model.attention_weights(IDS)
    same = [torch.allclose(changed[1][:, h], plain[1][:, h]) for h in range(3)]
    assert same == [True, False, True]
    assert_close(changed[0], plain[0])


GROUPED = {
    "TinyLlama": lambda: TinyLlama(LlamaConfig(7, 9, 12, 6, 2, 2, 10, qk_norm="rms")),
    "Gemma": lambda: Decoder(
        DecoderConfig(
            *(7, 9, 12, 6, 2, 4, 10),
            layers=(LayerConfig(), LayerConfig()),
            norm="rms_plus_one",
            norm_outputs=True,
        )
    ),
}


def grouped(name):
    with global_seed(0):
        model = GROUPED[name]()
    for number, own in enumerate(model.parameters()):
        torch.nn.init.normal_(own, std=0.4, generator=seeded(number))
    return model.double()


def cut_by_hand(model, sender, receiver, into, value):
    """The second block, step by step, with one head's rows from elsewhere."""
    first, second = model.blocks
    states, (_, block_kwargs) = model.stream(IDS), model._start(IDS, None)
    angles = block_kwargs["angles"]
    angles = angles[0] if isinstance(angles, list) else angles
    context = interpret.head_outputs(model, IDS)[0].clone()  # (B, H, T, D)
    added = [first.attention.out_proj(merge_heads(context))]
    context[:, sender] = value
    added.append(first.attention.out_proj(merge_heads(context)))
    if hasattr(first, "attention_out_norm"):
        added = [first.attention_out_norm(each) for each in added]
    own = second.attention
    plain, other = (
        {name: getattr(own, f"{name[0]}_proj")(second.attention_norm(stream))
         for name in ("query", "key", "value")}
        for stream in (states[1], states[1] + added[1] - added[0])
    )  # fmt: skip
    shared = receiver if into == "query" else receiver // 3  # 6 heads share 2
    width = own.head_dim
    rows = slice(shared * width, (shared + 1) * width)
    plain[into][..., rows] = other[into][..., rows]
    query = split_heads(plain["query"], 6)
    key, value_ = (split_heads(plain[name], 2) for name in ("key", "value"))
    if own.q_norm is not None:
        query, key = own.q_norm(query), own.k_norm(key)
    if angles is not None:
        query, key = apply_rope(query, angles), apply_rope(key, angles)
    found = own._attend(query, key, value_, None, True, square=True)
    found = own.out_proj(merge_heads(found))
    if hasattr(second, "attention_out_norm"):
        found = second.attention_out_norm(found)
    x = states[1] + found
    if hasattr(second, "mlp"):
        found = second.mlp(second.mlp_norm(x))
        x = x + (second.mlp_out_norm(found) if second.norm_outputs else found)
    else:
        x = x + second.feed_forward(second.feed_forward_norm(x))
    return model._logits(x)


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
@pytest.mark.parametrize("name", GROUPED)
@torch.no_grad()
def test_a_path_into_a_shared_head_is_that_cut_by_hand(name):
    model = grouped(name)
    whole = logits_of(model)
    for into in ("query", "key", "value"):
        cut = []
        for head in range(6):
            path = interpret.patch_path(model, (0, 1), (1, head), into, 0.2)
            cut.append(logits_of(model, path))
            assert_close(cut[-1], cut_by_hand(model, 1, head, into, 0.2))
            assert not cut[-1].allclose(whole)
        if into != "query":  # three query heads share one of two heads of keys
            same = [[a.allclose(b) for b in cut] for a in cut]
            groups = [[a // 3 == b // 3 for b in range(6)] for a in range(6)]
            assert same == groups


@torch.no_grad()
def test_a_path_goes_through_a_replaced_forward_as_through_a_hook():
    def doubled(out_proj):  # as accelerate does it
        plain = out_proj.forward
        out_proj.forward = lambda x: 2 * plain(x)

    def hooked(out_proj):
        out_proj.register_forward_hook(lambda part, given, found: 2 * found)

    found = []
    for change in (doubled, hooked):
        model = grouped("TinyLlama")
        change(model.blocks[0].attention.out_proj)
        path = interpret.patch_path(model, (0, 1), (1, 0), "value", 0.2)
        found.append(logits_of(model, path))
    assert_close(*found)


@torch.no_grad()
def test_heads_that_share_a_kv_head_share_one_path():
    model = grouped("TinyLlama")
    once, again, other = (
        interpret.patch_path(model, (0, 1), (1, head), "key", value)
        for head, value in [(0, 0.2), (2, 0.2), (1, 0.7)]
    )
    alone = logits_of(model, interpret.patch_path(model, (0, 1), (1, 1), "key", 0.2))
    assert_close(logits_of(model, once, again), alone)
    later = logits_of(model, interpret.patch_path(model, (0, 1), (1, 1), "key", 0.7))
    first = interpret.patch_path(model, (0, 1), (1, 0), "key", 0.2)
    assert_close(logits_of(model, first, other), later)


class Wrapped(torch.nn.Module):
    """A part inside another one, as an adapter has it: no weight, no width."""

    def __init__(self, part):
        super().__init__()
        self.inner = part

    def forward(self, x):
        return self.inner(x)


@torch.no_grad()
def test_instruments_see_through_wrapped_and_hooked_parts():
    for name, model in (("plain", model_of()), *((n, grouped(n)) for n in GROUPED)):
        calls = [
            lambda m=model: interpret.patch_heads(m, {(0, 1): 0.2, (1, 2): 0.0}),
            lambda m=model: interpret.patch_path(m, (0, 1), (1, 2), "query", 0.2),
            lambda m=model: interpret.patch_path(m, (0, 1), (1, 2), "key", 0.2),
        ]
        plain, whole = [logits_of(model, call()) for call in calls], logits_of(model)
        contexts = interpret.head_outputs(model, IDS)
        for block in model.blocks:
            own = block.attention
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                setattr(own, part, Wrapped(getattr(own, part)))
        for call, wanted in zip(calls, plain, strict=True):
            assert_close(logits_of(model, call()), wanted, msg=name)
        assert_close(interpret.head_outputs(model, IDS), contexts)
        # A hook on what the sender goes through is the same as merged weights.
        columns = torch.linspace(-1, 2, 12).double()
        own = model.blocks[0].attention
        hook = own.out_proj.register_forward_hook(
            lambda *call, own=columns: call[2] * own
        )
        hooked = [logits_of(model, call()) for call in calls]
        hook.remove()
        own.out_proj = own.out_proj.inner
        with torch.no_grad():
            for weight in own.out_proj.parameters():
                weight *= columns[:, None] if weight.ndim > 1 else columns
        for call, found in zip(calls, hooked, strict=True):
            assert_close(found, logits_of(model, call()), msg=name)
            assert not found.allclose(whole)


@torch.no_grad()
def test_heads_of_the_kind_torch_are_seen_and_replaced():
    model, same = model_of(mha="torch"), model_of(mha="split")
    for block, twin in zip(model.blocks, same.blocks, strict=True):
        copy_weights(twin.attention, block.attention)
    same.load_state_dict(
        {k: v for k, v in model.state_dict().items() if k in same.state_dict()},
        strict=False,
    )
    assert_close(interpret.head_outputs(model, IDS), interpret.head_outputs(same, IDS))
    ours, theirs = (
        logits_of(each, interpret.patch_heads(each, {(1, 2): 0.0}))
        for each in (model, same)
    )
    assert_close(ours, theirs)
    assert not ours.allclose(logits_of(model))


def test_two_senders_into_one_head_are_both_replaced():
    model = model_of()
    one, other = (
        interpret.patch_path(model, (0, head), (1, 0), "key", 0.0) for head in (0, 1)
    )
    both = logits_of(model, one, other)
    first, second = model.blocks
    with torch.no_grad():
        streams, contexts = model.stream(IDS), interpret.head_outputs(model, IDS)[0]
        contexts[:, 2] = 0  # the two heads, and no more
        sent = merge_heads(contexts) @ first.attention.out_proj.weight.T
        rows = second.attention.k_proj(second.attention_norm(streams[1] - sent))
        hook = second.attention.k_proj.register_forward_hook(
            lambda _, x, out: torch.cat([rows[..., :4], out[..., 4:]], dim=-1)
        )
    assert_close(both, logits_of(model))
    hook.remove()


# What chapter 8 prints when it removes one head at a time.
REMOVED = re.compile(r"^(?:without (\d)\.(\d)|all heads)((?: +\d+\.\d+){3})$", re.M)


@cache
def storytellers_tokenizer():
    texts = [story.text for story in make_stories(2000, seed=0)]
    return BPETokenizer(texts, vocab_size=1000)


@pytest.mark.slow  # chapter 25 runs it, too
@pytest.mark.no_cover  # thousands of stories and their tokens, which other tests cover
def test_storyteller_is_the_model_of_chapter_8():
    notebook = Path(__file__).parents[2] / "notebooks" / "08-training.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [each for cell in cells for each in cell.get("outputs", ())]
    text = next(
        t for o in outputs if "without 2.4" in (t := "".join(o.get("text", "")))
    )
    rows = {row[:2]: [*map(float, row[2].split())] for row in REMOVED.findall(text)}
    assert len(rows) == 9
    model = interpret.load_storyteller().double()
    stories = make_stories(9_600, seed=0)
    known = {story.text for story in stories}
    held_out = [s for s in make_stories(400, seed=1) if s.text not in known]
    tokenizer = storytellers_tokenizer()
    start = tokenizer.encode("\n")
    texts = [torch.tensor(start + tokenizer.encode(s.text)) for s in held_out]
    token_ids, lengths = pad_texts(texts)
    ends = torch.tensor([story.words.index("then") for story in held_out])
    for (layer, head), wanted in rows.items():
        values = {(int(layer) - 1, int(head) - 1): 0.0} if layer else {}
        with interpret.patch_heads(model, values), torch.no_grad():
            log_p = model(token_ids, lengths)[:, :-1].log_softmax(dim=-1)
        surprise = -log_p.gather(-1, token_ids[:, 1:, None])[:, :, 0]
        came = [surprise[range(len(ends)), ends + n].mean() for n in (4, 5, 7)]
        assert_close(
            torch.stack(came), torch.tensor(wanted).double(), rtol=0, atol=0.02
        )


@pytest.mark.no_cover
@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
@pytest.mark.parametrize("seed", [1, 2])
def test_storytellers_of_other_seeds_have_learned_as_well(seed):
    model = interpret.load_storyteller(seed)
    tokenizer = storytellers_tokenizer()
    texts = [torch.tensor(tokenizer.encode("\n" + s.text)) for s in make_stories(50, 1)]
    assert evaluate(model, texts) < 0.7


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sender": (1, 0)}, "sender must be in an earlier layer"),
        ({"model": model_of(mha="sdpa")}, "mha='split'"),
        ({"model": model_of(TinyLM, norm="post")}, "norm='pre'"),
    ],
)
def test_replaced_path_refuses(wrong, words):
    right = {"model": model_of(), "sender": (0, 0), "receiver": (1, 0), "into": "key"}
    with pytest.raises(ValueError, match=words):
        interpret.patch_path(**right | wrong, value=0.0).__enter__()
