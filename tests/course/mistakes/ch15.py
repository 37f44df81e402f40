"""The checks of chapter 15: each usual mistake is made, and must be named."""

import torch

from attention_lib.flash_attention import OnlineSoftmax
from tests.answers import as_numbers, solution

ONE = 2 * 8192 * 128  # the bytes of all queries

join = solution(
    """
def join(a, log_a, b, log_b):
    both = torch.logaddexp(log_a, log_b)
    share_a, share_b = (log_a - both).exp(), (log_b - both).exp()
    return share_a[:, None] * a + share_b[:, None] * b
"""
)
MIXED = "share_a[:, None] * a + share_b[:, None] * b"
SHARES = "(log_a - both).exp(), (log_b - both).exp()"
BARE = ("share_a, share_b = " + SHARES, "share_a = log_a.exp() / (log_a.exp() + "
        "log_b.exp()); share_b = 1 - share_a")  # fmt: skip

online = solution(
    """
class MyOnlineSoftmax:
    def __init__(self, num_queries, value_dim):
        self.largest = torch.full((num_queries, 1), -torch.inf)
        self.total = torch.zeros(num_queries, 1)
        self.mixed = torch.zeros(num_queries, value_dim)

    def add(self, scores, value):
        new = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (self.largest - new).exp(), (scores - new).exp()
        self.total = self.total * shrink + weights.sum(dim=-1, keepdim=True)
        self.mixed = self.mixed * shrink + weights @ value
        self.largest = new

    def result(self):
        return self.mixed / self.total
"""
)
TOTAL, MIX = "self.total * shrink", "self.mixed * shrink"
RESULT = "self.mixed / self.total"


class OfLibrary(OnlineSoftmax):
    """The library's class, called as the exercise has it."""

    def __init__(self, num_queries, value_dim):
        super().__init__((num_queries, value_dim))

    def result(self):
        return super().result()[0]


class Collected:
    """Keeps all scores: what it says is right, and it is no online softmax."""

    def __init__(self, num_queries, value_dim):
        self.scores, self.values = [], []

    def add(self, scores, value):
        self.scores.append(scores)
        self.values.append(value)

    def result(self):
        return torch.cat(self.scores, 1).softmax(1) @ torch.cat(self.values)


def pieces(mixed):
    """A class whose result is made of the results of its pieces."""

    class Apart(Collected):
        def result(self):
            both = zip(self.scores, self.values, strict=True)
            return mixed([scores.softmax(1) @ value for scores, value in both])

    return Apart


RIGHT = {
    "flash_bytes": [
        2 * (2 * 8192 * 128 + 8192 // 256 * 2 * 8192 * 128), ONE * 66,
        *as_numbers(138_412_032), 132 * 2**20,
    ],
    "join_softmaxes": [
        join(),
        join(MIXED, "share_a[:, None] * a + (1 - share_a)[:, None] * b"),
        join(MIXED, "(a.T * share_a + b.T * share_b).T"),
        join(MIXED, "b + share_a[:, None] * (a - b)"),
        join(SHARES, "(log_a - log_b).sigmoid(), (log_b - log_a).sigmoid()"),
        join(SHARES, "torch.stack([log_a, log_b]).softmax(0)"),
        join("torch.logaddexp(log_a, log_b)",
             "torch.stack([log_a, log_b]).logsumexp(0)"),
        join(MIXED, "torch.einsum('q,qv->qv', share_a, a) + share_b[:, None] * b"),
        join(MIXED, "torch.lerp(b, a, share_a[:, None])"),
        join(MIXED, "torch.diag(share_a) @ a + torch.diag(share_b) @ b"),
    ],
    "online_softmax": [
        online(), OfLibrary, lambda *sizes: online()(*sizes),
        online("(self.largest - new).exp()", "torch.exp(self.largest - new)"),
        online(RESULT, "self.mixed.div(self.total)"),
        online("self.largest = new", "self.largest = new.clone()"),
        online("weights @ value", "torch.einsum('qk,kv->qv', weights, value)"),
        online("torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))",
               "torch.cat([self.largest, scores], 1).amax(1, keepdim=True)"),
        online("-torch.inf", "-1e30"),
        online("weights.sum(dim=-1, keepdim=True)", "weights.sum(1)[:, None]"),
    ],
}  # fmt: skip
MISTAKES = {
    "flash_bytes": [
        (ONE * 4, "once for each piece"),
        (ONE * 128, "not in each pass"),
        (ONE * 64, "Queries are read and the result"),
        (ONE * 65, "Both move once"),
        (ONE * 34, "keys and values, both"),
        (ONE * 514, "size of a piece"),
        (ONE * (2 + 2 * 8192), "serves a whole piece"),
        (ONE * 4 + 8 * 8192**2, "step by step"),
        (ONE * 33, "takes 2 bytes."),
        (ONE * 132, "not 4"),
        (ONE * 66 // 128, "has 128 numbers"),
        (ONE * 50, "what moves once"),
        (ONE * 66 / 2**10, "in KiB"),
        (ONE * 66 / 2**20, "in MiB"),
    ],
    "join_softmaxes": [
        (join(MIXED, "(a + b) / 2"), "The halves count the same"),
        (join(MIXED, "a + b"), "The halves are added"),
        (join(MIXED, "share_b[:, None] * a + share_a[:, None] * b"), "changed places"),
        (join(SHARES, "log_a.exp(), log_b.exp()"), "do not add up to 1"),
        (join(SHARES, "log_a / (log_a + log_b), log_b / (log_a + log_b)"),
         "those of the logarithms"),
        (join(MIXED, "torch.where(share_a[:, None] > 0.5, a, b)"), "larger share"),
        (join(MIXED, "a"), "the first half alone"),
        (join(MIXED, "b"), "the second half alone"),
        (join(MIXED, "share_a[:, None] * a"), "second half is missing"),
        (join(MIXED, "share_b[:, None] * b"), "first half is missing"),
        (join("torch.logaddexp(log_a, log_b)",
              "torch.logaddexp(log_a, log_b).logsumexp(0)",
              "(log_a - both)", "(log_a.logsumexp(0) - both)",
              "(log_b - both)", "(log_b.logsumexp(0) - both)",
              "share_a[:, None]", "share_a", "share_b[:, None]", "share_b"),
         "not one for all"),
        (join(*BARE), "For large ones"),
        (join("torch.logaddexp(log_a, log_b)", "torch.cat([log_a, log_b]).max()", MIXED,
              f"({MIXED}) / (share_a + share_b)[:, None]"), "For large ones"),
        (join("return", "if log_a.isinf().any(): return (a + b) / 2\n    return"),
         "Where one saw none"),
        (join("torch.logaddexp(log_a, log_b)", "log_b", MIXED,
              f"({MIXED}) / (share_a + share_b)[:, None]"), "Where one saw none"),
        (join("torch.logaddexp(log_a, log_b)", "log_a", MIXED,
              f"({MIXED}) / (share_a + share_b)[:, None]"), "Where one saw none"),
    ],
    "online_softmax": [
        (online(TOTAL, "self.total", MIX, "self.mixed"), "Nothing shrinks"),
        (online(MIX, "self.mixed"), "The mix must shrink"),
        (online(TOTAL, "self.total"), "The sum must shrink"),
        (online("(self.largest - new).exp()",
                "(new - self.largest).exp().nan_to_num(posinf=1.0)"), "upside down"),
        (online(RESULT, "self.mixed"), "not divided"),
        (online("self.largest = new", "pass"), "Only the last piece"),
        (pieces(lambda parts: parts[0]), "Only the first piece"),
        (Collected, "grows with each piece"),
        (pieces(lambda parts: sum(parts) / len(parts)), "are averaged"),
        (pieces(sum), "are added up"),
        (online("(scores - new).exp()", "torch.ones_like(scores)", TOTAL, "self.total",
                MIX, "self.mixed"), "All keys count the same"),
        (online("new = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))",
                "new = torch.zeros_like(self.total)", "-torch.inf", "0.0"),
         "For large ones"),
        (online("scores.amax(dim=-1, keepdim=True)", "scores.amax()"), "far apart"),
        (online("-torch.inf", "0.0"), "far apart"),
        (online("torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))",
                "scores.amax(dim=-1, keepdim=True)"), "fall by much"),
        (online("new = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))",
                "new = torch.where(self.largest.isinf(), scores.amax(1, keepdim=True), "
                "self.largest)"), "rise by much"),
        (online("weights @ value", "weights @ value if len(value) < 6 else 0 * "
                "self.mixed"), "For a single one"),
        (online(RESULT, "self.mixed.div_(self.total)"), "Asked after every piece"),
        (lambda *sizes: 3, "a class with add and result"),
    ],
}  # fmt: skip
