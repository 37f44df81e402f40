"""Bugs in projections and heads."""

from attention_lib.course.museum.bug import Bug

HEAD_BUGS = (
    Bug(
        "split without a transpose",
        "layer",
        """\
class Layer(Heads):
    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, self.num_heads, length, width // self.num_heads)
""",
        (
            (
                "x.reshape(batch, self.num_heads, length, width // self.num_heads)",
                "x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)",
            ),
        ),
        "Shapes are right and the loss falls. A causal model cheats.",
        ("future", "formula", "cache"),
        "reczoo/FuxiCTR#30",
        ("loss falls too fast", "right shapes, wrong numbers"),
        "A head gets whole tokens of a part of the text, not its part of each token.",
    ),
    Bug(
        "merge without a transpose",
        "layer",
        """\
class Layer(Heads):
    def merge(self, context):  # (B, H, T, D)
        batch, heads, length, width = context.shape
        return context.reshape(batch, length, heads * width)
""",
        (
            (
                "context.reshape(batch, length, heads * width)",
                "context.transpose(1, 2).reshape(batch, length, heads * width)",
            ),
        ),
        "A simple task is learned all the same, so the test that trains passes.",
        ("future", "formula"),
        "jsbaan/transformer-from-scratch#6",
        ("loss falls too fast", "right shapes, wrong numbers"),
        "The outputs of one head for many tokens are taken for all heads of one token.",
    ),
    Bug(
        "scaled by the model's width",
        "layer",
        """\
class Layer(Heads):
    def scores(self, query, key):
        width = self.q_proj.in_features
        return query @ key.mT / width**0.5
""",
        (("self.q_proj.in_features", "query.shape[-1]"),),
        "None in training. With the weights of a published model, the text is duller.",
        ("formula",),
        "karpathy/ng-video-lecture#6",
        ("right shapes, wrong numbers",),
        "Scores are sums over a head's width, so this width belongs under the root.",
    ),
    Bug(
        "divided by what should multiply",
        "layer",
        """\
class Layer(Heads):
    def scores(self, query, key):
        scale = query.shape[-1] ** -0.5
        return query @ key.mT / scale
""",
        (("/ scale", "* scale"),),
        "The largest weight is near 1 from the start, and learning is slow.",
        ("formula",),
        "esceptico/perceiver-io#9",
        ("right shapes, wrong numbers", "loss stays too high"),
        "The scale is 1/√D already: dividing by it makes scores larger.",
    ),
    Bug(
        "heads are averaged",
        "layer",
        """\
class Layer(Heads):
    def merge(self, context):  # (B, H, T, D)
        mean = context.mean(dim=1)
        return mean.repeat(1, 1, self.num_heads)
""",
        (
            ("mean = context.mean(dim=1)", "own = context.transpose(1, 2)"),
            ("mean.repeat(1, 1, self.num_heads)", "own.flatten(start_dim=2)"),
        ),
        "More heads do not help.",
        ("formula",),
        "E",
        ("right shapes, wrong numbers", "loss stays too high"),
        "Heads were treated as an ensemble; they are placed side by side and mixed.",
    ),
    Bug(
        "split first, then projected",
        "layer",
        """\
class Layer(Heads):
    def __init__(self, d_model=12, num_heads=3):
        super().__init__(d_model, num_heads)
        width = d_model // num_heads
        self.q_proj = nn.Linear(width, width, bias=False)
    def project(self, x):
        query = self.q_proj(self.split(x))  # (B, H, T, D)
        return query, self.split(self.k_proj(x)), self.split(self.v_proj(x))
""",
        (
            ("nn.Linear(width, width,", "nn.Linear(d_model, d_model,"),
            ("self.q_proj(self.split(x))", "self.split(self.q_proj(x))"),
        ),
        "The layer has fewer parameters than the paper's.",
        ("inner width",),
        "B",
        ("right shapes, wrong numbers", "loss stays too high"),
        "A head's queries see only its own slice of the input: a block-diagonal "
        "projection.",
    ),
    Bug(
        "a width not divisible by the number of heads",
        "layer",
        """\
class Layer(Heads):
    def __init__(self, d_model=13, num_heads=3):
        super().__init__(d_model, num_heads)
        inner = num_heads * (d_model // num_heads)
        for name in ["q_proj", "k_proj", "v_proj"]:
            setattr(self, name, nn.Linear(d_model, inner, bias=False))
        self.out_proj = nn.Linear(inner, d_model)
""",
        (("d_model=13", "d_model=12"),),
        "No error. The heads are narrower than the configuration says.",
        ("inner width",),
        "D",
        ("right shapes, wrong numbers",),
        "Whole-number division drops the rest: 13 over 3 heads is a width of 12.",
        former="a width that heads do not divide",
    ),
    Bug(
        "heads in a plain list",
        "variant",
        """\
class Layer(Heads):
    def __init__(self, d_model=12, num_heads=3):
        super().__init__(d_model, num_heads)
        del self.v_proj
        width = d_model // num_heads
        self.values = [nn.Linear(d_model, width, bias=False) for _ in range(num_heads)]
    def project(self, x):
        value = torch.stack([one(x) for one in self.values], dim=1)
        return self.split(self.q_proj(x)), self.split(self.k_proj(x)), value
""",
        (
            (
                "[nn.Linear(d_model, width, bias=False) for _ in range(num_heads)]",
                "nn.ModuleList(nn.Linear(d_model, width, bias=False) "
                "for _ in range(num_heads))",
            ),
        ),
        "The loss stops falling early. After loading a checkpoint the model is "
        "different.",
        ("gradients", "half precision"),
        "pytorch/pytorch#666",
        ("some weights never change", "loss stays too high"),
        "A module does not find layers inside of a Python list: no optimizer, no "
        "device and no checkpoint gets them.",
    ),
    Bug(
        "fused projection cut in the wrong order",
        "layer",
        """\
class Layer(Heads):
    def project(self, x):
        own = [self.q_proj, self.k_proj, self.v_proj]
        parts = zip(*(linear.weight.chunk(3) for linear in own))
        fused = torch.cat([torch.cat(head) for head in parts])  # head by head: q, k, v
        query, key, value = F.linear(x, fused).chunk(3, dim=-1)
        return self.split(query), self.split(key), self.split(value)
""",
        (
            (
                "query, key, value = F.linear(x, fused).chunk(3, dim=-1)",
                "whole = F.linear(x, fused).unflatten(-1, (3, 3, -1))",
            ),
            (
                "return self.split(query), self.split(key), self.split(value)",
                "return tuple(whole.permute(3, 0, 2, 1, 4))",
            ),
        ),
        "A published model generates fluent nonsense. No shape is wrong.",
        ("formula",),
        "lablup/mlxcel#928",
        ("good loss, poor text", "right shapes, wrong numbers"),
        "The rows are grouped by head, (q, k, v) each, and were split as if all "
        "queries came first.",
    ),
    Bug(
        "KV heads interleaved, not grouped",
        "grouped",
        """\
class Layer(GroupedHeads):
    def share(self, x):  # (B, 2, T, D) -> (B, 4, T, D)
        return x.repeat(1, 2, 1, 1)
""",
        (("x.repeat(1, 2, 1, 1)", "x.repeat_interleave(2, dim=1)"),),
        "A model trained this way is fine. A published one generates nonsense.",
        ("formula",),
        "onnx/onnx#7274",
        ("good loss, poor text", "right shapes, wrong numbers"),
        "Query heads 0 and 1 share the first key head; tiled, heads 0 and 2 do.",
        former="shared keys in turn, not in groups",
    ),
    Bug(
        "the seed is set inside",
        "start",
        """\
class Layer(Heads):
    def __init__(self, d_model=12, num_heads=3):
        torch.manual_seed(0)
        super().__init__(d_model, num_heads)

def start():
    return [Layer(), Layer()]
""",
        (("torch.manual_seed(0)", "pass  # the caller seeds, once"),),
        "Results repeat perfectly. All layers of the model begin as copies of one "
        "another.",
        ("fresh start",),
        "C",
        ("some weights never change",),
        "Each layer sets the seed again, and so draws the same numbers.",
    ),
    Bug(
        "no value projection",
        "layer",
        """\
class Layer(Heads):
    def project(self, x):
        query, key = self.q_proj(x), self.k_proj(x)
        return self.split(query), self.split(key), self.split(x)
""",
        (("self.split(x)\n", "self.split(self.v_proj(x))\n"),),
        "The optimizer holds a weight that never changes.",
        ("gradients", "formula"),
        "B",
        ("some weights never change", "right shapes, wrong numbers"),
        "The sum mixes the inputs themselves. The projection exists, but nobody calls "
        "it.",
    ),
    Bug(
        "keys shaped with the query's length",
        "layer",
        """\
class Layer(Heads):
    def attend(self, query, key, value, mask):
        batch, heads, length, width = query.shape
        key = key.reshape(batch, heads, length, width)
        value = value.reshape(batch, heads, length, width)
        return super().attend(query, key, value, mask)
""",
        (
            ("key = key.reshape(batch, heads, length, width)", "total = key.shape[-2]"),
            (
                "value.reshape(batch, heads, length, width)",
                "value.reshape(batch, heads, total, width)",
            ),
        ),
        "Self-attention works. Cross-attention and a cache end in an error about "
        "shapes.",
        ("cache",),
        "A",
        ("fails at another length",),
        "Keys have a different length as soon as they are not those of the queries.",
    ),
    Bug(
        "batch and time exchanged",
        "variant",
        """\
class Layer(nn.Module):
    def __init__(self, d_model=12, num_heads=3):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=False)
    def forward(self, x, *, causal=False):
        length = x.shape[1 if self.inner.batch_first else 0]
        hidden = ~causal_mask(length) if causal else None
        return self.inner(x, x, x, attn_mask=hidden, need_weights=False)[0]
""",
        (("batch_first=False", "batch_first=True"),),
        "With one text per batch, the words of a text know nothing of each other. With "
        "several, texts of a batch change each other.",
        ("batch", "future"),
        "om-ai-lab/OmDet#19",
        ("answer depends on the batch", "loss stays too high"),
        "`nn.MultiheadAttention` takes (T, B, M) by default, so it attends across the "
        "batch.",
    ),
)
