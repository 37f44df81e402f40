"""Where the chapters are, in which order, and how the site reads them."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import yaml
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = ROOT / "chapters"
NOTEBOOKS = ROOT / "notebooks"
SITE = ROOT / "_build" / "html"


def chapter_paths(root: Path = ROOT) -> list[Path]:
    """Return the chapters in the reading order of `_toc.yml`."""
    names = [it.removesuffix(".md") for it in files(read_yaml(root / "_toc.yml"))]
    paths = [root / f"{it}.md" for it in names if it.startswith("chapters/")]
    if missing := [it.relative_to(root) for it in paths if not it.is_file()]:
        raise FileNotFoundError(f"_toc.yml names {missing[0]}: add or remove it")
    return paths


def notebook_path(chapter: Path) -> Path:
    """Return the path of a chapter's record."""
    return chapter.parent.parent / "notebooks" / f"{chapter.stem}.ipynb"


def site_pages(site: Path) -> list[Path]:
    """Return the pages of a built site, without the theme's fragments of HTML."""
    pages = sorted(site.rglob("*.html"))
    return [page for page in pages if "_static" not in page.relative_to(site).parts]


def code_of(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the code cells."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read_chapter(path: Path) -> nbformat.NotebookNode:
    """Read a chapter as the site reads it, its Markdown not yet converted.

    The site finds a record by its code cells and their metadata, so both come from
    MyST-NB's own reader. `metadata.source_map` holds each cell's first line, from 0.
    """
    extensions = frozenset(parser_config(path.parent.parent).enable_extensions)
    return deepcopy(_read(path.read_text(encoding="utf-8"), path, extensions))


@cache
def _read(text: str, path: Path, extensions: frozenset[str]) -> nbformat.NotebookNode:
    config = MdParserConfig(enable_extensions=set(extensions))
    return read_myst_markdown_notebook(text, config, add_source_map=True, path=path)


def parser_config(root: Path = ROOT) -> MdParserConfig:
    """Return the MyST settings of `_config.yml`."""
    parse = read_yaml(root / "_config.yml")["parse"]
    return MdParserConfig(enable_extensions=set(parse["myst_enable_extensions"]))


def md_parser(root: Path = ROOT) -> MarkdownIt:
    """Return the site's parser of Markdown."""
    return create_md_parser(parser_config(root), RendererHTML)


def read_yaml(path: Path) -> Any:
    """Read one YAML file."""
    # The loader in C: a build reads the settings some eighty times.
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def files(toc: Any) -> list[str]:
    """Collect the values of all `file` keys, in order of appearance."""
    if isinstance(toc, list):
        return [name for part in toc for name in files(part)]
    if not isinstance(toc, dict):
        return []
    own = [toc["file"]] if "file" in toc else []
    return own + [name for value in toc.values() for name in files(value)]
