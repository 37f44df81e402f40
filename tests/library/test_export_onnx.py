"""attention_lib.export: a file is written only if it computes what the model does.

An export takes seconds, so most tests read the files that two fixtures make.
"""

import json
import logging
import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from attention_lib import rope
from attention_lib.attention import scaled_dot_product_attention
from attention_lib.export import (
    DynamicCacheStep,
    StaticCacheStep,
    export_checked,
    export_model,
    generate_in_onnx,
    run,
)
from attention_lib.export.onnx import (
    _check_tokens,
    _copied,
    _disagreement,
    _error,
    _resized,
    main,
)
from attention_lib.generation import generate
from attention_lib.pretrained import (
    Decoder,
    load_pretrained,
    load_tokenizer,
    read_config,
    save_pretrained,
)
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import ModelConfig, TinyLM
from tests.tensors import assert_same, global_seed

pytestmark = pytest.mark.long

pytest.importorskip("onnxruntime")
MISTRAL = {
    **{"model_type": "mistral", "sliding_window": 5},
    **{"vocab_size": 61, "max_position_embeddings": 640},
    **{"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5},
}
PROMPT = torch.tensor([[5, 2, 7], [1, 1, 3]])
TIME = {"x": {0: "batch", 1: "time"}}
BOUND = 2e-6


@pytest.fixture(scope="module", autouse=True)
def _as_users_call_it(unchecked):
    with unchecked():
        yield


def drawn(model):
    with global_seed(0):
        for weight in model.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=0.15)
    return model.eval()


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder with a model, and what the command line says when it exports it."""
    folder = tmp_path_factory.mktemp("mistral")
    save_pretrained(folder, drawn(Decoder(read_config(MISTRAL))), MISTRAL)
    with redirect_stdout(StringIO()) as said:
        assert main([str(folder), str(folder / "out")]) == 0
    return folder, said.getvalue()


@pytest.fixture(scope="module")
def growing(published):
    return published[0] / "out" / "model.onnx", drawn(Decoder(read_config(MISTRAL)))


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    model = drawn(TinyLM(ModelConfig(61, 640, 24, 4, 2)))
    path = tmp_path_factory.mktemp("static") / "tiny.onnx"
    return path, model, export_model(model, path, max_len=620)


def off(path, step, args):
    """By how much a file differs from a step, over the largest number above 1."""
    session = run.open_onnx(path)
    names = [given.name for given in session.get_inputs()]
    given = [x for arg in args for x in (arg if isinstance(arg, list) else [arg])]
    found = session.run(None, {n: x.numpy() for n, x in zip(names, given, strict=True)})
    with torch.no_grad():
        wanted = step(*args)
    pairs = [(torch.from_numpy(f), w) for f, w in zip(found, wanted, strict=True)]
    assert all(came.shape == right.shape for came, right in pairs)
    return max(
        ((f - w).abs().max() / w.abs().max().clamp(min=1)).item() for f, w in pairs
    )


@pytest.mark.parametrize(
    ("time", "past"), [(1, 0), (1, 1), (1, 599), (600, 0), (37, 563), (2, 3), (599, 1)]
)
def test_growing_cache_agrees_at_all_lengths(growing, time, past):
    path, model = growing
    step = DynamicCacheStep(model)
    assert off(path, step, step.example(3, time, past)) <= BOUND


@pytest.mark.parametrize(
    ("time", "place"), [(1, 0), (1, 619), (600, 0), (600, 20), (7, 13), (2, 600)]
)
def test_static_cache_agrees_at_all_places(static, time, place):
    path, model, _ = static
    step = StaticCacheStep(model, 620)
    assert off(path, step, step.example(2, time, place)) <= BOUND


def test_static_cache_takes_no_notice_of_what_later_places_hold(static):
    _, model, _ = static
    step = StaticCacheStep(model, 620)
    ids, place, room = step.example(2, 3, 5)
    other = [kept.clone() for kept in room]
    for kept in other:
        kept[:, :, 8:] = 1e4
    with torch.no_grad():
        assert_same(step(ids, place, room)[0], step(ids, place, other)[0])


@pytest.mark.parametrize("kind", ["growing", "static"])
def test_steps_are_the_models_own_call_with_a_cache(kind, growing, static):
    model = growing[1] if kind == "growing" else static[1]
    cache = model.new_cache(2, 20)
    step = DynamicCacheStep(model) if kind == "growing" else StaticCacheStep(model, 20)
    kept = step.example(2, 1, 0)[-1]
    place = 0
    with torch.no_grad():
        for ids in (PROMPT, PROMPT[:, :1], PROMPT[:, 1:]):
            more = [] if kind == "growing" else [torch.tensor([place])]
            scores, *kept = step(ids, *more, kept)
            place += ids.shape[1]
            torch.testing.assert_close(scores, model(ids, cache=cache))


class Turned(nn.Module):
    def forward(self, x):
        places = torch.arange(x.shape[1])
        return rope.apply_rope(x, rope.rope_angles(places, x.shape[2]))


def test_angles_far_from_the_start_need_speeds_that_pytorch_computed(tmp_path):
    path, x = tmp_path / "x.onnx", torch.randn(2, 600, 64, generator=seeded(0))
    options = {"dynamic_shapes": TIME, "sizes": {"time": [1, 600], "batch": [1]}}
    assert export_checked(Turned(), (x[:, :5],), path, **options).worst <= BOUND
    run.write_onnx(Turned(), (x[:, :5],), path, dynamic_shapes=TIME)
    assert off(path, lambda x: [Turned()(x)], (x[:, :9],)) <= BOUND
    if off(path, lambda x: [Turned()(x)], (x,)) <= BOUND:
        pytest.skip("on this processor onnxruntime's powers are those of PyTorch")


def test_generate_in_onnx_writes_the_models_greedy_text(growing, static):
    for path, model in (growing, static[:2]):
        text = generate_in_onnx(path, PROMPT, max_new_tokens=9)
        assert_same(text, generate(model, PROMPT, max_new_tokens=9))


def test_file_holds_no_line_of_a_program_and_no_path_of_this_machine(growing, static):
    for path, *_ in (growing, static):
        assert not [it for it in (b"stack_trace", b".py") if it in path.read_bytes()]


def test_export_model_says_what_to_call_the_file_with(static):
    path, _, exported = static
    assert exported.inputs["cache_position"] == (1,)
    assert exported.inputs["value_1"] == ("batch", 4, 620, 6)
    assert exported.outputs["logits"] == ("batch", "time", 61)
    assert exported.worst == max(exported.errors.values()) <= BOUND
    assert "batch=2, time=600" in exported.errors
    said = str(exported)
    assert f"{path.stat().st_size:,} bytes" in said
    assert "in  key_0          (batch, 4, 620, 6)" in said


def test_command_line_says_how_to_call_the_file(published):
    _, said = published
    assert said.startswith("model.onnx: ")
    assert "in  key_0       (batch, 2, past, 6)" in said
    assert "greedy text: the same tokens as in PyTorch" in said


def test_command_line_refuses_in_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["export", str(tmp_path), str(tmp_path / "x")])
    with pytest.raises(SystemExit) as ended:  # as `python -m` runs it
        runpy.run_module("attention_lib.export", run_name="__main__")
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("not exported: the folder")


def spoiled(folder, **changes):
    """A folder with a model and a config.json of other fields; not every pair fits."""
    save_pretrained(folder, Decoder(read_config(MISTRAL)), MISTRAL)
    (folder / "config.json").write_text(json.dumps(MISTRAL | changes))
    return folder


@pytest.mark.parametrize(
    ("changes", "more", "status", "words"),
    [
        ({"num_hidden_layers": "2"}, [], 1, "config.json says num_hidden_layers = '2'"),
        ({"rope_parameters": {"rope_type": "yarn"}}, [], 1, "rope_parameters"),
        ({"hidden_size": 10**30}, [], 1, "config.json says hidden_size"),
        ({"model_type": ["llama"]}, [], 1, "config.json says model_type"),
        ({}, ["--room", "0"], 1, "max_len must be at least 1"),
        ({"sliding_window": None}, ["--room", "2"], 1, "there is room for 2 tokens"),
        ({}, ["--tolerance", "nan"], 1, "tolerance must be above 0"),
        ({"max_position_embeddings": 5}, [], 1, "a context of at least 6 tokens"),
        ({}, ["--room", "x"], 2, "argument --room: invalid int value"),
        ({}, ["--bound", "1"], 2, "unrecognized arguments"),
    ],
)
def test_command_line_ends_in_words(changes, more, status, words, tmp_path, capsys):
    command = [str(spoiled(tmp_path, **changes)), str(tmp_path / "x.onnx"), *more]
    try:
        found = main(command)
    except SystemExit as error:  # of argparse, which prints its usage first
        found = error.code
    said = capsys.readouterr().err
    assert found == status
    assert words in said
    assert status == 2 or said.count("\n") == 1
    assert not (tmp_path / "x.onnx").exists()


@pytest.mark.parametrize("path", ["model.v1", "file/model.onnx"])
def test_path_that_cannot_be_written_is_refused_before_the_export(
    path, tmp_path, monkeypatch, refused
):
    monkeypatch.setattr("attention_lib.export.onnx.write_onnx", None)  # never reached
    (tmp_path / "model.v1").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with refused(ValueError, "path must"):
        export_checked(Turned(), (torch.randn(1, 2, 4),), tmp_path / path)
    assert main([str(spoiled(tmp_path / "in")), str(tmp_path / path)]) == 1


def test_a_file_counts_its_own_bytes_and_is_no_model_for_greedy_text(tmp_path, refused):
    path = tmp_path / "a[1].onnx"
    for name in ("a[1].onnx.old", "a[1].onnx.data", "a1.onnx"):
        (tmp_path / name).write_bytes(bytes(999))
    exported = export_checked(Branch(), (torch.ones(2, 3, 1),), path)
    assert exported.nbytes == path.stat().st_size
    with refused(ValueError, "path must lead to a file of export_model; a[1].onnx has"):
        generate_in_onnx(path, PROMPT, max_new_tokens=2)


def test_nbytes_count_the_weights_beside_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LARGE", 10)
    layer = nn.Linear(40, 50)
    exported = export_checked(layer, (torch.ones(2, 40),), tmp_path / "x.onnx")
    files = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(files) == 2
    assert exported.nbytes == sum(files) > 8000


def test_copy_of_a_model_shares_its_parameters_and_nothing_else():
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5))  # which has buffers, too
    copied, before = _copied(model), {**model.state_dict()}
    for own, other in zip(model.parameters(), copied.parameters(), strict=True):
        assert own is other
    copied(torch.ones(2, 3))  # while training, it writes into its buffers
    assert model.training
    assert not copied.eval()[1].training
    assert model[1].training
    assert before["1.num_batches_tracked"] == 0 < copied[1].num_batches_tracked


def test_generate_in_onnx_takes_int32_ids(growing, static):
    for path in (growing[0], static[0]):
        wanted = generate_in_onnx(path, PROMPT, max_new_tokens=3)
        assert generate_in_onnx(path, PROMPT.int(), max_new_tokens=3).equal(wanted)


@pytest.mark.parametrize("ids", [PROMPT + 60, PROMPT - 2])
def test_generate_in_onnx_refuses_ids_outside_the_vocabulary(
    ids, growing, static, refused
):
    for path in (growing[0], static[0]):
        with refused(ValueError, "token_ids must be between 0 and 60"):
            generate_in_onnx(path, ids, max_new_tokens=3)


def test_generate_in_onnx_refuses_what_the_file_does_not_run_with(
    growing, monkeypatch, refused
):
    session = run.open_onnx(growing[0])
    asked = {name: getattr(session, name) for name in ("get_inputs", "get_outputs")}
    broken = SimpleNamespace(**asked, run=lambda *_: 1 / 0)
    monkeypatch.setattr(run, "open_onnx", lambda _: broken)
    with refused(ValueError, "the file does not run with these token_ids: division"):
        generate_in_onnx(growing[0], PROMPT, max_new_tokens=6)


@pytest.mark.parametrize("layers", [1, 30])
def test_bound_of_a_model_grows_with_its_layers(layers, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(
        "attention_lib.export.onnx.export_checked", lambda *_, **o: given.update(o)
    )
    model = TinyLM(ModelConfig(61, 20, 8, 2, layers))
    export_model(model, tmp_path / "x.onnx")
    assert given["tolerance"] == pytest.approx(layers * 2e-6)
    export_model(model, tmp_path / "x.onnx", tolerance=1e-3)
    assert given["tolerance"] == 1e-3


def test_a_refusal_of_small_differences_names_rounding_and_the_bound(tmp_path):
    words = r"Allowed is 1\.0e-10\. Differences this small are mostly rounding"
    layer, x = nn.Linear(400, 50), torch.randn(2, 400, generator=seeded(0))
    with pytest.raises(ValueError, match=words) as error:
        export_checked(layer, (x,), tmp_path / "x.onnx", tolerance=1e-10)
    assert "decides" not in str(error.value)


def test_a_file_that_is_wrong_at_the_sizes_of_its_example_gets_no_hint_about_sizes():
    wrong = {"batch=2": 0.5, "batch=3": 0.5}
    assert "decides" not in _disagreement(["batch=2", "batch=3"], [], wrong, 2e-6)
    del wrong["batch=2"]
    assert "decides" in _disagreement(["batch=2", "batch=3"], [], wrong, 2e-6)
    assert "decides" in _disagreement(["batch=2", "batch=3"], ["batch=3"], {}, 2e-6)


def test_a_file_that_writes_another_text_is_refused(growing, refused):
    path, model = growing
    other = TinyLM(ModelConfig(61, 640, 24, 4, 2))
    _check_tokens(path, model, 9)
    with refused(ValueError, "the greedy text of the file differs from the model's"):
        _check_tokens(path, drawn(other), 9)


class Branch(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=1, keepdim=True) if x.shape[1] > 16 else x


def test_a_branch_on_a_length_is_refused_and_no_file_is_written(tmp_path, refused):
    path, x = tmp_path / "branch.onnx", torch.ones(2, 7, 3)
    words = "the file does not agree with the model at batch=2, time=17"
    with refused(ValueError, words):
        export_checked(Branch(), (x,), path, dynamic_shapes=TIME)
    assert [*tmp_path.iterdir()] == []
    # Where the axis stays below the branch, the file is right.
    short = {"time": range(1, 17)}
    export_checked(Branch(), (x,), path, dynamic_shapes=TIME, sizes=short)
    assert path.exists()


class Seventh(nn.Module):
    def forward(self, x, table, steps):
        return [x + x[:, 6][:, None] if x.shape[1] > 6 else x, table[steps]]


def test_a_file_that_does_not_run_at_a_size_is_refused(tmp_path, refused):
    given = torch.ones(2, 7, 3), torch.ones(4, 2), torch.tensor([3, 0])
    where = tmp_path / "x.onnx"
    shapes = {**TIME, "table": None, "steps": None}
    options = {"dynamic_shapes": shapes, "sizes": {"batch": [1], "time": [5]}}
    words = "the file does not agree with the model at batch=2, time=5: it does not run"
    with refused(ValueError, words):
        export_checked(Seventh(), given, where, **options)
    # With no free axis, it is tried as it is given; the ids stay those of the table.
    exported = export_checked(Seventh(), given, where)
    assert exported.errors == {"as given": 0.0}


def test_arguments_of_other_sizes_are_drawn_from_those_that_were_given():
    fixed, ids = torch.randn(2, 3), torch.tensor([[7, 9]])
    free = [{}, {1: "time"}]
    same, other = _resized((fixed, ids), free, {"time": 50})
    assert same is fixed
    assert other.shape == (1, 50)
    assert set(other.flatten().tolist()) == {7, 9}


def test_error_is_a_part_of_the_largest_number_and_infinite_where_nothing_agrees():
    wanted = torch.tensor([10.0, 1.0, torch.inf])
    assert _error([wanted.numpy()], [wanted]) == 0
    assert _error([(wanted + 0.5).numpy()], [wanted]) == 0.05
    small = torch.tensor([0.01, 0.02])  # below 1, the difference itself
    assert _error([(small + 0.005).numpy()], [small]) == pytest.approx(0.005)
    assert _error([wanted[:2].numpy()], [wanted]) == torch.inf  # another shape
    assert _error([wanted.nan_to_num().numpy()], [wanted]) == torch.inf
    nothing = torch.zeros(0, 3)
    assert _error([nothing.numpy(), (wanted + 0.5).numpy()], [nothing, wanted]) == 0.05


class Decides(nn.Module):
    def forward(self, x):
        return x + 1 if x.max() > 0 else x


def test_what_the_exporter_cannot_follow_is_said_in_one_line(tmp_path, refused):
    before = logging.getLogger("torch.onnx").level
    with refused(ValueError, "torch.onnx cannot export this model: ") as _:
        export_checked(Decides(), (torch.ones(2, 3),), tmp_path / "x.onnx")
    assert logging.getLogger("torch.onnx").level == before
    assert [*tmp_path.iterdir()] == []


def test_packages_that_are_missing_are_named():
    run.require_packages(["onnx"])
    words = "no_such is not installed: pip install onnx onnxscript onnxruntime"
    with pytest.raises(ModuleNotFoundError, match=words):
        run.require_packages(["onnx", "no_such"])


@pytest.mark.parametrize(
    ("args", "axes", "words"),
    [
        (([PROMPT] * 2,), [[{0: "n"}]], "dynamic_shapes must hold one entry for each "
         "of 2 tensors"),
        ((PROMPT, PROMPT.T), [{0: "n"}, {0: "n"}], "the axis 'n' has size 2 in one "
         "tensor of args, and 3 in another"),
    ],
)  # fmt: skip
def test_axes_that_do_not_fit_are_refused(args, axes, words, tmp_path, refused):
    with refused(ValueError, words):
        export_checked(Branch(), args, tmp_path / "x", dynamic_shapes=axes)


def test_a_room_is_refused_to_a_window_and_to_more_tokens_than_it_holds(
    growing, static, refused
):
    with refused(ValueError, "model must not have a window"):
        StaticCacheStep(growing[1], 20)
    with refused(ValueError, "there is room for 20 tokens; got 21"):
        StaticCacheStep(static[1], 20).example(1, 21)


class EmptyRow(nn.Module):
    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(-1)
        heads = x[:, None]  # its operation wants four axes
        fast = nn.functional.scaled_dot_product_attention(heads, heads, heads, mask)
        return fast, scaled_dot_product_attention(x, x, x, mask)


def test_empty_rows_agree_from_opset_23_on(tmp_path, refused):
    given = (EmptyRow(), (torch.randn(2, 5, 4, generator=seeded(0)),))
    options = {"dynamic_shapes": TIME, "sizes": {"time": (1, 9), "batch": (1,)}}
    exported = export_checked(*given, tmp_path / "new.onnx", **options)
    assert exported.worst <= BOUND
    with refused(ValueError, "the file does not agree with the model at batch=2"):
        export_checked(*given, tmp_path / "old.onnx", opset=20, **options)


def test_model_and_rotation_are_left_as_they_were(tmp_path, growing):
    _, model = growing
    speeds = rope.rope_frequencies
    model.train()
    with pytest.raises(ValueError, match="the model itself refuses"):
        export_model(model, tmp_path / "x.onnx", sizes={"time": [700]})
    assert model.training
    assert rope.rope_frequencies is speeds
    model.eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    ["gpt2", "llama, llama3", "llama, yarn", "mistral", "qwen2", "qwen3", "gemma2",
     "gemma3_text", "deepseek_v3", "deepseek_v3, yarn"],
)  # fmt: skip
def test_each_family_exports_with_its_cache(family, tmp_path):
    from tests.library.published_models import saved

    saved(family, tmp_path, max_position_embeddings=620)
    assert main([str(tmp_path), str(tmp_path / "x.onnx")]) == 0


@pytest.mark.slow
@pytest.mark.timeout(900)  # an idle machine takes two minutes
def test_published_model_writes_the_same_tokens_from_its_file(model_file, tmp_path):
    llama, tokenizer = load_pretrained(model_file), load_tokenizer(model_file)
    sizes = {"batch": [1], "time": [1], "past": [0, 2]}
    found = export_model(llama, tmp_path / "model.onnx", sizes=sizes)
    ids = torch.tensor([tokenizer.encode("The capital of France is")])
    wanted = generate(llama, ids, max_new_tokens=12)
    assert torch.equal(generate_in_onnx(found.path, ids, max_new_tokens=12), wanted)
    weights = sum(weight.nbytes for weight in llama.parameters())
    assert weights < found.nbytes < 1.01 * weights
    assert len(found.errors) == 5
