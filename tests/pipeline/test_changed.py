"""What `make test CHANGED=1` runs after a change, and what it leaves out."""

import re
from types import SimpleNamespace

import pytest

from tests import changed
from tests.changed import (
    AREAS,
    WORDS,
    change_of,
    change_since,
    is_touched,
    may_be_touched,
)
from tests.running import ROOT, ran

# Some tests, each by a word of its own.
TESTS = {
    "lint": "pipeline/test_lint::test_linters_find_nothing",
    "records": "pipeline/test_checks::test_records_are_fresh",
    "page": "site/test_visits::test_page_has_no_fault_on_a_phone[book/05.html]",
    "other": "site/test_visits::test_page_has_no_fault_on_a_phone[book/18.html]",
    "quizzes": "site/test_answers::test_quizzes_of_a_chapter[05]",
    "traces": "pipeline/test_private::test_book_gives_nothing_away[/book/05.md]",
    "copies": "pipeline/test_copies::test_links_of_a_copy_lead_somewhere[05]",
    "terms": "site/test_glossary::test_definitions_stand_alone",
    "queries": "site/test_search::test_sixty_queries_find_their_place",
    "dialog": "site/test_search::test_dialog_is_used_by_keyboard[1440]",
    "drawer": "site/test_browser::test_drawer_opens[primary]",
    "paper": "pipeline/test_pdf::test_document_of_a_small_book",
    "checks": "course/test_exercises::test_check_names_each_mistake[rotary]",
    "examined": "examine/test_examine::test_right_layer_is_not_blamed",
    "library": "library/test_rope::test_rope_angles_hand_worked",
    "jobs": "pipeline/test_workflows::test_required_job_needs_all_others",
}
PAGES = "lint records page quizzes traces copies terms queries "
CHAPTER = "chapters/05-positions.md", "notebooks/05-positions.ipynb"
# A change; the tests that it must run; and those that it must not.
CHANGES = {
    "words": (
        change_of(*CHAPTER),
        PAGES,
        "other dialog drawer paper checks examined library jobs "
        "notebooks/05-positions.ipynb",
    ),
    "code": (
        change_of(*CHAPTER, coded=CHAPTER),
        PAGES + "dialog notebooks/05-positions.ipynb",
        "other checks examined library notebooks/04-multi-head.ipynb",
    ),
    "glossary": (
        change_of("book/glossary.md"),
        "terms queries",
        "page quizzes library",
    ),
    "script": (
        change_of("book/_static/finding.js"),
        PAGES + "other dialog drawer",
        "checks examined library notebooks/05-positions.ipynb",
    ),
    "module": (
        change_of("attention_lib/rope.py"),
        "lint records checks examined library notebooks/10-rotary-positions.ipynb",
        "page drawer jobs notebooks/01-toy-attention.ipynb",
    ),
    "exercises": (
        change_of("attention_lib/course/exercises/ch10.py"),
        "lint checks notebooks/10-rotary-positions.ipynb",
        "library examined jobs notebooks/09-kv-cache.ipynb",
    ),
    "mistakes": (
        change_of("tests/course/mistakes/ch10.py"),
        "lint checks",
        "records page library",
    ),
    "test": (change_of("tests/library/test_rope.py"), "lint library", "records checks"),
    "recording": (
        change_of("tools/record/shown.py"),
        PAGES + "paper jobs",
        "library checks notebooks/05-positions.ipynb",
    ),
    "comparison": (
        change_of("tools/check/compare.py"),
        "jobs notebooks/05-positions.ipynb",
        "library page",
    ),
    "workflow": (change_of(".github/workflows/ci.yml"), "lint jobs", "page library"),
    "settings": (change_of("_config.yml"), " ".join(TESTS), ""),
    "helper of all": (change_of("tests/tensors.py"), " ".join(TESTS), ""),
    "gone": (change_of("attention_lib/gone.py"), " ".join(TESTS), ""),
}


def runs(word, change):
    """Return whether a change runs a test, in the two steps in which pytest asks."""
    if word not in TESTS:
        return may_be_touched(word, change)
    file, name, value = re.fullmatch(
        r"([\w/]+)::(\w+)(?:\[(.+)\])?", TESTS[word]
    ).groups()
    file = f"tests/{file}.py"
    value = value and value.replace("05", "05-positions")
    call = value and SimpleNamespace(params={"given": value})
    test = SimpleNamespace(
        path=ROOT / file, originalname=name, name=name, callspec=call
    )
    found = is_touched(test, change)
    assert not found or may_be_touched(file, change)
    return found


@pytest.mark.parametrize("kind", CHANGES)
def test_change_runs_what_it_can_break(kind):
    change, run, left = CHANGES[kind]
    assert [word for word in run.split() if not runs(word, change)] == []
    assert [word for word in left.split() if runs(word, change)] == []


def test_every_beginning_of_a_name_is_that_of_a_test():
    named = {name for _, names in AREAS for name in names} | {*WORDS}
    for name in named:
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not test or f"\ndef {test}" in (ROOT / file).read_text("utf-8"), name


PROSE = """---
kernelspec:
  name: python3
---
# A chapter

Words.

```{figure} drawn.svg
A caption.
```

```{code-cell} ipython3
print(1)
```

:::{dropdown} Solution
```python
right = 2
```
:::
"""
EDITS = {"Words": True, "caption": True, "drawn": True, "print": False, "right": False}
EDITS |= {"python3\n---": False, "Solution": True}


def test_only_words_change_if_neither_cells_nor_listings_do(tmp_path, monkeypatch):
    page = tmp_path / "chapters/01-a.md"
    page.parent.mkdir()
    page.write_text(PROSE)
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    for command in ("init -q", "add .", "-c user.name=a -c user.email=b commit -qm c"):
        ran(["git", *command.split()], cwd=tmp_path, check=True)
    since = change_since.__wrapped__  # it remembers what it found
    assert since("1") == change_of()
    for old, is_of_words in EDITS.items():
        page.write_text(PROSE.replace(old, "Other", 1))
        change = since("1")
        assert (change.pages, change.is_of_words) == ({"01-a"}, is_of_words), old
    (tmp_path / "chapters/02-b.md").write_text("A new one.")
    assert since("HEAD")[1:] == ({"01-a", "02-b"}, {"02-b"})
