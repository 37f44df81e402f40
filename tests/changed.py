"""Which tests a change can touch: `make test CHANGED=1`, or `CHANGED=main`.

Read from the texts of files alone, so it rather runs too much; a file that no rule here
knows runs everything. Before a change is merged `make test` runs everything anyway.

The words of a page (all but its code) can break that page, its record, and what is said
of all pages; but neither another page nor anything that is computed.
"""

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.behind import parts_of, text_of, texts_of
from tests.running import ROOT, ran
from tools.record.reach import reached_files

PAGE = re.compile(r"(chapters|book)/.*\.md|notebooks/.*\.ipynb|[A-Z]+\.md")
# What is code in a page: its cells, other listings, and the head that names a kernel.
CODE = re.compile(r"(?ms)^(`{3,})(?:\{code-cell\}|\w).*?^\1$|\A---$.*?^---$")
# What all pages are made by, or with.
SITE = re.compile(
    r"tools/(record/.*|site/.*|(?!running)\w+\.py)|book/.*|explorer_source/src/.*"
)
# What other files touch is known, too. Each of the rest can touch anything.
KNOWN = re.compile(
    rf"{PAGE.pattern}|{SITE.pattern}|attention_lib/(?!__init__|_supervisor).*\.py"
    r"|tools/(?!running).*|tests/(?!conftest|running|samples).*|[A-Z-]+(\.cff)?"
    r"|(benchmarks|explorer_source|\.ci|\.github)/.*"
)
PACKAGES = ["record", "site", "export", "check"]  # each imports from those before it

# A test reads pages if its text, or that of something it uses, holds one of these: all
# of them, if it holds one of the second kind, too; else those that it names, if any.
READS = re.compile(
    r"\b(SITE|CHAPTERS|NOTEBOOKS)\b|chapter_paths|book_files|\b(shown|update)\.main"
    r'|def \w+\([^)]*\b(site|address)[,)]|[T\]] / f?"(book|chapters|notebooks)\b'
)
READS_ALL = re.compile(
    r'(chapter|site|source|built)_pa|book_files|NOTEBOOKS|["}]/?(chapters|book)/[\w/]*\{'
    r'|(book|chapters|notebooks)"\)\.r?glob'
)
NAMED = re.compile(r"\bbook/(?:[\w-]+/)*([\w-]+)|\b(\d\d-[a-z][\w-]+)")
ABOUT = re.compile(r"(?:^|/)(?:book|chapters|notebooks)/[\w./-]+$|^\d\d-[\w-]+$")
FILLS = re.compile(r"(?<![.\w])fill\(")  # it compares a page that a measurement fills
STATE = re.compile(r"\bstate\(ROOT\)")  # with what ran on the records that are there
COMPUTES = re.compile(r"(?m)^(from|import) (attention_lib|torch)\b")


class Change(NamedTuple):
    """Files that differ; the pages among them; and those of which code does, too."""

    files: frozenset[str]
    pages: frozenset[str]
    coded: frozenset[str]

    @property
    def is_of_words(self):
        """Say whether only the words of pages differ."""
        return not self.coded and all(map(PAGE.fullmatch, self.files))

    @property
    def is_of_site(self):
        """Say whether it can reach any page."""
        return any(SITE.fullmatch(it) and not PAGE.fullmatch(it) for it in self.files)


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
    # A module has a page of its own, in book/api.
    modules = re.findall(r"(?m)^attention_lib/(\w+)", "\n".join(files))
    pages |= {name.replace("_", "-") for name in modules}
    return Change(*map(frozenset, (files, pages, (Path(it).stem for it in coded))))


def is_touched(item, change):
    """Say whether a change can change how a test ends."""
    file = Path(item.path).relative_to(ROOT).as_posix()
    name = getattr(item, "originalname", None)
    if name is None or _uses(file, change):
        return may_be_touched(file, change)
    call = getattr(item, "callspec", None)
    values = map(str, call.params.values()) if call else ()
    about = {Path(value).stem for value in values if ABOUT.search(value)}
    is_elsewhere = about and not about & change.pages and not change.is_of_site
    return not is_elsewhere and _reads(file, name, change)


def may_be_touched(file, change):
    """Say the same of a whole file, before it is imported."""
    if _uses(file, change):
        return True
    whole = "\n".join(texts_of(file))
    if file.endswith(".ipynb") or not (READS.search(whole) or FILLS.search(whole)):
        return False
    tests = (name for name in parts_of(file) if name.startswith("test_"))
    return any(_reads(file, name, change) for name in tests)


@cache
def _uses(file, change):
    """Say whether a file imports what changed, runs it, or looks at it by itself."""
    if not all(KNOWN.fullmatch(it) and (ROOT / it).is_file() for it in change.files):
        return True
    texts, reached = texts_of(file), set()
    if any(name.startswith("attention_lib/") for name in change.files):
        found = reached_files(texts, ROOT)
        reached = {path.relative_to(ROOT).as_posix() for path in found}
    if file.endswith(".ipynb"):
        return bool(change.files & reached) or Path(file).stem in change.coded
    if change.files & {file, *reached}:
        return True
    # The linters look at all files; this one does not hold their name.
    mentions = ["pre[_]commit", *map(_mention, change.files)]
    return re.search("|".join(mentions), "\n".join(texts)) is not None


def _mention(name):
    """Return what a test's text holds if the test imports or runs a file of no page."""
    folder, part, *_ = f"{name}//".split("/")
    if PAGE.fullmatch(name) or folder == "attention_lib":
        return "(?!)"
    if folder == "book":  # what is no page there is read by tools
        folder, part = "tools", "site" if part[0] == "_" else ""
    if folder == "tools":
        later = PACKAGES[PACKAGES.index(part) :] if part in PACKAGES else [""]
        return rf"\btools[./]({'|'.join(later)})"
    if folder == "tests":
        return rf"\btests[./]{Path(part).stem}\b"
    return re.escape(folder)


def _reads(file, name, change):
    """Say whether a test, or what it uses, reads pages that changed."""
    text = parts_of(file).get(name, "")
    if FILLS.search(text):
        again = change.coded and STATE.search(text)
        return bool(again) or any("\n% results" in text_of(it) for it in change.files)
    if not (change.pages or change.is_of_site) or not READS.search(text):
        return False
    named = {one or other for one, other in NAMED.findall(text)}
    if change.is_of_site or named & change.pages:
        return True
    if change.is_of_words and COMPUTES.search(text_of(file)):
        return False
    return not named or READS_ALL.search(text) is not None


def _code_differs(name, commit):
    """Say whether more than the words of a page differs from a commit."""
    if not PAGE.fullmatch(name):
        return False
    try:
        before = _git("show", f"{commit}:{name}")
        now = (ROOT / name).read_text(encoding="utf-8")
    except (subprocess.CalledProcessError, FileNotFoundError):  # new, or gone
        return True
    return _code_of(name, before) != _code_of(name, now)


def _code_of(name, text):
    """Return all of a page but its words."""
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]
    if name.startswith("book/api/"):  # it shows what the library says
        return [text]
    return [match[0] for match in CODE.finditer(text)]


def _git(*arguments):
    return ran(["git", *arguments], cwd=ROOT, timeout=60, check=True).stdout
