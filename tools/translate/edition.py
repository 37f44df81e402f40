"""Write the source of the edition, a whole book in `_build/zh`, and build its site.

The folder gets copies of all that a site is made from, with the edition's own files in
the place of the English ones. Then this file runs there, with the words of that folder,
and writes pages and notebooks; nothing is executed. The site is built there, too.
"""

import copy
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tools.address import github_name, repository_address, site_address
from tools.chapters import ROOT, chapter_paths, md_parser
from tools.check.reproduces import RESULTS
from tools.language import language
from tools.running import run
from tools.site.kept import Kept
from tools.site.languages import FOLDER, section_ids
from tools.translate import catalogue
from tools.translate.catalogue import settings, write

COPIED = ["attention_lib", "book", "explorer_source/src", "tools"]
COPIED += ["contributing/asked/words.toml", "pyproject.toml", "requirements.txt"]
HAS_RESULTS = "% results: proof\n"  # a page that the last runs are written into
WORDS, OWN_WORDS = Path("book/words.toml"), Path("book/words.own.toml")


def build(root: Path, extra: Iterable[str] = (), made: str = "site") -> int:
    """Write the edition's source, and from it the site, copies for Colab, a PDF, or "".

    Pages in `extra` count as finished.
    """
    tree = root / "_build" / FOLDER
    mirror(root, tree)
    commands = [["tools.translate.edition", str(root), *extra]]
    if made in ("site", "pdf"):
        commands += [["tools.site", "--check", "changed"]]
    if made == "pdf":
        commands += [["tools.export.pdf", str(root / "_build/book-zh.pdf")]]
    commands += [["tools.export.copies", "--colab"]] if made == "copies" else []
    for command in commands:
        line = [sys.executable, "-m", *command]
        where: Any = {"cwd": tree, "env": _environment(root)}
        done = run(line, limit=1800, stdout=None, stderr=None, **where)
        if done.returncode:
            return done.returncode
    if made == "site":
        # What works on the English site does not follow links.
        link = root / "_build/html" / FOLDER
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(f"../{FOLDER}/_build/html")
    elif made == "copies":
        shutil.rmtree(there := root / "_build/colab" / FOLDER, ignore_errors=True)
        shutil.move(tree / "_build/colab", there)
    return 0


def _environment(root: Path) -> dict[str, str]:
    """Return the variables that say which repository the edition belongs to."""
    address = repository_address(root)
    found = {**os.environ, "ATTENTION_LANGUAGE": FOLDER}
    site = site_address(address)
    found |= {"GITHUB_REPOSITORY": name} if (name := github_name(address)) else {}
    return found | ({"BOOK_SITE": f"{site}{FOLDER}/"} if site else {})


def mirror(root: Path, tree: Path) -> None:
    """Copy what the site is made from, except pages and notebooks."""
    sources: dict[Path, Path] = {}
    for base in (root, root / FOLDER):  # the edition's own files take a place
        for folder in COPIED:
            sources |= {name: base / name for name in files(base, folder)}
    sources[OWN_WORDS], sources[WORDS] = sources[WORDS], root / WORDS
    for folder in COPIED:  # what is gone in the repository goes here, too
        for name in {*files(tree, folder)} - {*sources}:
            (tree / name).unlink()
    for name, path in sources.items():
        write(tree / name, path.read_bytes())
    for file, lines in settings(root)["lines"].items():
        text = (root / file).read_text(encoding="utf-8")
        write(tree / file, with_lines(text, lines).encode())


def files(root: Path, folder: str) -> Iterator[Path]:
    """Yield the names of the files in a folder, except pages, which are written."""
    for path in sorted([root / folder, *(root / folder).rglob("*")]):
        name = path.relative_to(root)
        is_page = name.parent == Path("book") and name.suffix == ".md"
        is_page = is_page or path.suffix in (".po", ".pyc")
        if path.is_file() and not is_page:
            yield name


def with_lines(text: str, lines: dict[str, str]) -> str:
    """Return a file of settings with some of its lines replaced."""
    for english, own in lines.items():
        line = rf"(?m)^(\s*(?:- )?){re.escape(english)}$"
        text, count = re.subn(line, rf"\g<1>{own}", text)
        if not count:
            raise ValueError(f"edition.toml: no such line: {english}")
    return text


def write_pages(english: Path, tree: Path, shown: set[str]) -> None:
    """Write all pages, those not `shown` in English, and what the site must know."""
    parser, ids = md_parser(english), dict[str, list[str]]()
    kept = Kept(tree / "_build/pages.json", english, str(sorted(shown)))
    runs = [english / RESULTS, *sorted(english.glob("notebooks/*.ipynb"))]
    for name, path in catalogue.page_paths(english).items():
        text, made = path.read_text(encoding="utf-8"), tree / f"{name}.md"
        read = [path, english / FOLDER / f"{name}.po"]
        read += runs if HAS_RESULTS in text else []
        ids[name] = kept.value(name, partial(section_ids, text, parser), path)
        if not kept.is_new(f"{name}: all", *read) and made.is_file():
            continue
        if name in shown:
            own = catalogue.read(english, name)
            text = catalogue.in_chinese(text, own, parser)
        write(made, _filled(text, english).encode())
    kept.write()
    for path in [*tree.glob("chapters/*.md"), *tree.glob("book/*.md")]:
        if path.relative_to(tree).with_suffix("").as_posix() not in ids:
            path.unlink()
    known: dict[str, Any] = {"ids": ids, "english": sorted(ids.keys() - shown)}
    known["figures"] = settings(english).get("figures", {})
    write(tree / "edition.json", json.dumps(known, indent=1).encode())


def _filled(text: str, english: Path) -> str:
    """Return a page with the results of the runs in the words of the edition."""
    from tools.check.reproduces import fill, texts
    from tools.record.freshness import states

    if HAS_RESULTS not in text:
        return text
    kept = json.loads((english / RESULTS).read_text(encoding="utf-8"))
    return fill(text, texts(kept, states(english)))


def write_notebooks(english: Path, tree: Path) -> None:
    """Write each chapter's notebook, with the outputs of the English record."""
    from tools.chapters import code_of, notebook_path, read_chapter
    from tools.record.book import read_book
    from tools.record.convert import plain_notebook
    from tools.record.drafts import read_record, store
    from tools.record.freshness import fingerprints, seal, stale_causes
    from tools.translate.outputs import translate_outputs

    lines = language.lines_of(language.table())
    book = read_book(tree)
    shared = json.dumps(lines) + book.shown()
    kept = Kept(tree / "_build/notebooks.json", tree, shared)
    for chapter in chapter_paths(tree):
        source, made = english / chapter.relative_to(tree), notebook_path(chapter)
        read = chapter, source, notebook_path(source)
        if not kept.is_new(chapter.stem, *read) and made.is_file():
            continue
        record = read_record(notebook_path(source))
        if record is None or stale_causes(read_chapter(source), record, english):
            raise SystemExit(f"{chapter.stem} is stale: run `make notebooks`")
        own = plain_notebook(chapter, book)
        for cell, its in zip(code_of(own), code_of(record), strict=True):
            cell.outputs = copy.deepcopy(its.outputs)
            cell.execution_count = its.execution_count
            translate_outputs(cell, its, lines)
        own.metadata["attention_book"] = fingerprints(own, tree) | seal(own)
        store(chapter, own)
    kept.write()


if __name__ == "__main__":
    english = Path(sys.argv[1])
    finished = settings(english)["finished"]
    write_pages(english, ROOT, {*finished, *sys.argv[2:]})
    write_notebooks(english, ROOT)
