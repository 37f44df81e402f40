"""Compare two texts: their numbers within a tolerance, all other characters exactly.

Rounding sets the tolerance. Two machines that agree to seven digits may print 0.1235
and 0.1234, because the value lies between: so a decimal may differ by one unit of the
last digit that the reference prints. It may never differ by more than one unit of its
second decimal, because NumPy and Python cut trailing zeros: a printed 0.5 means
0.5000, and 0.6 is another number. Integers are exact, and so are nan and inf.
"""

import re
from decimal import Decimal
from os.path import commonprefix
from typing import NamedTuple

# Digits in a name (`float32`, `x_1`) or a version (`2.13.0`) are part of the text.
NUMBER = re.compile(
    r"((?<![\w.])[-+−]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?!\.?\d)"
    r"|(?<![\w.])[-+−]?(?:nan|NaN|inf|Infinity)(?!\w))"
)
FEWEST_DECIMALS = 2


class Verdict(NamedTuple):
    """Why two texts disagree, if they do, and how close they are."""

    fault: str = ""
    largest: float = 0.0  # difference, as a fraction of its tolerance


def compare_text(
    reference: str, result: str, tolerance: Decimal | None = None
) -> Verdict:
    """Compare a printed result with its reference.

    `tolerance` is absolute and replaces the last digit's unit for all decimals.
    """
    if reference == result:
        return Verdict()
    wanted, found = NUMBER.split(reference), NUMBER.split(result)
    if words := _compare_words(wanted, found):
        return Verdict(words)
    pairs = list(zip(wanted[1::2], found[1::2], strict=True))
    fractions = [_fraction(*pair, tolerance) for pair in pairs]
    largest = max(fractions)
    if largest <= 1:
        return Verdict(largest=float(largest))
    count = sum(fraction > 1 for fraction in fractions)
    old, new = pairs[fractions.index(largest)]
    allowed = f"{float(tolerance or _unit(old)):g}" if _unit(old) else "nothing"
    fault = f"{old} became {new}, allowed: {allowed}; numbers that differ: {count}"
    return Verdict(fault, float(largest))


def _unit(number: str) -> Decimal:
    """Return the tolerance of a printed number: 0 for an integer, nan and inf."""
    mantissa, _, exponent = number.lower().partition("e")
    if "." not in mantissa and not exponent:
        return Decimal(0)
    decimals = max(len(mantissa.partition(".")[2]), FEWEST_DECIMALS)
    return Decimal(1).scaleb(int(exponent or 0) - decimals)


def _fraction(reference: str, result: str, tolerance: Decimal | None) -> Decimal:
    """Return the difference of two numbers as a fraction of what is allowed."""
    one, two = _value(reference), _value(result)
    if one == two or (one.is_nan() and two.is_nan()):
        same_kind = bool(_unit(reference)) == bool(_unit(result))
        return Decimal(0 if same_kind else "inf")
    if not (_unit(reference) and _unit(result)):  # an integer, nan or inf
        return Decimal("inf")
    return abs(one - two) / (tolerance or _unit(reference))


def _value(number: str) -> Decimal:
    return Decimal(number.replace("−", "-"))


def _compare_words(wanted: list[str], found: list[str]) -> str:
    """Describe where the text between the numbers differs, if it does.

    Columns are as wide as their widest number. So where a number changed its width, by
    a sign or a digit, and only in such an output, spaces next to numbers are padding.
    """
    widths = [list(map(len, parts[1::2])) for parts in (wanted, found)]
    padded = widths[0] != widths[1]
    texts = [_unpadded(parts) if padded else parts[::2] for parts in (wanted, found)]
    for one, two in zip(*texts, strict=False):
        if one != two:
            start = max(len(commonprefix([one, two])) - 20, 0)  # noqa: RUF071
            old, new = (repr(text[start : start + 60]) for text in (one, two))
            return f"the text differs: {old} became {new}"
    if len(wanted) != len(found):
        return "one holds more numbers than the other"
    return ""


def _unpadded(parts: list[str]) -> list[str]:
    """Return the texts between numbers without the spaces that touch a number."""
    texts = [text.lstrip(" ") if i else text for i, text in enumerate(parts[::2])]
    return [text.rstrip(" ") for text in texts[:-1]] + texts[-1:]
