"""The table of other machines: what runs, how it is summed up, how it is shown."""

import json
import os
import sys

import pytest

from tests.running import ROOT, ran
from tools.check import reproduces, variations
from tools.check.reproduces import BLANK, fill
from tools.check.variations import TABLE, TITLES, UnfitError, by_chapter, settings
from tools.record.freshness import states

FILL = "run `python -m tools.check.variations --fill`"
NOW = {"01-toy": "a"}
KEPT = json.loads((ROOT / reproduces.RESULTS).read_text(encoding="utf-8"))


def cell(place="01-toy, code cell 1", **found):
    """What the comparison reports of one cell."""
    none = {"numbers": 0.0, "pictures": 0.0, "picture_count": 0, "drawing_count": 0}
    return {"place": place, "outcome": "passed", "compared": True} | none | found


def row(*stems, **entry):
    """A row of the table, with one chapter or those named."""
    counts = {"cells": 2, "compared": 1, "pictures": 1, "drawings": 0, "failed": 0}
    counts |= {"largest": 0.0, "of": "a", "date": "2026-11-21"} | entry
    said = {"what": "two threads", "on": "", "machine": "one"}
    said |= {"versions": {"python": "3.11.7", "torch": "2.13.0"}}
    return said | {"chapters": dict.fromkeys(stems or ("01-toy",), counts)}


def test_findings_are_summed_up_by_chapter():
    cells = [
        cell(numbers=0.5, picture_count=2, pictures=0.125, drawing_count=1),
        # It raised, and so never came to a comparison: it has no counts.
        {"place": "01-toy, code cell 2", "outcome": "failed", "compared": False},
        cell("02-head, code cell 1", outcome="failed", numbers=3.0),
    ]
    names = ("cells", "compared", "pictures", "drawings", "failed", "largest")
    assert by_chapter(cells) == {
        "01-toy": dict(zip(names, (2, 1, 2, 1, 1, 0.5), strict=True)),
        "02-head": dict(zip(names, (1, 1, 0, 0, 1, 3.0), strict=True)),
    }


def test_tables_show_differences_what_is_missing_and_what_is_older():
    rows = {
        "as-recorded": row(largest=0.125),
        "avx2": row(failed=2),
        "layout": row(of="0", date="2026-11-01", largest=0.5),
        "gpu": {"what": "a GPU", "missing": "no GPU at hand"},
    }
    assert reproduces.show(rows, NOW).splitlines()[2:] == [
        "| two threads | 0.12 |",
        "| two threads | **2 differ** |",
        "| two threads | (0.50) |",
    ]
    summary = reproduces.summary(rows, NOW).splitlines()[2:]
    assert summary[-1] == "| a GPU | – | – | – | still to be measured: no GPU at hand |"
    assert [line.split("|", 5)[5] for line in summary[:3]] == [
        " 3.11.7, 2.13.0 |",
        "  |",
        " on 2026-11-01; an earlier state of the book |",
    ]


def test_row_that_cannot_be_measured_keeps_the_older_one(tmp_path, monkeypatch):
    (tmp_path / "book").mkdir()
    for page, blank in zip(reproduces.PAGES, ("variations", "proof"), strict=True):
        (tmp_path / page).write_text(f"% results: {blank}\n% end\n")
    monkeypatch.setattr(reproduces, "ROOT", tmp_path)
    monkeypatch.setattr(reproduces, "states", lambda root: NOW)
    titles = {"as-recorded": "two threads", "gpu": "two threads"}
    missing = {"what": "a GPU", "missing": "no GPU at hand"}
    for gpu in (missing, row(), missing):
        reproduces.write({"gpu": gpu, "as-recorded": row()}, titles)
    reproduces.write({}, titles)
    kept = json.loads((tmp_path / reproduces.RESULTS).read_text())
    assert kept["rows"] == {"as-recorded": row(), "gpu": row()}
    assert list(kept["rows"]) == list(titles)
    texts = [(tmp_path / page).read_text() for page in reproduces.PAGES]
    assert "| two threads |" in texts[0]
    assert "under 2 conditions: **0 differ**" in texts[1]


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ("a", "were run again and compared, under 2 conditions: **0 differ**."),
        ("0", "compared, under one set of conditions: **1 differ**."),
        ("1", "At an earlier state of the book, 1 code cells and 1 figures"),
    ],
)
def test_only_what_ran_on_the_records_that_are_there_is_counted(now, words):
    rows = {"as-recorded": row(), "avx2": row(), "layout": row(failed=1, of="0")}
    rows["gpu"] = {"what": "a GPU", "missing": "no GPU at hand"}
    made = reproduces.texts({"rows": rows}, {"01-toy": now})
    assert words in made["proof"]
    lines = made["variations"].splitlines()[2:5]
    earlier = ["an earlier state of the book" in line for line in lines]
    assert earlier == [now != "a", now != "a", now != "0"]


def test_chapters_that_changed_are_named_and_left_out():
    now = {"01-toy": "a", "02-head": "b", "03-masks": "a"}
    whole = row(*now)
    rows = {"as-recorded": whole, "avx2": whole, "layout": row()}
    made = reproduces.texts({"rows": rows}, now)
    assert made["proof"].startswith("2 code cells")
    assert "under 2 conditions" in made["proof"]
    assert made["proof"].endswith(" Chapters that changed since are left out: 2.")
    lines = made["variations"].splitlines()[3:5]
    ends = [line.split("|")[5].strip().split("; ")[-1] for line in lines]
    words = "without chapters changed since: "
    assert ends == [f"{words}2", f"{words}2, 3"]


def test_failed_row_counts_although_it_lacks_a_chapter():
    now = dict.fromkeys(("01-toy", "02-head"), "a")
    rows = {"as-recorded": row(*now), "layout": row(failed=2)}
    made = reproduces.texts({"rows": rows}, now)
    assert "**2 differ**" in made["proof"]


def test_chapter_that_broke_off_is_no_result(tmp_path, monkeypatch):
    cells = [cell(), cell("02-head, code cell 1")]
    monkeypatch.setattr(variations, "compare", lambda *a, **b: (0, cells))
    monkeypatch.setattr(variations, "_cells", lambda path: 1 + ("02" in path.stem))
    monkeypatch.setattr(
        variations, "states", lambda root: {"01-toy": "a", "02-head": "b"}
    )
    found = variations.measure(
        "as-recorded", tmp_path / "report", ["01-toy", "02-head"]
    )
    assert list(found["chapters"]) == ["01-toy"]


def test_chapters_to_run_are_those_named(monkeypatch):
    ran = []
    monkeypatch.setattr(variations, "write", lambda *given: None)
    monkeypatch.setattr(
        variations, "measure", lambda n, r, stems: ran.append(stems) or row()
    )
    variations.run(["as-recorded"], ["03", "25-in"])
    assert ran == [["03-masks", "25-inside-heads"]]


def test_run_of_some_chapters_keeps_the_others_of_the_same_versions():
    now = dict.fromkeys(("01-toy", "02-head"), "a")
    old, new = row("01-toy", "02-head", "03-gone"), row("02-head", largest=0.5)
    found = reproduces.merged(old, new, now)
    assert [it["largest"] for it in found["chapters"].values()] == [0.0, 0.5]
    for name, other in {"versions": {"python": "3.12"}, "machine": "another"}.items():
        assert reproduces.merged(old, new | {name: other}, now) == new | {name: other}
    assert reproduces.merged({}, new, now) == new
    assert reproduces.merged(old, row(*now), now) == row(*now)


def test_changed_are_the_chapters_whose_results_do_not_count(monkeypatch):
    found = KEPT["rows"]["as-recorded"]["chapters"]
    now = {stem: it["of"] for stem, it in found.items()} | {"03-masks": "new"}
    monkeypatch.setattr(variations, "states", lambda root: now)
    assert variations.changed("as-recorded") == ["03-masks"]
    assert variations.changed("none") == sorted(now)


def test_command_fills_pages_and_runs_nothing(monkeypatch):
    written = []
    monkeypatch.setattr(variations, "write", lambda *given: written.append(given))
    monkeypatch.setattr("sys.argv", ["variations", "--fill"])
    assert variations.main() == 0
    assert written == [({}, TITLES)]


def test_pages_show_what_is_kept():
    made, blanks = reproduces.texts(KEPT, states(ROOT)), set[str]()
    for name in reproduces.PAGES:
        page = (ROOT / name).read_text(encoding="utf-8")
        assert fill(page, made) == page, FILL
        blanks |= {match[2] for match in BLANK.finditer(page)}
    assert blanks == set(made)


def test_every_variation_has_a_row_that_agrees_in_all_chapters():
    assert list(TITLES) == list(KEPT["rows"])
    stems = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    for name, found in KEPT["rows"].items():
        if "chapters" in found:
            assert set(found["chapters"]) <= stems, f"{name}: `make test-variations`"
            assert all(entry["failed"] == 0 for entry in found["chapters"].values())
    plain = KEPT["rows"]["as-recorded"]["chapters"]
    assert set(plain) == stems, "run `make test-variations ARGS=--changed`"
    left = [entry["cells"] - entry["compared"] for entry in plain.values()]
    assert sum(left) < 0.05 * sum(entry["cells"] for entry in plain.values())


# What a variation changes reaches the kernels.


LAYER = """
names = [name for name in globals() if not name.startswith("__")]
from torch import nn, ones
layer, x = nn.Linear(3, 2), ones(1, 3)
plain = x @ layer.weight.T + layer.bias
print(plain.allclose(layer(x)), nn.Linear.forward.__name__, names)"""
LEVEL = "import numpy, torch; print(torch.backends.cpu.get_cpu_capability())"
LOCALE = "import locale; print(f'{0.5:n}', {it for it in dir() if it[0] != '_'})"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("default", LEVEL, "DEFAULT"),
        ("avx2", LEVEL, "AVX2"),
        ("layout", LAYER, "True _in_halves []"),
        ("elsewhere", LOCALE, "0,5 {'locale'}"),
    ],
)
def test_variation_changes_what_a_fresh_python_does(tmp_path, name, code, said):
    try:
        own = settings(name, tmp_path)
    except UnfitError as error:
        pytest.skip(str(error))
    # Warnings are errors: NumPy warns of a feature that it does not know.
    start = TABLE[name].get("start", "")
    command = [sys.executable, "-W", "error", "-c", f"{start}\n{code}"]
    known = os.environ | own
    printed = ran(command, env=known, check=True).stdout
    assert printed.strip() == said


def test_variation_that_the_machine_lacks_is_refused(tmp_path, monkeypatch):
    from numpy._core import _multiarray_umath as numpy_core

    monkeypatch.setattr(numpy_core, "__cpu_features__", {"SSE2": True, "AVX": True})
    monkeypatch.setattr(numpy_core, "__cpu_dispatch__", ["AVX", "AVX2"])
    assert settings("default", tmp_path)["NPY_DISABLE_CPU_FEATURES"] == "AVX"
    monkeypatch.setattr(variations, "missing", lambda: "no driver")
    monkeypatch.setenv("PATH", str(tmp_path))
    lacking = {"avx512": "AVX512F", "gpu": "no GPU at hand", "elsewhere": "localedef"}
    for name, words in lacking.items():
        with pytest.raises(UnfitError, match=words):
            settings(name, tmp_path)


def test_environment_is_made_once_and_again_after_a_change(tmp_path, monkeypatch):
    calls = []

    def uv(root, *arguments):
        calls.append(arguments)
        (root / ".environments/oldest").mkdir(parents=True, exist_ok=True)
        if "--torch-backend" in arguments:
            raise UnfitError("no such host")

    monkeypatch.setattr(variations, "_uv", uv)
    for name in ("pyproject.toml", "requirements.txt"):
        (tmp_path / name).write_text("one")
    python = variations.environment("oldest", tmp_path)
    assert python == tmp_path / ".environments/oldest/bin/python"
    # Without PyTorch's own index, the large build of torch is taken.
    assert [arguments[0] for arguments in calls] == ["venv", "pip", "pip"]
    small = ["--torch-backend" in arguments for arguments in calls]
    assert small == [False, True, False]
    variations.environment("oldest", tmp_path)
    assert len(calls) == 3
    (tmp_path / "pyproject.toml").write_text("two")
    variations.environment("oldest", tmp_path)
    assert len(calls) == 6


def test_environment_that_cannot_be_had_says_why(tmp_path):
    with pytest.raises(UnfitError, match=r"9\.99"):
        variations._uv(tmp_path, "venv", "--python", "9.99", "--offline", "x")
