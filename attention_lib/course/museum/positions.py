"""Bugs in positions, with and without a cache."""

from attention_lib.course.museum.bug import Bug

PLACE_BUGS = (
    Bug(
        "each new token is at position 0",
        "rotary",
        """\
class Layer(RotaryHeads):
    def encode_positions(self, query, key, start):
        positions = torch.arange(query.shape[-2])
        angles = self.angles(positions, query)
        return self.rotate(query, angles), self.rotate(key, angles)
""",
        (("torch.arange(query.shape[-2])", "start + torch.arange(query.shape[-2])"),),
        "The first new token is right. After it the text falls apart.",
        ("cache",),
        "Blaizzy/mlx-vlm#1983",
        ("different text with the cache",),
        "With a cache the layer gets one token per call, and counts it as the first.",
    ),
    Bug(
        "the offset counts one too many",
        "rotary",
        """\
class Layer(RotaryHeads):
    def encode_positions(self, query, key, start):
        if start > 0:
            start = start + query.shape[-2]
        return super().encode_positions(query, key, start)
""",
        (("start + query.shape[-2]", "start"),),
        "With a cache, the text differs after some words.",
        ("cache",),
        "fla-org/flash-linear-attention#766",
        ("different text with the cache",),
        "The count of tokens was raised before the layer asked for it.",
    ),
    Bug(
        "halves stored, pairs rotated",
        "rotary",
        """\
class Layer(RotaryHeads):
    def rotate(self, x, angles):
        return apply_rope(x, angles, layout="interleaved")
""",
        (('layout="interleaved"', 'layout="half"'),),
        "A converted checkpoint generates gibberish. A model trained from scratch is "
        "fine.",
        ("rotary",),
        "jzhang38/TinyLlama#24",
        ("good loss, poor text", "right shapes, wrong numbers"),
        "Two conventions define which coordinates rotate together. The weights know "
        "only one.",
        former="pairs turned as halves are stored",
    ),
    Bug(
        "angles in bfloat16",
        "rotary",
        """\
class Layer(RotaryHeads):
    def angles(self, positions, like):
        positions = positions.to(torch.bfloat16).double()
        return rope_angles(positions, like.shape[-1])
""",
        (("positions.to(torch.bfloat16).double()", "positions.double()"),),
        "Fine for short texts. Far into a long one, neighbours cannot be "
        "distinguished.",
        ("far positions",),
        "EleutherAI/gpt-neox#1003",
        ("half precision only", "fails at another length"),
        "bfloat16 has 8 bits: above 256 it has no odd numbers.",
    ),
    Bug(
        "positions along the batch",
        "places",
        """\
class Places(nn.Module):
    def forward(self, x):  # (B, T, M)
        table = sinusoidal_positions(x.shape[0], x.shape[-1])
        return x + table[:, None].to(x.dtype)
""",
        (
            ("x.shape[0], x", "x.shape[1], x"),
            ("table[:, None]", "table[None]"),
        ),
        "Order does not matter to the model. The position of a text in its batch does.",
        ("sees the order", "same for all texts"),
        "songyangco/GETNext#2",
        ("answer depends on the batch", "loss stays too high"),
        "A table made for (T, B, M) is added to (B, T, M).",
    ),
    Bug(
        "one position for all tokens",
        "places",
        """\
class Places(nn.Module):
    def forward(self, x):  # (B, T, M)
        table = sinusoidal_positions(100, x.shape[-1])[None]
        return x + table[:, x.shape[1]].to(x.dtype)
""",
        (("table[:, x.shape[1]]", "table[:, : x.shape[1]]"),),
        "Order does not matter to the model, though positions are added.",
        ("sees the order",),
        "DiffPoseTalk/DiffPoseTalk#20",
        ("loss stays too high",),
        "A colon is missing: one row of the table is taken, not the first rows.",
    ),
    Bug(
        "positions past the table repeat",
        "places",
        """\
class Places(nn.Module):
    def forward(self, x):  # (B, T, M)
        table = sinusoidal_positions(8, x.shape[-1]).to(x.dtype)
        position = torch.arange(x.shape[1]).clamp(max=7)
        return x + table[position]
""",
        (("torch.arange(x.shape[1]).clamp(max=7)", "torch.arange(x.shape[1])"),),
        "Long texts become repetitive, without any error.",
        ("refuses what is too long",),
        "D",
        ("fails at another length",),
        "All tokens beyond the table share its last row, where an error belongs.",
        former="positions end silently",
    ),
    Bug(
        "an odd width",
        "table",
        """\
def table(length, width):
    position = torch.arange(length)[:, None]
    speed = 10_000.0 ** (-torch.arange(0, width, 2) / width)
    waves = torch.zeros(length, width)
    waves[:, 0::2] = (position * speed).sin()
    waves[:, 1::2] = (position * speed).cos()
    return waves
""",
        (("(position * speed).cos()", "(position * speed).cos()[:, : width // 2]"),),
        "An error about shapes, for one configuration out of many.",
        ("positions",),
        "C",
        ("fails at another length",),
        "An odd width has one sine more than cosines.",
    ),
    Bug(
        "slopes that begin at 1",
        "slopes",
        """\
def slopes(num_heads):
    head = torch.arange(num_heads)
    return 2.0 ** (-8 * head / num_heads)
""",
        (("torch.arange(num_heads)", "torch.arange(1, num_heads + 1)"),),
        "A published model generates stiff text: its heads attend too near.",
        ("slopes",),
        "paiml/aprender#2143",
        ("good loss, poor text", "right shapes, wrong numbers"),
        "The first head's slope is 2^(-8/H), not 1: heads count from 1 in the formula.",
    ),
    Bug(
        "slopes for a number of heads that is no power of 2",
        "more slopes",
        """\
def slopes(num_heads):
    near = 2 ** math.floor(math.log2(num_heads))
    own = 2.0 ** (-8 * torch.arange(1, near + 1) / near)
    more = 2.0 ** (-4 * torch.arange(1, 2 * near + 1, 2) / near)
    if True:
        own = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    return torch.cat([own, more])[:num_heads]
""",
        (("if True:", "if near == num_heads:"),),
        "Right with 8 or 16 heads. A published model with 12 heads generates poor "
        "text.",
        ("slopes",),
        "ml-explore/mlx#343",
        ("good loss, poor text", "right shapes, wrong numbers"),
        "The published models take the slopes of 8 heads, then every second one of 16.",
    ),
)
