"""attention_lib.pretrained.save: our weights in the published format, and back."""

import json

import pytest
import torch

from attention_lib.pretrained import (
    Checkpoint,
    Decoder,
    load_pretrained,
    read_config,
    save_pretrained,
)

LLAMA = {
    **{"model_type": "llama", "vocab_size": 11, "max_position_embeddings": 9},
    **{"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5},
}
GPT2 = {
    **{"model_type": "gpt2", "vocab_size": 11, "n_positions": 9},
    **{"n_embd": 8, "n_layer": 2, "n_head": 2},
}


@pytest.mark.parametrize("shard_bytes", [None, 600])
@pytest.mark.parametrize("fields", [GPT2, LLAMA, LLAMA | {"tie_word_embeddings": True}])
def test_saved_model_comes_back(fields, shard_bytes, tmp_path):
    torch.manual_seed(0)
    model = Decoder(read_config(fields))
    save_pretrained(tmp_path / "new", model, fields, shard_bytes=shard_bytes)
    found = load_pretrained(tmp_path / "new").state_dict()
    assert found.keys() == model.state_dict().keys()
    assert all(found[name].equal(own) for name, own in model.state_dict().items())
    files = list((tmp_path / "new").glob("*.safetensors"))
    assert (len(files) == 1) == (shard_bytes is None)


def untied(model):
    model.head.weight = torch.nn.Parameter(model.head.weight.detach().clone() + 1)


def tied(model):
    model.head.weight = model.token_embedding.weight


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.parametrize("change", [tied, untied])
@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_head_is_saved_as_the_model_holds_it(kind, change, says, tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.logging.disable_progress_bar()
    fields = {"GPT2LMHeadModel": GPT2, "LlamaForCausalLM": LLAMA}[kind]
    fields = fields | {"tie_word_embeddings": says}
    torch.manual_seed(0)
    model = Decoder(read_config(fields)).eval()
    change(model)
    save_pretrained(tmp_path, model, fields)
    ours = load_pretrained(tmp_path)
    theirs = getattr(transformers, kind).from_pretrained(tmp_path).eval()
    ids = torch.arange(9)[None]
    with torch.no_grad():
        wanted = model(ids)
        assert ours(ids).equal(wanted)
        torch.testing.assert_close(theirs(ids).logits, wanted)
    assert ours.config.tie_weights == (change is tied)
    assert (ours.head.weight is ours.token_embedding.weight) == (change is tied)


def test_head_that_learns_alone_after_loading_is_saved(tmp_path):
    fields = LLAMA | {"tie_word_embeddings": True}
    torch.manual_seed(0)
    save_pretrained(tmp_path / "one", Decoder(read_config(fields)), fields)
    model = load_pretrained(tmp_path / "one")
    untied(model)
    ids = torch.arange(9)[None]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(ids).square().mean().backward()
    optimizer.step()
    save_pretrained(tmp_path / "two", model, fields)
    assert load_pretrained(tmp_path / "two")(ids).equal(model(ids))


def test_model_with_other_parts_is_refused(tmp_path):
    model = Decoder(read_config(LLAMA))
    model.head = torch.nn.Sequential(model.head)
    with pytest.raises(ValueError, match=r"merge adapters"):
        save_pretrained(tmp_path, model, LLAMA)
    assert not list(tmp_path.iterdir())


def test_shards_are_small_and_indexed(tmp_path):
    save_pretrained(tmp_path, Decoder(read_config(LLAMA)), LLAMA, shard_bytes=600)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == Checkpoint(tmp_path).nbytes
    assert set(index["weight_map"]) == set(Checkpoint(tmp_path).shapes)


def test_fields_of_another_model_are_refused(tmp_path):
    model = Decoder(read_config(LLAMA))
    with pytest.raises(ValueError, match="those that the model was built from"):
        save_pretrained(tmp_path, model, LLAMA | {"rms_norm_eps": 1e-6})
    assert not list(tmp_path.iterdir())
