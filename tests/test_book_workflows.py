"""What hosts and tools read: workflows, pre-commit's settings, how to cite the book."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pre_commit.clientlib import InvalidConfigError, load_config

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
CITATION = ROOT / "CITATION.cff"
HOOKS = ROOT / ".pre-commit-config.yaml"


def schema_errors(schema: str, path: Path) -> str:
    """What the schema checker says against a file, from the schema that it brings."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    command += [f"vendor.{schema}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def changed(path: Path, folder: Path, old: str, new: str) -> Path:
    """A copy of a file with one mistake in it."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    copy = folder / path.name
    copy.write_text(text.replace(old, new, 1), encoding="utf-8")
    return copy


def read(workflow: Path) -> dict[str, Any]:
    return yaml.safe_load(workflow.read_text(encoding="utf-8"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


each_workflow = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda p: p.stem)


@each_workflow
def test_workflow_meets_the_schema(workflow: Path) -> None:
    assert schema_errors("github-workflows", workflow) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("runs-on:", "runs-at:"),
        ("timeout-minutes: 25", "timeout-minutes: soon"),
        ("contents: read", "contents: all"),
        ("pull_request:", "pull_requests:"),
    ],
)
def test_broken_workflow_is_refused(tmp_path: Path, old: str, new: str) -> None:
    ci = ROOT / ".github" / "workflows" / "ci.yml"
    assert schema_errors("github-workflows", changed(ci, tmp_path, old, new))


@each_workflow
def test_workflow_pins_actions_by_commit(workflow: Path) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert [name for name in used if not re.search(r"@[0-9a-f]{40}$", name)] == []


@each_workflow
def test_workflow_may_only_read(workflow: Path) -> None:
    assert read(workflow)["permissions"] == {"contents": "read"}


@each_workflow
def test_workflow_ends_in_time(workflow: Path) -> None:
    assert all("timeout-minutes" in job for job in read(workflow)["jobs"].values())


def test_ci_runs_make_test() -> None:
    commands = [step.get("run") for step in steps(ROOT / ".github/workflows/ci.yml")]
    assert "make test" in commands


def test_ci_starts_at_the_oldest_supported_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    matrix = read(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]
    oldest = matrix["matrix"]["python"][0]
    assert project["project"]["requires-python"] == f">={oldest}"


def test_citation_meets_the_schema() -> None:
    assert schema_errors("citation-file-format", CITATION) == ""


@pytest.mark.parametrize(
    ("old", "new"), [("authors:", "author:"), ("CC-BY-4.0", "CC-BY-9.0")]
)
def test_broken_citation_is_refused(tmp_path: Path, old: str, new: str) -> None:
    broken = changed(CITATION, tmp_path, old, new)
    assert schema_errors("citation-file-format", broken)


def test_citation_has_the_version_of_the_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    citation = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    assert str(citation["version"]) == project["project"]["version"]


def test_hooks_are_read_by_pre_commit() -> None:
    # A repository of hooks other than this one would need a network and a version.
    assert {repo["repo"] for repo in load_config(HOOKS)["repos"]} == {"local"}


def test_broken_hooks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError):
        load_config(changed(HOOKS, tmp_path, "language: system", "language: none"))
