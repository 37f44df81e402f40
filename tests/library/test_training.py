"""attention_lib.training: losses by loops, steps written out, runs in pieces."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attention_lib import training
from attention_lib.data import SlidingWindowDataset
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import (
    TrainConfig,
    Training,
    evaluate,
    next_token_loss,
    train,
    train_step,
    warmup_cosine,
)
from tests.loops import loss_by_loops
from tests.running import fresh_tqdm
from tests.tensors import assert_same, global_seed

# All of different size, so that a swapped axis shows.
BATCH, LENGTH, VOCAB_SIZE, CONTEXT_LEN = 3, 5, 7, 8
LENGTHS = torch.tensor([5, 2, 4])


def scores(batch=BATCH, length=LENGTH, seed=0, dtype=torch.float64):
    shape = batch, length, VOCAB_SIZE
    return 3 * torch.randn(shape, generator=seeded(seed), dtype=dtype)


def ids(batch=BATCH, length=LENGTH, seed=0):
    return torch.randint(VOCAB_SIZE, (batch, length), generator=seeded(seed))


def tiny(seed=0, dtype=torch.float64, **options):
    with global_seed(seed):
        config = ModelConfig(VOCAB_SIZE, CONTEXT_LEN, 4, 2, 1, **options)
        return TinyLM(config).to(dtype)


def texts_of(*lengths, seed=0):
    generator = seeded(seed)
    return [torch.randint(VOCAB_SIZE, (n,), generator=generator) for n in lengths]


class Scoring(nn.Module):
    """Give every token the same scores, made of one weight for each word."""

    def __init__(self, scores):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(VOCAB_SIZE))
        self.other = nn.Parameter(torch.ones(VOCAB_SIZE))
        self.scores = scores

    def forward(self, token_ids, lengths=None):
        scores = self.scores(self.weight) + self.other
        return scores.expand(*token_ids.shape, VOCAB_SIZE)


# The loss.


@given(
    lengths=st.lists(st.integers(0, 6), max_size=4).map(lambda some: [2, *some]),
    seed=st.integers(0, 99),
)
def test_next_token_loss_equals_loops(lengths, seed):
    longest = max(lengths) + seed % 2  # sometimes all are padded
    logits, token_ids = (make(len(lengths), longest, seed) for make in (scores, ids))
    lengths = torch.tensor(lengths)
    loss = next_token_loss(logits, token_ids, lengths)
    assert_close(loss, loss_by_loops(logits, token_ids, lengths))


def test_next_token_loss_ignores_the_scores_of_padding():
    logits = scores()
    before = next_token_loss(logits, ids(), LENGTHS)
    logits[torch.arange(LENGTH) >= LENGTHS[:, None] - 1] = torch.nan
    assert_same(next_token_loss(logits, ids(), LENGTHS), before)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-5), (torch.bfloat16, 0.05), (torch.float16, 0.01)],
    ids=str,
)
def test_next_token_loss_is_computed_in_float32_at_least(dtype, tolerance):
    logits = scores().to(dtype).requires_grad_()
    loss = next_token_loss(logits, ids(), LENGTHS)
    assert loss.dtype == torch.float32
    assert_same(loss, next_token_loss(logits.float(), ids(), LENGTHS))
    exact = next_token_loss(scores(), ids(), LENGTHS)
    assert exact.dtype == torch.float64
    assert loss.item() == pytest.approx(exact.item(), rel=tolerance)
    loss.backward()
    assert logits.grad.dtype == dtype


def test_next_token_loss_does_not_ask_what_stands_in_the_padding():
    token_ids = ids()
    padding = torch.arange(token_ids.shape[1]) >= LENGTHS[:, None]
    padded = token_ids.masked_fill(padding, -1)
    wanted = next_token_loss(scores(), token_ids, LENGTHS)
    assert_same(next_token_loss(scores(), padded, LENGTHS), wanted)


@pytest.mark.usefixtures("shapes_unchecked")  # which would be compiled, too
def test_next_token_loss_can_be_vectorised_and_compiled():
    def loss(logits, text, length):
        return next_token_loss(logits[None], text[None], length[None])

    each = torch.func.vmap(torch.func.grad(loss))(scores(), ids(), LENGTHS)
    for row in range(BATCH):
        alone = scores()[row].requires_grad_()
        loss(alone, ids()[row], LENGTHS[row]).backward()
        assert_close(each[row], alone.grad)
    compiled = torch.compile(next_token_loss, backend="eager", fullgraph=True)
    given = scores(), ids(), LENGTHS
    assert_same(compiled(*given), next_token_loss(*given))


# One step.


def step_written_out(model, optimizer, token_ids, lengths, max_grad_norm):
    logits = model(token_ids, lengths)
    loss = loss_by_loops(logits, token_ids, lengths)
    for parameter in model.parameters():
        parameter.grad = None
    loss.backward()
    norm = sum(p.grad.square().sum() for p in model.parameters()) ** 0.5
    for parameter in model.parameters():
        parameter.grad *= min(1.0, max_grad_norm / (norm.item() + 1e-6))
    optimizer.step()
    return loss.item()


CERTAIN = torch.tensor([-math.inf] + [0.0] * (VOCAB_SIZE - 1))
NOT_FINITE = {
    "the loss is nan: try a smaller learning rate": lambda w: w * math.nan,
    "the loss is inf: try a smaller learning rate": lambda w: w + CERTAIN,
    "the gradient has the length inf, though the loss": lambda w: (w - w.data).sqrt(),
}


@pytest.mark.parametrize("max_grad_norm", [1.0, math.inf])
@pytest.mark.parametrize("words", NOT_FINITE)
def test_train_step_stops_before_what_is_not_finite(refused, words, max_grad_norm):
    model = Scoring(lambda weight: weight)
    optimizer = torch.optim.AdamW(model.parameters())
    given = model, optimizer, torch.zeros(1, 3, dtype=torch.int64)
    train_step(*given)
    optimizer.zero_grad()
    before, memory = deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    model.scores = NOT_FINITE[words]
    for _ in range(2):
        with refused(ValueError, words):
            train_step(*given, max_grad_norm=max_grad_norm)
        assert_same(model.state_dict(), before)
        assert_same(optimizer.state_dict()["state"], memory)
        assert model.weight.grad is None  # nothing is left of the gradient, either


def test_train_step_trains_a_vector_beside_a_frozen_model():
    model = tiny().requires_grad_(False)
    steering = nn.Parameter(torch.zeros(model.config.d_model))
    model.blocks[0].register_forward_hook(lambda part, given, found: found + steering)
    train_step(model, torch.optim.SGD([steering], lr=1.0), torch.tensor([[1, 2, 3]]))
    assert steering.any()


def test_train_step_shortens_what_the_optimizer_holds():
    model = tiny()
    optimizer = torch.optim.SGD([model.head.weight], lr=1.0)
    norms = []
    for _ in range(3):
        before = model.head.weight.detach().clone()
        train_step(model, optimizer, ids(), max_grad_norm=1e-3)
        norms.append((model.head.weight - before).norm().item())
    assert norms == pytest.approx([1e-3] * 3, rel=1e-2)


def test_train_step_refuses_a_model_that_cannot_learn(refused):
    model = tiny().requires_grad_(False)
    with refused(ValueError, "no weight can learn: look for requires_grad=False or no"):
        train_step(model, torch.optim.SGD(model.parameters()), ids())


# Modes.


def test_evaluate_and_train_step_leave_frozen_parts_frozen():
    model = tiny().train()
    model.blocks[0].eval()
    model.blocks[0].feed_forward_norm.train()
    before = [part.training for part in model.modules()]
    evaluate(model, TEXTS)
    assert [part.training for part in model.modules()] == before
    train_step(model, torch.optim.SGD(model.parameters()), ids())
    assert [part.training for part in model.modules()] == before


# The schedule.


def test_warmup_cosine_hand_worked():
    shares = [warmup_cosine(step, warmup=2, steps=6) for step in range(9)]
    wanted = [0.5, 1, 1, 0.5 + 0.5 * 0.5**0.5, 0.5, 0.5 - 0.5 * 0.5**0.5, 0, 0, 0]
    assert shares == pytest.approx(wanted)
    assert warmup_cosine(10**9, warmup=2, steps=6) == 0


# The config.


def test_train_config_defaults():
    wanted = TrainConfig(100, 16, 6e-3, warmup=50, max_grad_norm=1.0, seed=0)
    assert TrainConfig(steps=100) == wanted


@pytest.mark.parametrize(("steps", "wanted"), [(1, 0), (50, 25), (99, 49), (1000, 50)])
def test_train_config_warms_up_no_longer_than_half_a_run(steps, wanted):
    assert TrainConfig(steps=steps).warmup == wanted


# A run.


TEXTS = texts_of(*[3, 5, 8, 2, 6] * 4)
CONFIG = TrainConfig(steps=12, batch_size=4, learning_rate=0.02, warmup=3, seed=1)


def started(seed=0, config=CONFIG, texts=TEXTS, **options):
    return Training(tiny(seed, **options), texts, config)


@pytest.mark.parametrize(("max_grad_norm", "tied"), [(0.1, True), (math.inf, False)])
def test_training_equals_its_steps_written_out(max_grad_norm, tied):
    config = replace(CONFIG, max_grad_norm=max_grad_norm)
    run, model = started(config=config, tie_weights=tied), tiny(tie_weights=tied)
    run.run()
    assert train(tiny(tie_weights=tied), TEXTS, config) == run.losses
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98))
    for step, loss in enumerate(run.losses):
        share = warmup_cosine(step, warmup=3, steps=12)
        optimizer.param_groups[0]["lr"] = 0.02 * share
        given = model, optimizer, *run.batch(step), max_grad_norm
        assert loss == pytest.approx(step_written_out(*given))
    assert_close(run.model.state_dict(), model.state_dict())


def batches(run, steps):
    found = [zip(*run.batch(step), strict=True) for step in steps]
    return [[row[:n].tolist() for row, n in pairs] for pairs in found]


@pytest.mark.parametrize("count", [4, 7, 20])
def test_training_takes_each_text_once_a_round(count):
    texts = [torch.tensor([i // 7, i % 7]) for i in range(count)]
    run = started(texts=texts)
    a_round = count // 4
    for first in (0, a_round, 5 * a_round):
        found = batches(run, range(first, first + a_round))
        rows = [tuple(row) for batch in found for row in batch]
        assert [len(batch) for batch in found] == [4] * a_round
        assert len(set(rows)) == len(rows) == 4 * a_round


def test_training_batch_follows_from_step_and_seed():
    run, again = started(), started(seed=9)
    assert batches(run, range(5)) != batches(run, range(5, 10))  # another order
    run.run(until=4)
    assert batches(run, range(12)) == batches(again, range(12))
    other = started(config=replace(CONFIG, seed=2))
    assert batches(other, range(12)) != batches(run, range(12))


def test_training_draws_an_order_once_an_epoch(monkeypatch):
    drawn = []
    draw = torch.randperm

    def noted(*given, **options):
        drawn.append(given)
        return draw(*given, **options)

    monkeypatch.setattr(torch, "randperm", noted)
    started().run()  # 12 steps of 4 out of 20 texts: three epochs
    assert drawn == [(20,)] * 3


def test_training_takes_groups_and_gives_all_of_them_the_rate():
    run = started()
    matrices = [p for p in run.model.parameters() if p.ndim > 1]
    others = [p for p in run.model.parameters() if p.ndim < 2]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    run.optimizer = torch.optim.AdamW(groups, lr=9.0)
    run.run(until=4)
    share = warmup_cosine(3, warmup=3, steps=12)
    assert [group["lr"] for group in run.optimizer.param_groups] == [0.02 * share] * 2


def test_training_and_evaluate_take_windows():
    windows = SlidingWindowDataset(ids(1, 90)[0], CONTEXT_LEN - 1, 5)
    run = started(texts=windows)
    run.run()
    assert run.losses == train(tiny(), list(windows), CONFIG)
    assert evaluate(run.model, windows) == evaluate(run.model, list(windows))


def test_training_batch_goes_to_the_models_device():
    run = Training(tiny().to("meta"), TEXTS, CONFIG)
    assert [tensor.is_meta for tensor in run.batch(0)] == [True, True]


def test_training_stopped_by_an_error_can_go_on(refused):
    run = started()
    run.run(until=5)
    good = deepcopy(run.model.state_dict())
    run.model.head.weight.data[0, 0] = torch.nan
    with refused(ValueError, "the loss is nan: try a smaller learning rate"):
        run.run()
    assert len(run.losses) == 5
    run.model.load_state_dict(good)
    run.run()
    whole = started()
    whole.run()
    assert run.losses == whole.losses


def test_training_shows_its_progress_on_stderr_unless_that_is_disabled(
    monkeypatch, capfd
):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setenv("TQDM_MININTERVAL", "0")  # however fast the steps are
    monkeypatch.setattr(training, "tqdm", fresh_tqdm())
    run = started()
    run.run()
    out, err = capfd.readouterr()
    assert out == ""
    assert "training: " in err
    assert "0/12" in err
    assert any(f"loss={loss:.3f}" in err for loss in run.losses)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr(training, "tqdm", fresh_tqdm())
    started().run()
    assert capfd.readouterr() == ("", "")


# Evaluation.


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_evaluate_is_the_mean_over_all_targets_whatever_the_batches(batch_size):
    model, texts = tiny(), texts_of(2, 7, 3, 3, 8, 2, 5)
    total, count = 0.0, 0
    for text in texts:
        logits = model(text[None])
        loss = loss_by_loops(logits, text[None], [len(text)]).item()
        total, count = total + loss * (len(text) - 1), count + len(text) - 1
    wanted = pytest.approx(total / count)
    assert evaluate(model, texts, batch_size=batch_size) == wanted
    # What holds no target is left out.
    with_others = [*texts_of(1, 0), *texts[::-1], *texts_of(1)]
    assert evaluate(model, with_others, batch_size=batch_size) == wanted


@pytest.mark.parametrize("mode", [True, False])
def test_evaluate_restores_the_mode_after_an_error(refused, mode):
    model = tiny().train(mode)
    with refused(ValueError, "token_ids hold 9 tokens; the context has 8"):
        evaluate(model, texts_of(9))
    assert model.training == mode


def test_evaluate_drops_nothing():
    state = torch.get_rng_state()
    assert evaluate(tiny(dropout=0.5), TEXTS) == evaluate(tiny(), TEXTS)
    assert torch.get_rng_state().equal(state)


def test_evaluate_needs_no_gradient():
    enabled = []
    model = Scoring(lambda weight: enabled.append(torch.is_grad_enabled()) or weight)
    assert evaluate(model, TEXTS) == pytest.approx(math.log(VOCAB_SIZE))
    assert enabled == [False]
