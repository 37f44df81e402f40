"""Exercises of chapter 6: layer norm, blocks, and what they add to the stream."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lib.block import TinyBlock
from attention_lib.course.exercises.exercise import Exercise, NumberExercise, Slip, slip
from attention_lib.course.exercises.verdict import Stop, Verdict, make_layer
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded

WIDTH, HIDDEN = 512, 4 * 512
ATTENTION = 4 * WIDTH**2 + WIDTH
MLP = 2 * WIDTH * HIDDEN + HIDDEN + WIDTH
NORMS = 4 * WIDTH
TOTAL = ATTENTION + MLP + NORMS
check_block_parameters = NumberExercise(
    right=TOTAL,
    praise="Attention has 1,049,088, the MLP 2,099,712, and the norms 2,048.",
    mistakes=[
        (ATTENTION, "That is attention alone: what else is in a block?"),
        (MLP, "That is the MLP alone: what else is in a block?"),
        (ATTENTION + MLP, "2,048 are missing: the two norms, each with scale and "
         "shift, or the bias of the MLP's first layer."),
        (TOTAL - NORMS // 2, "Each norm has a scale and a shift: half is missing."),
        (12 * WIDTH**2, "The matrices are right: biases and norms are missing."),
        (12 * WIDTH**2 + NORMS, "The biases of the linear layers are missing."),
        (TOTAL - WIDTH, "The bias of attention's output is missing."),
        (TOTAL - HIDDEN - WIDTH, "The two biases of the MLP are missing."),
        (TOTAL - HIDDEN + WIDTH, "The bias of the MLP's first layer is as long as its "
         "output."),
        (TOTAL + 3 * WIDTH, "Queries, keys and values have no bias here."),
        (TOTAL + 8 * ATTENTION - ATTENTION, "The heads share the width: eight of "
         "them have no more weights than one."),
        (TOTAL - MLP + MLP // 4, "The hidden layer of the MLP is four times as wide."),
    ],
    otherwise="That is not the number: list attention, MLP, both norms and all biases.",
)  # fmt: skip


TOKENS = "The mean runs over the tokens: each token has its own."
DEVIATION = "(variance + 1e-5).sqrt()"
VARIANCE = "x.var(dim=-1, correction=0, keepdim=True)"
check_layer_norm = Exercise(
    solution="""
def my_layer_norm(x, weight, bias):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * weight + bias
""",
    cases=[
        (((2, 3, 4), 3), ""),
        (((2, 3, 4), 0), "This is right for random tokens. For tokens whose numbers "
         "are all alike:"),
        (((2, 3, 4), 0.003), "This is right for large numbers. For tokens that hardly "
         "vary:"),
        (((4,), 3), "This is right for (2, 3, 4). For a single token, (4,):"),
        (((1, 2, 3, 5), 3), "This is right for (2, 3, 4). For (1, 2, 3, 5):"),
    ],
    inputs=lambda shape, spread: (
        # In float32, the mean of the squares less the square of the mean is inexact.
        spread * torch.randn(shape, generator=seeded(0), dtype=torch.float64) + 1,
        *torch.randn(2, shape[-1], generator=seeded(1), dtype=torch.float64),
    ),
    slips=[
        slip("The variance is divided by one less than the count: LayerNorm divides by "
             "the count.", "correction=0", "correction=1"),
        slip(TOKENS, "dim=-1", "dim=1"),
        slip(TOKENS, "dim=-1", "dim=1", "correction=0", "correction=1"),
        slip("The mean runs over the batch: each token has one.", "dim=-1", "dim=0"),
        slip("One mean serves a whole text: each token has one.",
             "dim=-1", "dim=(1, 2)"),
        slip("The mean runs over all tokens of the batch: that is BatchNorm.",
             "dim=-1", "dim=(0, 1)"),
        slip("One mean serves all tokens: each has one.", "dim=-1", "dim=(0, 1, 2)"),
        slip("The mean is not subtracted.", " - mean", ""),
        slip("The mean is not subtracted.", " - mean", "",
             VARIANCE, "x.square().mean(dim=-1, keepdim=True)"),
        slip("Nothing is divided by the standard deviation.", f" / {DEVIATION}", ""),
        slip("This divides by the variance: its root is wanted.", ".sqrt()", ""),
        slip("The weight and the bias are not used.", " * weight + bias", ""),
        slip("The bias is not added.", " + bias", ""),
        slip("The weight is not used.", " * weight", ""),
        slip("Scale first, then shift.", "+ bias", "+ bias * weight"),
        slip("eps is not added.", "+ 1e-5", "+ (variance == 0)"),
        slip("0 is divided by 0: what is eps for?", " + 1e-5", "", overflows=True),
        slip("eps is added to the deviation: it belongs to the variance, under the "
             "root.", DEVIATION, "(variance.sqrt() + 1e-5)"),
    ],
    praise="Your function equals nn.LayerNorm, with eps and any axes.",
)  # fmt: skip

# What is wrong with a pre-norm block, and its two lines, of norms n and m.
PRE = "x = x + attend({n}(x))", "return x + think({m}(x))"
POST = "x = {n}(x + attend(x))", "return {m}(x + think(x))"
POST_NORM = "This is post-norm: it normalises after adding.", *POST
PRE_SLIPS = [
    ("Both norms are still on the stream: what is added to must not be normalised.",
     "x = {n}(x) + attend({n}(x))", "return {m}(x) + think({m}(x))"),
    ("The first norm is still on the stream.",
     "x = {n}(x) + attend({n}(x))", PRE[1]),
    ("The second norm is still on the stream.",
     PRE[0], "return {m}(x) + think({m}(x))"),
    ("There is no norm left: each layer must read through one.",
     "x = x + attend(x)", "return x + think(x)"),
    ("The second norm is missing.", PRE[0], "return x + think(x)"),
    ("The first norm is missing.", "x = x + attend(x)", PRE[1]),
    ("The same norm is used twice.", PRE[0], "return x + think({n}(x))"),
    ("The MLP reads the stream before attention has written to it.",
     "y = x + attend({n}(x))", "return y + think({m}(x))"),
    ("What attention added is lost.",
     "y = x + attend({n}(x))", "return x + think({m}(y))"),
    ("The first plus sign is missing.", "x = attend({n}(x))", PRE[1]),
    ("The second plus sign is missing.", PRE[0], "return think({m}(x))"),
    ("The MLP is missing.", PRE[0], "return x"),
    ("The norms have changed places.",
     "x = x + attend({m}(x))", "return x + think({n}(x))"),
    ("Attention comes first, then the MLP.",
     "x = x + think({m}(x))", "return x + attend({n}(x))"),
]  # fmt: skip


def _lines(
    right: tuple[str, str], slips: list[tuple[str, str, str]], n: str, m: str
) -> list[Slip]:
    """Return slips of two lines of a block, given the names of its norms."""
    first, then = (line.format(n=n, m=m) for line in right)
    return [
        slip(words, first, one.format(n=n, m=m), then, two.format(n=n, m=m))
        for words, one, two in slips
    ]


def _parts() -> tuple[Any, ...]:
    """Return two layers and two norms, all different, and what they read."""
    mixes = torch.randn(2, 3, 3, generator=seeded(0))  # so that order shows
    attend, think = (lambda x, mix=mix: (mix @ x).tanh() for mix in mixes)

    def norm(x: Tensor, weight: float, bias: float) -> Tensor:
        return F.layer_norm(x, x.shape[-1:]) * weight + bias

    norm_1 = partial(norm, weight=2.0, bias=0.5)
    norm_2 = partial(norm, weight=0.5, bias=-1.0)
    return attend, think, norm_1, norm_2, torch.randn(2, 3, 4, generator=seeded(1))


check_pre_norm = Exercise(
    solution="""
def my_block(attend, think, norm_1, norm_2, x):
    x = x + attend(norm_1(x))
    return x + think(norm_2(x))
""",
    cases=[((), "")],
    inputs=_parts,
    slips=_lines(PRE, [POST_NORM, *PRE_SLIPS], "norm_1", "norm_2"),
    praise="Only plus signs are on the stream: this is pre-norm.",
)

SANDWICHED = (
    "The norms are on what is added: that is neither pre-norm nor post-norm.",
    "x = x + {n}(attend(x))",
    "return x + {m}(think(x))",
)
POST_SLIPS = [
    SANDWICHED,
    ("There is no norm left.", "x = x + attend(x)", "return x + think(x)"),
    ("The second norm is missing.", POST[0], "return x + think(x)"),
    ("The first norm is missing.", "x = x + attend(x)", POST[1]),
    ("The same norm is used twice.", POST[0], "return {n}(x + think(x))"),
    ("The MLP must read what the first norm gave.",
     "y = {n}(x + attend(x))", "return {m}(y + think(x))"),
    ("The second plus sign is missing.", POST[0], "return {m}(think(x))"),
    ("The MLP is missing.", POST[0], "return x"),
]  # fmt: skip
OWN_NORMS = "self.attention_norm", "self.feed_forward_norm"
SEEN = torch.ones(4, 4, dtype=torch.bool)
SEEN[3, 1] = SEEN[1, 0] = False


def _block(kind: object, norm: str) -> Any:
    block = make_layer(kind, 6, 2)
    if isinstance(block, Verdict):
        raise Stop(block)
    _unsettle(block)
    vars(block)["norm"] = norm
    return block


def _output(kind: object, x: Tensor, norm: str, mask: Any, causal: bool) -> Any:
    return _block(kind, norm).forward(x, mask, causal=causal)


def _unsettle(module: nn.Module) -> None:
    """Move all weights, so that no norm is the neutral one, or like another."""
    rng = seeded(1)
    for parameter in module.double().eval().requires_grad_(False).parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape, generator=rng))


def _dropped(kind: object, x: Tensor, norm: str, *_: Any) -> str:
    """Say what is wrong with a block's dropout; nothing where it is right."""
    made, block = _block(kind, norm), _block(TinyBlock, norm)
    read: list[Tensor] = []
    for name, layer in made.named_children():  # a class of one's own has other names
        if name in ("attention", "feed_forward"):
            layer.register_forward_pre_hook(lambda _, given: read.extend(given[:1]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for part in made.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.3
        if not torch.allclose(made.forward(x).double(), block(x), atol=1e-5):
            return "In evaluation nothing may be dropped."
        made.train()
        read.clear()
        made.attention_norm = made.feed_forward_norm = nn.Identity()
        many = torch.randn(60, 20, 6, dtype=x.dtype)
        result = made.forward(many)
    if any((given == 0).double().mean() > 0.1 for given in read):
        return "While training, what a layer reads is dropped: drop what it adds."
    unchanged = (result == many.to(result.dtype)).double().mean().item()
    if abs(unchanged - 0.09) < 0.02:
        return ""
    if (result == 0).double().mean() > 0.1:
        return "While training, the stream itself is dropped: drop what is added to it."
    return (
        "While training with a dropout of 0.3, 0.09 of the numbers should pass "
        f"unchanged, but {unchanged:.2f} of them do. Drop what each layer adds, once."
    )


check_tiny_block = Exercise(
    solution="""
class MyBlock(TinyBlock):
    def forward(self, x, mask=None, *, causal=False):
        def attend(h):
            return self.dropout(self.attention(h, mask, causal=causal))

        def think(h):
            return self.dropout(self.feed_forward(h))

        if self.norm == "post":
            x = self.attention_norm(x + attend(x))
            return self.feed_forward_norm(x + think(x))
        x = x + attend(self.attention_norm(x))
        return x + think(self.feed_forward_norm(x))
""",
    cases=[
        ((norm, mask, causal), so_far)
        for norm, so_far in [("pre", ""), ("post", "Pre-norm is right. For post-norm:")]
        for causal in (False, True)
        for mask in (None, SEEN)
    ],
    inputs=lambda *options: (
        torch.randn(2, 4, 6, generator=seeded(2), dtype=torch.float64), *options
    ),
    use=_output,
    fault=_dropped,
    slips=[
        slip("That is post-norm: what is `self.norm`?", 'self.norm == "post"', "True"),
        slip("That is pre-norm: what is `self.norm`?", 'self.norm == "post"', "False"),
        slip("The mask is not passed on to attention.", "(h, mask", "(h, None"),
        slip("`causal` is not passed on to attention.", "causal)", "False)"),
        *_lines(PRE, [SANDWICHED, *PRE_SLIPS], *OWN_NORMS),
        *_lines(POST, POST_SLIPS, *OWN_NORMS),
    ],
    praise="Your block equals the library's, with masks and dropout.",
    names={"TinyBlock": TinyBlock},
)  # fmt: skip


def _stack() -> tuple[Any, ...]:
    """Return three blocks, what they read, and a mask that no layer calls causal."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        blocks = nn.ModuleList(TinyBlock(6, 2) for _ in range(3))
    _unsettle(blocks)
    mask = causal_mask(4)
    mask[3, 1] = False
    x = torch.randn(2, 4, 6, generator=seeded(2), dtype=torch.float64)
    return blocks, x, mask


ADDED = "x = x + context + update"
ROWS = "torch.tensor(rows, dtype=x.dtype)"
check_write_sizes = Exercise(
    solution="""
def write_sizes(blocks, x, mask):
    rows = []
    for block in blocks:
        context = block.attention(block.attention_norm(x), mask)
        update = block.feed_forward(block.feed_forward_norm(x + context))
        x = x + context + update
        rows.append([h.norm(dim=-1).mean().item() for h in [context, update]])
    return torch.tensor(rows, dtype=x.dtype)
""",
    cases=[((), "")],
    inputs=_stack,
    slips=[
        slip("The mask is not used: every block needs it.", "(x), mask)", "(x))"),
        slip("A layer of a pre-norm block reads the normalised stream, not the stream "
             "itself.", "block.attention_norm", "", "block.feed_forward_norm", ""),
        slip("The MLP reads the stream after attention has written to it.",
             "norm(x + context)", "norm(x)"),
        slip("Each layer reads what all before it have added: the stream must grow "
             "from block to block.", "norm(x + context)", "norm(x)", ADDED, ""),
        slip("These are sizes of the stream, not of what is added to it.",
             "[context, update]", "[x - update, x]"),
        slip("Yours is transposed: each row belongs to a block.", ROWS, f"{ROWS}.T"),
        slip("Attention comes first, then the MLP.", ROWS, f"{ROWS}.flip(1)"),
        slip("The length of a vector is the root of the sum of its squares.",
             ROWS, f"{ROWS} ** 2"),
        slip("These are root mean squares: the length of a vector is the root of the "
             "sum of its squares.", ROWS, f"{ROWS} / x.shape[-1] ** 0.5"),
        slip("These are sums over the tokens: take their mean.", ".mean()", ".sum()"),
        slip("This is the length of the whole array: take each token's length, then "
             "their mean.", ".norm(dim=-1).mean()", ".norm()"),
    ],
    praise="These are the sizes of what each layer adds.",
)  # fmt: skip
