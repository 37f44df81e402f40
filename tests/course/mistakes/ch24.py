"""The checks of chapter 24: each usual mistake is made, and must be named."""

from attention_lib.course.exercises import ch24
from tests.answers import as_numbers

zigzag, gradient = ch24.check_zigzag.made, ch24.check_whole_gradient.made
ring = ch24.check_ring_process.made
TWO = f"torch.cat((pieces[rank], {ch24.LATE}))"
CUT = "torch.arange(length).chunk(2 * processes)"
# The pieces' own results, joined by their logarithms at the end.
joined = ring(
    ch24.START, "self.parts, self.logs = [], []",
    ch24.ADD, "self.parts.append(scores.softmax(-1).nan_to_num() @ self.value)\n"
    "        self.logs.append(scores.logsumexp(-1, keepdim=True))",
    ch24.LAST, "shares = torch.stack(self.logs).softmax(0)\n"
    "        return (shares * torch.stack(self.parts)).sum(0)",
)  # fmt: skip

RIGHT = {
    "sharded_traffic": [15.75, *as_numbers(15.75)[1:2], *as_numbers(15.75)[3:],
                        3 * 7 / 8 * 6, 15.754, 15.746, 63 / 4, 15.7501],
    "zigzag": [
        zigzag(TWO, "torch.cat([pieces[rank], pieces[-1 - rank]])"),
        zigzag(ch24.LATE, "pieces[~rank]"),
        zigzag(CUT, "torch.arange(length).view(2 * processes, -1)"),
        zigzag(CUT, "torch.arange(length).split(length // (2 * processes))"),
        zigzag(CUT, "length // processes // 2", TWO, "torch.tensor([*range("
               "rank * pieces, rank * pieces + pieces), *range("
               "length - (rank + 1) * pieces, length - rank * pieces)])"),
        zigzag(TWO, "torch.stack((pieces[rank], pieces[-1 - rank])).flatten()"),
        zigzag(CUT, "torch.arange(length).tensor_split(2 * processes)"),
        zigzag(TWO, "torch.hstack((pieces[rank], pieces[-1 - rank]))"),
        zigzag(TWO, "torch.sort(torch.cat((pieces[-1 - rank], pieces[rank]))).values"),
    ],
    "whole_gradient": [
        gradient(ch24.SUMMED, "(gradients.movedim(0, -1) * shares).sum(-1)"),
        gradient(ch24.SUMMED, 'torch.einsum("n,n...->...", shares, gradients)'),
        gradient(ch24.SUMMED, "sum(s * g for s, g in zip(shares, gradients))"),
        gradient(ch24.SUMMED,
                 "(shares @ gradients.flatten(1)).view(gradients.shape[1:])"),
        gradient(ch24.SUMMED,
                 "(gradients * shares.view(-1, *[1] * (gradients.ndim - 1)))"
                 ".sum(0)"),
        gradient(ch24.SHARES, "1.0 * counts / counts.sum()"),
        gradient(ch24.SHARES, "counts / sum(counts.tolist())"),
        gradient(ch24.SHARES, "counts.div(counts.sum())"),
        gradient(ch24.SUMMED, "sum(c * g for c, g in zip(counts, gradients)) / "
                 "counts.sum()"),
    ],
    "ring_process": [
        lambda *own: ring()(*own), joined,
        ring(*ch24.BY_HAND),
        ring(*ch24.BY_HAND, "self.mixed = 0, 0", "self.mixed = 0, torch.zeros(1)"),
        ring(ch24.SCALE, " / self.query.shape[-1] ** 0.5"),
        ring("self.query @ self.key.mT", "torch.einsum('qd,kd->qk', self.query, "
             "self.key)"),
        ring(ch24.GIVE, "return [self.key, self.value, self.key_start]"),
        ring(ch24.GIVE, "return self.key.clone(), self.value.clone(), self.key_start"),
        ring(*ch24.BY_HAND,
             "weights.sum(dim=-1, keepdim=True)", "weights.sum(-1)[:, None]"),
        ring(*ch24.BY_HAND,
             "amax(dim=-1, keepdim=True)", "max(-1, keepdim=True).values"),
        ring(ch24.TAKE, "        self.key = key\n        self.value = value\n"
             "        self.key_start = start\n\n"),
        ring("columns > rows[:, None]", "~(rows[:, None] >= columns)"),
        ring(ch24.MASKED, "scores.where(columns <= rows[:, None], -torch.inf)"),
    ],
}  # fmt: skip
MISTAKES = {
    "sharded_traffic": [(3, "Three joint operations")],
    "zigzag": [
        (zigzag(TWO, f"{TWO}.float()"), "they are floats"),
        (zigzag(ch24.LATE, "pieces[5 - rank]"), "For process 3 of 4"),
        (zigzag("pieces[rank]", "pieces[max(1, rank)]"), "For process 0"),
        (zigzag(ch24.LATE, "pieces[2 * processes - 2 - rank]"), "look at"),
    ],
    "whole_gradient": [
        (gradient(ch24.SUMMED, "(gradients * shares[:, None]).sum(0)"), "raised"),
        (gradient(ch24.SHARES, "counts.clamp(min=1) / counts.sum()"), "has no target"),
    ],
    "ring_process": [
        (ring(*ch24.BY_HAND, "new = torch.maximum(self.largest, scores.amax(dim=-1, "
              "keepdim=True))", "new = torch.zeros(1)", "(self.largest - new).exp()",
              "1"), "Right with small scores. With large ones: There is NaN"),
    ],
}  # fmt: skip
