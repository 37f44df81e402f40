"""The book with all twenty-three chapters: it builds, and its first page lists them."""

from pathlib import Path

import pytest

from tests.dummy_chapters import build, make


@pytest.mark.slow
def test_first_page_lists_all_chapters_to_come(tmp_path: Path) -> None:
    made = make(tmp_path / "book")
    assert len(made) == 15
    stops = build(tmp_path / "book")
    assert stops[8:] == made
    page = (tmp_path / "book/_build/html/chapters/09-kv-cache.html").read_text("utf-8")
    assert '<span class="section-number">9' in page
