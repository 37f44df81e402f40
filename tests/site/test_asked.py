"""What people asked in public threads has a section that answers it."""

import tomllib
from collections import Counter

import pytest

from tests.asked import ASKED, labels
from tests.pages import tree
from tools.chapters import ROOT, SITE

pytestmark = pytest.mark.usefixtures("site")
FIELDS = {"question", "query", "from", "chapter", "section", "answered"}


def test_questions_are_many_and_each_has_a_section_that_answers_it():
    assert len(ASKED) >= 250
    assert all(set(entry) - {"missing"} == FIELDS for entry in ASKED)
    assert all(entry["from"].startswith("https://") for entry in ASKED)
    assert {entry["section"] for entry in ASKED} <= set(labels())
    answered = Counter(entry["answered"] for entry in ASKED)
    assert answered["fully"] >= 0.95 * len(ASKED)
    chapters = Counter(entry["chapter"] for entry in ASKED)
    assert sorted(chapters) == [*range(1, 27)]
    assert min(chapters.values()) >= 10


@pytest.mark.parametrize("edition", ["", "zh"])
def test_words_of_askers_belong_to_sections(edition):
    """An unknown label would do nothing, and a label of two sections too much."""
    path = ROOT / edition / "contributing/asked/words.toml"
    text, ids = path.read_text(encoding="utf-8"), Counter[str]()
    for page in [*(SITE / edition).glob("[bc]*/*.html")]:
        for section in tree(page).xpath("//article//section"):
            ids.update({*section.xpath("@id | ./span/@id")})
    assert {label: 1 for label in tomllib.loads(text)["words"]} == {
        label: ids[label] for label in tomllib.loads(text)["words"]
    }
