"""attention_lib.pretrained.load: published models, equal to transformers."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attention_lib.generation import generate
from attention_lib.pretrained import Checkpoint, load_pretrained
from attention_lib.reproducibility import seeded
from tests.library.published_models import FAMILIES, YARN, saved

pytestmark = pytest.mark.long

transformers = pytest.importorskip("transformers")


def ids(batch=2, length=20):
    return torch.randint(61, (batch, length), generator=seeded(1))


@pytest.mark.parametrize("name", FAMILIES)
def test_family_equals_transformers(name, tmp_path):
    theirs, ours = saved(name, tmp_path), load_pretrained(tmp_path)
    with torch.no_grad():
        assert_close(ours(ids()), theirs(ids()).logits, rtol=0, atol=1e-4)
    wanted = theirs.generate(
        ids(),
        attention_mask=torch.ones_like(ids()),  # else it hides what equals the padding
        max_new_tokens=12,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    for use_cache in (True, False):
        found = generate(ours, ids(), max_new_tokens=12, use_cache=use_cache)
        assert found.equal(wanted)


def test_sharded_files_and_other_types_load(tmp_path):
    theirs = saved("llama", tmp_path, shard="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    with torch.no_grad():
        assert_close(load_pretrained(tmp_path)(ids()), theirs(ids()).logits)
    halves = load_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in halves.parameters()} == {torch.bfloat16}
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.nbytes == 4 * sum(p.numel() for p in theirs.parameters())
    assert checkpoint.shapes["model.norm.weight"] == (32,)


WINDOWED = ["sliding_attention", "full_attention"]
# What files before version 5 of transformers say at the top of config.json.
OLD = {
    "llama": {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "qwen2": {"rope_theta": 2e4},
    "gemma3_text": {"rope_theta": 5e5, "rope_local_base_freq": 800.0},
    "qwen2, window": {"layer_types": "drop"},
}


def check_same(folder):
    """Our model of a folder gives the logits of transformers."""
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        assert_close(load_pretrained(folder)(ids()), theirs(ids()).logits)


@pytest.mark.parametrize("name", OLD)
def test_older_words_for_rotation_mean_the_same(name, tmp_path):
    saved(name, tmp_path)
    edited(tmp_path, rope_parameters="drop", **OLD[name])
    check_same(tmp_path)


# Where a file says it in both ways, or by halves, what transformers takes counts.
PLAIN = {"rope_type": "default"}
OF_BOTH = {kind: PLAIN | {"rope_theta": 700.0} for kind in WINDOWED}
TWICE = {
    "no base": {"rope_parameters": PLAIN},
    "base at the top": {"rope_parameters": PLAIN, "rope_theta": 500.0},
    "two bases": {
        "rope_parameters": PLAIN | {"rope_theta": 700.0},
        "rope_theta": 500.0,
    },
    "scaling at the top": {
        "rope_parameters": PLAIN | {"rope_theta": 700.0},
        "rope_theta": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
}
TWICE_BY_TYPE = {
    "no base": {"rope_parameters": dict.fromkeys(WINDOWED, PLAIN)},
    "base at the top": {
        "rope_parameters": dict.fromkeys(WINDOWED, PLAIN),
        "rope_theta": 500.0,
        "rope_local_base_freq": 300.0,
    },
    "one type": {"rope_parameters": {"sliding_attention": PLAIN}},
    "scaling at the top": {
        "rope_parameters": OF_BOTH,
        "rope_theta": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *[(name, c) for name in ("llama", "gpt_oss", "qwen2") for c in TWICE.values()],
        *[("gemma3_text", c) for c in TWICE_BY_TYPE.values()],
    ],
)
def test_rotation_that_is_said_twice_means_what_transformers_takes(
    name, changes, tmp_path
):
    saved(name, tmp_path)
    edited(tmp_path, **changes)
    check_same(tmp_path)


# What real files say, or have said: a window for each layer, which transformers reads
# as Ministral; a length that "dynamic" ignores; null; and fields that change nothing.
DYNAMIC = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 8}
AS_MANY = {"num_key_value_heads": None}
EXTRA = {
    "_num_labels": 1,
    "finetuning_task": None,
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0"},
    "label2id": {"LABEL_0": 0},
    "n_special": 0,
    "num_labels": 1,
    "output_attentions": True,
    "output_hidden_states": True,
    "output_past": True,
    "predict_special_tokens": True,
    "return_dict": True,
    "sep_token_id": 3,
    "tokenizer_class": "GPT2Tokenizer",
    "torchscript": True,
    "unsloth_fixed": True,
    "unsloth_version": "2025.1",
    "use_bfloat16": True,
}
ALSO = [
    ("mistral", {"layer_types": WINDOWED}),
    ("llama", {"rope_parameters": "drop", "rope_scaling": DYNAMIC}),
    *[(name, AS_MANY) for name in ("llama", "qwen2", "qwen3", "deepseek_v3")],
    (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 5, "layer_types": WINDOWED},
    ),
    ("gpt_oss", {"experts_per_token": 2}),
    *[(name, EXTRA) for name in ("gpt2", "llama", "gemma3_text")],
]


@pytest.mark.parametrize(("name", "changes"), ALSO)
def test_what_other_files_say_means_what_transformers_takes(name, changes, tmp_path):
    more = {"num_key_value_heads": 4} if changes == AS_MANY else {}
    saved(name, tmp_path, **more)
    edited(tmp_path, **changes)
    check_same(tmp_path)


def stored_otherwise(folder, change):
    """Change the tensors of the folder's file, a mapping from their names."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})


def without_prefix(stored):
    """As the first files of GPT-2, and those of models without a head, say it."""
    return {re.sub("^(model|transformer)[.]", "", n): one for n, one in stored.items()}


def with_a_head(stored):
    """Of a tied model: what is stored counts."""
    return stored | {"lm_head.weight": torch.randn(61, 32, generator=seeded(2))}


def as_the_head(stored):
    table = stored.pop("model.embed_tokens.weight")
    return stored | {"lm_head.weight": table}


def with_a_mask(stored):
    mask = torch.ones(1, 1, 64, 64, dtype=torch.uint8)
    return stored | {"transformer.h.0.attn.bias": mask}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gpt2", without_prefix),
        ("gemma2", without_prefix),
        ("gemma2", as_the_head),
        ("qwen2", with_a_head),
        ("gpt2", with_a_mask),
    ],
)
def test_other_names_and_types_of_tensors_load(name, change, tmp_path):
    saved(name, tmp_path)
    before = Checkpoint(tmp_path).shapes
    stored_otherwise(tmp_path, change)
    assert Checkpoint(tmp_path).shapes.keys() != before.keys()
    check_same(tmp_path)


REFUSED = {
    "unknown family": ({"model_type": "bert"}, "'bert'; load_pretrained knows gpt2"),
    "turned in pairs": ({"rope_interleaved": True}, "rope_interleaved = True"),
    "unknown field": ({"residual_multiplier": 2}, "says residual_multiplier = 2"),
    "unbuilt": ({"mlp_bias": True}, "mlp_bias = True; load_pretrained knows False"),
    "other activation": ({"hidden_act": "relu"}, "hidden_act = 'relu'"),
    "missing field": ({"rms_norm_eps": "drop"}, "lacks rms_norm_eps"),
    "more layers": ({"num_hidden_layers": 3}, "lack model.layers.2.input_layernorm"),
    "fewer layers": ({"num_hidden_layers": 1}, "also hold model.layers.1.input_layer"),
    "other width": (
        {"intermediate_size": 50},
        "gate_proj.weight has shape (48, 32)",
    ),
    "other heads": ({"num_key_value_heads": 4}, "k_proj.weight has shape (16, 32)"),
    "quantised": ({"quantization_config": {"bits": 4}}, "says quantization_config"),
}
BOTH = {kind: {"rope_theta": 1e4} for kind in WINDOWED}
UNUSED = {"sliding_window": 5, "layer_types": WINDOWED}  # the switch is off
REFUSED_ELSEWHERE = [
    ("gpt_oss", {"sliding_window": None}, "layers with a window, but no sliding_win"),
    ("gpt_oss", {"layer_types": ["chunked", *WINDOWED[1:]]}, "layer type 'chunked'"),
    ("gpt_oss", {"layer_types": WINDOWED * 2}, "but layer_types has 4 entries"),
    ("llama", {"layer_types": []}, "but layer_types has 0 entries"),
    ("llama", {"layer_types": WINDOWED}, "no window set"),
    ("llama", {"rope_parameters": {"rope_theta": 1e-300}}, "rope_theta = 1e-300"),
    ("gpt_oss", {"rope_parameters": "drop"}, "lacks rope_parameters"),
    ("gemma3_text", {"rope_parameters": {"rope_theta": 1e4}}, "knows those of full_"),
    ("qwen2", {"rope_parameters": BOTH}, "knows one for all layers for qwen2"),
    ("qwen2", UNUSED, "layers with a window, but no sliding_window"),
    ("gpt2", {"activation_function": "silu"}, "knows 'gelu', 'gelu_new'"),
    ("llama", {"rope_parameters": {"rope_theta": None}}, "rope_theta = None; wanted"),
    ("llama", {"rope_parameters": "drop", "rope_theta": None}, "rope_theta = None"),
    (
        "gemma3_text",
        {"rope_parameters": "drop", "rope_scaling": {"type": "linear", "factor": 8.0}},
        "each key of scaling for 'default' must be",
    ),
    (
        "gemma3_text",
        {"rope_parameters": BOTH | {"full_attention": YARN | {"truncate": False}}},
        "says truncate = false, which transformers ignores",
    ),
]


@pytest.mark.parametrize(("name", "changes", "words"), REFUSED_ELSEWHERE)
def test_layers_and_rotations_that_do_not_fit_are_refused(
    name, changes, words, tmp_path
):
    saved(name, tmp_path)
    edited(tmp_path, **changes)
    with pytest.raises(ValueError, match=words):
        load_pretrained(tmp_path)


@pytest.mark.parametrize("case", REFUSED)
def test_config_that_is_not_understood_is_refused(case, tmp_path):
    changes, words = REFUSED[case]
    saved("llama", tmp_path)
    edited(tmp_path, **changes)
    with pytest.raises(ValueError, match=re.escape(words)):
        load_pretrained(tmp_path)


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def indexed(folder, file="model.safetensors", **changes):
    names = dict.fromkeys(Checkpoint(folder).shapes, file) | changes
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))


def leads_out(folder):
    indexed(folder, **{"model.norm.weight": "../model.safetensors"})


def names_what_is_not_there(folder):
    indexed(folder, more="model.safetensors")


def stores_twice(folder):
    (folder / "b.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    indexed(folder, **{"model.norm.weight": "b.safetensors"})


def maps_nothing(folder):
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')


def of_other_type(folder):
    norm = torch.ones(32, dtype=torch.int8)
    stored_otherwise(folder, lambda stored: stored | {"model.norm.weight": norm})


def of_two_types(folder):
    norm = torch.ones(32, dtype=torch.float16)
    stored_otherwise(folder, lambda stored: stored | {"model.norm.weight": norm})


def headless(folder):
    def cut_off(stored):
        del stored["lm_head.weight"]
        return stored

    stored_otherwise(folder, cut_off)


def besides_its_shards(folder):
    (folder / "a.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    indexed(folder, "a.safetensors")


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


BROKEN = {
    cut: "not a whole safetensors file",
    leads_out: "is not in the folder",
    names_what_is_not_there: "lacks more, which the index names",
    stores_twice: "is in two files",
    maps_nothing: "has no weight_map",
    of_other_type: "stores model.norm.weight as I8; wanted",
    of_two_types: "weights of torch.float16 and torch.float32: pass dtype=",
    headless: "a model without a head has no logits",
    besides_its_shards: "remove those that do not belong to this model",
    pickled: "a pickle can run any code, so it is not read",
    lambda folder: (folder / "config.json").unlink(): "has no config.json",
    lambda folder: (folder / "config.json").write_text("{"): "cannot be read",
    lambda folder: (folder / "config.json").write_text(
        "[]"
    ): "hold an object; got list",
}


@pytest.mark.parametrize("harm", BROKEN, ids=range(len(BROKEN)))
def test_broken_folder_is_refused(harm, tmp_path):
    saved("llama", tmp_path)
    harm(tmp_path)
    with pytest.raises(ValueError, match=BROKEN[harm]):
        load_pretrained(tmp_path)


def with_its_table_as_a_head(stored):
    return stored | {"lm_head.weight": stored["model.embed_tokens.weight"].clone()}


def test_head_that_equals_the_table_is_tied_as_in_transformers(tmp_path):
    saved("qwen2", tmp_path)
    stored_otherwise(tmp_path, with_its_table_as_a_head)
    ours = load_pretrained(tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert theirs.lm_head.weight is theirs.model.embed_tokens.weight
    assert ours.head.weight is ours.token_embedding.weight


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_copied_weights_do_not_follow_the_file(name, tmp_path):
    saved(name, tmp_path)
    plain, copied = load_pretrained(tmp_path), load_pretrained(tmp_path, copy=True)
    before = copied(ids())
    assert plain(ids()).equal(before)
    path = tmp_path / "model.safetensors"
    half = path.stat().st_size // 2
    with path.open("r+b") as file:  # in place, as another program may
        file.seek(half)
        file.write(bytes(half))
    assert copied(ids()).equal(before)
    assert not plain(ids()).equal(before)  # which the docstring says


def edited(folder, **changes):
    path = folder / "config.json"
    fields = json.loads(path.read_text()) | changes
    kept = {name: value for name, value in fields.items() if value != "drop"}
    path.write_text(json.dumps(kept))


def others(value):
    """Other values that a field could have."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value * 2, value / 2, None]
    if isinstance(value, list):
        return [value[::-1], value + value[:1]]
    if isinstance(value, dict):
        parts = {name: [*others(own), "drop"] for name, own in value.items()}
        return [value | {name: own} for name in parts for own in parts[name]]
    return [3, True, "x", "gelu", "relu"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_any_other_field_is_refused_or_means_what_transformers_says(name, tmp_path):
    saved(name, tmp_path)
    path, refused = tmp_path / "config.json", 0
    fields = json.loads(path.read_text())
    edits = [(n, other) for n in fields for other in (*others(fields[n]), "drop")]
    for field, other in edits:
        path.write_text(json.dumps(fields))
        edited(tmp_path, **{field: other})
        try:
            ours = load_pretrained(tmp_path)
        except (ValueError, TypeError):
            refused += 1
            continue
        try:
            theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
            wanted = theirs(ids()).logits.detach()
        except Exception:  # it stops, by any kind of error, where we read no harm
            continue
        with torch.no_grad():
            assert_close(ours(ids()), wanted, rtol=0, atol=1e-4)
    assert 10 < refused < len(edits) - 10
