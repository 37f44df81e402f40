"""attention_lib.checkpoints: resumed to the bit; nothing is lost where it fails."""

import dataclasses
import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from attention_lib import checkpoints
from attention_lib.checkpoints import FORMAT, load_checkpoint, save_checkpoint
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import TrainConfig, Training
from tests.tensors import assert_same, global_seed

STEPS = 8
CONFIG = TrainConfig(steps=STEPS, batch_size=3, learning_rate=0.02, warmup=2)
TEXTS = [torch.randint(7, (n,), generator=seeded(n)) for n in (3, 5, 2, 8, 4, 6, 7)]
SIZES = {"vocab_size": 7, "context_len": 8, "d_model": 4, "num_heads": 2}
DAMAGED = "run.safetensors is half written or damaged (its checksum differs): take an"


def started(seed=0, config=CONFIG, texts=TEXTS, dtype=torch.float32, **options):
    """A run of a model with dropout and tied weights, unless told otherwise."""
    choices = {"dropout": 0.3, "tie_weights": True} | options
    with global_seed(seed):
        model = TinyLM(ModelConfig(**(SIZES | choices), num_layers=1)).to(dtype)
    return Training(model, texts, config)


def at(step, **options):
    """A run that has made so many steps."""
    run = started(**options)
    run.run(until=step)
    return run


def everything(run):
    """All that a run may change: weights, memory, losses, generator, rates."""
    optimizer = run.optimizer.state_dict()
    return {
        **{f"model {name}": t.clone() for name, t in run.model.state_dict().items()},
        **{
            f"memory {number} {key}": torch.as_tensor(value).clone()
            for number, memory in optimizer["state"].items()
            for key, value in memory.items()
        },
        "losses": torch.tensor(run.losses, dtype=torch.float64),
        "random": torch.get_rng_state(),
        "rate": torch.tensor([group["lr"] for group in optimizer["param_groups"]]),
    }


@pytest.fixture(autouse=True)
def _own_random_numbers():
    with global_seed(0):
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.safetensors"


# Stop, and go on.


@pytest.mark.parametrize(
    ("dtype", "tied", "stop"),
    [
        (torch.float32, True, 0),
        (torch.float64, False, 1),
        (torch.float32, True, 5),
        (torch.float64, True, STEPS),
    ],
    ids=str,
)
def test_resumed_run_is_the_same_to_the_bit(path, stop, tied, dtype):
    options = {"dtype": dtype, "tie_weights": tied}
    torch.manual_seed(5)
    whole = at(STEPS, **options)
    wanted = everything(whole)
    torch.manual_seed(5)
    save_checkpoint(at(stop, **options), path)
    torch.manual_seed(99)
    resumed = started(seed=7, **options)
    load_checkpoint(resumed, path)
    assert resumed.losses == whole.losses[:stop]
    resumed.run()
    assert resumed.losses == whole.losses
    # Each step sets its own rate, so that of a run at its end says nothing.
    assert_same(everything(resumed) | {"rate": wanted["rate"]}, wanted)


def test_load_replaces_all_of_a_run_that_went_further(path):
    save_checkpoint(at(0), path)
    saved = everything(started())
    run = at(5, seed=3)
    load_checkpoint(run, path)
    assert run.model.head.weight is run.model.token_embedding.weight
    now = everything(run)
    assert now.keys() == saved.keys()  # no memory
    assert run.losses == []
    assert_same(run.model.state_dict(), started().model.state_dict())


def test_save_changes_nothing(path):
    run = at(3)
    before = everything(run)
    save_checkpoint(run, path)
    assert_same(everything(run), before)
    run.run()
    torch.manual_seed(0)
    assert run.losses == at(STEPS).losses


def test_checkpoint_is_one_plain_file(path):
    run = at(3)
    path.with_name("run.safetensors.unfinished").touch()  # of one that was killed
    save_checkpoint(run, str(path))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    state = load_file(path)
    assert state["losses"].tolist() == run.losses
    names = {f"model.{name}" for name, _ in run.model.named_parameters()}
    assert {name for name in state if name.startswith("model.")} == names
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["format"] == FORMAT


class Rare(nn.Module):
    """No config; a weight that is frozen, one never used; buffers of each kind."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 7)
        self.frozen = nn.Parameter(torch.ones(7), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2))
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("rows", torch.arange(4).view(2, 2).T)  # not contiguous
        self.register_buffer("passing", torch.tensor(0), persistent=False)

    def forward(self, token_ids, lengths=None):
        self.steps += 1
        return self.table(token_ids) * self.frozen * (1 + 0.1 * self.steps)


def test_resumed_run_of_any_module_has_its_buffers(path):
    runs = []
    for _ in range(3):
        torch.manual_seed(len(runs))
        runs.append(Training(Rare(), TEXTS, CONFIG))
    whole, first, resumed = runs
    whole.model.load_state_dict(first.model.state_dict())
    whole.run()
    first.run(until=5)
    save_checkpoint(first, path)
    assert "model.passing" not in load_file(path)
    resumed.model.rows.zero_()
    load_checkpoint(resumed, path)
    assert_same(resumed.model.state_dict(), first.model.state_dict())
    resumed.run()
    assert resumed.losses == whole.losses


def grouped(run, decay=0.1, kind=torch.optim.AdamW):
    """No decay on norms and biases: another order than that of the model."""
    weights = list(run.model.parameters())
    groups = [
        {"params": [p for p in weights if p.ndim < 2], "weight_decay": 0.0},
        {"params": [p for p in weights if p.ndim > 1], "weight_decay": decay},
    ]
    run.optimizer = kind(groups, lr=0.0)
    return run


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adafactor])
def test_resumed_run_has_the_memory_of_each_group(path, kind):
    torch.manual_seed(5)
    whole = grouped(started(), kind=kind)
    whole.run()
    torch.manual_seed(5)
    first = grouped(started(), kind=kind)
    first.run(until=5)
    save_checkpoint(first, path)
    resumed = grouped(started(seed=7), kind=kind)
    load_checkpoint(resumed, path)
    wanted = everything(first)
    assert_same(everything(resumed) | {"rate": wanted["rate"]}, wanted)
    resumed.run()
    assert resumed.losses == whole.losses


def test_load_refuses_other_groups(refused, path):
    save_checkpoint(grouped(at(2)), path)
    weight = "model.blocks.0.attention.k_proj.weight"
    words = "the run was saved with weight_decay=0.1 for "
    assert_refused(refused, grouped(started(), decay=0.2), path, words + weight)
    run = started()
    run.optimizer = torch.optim.AdamW([run.model.head.weight], weight_decay=0.1)
    words = "the run was saved with learns=True for model.blocks.0"
    assert_refused(refused, run, path, words)
    words = "the run was saved with optimizer=AdamW; this one has optimizer=Adam"
    assert_refused(refused, grouped(started(), kind=torch.optim.Adam), path, words)


def test_save_refuses_what_it_could_not_give_back(refused, path):
    run = started()
    run.optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(2))])
    with refused(ValueError, "the optimizer holds a weight that is not the model's"):
        save_checkpoint(run, path)
    run = at(1)
    run.optimizer.state[run.model.head.weight]["story"] = "once"
    with refused(TypeError, "the optimizer remembers story='once' for model."):
        save_checkpoint(run, path)
    assert not path.exists()


# What goes wrong while writing.


@pytest.mark.parametrize(
    ("function", "error"),
    [("fsync", OSError), ("replace", OSError), ("replace", KeyboardInterrupt)],
)
def test_save_that_fails_leaves_the_last_good_one(path, monkeypatch, function, error):
    run = at(2)
    save_checkpoint(run, path)
    good = path.read_bytes()

    def fails(*_):
        assert path.is_file()  # what a process that is killed here leaves
        assert path.read_bytes() == good
        raise error

    monkeypatch.setattr(os, function, fails)
    run.run(until=4)
    with pytest.raises(error):
        save_checkpoint(run, path)
    assert path.read_bytes() == good
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# What is refused, with nothing changed.


def assert_refused(refused, run, path, words, error=ValueError):
    before, mode = everything(run), run.model.training
    with refused(error, words):
        load_checkpoint(run, path)
    assert_same(everything(run), before)
    assert run.model.training == mode


def test_load_refuses_every_half_written_and_every_other_file(refused, path):
    save_checkpoint(at(2), path)
    whole = path.read_bytes()
    run = at(1, seed=3)
    header = int.from_bytes(whole[:8], "little")
    cuts = [0, 1, 7, 8, 9, header, header + 8, header + 9, len(whole) - 1]
    other = [b"text", b"\xff" * 100, b"PK\x03\x04" + b"\0" * 90]
    for content in [*(whole[:cut] for cut in cuts), *other]:
        path.write_bytes(content)
        words = "run.safetensors is half written or damaged ("
        assert_refused(refused, run, path, words)
    path.write_bytes(whole)
    load_checkpoint(run, path)


OLD, OURS = {"format": "attention_lib training 1"}, {"format": FORMAT}


@pytest.mark.parametrize("metadata", [None, OLD, OURS, {"settings": "{}"}])
def test_load_refuses_foreign_safetensors(refused, path, metadata):
    run = at(1)
    save_file({"weight": torch.zeros(3)}, path, metadata)
    came = (metadata or {}).get("format")
    words = "run.safetensors is not a checkpoint that this version reads: its format "
    words += f"is {came!r}, not {FORMAT!r}"
    if came == FORMAT:
        words = DAMAGED
    assert_refused(refused, run, path, words)


def test_load_refuses_a_file_with_one_other_bit(refused, path):
    save_checkpoint(at(2), path)
    whole, run = path.read_bytes(), at(1, seed=3)
    first = 8 + int.from_bytes(whole[:8], "little")  # what stands before are words
    for place in range(first, len(whole), (len(whole) - first) // 20):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert_refused(refused, run, path, DAMAGED)
    path.write_bytes(whole.replace(rb"\"steps\": 8", rb"\"steps\": 9"))
    assert_refused(refused, run, path, DAMAGED)


def rewritten(path, **changed):
    """The same file as another version would write it, with other settings."""
    with safe_open(path, framework="pt") as file:
        settings = json.loads(file.metadata()["settings"]) | changed
    kept = json.dumps({k: v for k, v in settings.items() if v is not None})
    state = load_file(path)
    checksum = checkpoints._checksum(state, kept)
    metadata = {"format": FORMAT, "settings": kept, "checksum": checksum}
    save_file(state, path, metadata)


def test_load_takes_a_file_from_before_a_setting_was_there(refused, path):
    run = at(2)
    save_checkpoint(run, path)
    rewritten(path, **{"max_grad_norm": None, "model.norm": None})
    resumed = started()
    load_checkpoint(resumed, path)
    assert_same(everything(resumed), everything(run))
    other = started(config=dataclasses.replace(CONFIG, max_grad_norm=2.0))
    words = "the run was saved with max_grad_norm=1.0; this one has max_grad_norm=2.0"
    assert_refused(refused, other, path, words)


def test_load_refuses_a_setting_that_it_does_not_know(refused, path):
    save_checkpoint(at(2), path)
    rewritten(path, **{"model.rope": True})
    words = "the run was saved with model.rope=True, which this version does not know"
    assert_refused(refused, at(1), path, words)


def test_load_refuses_a_path_without_file(refused, path):
    words = "there is no checkpoint run.safetensors"
    assert_refused(refused, at(1), path, words, FileNotFoundError)
    path.mkdir()
    assert_refused(refused, at(1), path, words, FileNotFoundError)


JOINED = torch.cat(TEXTS[-2:])
OTHER_TEXTS = {
    "fewer": TEXTS[:-1],
    "another order": TEXTS[::-1],
    "other words": [*TEXTS[:-1], 6 - TEXTS[-1]],
    "other ends": [*TEXTS[:-2], JOINED[:8], JOINED[8:]],
}
# What is other, how it was saved, and what the run has now.
OTHERS = [
    *(({"texts": texts}, "texts=7 (checksum ", "") for texts in OTHER_TEXTS.values()),
    *(
        ({"config": dataclasses.replace(CONFIG, **{name: value})},
         f"{name}={getattr(CONFIG, name)}", f"{name}={value}")
        for name, value in {"steps": 9, "max_grad_norm": 2.0}.items()
    ),
    ({"d_model": 6}, "model.d_model=4", "model.d_model=6"),
    ({"num_heads": 1}, "model.num_heads=2", "model.num_heads=1"),
    ({"mha": "sdpa"}, "model.mha=split", "model.mha=sdpa"),
    ({"dtype": torch.float64}, "a different model", ""),
]  # fmt: skip


@pytest.mark.parametrize(("options", "saved", "now"), OTHERS)
def test_load_refuses_other_texts_settings_and_models(
    refused, path, options, saved, now
):
    save_checkpoint(at(2), path)
    words = f"the run was saved with {saved}" + (f"; this one has {now}" if now else "")
    assert_refused(refused, started(**options), path, words)


# A compiled model, whose weights have other names, and one with a compiled part.


def compiled(run):
    run.model = torch.compile(run.model, backend="eager")
    return run


def compiled_inside(run):
    run.model.blocks[0] = torch.compile(run.model.blocks[0], backend="eager")
    return run


@pytest.mark.parametrize("names", ["plain", "of a compiled model"])
@pytest.mark.parametrize("resumed", [compiled, compiled_inside, lambda run: run])
@pytest.mark.parametrize("saved", [compiled, compiled_inside, lambda run: run])
def test_compiled_and_plain_models_load_each_others_checkpoints(
    saved, resumed, names, path, monkeypatch
):
    if names != "plain":  # as earlier versions saved them
        monkeypatch.setattr(checkpoints, "_plain", lambda name: name)
    run = saved(at(2))
    save_checkpoint(run, path)
    monkeypatch.undo()
    again = resumed(started(seed=1))
    load_checkpoint(again, path)
    wanted, found = (
        {
            name.replace("_orig_mod.", ""): kept
            for name, kept in everything(each).items()
        }
        for each in (run, again)
    )
    del wanted["rate"], found["rate"]  # each step sets it
    assert wanted.keys() == found.keys()
    assert all(found[name].equal(kept) for name, kept in wanted.items())
