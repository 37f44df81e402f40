"""Wrong calls of public functions are refused, in words that name the argument.

A call is unclear if its error is none of ours, or does not name what was wrong.
"""

import math
import random
from traceback import walk_tb

import numpy as np
import pytest
import torch

from attention_lib import checkpoints, data, reproducibility, sampling, stories
from attention_lib import training as t
from attention_lib.model import ModelConfig, TinyLM

MODEL = TinyLM(ModelConfig(7, 8, 4, 2, 1))
SGD = torch.optim.SGD(MODEL.parameters(), lr=0.0)
TEXTS = [torch.tensor([1, 2, 3]), torch.tensor([4, 5])] * 2
CONFIG = t.TrainConfig(steps=4, batch_size=2, warmup=1)
RUN = t.Training(MODEL, TEXTS, CONFIG)
IDS, LENGTHS = torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2])
LONG = IDS.repeat(1, 3)
LOGITS = torch.zeros(2, 3, 7)
ROW = LOGITS[0]  # (3, 7)
KINDS = data.ByteTokenizer(), data.CharTokenizer("ab"), data.BPETokenizer(["ab"], 258)
WINDOWS = data.SlidingWindowDataset(range(9), 4, 4)

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
NO_CONFIG = [None, "x", t.TrainConfig, {"steps": 4}, MODEL.config]
NO_ROW = [None, "x", 3, 1.5, ["a"], [1.5], [None], IDS, IDS[0].float(), [[1, 2]]]
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

# A function, arguments that are right, and for each argument what is wrong.
CALLS = [
    (t.next_token_loss, {"logits": LOGITS, "token_ids": IDS, "lengths": LENGTHS},
     # The last two ids and the last lengths are wrong in values, which no loss reads.
     {"logits": [*NO_FLOATS, ROW, LOGITS[:, 1:], LOGITS[:1]],
      "token_ids": [*NO_IDS, IDS + 6, IDS - 2], "lengths": [*NO_LENGTHS, 0 * LENGTHS]}),
    (t.train_step,
     {"model": MODEL, "optimizer": SGD, "token_ids": IDS, "lengths": LENGTHS},
     {"model": NO_MODEL, "optimizer": [None, "x", torch.optim.SGD, [ROW]],
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
    (RUN.run, {}, {"until": [*NO_INT[1:], -1]}),
    (RUN.batch, {"step": 0}, {"step": [*NO_INT, -1]}),
    (t.evaluate, {"model": MODEL, "texts": TEXTS},
     {"model": NO_MODEL, "texts": [*NO_TEXTS, [IDS[0, :1]], [*LONG], [LENGTHS + 9]],
      "batch_size": NO_SIZE}),
    *((each, {"training": RUN, "path": "run"},
       {"training": [None, "x", MODEL, t.Training], "path": NO_PATH})
      for each in (checkpoints.save_checkpoint, checkpoints.load_checkpoint)),
    (sampling.pick_token, {"logits": ROW, "temperature": 1.0},
     {"logits": [*NO_FLOATS, LOGITS, ROW[0], ROW[:0], ROW / 0, ROW - math.inf,
                 ROW + math.inf, ROW.to("meta")], **NO_SAMPLING}),
    (sampling.continue_text, {"model": MODEL, "token_ids": IDS, "max_new_tokens": 2},
     {"model": NO_MODEL, "token_ids": [*NO_IDS, IDS + 6, IDS - 2],
      "max_new_tokens": [*NO_SIZE, 7], **NO_SAMPLING}),
    *((kind.encode, {"text": "ab"}, {"text": NO_TEXT}) for kind in KINDS),
    *((kind.decode, {"ids": [1]}, {"ids": [*NO_ROW, [-1], [999]]}) for kind in KINDS),
    (data.CharTokenizer, {"text": "ab"}, {"text": [*NO_TEXT, ""]}),
    (data.BPETokenizer, {"texts": ["ab"], "vocab_size": 258},
     {"texts": [None, "ab", 3, [], [""], [None], [b"ab"], [["ab"]], ["\ud800"]],
      "vocab_size": [*NO_SIZE, 255]}),
    (data.read_text, {"path": __file__},
     {"path": [*NO_PATH, "missing"], "encoding": [None, 3, "klingon"]}),
    (data.SlidingWindowDataset, {"token_ids": range(9), "length": 4, "stride": 4},
     {"token_ids": [*NO_ROW, [1, 2]], "length": [*NO_SIZE, 9], "stride": NO_SIZE}),
    (WINDOWS.__getitem__, {"index": 0}, {"index": [None, "x", 1.5, [0], 2, -3]}),
    (data.pad_texts, {"texts": TEXTS}, {"texts": NO_TEXTS}),
    (data.make_loader, {"texts": TEXTS, "batch_size": 2},
     {"texts": NO_TEXTS, "batch_size": NO_SIZE, "seed": NO_SEED[1:]}),
    (data.ngram_surprises, SEEN, NO_SEEN),
    (data.ngram_losses, SEEN, NO_SEEN),
    (reproducibility.seeded, {"seed": 0}, {"seed": NO_SEED}),
    (reproducibility.make_repeatable, {}, {"seed": NO_SEED}),
    (stories.make_stories, {"count": 1, "seed": 0},
     {"count": NO_SIZE, "seed": NO_SEED}),
    (stories.Teller, {"rng": random.Random(0)}, {"rng": [None, "x", 0, random]}),
    (stories.expected, {"part": stories.tell_story}, {"part": [None, "x", 3]}),
]
# fmt: on
# Words that name an argument as well as its own name does.
ALSO = {"texts": ("token_ids", "text"), "token_ids": ("the text",)}
ALSO |= {"index": ("window",), "path": ("file",)}
MOST_SILENT, MOST_UNCLEAR = 0.01, 0.03


def fault(function, right, name, wrong):
    """What is wrong with a refusal: nothing, ``silent``, or what it said."""
    try:
        function(**(right | {name: wrong}))
    except Exception as error:
        *_, (frame, _) = walk_tb(error.__traceback__)
        ours = "attention_lib" in frame.f_code.co_filename
        ours &= isinstance(error, TypeError | ValueError | IndexError)
        ours |= isinstance(error, OSError | LookupError)  # of a file, or an encoding
        if ours and any(word in str(error) for word in (name, *ALSO.get(name, ()))):
            return None
        return f"unclear: {type(error).__name__}: {str(error)[:70]}"
    return "silent"


@pytest.mark.usefixtures("shapes_unchecked")
def test_wrong_calls_are_refused_in_words():
    faults, number = [], 0
    for function, right, each in CALLS:
        for name, wrong in [(n, wrong) for n in each for wrong in each[n]]:
            number += 1
            if said := fault(function, right, name, wrong):
                called = getattr(function, "__qualname__", function)
                faults.append(f"{called}({name}={str(wrong)[:40]}): {said}")
    silent = sum(each.endswith("silent") for each in faults)
    report = "\n".join([f"of {number} wrong calls:", *faults])
    assert silent <= MOST_SILENT * number, report
    assert len(faults) - silent <= MOST_UNCLEAR * number, report
