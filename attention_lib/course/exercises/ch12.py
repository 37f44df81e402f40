"""Exercises of chapter 12: a reader of files, GPT-2's layout, a suspect, a count."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from attention_lib.course.exercises.exercise import Exercise, slip
from attention_lib.course.exercises.verdict import Verdict, run
from attention_lib.reproducibility import seeded

STORED = "a.weight", "b.bias", "c.weight"


def _read(answer: Any, which: int) -> Any:
    """Let an answer read a small file, and return one of its tensors."""
    drawn, name = seeded(0), STORED[which]
    a, b, c = (torch.randn(*n, generator=drawn) for n in [(3, 4), (5,), (2, 3)])
    tensors = dict(zip(STORED, [a.float(), b.float(), c.bfloat16()], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(tensors, path, {"format": "pt"})
        _reverse_header(path)
        made = answer(path)
        if made is None or made is ...:
            return None
        if hasattr(made, "read") and getattr(made, "names", ...) in (..., None):
            return None
        if message := _wrong_names(made, [*STORED]):
            return Verdict(False, message)
        came, right = made.read(name), tensors[name]
    if came is None or came is ...:
        message = "`read` gives nothing back."
    elif not isinstance(came, Tensor):
        message = "`read` must give a tensor."
    elif came.dtype != right.dtype:
        kind = str(came.dtype).removeprefix("torch.")
        message = f"{name} is stored as another type than {kind}."
    elif came.shape != right.shape:
        wanted, found = tuple(right.shape), tuple(came.shape)
        message = f"{name} has the shape {wanted}; yours is {found}."
    else:
        return came
    return Verdict(False, message)


def _reverse_header(path: Path) -> None:
    """Name the tensors of a file in a different order from that of their numbers."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    text = json.dumps(dict([*header.items()][::-1]), separators=(",", ":"))
    path.write_bytes(raw[:8] + text.encode().ljust(length) + raw[8 + length :])


def _wrong_names(made: object, names: list[str]) -> str:
    if not hasattr(made, "names") or not hasattr(made, "read"):
        kind = type(made).__name__
        return f"Your function returns a {kind}; it must have `names` and `read`."
    try:
        found = sorted(made.names)
    except TypeError:
        return "`names` must be a list of names."
    if not list(made.names):
        return "`names` is empty the second time: make it a list."
    if "__metadata__" in found:
        return "`__metadata__` is no tensor: leave it out of `names`."
    if found != names:
        return f"`names` must hold {', '.join(names)}; it has {found}."
    return ""


REST, OFFSETS = "raw[end:]", 'start, end = entry["data_offsets"]'
check_checkpoint_reader = Exercise(
    solution="""
class MyCheckpoint:
    def __init__(self, path):
        raw = path.read_bytes()
        end = 8 + int.from_bytes(raw[:8], "little")
        self.header = json.loads(raw[8:end])
        self.header.pop("__metadata__", None)
        self.numbers = raw[end:]
        self.names = list(self.header)

    def read(self, name):
        entry = self.header[name]
        start, end = entry["data_offsets"]
        dtype = {"F32": torch.float32, "BF16": torch.bfloat16}[entry["dtype"]]
        flat = torch.frombuffer(bytearray(self.numbers[start:end]), dtype=dtype)
        return flat.view(entry["shape"])
""",
    names={"json": json},
    cases=[((1,), ""), ((0,), ""), ((2,), "")],
    inputs=lambda which: (which,),
    use=_read,
    otherwise=lambda came, right, which: (
        f"The numbers of {STORED[which]} are not those of the file."
    ),
    slips=[
        slip("Offsets count from the end of the header, not from the file's start.",
             REST, "raw"),
        slip("The eight bytes before the header count, too.", REST, "raw[end - 8 :]"),
        slip("The header itself comes before the numbers.", REST, "raw[8:]"),
        slip("The offsets say where a tensor is; the order of the header does not.",
             OFFSETS, 'pairs = [each["data_offsets"] for each in self.header.values()]'
             "\n        sizes = [last - first for first, last in pairs]"
             "\n        start = sum(sizes[: self.names.index(name)])"
             "\n        end = start + sizes[self.names.index(name)]"),
    ],
    praise="Names, types, shapes and numbers are those of the file.",
)  # fmt: skip


STACKED = "torch.stack([part.T for part in weight.chunk(3, dim=1)])"
TORN = "The numbers of a row are torn apart: the parts are along the second axis."
check_gpt2_projections = Exercise(
    solution="""
def my_projections(weight):
    return torch.stack([part.T for part in weight.chunk(3, dim=1)])
""",
    cases=[((4,), "")],
    inputs=lambda size: (torch.randn(size, 3 * size, generator=seeded(0)),),
    slips=[
        slip("The three parts are right, but they are (in, out): PyTorch keeps (out, "
             "in).", "part.T", "part"),
        slip("Queries, keys and values are side by side, not interleaved.",
             "weight.chunk(3, dim=1)", "(weight[:, start::3] for start in range(3))"),
        slip("Queries come first.", STACKED, f"{STACKED}[[1, 0, 2]]"),
        slip("The order is the reverse.", STACKED, f"{STACKED}.flip(0)"),
        slip("Keys come before values.", STACKED, f"{STACKED}[[0, 2, 1]]"),
        slip(TORN, STACKED, "weight.reshape(3, len(weight), -1)"),
        slip(TORN, STACKED, "weight.reshape(3, len(weight), -1).mT"),
    ],
    praise="Three matrices, each (out, in).",
)  # fmt: skip


def check_weight_fault(answer: object) -> Verdict:
    """Check ``suspect(ours, theirs)`` on scores (H, T, T): what to look at."""
    theirs = 3 * torch.randn(2, 5, 5, generator=seeded(1))
    noise = 1e-6 * torch.randn(2, 5, 5, generator=seeded(2))
    change = torch.randn(2, 5, 5, generator=seeded(3))
    off = ~torch.eye(5, dtype=torch.bool)
    one_head = change * torch.tensor([0.0, 1.0])[:, None, None]
    many = 3 * torch.randn(2, 40, 40, generator=seeded(4))
    rounded = 3e-6 * torch.randn(2, 40, 40, generator=seeded(5))
    turned = many + rounded + 1 - torch.eye(40)
    one, own = torch.zeros(2, 40, 40), torch.zeros(2, 40, 40)
    one[1, 30, 7], own[1, 30, 30] = 0.02, 0.006
    corner = torch.zeros(2, 5, 5)
    corner[1, 4, 4] = 0.5
    signs = torch.zeros(2, 5, 5)
    signs[0, 2, 2], signs[0, 3, 3] = 0.5, -0.5
    cases = [
        (theirs, "equal", "two tables that are the same"),
        (theirs + noise, "equal", "scores that differ by rounding only"),
        (theirs + change * off, "rotation", "a diagonal that agrees, and a rest that "
         "does not"),
        (theirs + one_head * off + noise, "rotation", "one head that is turned "
         "wrongly, and rounding elsewhere"),
        (theirs - 0.01 * off, "rotation", "a small change outside the diagonal"),
        (theirs + change.triu(1), "rotation", "scores that differ above the diagonal "
         "only"),
        (theirs + change, "other", "scores that all differ"),
        (theirs + corner, "other", "a diagonal that differs in one place, at the end"),
        (theirs + signs, "other", "a diagonal whose changes cancel in a sum"),
    ]  # fmt: skip
    pairs = [(ours, theirs, wanted, words) for ours, wanted, words in cases]
    pairs += [
        (many + one, many, "rotation", "one score of many that differs, which is small "
         "in a mean"),
        (many + one + own, many, "other", "a diagonal that differs in one place of "
         "many, which is small in a mean"),
        (turned, many, "rotation", "a long text, where rounding on the diagonal "
         "sums up"),
    ]  # fmt: skip
    for ours, theirs, wanted, words in pairs:
        given = ours.clone(), theirs.clone()
        came = run(answer, *given)
        if isinstance(came, Verdict):
            return came
        if not isinstance(came, str) or came not in ("equal", "rotation", "other"):
            kind = type(came).__name__
            return Verdict(
                False,
                f"Your function returns a {kind}; it must be one of the three words.",
            )
        if came != wanted:
            return Verdict(
                False, f"For {words}, the answer is “{wanted}”; yours is “{came}”."
            )
        if not (given[0].equal(ours) and given[1].equal(theirs)):
            return Verdict(False, "Your code changes the scores that it was given.")
    return Verdict(True, "If only the diagonal agrees, suspect what depends on the "
                   "offset: the rotation, a mask, a penalty for distance.")  # fmt: skip


def _counted(answer: Any, key_heads: int, tied: bool) -> Any:
    """Count the parameters of a small model; return the count as a tensor."""
    came = answer(
        {
            **{"vocab_size": 11, "hidden_size": 16, "intermediate_size": 20},
            **{"num_hidden_layers": 3, "num_attention_heads": 4},
            **{"num_key_value_heads": key_heads, "tie_word_embeddings": tied},
        }
    )
    if came is None or came is ...:
        return None
    if isinstance(came, Tensor | np.generic) and came.ndim == 0:
        came = came.item()
    if isinstance(came, int | float) and not isinstance(came, bool):
        return torch.tensor([float(came)])
    kind = type(came).__name__
    return Verdict(False, f"Your function returns a {kind}; the count is one number.")


NORMS, LAST = "mlp + 2 * width", " + width)"
TABLES = '1 if fields["tie_word_embeddings"] else 2'
check_llama_parameters = Exercise(
    solution="""
def my_parameters(fields):
    width, layers = fields["hidden_size"], fields["num_hidden_layers"]
    share = fields["num_key_value_heads"] / fields["num_attention_heads"]
    attention = 2 * width**2 + 2 * width**2 * share
    mlp = 3 * width * fields["intermediate_size"]
    tables = 1 if fields["tie_word_embeddings"] else 2
    words = tables * fields["vocab_size"] * width
    return int(words + layers * (attention + mlp + 2 * width) + width)
""",
    cases=[
        ((4, False), ""),
        ((2, False), "Right with as many key heads as query heads. With half as many:"),
        ((2, True), "Right so far. With a tied head:"),
    ],
    inputs=lambda *numbers: numbers,
    use=_counted,
    otherwise=lambda came, right, *numbers: (
        f"It has {right.item():g} parameters; your count is {came.item():g}."
    ),
    slips=[
        slip("A tied head is the embedding itself: count it once.", TABLES, "2"),
        slip("The head has weights of its own here.", TABLES, "1"),
        slip("The MLP has three matrices: gate, up and down.",
             "3 * width", "2 * width"),
        slip("After the last layer comes one more norm.", LAST, ")"),
        slip("Each layer has two norms.", NORMS, "mlp"),
        slip("Each layer has two norms, not one.", NORMS, "mlp + width"),
        slip("The norms have weights, too.", NORMS, "mlp", LAST, ")"),
        slip("Keys and values have fewer heads than queries.", " * share", ""),
        slip("Attention has four matrices: queries, keys, values and output.",
             "= 2 * width**2", "= width**2"),
    ],
    praise="Embeddings, layers, norms and head are all counted.",
)  # fmt: skip
