"""The checks of chapter 16: each usual mistake is made, and must be named."""

import torch

from attention_lib.course.exercises import ch16
from attention_lib.flash_attention import OnlineSoftmax
from tests.answers import as_numbers

join, online = ch16.check_join_softmaxes.made, ch16.check_online_softmax.made
LARGEST = "scores.amax(dim=-1, keepdim=True)"
SCALED = f"({ch16.MIXED}) / (share_a + share_b)[:, None]"


class OfLibrary(OnlineSoftmax):
    """The library's class, called as the exercise has it."""

    def __init__(self, num_queries, value_dim):
        super().__init__((num_queries, value_dim))

    def result(self):
        return super().result()[0]


class Collected:
    """Keep all scores: what it says is right, and it is no online softmax."""

    def __init__(self, num_queries, value_dim):
        self.scores, self.values = [], []

    def add(self, scores, value):
        self.scores.append(scores)
        self.values.append(value)

    def result(self):
        return torch.cat(self.scores, 1).softmax(1) @ torch.cat(self.values)


class CollectedInLists(Collected):
    """Keep all scores as plain numbers."""

    def add(self, scores, value):
        self.scores += scores.T.tolist()
        self.values += value.tolist()

    def result(self):
        return torch.tensor(self.scores).T.softmax(1) @ torch.tensor(self.values)


class OneLogarithm:
    """Keep the divided mix, and one number per query: the logarithm of the sum."""

    def __init__(self, num_queries, value_dim):
        self.log_sum = torch.full((num_queries, 1), -torch.inf)
        self.mixed = torch.zeros(num_queries, value_dim)

    def add(self, scores, value):
        new = torch.logaddexp(self.log_sum, scores.logsumexp(-1, keepdim=True))
        old = (self.log_sum - new).exp()
        self.mixed = self.mixed * old + (scores - new).exp() @ value
        self.log_sum = new

    def result(self):
        return self.mixed


RIGHT = {
    "flash_piece": [683, *as_numbers(683), 683.001],
    "join_softmaxes": [
        join(ch16.MIXED,
             "share_a[:, None] * result_a + (1 - share_a)[:, None] * result_b"),
        join(ch16.MIXED, "(result_a.T * share_a + result_b.T * share_b).T"),
        join(ch16.MIXED, "result_b + share_a[:, None] * (result_a - result_b)"),
        join(ch16.SHARES, "((log_sum_a - log_sum_b).sigmoid(), "
             "(log_sum_b - log_sum_a).sigmoid())"),
        join(ch16.SHARES, "torch.stack([log_sum_a, log_sum_b]).softmax(0)"),
        join(ch16.BOTH, "both = torch.stack([log_sum_a, log_sum_b]).logsumexp(0)"),
        join(ch16.MIXED, "torch.einsum('q,qv->qv', share_a, result_a) + "
             "share_b[:, None] * result_b"),
        join(ch16.MIXED, "torch.lerp(result_b, result_a, share_a[:, None])"),
        join(ch16.MIXED,
             "torch.diag(share_a) @ result_a + torch.diag(share_b) @ result_b"),
    ],
    "online_softmax": [
        OfLibrary, OneLogarithm, lambda *sizes: online()(*sizes),
        online(ch16.SHRINK, "torch.exp(self.largest - new)"),
        online(ch16.RESULT, "self.mixed.div(self.total)"),
        online("self.largest = new", "self.largest = new.clone()"),
        online("weights @ value", "torch.einsum('qk,kv->qv', weights, value)"),
        online(f"torch.maximum(self.largest, {LARGEST})",
               "torch.cat([self.largest, scores], 1).amax(1, keepdim=True)"),
        online("-torch.inf", "-1e30"),
        online(ch16.SUM, "weights.sum(1)[:, None]"),
    ],
}  # fmt: skip
MISTAKES = {
    "flash_piece": [(700, "write down the numbers")],
    "join_softmaxes": [
        (join(ch16.SHARES, "(x.exp() / (log_sum_a.exp() + log_sum_b.exp()) "
              "for x in (log_sum_a, log_sum_b))"), "For large ones"),
        (join(ch16.BOTH, f"{ch16.BOTH}\n    if log_sum_a.isinf().any(): return "
              "(result_a + result_b) / 2"), "Where one saw none"),
        (join(ch16.BOTH, "both = log_sum_b", ch16.MIXED, SCALED), "Where one saw none"),
    ],
    "online_softmax": [
        (Collected, "grows with each piece"),
        (CollectedInLists, "grows with each piece"),
        (online(f"{ch16.NEW}(self.largest, {LARGEST})",
                "new = torch.zeros_like(self.total)", "-torch.inf", "0.0"),
         "For large ones"),
        (online(LARGEST, "scores.amax()"), "far apart"),
        (online("-torch.inf", "0.0"), "far apart"),
        (online(f"torch.maximum(self.largest, {LARGEST})", LARGEST), "fall by much"),
        (online(f"{ch16.NEW}(self.largest, {LARGEST})", "new = torch.where("
                f"self.largest.isinf(), {LARGEST}, self.largest)"), "rise by much"),
        (online("weights @ value", "weights @ value if len(value) < 6 else 0 * "
                "self.mixed"), "For a single one"),
        (online(ch16.RESULT, "self.mixed.div_(self.total)"), "Asked after every piece"),
    ],
}  # fmt: skip
