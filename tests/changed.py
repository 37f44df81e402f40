"""Which tests a change can touch: `make test CHANGED=1`, or `CHANGED=main`.

Read from the texts of files alone, so it rather runs too much; a file that no rule here
knows runs everything. Before a change is merged `make test` runs everything anyway.

The words of a page (all but its code) can break that page, its record, and what is said
of all pages; but neither another page nor anything that is computed.
"""

import ast
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.running import ROOT
from tools.record.reach import reached_files

PAGE = re.compile(r"(chapters|book)/.*\.md|notebooks/.*\.ipynb")
# What all pages are made by, or with.
SITE = re.compile(r"tools/(record/.*|site/.*|\w+\.py)|book/.*|explorer_source/src/.*")
# What other files touch is known, too. Each of the rest can touch anything.
KNOWN = re.compile(
    rf"{PAGE.pattern}|{SITE.pattern}|attention_lib/(?!__init__).*\.py|tools/.*"
    r"|tests/(?!conftest|running|samples).*|(benchmarks|explorer_source|\.ci|\.github)/.*"
    r"|[A-Z-]+(\.md|\.cff)?"
)
PACKAGES = ["record", "site", "export", "check"]  # each imports from those before it
# What is code in a page: its cells, other listings, and the head that names a kernel.
CODE = re.compile(
    r"^(`{3,})(?:\{code-cell\}|\w).*?^\1$|\A---$.*?^---$", re.MULTILINE | re.DOTALL
)

# A test reads pages if its text, or that of something it uses, holds one of these. It
# reads all of them if it holds one of those, or names none.
READS = re.compile(
    r'\bSITE\b|def \w+\([^)]*\b(site|address)\b|"(book|chapters|notebooks)\b'
    r"|chapter_paths|notebook_path|book_files|NOTEBOOKS|\b(shown|update)\.main"
)
READS_ALL = re.compile(
    r'(chapter|site|source|built)_pa|book_files|NOTEBOOKS|["}]/?(chapters|book)/[\w/]*\{'
    r'|(book|chapters|notebooks)"\)\.r?glob'
)
NAMED = re.compile(r"\bbook/(?:[\w-]+/)*([\w-]+)|\b(\d\d-[a-z][\w-]+)")
FILLS = re.compile(r"(?<![.\w])fill\(")  # it compares a page that a measurement fills
COMPUTES = re.compile(r"^(from|import) (attention_lib|torch)\b", re.MULTILINE)


class Change(NamedTuple):
    """Files that differ; the pages among them; and those of which code does, too."""

    files: frozenset[str]
    pages: frozenset[str]
    coded: frozenset[str]

    @property
    def is_of_words(self):
        """Say whether only the words of pages differ."""
        return not self.coded and all(map(PAGE.fullmatch, self.files))


@cache
def change_since(commit):
    """Return how the files differ from a commit; `1` is the last."""
    commit = "HEAD" if commit == "1" else commit
    new = _git("ls-files", "--others", "--exclude-standard")
    files = {*_git("diff", "--name-only", commit).split(), *new.split()}
    return change_of(files, {name for name in files if _code_differs(name, commit)})


def change_of(files, coded=()):
    """Return a change of files; `coded` are pages of which not only words differ."""
    pages = {Path(name).stem for name in files if PAGE.fullmatch(name)}
    modules = {
        name.split("/")[1] for name in files if name.startswith("attention_lib/")
    }
    # A module has a page of its own in book/api.
    pages |= {Path(name).stem.replace("_", "-") for name in modules}
    return Change(frozenset(files), frozenset(pages), frozenset(map(_stem, coded)))


def is_touched(item, change):
    """Say whether a change can change how a test ends."""
    file = Path(item.path).relative_to(ROOT).as_posix()
    name = getattr(item, "originalname", None)
    if name is None or _uses(file, change):
        return may_be_touched(file, change)
    call = getattr(item, "callspec", None)
    values = map(str, call.params.values()) if call else ()
    pages = r"(?:^|/)(?:book|chapters|notebooks)/[\w./-]+$|^\d\d-[\w-]+$"
    about = {_stem(value) for value in values if re.search(pages, value)}
    if about and not about & change.pages and not _is_of_site(change):
        return False
    return _reads(file, name, change)


def may_be_touched(file, change):
    """Say the same of a file, before it is imported."""
    if _uses(file, change):
        return True
    tests = (name for name in _behind(file) if name.startswith("test_"))
    return any(_reads(file, name, change) for name in tests)


@cache
def _uses(file, change):
    """Say whether a file imports what changed, runs it, or looks at it by itself."""
    if not all(KNOWN.fullmatch(it) and (ROOT / it).is_file() for it in change.files):
        return True
    texts, reached = _texts(file), set()
    if any(name.startswith("attention_lib/") for name in change.files):
        found = reached_files(texts, ROOT)
        reached = {path.relative_to(ROOT).as_posix() for path in found}
    if file.endswith(".ipynb"):
        return bool(change.files & reached) or _stem(file) in change.coded
    mentions = map(_mention, change.files)
    whole = "\n".join(texts)
    return (
        bool(change.files & {file, *reached})
        or "pre_commit" in whole
        or any(it and re.search(it, whole) for it in mentions)
    )


def _mention(name):
    """Return what the text of a test holds that imports or runs a file of no page."""
    folder, part, *_ = f"{name}//".split("/")
    if PAGE.fullmatch(name) or folder == "attention_lib":
        return "(?!)"
    if folder == "book" and part[0] == "_":
        return f"book/{part}"
    if folder in ("tools", "book"):  # beside the pages, tools alone reads what is there
        later = PACKAGES[PACKAGES.index(part) :] if part in PACKAGES else [""]
        return rf"\btools[./]({'|'.join(later)})"
    if folder == "tests":
        return rf"\btests[./]{Path(part).stem}\b"
    return re.escape(folder)


def _reads(file, name, change):
    """Say whether a part of a test's file reads pages that changed."""
    text = _behind(file).get(name, "")
    if FILLS.search(text):
        return any("\n% results" in _text(page) for page in change.files)
    if not (change.pages or _is_of_site(change)) or not READS.search(text):
        return False
    if _is_of_site(change):
        return True
    named = {one or other for one, other in NAMED.findall(text)}
    if change.is_of_words and COMPUTES.search(_text(file)):
        return bool(named & change.pages)
    return not named or bool(named & change.pages) or bool(READS_ALL.search(text))


def _is_of_site(change):
    return any(SITE.fullmatch(it) and not PAGE.fullmatch(it) for it in change.files)


@cache
def _behind(file):
    """Give for each part of a test's file its text, and that of all that it uses."""
    if file.endswith(".ipynb") or not (
        re.search(rf"{READS.pattern}|{FILLS.pattern}", "\n".join(_texts(file)))
    ):
        return {}
    lines, parts, uses = _text(file).splitlines(), {}, {}
    for node in ast.parse(_text(file)).body:
        if isinstance(node, ast.ImportFrom):
            for it in node.names:
                parts[it.asname or it.name] = _imported(node.module, it.name)
            continue
        names = [it for it in ast.walk(node) if isinstance(it, ast.Name)]
        local = {it.id for it in names if isinstance(it.ctx, ast.Store)}
        used = {it.id for it in names} - local
        above = [it.lineno for it in getattr(node, "decorator_list", [])]
        own = {getattr(node, "name", None)}
        if above or str(*own).startswith("test_"):  # pytest gives it fixtures
            used |= {it.arg for it in ast.walk(node) if isinstance(it, ast.arg)}
        if own == {None}:
            targets = getattr(node, "targets", [getattr(node, "target", node)])
            own = {it.id for t in targets for it in ast.walk(t) if it in names}
        for name in own:
            text = lines[min([node.lineno, *above]) - 1 : node.end_lineno]
            parts[name] = "\n".join([parts.get(name, ""), *text])
            uses[name] = uses.get(name, set()) | used
    found = {}
    for name in uses:
        seen, more = set(), {name}
        while more := (more & parts.keys()) - seen:
            seen |= more
            more = set().union(*(uses.get(it, ()) for it in more))
        found[name] = "\n".join(parts[it] for it in seen)
    return found


def _imported(module, name):
    """Give the text of what is imported from a helper, and of all that is behind it."""
    helper = (module or "").replace(".", "/") + ".py"
    return _behind(helper).get(name, "") if helper.startswith("tests/") else ""


@cache
def _texts(file):
    """Give the texts of a test's file and of its helpers; of a notebook, its code."""
    if file.endswith(".ipynb"):
        cells = json.loads(_text(file))["cells"]
        return ["".join(it["source"]) for it in cells if it["cell_type"] == "code"]
    found, more = {}, {file}
    while more := more - found.keys():
        found |= {name: _text(name) for name in more}
        whole = "\n".join(found[name] for name in more)
        more = {f"tests/{it}.py" for it in re.findall(r"\btests[./](\w+)", whole)}
        if re.search(r"^from benchmarks", whole, re.MULTILINE):
            more |= {f"benchmarks/{it.name}" for it in ROOT.glob("benchmarks/*.py")}
    return [*found.values()]


def _code_differs(name, commit):
    """Say whether more than the words of a page differs from a commit."""
    if not PAGE.fullmatch(name) or name.startswith("book/api/"):  # it shows the library
        return bool(PAGE.fullmatch(name))
    try:
        return _code_of(name, _git("show", f"{commit}:{name}")) != _code_of(name)
    except subprocess.CalledProcessError:  # a new one
        return True


def _code_of(name, text=None):
    text = _text(name) if text is None else text
    if not name.endswith(".ipynb"):
        return [match[0] for match in CODE.finditer(text)]
    notebook = json.loads(text)
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _stem(name):
    return Path(name).stem


@cache
def _text(name):
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _git(*arguments):
    command = ["git", *arguments]
    return subprocess.check_output(command, cwd=ROOT, text=True, timeout=60)
