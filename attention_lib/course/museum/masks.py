"""Bugs in masks: which query may attend to which key."""

from attention_lib.course.museum.bug import Bug

MASK_BUGS = (
    Bug(
        "triangle upside down",
        "layer",
        """\
class Layer(Heads):
    def visible(self, mask, causal, query, key):
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
        if causal:
            seen = seen.triu()
        return seen if mask is None else seen & add_head_axis(mask)
""",
        (("seen.triu()", "seen.tril(key.shape[-2] - query.shape[-2])"),),
        "Training goes well from the first step. The text that the model generates is "
        "nonsense.",
        ("future", "cache"),
        "C",
        ("loss falls too fast", "good loss, poor text"),
        "The upper triangle is allowed: each token sees itself and what comes after.",
    ),
    Bug(
        "True means hidden",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        low = torch.finfo(scores.dtype).min
        return scores.where(~mask, low).softmax(dim=-1) * ~mask
""",
        (
            ("scores.where(~mask, low)", "scores.where(mask, low)"),
            ("* ~mask", "* mask"),
        ),
        "After a change from one attention function to another the loss is far too "
        "low, and padding changes the answers.",
        ("future", "padding"),
        "rasbt/LLMs-from-scratch#1061",
        ("loss falls too fast", "answer depends on the batch"),
        "One library's mask marks keys that may be seen, the other's keys that may "
        "not.",
    ),
    Bug(
        "mask after the softmax",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        weights = scores.softmax(dim=-1)
        return weights * mask
""",
        (
            (
                "weights = scores.softmax(dim=-1)",
                "low = torch.finfo(scores.dtype).min\n"
                "        weights = scores.where(mask, low).softmax(dim=-1)",
            ),
        ),
        "Rows of weights do not sum to 1, and early tokens have small outputs. The "
        "loss is a little too low.",
        ("future", "padding"),
        "huggingface/pytorch-image-models#2236",
        ("loss falls too fast", "answer depends on the batch"),
        "Hidden keys take part in the sum that all weights are divided by.",
    ),
    Bug(
        "mask of 0 and 1 is added",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        return (scores + mask.to(scores.dtype)).softmax(dim=-1)
""",
        (
            (
                "(scores + mask.to(scores.dtype)).softmax(dim=-1)",
                "scores.where(mask, torch.finfo(scores.dtype).min)"
                ".softmax(dim=-1) * mask",
            ),
        ),
        "The mask seems to do something, for outputs change with it. Yet the loss is "
        "far too low.",
        ("future", "padding", "empty rows"),
        "pytorch/pytorch#21518",
        ("loss falls too fast", "answer depends on the batch"),
        "Adding 1 where a key may be seen makes hidden keys a little less likely: no "
        "more.",
    ),
    Bug(
        "padding hides rows, not columns",
        "layer",
        """\
class Layer(Heads):
    def visible(self, mask, causal, query, key):
        if mask is not None:  # (B, 1, K) or (B, Q, K)
            mask = mask.mT
        return super().visible(mask, causal, query, key)
""",
        (("mask = mask.mT", "pass  # keys are columns, as they came"),),
        "A text in a batch gets different answers from the same text alone.",
        ("padding",),
        "keras-team/keras-io#1046",
        ("answer depends on the batch",),
        "Padding is switched off as queries; as keys it still gets attention.",
    ),
    Bug(
        "an empty row gives nan",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(dim=-1)
""",
        (
            ("-math.inf", "torch.finfo(scores.dtype).min"),
            ("scores.softmax(dim=-1)", "scores.softmax(dim=-1) * mask"),
        ),
        "With padding on the left, or one empty text in a batch, the loss is nan.",
        ("empty rows",),
        "pytorch/pytorch#41508",
        ("nan after some steps",),
        "A row without any allowed key is a softmax of -inf only: 0 divided by 0.",
    ),
    Bug(
        "an empty row takes everything",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        scores = scores.masked_fill(~mask, -1e9)
        return scores.softmax(dim=-1)
""",
        (
            ("-1e9", "torch.finfo(scores.dtype).min"),
            ("scores.softmax(dim=-1)", "scores.softmax(dim=-1) * mask"),
        ),
        "Nothing is nan. But tokens with nothing to attend to carry the average of "
        "the padding into the next layer.",
        ("empty rows",),
        "NVIDIA/apex#1390",
        ("answer depends on the batch",),
        "All scores of an empty row are equally low, so all hidden keys get the same "
        "weight.",
    ),
    Bug(
        "the padding mask is dropped",
        "layer",
        """\
class Layer(Heads):
    def visible(self, mask, causal, query, key):
        if causal:
            mask = causal_mask(query.shape[-2], key.shape[-2])
        return super().visible(mask, causal, query, key)
""",
        (
            (
                "mask = causal_mask(query.shape[-2], key.shape[-2])",
                "pass  # the line below adds it to the mask",
            ),
        ),
        "With a causal model nobody notices while padding is on the right. On the "
        "left it changes the answers.",
        ("padding",),
        "D",
        ("answer depends on the batch",),
        "The causal mask replaces the given mask: both should hold.",
    ),
    Bug(
        "soft cap after the mask",
        "variant",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        low = torch.finfo(scores.dtype).min
        scores = scores.where(mask, low)
        scores = 5 * torch.tanh(scores / 5)
        return scores.softmax(dim=-1) * mask.any(dim=-1, keepdim=True)
""",
        (
            ("scores = scores.where(mask, low)", "capped = 5 * torch.tanh(scores / 5)"),
            ("scores = 5 * torch.tanh(scores / 5)", "scores = capped.where(mask, low)"),
        ),
        "The loss is slightly too low, and a later word changes an earlier output a "
        "little.",
        ("future", "padding"),
        "onnx/onnx#7865",
        ("loss falls too fast",),
        "The cap lifts the score of a hidden key from the lowest number to -5, and its "
        "weight above 0.",
    ),
    Bug(
        "softmax along the queries",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        scores = scores.where(mask, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-2) * mask
""",
        (("dim=-2", "dim=-1"),),
        "It trains, and nobody notices for years. Adding a word at the end changes "
        "every output.",
        ("future", "formula"),
        "labmlai/annotated_deep_learning_paper_implementations#146",
        ("loss falls too fast", "right shapes, wrong numbers"),
        "The weights of each key sum to 1 over the queries, where those of each query "
        "should over the keys.",
    ),
    Bug(
        "triangle at the top left",
        "layer",
        """\
class Layer(Heads):
    def visible(self, mask, causal, query, key):
        seen = super().visible(mask, False, query, key)
        length, total = query.shape[-2], key.shape[-2]
        triangle = torch.ones(length, total, dtype=torch.bool)
        triangle = triangle.tril()
        return seen & triangle if causal else seen
""",
        (("triangle.tril()", "triangle.tril(total - length)"),),
        "Without a cache all is well. With one, new tokens see the first word only.",
        ("cache",),
        "pytorch/pytorch#144858",
        ("different text with the cache",),
        "A query at the end of many keys is treated as if it were at the first.",
    ),
    Bug(
        "window one token too wide",
        "window",
        """\
class Layer(Heads):
    window = 4
    def visible(self, mask, causal, query, key):
        near = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
        shift = key.shape[-2] - query.shape[-2]
        near = near.tril(shift).triu(shift - self.window)
        return near if mask is None else near & add_head_axis(mask)
""",
        (("shift - self.window", "shift - self.window + 1"),),
        "A published model gives almost the right text. It goes astray only after as "
        "many words as the window holds.",
        ("window",),
        "ml-explore/mlx-lm#390",
        ("right shapes, wrong numbers", "fails at another length"),
        "The own position counts: a window of 4 reaches back 3.",
        former="window of one too many",
    ),
    Bug(
        "masks in a different order from the heads",
        "layer",
        """\
class Layer(Heads):
    def attend(self, query, key, value, mask):
        batch, heads = query.shape[:2]
        mask = mask.expand(batch, 1, query.shape[-2], key.shape[-2])[:, 0]
        mask = mask.repeat(heads, 1, 1)
        mask = mask.unflatten(0, (batch, heads))
        return self.weights(self.scores(query, key), mask) @ value
""",
        (
            (
                "mask.repeat(heads, 1, 1)",
                "mask.repeat_interleave(heads, dim=0)",
            ),
        ),
        "Each text alone is right. In a batch, some heads use the padding mask of a "
        "different text.",
        ("padding",),
        "lsdefine/attention-is-all-you-need-keras#36",
        ("answer depends on the batch",),
        "Heads of one text are side by side; the masks were laid out text by text.",
        former="masks in another order than heads",
    ),
    Bug(
        "the sum begins at the own position",
        "layer",
        """\
class Layer(Heads):
    def weights(self, scores, mask):
        scores = scores.where(mask, torch.finfo(scores.dtype).min)
        parts = (scores - scores.amax(dim=-1, keepdim=True)).exp() * mask
        places = torch.ones_like(scores).triu(scores.shape[-1] - scores.shape[-2])
        return parts / (parts * places).sum(dim=-1, keepdim=True).clamp(min=1e-30)
""",
        (("(parts * places).sum", "parts.sum"),),
        "Weights above 1, and outputs that explode with the length.",
        ("formula",),
        "E",
        ("right shapes, wrong numbers", "loss stays too high"),
        "The formula was copied with a sum from k = i instead of over all keys.",
    ),
)
