"""Bugs in numerics: overflow, rounding, changes in place."""

from attention_lib.course.museum.bug import Bug

NUMBER_BUGS = (
    Bug(
        "dropout that never stops",
        "layer",
        """\
class Layer(Heads):
    def attend(self, query, key, value, mask):
        return F.scaled_dot_product_attention(
            query, key, value, mask,
            dropout_p=0.1,
        )
""",
        (("dropout_p=0.1", "dropout_p=0.1 if self.training else 0.0"),),
        "In evaluation mode, the same input has a different output at each call.",
        ("deterministic",),
        "huggingface/pytorch-image-models#1978",
        ("same text, different answer",),
        "The function cannot know whether the layer trains: it drops whenever it gets "
        "a probability.",
    ),
    Bug(
        "the input is normalised in place",
        "variant",
        """\
class Layer(Heads):
    def forward(self, x, mask=None, *, causal=False, cache=None):
        size = x.norm(dim=-1, keepdim=True) / x.shape[-1] ** 0.5
        x = x.div_(size + 1e-6)
        return super().forward(x, mask, causal=causal, cache=cache)
""",
        (("x.div_(size + 1e-6)", "x / (size + 1e-6)"),),
        "The residual stream loses its size. Calling a layer changes the caller's "
        "tensor.",
        ("deterministic",),
        "GeeeekExplorer/nano-vllm#170",
        ("same text, different answer", "loss stays too high"),
        "The underscore at the end: the input tensor is overwritten.",
    ),
    Bug(
        "softmax without subtracting the maximum",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        parts = scores.exp() * mask
        return parts / parts.sum(dim=-1, keepdim=True).clamp(min=1e-30)
""",
        (
            (
                "parts = scores.exp() * mask",
                "scores = scores.where(mask, torch.finfo(scores.dtype).min)\n"
                "        scores = scores - scores.amax(dim=-1, keepdim=True)\n"
                "        parts = scores.exp() * mask",
            ),
        ),
        "All tests pass. One day a score is large, and everything is nan.",
        ("large scores",),
        "ollama/ollama#9631",
        ("nan after some steps",),
        "exp(89) is infinite in float32. Less the largest score, no score is above 0.",
        former="softmax without the largest score",
    ),
    Bug(
        "scores in half precision",
        "layer",
        """\
class Layer(Heads):
    def scores(self, query, key):
        query, key = query.to(torch.float16), key.to(torch.float16)
        scores = query @ key.mT
        return (scores / query.shape[-1] ** 0.5).to(self.out_proj.weight.dtype)
""",
        (
            (
                "query, key = query.to(torch.float16), key.to(torch.float16)",
                "query, key = query.double(), key.double()",
            ),
        ),
        "The loss is nan after some hundred steps in float16, and never in float32.",
        ("large scores", "formula"),
        "D",
        ("nan after some steps", "half precision only"),
        "float16 ends at 65,504: products that are scaled only afterwards overflow.",
    ),
    Bug(
        "normalised over the text",
        "variant",
        """\
class Layer(Heads):
    def forward(self, x, mask=None, *, causal=False, cache=None):
        x = F.layer_norm(x, x.shape[1:])
        return super().forward(x, mask, causal=causal, cache=cache)
""",
        (("x.shape[1:]", "x.shape[2:]"),),
        "A causal model is too good, and changes as soon as the text is longer.",
        ("future", "padding", "cache"),
        "patrick-kidger/equinox#471",
        (
            "loss falls too fast",
            "fails at another length",
            "different text with the cache",
        ),
        "Mean and variance are taken over the tokens, too: every token knows something "
        "of all others.",
    ),
    Bug(
        "normalised over the batch",
        "variant",
        """\
class Layer(Heads):
    def forward(self, x, mask=None, *, causal=False, cache=None):
        size, mean = torch.std_mean(x, dim=0, correction=0, keepdim=True)
        x = (x - mean) / (size + 1e-6)
        return super().forward(x, mask, causal=causal, cache=cache)
""",
        (
            (
                "dim=0,",
                "dim=-1,",
            ),
        ),
        "A text gets a different answer in a different batch. Alone it gets almost "
        "nothing.",
        ("batch",),
        "Kyubyong/transformer#40",
        ("answer depends on the batch",),
        "The statistics are those of the batch, where layer normalisation takes those "
        "of each token.",
    ),
    Bug(
        "the last tile is filled with zeros",
        "layer",
        """\
class Layer(Heads):
    def attend(self, query, key, value, mask):
        extra = -key.shape[-2] % 4  # tiles of 4 keys
        key, value = (F.pad(x, (0, 0, 0, extra)) for x in (key, value))
        mask = F.pad(mask, (0, extra), value=True)
        return super().attend(query, key, value, mask)
""",
        (("value=True", "value=False"),),
        "Right at lengths of 64, 128, 256. Wrong at 100, and only a little.",
        ("formula",),
        "flashinfer-ai/flashinfer#5090",
        ("fails at another length", "right shapes, wrong numbers"),
        "A key of zeros has the score 0, not -inf, so it takes a part of the weight.",
    ),
)
