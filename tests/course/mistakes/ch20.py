"""The checks of chapter 20: each usual mistake is made, and must be named."""

from attention_lib.course.exercises.ch20 import (
    ANY_SCALE,
    MOVE,
    STACK,
    check_divisor_finder,
    check_examiner,
)
from tests.answers import solution

divisor, examiner = check_divisor_finder.made, check_examiner.made
WEIGHTS = "weights = (query @ key.mT / c).softmax(-1)"
FITS = "torch.allclose(weights @ value, found)"
CHANGE = "(self.layer(changed) - before).abs().amax(dim=(0, 2))"
SAYS = "return not bool(self.depends().triu(1).any())"
ONE = "layer(x[i : i + 1])[0]"
EACH = "for i in range(len(x))"
APART = f"not torch.allclose({ONE}, whole[i])"
ANY = f"return any({APART} {EACH})"
ALONE = "alone = torch.cat([layer(row) for row in x.split(1)])\n    "
mixing = solution(f"def mixes_texts(layer, x):\n    whole = layer(x)\n    {ANY}\n")

RIGHT = {
    "mixing_finder": [
        mixing(),
        mixing(ANY, f"return bool(max({APART} {EACH}))"),
        mixing(ONE, "layer(x[[i]])[0]"),
        mixing(ONE, "layer(x[i, None])[0]"),
        mixing(ONE, "layer(x[i][None]).squeeze(0)"),
        mixing("return any", "return True if any", f"{EACH})", f"{EACH}) else False"),
        mixing(ANY, f"{ALONE}return not torch.allclose(alone, whole)"),
        mixing(ANY, f"{ALONE}return ((alone - whole).abs() > 1e-5).any()"),
        mixing(APART, f"({ONE} - whole[i]).abs().max() > 1e-4"),
        mixing(APART, f"not np.allclose({ONE}, whole[i], atol=1e-5)"),
    ],
    "divisor_finder": [
        divisor(),
        divisor(WEIGHTS, "weights = torch.softmax(query @ key.T / c, dim=1)"),
        divisor(WEIGHTS, "weights = (query / c @ key.mT).softmax(-1)"),
        divisor(WEIGHTS, "weights = (query @ (key / c).T).softmax(-1)"),
        divisor(FITS, "(weights @ value - found).abs().max() < 1e-5"),
        divisor(FITS, "torch.allclose(found, weights @ value, atol=1e-6)"),
        divisor("return c", "return float(c)"),
        divisor("for c in candidates", "for c in sorted(candidates)"),
        divisor("for c in candidates", "for c in reversed(candidates)"),
        divisor(WEIGHTS, "scores = (query @ key.mT / c).exp()\n        weights = "
                "scores / scores.sum(-1, keepdim=True)"),
    ],
    "examiner": [
        examiner(),
        examiner(MOVE, "changed[:, position] = torch.randn_like(changed[:, position])"),
        examiner(MOVE, "changed[:, position] += torch.rand_like(changed[:, position])"),
        examiner(CHANGE, "(self.layer(changed) - before).abs().amax(2).amax(0)"),
        examiner(CHANGE, "(self.layer(changed) - before).square().sum(dim=(0, 2))"),
        examiner(CHANGE, "(self.layer(changed) - before).abs().sum(dim=(0, 2))"),
        examiner("change > 1e-6", "change > 1e-9"),
        examiner(STACK, "torch.stack(columns).T"),
        examiner(ANY_SCALE, "sum(self.map_for(x).int() for x in self.inputs) > 0"),
        examiner(SAYS, "return not self.depends().triu(1).any()"),
        examiner(SAYS, "found = self.depends()\n        return bool((found == "
                 "found.tril()).all())"),
    ],
}  # fmt: skip
MISTAKES = {
    "mixing_finder": [
        (lambda layer, x: True, "all mix"),
        (lambda layer, x: False, "none mixes"),
        (lambda layer, x: not mixing()(layer, x), "wrong way round"),
        (mixing(EACH, "for i in [0]"), "in a later text is missed"),
        (mixing(EACH, "for i in [len(x) - 1]"), "in the first text is missed"),
        (mixing(EACH, "for i in [1]"), "in a single text is missed"),
        (mixing(ONE, "layer(torch.cat((x[i : i + 1], x[:-1] + 1)))[0]"),
         "No text is called alone"),
        (mixing(ONE, "layer(x[i : i + 1].repeat(len(x), 1, 1))[0]"),
         "No text is called alone"),
        (mixing(ANY, "return not torch.allclose(layer(x[1:]), whole[1:])"),
         "sees the one before it"),
        (mixing(ANY, f"{ALONE}return not torch.allclose(alone.sum(0), whole.sum(0))"),
         "the output of another"),
        (mixing(ANY, f"{ALONE}alone, whole = ((y / y.norm(dim=(1, 2), "
                "keepdim=True)).sum(0) for y in (alone, whole))\n"
                "    return not torch.allclose(alone, whole)"),
         "multiplies by the number of texts"),
        (mixing(ONE, "layer(x[:, i : i + 1])[:, 0]", "whole[i]", "whole[:, i]"),
         "take single texts"),
        (mixing("any(", "all("), "Your answer is wrong"),
        (mixing("torch.allclose", "torch.equal"), "keeps texts apart"),
        (lambda layer, x: layer(x), "Give one True or False"),
        (lambda layer, x: bool(layer(x.zero_()).any()), "changes x itself"),
        (mixing(ONE, "layer(x[i])"), "raised"),
    ],
    "divisor_finder": [
        (lambda attend, query, key, value, candidates: 2.0, "root of the width"),
        (divisor("return c", "return str(c)"), "give a number"),
        (divisor("return c", "return 2 * c"), "divided by 2.0 you say 4.0"),
        (divisor("return c", "return c ** 0.5"), "divided by 2.0 you say 1.4"),
        (divisor("    found =", "    query *= 2\n    found ="), "changes its input"),
        (divisor("candidates:", "candidates[1:]:"), "Nothing is returned for some"),
        (divisor("query @ key.mT", "query @ key"), "raised"),
    ],
    "examiner": [
        (examiner(MOVE, "changed[:, position] += 1"), "hides equal changes"),
        (examiner("dim=(0, 2)", "dim=2", "change >", "change[0] >"),
         "a leak in the second text"),
        (examiner(".amax(dim=(0, 2))", "[..., 0].amax(0)"), "a leak in one feature"),
        (examiner(MOVE, "changed[:, position, 0] += 1"), "leak from one feature only"),
        (examiner(MOVE, "changed[:, position, -1] += 1"), "a leak in one feature only"),
        (examiner("change > 1e-6", "change > 0"), "round differently: All is True"),
        (examiner("change > 1e-6", "~(change / change < 1)"), "All is True"),
        (examiner("scale * x for", "scale * x.add_(1) for"), "its input"),
        (examiner(STACK, f"({STACK} if {STACK}.triu(1).any() else "
                  "torch.ones(4, 4).bool().tril())"), "attention of one token before"),
        (examiner(CHANGE, "torch.autograd.functional.jacobian(self.layer, x)[..., "
                  "position, :].abs().amax(dim=(0, 2, 3, 4))"), "no gradient"),
        (examiner(SAYS, "return True"), "is not causal; your is_causal says True"),
        (examiner(SAYS, "pass"), "is_causal returns nothing"),
        (examiner(SAYS, "raise ValueError"), "raised ValueError"),
        (lambda *given: 3.0, "has no depends"),
        (examiner(SAYS, "return bool(self.depends().triu(1).any())"), "is causal"),
        (examiner("triu(1)", "triu()"), "is causal"),
        (examiner(CHANGE, "(self.layer(changed) - before).abs().amax(dim=0)"), "shape"),
    ],
}  # fmt: skip
