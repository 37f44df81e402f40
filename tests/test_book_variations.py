"""The table of other machines: what runs, how it is summed up, how it is shown."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.check import environments, reproduces, variations, ways
from tools.check.blanks import BLANK, fill
from tools.check.environments import RECIPES, UnavailableError, environment, find_python
from tools.check.variations import by_chapter
from tools.check.ways import UnfitError, instructions

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / reproduces.RESULTS
PAGE = ROOT / reproduces.PAGE


def cell(place: str = "01-toy, code cell 1", **found: Any) -> dict[str, Any]:
    """What the comparison reports of one cell."""
    return {
        "place": place,
        "outcome": "passed",
        "compared": True,
        "numbers": 0.0,
        "pictures": 0.0,
        "picture_count": 0,
        "drawing_count": 0,
    } | found


def row(**entry: Any) -> dict[str, Any]:
    """A row of the table, with one chapter."""
    counts = {"cells": 2, "compared": 1, "pictures": 1, "drawings": 0, "failed": 0}
    return {
        "what": "two threads",
        "date": "2026-11-21",
        "records": "12345678",
        "on": "",
        "seconds": 80,
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "chapters": {"01-toy": counts | {"largest": 0.0} | entry},
    }


def test_findings_are_summed_up_by_chapter() -> None:
    cells = [
        cell(numbers=0.5, picture_count=2, pictures=0.125, drawing_count=1),
        cell("01-toy, code cell 2", compared=False),
        cell("02-head, code cell 1", outcome="failed", numbers=3.0),
    ]
    assert by_chapter(cells) == {
        "01-toy": {
            "cells": 2, "compared": 1, "pictures": 2, "drawings": 1, "failed": 0,
            "largest": 0.5,
        },
        "02-head": {
            "cells": 1, "compared": 1, "pictures": 0, "drawings": 0, "failed": 1,
            "largest": 3.0,
        },
    }  # fmt: skip


def test_cell_that_raises_counts_as_failed() -> None:
    # It never came to a comparison: it has no counts.
    raised = {"place": "01-toy, code cell 1", "outcome": "failed", "compared": False}
    assert by_chapter([raised])["01-toy"]["failed"] == 1


def test_table_shows_the_largest_difference_and_what_differs() -> None:
    rows = {"a": row(largest=0.125), "b": row(failed=2), "c": {"missing": "no GPU"}}
    assert reproduces.show(rows).splitlines()[2:] == [
        "| two threads | 0.12 |",
        "| two threads | **2 differ** |",
    ]


def test_page_says_what_is_still_to_be_measured() -> None:
    gpu = {"what": "a GPU", "missing": "no GPU at hand"}
    kept = {"rows": {"as-recorded": row(), "gpu": gpu}, "repeated": None}
    summary = reproduces.texts(kept | {"machine": "two cores"})["variations"]
    why = "still to be measured: no GPU at hand"
    assert f"| a GPU | – | – | – | {why} |" in summary
    found = "| two threads | 1\u00a0of\u00a02 | 1 | 0 | 3.11.7, 2.13.0 |"
    assert found in summary
    assert summary.endswith("Run on 2026-11-21, on two cores, in 1 minutes.")


TITLES = {"as-recorded": "two threads", "gpu": "two threads"}


def test_row_that_cannot_be_measured_keeps_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / reproduces.PAGE).write_text("% results: variations\n% end\n")
    monkeypatch.setattr(reproduces, "ROOT", tmp_path)
    missing = {"what": "a GPU", "missing": "no GPU at hand"}
    reproduces.write(
        {"gpu": missing, "as-recorded": row()}, machine="x86_64", titles=TITLES
    )
    reproduces.write(
        {"gpu": row()}, {"times": 20, "failed": 0}, machine="x86_64", titles=TITLES
    )
    reproduces.write({"gpu": missing}, machine="x86_64", titles=TITLES)
    kept = json.loads((tmp_path / reproduces.RESULTS).read_text())
    assert kept["rows"] == {"as-recorded": row(), "gpu": row()}
    assert list(kept["rows"]) == list(TITLES)
    assert kept["repeated"] == {"times": 20, "failed": 0}
    assert "| two threads |" in (tmp_path / reproduces.PAGE).read_text()


def test_page_shows_what_is_kept() -> None:
    made = reproduces.texts(json.loads(KEPT.read_text(encoding="utf-8")))
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page, made) == page, "run `make test-variations`"
    assert {match[2] for match in BLANK.finditer(page)} == set(made)


def test_every_kept_run_agrees_and_compares_all_chapters() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))["rows"]
    stems = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    for name, found in kept.items():
        if "chapters" in found:
            assert set(found["chapters"]) <= stems, f"{name}: `make test-variations`"
            assert all(entry["failed"] == 0 for entry in found["chapters"].values())


def test_almost_all_cells_are_compared_in_the_plain_run() -> None:
    chapters = json.loads(KEPT.read_text(encoding="utf-8"))["rows"]["as-recorded"]
    entries = chapters["chapters"].values()
    cells = sum(entry["cells"] for entry in entries)
    assert cells - sum(entry["compared"] for entry in entries) < 0.05 * cells
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == set(
        chapters["chapters"]
    ), "run `make test-variations`"


def test_run_of_another_day_or_state_is_marked() -> None:
    older = row() | {"records": "0", "date": "2026-11-01"}
    rows = {"as-recorded": row(), "gpu": older, "avx2": row()}
    notes = [line.split("|")[5] for line in reproduces.summary(rows).splitlines()[2:]]
    assert notes == [
        " 3.11.7, 2.13.0 ",
        " on 2026-11-01; an earlier state of the book ",
        "  ",
    ]


def test_every_variation_has_a_row(tmp_path: Path) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))["rows"]
    assert [v.name for v in ways.variations(tmp_path)] == list(kept)


def test_blank_without_a_text_is_refused() -> None:
    with pytest.raises(KeyError):
        fill("% results: nothing\n% end\n", {})


# What a variation changes reaches the kernels.


def torch_says(expression: str, settings: dict[str, str]) -> str:
    """What a fresh Python prints under these settings."""
    code = f"import numpy, torch; print({expression})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        check=True, capture_output=True, text=True, env=os.environ | settings,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize(("level", "said"), [("default", "DEFAULT"), ("avx2", "AVX2")])
def test_instructions_are_those_asked_for(level: str, said: str) -> None:
    try:
        settings = instructions(level)
    except UnfitError as error:
        pytest.skip(str(error))
    # Warnings are errors here: NumPy warns of a feature that it does not know.
    assert torch_says("torch.backends.cpu.get_cpu_capability()", settings) == said


def test_instructions_that_the_processor_lacks_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from numpy._core import _multiarray_umath as numpy_core

    monkeypatch.setattr(numpy_core, "__cpu_features__", {"SSE2": True})
    with pytest.raises(UnfitError, match="AVX512F"):
        instructions("avx512")


def test_layout_reads_weights_by_columns_and_leaves_no_names(tmp_path: Path) -> None:
    settings = ways.layout(tmp_path)
    startup = Path(settings["IPYTHONDIR"]) / "profile_default/startup/00-variation.py"
    code = (
        "exec(open(r'%s').read()); from torch import nn; "
        "import torch; layer, x = nn.Linear(3, 2), torch.ones(1, 3); "
        "plain = x @ layer.weight.T + layer.bias; "
        "print(torch.allclose(layer(x), plain), nn.Linear.forward.__name__, "
        "'tools' in globals())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code % startup],
        check=True, capture_output=True, text=True, env=os.environ | settings, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.strip() == "True _by_columns False"


def test_unknown_variation_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["tools.check.variations", "abacus"])
    assert variations.main() == 2
    assert "abacus is no variation: choose from as-recorded" in capsys.readouterr().out


# Environments.


def test_unknown_environment_is_refused() -> None:
    with pytest.raises(ValueError, match=r"choose from python-3\.11"):
        environment("python-2")


Calls = list[tuple[str, ...]]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What uv is asked for in an empty project; PyTorch's own index is barred."""
    for name in ("pyproject.toml", "requirements.txt"):
        (tmp_path / name).write_text("one")
    made: Calls = []

    def uv(root: Path, *arguments: str) -> None:
        made.append(arguments)
        (root / ".environments/oldest").mkdir(parents=True, exist_ok=True)
        if "--torch-backend" in arguments:
            raise UnavailableError("no such host")

    monkeypatch.setattr(environments, "_uv", uv)
    return made


def test_environment_that_is_ready_is_not_made_again(
    tmp_path: Path, calls: Calls
) -> None:
    python = environment("oldest", tmp_path)
    assert python == tmp_path / ".environments/oldest/bin/python"
    first = len(calls)
    environment("oldest", tmp_path)
    assert len(calls) == first
    (tmp_path / "pyproject.toml").write_text("two")
    environment("oldest", tmp_path)
    assert len(calls) == 2 * first


def test_environment_without_small_torch_takes_the_large_one(
    tmp_path: Path, calls: Calls
) -> None:
    environment("oldest", tmp_path)
    assert [arguments[0] for arguments in calls] == ["venv", "pip", "pip"]
    small = ["--torch-backend" in arguments for arguments in calls]
    assert small == [False, True, False]


def test_environment_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"\w"):
        environments._uv(tmp_path, "venv", "--python", "9.99", "--offline", "x")


def test_python_is_found_or_not() -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert find_python(own) is not None
    assert find_python("9.99") is None


def test_every_supported_python_has_a_variation(tmp_path: Path) -> None:
    ci = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    supported = ci["jobs"]["test"]["strategy"]["matrix"]["python"]
    names = {variation.name for variation in ways.variations(tmp_path)}
    assert {f"python-{version}" for version in supported} <= names & set(RECIPES)


def test_locale_writes_a_decimal_comma(tmp_path: Path) -> None:
    try:
        settings = ways.elsewhere(tmp_path / "new")
    except UnfitError as error:
        pytest.skip(str(error))
    startup = tmp_path / "new/profile_default/startup/00-variation.py"
    code = f"exec(open(r'{startup}').read()); import locale; print(f'{{0.5:n}}')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True, capture_output=True, text=True, env=os.environ | settings,
    )  # fmt: skip
    assert done.stdout.strip() == "0,5"
