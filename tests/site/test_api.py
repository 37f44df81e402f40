"""The pages of the library: every name as it is written, and links to it."""

import inspect
import io
import re
from importlib import import_module

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace
from sphinx.util.inventory import InventoryFile

import attention_lib
from tests.pages import parsed
from tests.running import written
from tools.chapters import ROOT, SITE, chapter_paths
from tools.site.api import documented, examples, source

pytestmark = pytest.mark.usefixtures("site")


def article(page):
    return parsed(SITE / f"{page}.html").select_one("article")


def entry(name):
    """What a page of the library says of a name, on one line."""
    page = article(f"book/api/{name.rpartition('.')[0].replace('.', '-')}")
    return " ".join(page.find(id=f"attention_lib.{name}").parent.get_text().split())


def test_every_public_name_has_an_entry():
    with (SITE / "objects.inv").open("rb") as file:
        kinds = InventoryFile.load(file, "", lambda base, place: place)
    found = {name for kind in kinds for name in kinds[kind] if kind.startswith("py:")}
    offered = {name.rpartition(".")[2] for name in found if name.count(".") == 2}
    assert set(attention_lib.__all__) | {"make_stories", "require_inputs"} <= offered
    # Nothing private, and no method that matplotlib adds to a class.
    assert not {name for name in found if re.search(r"\._\w+$|Figure\.set$", name)}


def test_index_and_pages_say_what_each_module_holds_and_its_chapter():
    chapters = {}
    for row in article("book/api/index").select("tbody tr"):
        name, said, chapter = (td.get_text().strip() for td in row.select("td"))
        module = import_module(f"attention_lib.{name}")
        first = inspect.getdoc(module).partition("\n")[0]
        assert said == first.replace("`", "").replace("'", "’")
        page = article(f"book/api/{row.a['href'].partition('.html')[0]}")
        paragraphs = [p.get_text() for p in page.select("section > p")]
        assert {said, chapter} <= {*paragraphs, ""}
        chapters[name] = chapter
    assert list(chapters) == sorted(documented(ROOT))
    assert {"masks", "pretrained", "course.views"} < {*chapters}
    assert chapters["masks"] == "Shown in Chapter 3."


def test_every_example_stands_in_the_entry_of_its_name():
    shown = {
        str(dd.find_previous_sibling("dt")["id"])
        for page in (SITE / "book/api").glob("*.html")
        for dd in parsed(page).select("dd:has(> p.rubric)")
    }
    names = {name.rpartition(".")[2] for name in examples(ROOT)}
    assert {name.rpartition(".")[2] for name in shown} == names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("masks.causal_mask", "(query_len, key_len=None, *, device=None)"),
        ("masks.causal_mask", "key_len (int | None) – columns; the number of rows"),
        ("masks.causal_mask", "type: Bool[Tensor, 'Q K'] Raises: "),
        ("training.TrainConfig", "class TrainConfig(steps, batch_size=16,"),
        ("plotting.BookFigure", "class BookFigure#"),
        ("stories.expected_length_and_entropy", "part (Callable[..., None])"),
    ],
)
def test_entry_shows_what_is_written(name, shown):
    assert shown in entry(name)
    assert "Create a new string" not in entry(name)  # the docstring of a value's type


# All that an entry's list may say, in its order.
FIELDS = ["Parameters", "Variables", "Returns", "Yields", "Return type", "Raises"]


def test_fields_have_one_order_and_say_more_than_the_signature():
    bare, seen = [], set()
    for path in sorted((SITE / "book/api").glob("*.html")):
        for fields in parsed(path).select("dl.field-list"):
            names = [it.get_text().strip(" :") for it in fields.select(":scope > dt")]
            assert names == [name for name in FIELDS if name in names]
            seen.update(names)
            # A class says once what it is made of.
            lists = [
                {it.get_text() for it in dd.select("li > p > strong:first-child")}
                for dd in fields.select(":scope > dd")
            ]
            said = dict(zip(names, lists, strict=True))
            twice = said.get("Parameters", set()) & said.get("Variables", set())
            assert not twice or "–" in fields.dd.get_text(), (path.stem, twice)
            text = fields.dd.get_text() if "Parameters" in names else "–"
            if "–" not in text and "[" not in text:
                bare.append((path.stem, text))
        assert "Bases: object" not in path.read_text(encoding="utf-8")
    assert seen == {*FIELDS}
    assert bare == []


@pytest.mark.parametrize(
    ("module", "name"),
    [("block", "TinyBlock.forward"), ("course.predict", "predict")],
)
def test_source_leads_to_the_lines(module, name):
    link = source(ROOT, "https://host", f"attention_lib.{module}", name) or ""
    file, first, last = re.split(r"#L|-L", link.removeprefix("https://host/"))
    code = (ROOT / file).read_text().split("\n")[int(first) - 1 : int(last)]
    assert code[0].split("(")[0].split() == ["def", name.rpartition(".")[2]]
    assert source(ROOT, "https://host", "attention_lib.stories", "NAMES") is None


def test_chapters_lead_to_the_code_that_they_show():
    for path in chapter_paths(ROOT):
        cells = re.findall(r"^# attention_lib\.(\w+): (.+)", path.read_text(), re.M)
        split = [(module, n) for module, some in cells for n in some.split(", ")]
        names = [f"{module}.{n}" for module, n in split if n[0] != "_"]
        page = (SITE / f"chapters/{path.stem}.html").read_text()
        lines = re.findall(r'<p class="book-(?:library|shown)">.*?</p>', page)
        found = re.findall(r'href="[^"]*\battention_lib\.([^"]+)"', "".join(lines))
        assert found == [*dict(cells), *names]


def test_name_in_a_sentence_leads_to_what_is_meant_once_a_section():
    links = article("chapters/03-masks").select("p:not([class]) > a.book-code")
    places = [(id(link.find_parent("section")), link["href"]) for link in links]
    assert len(set(places)) == len(places) > 5
    found = {uri.rpartition("#")[2] for _, uri in places}
    assert "attention_lib.attention.scaled_dot_product_attention" in found
    # The book has a function of that name too: the sentence says "PyTorch's".
    assert "torch.nn.functional.scaled_dot_product_attention" in found


def test_unknown_name_and_module_without_page_are_faults(tmp_path):
    files = {
        "book/api/index.rst": "T\n=\n\n.. list-table::\n\nROWS\n\n``nn.Yes`` ``nn.No``",
        "attention_lib/new.py": '"""What is new."""',
        "book/elsewhere/torch.txt": "https://x/\ntorch.nn.Yes py:class 1 l.html#$ -\n",
        "_toc.yml": "{}",
    }
    written(tmp_path, files)
    parts = ["sphinx.ext.autodoc", "sphinx.ext.intersphinx", "sphinx.ext.linkcode"]
    parts += ["tools.site.api", "tools.site.code_links"]
    settings = {"extensions": parts, "root_doc": "book/api/index", "nitpicky": True}
    folders, said = [tmp_path / name for name in ("html", "trees")], io.StringIO()
    with docutils_namespace():
        Sphinx(tmp_path, None, *folders, "html", settings, None, said).build()
    assert "torch.nn.No is in no list of book/elsewhere" in said.getvalue()
    assert "reference target not found: attention_lib.new" in said.getvalue()
    page = (tmp_path / "html/book/api/index.html").read_text()
    assert 'href="https://x/l.html#torch.nn.Yes"' in page


def test_checks_of_a_report_lead_to_the_sections_that_explain_them():
    """On the page; a notebook, which is read elsewhere, has the names alone."""
    links = article("chapters/20-health-checks").select(".cell_output td > a")
    places = {link.get_text(): str(link["href"]) for link in links}
    assert len(places) > 15
    assert places["future"] == "03-masks.html#leak-map"
    for page, _, label in (place.partition("#") for place in places.values()):
        assert f'id="{label}"' in (SITE / "chapters" / page).read_text("utf-8")
    notebook = (ROOT / "notebooks/20-health-checks.ipynb").read_text("utf-8")
    assert ".html#leak-map" in notebook
    assert '<a href=\\"03' not in notebook
