"""The pages of the library: every name as it is written, and links to it."""

import ast
import pickle
import pkgutil
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import Tag

from tools.chapters import ROOT, SITE, chapter_paths, site_pages
from tools.check.pages import parsed
from tools.site.api import _configure, _source, missing_pages
from tools.site.elsewhere import address_elsewhere
from tools.site.in_chapters import first_chapter, shown_modules, shown_names
from tools.site.names import api_page, entries, modules, public_names

MODULES = modules(ROOT)
CHAPTERS = [path.stem for path in chapter_paths(ROOT)]


def article(page: str) -> Tag:
    """The text of a built page."""
    return parsed(SITE / f"{page}.html").select_one("article")


def signature(name: str) -> str:
    """How a page of the library shows a name, on one line."""
    entry = public_names(ROOT)[name.partition(".")[0]]
    anchor = f"attention_lib.{entry.module}.{name}"
    shown = article(entry.page).find(id=anchor).get_text()
    return " ".join(shown.replace("#", "").split())


# The names.


def test_names_are_those_of_the_package() -> None:
    text = (ROOT / "attention_lib/__init__.py").read_text()
    exported = ast.literal_eval(text.partition("__all__ = ")[2])
    assert set(public_names(ROOT)) >= set(exported)


def test_modules_have_a_page_each() -> None:
    assert list(missing_pages(ROOT)) == []


@pytest.mark.parametrize("module", MODULES)
def test_contents_name_the_page(module: str) -> None:
    assert f"file: {api_page(module)}.md" in (ROOT / "_toc.yml").read_text()


@pytest.mark.parametrize("module", MODULES)
def test_page_documents_each_name_once_in_order(module: str) -> None:
    shown = [
        heading["id"]
        for heading in article(api_page(module)).select("dl.py > dt")
        if heading.find_parent("dl", class_="py").find_parent("dl", class_="py") is None
    ]
    assert shown == [entry.address for entry in entries(ROOT, module)]


@pytest.mark.parametrize("module", MODULES)
def test_page_begins_with_what_the_module_says_and_its_chapter(module: str) -> None:
    page = article(api_page(module))
    folder = ROOT / "attention_lib" / module
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
    paragraphs = page.select("section > p")
    assert paragraphs[0].get_text() == said.replace("`", "").replace("'", "’")
    if chapter := first_chapter(ROOT, module):
        links = [a["href"] for p in paragraphs for a in p.select("a")]
        assert f"../../chapters/{chapter}.html" in links


def test_index_has_a_row_for_each_module() -> None:
    rows = article("book/api/index").select("tbody tr")
    assert [row.select_one("td").get_text(strip=True) for row in rows] == MODULES
    assert all(row.select("td")[1].get_text(strip=True) for row in rows)


def test_page_is_read_again_when_its_module_changes() -> None:
    kept = ROOT / "_build/.doctrees/environment.pickle"
    environment = pickle.loads(kept.read_bytes())
    for module in MODULES:
        files = {Path(name).name for name in environment.dependencies[api_page(module)]}
        assert files & {f"{module}.py", "__init__.py"}
    assert "masks.py" in str(environment.dependencies["book/api/exercises"])


# The signatures.


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "causal_mask",
            "causal_mask( query_len: int, key_len: int | None = None, *, device: "
            'torch.device | str | None = None, ) → Bool[Tensor, "Q K"]',
        ),
        ("padding_mask", 'padding_mask( lengths: Int[Tensor, " B"], max_len: int, *, '),
        ("padding_mask", 'side: Literal["left", "right"] = "right"'),
        ("combine_masks", 'combine_masks( *masks: Bool[Tensor, "..."], )'),
        (
            "TinyBlock",
            "class TinyBlock( d_model: int, num_heads: int, *, norm: Norm = ",
        ),
        ("TinyBlock.forward", 'x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."]'),
        ("TrainConfig", "class TrainConfig( steps: int, batch_size: int = 16,"),
        ("Norm", 'Norm = Literal["pre", "post", "none"]'),
    ],
)
def test_signature_is_shown_as_it_is_written(name: str, shown: str) -> None:
    assert shown in signature(name)


def test_class_shows_its_own_methods_only() -> None:
    dl = article("book/api/block").find(id="attention_lib.block.TinyBlock").parent
    methods = [dt["id"].rpartition(".")[2] for dt in dl.select("dl.py > dt")]
    assert methods == ["TinyBlock", "forward", "attention_weights"]
    names = [dt["id"] for dt in article("book/api/plotting").select("dl.py > dt")]
    assert len(names) >= 7
    assert not any(name.endswith("BookFigure.set") for name in names)


@pytest.mark.parametrize("module", MODULES)
def test_page_links_every_type_of_torch(module: str) -> None:
    for part in article(api_page(module)).select("dt.sig .n"):
        if part.get_text() in {"Tensor", "nn.Module", "Float", "torch.device"}:
            assert part.find_parent("a") or part.find("a"), part.parent


# Other people's documentation.


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("nn.Linear", "docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html"),
        ("F.softmax", "/generated/torch.nn.functional.softmax.html"),
        ("torch.triu", "/generated/torch.triu.html"),
        ("torch.Tensor", "/stable/tensors.html#torch.Tensor"),
        ("torch.float64", "/stable/tensor_attributes.html#torch.dtype"),
        ("torch.optim.Optimizer", "/stable/optim.html#torch.optim.Optimizer"),
        ("torch.optim.AdamW", "/generated/torch.optim.AdamW.html"),
        ("torch.utils.data.Dataset", "/stable/data.html#torch.utils.data.Dataset"),
        ("torch.distributions", "/stable/distributions.html"),
        ("np.sqrt", "numpy.org/doc/stable/reference/generated/numpy.sqrt.html"),
        ("math.inf", "docs.python.org/3/library/math.html#math.inf"),
        ("ValueError", "/library/exceptions.html#ValueError"),
        ("int", "/library/functions.html#int"),
        ("None", "/library/constants.html#None"),
        ("jaxtyping.Float", "docs.kidger.site/jaxtyping/api/array/"),
        ("matplotlib.figure.Figure", "/api/figure_api.html#matplotlib.figure.Figure"),
    ],
)
def test_address_elsewhere_is_the_page(name: str, address: str) -> None:
    found = address_elsewhere(name)
    assert found is not None
    assert found.endswith(address)


@pytest.mark.parametrize(
    "name", ["torch.autograd", "torch.nn.Linear.weight", "print", "nothing", "os_name"]
)
def test_address_elsewhere_knows_what_it_does_not(name: str) -> None:
    assert address_elsewhere(name) is None


def test_linked_names_of_torch_exist() -> None:
    pages = "".join(page.read_text() for page in site_pages(SITE))
    generated = set(
        re.findall(r"https://docs\.pytorch\.org/[^\"]+/generated/[^\"]+", pages)
    )
    assert generated
    for link in generated:
        name = link.rpartition("/")[2].removesuffix(".html")
        assert pkgutil.resolve_name(name) is not None


# The source.


def config(address: str | None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the extension finds out where the repository has this address."""
    found = SimpleNamespace()
    monkeypatch.delenv("GITHUB_SHA", raising=False)
    monkeypatch.setattr("tools.site.api.repository_address", lambda root: address)
    _configure(SimpleNamespace(srcdir=str(ROOT)), found)
    return found


@pytest.mark.parametrize(
    ("module", "name", "file"),
    [
        ("masks", "causal_mask", "masks.py"),
        ("block", "TinyBlock.forward", "block.py"),
        ("exercises", "check_softmax", "exercises/toy.py"),
    ],
)
def test_source_leads_to_the_lines(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, file: str
) -> None:
    found = config("https://github.com/ada/book", monkeypatch)
    info = {"module": f"attention_lib.{module}", "fullname": name}
    link = _source(ROOT, found, info)
    assert link is not None
    address, _, lines = link.partition("#L")
    assert address == f"https://github.com/ada/book/blob/HEAD/attention_lib/{file}"
    first, last = (int(number) for number in lines.split("-L"))
    code = (ROOT / "attention_lib" / file).read_text().split("\n")[first - 1 : last]
    assert code[0].split("(")[0].split()[1] == name.rpartition(".")[2]


def test_source_is_absent_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    found = config(None, monkeypatch)
    info = {"module": "attention_lib.masks", "fullname": "causal_mask"}
    assert _source(ROOT, found, info) is None


# The chapters.


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter_names_the_modules_that_it_shows(chapter: str) -> None:
    shown = shown_modules(ROOT)[chapter]
    (line,) = article(f"chapters/{chapter}").select("p.book-library")
    links = [a["href"] for a in line.select("a")]
    assert links == [f"../{api_page(module)}.html" for module in shown]
    assert line.find_previous_sibling("p").get_text().startswith("Time:")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_cells_that_show_the_library_lead_to_it(chapter: str) -> None:
    text = (ROOT / f"chapters/{chapter}.md").read_text()
    shown = [name for _, names in shown_names(text) for name in names]
    links = article(f"chapters/{chapter}").select(".cell_input p.book-shown a")
    assert [a["href"].rpartition(".")[2] for a in links] == shown


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_name_in_a_sentence_is_linked_once_a_section(chapter: str) -> None:
    seen = set()
    for link in article(f"chapters/{chapter}").select(
        "p:not(.book-library) a.book-code"
    ):
        place = (id(link.find_parent("section")), link["href"])
        assert place not in seen
        seen.add(place)
        assert "target" not in link.attrs
        assert link.find_parent(["h1", "h2", "h3"]) is None


def test_name_leads_to_the_book_s_own_or_to_pytorch_s() -> None:
    links = article("chapters/02-single-head").select("a.book-code")
    found = {a.get_text(): a["href"] for a in links}
    own = "../book/api/attention.html#attention_lib.attention.attention_weights"
    assert found["attention_weights"] == own
    assert found["nn.Linear"].endswith("/torch.nn.Linear.html")
    # The book has a function of that name too, but the sentence says whose is meant.
    links = article("chapters/03-masks").select("a.book-code")
    name = "scaled_dot_product_attention"
    found = [str(a["href"]) for a in links if a.get_text() == name]
    assert any(it.endswith(f"/torch.nn.functional.{name}.html") for it in found)


def test_name_does_not_lead_to_its_own_entry() -> None:
    page = article("book/api/masks")
    for link in page.select("a.book-code[href^='#']"):
        entry = link.find_parent("dl", class_="py").select_one("dt")
        assert link["href"] != f"#{entry['id']}"


def test_cells_are_found_with_all_their_names() -> None:
    text = "x = 1\n# attention_lib.multi_head: split_heads, merge_heads\ndef a(): ...\n"
    assert shown_names(text) == [("multi_head", ["split_heads", "merge_heads"])]
