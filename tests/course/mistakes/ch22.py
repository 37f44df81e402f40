"""The checks of chapter 22: each usual mistake is made, and must be named."""

from tests.answers import as_numbers, solution

zigzag = solution(
    """
def zigzag(length, rank, processes):
    size = length // (2 * processes)
    pieces = torch.arange(length).split(size)
    return torch.cat((pieces[rank], pieces[2 * processes - 1 - rank]))
"""
)
TWO = "torch.cat((pieces[rank], pieces[2 * processes - 1 - rank]))"
LATE = "pieces[2 * processes - 1 - rank]"

gradient = solution(
    """
def whole(gradients, counts):
    shares = counts / counts.sum()
    return torch.einsum("n,n...->...", shares, gradients)
"""
)
SHARES = "counts / counts.sum()"
SUMMED = 'torch.einsum("n,n...->...", shares, gradients)'

ring = solution(
    """
class MyProcess:
    def __init__(self, query, key, value):
        self.query, self.key, self.value = query, key, value
        self.largest = torch.full((len(query), 1), -torch.inf)
        self.total, self.mixed = 0, 0

    def attend(self):
        scores = self.query @ self.key.mT * self.query.shape[-1] ** -0.5
        new = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (self.largest - new).exp(), (scores - new).exp()
        self.total = self.total * shrink + weights.sum(dim=-1, keepdim=True)
        self.mixed = self.mixed * shrink + weights @ self.value
        self.largest = new

    def give(self):
        return self.key, self.value

    def take(self, key, value):
        self.key, self.value = key, value

    def result(self):
        return self.mixed / self.total
"""
)
TAKE = "        self.key, self.value = key, value\n\n    def result"
GIVE = "return self.key, self.value"
LAST = "return self.mixed / self.total"
SCALE = " * self.query.shape[-1] ** -0.5"
FIRST = "self.total, self.mixed = 0, 0"
# Another way: the pieces' own results, joined by their logarithms at the end.
joined = ring(
    FIRST, "self.parts, self.logs = [], []",
    "        self.total = self.total * shrink + weights.sum(dim=-1, keepdim=True)\n",
    "        self.parts.append(scores.softmax(-1) @ self.value)\n",
    "        self.mixed = self.mixed * shrink + weights @ self.value\n",
    "        self.logs.append(scores.logsumexp(-1, keepdim=True))\n",
    LAST, "shares = torch.stack(self.logs).softmax(0)\n"
    "        return (shares * torch.stack(self.parts)).sum(0)",
)  # fmt: skip

RIGHT = {
    "sharded_traffic": [15.75, *as_numbers(15.75)[1:2], *as_numbers(15.75)[3:],
                        3 * 7 / 8 * 6, 15.754, 15.746, 63 / 4, 15.7501],
    "zigzag": [
        zigzag(),
        zigzag(TWO, "torch.cat([pieces[rank], pieces[-1 - rank]])"),
        zigzag(LATE, "pieces[~rank]"),
        zigzag("torch.arange(length).split(size)",
               "torch.arange(length).view(-1, size)"),
        zigzag("torch.arange(length).split(size)", "torch.arange(length).chunk("
               "2 * processes)"),
        zigzag(TWO, "torch.tensor([*range(rank * size, rank * size + size), *range("
               "length - (rank + 1) * size, length - rank * size)])"),
        zigzag(TWO, "torch.stack((pieces[rank], pieces[-1 - rank])).flatten()"),
        zigzag("length // (2 * processes)", "length // processes // 2"),
        zigzag(TWO, "torch.hstack((pieces[rank], pieces[-1 - rank]))"),
        zigzag(TWO, "torch.sort(torch.cat((pieces[-1 - rank], pieces[rank]))).values"),
    ],
    "whole_gradient": [
        gradient(),
        gradient(SUMMED, "(gradients.movedim(0, -1) * shares).sum(-1)"),
        gradient(SUMMED, "torch.tensordot(shares, gradients, dims=1)"),
        gradient(SUMMED, "sum(s * g for s, g in zip(shares, gradients))"),
        gradient(SUMMED, "(shares @ gradients.flatten(1)).view(gradients.shape[1:])"),
        gradient(SUMMED, "(gradients * shares.view(-1, *[1] * (gradients.ndim - 1)))"
                 ".sum(0)"),
        gradient(SHARES, "1.0 * counts / counts.sum()"),
        gradient(SHARES, "counts / sum(counts.tolist())"),
        gradient(SHARES, "counts.div(counts.sum())"),
        gradient(SUMMED, "sum(c * g for c, g in zip(counts, gradients)) / "
                 "counts.sum()"),
    ],
    "ring_process": [
        ring(), lambda *own: ring()(*own), joined,
        ring(FIRST, "self.total, self.mixed = torch.zeros(1), torch.zeros(1)"),
        ring(SCALE, " / self.query.shape[-1] ** 0.5"),
        ring("self.query @ self.key.mT", "torch.einsum('qd,kd->qk', self.query, "
             "self.key)"),
        ring(GIVE, "return [self.key, self.value]"),
        ring(GIVE, "return self.key.clone(), self.value.clone()"),
        ring("weights.sum(dim=-1, keepdim=True)", "weights.sum(-1)[:, None]"),
        ring("amax(dim=-1, keepdim=True)", "max(-1, keepdim=True).values"),
        ring(TAKE, "        self.key = key\n        self.value = value\n\n    def "
             "result"),
    ],
}  # fmt: skip
MISTAKES = {
    "sharded_traffic": [
        (5.25, "one all-gather"),
        (10.5, "all-reduce of the gradients"),
        (18, "one piece of eight stays"),
        (2.25, "seven pieces"),
        (42, "seven others"),
        (126, "all devices send together"),
        (31.5, "not 4"),
        (7.875, "not 1"),
        (21, "A reduce-scatter is one"),
        (6, "size of the weights"),
        (48, "16 bytes per weight"),
        (15750, "in gigabytes"),
        (3, "Three joint operations"),
    ],
    "zigzag": [
        (zigzag(TWO, f"{TWO}.float()"), "they are floats"),
        (zigzag(TWO, "torch.cat((pieces[2 * rank], pieces[2 * rank + 1]))"), "plain"),
        (zigzag(TWO, "pieces[rank]"), "A late one is missing"),
        (zigzag(TWO, LATE), "An early one is missing"),
        (zigzag(TWO, "torch.cat((pieces[-1 - rank], pieces[rank]))"), "comes first"),
        (zigzag(LATE, LATE + ".flip(0)"), "keep their order"),
        (zigzag(TWO, "torch.arange(length)[rank::processes]"), "stripes"),
        (zigzag(LATE, "pieces[rank + processes]"), "from the end"),
        (zigzag("torch.arange(length)", "torch.arange(length + size)",
                LATE, "pieces[2 * processes - rank]"), "the number 2N - 1"),
        (zigzag(TWO, TWO + " + 1"), "Tokens count from 0"),
        (zigzag(TWO, "torch.cat((pieces[processes - 1 - rank], pieces[processes + rank"
                "]))", "rank,", "rank,"), "process 0"),
        (zigzag(TWO, "torch.tensor([rank, 2 * processes - 1 - rank])"),
         "which tokens are in them"),
        (zigzag(LATE, "pieces[5 - rank]"), "For process 3 of 4"),
        (zigzag(TWO, TWO + ".tolist()"), "must be a torch tensor"),
        (zigzag(LATE, "pieces[2 * processes - 2 - rank]"), "look at"),
    ],
    "whole_gradient": [
        (gradient(SUMMED, "gradients.mean(0)"), "mean of means"),
        (gradient(SUMMED, "gradients.sum(0)"), "grows with the processes"),
        (gradient(SHARES, "1.0 * counts"), "its mean is asked for"),
        (gradient(SHARES, "counts / len(counts)"), "not of processes"),
        (gradient(SHARES, "counts / counts.max()"), "not by the largest"),
        (gradient(SHARES, "counts.flip(0) / counts.sum()"), "wrong order"),
        (gradient(SUMMED, "gradients[0]"), "process 0 alone"),
        (gradient(SHARES, "1 / counts.clamp(min=1)"), "dividing again"),
        (gradient(SHARES, "torch.ones(len(counts)) / counts.sum()"), "multiplied by"),
        (gradient(SUMMED, "gradients * shares[:, None]"), "add them"),
        (gradient(SUMMED, "gradients[counts.argmax()]"), "is not all"),
        (gradient(SUMMED, "gradients.median(0).values"), "no mean"),
        (gradient(SUMMED, "(gradients * shares[:, None]).sum(0)"), "raised"),
    ],
    "ring_process": [
        (ring(TAKE, "        pass\n\n    def result"), "its own keys only"),
        (ring(SCALE, ""), "root of the width"),
        (ring(LAST, "return self.mixed"), "is not divided"),
        (ring(LAST, LAST.replace("self.mixed / self.total", "(self.mixed / self.total)"
              ".tolist()")), "must be a torch tensor"),
        (ring("self.total * shrink + ", "self.total + ",
              "self.mixed * shrink + ", "self.mixed + "), "must shrink."),
        (ring("self.mixed * shrink + ", "self.mixed + "), "the mix must shrink"),
        (ring("self.total * shrink + ", "self.total + "),
         "sum of the exponentials must"),
        (ring("self.mixed * shrink + ", "", "self.total * shrink + ", ""),
         "last piece"),
        (ring("self.query, self.key, self.value = query, key, value",
              "self.query, self.key, self.value = query, key, value\n"
              "        self.home = key, value", GIVE, "return self.home"),
         "they must go on that came"),
        (ring(TAKE, "        self.key = key\n\n    def result"), "the values stay"),
        (ring(TAKE, "        self.value = value\n\n    def result"), "the keys stay"),
        (ring("new = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))",
              "new = torch.zeros(1)", "(self.largest - new).exp()", "1"),
         "Right with small scores. With large ones: There is NaN"),
        (ring("        self.total = self.total * shrink + weights.sum(dim=-1, "
              "keepdim=True)\n        self.mixed = self.mixed * shrink + weights @ "
              "self.value\n", "        self.total = self.total + 1\n        self.mixed "
              "= self.mixed + scores.softmax(-1) @ self.value\n"), "count alike"),
        (ring("        self.total = self.total * shrink + weights.sum(dim=-1, "
              "keepdim=True)\n        self.mixed = self.mixed * shrink + weights @ "
              "self.value\n", "        self.total = 1\n        self.mixed = self.mixed"
              " + scores.softmax(-1) @ self.value\n"), "are added"),
        (lambda *own: 3, "a class with attend, give, take and result is wanted"),
    ],
}  # fmt: skip
