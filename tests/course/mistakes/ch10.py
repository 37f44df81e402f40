"""The checks of chapter 10: each usual mistake is made, and must be named."""

import itertools

import torch

from attention_lib.course.exercises import ch10
from attention_lib.rope import apply_rope, rope_angles
from tests.answers import as_numbers, solution

rotary, move = ch10.check_rotary.made, ch10.check_moved_keys.made
ANGLES = "angles = positions[:, None] * self.frequencies"
TYPES = "angles.cos().to(x.dtype), angles.sin().to(x.dtype)"

finder = solution(
    """
def offset_only(scores, x):
    table = scores(x)
    return torch.allclose(table[1:, 1:], table[:-1, :-1])
"""
)
UPPER = "table[1:, 1:].triu(), table[:-1, :-1].triu()"
COMPARED = "table[1:, 1:], table[:-1, :-1]"
ALL = "torch.allclose(table[1:, 1:], table[:-1, :-1])"


def wrong_at(*places):
    """Right, but for the calls with these numbers."""
    calls = itertools.count()

    def offset_only(scores, x):
        return finder()(scores, x) != (next(calls) % 12 in places)

    return offset_only


MISTAKES = {
    "slow_pairs": [
        (8192, "Not that many"),
        (0, "a number above 0"),
        ("29", "The answer is one number, not a str"),
    ],
    "rotary": [
        (rotary("first, second = x", "x = x if x.dtype == torch.float64 else x.float()"
         "\n        cos, sin = cos.to(x), sin.to(x)\n        first, second = x"),
         "bfloat16 became a"),
        (rotary("/ head_dim", "/ 8"), "Right for (2, 3, 5, 8). For (5, 6):"),
        (rotary(TYPES, "angles.cos(), angles.sin()"), "float32 became a"),
        (rotary(ANGLES, f"{ANGLES}.to(x.dtype)"), "In bfloat16, the angles of"),
        (rotary(ANGLES, "angles = positions.to(x.dtype)[:, None] * "
                "self.frequencies.to(x.dtype)"), "In bfloat16, the angles of"),
        (rotary(ANGLES, f"{ANGLES}; assert x.dtype != torch.bfloat16"),
         "Right in float64. In bfloat16: Your code raised"),
        (rotary(ANGLES, "x *= 1.5; " + ANGLES), "changes its input"),
    ],
    "moved_keys": [
        (move(ch10.FAR, "0 * old - 6"), "Where three stay and two move by 40"),
        (move("keys.shape[-1]", "8"), "For larger ones: Your code raised"),
    ],
    "offset_finder": [
        (finder(ALL, "True"), "You say that all of them"),
        (finder(ALL, "False"), "compare with a tolerance"),
        (finder(ALL, "not " + ALL), "the wrong way round"),
        (finder(COMPARED, "table.diagonal()[1:], table.diagonal()[:-1]"), "Only the "
         "diagonal is compared"),
        (finder(COMPARED, "table[2:, 2:], table[:-2, :-2]"), "compare neighbours"),
        (finder(COMPARED, "table[0, :-1], table[1, 1:]"), "Only rows 0 and 1"),
        (finder(COMPARED, "table[:-1, 0], table[1:, 1]"), "Only columns 0 and 1"),
        (finder(COMPARED, UPPER), "a cell below"),
        (finder(COMPARED, UPPER.replace("triu", "tril")), "a cell above"),
        (finder(COMPARED, "table[1:, 1:].sum(), table[:-1, :-1].sum()"), "Sums can be"),
        (finder(COMPARED, "table[1:], table[:-1]"), "move one column, too"),
        (finder(COMPARED, "table, table[0, 0].expand_as(table)"), "along diagonals"),
        (finder(COMPARED, "table, table.T"), "Symmetric is another thing"),
        (finder(ALL, ALL + " and torch.allclose(table, table.T)"), "need not be symm"),
        (finder("torch.allclose", "torch.equal"), "depends on the offset only"),
        (finder(COMPARED, "table[1:2, 1:2], table[:1, :1]"), "depends on more than"),
        (finder("scores(x)", "scores(x.mul_(2))"), "Your code changes x itself"),
        (finder(ALL, "0.5"), "came a float"),
        (wrong_at(0), "a rotation of queries and keys"),
        (wrong_at(1), "a text with sinusoids added"),
        (wrong_at(2), "a text without positions"),
        (wrong_at(3), "a penalty for the distance"),
        (wrong_at(4), "a rotation of the keys alone"),
        (wrong_at(5), "a rotation of queries and keys in two layouts"),
        (wrong_at(6), "a table that grows from left to right"),
        (wrong_at(7, 11), "two changed cells on the diagonal"),
        (wrong_at(8), "a changed last cell of row 0"),
        (wrong_at(9, 11), "a changed cell in row 5"),
        (wrong_at(10, 11), "a changed cell in row 1"),
        (wrong_at(11), "a table whose rows take turns"),
    ],
}  # fmt: skip


class WithLibrary:
    def __init__(self, head_dim, base=10_000.0):
        self.head_dim, self.base = head_dim, base

    def __call__(self, x, positions):
        angles = rope_angles(positions.double(), self.head_dim, base=self.base)
        return apply_rope(x, angles)


class ByComplexNumbers(WithLibrary):
    def __call__(self, x, positions):
        angles = rope_angles(positions.double(), self.head_dim, base=self.base)
        numbers = torch.complex(*x.double().chunk(2, dim=-1))
        turned = numbers * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1).to(x.dtype)


class ByMatrices(WithLibrary):
    def __call__(self, x, positions):
        eye, rows = torch.eye(self.head_dim, dtype=torch.float64), []
        for place, row in zip(positions.tolist(), x.double().unbind(-2), strict=True):
            angle = rope_angles(torch.tensor([float(place)]).double(), self.head_dim,
                                base=self.base)  # fmt: skip
            rows.append(row @ apply_rope(eye, angle.expand(self.head_dim, -1)))
        return torch.stack(rows, -2).to(x.dtype)


def rotary_function(head_dim, base=10_000.0):
    return rotary()(head_dim, base)


def move_by_steps(keys, old, new):
    width = keys.shape[-1]
    plain = apply_rope(keys, rope_angles(-old, width))
    return apply_rope(plain, rope_angles(new, width))


def move_by_angles(keys, old, new):
    then, now = (rope_angles(it.double(), keys.shape[-1]) for it in (old, new))
    return apply_rope(keys, now - then)


def move_by_complex_numbers(keys, old, new):
    width = keys.shape[-1]
    frequency = 1e4 ** (-torch.arange(0, width, 2).double() / width)
    angles = (new - old)[:, None] * frequency
    moved = torch.complex(*keys.double().chunk(2, -1)) * torch.exp(1j * angles)
    return torch.cat([moved.real, moved.imag], -1).to(keys.dtype)


def move_by_loops(keys, old, new):
    rows = []
    for row, far in zip(keys.unbind(-2), (new - old).tolist(), strict=True):
        angles = rope_angles(torch.tensor([far]), keys.shape[-1])[0]
        first, second = row.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        rows.append(torch.cat([first * cos - second * sin,
                               first * sin + second * cos], -1))  # fmt: skip
    return torch.stack(rows, -2)


def move_by_matrices(keys, old, new):
    moved, eye = keys.clone(), torch.eye(keys.shape[-1], dtype=keys.dtype)
    for place in range(len(old)):
        angles = rope_angles((new - old)[place].expand(len(eye)), len(eye))
        moved[..., place, :] = keys[..., place, :] @ apply_rope(eye, angles)
    return moved


def move_interleaved(keys, old, new):
    angles = rope_angles(new - old, keys.shape[-1])
    pairs = keys.unflatten(-1, (2, -1)).mT.flatten(-2)
    moved = apply_rope(pairs, angles, layout="interleaved")
    return moved.unflatten(-1, (-1, 2)).mT.flatten(-2)


def finder_by_loops(scores, x):
    table, last = scores(x), len(x) - 1
    return all(
        abs(table[i, j] - table[i + 1, j + 1]) < 1e-9
        for i in range(last)
        for j in range(last)
    )


def finder_by_diagonals(scores, x):
    spreads = [
        scores(x).diagonal(n) - scores(x).diagonal(n)[0]
        for n in range(1 - len(x), len(x))
    ]
    return bool(torch.cat(spreads).abs().max() < 1e-8)


RIGHT = {
    "slow_pairs": [*as_numbers(29), 64 - 35, sum(29 * [1]), 29.0],
    "rotary": [
        rotary("self.frequencies = base ** (-even / head_dim)",
               "self.frequencies = 1 / base ** (even / head_dim)"),
        rotary("self.frequencies = base ** (-even / head_dim)",
               "self.frequencies = torch.exp(-even / head_dim * math.log(base))"),
        rotary(ch10.CAT, "torch.cat([first, second], -1) * cos.repeat(1, 2) + "
               "torch.cat([-second, first], -1) * sin.repeat(1, 2)"),
        rotary(TYPES, "(wave.to(x.dtype) for wave in (angles.cos(), angles.sin()))"),
        rotary(ch10.CHUNK, "x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]"),
        rotary(ch10.PLACES, "positions.double()[:, None]"),
        rotary(f"{ch10.PLACES} {ch10.FREQUENCIES}",
               "torch.outer(positions, self.frequencies)"),
        WithLibrary,
        ByComplexNumbers,
        ByMatrices,
        rotary_function,
    ],
    "moved_keys": [
        move_by_steps, move_by_angles, move_by_complex_numbers, move_by_loops,
        move_by_matrices, move_interleaved,
        move(ch10.FAR, "(new - old).double()"),
        move("rope_angles(new - old", "-rope_angles(old - new"),
        move(ch10.FAR, "new.sub(old)", "keys.shape[-1]", "keys.size(-1)"),
        move(ch10.ROTATED, "apply_rope(keys.double(), angles).to(keys.dtype)"),
        lambda keys, old, new: rotary()(keys.shape[-1])(keys, new - old),
    ],
    "offset_finder": [
        finder(),
        finder(ALL, "(table[1:, 1:] - table[:-1, :-1]).abs().max() < 1e-6"),
        finder(ALL, "np.allclose(table[1:, 1:], table[:-1, :-1])"),
        finder(ALL, "np.bool_(True) if " + ALL + " else np.bool_(False)"),
        finder(ALL, "torch.tensor(" + ALL + ")"),
        finder("scores(x)", "scores(x.clone())"),
        finder(COMPARED, "table.roll((1, 1), (0, 1))[1:, 1:], table[1:, 1:]"),
        lambda scores, x: scores(x).diff(dim=0)[:, 1:].allclose(-scores(x).diff()[:-1]),
        finder_by_loops,
        finder_by_diagonals,
    ],
}  # fmt: skip
