"""What `make test CHANGED=1` runs after a change, and what it leaves out."""

import re
from types import SimpleNamespace

import pytest

from tests import changed
from tests.behind import text_of
from tests.changed import change_of, change_since, is_touched, may_be_touched
from tests.running import ROOT, ran

# Some tests, each by a word of its own.
TESTS = {
    "lint": "book_lint::test_linters_find_nothing",
    "records": "book_checks::test_records_are_fresh",
    "site": "book_checks::test_site_is_built_without_a_warning",
    "links": "book_pages::test_site_passes",
    "page": "book_visits::test_page_has_no_fault_on_a_phone[chapters/05.html]",
    "other": "book_visits::test_page_has_no_fault_on_a_phone[chapters/18-health.html]",
    "meanings": "book_visits::test_page_has_no_fault_on_a_phone[book/glossary.html]",
    "api": "book_visits::test_page_has_no_fault_on_a_phone[book/api/rope.html]",
    "quizzes": "book_answers::test_quizzes_and_predictions_of_a_chapter_answer[05]",
    "traces": "book_private::test_book_gives_nothing_away[/book/notebooks/05.ipynb]",
    "copies": "book_copies::test_links_of_a_copy_lead_somewhere[05]",
    "terms": "book_glossary::test_terms_of_the_chapters_are_defined",
    "entries": "book_glossary::test_definitions_stand_alone",
    "symbols": "book_notation::test_notation_holds_every_symbol_at_its_first_use",
    "formulas": "book_formulas::test_no_page_shows_the_source_of_a_formula",
    "queries": "book_search::test_sixty_queries_find_their_place_among_the_first_three",
    "dialog": "book_search::test_dialog_is_used_by_keyboard_and_by_touch[1440-keys]",
    "card": "book_terms::test_first_tap_shows_second_goes",
    "drawer": "book_browser::test_drawer_opens_and_closes_on_a_phone[primary]",
    "table": "book_strings::test_all_words_of_the_table_are_used",
    "small": "book_button::test_pages_follow_the_address",
    "paper": "book_pdf::test_document_of_a_small_book",
    "checks": "exercises::test_check_names_each_mistake[rotary]",
    "verdicts": "exercises::test_verdict_holds_no_line_of_the_solution[rotary]",
    "library": "rope::test_rope_angles_hand_worked",
    "view": "explorer_rope::test_rope_shows_the_score_of_every_place",
    "program": "book_views::test_program_was_built_from_the_sources[views]",
    "speed": "book_benchmarks::test_page_says_what_the_results_say",
    "results": "book_variations::test_pages_show_what_is_kept",
    "work": "book_benchmarks::test_layers_do_the_work_of_the_floor",
    "jobs": "book_workflows::test_required_job_needs_all_others",
}
TEXTS = "lint records site links terms symbols formulas queries "
OWN = TEXTS + "page quizzes traces copies "
CODE = "checks library view program work jobs paper table small "
CHAPTER = "chapters/05-positions.md", "notebooks/05-positions.ipynb"
# A change; the tests that it must run; and those that it must not.
CHANGES = {
    "words": (
        change_of(*CHAPTER),
        OWN,
        CODE + "other meanings api entries dialog card drawer verdicts speed results",
    ),
    "code": (
        change_of(*CHAPTER, coded=CHAPTER),
        OWN + "verdicts results notebooks/05-positions.ipynb",
        CODE + "other meanings api entries dialog card drawer speed",
    ),
    "words of the tests' chapter": (
        change_of("chapters/03-masks.md"),
        TEXTS + "dialog card drawer",
        CODE + "page other quizzes verdicts",
    ),
    "glossary": (
        change_of("book/glossary.md"),
        TEXTS + "meanings entries card",
        CODE + "page other quizzes dialog drawer verdicts",
    ),
    "a measured page": (change_of("book/speed.md"), TEXTS + "speed", CODE + "page"),
    "script": (
        change_of("book/_static/finding.js"),
        "lint site links page other api queries dialog card drawer",
        "checks library view program jobs",
    ),
    "template": (
        change_of("book/_templates/layout.html"),
        "lint site links page other api queries dialog drawer small",
        "checks library view program jobs",
    ),
    "table of words": (
        change_of("book/words.toml"),
        "lint records site links page copies table small paper",
        "library jobs",
    ),
    "module": (
        change_of("attention_lib/rope.py"),
        TEXTS + "api checks library view notebooks/10-rotary-positions.ipynb",
        "page other dialog card drawer jobs notebooks/01-toy-attention.ipynb",
    ),
    "helper": (
        change_of("tests/views.py"),
        "lint quizzes view program",
        "records page drawer library jobs",
    ),
    "source of a view": (
        change_of("explorer_source/src/rope.jsx"),
        "lint site page program",
        "checks library jobs work",
    ),
    "mistakes": (
        change_of("tests/course/mistakes/rope.py"),
        "lint checks verdicts",
        "records page view library work jobs",
    ),
    "benchmark": (
        change_of("benchmarks/results.json"),
        "lint speed work",
        "records page checks library jobs",
    ),
    "recording": (
        change_of("tools/record/shown.py"),
        "lint records site page copies paper small",
        "library view jobs",
    ),
    "workflow": (change_of(".github/workflows/ci.yml"), "lint jobs", "records page"),
    "settings": (change_of("_config.yml"), " ".join(TESTS), ""),
    "gone": (change_of("attention_lib/gone.py"), " ".join(TESTS), ""),
}


def runs(word, change):
    """Say whether a change runs a test, in the two steps in which pytest asks."""
    if word not in TESTS:
        return may_be_touched(word, change)
    file, name, value = re.fullmatch(r"(\w+)::(\w+)(?:\[(.+)\])?", TESTS[word]).groups()
    file = f"tests/test_{file}.py"
    assert f"\ndef {name}(" in text_of(file)
    value = value and value.replace("05", "05-positions")
    call = value and SimpleNamespace(params={"given": value})
    test = SimpleNamespace(path=ROOT / file, originalname=name, callspec=call)
    found = is_touched(test, change)
    assert not found or may_be_touched(file, change)
    return found


@pytest.mark.parametrize("kind", CHANGES)
def test_change_runs_what_it_can_touch(kind):
    change, run, left = CHANGES[kind]
    assert [word for word in run.split() if not runs(word, change)] == []
    assert [word for word in left.split() if runs(word, change)] == []


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
