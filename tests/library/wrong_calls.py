"""Calls of every public function, and for each argument values that are wrong.

A refusal is unclear if its error is none of ours, or does not name what was wrong.
"""

import math
import random
import re
import tempfile
from importlib import import_module
from pathlib import Path
from traceback import walk_tb

import numpy as np
import tokenizers
import torch
from transformers.models.llama.configuration_llama import LlamaConfig as TheirConfig
from transformers.models.llama.modeling_llama import LlamaAttention

import attention_lib as al
from attention_lib import training as t
from attention_lib.decode_step import can_inline
from attention_lib.mha_variants import make_mha
from attention_lib.tiny_lm import ModelConfig, TinyLM
from tests.library.gguf_files import model_bytes

# What the package does not import by itself.
LATER = (
    "course.museum course.views examine export flash_attention hf_layers interpret "
    "launch parallel"
)
for later in f"{LATER} relative_attention stories timing toy".split():
    import_module(f"attention_lib.{later}")

MODEL = TinyLM(ModelConfig(7, 8, 4, 2, 1))
PLACELESS = TinyLM(ModelConfig(7, 8, 4, 2, 1, positions="none"))
TRANSLATOR = al.cross_attention.TinyTranslator(
    al.cross_attention.TranslatorConfig(7, 8, 4, 2, 1)
)
PAGES, USED = al.serving.PagedCache(MODEL, 2, 2), al.serving.PagePool(2)
SGD = torch.optim.SGD(MODEL.parameters(), lr=0.0)
TEXTS = [torch.tensor([1, 2, 3]), torch.tensor([4, 5])] * 2
CONFIG = t.TrainConfig(steps=4, batch_size=2, warmup=1)
RUN = t.Training(MODEL, TEXTS, CONFIG)
IDS, LENGTHS = torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2])
LONG = IDS.repeat(1, 3)
LOGITS = torch.zeros(2, 3, 7)
ROW = LOGITS[0]  # (3, 7)
BPE = al.data.BPETokenizer(["ab"], 258)
KINDS = al.data.ByteTokenizer(), al.data.CharTokenizer("ab"), BPE
WINDOWS = al.data.SlidingWindowDataset(range(9), 4, 4)


class Answering(torch.nn.Module):
    """A model of another library: it returns what is given."""

    def __init__(self, answer):
        super().__init__()
        self.forward = answer


# fmt: off
# What is wrong for every argument of a kind.
NO_INT = [None, "x", 2.5, True, [1], torch.tensor([1, 2])]
NO_SIZE = [*NO_INT, 0, -1]
NO_SEED = [*NO_INT, -1, 2**64]
NO_NUMBER = [None, "x", True, [1.0], 1j]
NO_RATE = [*NO_NUMBER, -1, 0, math.nan]
NO_FLOATS = [None, "x", 1.0, [[0.0]], np.zeros((2, 3, 7)), IDS, LOGITS == 0]
NO_IDS = [None, "x", 1, [[1, 2, 3]], IDS.numpy(), IDS.float(), IDS == 1, IDS[0],
          IDS[None], IDS[:0], IDS[:, :0], IDS.to("meta")]
NO_LENGTHS = ["x", 3, [3, 2], LENGTHS.numpy(), LENGTHS.float(), LENGTHS[:1],
              LENGTHS[:, None], LENGTHS.to("meta")]
NO_TEXTS = [None, "x", 3, [], {"a": 1}, {1}, iter([]), [[1, 2], [3, 4]], ["ab", "cd"],
            [None] * 4, [text.float() for text in TEXTS], [IDS] * 4, [LENGTHS[0]] * 4,
            [text.numpy() for text in TEXTS], [LENGTHS, LENGTHS.to("meta")] * 2]
NO_MODEL = [None, "x", TinyLM, {}, lambda token_ids, lengths: LOGITS]
NO_SCORES = [*NO_MODEL, *map(Answering, [
    lambda ids: (LOGITS[:, :1], None), lambda ids: {"logits": LOGITS},
    lambda ids: LOGITS[:, 0], lambda ids: LOGITS[:1], lambda ids: LOGITS[..., None],
    lambda ids: ids[..., None], lambda ids: LOGITS.numpy()])]
NO_CONFIG = [None, "x", t.TrainConfig, {"steps": 4}, MODEL.config]
NO_ROW = [None, "x", 3, 1.5, ["a"], [1.5], [None], [True] * 9, IDS,
          IDS[0].float(), [[1, 2]]]
NO_TEXT = [None, 3, b"ab", ["ab"], "\ud800"]
NO_PATH = [None, 3, b"run", ["run"]]
NO_SAMPLING = {
    "temperature": [*NO_NUMBER, -1, math.nan, math.inf, torch.ones(2)],
    "top_k": NO_SIZE[1:], "top_p": [*NO_NUMBER[1:], 0, -0.5, 1.5, math.nan],
    "generator": [0, "x", random.Random(0), np.random.default_rng(0)],
}
SEEN = {"token_ids": [1, 2], "held_out": [1], "vocab_size": 7, "orders": 2}
NO_SEEN = {"token_ids": [*NO_ROW, [7], [-1]], "held_out": [*NO_ROW, [7], [-1]],
           "vocab_size": NO_SIZE, "orders": NO_SIZE}

FIELDS = {
    **{"model_type": "llama", "vocab_size": 7, "max_position_embeddings": 8},
    **{"hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5},
}
DECODER = al.pretrained.Decoder(al.pretrained.read_config(FIELDS))
LAYER = al.multi_head.MultiHeadAttention(4, 2)
SERVER = al.serving.Server(MODEL, num_pages=3, page_len=3, max_batch=2)
LINEAR = torch.nn.Linear(7, 2)
OPEN = SERVER.submit([1], max_new_tokens=3)
WEIGHTS = tempfile.mkdtemp()
al.pretrained.save_pretrained(WEIGHTS, DECODER, FIELDS)
GGUF = Path(tempfile.mkdtemp(), "tiny.gguf")
GGUF.write_bytes(model_bytes())
FILE, CHECKPOINT = al.pretrained.GGUFFile(GGUF), al.pretrained.GGUFCheckpoint(GGUF)
FOLDER = al.pretrained.Checkpoint(WEIGHTS)
OPENED = [(FILE, FILE.tensors), (CHECKPOINT, CHECKPOINT.shapes),
          (FOLDER, FOLDER.shapes)]
DYNAMIC = al.export.DynamicCacheStep(MODEL).example(1, 2, 2)
STATIC = al.export.StaticCacheStep(MODEL, 8).example(1, 2)

TELLER = al.stories.Teller(random.Random(0))
KEYS = torch.zeros(1, 2, 2, 2)  # of one text: two heads, two tokens
TIMES = al.timing.Comparison({"a": [1.0], "b": [2.0]})

SPLIT = al.interpret.AttentionOnlyLM(ModelConfig(7, 8, 4, 2, 2))
MAPS = torch.zeros(2, 2, 3, 3)
NO_MAPS = [*NO_FLOATS, LOGITS, MAPS[:, :, 1:], MAPS[..., :1, :1]]
NO_COMPARED = [None, "x", 1, [[1, 2, 3]], IDS.numpy(), IDS.float(), IDS == 1, IDS[0]]
NO_PATCH = [None, "x", [0.0], np.zeros(2), ROW[0, :3], torch.zeros(5, 3, 2), IDS[0, 0],
            torch.zeros(2) + 1j, torch.zeros(2).to("meta")]
NO_PLACE = [None, "x", 0, (0,), (0, 1, 0), (0.0, 1), (0, True), (2, 0), (0, 2), (-1, 0)]


def evaluated(model):
    with al.reproducibility.evaluation_mode(model):
        pass


def replaced_heads(model, values):
    with al.interpret.patch_heads(model, values):
        SPLIT(IDS)


def replaced_path(**given):
    with al.interpret.patch_path(**given):
        SPLIT(IDS)


def entered_path(value):
    with al.interpret.patch_path(SPLIT, (0, 1), (1, 0), "key", value):
        pass


def attended(function):
    return al.examine.adapters.FunctionLayer(function)(torch.zeros(2, 5, 12))


def paged(keys, values):
    cache = PAGES.prepare([[0, 1]], [0], [[1, 2]])["cache"]
    return cache.layers[0].append(keys, values)


def windowed(positions, count):
    cache = al.kv_cache.WindowCache(2, 2, 8, 4)
    cache.append(KEYS.repeat(2, 1, 1, 2), KEYS.repeat(2, 1, 1, 2))
    return cache.add_positions(positions, count)


def mixed(scores, value, shape=(2, 3, 5)):
    al.flash_attention.OnlineSoftmax(shape).add(scores, value)


def released(page):
    pool = al.serving.PagePool(2)
    pool.allocate()
    pool.release(page)


# A function, arguments that are right, and for each argument what is wrong.
CALLS = [
    (windowed, {"positions": torch.tensor([1, 2]), "count": 2},
     {"positions": ["x", [1, 2], torch.ones(2), torch.ones(1, 3, dtype=torch.int64)],
      "count": [*NO_SIZE, 3]}),
    (TIMES.ratios, {"name": "b"}, {"name": [None, "c", 1]}),
    (al.timing.Comparison, {"seconds": {"a": [1.0]}},
     {"seconds": [None, [1.0], {}, {"a": []}, {"a": [1.0, 2.0], "b": [1.0]}]}),
    (al.kv_cache.repeat_texts, {"cache": MODEL.new_cache(1).layers[0], "times": 2},
     {"cache": [None, "x", 3], "times": NO_SIZE}),
    (can_inline, {"part": LINEAR}, {"part": [None, "x", 3]}),
    (attended, {"function": lambda query, key, value: query},
     {"function": [lambda query, key, value: query[..., :2],
                   lambda query, key, value: query.flatten(2)]}),
    (al.hf_layers.alibi.alibi_slopes, {"num_heads": 3}, {"num_heads": NO_SIZE}),
    (al.hf_layers.local.both_sides,
     {"reach": 0, "query": LENGTHS, "key": LENGTHS}, {"reach": [*NO_INT, -1]}),
    (al.hf_layers.local.chunks,
     {"size": 1, "query": LENGTHS, "key": LENGTHS}, {"size": NO_SIZE}),
    (al.course.views.view_costs, {}, {"lengths": [(), (2, 1), (0,)]}),
    (al.plotting.show_cells, {"lines": [{"cells": [[10, 11]]}], "head_dim": 1},
     {"lines": [None, [], [{}], [{"cells": [[10.5, 11]]}], [{"cells": [10]}]]}),
    (al.kv_cache.WeightsWatch, {"model": MODEL}, {"model": NO_MODEL}),
    (evaluated, {"model": MODEL}, {"model": NO_MODEL}),
    (al.export.require_packages, {"packages": ["onnx"]},
     {"packages": ["onnx", 3, [3]]}),
    (al.export.write_onnx,
     {"model": LINEAR, "args": (ROW,), "path": Path(WEIGHTS, "plain.onnx")},
     {"model": NO_MODEL, "path": [*NO_PATH, WEIGHTS]}),
    (t.next_token_loss, {"logits": LOGITS, "token_ids": IDS, "lengths": LENGTHS},
     # The last lengths leave no target: the loss is nan then, as its docstring says.
     {"logits": [*NO_FLOATS, ROW, LOGITS[:, 1:], LOGITS[:1]],
      "token_ids": [*NO_IDS, IDS + 6, IDS - 2, IDS - 101],
      "lengths": [*NO_LENGTHS, LENGTHS + 1, -LENGTHS, 0 * LENGTHS]}),
    (t.train_step,
     {"model": MODEL, "optimizer": SGD, "token_ids": IDS, "lengths": LENGTHS},
     {"model": NO_MODEL,
      "optimizer": [None, "x", torch.optim.SGD, [ROW],
                    torch.optim.SGD(PLACELESS.parameters(), lr=0.1),
                    torch.optim.LBFGS(MODEL.parameters())],
      "token_ids": [*NO_IDS, IDS + 6, IDS - 2, LONG],
      "lengths": [*NO_LENGTHS, LENGTHS + 1, -LENGTHS], "max_grad_norm": NO_RATE}),
    (t.warmup_cosine, {"step": 1, "warmup": 2, "steps": 6},
     {"step": [*NO_INT, -1], "warmup": [*NO_INT, -1, 6], "steps": NO_SIZE}),
    (t.TrainConfig, {"steps": 100},
     {"steps": NO_SIZE, "batch_size": NO_SIZE, "learning_rate": [*NO_RATE, math.inf],
      "warmup": [*NO_INT[1:], -1, 100], "max_grad_norm": NO_RATE, "seed": NO_SEED}),
    *((each, {"model": MODEL, "texts": TEXTS, "config": CONFIG},
       {"model": NO_MODEL, "config": NO_CONFIG,
        "texts": [*NO_TEXTS, TEXTS[:1], [LENGTHS + 9] * 4, [-LENGTHS] * 4, [*LONG]]})
      for each in (t.Training, t.train)),
    (al.interpret.repeated_texts,
     {"count": 2, "length": 6, "vocab_size": 5, "periods": (2, 4), "generator": None},
     {"count": NO_SIZE, "length": [*NO_SIZE, 4], "vocab_size": [*NO_SIZE, 3],
      "periods": [None, 3, "ab", (2,), (2.0, 3), (0, 3), (4, 3), (2, 6), (2, 5.0)],
      "generator": NO_SAMPLING["generator"]}),
    (al.interpret.induction_targets, {"token_ids": IDS}, {"token_ids": NO_COMPARED}),
    (al.interpret.previous_token_score, {"weights": MAPS}, {"weights": NO_MAPS}),
    (al.interpret.induction_score, {"weights": MAPS, "token_ids": IDS},
     {"weights": NO_MAPS, "token_ids": [*NO_COMPARED, IDS[:1], IDS[:, :2]]}),
    (al.interpret.head_outputs,
     {"model": SPLIT, "token_ids": IDS}, {"model": NO_MODEL}),
    (replaced_heads, {"model": SPLIT, "values": {(0, 1): 0.0}},
     {"model": NO_MODEL, "values": [*({each: 0.0} for each in NO_PLACE),
                                    *({(0, 1): each} for each in NO_PATCH)]}),
    (replaced_path,
     {"model": SPLIT, "sender": (0, 1), "receiver": (1, 0), "into": "key",
      "value": 0.0},
     {"model": NO_MODEL, "value": NO_PATCH, "sender": [*NO_PLACE, (1, 0)],
      "receiver": [*NO_PLACE, (0, 0)], "into": [None, "keys", 0]}),
    (entered_path, {"value": 0.0}, {"value": NO_PATCH[:4]}),
    (al.interpret.load_storyteller, {"seed": 0}, {"seed": [None, "x", 3, -1]}),
    (al.interpret.AttentionOnlyLM, {"config": MODEL.config}, {"config": NO_CONFIG[:4]}),
    (RUN.run, {}, {"until": [*NO_INT[1:], -1]}),
    (RUN.batch, {"step": 0}, {"step": [*NO_INT, -1]}),
    (t.evaluate, {"model": MODEL, "texts": TEXTS},
     {"model": NO_MODEL, "texts": [*NO_TEXTS, [IDS[0, :1]], [*LONG], [LENGTHS + 9]],
      "batch_size": NO_SIZE}),
    *((each, {"training": RUN, "path": "run"},
       {"training": [None, "x", MODEL, t.Training], "path": NO_PATH})
      for each in (al.checkpoints.save_checkpoint, al.checkpoints.load_checkpoint)),
    (al.sampling.sample_token, {"logits": ROW, "temperature": 1.0},
     {"logits": [*NO_FLOATS, LOGITS, ROW[0], ROW[:0], ROW / 0, ROW - math.inf,
                 ROW + math.inf, ROW.to("meta")], **NO_SAMPLING}),
    (al.generation.generate, {"model": MODEL, "token_ids": IDS, "max_new_tokens": 2},
     {"model": NO_SCORES, "token_ids": [*NO_IDS, IDS + 6, IDS - 2],
      "max_new_tokens": [*NO_SIZE, 7],
      "lengths": [*NO_LENGTHS, LENGTHS * 0, LENGTHS + 1],
      "stop": [1.5, True, "a", -1, 7], "use_cache": [None, 1, "no"],
      "cache": [3, MODEL, MODEL.new_cache(2, 3), MODEL.new_cache(7, 9)],
      "on_token": ["x", 3], **NO_SAMPLING}),
    (al.serving.speculative_generate,
     {"model": MODEL, "draft": al.serving.ngram_draft, "token_ids": IDS,
      "max_new_tokens": 2},
     {"model": NO_SCORES,
      "draft": [None, 3, lambda *_: 1, lambda *_: [7], lambda *_: "a"],
      "token_ids": [*NO_IDS, IDS + 6, IDS - 2], "max_new_tokens": [*NO_SIZE, 7],
      "draft_len": NO_SIZE, "lengths": [*NO_LENGTHS, LENGTHS * 0, LENGTHS + 1],
      "stop": [1.5, True, "a", -1, 7], "on_pass": [[], 3]}),
    (al.serving.Server, {"model": MODEL, "num_pages": 4, "page_len": 2, "max_batch": 3},
     {"model": NO_MODEL, "num_pages": NO_SIZE, "page_len": NO_SIZE,
      "max_batch": NO_SIZE, "step_tokens": [*NO_SIZE[1:], 2], "draft": [3, "x"],
      "draft_len": NO_SIZE}),
    (SERVER.submit, {"prompt": [1, 2], "max_new_tokens": 2},
     {"prompt": [*NO_ROW, [], [7], [-1], IDS, [1] * 9], "max_new_tokens": [*NO_SIZE, 8],
      "stop": [1.5, True, "a", -1, 7], **NO_SAMPLING}),
    (SERVER.fork, {"request": OPEN},
     {"request": [None, "x", [1, 2]], "generator": NO_SAMPLING["generator"]}),
    (SERVER.cancel, {"request": OPEN}, {"request": [None, "x", [1, 2]]}),
    (al.serving.PagePool, {"num_pages": 2}, {"num_pages": NO_SIZE}),
    (al.serving.PagedCache, {"model": MODEL, "num_pages": 2, "page_len": 2},
     {"model": [*NO_MODEL, LAYER], "num_pages": NO_SIZE, "page_len": NO_SIZE}),
    (PAGES.prepare, {"tables": [[0, 1]], "starts": [1], "new_tokens": [[1, 2]]},
     {"tables": [None, [], 0, [0], [[0]], [[0, 2]], [[-1, 0]], [[0, 1], [1, 0]]],
      "starts": [None, [], 1, [-1], [0.5], [1, 1]],
      "new_tokens": [[], [1], [[]], [[1, 2], [1]], [[0.5, 1.5]], [[True, False]]]}),
    (PAGES.prepare, {"tables": [[0], [1]], "starts": [1, 1], "new_tokens": [[1]] * 2},
     {"tables": [[[0], [0]], [[1], [1]]]}),
    (PAGES.prepare, {"tables": [[0], [1]], "starts": [0, 0],
                     "new_tokens": [[1, 2], [1]]}, {"starts": [[0, 1]]}),
    (PAGES.copy_page, {"source": 0, "target": 1},
     {"source": [*NO_INT, -1, 2], "target": [*NO_INT, -1, 2]}),
    (USED.lookup, {"hashes": [b""]}, {"hashes": ["ab", [None], [3]]}),
    (USED.acquire, {"page": 1}, {"page": [*NO_INT, -1, 2]}),
    (USED.register, {"page": 1, "page_hash": b""},
     {"page": [*NO_INT, -1, 2], "page_hash": [None, "", 3]}),
    (al.serving.page_hash, {"previous": b"", "token_ids": [1]},
     {"previous": [None, "", 3], "token_ids": NO_ROW}),
    (paged, {"keys": KEYS, "values": KEYS},
     {name: [None, "x", KEYS.numpy(), KEYS[:, :1], KEYS[:, :, :1], KEYS[..., :1],
             KEYS.to("meta")] for name in ("keys", "values")}),
    (released, {"page": 0}, {"page": [*NO_INT, -1, 1, 2]}),
    (al.serving.paged_cache.pages_for, {"length": 3, "page_len": 2},
     {"length": [*NO_INT, -3], "page_len": NO_SIZE}),
    (al.serving.ngram_draft, {"tokens": [1, 2, 1, 2], "count": 2},
     {"tokens": [*NO_ROW, [True]], "count": NO_SIZE}),
    (al.serving.model_draft(MODEL), {"tokens": [1, 2], "count": 2},
     {"tokens": [*NO_ROW, [True]], "count": NO_SIZE}),
    (al.serving.model_draft, {"model": MODEL}, {"model": NO_MODEL}),
    (MODEL.new_cache(2, 5).crop, {"length": 0}, {"length": [None, 1.5, -1, 1]}),
    (MODEL.new_cache(2, 5).repeat, {"times": 2}, {"times": NO_SIZE}),
    *((kind.encode, {"text": "ab"}, {"text": NO_TEXT}) for kind in KINDS),
    *((kind.decode, {"ids": [1]}, {"ids": [*NO_ROW, [-1], [999]]}) for kind in KINDS),
    (al.data.CharTokenizer, {"text": "ab"}, {"text": [*NO_TEXT, ""]}),
    (al.data.BPETokenizer, {"texts": ["ab"], "vocab_size": 258},
     {"texts": [None, "ab", 3, [], [""], [None], [b"ab"], [["ab"]], ["\ud800"]],
      "vocab_size": [*NO_SIZE, 255]}),
    (al.data.read_text, {"path": __file__},
     {"path": [*NO_PATH, "missing"], "encoding": [None, 3, "klingon"]}),
    (al.data.SlidingWindowDataset, {"token_ids": range(9), "length": 4, "stride": 4},
     {"token_ids": [*NO_ROW, [1, 2]], "length": [*NO_SIZE, 9], "stride": NO_SIZE}),
    (WINDOWS.__getitem__, {"index": 0}, {"index": [None, "x", 1.5, [0], 2, -3]}),
    (al.data.pad_texts, {"texts": TEXTS}, {"texts": NO_TEXTS}),
    (al.data.make_loader, {"texts": TEXTS, "batch_size": 2},
     {"texts": NO_TEXTS, "batch_size": NO_SIZE, "seed": NO_SEED[1:]}),
    (al.data.ngram_nlls, SEEN, NO_SEEN),
    (al.data.ngram_losses, SEEN, NO_SEEN),
    (al.reproducibility.seeded, {"seed": 0}, {"seed": NO_SEED}),
    (al.reproducibility.make_deterministic, {}, {"seed": NO_SEED}),
    (al.stories.make_stories, {"count": 1, "seed": 0},
     {"count": NO_SIZE, "seed": NO_SEED}),
    (al.stories.Teller, {"rng": random.Random(0)}, {"rng": [None, "x", 0, random]}),
    (TELLER.pick, {"words": ["a"]}, {"words": [[], ""]}),
    (al.stories.tell_verse, {"teller": TELLER, "depth": 0}, {"depth": [*NO_INT, -1]}),
    (TELLER.choose, {"options": {"a": 0.5, "b": 0.5}},
     {"options": [None, {}, ["a"], {"a": 1, "b": 1}, {"a": 0.2}, {"a": "x"},
                  {"a": 1.5, "b": -0.5}]}),
    (TELLER.tell, {"part": al.stories.tell_story}, {"part": [None, "part", 3]}),
    (al.stories.expected_length_and_entropy,
     {"part": al.stories.tell_story}, {"part": [None, "x", 3]}),
]

# The layers and what they are made of: widths of 6, 2 texts of 4 tokens.
QUERY, KEY, VALUE = torch.zeros(2, 6), torch.zeros(3, 6), torch.zeros(3, 5)
X, EYE, TWO = torch.zeros(2, 4, 6), torch.eye(4) > 0, torch.ones(6)
SIZES = {"vocab_size": 7, "context_len": 8, "d_model": 6, "num_heads": 3,
         "num_layers": 1}
NO_DROPOUT = [*NO_NUMBER, -0.1, 1.0, math.nan]
NO_FLAG = [None, "no", 0, 1.0]


def no_like(right):
    """What is wrong for every tensor of floats: kinds, types, devices, empty axes."""
    return [None, "x", 1.0, right.tolist(), right.numpy(), right.long(), right > 0,
            right.double(), right.to("meta"), right[:0], right[..., :0], right[..., 0]]


def no_mask(*shapes):
    return ["x", True, [[True]], EYE.numpy(), EYE.float(), EYE.long(), EYE.to("meta"),
            *(torch.ones(shape, dtype=torch.bool) for shape in shapes)]


NO_MASK = no_mask((4, 3), (5, 4), (3, 4, 4), (2, 3, 4, 5), (2, 2, 4, 4),
                  (1, 2, 3, 4, 4))
NO_X = [*no_like(X), X[0], X[None], X[..., :5]]
NO_CALL = {"x": NO_X, "mask": NO_MASK, "causal": NO_FLAG,
           "memory": [*NO_X[1:], X[:1]]}
NO_SIZES = {"d_model": NO_SIZE, "num_heads": [*NO_SIZE, 4], "dropout": NO_DROPOUT}
NO_OPTIONS = NO_SIZES | {"head_dim": NO_SIZE[1:], "d_out": NO_SIZE[1:],
                         "qkv_bias": NO_FLAG}
LAYERS = [al.attention.SelfAttention(6, 2),
          *(make_mha(kind, 6, 3) for kind in al.mha_variants.MHA_VARIANTS)]
MHA = LAYERS[-1]
GROUPED = al.grouped_query.GroupedQueryAttention(6, 3, 1)
WIDTHS = {"kv_latent_dim": 4, "nope_dim": 3, "rope_dim": 2, "value_dim": 5}
LATENT = {"d_model": 6, "num_heads": 3, "q_latent_dim": None} | WIDTHS
LATENTS = [al.latent_attention.MultiHeadLatentAttention(**LATENT, absorb=absorb)
           for absorb in (False, True)]
PLAIN = {"vocab_size": 7, "context_len": 8, "d_model": 8, "num_heads": 2,
         "num_kv_heads": 1, "head_dim": 4, "hidden_dim": 8}
LATENT_DECODER = PLAIN | {
    "layers": (al.pretrained.LayerConfig(),),
    "latent": al.pretrained.decoder_config.LatentConfig(None, 4, 4, 4, 4),
}
ROUTED = torch.zeros(2, 4, 8)
EXPERTS = al.pretrained.Decoder(al.pretrained.DecoderConfig(
    **PLAIN, layers=(al.pretrained.LayerConfig(),), mlp="experts", num_experts=2
))
LLAMA = SIZES | {"num_kv_heads": 1, "hidden_dim": 4}
BARE = LlamaAttention(  # of one head of width 6
    TheirConfig(hidden_size=6, num_attention_heads=1, num_key_value_heads=1), 0
)
SMALL = al.tiny_llama.TinyLlama(al.tiny_llama.LlamaConfig(**LLAMA))
BLOCKS = [al.block.TinyBlock(6, 3, norm=norm) for norm in ("pre", "post", "none")]
NO_KEY = [*no_like(KEY), KEY[:, :5], torch.zeros(2, 3, 6)]
NO_VALUE = [*no_like(VALUE), VALUE[:2], torch.zeros(2, 3, 5)]
NO_QUERY = [each for each in no_like(QUERY) if getattr(each, "dtype", 0) is not
            torch.float64 and not (isinstance(each, torch.Tensor) and each.is_meta)]
NO_ARRAY = [None, "x", [[None]], KEY.numpy() > 0, np.zeros(6), np.zeros((0, 6)),
            np.zeros((3, 0)), np.zeros((3, 5)), np.zeros((3, 6)) * 1j]
ARRAYS = {"query": np.zeros((2, 6)), "key": np.zeros((3, 6)), "value": np.ones((3, 4))}
NO_CHOICE = [None, "x", 1, ["pre"]]
NO_RING = {"length": [*NO_SIZE, 7], "rank": [*NO_INT, -1, 2], "num_processes": NO_SIZE,
           "order": NO_CHOICE, "causal": NO_FLAG, "x": [None, "x", [1, 2]]}
RINGS = [
    (al.parallel.rank_ranges,
     {"length": 8, "rank": 1, "num_processes": 2, "order": "plain"}),
    (al.parallel.shard_tokens, {"x": IDS.repeat(1, 4), "rank": 1, "num_processes": 2}),
    (al.parallel.ring_pair_counts, {"length": 8, "num_processes": 2, "causal": True}),
]


THIRD = "blocks.0.attention."
ONE = torch.zeros(2, 1, 6)  # one token of two texts
NO_DEVICE = ["nope", "cuda:99", "", True, 3.5, b"cpu"]
NO_DTYPE = [None, "float16", torch.int8, torch.bool, torch.complex64, float, 16]


def one_more(device):
    return 1



YARN = {"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 8}
NO_SCALING = ["x", 2.0, {}, {"factor": 2}, *({**YARN, **wrong} for wrong in [
    {"rope_type": "ntk"}, {"rope_type": None}, {"factr": 2}, {"factor": None},
    {"factor": 0.5}, {"factor": "2"}, {"truncate": 0}, {"beta_slow": 40},
    {"original_max_position_embeddings": 8.0}, {"attention_factor": -1},
    {"beta_fast": 1e308}, {"beta_slow": 1e-320}, {"factor": 1e308}])]


# Caches of other kinds, of other layers, and of other types.
NO_CACHE = ["x", 5, True, {}, [], MODEL.new_cache(2), [MHA.new_cache(2, 4)], MHA,
            make_mha("split", 6, 3).double().new_cache(2, 4),
            make_mha("split", 6, 3).to("meta").new_cache(2, 4), MHA.new_cache(3, 4)]


def deep(layers):
    return TinyLM(ModelConfig(7, 8, 4, 2, layers))


NO_MODEL_CACHE = [*NO_CACHE[:5], MHA.new_cache(2, 4), deep(2).new_cache(2), MODEL,
                  deep(1).double().new_cache(2), deep(1).to("meta").new_cache(2)]
FUSED = TinyLM(ModelConfig(7, 8, 4, 2, 1, mha="sdpa")).eval()
INLINED = al.decode_step.make_decode_step(FUSED, FUSED.new_cache(2))
STEP = al.decode_step.make_decode_step(MODEL, MODEL.new_cache(2))


def combined(mask, other):
    return al.masks.combine_masks(mask, other)


CALLS += [
    (al.attention.attention_weights, {"query": QUERY, "key": KEY},
     {"query": NO_QUERY, "key": NO_KEY, "mask": no_mask((3, 2), (1, 2, 3)),
      "scale": [*NO_NUMBER[1:], math.nan, math.inf, 1e308, 10**400]}),
    (al.attention.scaled_dot_product_attention,
     {"query": QUERY, "key": KEY, "value": VALUE},
     {"value": NO_VALUE, "dropout": NO_DROPOUT}),
    (al.flash_attention.flash_attention, {"query": QUERY, "key": KEY, "value": VALUE},
     {"query": NO_QUERY, "key": NO_KEY, "mask": no_mask((3, 2), (1, 2, 3)),
      "value": NO_VALUE, "causal": NO_FLAG,
      "scale": [*NO_NUMBER[1:], math.nan, math.inf], "tile": [*NO_SIZE, (4, 0)]}),
    (al.flash_attention.OnlineSoftmax, {"shape": (2, 3)},
     {"shape": [None, 3, "ab", (3,), (2, 0), (2, 3.0)], "dtype": NO_DTYPE[1:]}),
    (al.flash_attention.pieces, {"length": 3, "size": 2},
     {"size": NO_SIZE}),
    (mixed, {"scores": torch.zeros(2, 3, 4), "value": torch.zeros(4, 5)},
     {"scores": [*no_like(torch.zeros(2, 3, 4))[:7], torch.zeros(3, 4),
                 torch.zeros(2, 1, 4), torch.zeros(3, 2, 4), torch.zeros(2, 3, 3)],
      "value": [*no_like(torch.zeros(4, 5))[:7], torch.zeros(3, 5), torch.zeros(4, 1),
                torch.zeros(5), torch.zeros(3, 4, 5)]}),
    *((each, {"query": ONE, "key": ONE, "value": torch.zeros(2, 1, 5),
              "log_decay": ONE[..., :1], "beta": ONE[..., :1],
              "state": torch.zeros(2, 6, 5)},
       {"query": [None, "x", ONE.numpy(), ONE.long()],
        "key": [None, "x", ONE.numpy(), ONE.long(), ONE[:1], ONE[..., :1], ONE[0]],
        "value": [None, ONE.long(), ONE[:1], ONE[0]],
        "log_decay": [None, 0.5, ONE, ONE[:1, :, :1], ONE[:, 0, :1], ONE[..., 0]],
        "beta": [None, 0.5, ONE, ONE[:1, :, :1], ONE[:, 0, :1], ONE[..., 0]],
        "state": [None, torch.zeros(2, 5, 6), torch.zeros(6, 5), ONE]})
      for each in (al.linear_attention.delta_step, al.linear_attention.delta_chunk)),
    (al.linear_attention.elu_plus_one, {"x": X}, {"x": [None, "x", [1.0], X.long()]}),
    (al.kv_cache.LayerCache,
     {"batch_size": 2, "num_heads": 2, "max_len": 4, "head_dim": 2},
     {"batch_size": NO_SIZE, "num_heads": NO_SIZE, "max_len": NO_SIZE,
      "head_dim": NO_SIZE, "value_dim": NO_SIZE[1:]}),
    (al.timing.kernels_of, {"call": lambda: 1}, {"call": [None, 3, X]}),
    (al.timing.compare_times,
     {"calls": {"a": lambda: 1}, "rounds": 1, "min_seconds": 1e-9},
     {"calls": [None, [print], {}, {"a": 3}], "rounds": NO_SIZE,
      "min_seconds": NO_RATE, "clock": [None, 1.0, lambda: 0.0],
      "progress": NO_FLAG}),
    (al.parallel.ring_attention, {"query": QUERY, "key": KEY, "value": VALUE},
     {"query": NO_QUERY, "key": NO_KEY, "order": NO_CHOICE, "value": NO_VALUE,
      "causal": [*NO_FLAG, True], "scale": [*NO_NUMBER[1:], math.nan, math.inf],
      "group": [3, "x"]}),
    *((each, right, {name: wrong for name, wrong in NO_RING.items() if name in right})
      for each, right in RINGS),
    (al.launch.program_of, {"functions": [one_more]},
     {"functions": [None, 3, "x", [], [3], [print], ["x"], [lambda device: 1]],
      "num_processes": NO_SIZE, "using": [[3], [print]]}),
    (al.linear_attention.linear_attention, {"query": KEY, "key": KEY, "value": VALUE},
     {"query": [*NO_QUERY, KEY[:2]], "key": [*no_like(KEY), KEY[:2]],
      "value": NO_VALUE, "form": NO_CHOICE, "chunk_len": NO_SIZE}),
    (al.linear_attention.gated_delta_rule,
     {"query": KEY, "key": KEY, "value": VALUE, "log_decay": KEY[:, 0],
      "beta": KEY[:, 0]},
     {"query": [*NO_QUERY, KEY[:2]], "key": [*no_like(KEY), KEY[:2]],
      "value": NO_VALUE, "form": NO_CHOICE, "chunk_len": NO_SIZE,
      "log_decay": [*no_like(KEY[:, 0]), KEY, KEY[:, 0] + 0.9],
      "beta": [*no_like(KEY[:, 0]), KEY, KEY[:, 0] + 3, KEY[:, 0] - 1]}),
    (al.sparse_attention.sink_window_mask,
     {"query_len": 3, "window": 2, "num_sinks": 1, "key_len": 4},
     {"query_len": NO_SIZE, "window": NO_SIZE, "num_sinks": [*NO_INT, -1],
      "key_len": NO_SIZE[1:]}),
    (al.sparse_attention.chunk_mask, {"query_len": 3, "chunk_len": 2, "key_len": 4},
     {"query_len": NO_SIZE, "chunk_len": NO_SIZE, "key_len": NO_SIZE[1:]}),
    (al.sparse_attention.top_k_keys, {"scores": QUERY, "num_keys": 2},
     {"scores": NO_QUERY, "num_keys": NO_SIZE,
      "mask": no_mask((3, 6), (2, 5), (1, 2, 6))}),
    (al.attention.SelfAttention, {"d_model": 6, "head_dim": 2},
     {"d_model": NO_SIZE, "head_dim": NO_SIZE, "dropout": NO_DROPOUT,
      "qkv_bias": NO_FLAG}),
    *((call, {"x": X}, NO_CALL) for layer in (*LAYERS, GROUPED, *LATENTS)
      for call in (layer, layer.attention_weights)),
    *((call, {"x": X}, {name: NO_CALL[name] for name in ("x", "mask", "causal")})
      for layer in BLOCKS for call in (layer, layer.attention_weights)),
    *((al.mha_variants.make_mha, {"kind": kind, "d_model": 6, "num_heads": 3},
       NO_OPTIONS | {"kind": NO_CHOICE}) for kind in al.mha_variants.MHA_VARIANTS),
    *((layer, {"x": X}, {"cache": NO_CACHE, "angles": ["x", 5, [1.0], X, X[0, :, :2]]})
      for layer in (*LAYERS[1:], GROUPED, *LATENTS, *BLOCKS)),
    *((model, {"token_ids": IDS}, {"cache": NO_MODEL_CACHE})
      for model in (MODEL, MODEL.stream)),
    (al.decode_step.make_decode_step, {"model": MODEL, "cache": MODEL.new_cache(2)},
     {"cache": [None, *NO_MODEL_CACHE[:8]]}),
    (STEP, {"token_ids": IDS[:, :1]}, {"token_ids": [*NO_IDS, IDS[:, :1] + 6]}),
    (INLINED, {"token_ids": IDS[:, :1]}, {"token_ids": [IDS]}),
    (TRANSLATOR.decode, {"target": IDS, "memories": [torch.zeros(2, 3, 4)]},
     {"memories": [None, 3, [], [None], [torch.zeros(1, 3, 4)]],
      "memory_mask": ["x", IDS, torch.ones(2, 4) > 0], "cache": NO_MODEL_CACHE[:7]}),
    (al.masks.causal_mask, {"query_len": 3},
     {"query_len": NO_SIZE, "key_len": NO_SIZE[1:]}),
    (al.masks.sliding_window_mask, {"query_len": 3, "window": 2},
     {"query_len": NO_SIZE, "window": NO_SIZE, "key_len": NO_SIZE[1:]}),
    (al.masks.window_mask_at,
     {"query_positions": IDS, "key_positions": IDS, "window": 2},
     {"query_positions": [None, "x", 3, IDS.float(), IDS[:, :0], IDS[0, 0], IDS + 1],
      "key_positions": [None, "x", 3, IDS.float(), IDS[:, :0], IDS[0, 0], IDS - 1,
                        IDS[:, :2], torch.arange(5)],
      "window": NO_SIZE}),
    (al.masks.padding_mask, {"lengths": LENGTHS, "max_len": 3},
     {"lengths": [None, "x", 3, [3, 2], LENGTHS.numpy(), LENGTHS.float(), LENGTHS[:0],
                  LENGTHS > 0, LENGTHS[:, None], LENGTHS[0]],
      "max_len": NO_SIZE, "side": [None, "top", 1]}),
    (combined, {"mask": EYE, "other": EYE},
     {name: [None, *no_mask((3, 4), (3, 3))] for name in ("mask", "other")}),
    (al.multi_head.split_heads, {"x": X, "num_heads": 3},
     {"x": [None, "x", X.numpy(), X[0], X[None]], "num_heads": [*NO_SIZE, 4]}),
    (al.multi_head.merge_heads, {"x": X[None]}, {"x": [None, "x", X.numpy(), X, X[0]]}),
    (al.multi_head.split_mask, {"mask": None, "x": X, "num_heads": 3},
     {"mask": [torch.ones(shape) > 0  # another number of heads, texts or queries
               for shape in ((2, 2, 4, 4), (3, 3, 4, 4), (2, 3, 5, 4))],
      "num_heads": NO_SIZE}),
    (al.multi_head.copy_weights, {"source": MHA, "target": MHA},
     {name: [None, "x", torch.nn.Linear(6, 6), LAYERS[0],
             make_mha("split", 6, 2)] for name in ("source", "target")}),
    (al.block.layer_norm, {"x": X, "weight": TWO, "bias": TWO},
     {"x": [None, "x", X.numpy(), X.long(), X > 0], "eps": [*NO_NUMBER, -1, math.nan],
      "weight": [*no_like(TWO), TWO[:1], TWO[None]], "bias": [*no_like(TWO), TWO[:1]]}),
    (al.block.FeedForward, {"d_model": 6},
     {"d_model": NO_SIZE, "hidden_dim": NO_SIZE[1:]}),
    (al.block.FeedForward(6), {"x": X}, {"x": NO_X}),
    (al.block.TinyBlock, {"d_model": 6, "num_heads": 3},
     NO_SIZES | {"norm": NO_CHOICE, "mha": NO_CHOICE}),
    (al.positions.sinusoidal_positions, {"length": 3, "d_model": 4},
     {"length": NO_SIZE, "d_model": NO_SIZE, "offset": [*NO_INT, -1, 2**62]}),
    (al.positions.LearnedPositions, {"context_len": 3, "d_model": 4},
     {"context_len": NO_SIZE, "d_model": NO_SIZE}),
    (al.positions.LearnedPositions(3, 4), {"length": 3},
     {"length": [*NO_SIZE, 4], "offset": [*NO_INT, -1, 1],
      "positions": [LENGTHS - 9, IDS + 2, LENGTHS, IDS[:, :2], IDS.float(), IDS > 0,
                    [0, 1, 2], LENGTHS[:1], LENGTHS[0]]}),
    (al.rope.rope_angles, {"positions": LENGTHS, "head_dim": 4},
     {"positions": [None, "x", [1], LENGTHS.numpy(), LENGTHS > 0, LENGTHS * 1j,
                    LENGTHS.half(), LENGTHS.bfloat16()],
      "head_dim": [*NO_SIZE, 3], "base": [*NO_RATE, 1e-300, 10**400],
      "scaling": NO_SCALING}),
    (al.rope.rope_frequencies,
     {"positions": torch.arange(3.0), "head_dim": 4, "base": 1e4, "scaling": {}},
     {"positions": [None, "x", [1.0]], "head_dim": [*NO_SIZE, 3], "base": NO_RATE,
      "scaling": [None, "x", 2.0]}),
    (al.rope.grows_beyond, {"scalings": [None, YARN]},
     {"scalings": [YARN, *([wrong] for wrong in NO_SCALING)]}),
    (al.rope.rope_attention_factor, {"scaling": YARN}, {"scaling": NO_SCALING}),
    (al.rope.apply_rope, {"x": X, "angles": X[0, :, :3]},
     {"x": [None, "x", X.numpy(), X.long(), X[0, 0], X[..., :5]], "layout": NO_CHOICE,
      "angles": [None, "x", X.numpy(), X.long(), X[0], X[:, 0, :3], X[0, :1, :3],
      X.to("meta"), X[0, :, :3].bfloat16()]}),
    (al.rope.convert_layout, {"weight": X[0], "num_heads": 2, "layout": "half"},
     {"weight": [None, "x", X.numpy(), X.long(), X[0, :3], X[:0], X[0, 0, 0]],
      "num_heads": [*NO_SIZE, 3], "layout": NO_CHOICE}),
    (ModelConfig, SIZES,
     dict.fromkeys(SIZES, NO_SIZE) | NO_SIZES | {"tie_weights": NO_FLAG} |
     dict.fromkeys(["norm", "mha", "positions"], NO_CHOICE)),
    (TinyLM, {"config": MODEL.config},
     {"config": [None, "x", {"d_model": 6}, ModelConfig, CONFIG]}),
    *((call, {"token_ids": IDS, "lengths": LENGTHS},
       {"token_ids": [*NO_IDS, LONG, IDS + 6, IDS - 2], "lengths": NO_LENGTHS})
      for call in (MODEL, MODEL.stream, MODEL.attention_weights, PLACELESS,
                   SMALL, SMALL.stream, SMALL.attention_weights, DECODER)),
    (al.grouped_query.repeat_kv, {"x": X[None], "groups": 2},
     {"x": [None, "x", X.numpy(), X, X[0]], "groups": NO_SIZE}),
    (al.grouped_query.GroupedQueryAttention, {"d_model": 6, "num_heads": 3,
                                           "num_kv_heads": 1},
     NO_OPTIONS | {"num_kv_heads": [*NO_SIZE, 2], "out_bias": NO_FLAG,
                   "sinks": NO_FLAG, "window": NO_SIZE[1:], "qk_norm": NO_CHOICE[1:],
                   "layout": NO_CHOICE, "softcap": NO_RATE[1:], "scale": NO_RATE[1:]}),
    (al.grouped_query.GroupedQueryAttention(6, 3, 1, window=2), {"x": X},
     {"memory": [X]} | {name: NO_CALL[name] for name in ("x", "mask", "causal")}),
    (GROUPED, {"x": X},
     {"positions": ["x", [0, 1], LENGTHS[:1], IDS[0, 0], IDS.float(), X]}),
    (al.relative_attention.RelativeAttention(6, 3), {"x": X, "memory": X},
     {"key_positions": [torch.arange(X.shape[1])]}),
    (al.latent_attention.MultiHeadLatentAttention, LATENT,
     dict.fromkeys(["d_model", "num_heads", *WIDTHS], NO_SIZE) |
     {"q_latent_dim": NO_SIZE[1:], "rope_dim": [*NO_SIZE, 3], "absorb": NO_FLAG,
      "bias": NO_FLAG, "scale": NO_RATE[1:], "rope_scale": NO_RATE,
      "layout": NO_CHOICE, "norm_eps": NO_RATE, "dropout": NO_OPTIONS["dropout"]}),
    (al.cross_attention.TranslatorConfig,
     {"vocab_size": 7, "context_len": 8, "d_model": 4, "num_heads": 2, "num_layers": 1},
     {"vocab_size": NO_SIZE, "context_len": NO_SIZE, "d_model": [*NO_SIZE, 3],
      "num_heads": NO_SIZE, "num_layers": NO_SIZE,
      "num_encoder_layers": [*NO_INT[1:], -1],
      "num_cross_heads": [*NO_SIZE[1:], 3], "dropout": NO_OPTIONS["dropout"]}),
    (al.cross_attention.translate,
     {"model": TRANSLATOR, "source": IDS, "source_lengths": LENGTHS, "start": 1,
      "stop": 2, "max_new_tokens": 3},
     {"model": NO_MODEL, "source": NO_IDS, "start": [*NO_INT, -1, 7],
      "source_lengths": [*NO_LENGTHS, LENGTHS + 9, LENGTHS - 5],
      "stop": [*NO_INT, -1, 7], "max_new_tokens": [*NO_SIZE, 9], "use_cache": NO_FLAG}),
    (al.cross_attention.CrossBlock(6, 3), {"x": X, "memory": X},
     {"memory": [*NO_X, X[:1]], "memory_mask": NO_MASK}),
    (al.relative_attention.RelativeAttention, {"d_model": 6, "num_heads": 2},
     {"num_buckets": [*NO_INT, -1, 3], "max_distance": NO_SIZE, "both_ways": NO_FLAG,
      "qkv_bias": NO_FLAG, "out_bias": NO_FLAG}),
    (al.norms.RMSNorm, {"width": 6},
     {"width": NO_SIZE, "eps": NO_RATE, "unit_offset": NO_FLAG}),
    (al.norms.RMSNorm(6), {"x": X},
     {"x": [None, "x", X.numpy(), X.long(), X[..., :5], X[0, 0, 0]]}),
    (al.tiny_llama.SwiGLU, {"d_model": 6, "hidden_dim": 4},
     {"d_model": NO_SIZE, "hidden_dim": NO_SIZE, "activation": NO_CHOICE}),
    (al.tiny_llama.SwiGLU(6, 4), {"x": X}, {"x": NO_X}),
    (al.tiny_llama.LlamaConfig, LLAMA,
     dict.fromkeys(LLAMA, NO_SIZE) |
     {"head_dim": [*NO_SIZE[1:], 3], "rope_base": NO_RATE, "norm_eps": NO_RATE,
      "tie_weights": NO_FLAG, "qkv_bias": NO_FLAG, "window": NO_SIZE[1:],
      "num_kv_heads": [*NO_SIZE, 2], "rope_scaling": NO_SCALING}),
    (al.tiny_llama.LlamaBlock, {"config": SMALL.config}, {"config": NO_CONFIG}),
    (al.hf_layers.from_transformers(BARE), {"x": X},
     {"x": [None, "x", X.numpy(), X[0], X[..., :5]], "cache": NO_CACHE}),
    (al.kv_cache.KVCache, {"layers": MODEL.new_cache(2).layers},
     {"layers": [None, 3, [], [3], MHA.new_cache(2, 4)]}),
    (al.hf_layers.from_transformers,
     {"layer": BARE}, {"layer": [None, "x", MHA, type(BARE)]}),
    (al.pretrained.Checkpoint,
     {"folder": WEIGHTS}, {"folder": [*NO_PATH, "missing"]}),
    *((each, {"path": GGUF}, {"path": [*NO_PATH, "missing"]})
      for each in (al.pretrained.GGUFFile, al.pretrained.GGUFCheckpoint)),
    (al.pretrained.load_pretrained, {"path": WEIGHTS},
     {"path": [*NO_PATH, "missing", "missing.gguf", f"{WEIGHTS}/config.json"]}),
    (al.pretrained.load_pretrained, {"path": GGUF},
     {"dtype": NO_DTYPE[1:], "device": NO_DEVICE, "copy": NO_FLAG}),
    *((model, {"token_ids": IDS, "lengths": LENGTHS},
       {"lengths": [*NO_LENGTHS, LENGTHS + 1, LENGTHS - 3]})
      for model in (MODEL, MODEL.stream, MODEL.attention_weights, DECODER)),
    *((model, {"token_ids": IDS},
       {"positions": ["x", [0, 1, 2], IDS.numpy(), IDS.float(), IDS > 0, LENGTHS,
                      IDS[:, :1], IDS[None], LONG, IDS[0, 0], IDS.to("meta"),
                      IDS + 7, IDS - 2], "token_ids": [IDS + 6, IDS - 2]})
      for model in (MODEL, MODEL.stream)),
    (al.interpret.AttentionOnlyLM(MODEL.config), {"token_ids": IDS},
     {"token_ids": [IDS + 6, IDS - 2]}),
    (al.pretrained.save_pretrained,
     {"folder": WEIGHTS, "model": DECODER, "fields": FIELDS},
     {"folder": NO_PATH, "model": [None, "x", MODEL, al.pretrained.Decoder],
      "fields": [None, "x", [1]], "shard_bytes": NO_SIZE[1:]}),
    (al.pretrained.names.published_names, {"family": "llama", "name": "head.weight"},
     {"family": [None, 3, "bert", "gemma"],
      "name": [None, "x", "model.norm.weight", "transformer.wte.weight", "head.x",
               *(f"blocks.{wrong}" for wrong in (
                   "x.attention.q_proj.weight", "-1.mlp_norm.weight", "0",
                   "0.attention.q_proj.bogus", "0.attention.q_proj.3.weight"))]}),
    (al.pretrained.names.published_tensors,
     {"family": "llama", "weights": {"head.weight": ROW}},
     {"family": [None, "bert"],
      "weights": [None, "x", [ROW], {"foo.weight": ROW}, {"head.weight": None},
                  {"head.weight": [[1.0]]}, {"blocks.x.mlp_norm.weight": ROW[0]}]}),
    (al.pretrained.names.published_tensors,
     {"family": "gpt2",
      "weights": {f"{THIRD}{part}_proj.bias": ROW[0] for part in "qkv"}},
     {"weights": [{f"{THIRD}q_proj.bias": ROW[0]}]}),
    (al.pretrained.Fields, {"fields": FIELDS}, {"fields": [None, "x", [1]]}),
    (al.pretrained.Fields(FIELDS).choose,
     {"name": "hidden_act", "choices": {"silu": 1}, "default": "silu"},
     {"choices": [None, ["silu"], {"silu"}]}),
    (DECODER.blocks[0],
     {"x": torch.zeros(1, 3, 4), "angles": [al.rope_angles(torch.arange(3), 2)]},
     {"angles": [[], al.rope_angles(torch.arange(3), 2)]}),
    (al.pretrained.Tokenizer,
     {"inner": tokenizers.Tokenizer(tokenizers.models.BPE()), "names": {}},
     {"inner": [None, "x"], "names": [None, "x", {"eos_token": 2}],
      "prefix": [None, "x", 1, [9], [0.5]], "ends": ["x", 1, [None], [0.5], ["</s>"]],
      "template": [3, b"x", ["x"]]}),
    *((stored.read, {"name": next(iter(names))}, {"name": ["nope", None]})
      for stored, names in OPENED),
    (al.pretrained.LayerConfig, {},
     {"window": NO_SIZE[1:], "rope_base": NO_RATE[1:], "rope_scaling": NO_SCALING}),
    (al.pretrained.LatentConfig, WIDTHS | {"q_latent_dim": None},
     dict.fromkeys(WIDTHS, NO_SIZE) |
     {"q_latent_dim": NO_SIZE[1:], "rope_dim": [*NO_SIZE, 3], "layout": NO_CHOICE}),
    (al.pretrained.DecoderBlock,
     {"config": DECODER.config, "layer": DECODER.config.layers[0]},
     {"config": [None, FIELDS, MODEL.config], "layer": [None, 0, DECODER.config]}),
    (al.pretrained.make_mlp, {"config": DECODER.config},
     {"config": [None, "gated", FIELDS]}),
    (al.pretrained.Experts, {"config": EXPERTS.config},
     {"config": [None, FIELDS, DECODER.config]}),
    *((each, {"x": ROUTED}, {"x": [*no_like(ROUTED), ROUTED[..., :5], ROUTED[0]]})
      for each in (EXPERTS.blocks[0].mlp,
                   al.pretrained.PlainMLP(8, 4, activation="gelu"))),
    (al.pretrained.DecoderConfig, PLAIN | {"layers": (al.pretrained.LayerConfig(),)},
     {"layers": [None, (), (None,), [al.pretrained.LayerConfig()]],
      "latent": [{}, "x", al.pretrained.decoder_config.LatentConfig(None, 4, 4, 6, 4)],
      "num_experts": [*NO_SIZE, 2], "num_kv_heads": [*NO_SIZE, 3],
      "experts_per_token": [*NO_SIZE, 2], **dict.fromkeys(
          ("learned_positions", "sinks", "qkv_bias", "out_bias"), NO_FLAG)}),
    (al.pretrained.DecoderConfig,
     PLAIN | {"layers": (al.pretrained.LayerConfig(),), "mlp": "experts"},
     {"activation": ["gelu"]}),
    (al.pretrained.DecoderConfig, PLAIN | {"layers": (al.pretrained.LayerConfig(),)},
     {"expert_limit": [*NO_RATE, 3.0], "expert_alpha": [*NO_RATE, 1.0]}),
    (al.pretrained.DecoderConfig, LATENT_DECODER,
     {"qkv_bias": [True], "qk_norm": ["rms"], "softcap": [1.0], "sinks": [True],
      "layers": [(al.pretrained.LayerConfig(window=2),)], "head_dim": [2]}),
    (al.pretrained.decoder_mlp.PlainMLP,
     {"d_model": 2, "hidden_dim": 3, "activation": "gelu"},
     {"d_model": NO_SIZE, "hidden_dim": NO_SIZE,
      "activation": [*NO_CHOICE, "relu", "silu", "gelu_new"]}),
    (al.pretrained.Decoder, {"config": DECODER.config},
     {"config": [None, FIELDS, MODEL.config]}),
    (al.tiny_llama.TinyLlama, {"config": SMALL.config},
     {"config": [None, MODEL.config]}),
    (al.pretrained.estimate_memory, {"fields": FIELDS},
     {"fields": [None, "x", [1]], "bytes_per_second": NO_RATE,
      "dtype": [None, "float16", torch.int8, 16]}),
    (al.examine.examine, {"layer": LAYER, "checks": ["shape"], "progress": False},
     {"layer": [None, "x", 3, torch.nn.Linear], "d_model": NO_SIZE[1:],
      "causal": ["x", 1], "calls": ["x", 3], "reference": ["x", 3],
      "checks": ["shape", ["x"], [], 3], "progress": [None, "x", 1],
      "seed": [*NO_INT, -1]}),
    (al.course.museum.run_checks, {"bug": al.course.museum.BUGS[-1]},
     {"bug": [None, 3, "bug"], "fixed": [None, 3, "x"]}),
    (al.timing.count_flops, {"function": tuple}, {"function": [None, "x", 3]}),
    (al.export.export_checked,
     {"model": LINEAR, "args": (ROW,), "path": f"{WEIGHTS}/linear.onnx",
      "dynamic_shapes": {"input": {0: "batch"}}, "sizes": {"batch": (1, 4)}},
     {"model": NO_MODEL, "args": [None, "x", [ROW], ROW, (None,), ("x",)],
      "path": NO_PATH, "sizes": ["x", 3, [1], {"time": [1]}, {"batch": [0.5]},
                                 {"batch": [-1]}, {"batch": []}],
      "dynamic_shapes": ["x", 3, {"x": {0: "batch"}}, [{9: "batch"}], [{0: 3}], [[0]],
                         [{"a": "batch"}], [None, {0: "batch"}]],
      "input_names": ["input", [3], ["a", "b"]], "tolerance": NO_RATE,
      "opset": [*NO_SIZE, 999]}),
    (al.export.export_model, {"model": MODEL, "path": f"{WEIGHTS}/model.onnx"},
     {"model": [*NO_MODEL, LINEAR, TinyLM(MODEL.config).double()], "path": NO_PATH,
      "max_len": [*NO_SIZE[1:], 9], "sizes": ["x", [1], {"batch": 2}, {"seq": [1]}]}),
    (al.export.generate_in_onnx,
     {"path": f"{WEIGHTS}/model.onnx", "token_ids": IDS, "max_new_tokens": 2},
     {"path": [*NO_PATH, "missing.onnx"], "token_ids": NO_IDS[:9],
      "max_new_tokens": NO_SIZE}),
    (al.export.open_onnx, {"path": f"{WEIGHTS}/model.onnx"},
     {"path": [*NO_PATH, "missing.onnx"]}),
    (al.export.DynamicCacheStep(MODEL),
     {"token_ids": DYNAMIC[0], "past": DYNAMIC[1]},
     {"past": [DYNAMIC[1][:1]]}),
    (al.export.StaticCacheStep(MODEL, 8),
     {"token_ids": STATIC[0], "cache_position": STATIC[1], "cache": STATIC[2]},
     {"cache_position": [None, 3], "cache": [STATIC[2][:1]]}),
    (al.export.DynamicCacheStep, {"model": MODEL}, {"model": [*NO_MODEL, LINEAR]}),
    (al.export.StaticCacheStep, {"model": MODEL, "max_len": 8},
     {"model": [*NO_MODEL, LINEAR], "max_len": [*NO_SIZE, 9]}),
    (al.export.DynamicCacheStep(MODEL).example, {"batch": 1, "time": 2, "past": 0},
     {"batch": NO_SIZE, "time": NO_SIZE, "past": [*NO_INT, -1]}),
    (al.export.StaticCacheStep(MODEL, 8).example, {"batch": 1, "time": 2,
                                                     "cache_position": 6},
     {"batch": NO_SIZE, "time": NO_SIZE, "cache_position": [*NO_INT[1:], -1]}),
    (al.toy.softmax, {"x": np.ones(2)},
     {"x": [None, "x", [True], [None], [math.nan], [math.inf], [], 1.0, [1j]],
      "axis": [*NO_INT, 1, -2],
      "temperature": [*NO_NUMBER, 0, -1, math.nan, math.inf]}),
    (al.toy.attention, ARRAYS,
     {"query": NO_ARRAY, "key": NO_ARRAY, "value": [*NO_ARRAY[:7], np.zeros((2, 4))],
      "mask": ["x", True, [[True]], np.ones((2, 3)), torch.ones(2, 3) > 0,
               np.ones((3, 2), bool), np.ones((1, 2, 3), bool)],
      "scale": [*NO_NUMBER[1:], math.nan, math.inf]}),
]
# fmt: on
# Words that name an argument as well as its own name does.
ALSO = {"texts": ("token_ids", "text"), "token_ids": ("the text",)}
ALSO |= {"index": ("window",), "path": ("file",), "offset": ("positions",)}
ALSO |= {"other": ("mask", "masks"), "mask": ("masks",), "length": ("positions",)}
ALSO |= {"mha": ("kind",), "query": ("arrays",), "folder": ("path",)}
ALSO |= {"lines": ("line", "cells")}
ALSO |= {"source": ("token_ids", "the text", "page"), "target": ("page",)}
ALSO |= {"memories": ("memory",), "rope_scaling": ("scaling", "factor")}
ALSO |= {"scalings": ("scaling", "factor"), "page_hash": ("hash",)}
ALSO |= {
    "source_lengths": ("lengths",),
    "values": ("value",),
    "layers": ("num_layers",),
}


def fault(function, right, name, wrong):
    """What is wrong with a refusal: nothing, ``silent``, or what it said."""
    try:
        function(**(right | {name: wrong}))
    except Exception as error:
        *_, (frame, _) = walk_tb(error.__traceback__)
        ours = "attention_lib" in frame.f_code.co_filename
        ours &= isinstance(error, TypeError | ValueError | IndexError)
        ours |= isinstance(error, OSError | LookupError)  # of a file, or an encoding
        words = "|".join((name, *ALSO.get(name, ())))
        if ours and re.search(rf"\b({words})\b", str(error)):
            return None
        return f"unclear: {type(error).__name__}: {str(error)[:70]}"
    return "silent"
