"""Make copies of the notebooks that work alone: for Colab, and to hand out.

Run as `python -m tools.export.copies [--colab] [--student]`. With `--colab` a first
cell makes `attention_lib` importable, and links lead to the other copies on Colab. With
`--student` solutions are gone, and exercises have not been run. All that a copy leads
to or fetches is of the commit that is checked out.
"""

import argparse
import copy
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tools.address import colab_folder, git, repository_address, site_address
from tools.chapters import ROOT
from tools.record import rules
from tools.words import TABLE, say

# What a copy is made from, or leads to at the commit.
SOURCES = ("attention_lib", "book", "notebooks", "pyproject.toml", "tools/model.txt")
MODEL = "tools/model.txt"
TEMPLATE = Path(__file__).with_name("set_up_cell.py")
START = "# @title"
SAID = re.compile(r"(f?\"?)\{say\(.(set_up|edition)\.(\w+).\)\}")
SET_UP = {"cellView": "form", "tags": ["not-compared"]}  # folded under its title
SET_UP |= {"reason": "it says where attention_lib comes from, or nothing"}
SOLUTION = re.compile(
    rf"(?si)<details>\s*<summary>{say('chapter.solution')}[^<]*</summary>"
    r".*?</details>\s*"
)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
# A link's target, after code and formulas, in which the same signs mean other things.
TARGET = re.compile(
    r"^[> ]*(?P<fence>```+|~~~+).*?^[> ]*(?P=fence)"
    r"|`[^`\n]+`|\$\$.*?\$\$|\$[^$\n]+\$"
    r"|(?<=\]\()(?P<target>[^()\s]+)(?=\))",
    re.MULTILINE | re.DOTALL,
)
PICTURES = (".gif", ".jpg", ".png", ".svg")


def main(root: Path = ROOT) -> int:
    """Write the copies, and return the command's exit status."""
    parser = argparse.ArgumentParser(prog="tools.export.copies", description=__doc__)
    parser.add_argument("--colab", action="store_true", help="add the set-up cell")
    parser.add_argument("--student", action="store_true", help="leave solutions out")
    chosen = vars(parser.parse_args())
    output = root / "_build" / ("student" if chosen["student"] else "colab")
    try:
        address, commit = origin(root)
        written = write_copies(root, output, address, commit, **chosen)
    except ValueError as error:
        print(f"make {output.name}: {error}", file=sys.stderr)
        return 1
    print(f"{len(written)} copies of {address}, commit {commit:.8}: {output}")
    return 0


def origin(root: Path) -> tuple[str, str]:
    """Return the repository's address, and the commit of its files."""
    address = repository_address(root)
    if address is None:
        known = "add it with `git remote add origin ADDRESS`, or GITHUB_REPOSITORY"
        raise ValueError(f"the repository's address is not known: {known}")
    try:
        commit = git(root, "rev-parse", "HEAD")
        changed = git(root, "status", "--porcelain", "--", *SOURCES).splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip()
        raise ValueError(f"no commit can be read here: {said}") from error
    if changed:
        names = ", ".join(line[3:] for line in changed)
        raise ValueError(f"{names} differ from commit {commit:.8}: commit or undo them")
    return address, commit


def write_copies(
    root: Path,
    output: Path,
    address: str,
    commit: str,
    *,
    colab: bool = True,
    student: bool = False,
) -> list[Path]:
    """Write a copy of every notebook into a new folder, and return the paths."""
    books = copied(root, address, commit, colab=colab, student=student)
    shutil.rmtree(output, ignore_errors=True)  # a copy's chapter may be gone
    output.mkdir(parents=True)
    for name, book in books.items():
        nbformat.write(book, output / name)
    text = say("copies.readme", address=address, commit=commit)
    (output / "README.md").write_text(text, encoding="utf-8")
    return [output / name for name in books]


def copied(
    root: Path,
    address: str,
    commit: str,
    *,
    colab: bool = True,
    student: bool = False,
    scrolls: bool = True,
) -> dict[str, NotebookNode]:
    """Return a copy of every notebook by its name; `scrolls`: for Colab's own links."""
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    books = {path.name: nbformat.read(path, as_version=4) for path in paths}
    anchors = {
        name: {it: cell.id for cell in book.cells for it in ANCHOR.findall(cell.source)}
        for name, book in books.items()
    }
    site = site_address(address) if say("edition.folder") else None
    links = Links(address, commit, colab, anchors, site, scrolls)
    needs, model = dependencies(root), (root / MODEL).read_text("utf-8").splitlines()
    for name, book in books.items():
        for cell in (it for it in book.cells if it.cell_type == "markdown"):
            cell.source = links.rewritten(cell.source, name)
        if student:
            take_solutions_out(book, name)
            note = say("copies.note", address=address, commit=commit[:8])
            book.cells.insert(1, new_markdown_cell(note, id="about-this-copy"))
        pin = model[-1] if any(map(rules.needs_model, book.cells)) else ""
        stamp(book, set_up_source(address, commit, needs, pin) if colab else "")
    return books


def stamp(book: NotebookNode, set_up: str) -> None:
    """Make a copy from a record, with a set-up cell if there is code for one."""
    book.metadata.pop("attention_book", None)
    if set_up:
        codes = [n for n, it in enumerate(book.cells) if it.cell_type == "code"]
        cell = new_code_cell(set_up, id="set-up", metadata=copy.deepcopy(SET_UP))
        book.cells.insert(codes[0] if codes else len(book.cells), cell)
        for cell in book.cells:
            cell.metadata["id"] = cell.id  # Colab's own place for it
        book.metadata["colab"] = {"provenance": [], "toc_visible": True}
    nbformat.validate(book)


@dataclass(frozen=True)
class Links:
    """The targets of links."""

    address: str
    commit: str
    colab: bool
    anchors: dict[str, dict[str, str]]
    site: str | None = None  # of an edition, whose pages are no files of the commit
    scrolls: bool = True  # inside a copy: as Colab does, not by anchors

    def rewritten(self, text: str, name: str) -> str:
        """Return the Markdown of a cell of notebook `name`, with working links."""
        return TARGET.sub(
            lambda it: self._lead(it["target"], name) if it["target"] else it[0], text
        )

    def _lead(self, target: str, name: str) -> str:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            return target
        path = posixpath.normpath(posixpath.join("notebooks", parts.path or name))
        rest = f"{path}#{parts.fragment}" if parts.fragment else path
        if not path.endswith(".ipynb"):
            if self.site and path.endswith(".md"):
                return f"{self.site}{rest.replace('.md', '.html', 1)}"
            kind = "raw" if path.endswith(PICTURES) else "blob"
            return f"{self.address}/{kind}/{self.commit}/{rest}"
        other = posixpath.basename(path)
        if path != f"notebooks/{other}" or other not in self.anchors:
            raise ValueError(f"{name}: {target} leads to no notebook")
        if parts.fragment and parts.fragment not in self.anchors[other]:
            raise ValueError(f"{name}: {other} has no anchor {parts.fragment!r}")
        if not self.colab:
            return target  # the other copy lies beside this one
        # Colab follows no anchor that a text sets; it scrolls to a cell by its id.
        cell = self.anchors[other].get(parts.fragment)
        place = f"#scrollTo={cell}" if cell else ""
        if not parts.path:
            return place if self.scrolls else target
        if folder := colab_folder(self.address):
            return f"{folder}/{other}{place}"
        return f"{self.address}/blob/{self.commit}/{rest}"


def take_solutions_out(book: NotebookNode, name: str) -> None:
    """Remove the solutions, and leave exercises as they are before they run."""
    exercises = [it for it in book.cells if "exercise" in it.metadata.get("tags", [])]
    for cell in exercises:
        cell.outputs, cell.execution_count = [], None
    removed = 0
    for cell in (cell for cell in book.cells if cell.cell_type == "markdown"):
        removed += len(SOLUTION.findall(cell.source))
        cell.source = SOLUTION.sub("", cell.source).rstrip()
    if removed != len(exercises):
        counts = f"{len(exercises)} exercises, but {removed} folded solutions"
        raise ValueError(f"{name}: {counts}: each needs one dropdown called Solution")
    book.cells = [cell for cell in book.cells if cell.source]


def set_up_source(address: str, commit: str, needs: list[str], model: str = "") -> str:
    """Return the code of the set-up cell; `model` is a line for pip, or empty."""
    source = START + TEMPLATE.read_text(encoding="utf-8").partition(START)[2].rstrip()
    source = SAID.sub(_said, source)
    lines = "".join(f'    "{need}",\n' for need in needs)
    source = source.replace('\nADDRESS = ""\n', f'\nADDRESS = "{address}"\n')
    source = source.replace('\nCOMMIT = ""\n', f'\nCOMMIT = "{commit}"\n')
    if model:
        pin, _, digest = model.partition(" ")
        model = f'(\n    "{pin} "\n    "{digest}"\n)'
        source = source.replace('\nMODEL = ""\n', f"\nMODEL = {model}\n")
    return source.replace('\nNEEDS = [""]\n', f"\nNEEDS = [\n{lines}]\n")


def _said(found: re.Match[str]) -> str:
    """Return text for that cell: a comment, or a string, with `f` if needed."""
    words = str(TABLE[found[2]][found[3]]).replace("\n", "\n# ")
    return found[1].lstrip("" if "{" in words else "f") + words


def dependencies(root: Path) -> list[str]:
    """Return the library's requirements, as in pyproject.toml: `numpy>=2.0`."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)["project"]["dependencies"])


if __name__ == "__main__":
    sys.exit(main())
