"""Fill the blanks of a page with what a run has measured.

A blank stands between the comments `% results: NAME` and `% end`.
"""

import re

BLANK = re.compile(r"(% results: (\w+)\n)(.*?)(% end\n)", re.DOTALL)


def fill(page: str, made: dict[str, str]) -> str:
    """Return a page with its blanks filled, each by the text of its name.

    Raises:
        KeyError: a blank that nothing was made for.
    """
    return BLANK.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n\n{match[4]}", page)
