"""The checks of chapter 12: each usual mistake is made, and must be named."""

import json

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16}


def reader(
    shift=lambda length: 8 + length,
    types=TYPES,
    names=lambda header: [name for name in header if name != "__metadata__"],
    order="little",
    shaped=lambda flat, shape: flat.view(shape),
    begin=8,
    give=lambda tensor: tensor,
):
    """A reader of safetensors, with one step another."""

    class Reader:
        def __init__(self, path):
            self.raw = path.read_bytes()
            self.length = int.from_bytes(self.raw[:8], order)
            self.header = json.loads(self.raw[begin : begin + self.length])
            self.names = names(self.header)

        def read(self, name):
            entry = self.header[name]
            start, end = (x + shift(self.length) for x in entry["data_offsets"])
            part = bytearray(self.raw[start:end])
            flat = torch.frombuffer(part, dtype=types[entry["dtype"]])
            return give(shaped(flat, entry["shape"]))

    return Reader


class Stub:
    def __init__(self, path): ...

    def read(self, name): ...


class NamesOnly(reader()):
    def read(self, name): ...


class ByLibrary:
    def __init__(self, path):
        self.tensors = load_file(path)
        self.names = list(self.tensors)

    def read(self, name):
        return self.tensors[name]


class Open:
    def __init__(self, path):
        self.file = safe_open(path, "pt")
        self.names = self.file.keys()

    def read(self, name):
        return self.file.get_tensor(name)


class FromBytes(ByLibrary):
    def __init__(self, path):
        self.tensors = load(path.read_bytes())
        self.names = self.tensors.keys()


class Slowly(reader()):
    def __init__(self, path):
        super().__init__(path)
        self.all = {name: super(Slowly, self).read(name) for name in self.names}

    def read(self, name):
        return self.all[name].clone()


def thirds(dim=1, turn=lambda part: part.T, order=(0, 1, 2), give=torch.stack):
    def answer(weight):
        parts = weight.chunk(3, dim=dim)
        return give([turn(parts[i]) for i in order])

    return answer


def torn(weight):
    return weight.reshape(3, len(weight), len(weight))


def in_turns(weight):
    return torch.stack([weight[:, part::3].T for part in range(3)])


def in_place(weight):
    found = [part.T.clone() for part in weight.chunk(3, dim=1)]
    weight.zero_()
    return torch.stack(found)


def by_slices(weight):
    width = weight.shape[0]
    return torch.stack([weight[:, i * width : (i + 1) * width].T for i in range(3)])


def suspect(
    same=lambda error: error.max() < 1e-4,
    diagonal=lambda error: error.diagonal(dim1=-2, dim2=-1).max() < 1e-4,
    words=("equal", "rotation", "other"),
    error=lambda ours, theirs: (ours - theirs).abs(),
):
    def answer(ours, theirs):
        found = error(ours, theirs)
        if same(found):
            return words[0]
        return words[1] if diagonal(found) else words[2]

    return answer


def looped(ours, theirs):
    heads, length, _ = ours.shape
    wrong = {
        (i == j)
        for h in range(heads)
        for i in range(length)
        for j in range(length)
        if abs(ours[h, i, j] - theirs[h, i, j]) > 1e-3
    }
    return "other" if True in wrong else "rotation" if wrong else "equal"


def suspect_in_place(ours, theirs):
    ours -= theirs
    return suspect()(ours, 0 * theirs)


def by_allclose(ours, theirs):
    if torch.allclose(ours, theirs, atol=1e-4):
        return "equal"
    pairs = [each.diagonal(dim1=1, dim2=2) for each in (ours, theirs)]
    return "rotation" if torch.allclose(*pairs, atol=1e-4) else "other"


def parameters(
    mlp=3, norms=2, last=1, attention=2, shared=True, head=None, give=lambda n: n
):
    def answer(fields):
        width, layers = fields["hidden_size"], fields["num_hidden_layers"]
        share = fields["num_key_value_heads"] / fields["num_attention_heads"]
        inner = attention * width**2 + 2 * width**2 * (share if shared else 1)
        each = inner + mlp * width * fields["intermediate_size"] + norms * width
        own = not fields["tie_word_embeddings"] if head is None else head
        tables = (1 + own) * fields["vocab_size"] * width
        return give(int(tables + layers * each + last * width))

    return answer


def by_shapes(fields):
    m, f, v = (fields[k] for k in ("hidden_size", "intermediate_size", "vocab_size"))
    kv = m // fields["num_attention_heads"] * fields["num_key_value_heads"]
    block = [(m, m), (kv, m), (kv, m), (m, m), (f, m), (f, m), (m, f), (m,), (m,)]
    shapes = [(v, m), (m,)] + block * fields["num_hidden_layers"]
    shapes += [] if fields["tie_word_embeddings"] else [(v, m)]
    return sum(torch.Size(shape).numel() for shape in shapes)


MISTAKES = {
    "checkpoint_reader": [
        (
            reader(names=lambda header: (n for n in header if n != "__metadata__")),
            "empty the second time",
        ),
        (reader(shift=lambda length: 0), "not from the file's start"),
        (reader(shift=lambda length: length), "eight bytes before the header"),
        (reader(shift=lambda length: 8), "header itself comes before"),
        (reader(names=list), "`__metadata__` is no tensor"),
        (reader(names=lambda header: ["a.weight"]), "must hold a.weight, b.bias"),
        (reader(names=lambda header: 3), "must be a list of names"),
        (
            reader(types=TYPES | {"BF16": torch.float16}),
            "stored as another type than float16",
        ),
        (reader(shaped=lambda flat, shape: flat), "has the shape (3, 4)"),
        (
            reader(
                shaped=lambda flat, shape: (
                    flat.view(shape[::-1]).mT if shape[1:] else flat
                )
            ),
            "not those of the file",
        ),
        (reader(give=lambda tensor: tensor.tolist()), "must give a tensor"),
        (reader(order="big"), "Your code raised"),
        (lambda path: 5, "it must have `names` and `read`"),
        (NamesOnly, "gives nothing back"),
    ],
    "gpt2_projections": [
        (thirds(turn=lambda part: part), "stand as (in, out)"),
        (thirds(order=(1, 0, 2)), "Queries come first"),
        (thirds(order=(2, 1, 0)), "reverse"),
        (thirds(order=(0, 2, 1)), "Keys come before values"),
        (torn, "torn apart"),
        (lambda weight: torn(weight).mT, "torn apart"),
        (in_turns, "not in turns"),
        (thirds(dim=0, order=(0, 1)), "The shape must be (3, 4, 4)"),
        (thirds(give=list), "returns a list"),
        (thirds(order=(0, 1)), "The shape must be"),
        (in_place, "changes its input"),
        (thirds(order=(1, 2, 0)), "look at [0, 0, 0]"),
    ],
    "suspect": [
        (suspect(same=lambda error: error.max() == 0), "differ by rounding only"),
        (suspect(diagonal=lambda error: error[:, 0, 0].max() < 1e-4), "in one place"),
        (suspect(diagonal=lambda error: error[0].diagonal().max() < 1e-4), "in one "),
        (suspect(error=lambda ours, theirs: ours - theirs), "small change outside"),
        (suspect(same=lambda error: error.mean() < 0.1), "small change outside"),
        (suspect(same=lambda error: error[0].max() < 1e-4), "one head"),
        (
            suspect(diagonal=lambda error: error.diagonal(dim1=-2, dim2=-1).max() == 0),
            "rounding elsewhere",
        ),
        (suspect(words=("equal", "other", "rotation")), "the answer is “rotation”"),
        (suspect(words=(True, False, False)), "must be one of the three words"),
        (suspect_in_place, "changes the scores"),
        (suspect(diagonal=lambda error: True), "scores that all differ"),
        (
            suspect(
                same=lambda error: error.abs().max() < 1e-4,
                diagonal=lambda e: abs(e.diagonal(dim1=1, dim2=2).sum()) < 1e-4,
                error=lambda ours, theirs: ours - theirs,
            ),
            "whose changes cancel",
        ),
        (suspect(same=lambda error: error.mean() < 1e-4), "one score of many"),
        (
            suspect(diagonal=lambda e: e.diagonal(dim1=1, dim2=2).mean() < 1e-4),
            "one place of many",
        ),
        (
            suspect(diagonal=lambda e: e.diagonal(dim1=1, dim2=2).sum() < 1e-4),
            "rounding on the diagonal sums up",
        ),
        (suspect(same=lambda error: error.tril().max() < 1e-4), "above the diagonal"),
        (lambda ours, theirs: "equal", "a diagonal that agrees"),
        (lambda ours, theirs: "rotation", "two tables that are the same"),
    ],
    "llama_parameters": [
        (parameters(mlp=2), "three matrices"),
        (parameters(norms=1), "two norms, not one"),
        (parameters(norms=0), "Each layer has two norms"),
        (parameters(last=0), "one more norm"),
        (parameters(norms=0, last=0), "norms have weights"),
        (parameters(shared=False), "fewer heads"),
        (parameters(head=True), "count it once"),
        (parameters(head=False), "weights of its own"),
        (parameters(attention=1), "queries, keys, values and output"),
        (parameters(give=lambda n: 2 * n), "your count is"),
        (parameters(give=str), "the count is one number"),
        (
            lambda fields: None if fields["tie_word_embeddings"] else by_shapes(fields),
            "With a tied head: your code gives nothing back",
        ),
        (lambda fields: True, "the count is one number"),
    ],
}

RIGHT = {
    "checkpoint_reader": [
        reader(),
        reader(names=lambda header: header.keys() - {"__metadata__"}),
        reader(names=lambda header: sorted(set(header) - {"__metadata__"})),
        reader(shaped=lambda flat, shape: flat.reshape(*shape)),
        reader(shaped=lambda flat, shape: flat.clone().unflatten(0, shape)),
        reader(give=torch.nn.Parameter),
        ByLibrary,
        Open,
        FromBytes,
        Slowly,
    ],
    "gpt2_projections": [
        thirds(),
        thirds(give=lambda parts: torch.stack(parts, dim=0)),
        thirds(give=lambda parts: torch.cat(parts).unflatten(0, (3, -1))),
        thirds(turn=lambda part: part.t().contiguous()),
        thirds(turn=lambda part: part.transpose(0, 1)),
        thirds(turn=lambda part: part.mT.clone()),
        by_slices,
        lambda weight: weight.T.reshape(3, len(weight), len(weight)),
        lambda weight: weight.T.unflatten(0, (3, -1)),
        lambda weight: torch.stack(torch.split(weight.T, len(weight))),
    ],
    "suspect": [
        suspect(),
        looped,
        by_allclose,
        suspect(same=lambda error: bool((error < 1e-3).all())),
        suspect(diagonal=lambda e: (e * torch.eye(e.shape[-1])).max() < 1e-4),
        suspect(diagonal=lambda e: all(head.diag().max() < 1e-5 for head in e)),
        suspect(error=lambda ours, theirs: (theirs - ours).abs()),
        suspect(error=lambda ours, theirs: (theirs - ours).double().abs()),
        suspect(error=lambda ours, theirs: 10 * (theirs - ours) ** 2),
        suspect(diagonal=lambda e: torch.einsum("hii->hi", e).max() < 1e-4),
    ],
    "llama_parameters": [
        parameters(),
        by_shapes,
        parameters(give=float),
        parameters(give=torch.tensor),
        parameters(give=np.int64),
        lambda fields: parameters()(fields) + 0,
        lambda fields: by_shapes(fields) * 1.0,
        lambda fields: sum([by_shapes(fields)]),
        lambda fields: int(parameters(give=float)(fields)),
        lambda fields: max(parameters()(fields), by_shapes(fields)),
        lambda fields: round(parameters()(fields)),
    ],
}
