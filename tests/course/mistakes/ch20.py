"""The checks of chapter 20: each usual mistake is made, and must be named."""

from attention_lib.course.exercises import ch20
from tests.answers import solution

divisor, examiner = ch20.check_divisor_finder.made, ch20.check_examiner.made
WEIGHTS, STEPS = f"attend(query, key, {ch20.EYE})", "query @ key.mT, weights.log()"
RATIOS = "products.diff(dim=1) / logs.diff(dim=1)"
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
        divisor(", dtype=key.dtype", ""),
        divisor(ch20.RATIO, f"float({ch20.RATIO})"),
        divisor(ch20.RATIO, f"({ch20.RATIO})[None]"),
        divisor("[0, 1]", "[0, -1]"),
        divisor("[0, 0]", "[2, 1]", "[0, 1]", "[2, 0]"),
        divisor(ch20.RATIO,
                f"{ch20.PRODUCTS} / torch.log(weights[0, 0] / weights[0, 1])"),
        divisor(WEIGHTS, "torch.cat([attend(query, key, row[:, None]) for row in "
                f"{ch20.EYE}], dim=1)"),
        divisor(ch20.EYE, "F.one_hot(torch.arange(len(key))).to(key)"),
        divisor(ch20.EYE, f"5 * {ch20.EYE}"),
        divisor(ch20.RATIO, f"({RATIOS}).mean()"),
        divisor(ch20.RATIO, f"({RATIOS}).median().item()"),
        divisor(ch20.RATIO, "torch.linalg.lstsq(logs.diff(dim=1).reshape(-1, 1), "
                "products.diff(dim=1).reshape(-1, 1)).solution.item()"),
        divisor("query @ key.mT", "(query @ key.mT).log_softmax(dim=-1)"),
        divisor(ch20.RATIO, "(products - products.mean(1, True)).norm() / (logs - "
                "logs.mean(1, True)).norm()"),
        divisor(STEPS, "(query @ key.T).numpy(), np.log(weights.numpy())"),
        divisor(WEIGHTS, f"attend(key, query, {ch20.EYE})", "query @ key.mT",
                "key @ query.mT"),
    ],
    "examiner": [
        examiner(ch20.MOVE,
                 "changed[:, position] = torch.randn_like(changed[:, position])"),
        examiner(ch20.MOVE,
                 "changed[:, position] += torch.rand_like(changed[:, position])"),
        examiner(CHANGE, "(self.layer(changed) - before).abs().amax(2).amax(0)"),
        examiner(CHANGE, "(self.layer(changed) - before).square().sum(dim=(0, 2))"),
        examiner(CHANGE, "(self.layer(changed) - before).abs().sum(dim=(0, 2))"),
        examiner("change > 1e-6", "change > 1e-9"),
        examiner(ch20.STACK, "torch.stack(columns).T"),
        examiner(ch20.ANY_SCALE, "sum(self.map_for(x).int() for x in self.inputs) > 0"),
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
        (lambda attend, query, key: attend(query, key, key), "give a number"),
        (divisor(ch20.RATIO, f"str({ch20.RATIO})"), "give a number"),
        (divisor(ch20.EYE, "torch.ones(len(key), len(key))"), "NaN or infinity"),
        (divisor(ch20.EYE, f"{ch20.EYE} + 1"), "the table of weights"),
        (divisor(ch20.RATIO, f"2 * {ch20.RATIO}"), "For c = 2 you return 4"),
        (divisor(ch20.RATIO, f"({ch20.RATIO}) ** 0.5"), "For c = 2 you return 1.4"),
        (divisor(ch20.RATIO, f"max({ch20.RATIO}, 1)"), "For one below 1"),
        (divisor("len(key)", "4"), "For fewer: Your code raised"),
        (divisor("return", "for c in [2.0, 4.0, 8.0]:\n        if abs(c - "
                 f"{ch20.RATIO}) < 0.1:\n            return c\n    0,"),
         "your code gives nothing back"),
        (divisor("    weights", "    query *= 2\n    weights"), "changes its input"),
        (divisor("len(key)", "key.shape[1]"), "raised"),
    ],
    "examiner": [
        (examiner(ch20.MOVE, "changed[:, position] += 1"), "hides equal changes"),
        (examiner("dim=(0, 2)", "dim=2", "change >", "change[0] >"),
         "a leak in the second text"),
        (examiner(".amax(dim=(0, 2))", "[..., 0].amax(0)"), "a leak in one feature"),
        (examiner(ch20.MOVE, "changed[:, position, 0] += 1"),
         "leak from one feature only"),
        (examiner(ch20.MOVE, "changed[:, position, -1] += 1"),
         "a leak in one feature only"),
        (examiner("change > 1e-6", "change > 0"), "round differently: All is True"),
        (examiner("scale * x for", "scale * x.add_(1) for"), "its input"),
        (examiner(ch20.STACK, f"({ch20.STACK} if {ch20.STACK}.triu(1).any() else "
                  "torch.ones(4, 4).bool().tril())"), "attention of one token before"),
        (examiner(CHANGE, "torch.autograd.functional.jacobian(self.layer, x)[..., "
                  "position, :].abs().amax(dim=(0, 2, 3, 4))"), "no gradient"),
        (examiner(SAYS, "return True"), "is not causal; your is_causal says True"),
        (examiner(SAYS, "pass"), "is_causal returns nothing"),
        (examiner(SAYS, "raise ValueError"), "raised ValueError"),
        (examiner(SAYS, "return bool(self.depends().triu(1).any())"), "is causal"),
        (examiner(CHANGE, "(self.layer(changed) - before).abs().amax(dim=0)"), "shape"),
    ],
}  # fmt: skip
