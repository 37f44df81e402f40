"""Which tests a change can touch: `make test CHANGED=1`, or `CHANGED=main`.

Read from names and imports alone, so it rather runs too much. Before a change is merged
`make test` runs everything anyway.
"""

import ast
import json
import re
import subprocess
from functools import cache
from pathlib import Path

from tools.chapters import ROOT
from tools.record.reach import reached_files

# A change of these can touch anything.
EVERYTHING = re.compile(
    r"(_config|_toc)\.yml|pyproject\.toml|requirements\.txt|Makefile"
    r"|tests/((conftest|changed|running)\.py|samples/.*)"
)
PROSE = re.compile(r"(chapters|book)/.*\.md|notebooks/.*|book/.*\.(bib|svg|png)")
# What the site's pages are made by; their style sheets and scripts, too.
SITE = re.compile(
    r"tools/(record|site)/.*|book/_(static|templates)/.*|explorer_source/.*"
)
# A test of these reads the site, or the sources of its pages.
READS_PAGES = re.compile(
    r'"site"|\b(site|address)[,)]|chapter_paths|ROOT / "(book|chapters)'
)

# A part of such a file that does.
READS_A_PAGE = re.compile(rf'{READS_PAGES.pattern}|"(book|chapters|notebooks)\b')


def changed_files(since="HEAD"):
    """Return the files that differ from a commit, new ones too."""
    new = _git("ls-files", "--others", "--exclude-standard")
    return {*_git("diff", "--name-only", since).split(), *new.split()}


def is_touched(item, changed, since):
    """Say whether a change of these files can change how a test ends."""
    file = Path(item.path).relative_to(ROOT)
    if any(EVERYTHING.fullmatch(name) for name in changed):
        return True
    if file.suffix == ".ipynb":
        return _code_changed(file, changed, since)
    reached = _is_reached(file, frozenset(changed))
    if reached and all(PROSE.fullmatch(name) for name in changed):
        return _reads_pages(item, file) and not _is_of_another_page(item, changed)
    return reached


def _code_changed(notebook, changed, since):
    """Say whether a notebook's code, its outputs or the library behind it changed."""
    cells = _code(json.loads((ROOT / notebook).read_text(encoding="utf-8")))
    reached = reached_files(["".join(cell["source"]) for cell in cells], ROOT)
    if changed & {path.relative_to(ROOT).as_posix() for path in reached}:
        return True
    if notebook.as_posix() not in changed:
        return False
    try:
        before = json.loads(_git("show", f"{since}:{notebook.as_posix()}"))
        return cells != _code(before)
    except subprocess.CalledProcessError:  # a new one
        return True


@cache
def _is_reached(file, changed):
    """Say whether a test's file imports or reads what changed."""
    text = (ROOT / file).read_text(encoding="utf-8")
    helpers = set(re.findall(r"tests[./](\w+)", text))
    texts = [text, *(_text(f"tests/{helper}.py") for helper in helpers)]
    reached = {path.relative_to(ROOT).as_posix() for path in reached_files(texts, ROOT)}
    whole = "\n".join(texts)
    # These helpers open what a test gives them: its own text says whether it is a page.
    given = [_text(f"tests/{helper}.py") for helper in helpers - {"browsing", "views"}]
    reads_pages = READS_PAGES.search("\n".join([text, *given])) is not None
    for name in changed:
        package = ".".join(Path(name).parts[:2]).removesuffix(".py")
        if (
            name in reached | {file.as_posix(), *(f"tests/{h}.py" for h in helpers)}
            or (name.startswith("tools/") and package in whole)
            or (reads_pages and (PROSE.fullmatch(name) or SITE.fullmatch(name)))
            or (name.startswith(".") and name.split("/")[0] in whole)
        ):
            return True
    return False


def _reads_pages(item, file):
    """Say whether this test of its file reads a page, itself or by what it calls."""
    name = getattr(item, "originalname", None)
    fixtures = getattr(item, "fixturenames", ())
    return name is None or "site" in fixtures or name in _page_readers(file)


@cache
def _page_readers(file):
    """Name what reads pages in a test's file, and in the helpers that it imports."""
    text = (ROOT / file).read_text(encoding="utf-8")
    helpers = set(re.findall(r"tests[./](\w+)", text)) - {"browsing", "views"}
    known = [_readers(_text(f"tests/{helper}.py"), set()) for helper in helpers]
    lines = (it for it in ast.walk(ast.parse(text)) if isinstance(it, ast.ImportFrom))
    imported = {alias.name for line in lines for alias in line.names}
    return _readers(text, imported & set().union(*known))


def _readers(text, known):
    """Name the parts of a program that read pages, or use what does."""
    lines, parts = text.splitlines(), {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        above = [it.lineno for it in getattr(node, "decorator_list", [])]
        body = "\n".join(lines[min([node.lineno, *above]) - 1 : node.end_lineno])
        targets = getattr(node, "targets", [getattr(node, "target", node)])
        own = {it.id for t in targets for it in ast.walk(t) if isinstance(it, ast.Name)}
        for name in {node.name} if hasattr(node, "name") else own:
            parts[name] = parts.get(name, "") + body
    found = known | {name for name in parts if READS_A_PAGE.search(parts[name])}
    while True:
        uses = re.compile(rf"\b({'|'.join(map(re.escape, found)) or '(?!)'})\b")
        more = {name for name in parts if uses.search(parts[name])} - found
        if not more:
            return found
        found |= more


def _is_of_another_page(item, changed):
    """Say whether the test is about a page without a change."""
    values = getattr(item, "callspec", None)
    pages = {Path(name).stem for name in changed}
    about = [
        Path(str(value)).stem
        for value in (values.params.values() if values else ())
        if re.search(r"(^|/)(book|chapters)/[\w./-]+$|^\d\d-[\w-]+$", str(value))
    ]
    return bool(about) and not pages & set(about)


def _code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _text(name):
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _git(*arguments):
    command = ["git", *arguments]
    return subprocess.check_output(command, cwd=ROOT, text=True, timeout=60)
