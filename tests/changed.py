"""Which tests a change can break: `make test CHANGED=1`, or `CHANGED=main`.

A file runs the tests of its folder and of the folders that use it; a file of no known
folder runs everything. That is the loop in between: before a change is merged,
`make test` runs everything anyway.
"""

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.running import ROOT, ran
from tools.record.reach import reached_files

PAGE = re.compile(r"(chapters|book)/.*\.md|notebooks/.*\.ipynb|[A-Z]+\.md")
# What is code in a page: its cells, other listings, and the head that names a kernel.
CODE = re.compile(r"(?ms)^(`{3,})(?:\{code-cell\}|\w).*?^\1$|\A---$.*?^---$")
RECORDS = "tests/pipeline/test_checks.py"
LINT = "tests/pipeline/test_lint.py"
# A file, and the beginnings of the names of the tests that it can break.
AREAS = [
    (r"attention_lib/examine/", ["tests/examine", "tests/course", RECORDS]),
    (r"attention_lib/course/|explorer_source/",
     ["tests/course", "tests/site", RECORDS]),
    (r"attention_lib/(?!__init__|_supervisor)",
     ["tests/library", "tests/examine", "tests/course", RECORDS]),
    (r"chapters/|book/|notebooks/|tools/(record|site|export)/|contributing/asked/",
     ["tests/pipeline", "tests/site"]),
    (r"zh/|tools/translate/",
     ["tests/pipeline/test_translate.py", "tests/site/test_languages.py"]),
    (r"tools/check/|benchmarks/|contributing/|\.github/|\.ci/|[A-Z-]+(\.\w+)?$",
     ["tests/pipeline"]),
]  # fmt: skip
OWN = re.compile(r"tests/(library|examine|course|pipeline|site)/")
# What reads the words of a page, or of all pages.
WORDS = [
    *(RECORDS, LINT, "tests/course/test_exercises.py::test_verdict_holds_no_line"),
    *(f"tests/pipeline/test_{it}.py" for it in ("chapters", "copies", "private")),
    "tests/pipeline/test_translate.py",
    *("tests/pipeline/test_tied.py", "tests/site/test_search.py::test_sixty_queries"),
    *("tests/site/test_answers.py", "tests/site/test_formulas.py"),
    *("tests/site/test_glossary.py", "tests/site/test_mistakes.py"),
    *("tests/site/test_notation.py", "tests/site/test_pages.py"),
    *("tests/site/test_punctuation.py", "tests/site/test_questions.py"),
    *("tests/site/test_quiz_texts.py", "tests/site/test_site.py"),
    *("tests/site/test_sources.py", "tests/site/test_visits.py"),
    "tests/site/test_weight.py",
]
ABOUT = re.compile(r"(?:^|/)(?:book|chapters|notebooks)/[\w./-]+$|^\d\d-[\w-]+$")


class Change(NamedTuple):
    """Files that differ; the pages among them; and those of which code does, too."""

    files: frozenset[str]
    pages: frozenset[str]
    coded: frozenset[str]

    @property
    def is_of_pages(self):
        """Return whether only pages differ."""
        return all(map(PAGE.fullmatch, self.files))

    @property
    def is_of_words(self):
        """Return whether only the words of pages differ."""
        return not self.coded and self.is_of_pages


@cache
def change_since(commit):
    """Return how the files differ from a commit; `1` is the last."""
    commit = "HEAD" if commit == "1" else commit
    new = _git("ls-files", "--others", "--exclude-standard")
    files = {*_git("diff", "--name-only", commit).split(), *new.split()}
    return change_of(*files, coded=[it for it in files if _code_differs(it, commit)])


def change_of(*files, coded=()):
    """Return a change of files; `coded` are pages of which not only words differ."""
    pages = {Path(name).stem for name in files if PAGE.fullmatch(name)}
    return Change(*map(frozenset, (files, pages, (Path(it).stem for it in coded))))


@cache
def wanted(change):
    """Return the beginnings of the names of the tests to run; "" is that of all."""
    if change.is_of_words:
        return (*WORDS,) if change.files else ()
    found = {LINT}
    for name in change.files:
        area = next((tests for file, tests in AREAS if re.match(file, name)), [""])
        if folder := OWN.match(name):
            is_test = Path(name).name.startswith("test_")
            area = [name if is_test else folder[0]]
        found.update(area if (ROOT / name).is_file() else [""])
    return (*found,)


def may_be_touched(file, change):
    """Return whether a test of a file may have to run, before it is imported."""
    if file.endswith(".ipynb"):
        return _reaches(file, change)
    return any(file.startswith(it) or it.startswith(file) for it in wanted(change))


def is_touched(item, change):
    """Return whether a change can change how a test ends."""
    file = Path(item.path).relative_to(ROOT).as_posix()
    if file.endswith(".ipynb"):
        return _reaches(file, change)
    call = getattr(item, "callspec", None)
    values = map(str, call.params.values()) if call else ()
    about = {Path(value).stem for value in values if ABOUT.search(value)}
    is_elsewhere = change.is_of_pages and about and not about & change.pages
    name = f"{file}::{getattr(item, 'originalname', '')}"
    return name.startswith(wanted(change)) and not is_elsewhere


@cache
def _reaches(file, change):
    """Return whether a change can touch what a notebook computes."""
    others = {it for it in change.files if not PAGE.fullmatch(it)}
    if "" in wanted(change) or any(it.startswith("tools/check/") for it in others):
        return True
    cells = json.loads((ROOT / file).read_text(encoding="utf-8"))["cells"]
    code = ["".join(it["source"]) for it in cells if it["cell_type"] == "code"]
    found = reached_files(code, ROOT)
    reached = {path.relative_to(ROOT).as_posix() for path in found}
    return bool(others & reached) or Path(file).stem in change.coded


def _code_differs(name, commit):
    """Return whether more than the words of a page differs from a commit."""
    if not PAGE.fullmatch(name):
        return False
    try:
        before = _git("show", f"{commit}:{name}")
        now = (ROOT / name).read_text(encoding="utf-8")
    except (subprocess.CalledProcessError, FileNotFoundError):  # new, or gone
        return True
    return _code_of(name, before) != _code_of(name, now)


def _code_of(name, text):
    """Return all of a page except its words."""
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]
    if name.startswith("book/api/"):  # it shows what the library says
        return [text]
    return [match[0] for match in CODE.finditer(text)]


def _git(*arguments):
    return ran(["git", *arguments], cwd=ROOT, timeout=60, check=True).stdout
