"""The exercises of the chapters: each with its task, stub, hint and solution."""

import re

from tools.chapters import chapter_paths

# Title with kind and minutes, task; stub that ends with the check; hint; solution.
EXERCISE = re.compile(
    r":::\{admonition\} Exercise (?P<number>\d+\.\d+) · (?P<title>[^\n]+) "
    r"\((?:write|break|predict|modify|measure|predict, then measure), "
    r"(?P<minutes>\d+) minutes\)\n"
    r":class: exercise\n:name: ex-(?P<name>\d+-\d+)\n(?P<task>.+?)\n:::\n\n"
    r"```\{code-cell\} ipython3\n:tags: \[exercise\]\n(?P<stub>.+?)\n"
    r"exercises\.check_(?P<check>\w+)\(\w+\)\n```\n\n"
    r":::\{dropdown\} Hint\n(?P<hint>.+?)\n:::\n\n"
    r":{3,4}\{dropdown\} Solution\n(?P<rest>.*?)```python\n(?P<solution>.+?)\n```\n",
    re.DOTALL,
)


def exercises_of(text):
    """The exercises of a chapter, each with all of its parts."""
    # One at a time: a part that is missing must not be found in the next one.
    each = re.split(r"(?=:::\{admonition\} Exercise )", text)[1:]
    return [match.groupdict() for one in each if (match := EXERCISE.match(one))]


TEXTS = {path.stem: path.read_text("utf-8") for path in chapter_paths()}
FOUND = [(stem, one) for stem, text in TEXTS.items() for one in exercises_of(text)]
SOLUTIONS = {one["check"]: one["solution"] for _, one in FOUND}
