"""Exercises of chapter 2: a projection, what a head looks for, and a trainable head."""

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import Exercise, LayerExercise, slip
from attention_lib.course.exercises.shared import as_number
from attention_lib.course.exercises.verdict import Verdict, make_layer, run
from attention_lib.reproducibility import seeded

PRODUCT = 'torch.einsum("...i,oi->...o", x, w)'
ACROSS = "The weight is on the left: it mixes positions, not features."
check_linear = Exercise(
    solution="""
def my_linear(x, w, b):
    return torch.einsum("...i,oi->...o", x, w) + b
""",
    cases=[  # square, so that a weight that is not transposed gives no error
        (((2, 3, 3), 3), ""),
        (((2, 3, 3), 2), "This is right for a square weight. For one of shape (2, 3):"),
        (((3, 3), 3), "This is right for three axes. For x of shape (3, 3):"),
        (((1, 2, 3, 3), 3), "This is right for three axes. For x of shape (1, 2, 3, "
         "3):"),
    ],
    inputs=lambda shape, width: (
        torch.randn(shape, generator=seeded(0)),
        torch.randn(width, 3, generator=seeded(1)),
        torch.randn(width, generator=seeded(2)),
    ),
    slips=[
        slip("The weight is not transposed: its shape is (out, in).", "oi->", "io->"),
        slip("The weight is not transposed, and the bias is missing.",
             "oi->", "io->", " + b", ""),
        slip("The bias is missing.", " + b", ""),
        slip("The bias is subtracted.", "+ b", "- b"),
        slip("The bias comes before the product, not after.",
             " x, w) + b", " x + b, w)"),
        slip("The bias changes by position, not by feature.", "+ b", "+ b[:, None]"),
        slip(ACROSS, PRODUCT, "w @ x"),
        slip(ACROSS, PRODUCT, "w.T @ x"),
        slip("This multiplies number by number: nothing is summed.", PRODUCT, "x * w"),
    ],
    praise="Your function equals nn.Linear, for all widths and axes in front.",
)  # fmt: skip


LETTERS, DIGITS = 8, 10


def _trained(step: int, wrong: int | None) -> tuple[Tensor, Tensor]:
    """Return ``q_proj`` and ``k_proj`` of a head that looks ``step`` letters further.

    Two questions may look for the same letter, and one of them is wrong. Digits of keys
    count more than letters: in the question they are 0.
    """
    rng, exact = seeded(1), torch.float64
    query, key = torch.randn(2, 12, LETTERS + DIGITS, generator=rng, dtype=exact)
    ways = torch.linalg.qr(query).Q[:, :LETTERS]
    asks = [(i + (i == wrong)) % LETTERS for i in range(LETTERS)]
    query[:, :LETTERS] = ways[:, asks]
    key[:, :LETTERS] = ways.roll(step, dims=1) / 4 + key[:, :LETTERS] / 80
    return query, 20 * key


MATCH, LETTER = "q_weight.T @ k_weight", "match[:LETTERS, :LETTERS]"
STEPS, MODE = "(best - torch.arange(LETTERS)) % LETTERS", "steps.mode().values"
BACK = (
    "That leads from the key back to the question. Count from the question's letter: "
    "how far on is the key's?"
)
check_step_finder = Exercise(
    solution="""
def my_step(q_weight, k_weight):
    match = q_weight.T @ k_weight  # (M, M)
    best = match[:LETTERS, :LETTERS].argmax(dim=-1)
    steps = (best - torch.arange(LETTERS)) % LETTERS
    return steps.mode().values.item()
""",
    cases=[
        ((3, None), ""),
        ((6, None), "Right for one head. For another:"),
        ((1, 0), "Right where a head is right for all letters. Where it is wrong for "
         "one:"),
        ((5, 7), "Right where a head is wrong for *a*. Where it is wrong for *h*:"),
    ],
    inputs=_trained,
    use=as_number,
    names={"LETTERS": LETTERS},
    slips=[
        slip(BACK, MATCH, "k_weight.T @ q_weight"),
        slip(BACK, "(best - torch.arange(LETTERS))", "(torch.arange(LETTERS) - best)"),
        slip("After *h* comes *a*: count round the circle.", " % LETTERS", ""),
        slip("Digits are compared as well: a question has none.",
             LETTER, "match[:LETTERS]"),
        slip("Digits are compared as well: a question has none.",
             LETTER, "match", STEPS, "(best - torch.arange(len(best))) % LETTERS"),
        slip("One letter may be wrong: let all eight decide.", MODE, "steps[0]"),
        slip("One letter may be wrong: let all eight decide.", MODE, "steps[-1]"),
        slip("A mean is moved by one letter that is wrong: which step is the most "
             "frequent?", MODE, "steps.double().mean()"),
        slip("The product must have a row for each feature of a question: what is "
             "summed?", MATCH, "q_weight @ k_weight.T"),
        slip("The smallest product is where the head does not look.",
             "argmax", "argmin"),
    ],
    otherwise=lambda came, *_: (
        f"{came:g} is not the step: for each letter of a question, which letter of a "
        "key has the largest product?"
    ),
    praise="The two projections alone tell what a head looks for, without any text.",
)  # fmt: skip


SCALE = " / query.shape[-1] ** 0.5"
BY_INPUT = " / x.shape[-1] ** 0.5"
SCORES = "query @ key.transpose"
UNWEIGHTED = "The scores were never turned into weights."
OF_HEAD = [
    slip("Two bugs are left.", SCALE, BY_INPUT, "@ value", "@ x"),
    slip("One bug is left: the scale takes the input's width. How many products does a "
         "score sum?", SCALE, BY_INPUT),
    slip("The scores are not scaled, the input is mixed.", SCALE, "", "@ value", "@ x"),
    slip("The scores are not scaled at all.", SCALE, ""),
    slip("The scale is the width: take its root.", " ** 0.5", ""),
    slip("The scores are multiplied by the root: divide them.", " / query", " * query"),
    slip("The scale takes the length, not a width.", "query.shape[-1]", "x.shape[1]"),
    slip("One bug is left: the input is mixed, not the values.", "@ value", "@ x"),
    slip("The queries are mixed, not the values.", "@ value", "@ query"),
    slip("The keys are mixed, not the values.", "@ value", "@ key"),
    slip("Queries and keys have changed places.", SCORES, "key @ query.transpose"),
    slip("Queries are compared with themselves.", SCORES, "query @ query.transpose"),
    slip("Keys are compared with themselves.", SCORES, "key @ key.transpose"),
    slip("The inputs are compared, not queries with keys.",
         SCORES, "x @ x.transpose", SCALE, BY_INPUT),
    slip("The softmax runs over the queries, not the keys.", "dim=-1", "dim=1"),
    slip("The softmax runs over the batch, not the keys.", "dim=-1", "dim=0"),
    slip(UNWEIGHTED, ".softmax(dim=-1)", ""),
    slip(UNWEIGHTED, ".softmax(dim=-1)", "", SCALE, ""),
    slip("These are the weights: what do they mix?", " @ value", ""),
]  # fmt: skip
check_head = Exercise(
    solution="""
def my_head(x, w_q, w_k, w_v):
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ value
""",
    # All lengths and widths differ, so that no wrong scale is right.
    cases=[((2, 3, 6), "")],
    inputs=lambda *shape: (
        torch.randn(shape, generator=seeded(0)),
        *torch.randn(2, shape[-1], 5, generator=seeded(1)),
        torch.randn(shape[-1], 7, generator=seeded(2)),
    ),
    slips=[
        *OF_HEAD,
        slip("The scale takes the width of the values: a score has nothing to do with "
             "them.", "query.shape[-1]", "value.shape[-1]"),
    ],
    praise="Your head equals the library's, for values of another width too.",
)  # fmt: skip


@torch.no_grad()
def _judge_dropout(answer: object) -> Verdict | None:
    """Judge what a layer drops: equal weights, all values 1, so sums of weights."""
    head = make_layer(answer, 6, 5, 0.25)
    if isinstance(head, Verdict):
        return head
    x = torch.randn(8, 40, 6, generator=seeded(1))
    x[..., 0] = 1
    head.get_parameter("q_proj.weight").zero_()
    head.get_parameter("v_proj.weight").copy_(torch.eye(6)[:1].expand(5, 6))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kept, sums = run(head.eval().forward, x), run(head.train().forward, x)
    for came in (kept, sums):
        if isinstance(came, Verdict):
            return came
    if not torch.allclose(kept, torch.ones_like(kept), atol=1e-5):
        words = "This is right without dropout. In evaluation it still drops."
    else:
        words = _wrong_sums(sums)
    return Verdict(False, words) if words else None


def _wrong_sums(sums: Tensor) -> str:
    """Say what is wrong with the sums of weights while training."""
    still = "This is right in evaluation. While training"
    if torch.allclose(sums, torch.ones_like(sums), atol=1e-5):
        return f"{still}, each row of weights still sums to 1: what is dropped?"
    if not torch.allclose(sums, sums[..., :1].expand_as(sums), atol=1e-5):
        return f"{still}, numbers of the values or of the mix are dropped, not weights."
    if abs(sums.mean() - 1) > 0.1:
        words = f"{still}, rows sum to {sums.mean():.1f} on average, not to 1: what "
        return f"{words}is kept should be enlarged."
    alike = [sums.std(0).max() < 1e-5, sums.std(1).max() < 1e-5, (sums == 0).any()]
    for found, what in zip(alike, ["texts", "queries", "keys"], strict=True):
        if found:
            words = f"{still}, all {what} lose their weights together: drop each "
            return f"{words}weight on its own."
    # Each of 40 equal weights is lost in a quarter of the cases, else divided by 3/4.
    if not 0.5 < sums.var() / (0.25 / 0.75 / 40) < 2:
        return f"{still}, another share of the weights is lost than `dropout` says."
    return ""


check_self_attention = LayerExercise(
    solution="""
class MyHead(nn.Module):
    def __init__(self, d_model, head_dim, dropout=0.0):
        super().__init__()
        self.q_proj = nn.Linear(d_model, head_dim, bias=False)
        self.k_proj = nn.Linear(d_model, head_dim, bias=False)
        self.v_proj = nn.Linear(d_model, head_dim, bias=False)
        self.dropout = dropout

    def forward(self, x):
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        weights = F.dropout(scores.softmax(dim=-1), self.dropout, self.training)
        return weights @ value
""",
    surplus="Three weights without a bias are all.",
    cases=[((6, 5, 0.0), "")],
    inputs=lambda *sizes: (torch.randn(2, 3, 6, generator=seeded(0)),),
    lastly=_judge_dropout,
    slips=OF_HEAD,
    praise="Your head equals the library's, and it drops weights only.",
)
