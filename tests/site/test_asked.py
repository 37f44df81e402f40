"""What people asked in public threads has a section that answers it."""

from collections import Counter

import pytest

from tests.asked import ASKED, labels

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
