"""The checks of chapter 12: each usual mistake is made, and must be named."""

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file

from attention_lib.course.exercises import ch12
from tests.answers import solution

# What readers write: each solution, and below it with pieces of its text replaced.

NAMES, SHAPED = "list(self.header)", 'flat.view(entry["shape"])'
TURNED = 'flat.view(entry["shape"][::-1]).mT if entry["shape"][1:] else flat'
suspect = solution("""
def suspect(ours, theirs):
    error = (ours - theirs).abs()
    if error.max() < 1e-4:
        return "equal"
    diagonal = error.diagonal(dim1=-2, dim2=-1)
    return "rotation" if diagonal.max() < 1e-4 else "other"
""")
CANCEL = "diagonal.max()", "abs(diagonal.sum())"
SAME, PLACES = "error.max() < 1e-4", "diagonal.max() < 1e-4"
thirds, parameters = ch12.check_gpt2_projections.made, ch12.check_llama_parameters.made
reader = ch12.check_checkpoint_reader.made


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


def by_slices(weight):
    width = weight.shape[0]
    return torch.stack([weight[:, i * width : (i + 1) * width].T for i in range(3)])


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


def by_allclose(ours, theirs):
    if torch.allclose(ours, theirs, atol=1e-4):
        return "equal"
    pairs = [each.diagonal(dim1=1, dim2=2) for each in (ours, theirs)]
    return "rotation" if torch.allclose(*pairs, atol=1e-4) else "other"


def by_shapes(fields):
    m, f, v = (fields[k] for k in ("hidden_size", "intermediate_size", "vocab_size"))
    kv = m // fields["num_attention_heads"] * fields["num_key_value_heads"]
    block = [(m, m), (kv, m), (kv, m), (m, m), (f, m), (f, m), (m, f), (m,), (m,)]
    shapes = [(v, m), (m,)] + block * fields["num_hidden_layers"]
    shapes += [] if fields["tie_word_embeddings"] else [(v, m)]
    return sum(torch.Size(shape).numel() for shape in shapes)


MISTAKES = {
    "checkpoint_reader": [
        (reader(NAMES, "(name for name in self.header)"), "empty the second time"),
        (reader('pop("__metadata__", None)', "copy()"), "`__metadata__` is no tensor"),
        (reader(NAMES, "['a.weight']"), "must hold a.weight, b.bias"),
        (reader(NAMES, "3"), "must be a list of names"),
        (reader("torch.bfloat16", "torch.float16"), "stored as another type than flo"),
        (reader(SHAPED, "flat"), "has the shape (3, 4)"),
        (reader(SHAPED, TURNED), "not those of the file"),
        (reader(SHAPED, f"{SHAPED}.tolist()"), "must give a tensor"),
        (reader("little", "big"), "Your code raised"),
        (lambda path: 5, "it must have `names` and `read`"),
        (NamesOnly, "gives nothing back"),
    ],
    "gpt2_projections": [
        (
            lambda w: torch.stack(w.mT.chunk(3, dim=1)[:2]),
            "The shape must be (3, 4, 4)",
        ),
        (thirds(ch12.STACKED, f"{ch12.STACKED}[:2]"), "The shape must be"),
        (thirds(ch12.STACKED, f"{ch12.STACKED}[[1, 2, 0]]"), "look at [0, 0, 0]"),
    ],
    "weight_fault": [
        (suspect(SAME, "error.max() == 0"), "differ by rounding only"),
        (suspect(PLACES, "error[:, 0, 0].max() < 1e-4"), "in one place"),
        (suspect(".abs()", ""), "small change outside"),
        (suspect(SAME, "error[0].max() < 1e-4"), "one head"),
        (suspect(PLACES, "diagonal.max() == 0"), "rounding elsewhere"),
        (
            suspect("rotation", "x", "other", "rotation", '"x"', '"other"'),
            "the answer is “rotation”",
        ),
        (
            suspect('"equal"', "True", '"rotation" if', "False if", '"other"', "False"),
            "must be one of the three words",
        ),
        (suspect("(ours - theirs)", "ours.sub_(theirs)"), "changes the scores"),
        (suspect(PLACES, "True"), "scores that all differ"),
        (
            suspect(".abs()", "", SAME, "error.abs().max() < 1e-4", *CANCEL),
            "whose changes cancel",
        ),
        (suspect(SAME, "error.mean() < 1e-4"), "one score of many"),
        (suspect(PLACES, "diagonal.mean() < 1e-4"), "one place of many"),
        (suspect(PLACES, "diagonal.sum() < 1e-4"), "rounding on the diagonal sums up"),
        (suspect(SAME, "error.tril().max() < 1e-4"), "above the diagonal"),
        (lambda ours, theirs: "equal", "a diagonal that agrees"),
        (lambda ours, theirs: "rotation", "two tables that are the same"),
    ],
    "llama_parameters": [
        (parameters("int(", "2 * int("), "your count is"),
        (parameters("int(", "str("), "the count is one number"),
        (
            lambda fields: None if fields["tie_word_embeddings"] else by_shapes(fields),
            "With a tied head: your code gives nothing back",
        ),
        (lambda fields: True, "the count is one number"),
    ],
}

RIGHT = {
    "checkpoint_reader": [
        reader(NAMES, "self.header.keys()"),
        reader(NAMES, "sorted(self.header)"),
        reader(SHAPED, 'flat.reshape(*entry["shape"])'),
        reader(SHAPED, 'flat.clone().unflatten(0, entry["shape"])'),
        reader(SHAPED, f"nn.Parameter({SHAPED})"),
        ByLibrary,
        Open,
        FromBytes,
        Slowly,
    ],
    "gpt2_projections": [
        thirds(ch12.STACKED, "torch.stack(weight.T.chunk(3))"),
        thirds(ch12.STACKED, "torch.cat(weight.T.chunk(3)).unflatten(0, (3, -1))"),
        thirds("part.T", "part.t().contiguous()"),
        thirds("part.T", "part.transpose(0, 1)"),
        thirds("part.T", "part.mT.clone()"),
        by_slices,
        lambda weight: weight.T.reshape(3, len(weight), len(weight)),
        lambda weight: weight.T.unflatten(0, (3, -1)),
        lambda weight: torch.stack(torch.split(weight.T, len(weight))),
    ],
    "weight_fault": [
        suspect(),
        looped,
        by_allclose,
        suspect(SAME, "bool((error < 1e-3).all())"),
        suspect(PLACES, "(error * torch.eye(error.shape[-1])).max() < 1e-4"),
        suspect(PLACES, "all(head.diag().max() < 1e-5 for head in error)"),
        suspect("ours - theirs", "theirs - ours"),
        suspect("(ours - theirs)", "(theirs - ours).double()"),
        suspect("(ours - theirs).abs()", "10 * (theirs - ours) ** 2"),
        suspect(PLACES, "torch.einsum('hii->hi', error).max() < 1e-4"),
    ],
    "llama_parameters": [
        by_shapes,
        parameters("int(", "float("),
        parameters("int(", "torch.tensor("),
        parameters("int(", "np.int64("),
        lambda fields: parameters()(fields) + 0,
        lambda fields: by_shapes(fields) * 1.0,
        lambda fields: sum([by_shapes(fields)]),
        lambda fields: int(parameters("int(", "float(")(fields)),
        lambda fields: max(parameters()(fields), by_shapes(fields)),
        lambda fields: round(parameters()(fields)),
    ],
}
