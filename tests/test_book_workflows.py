"""What hosts and tools read: workflows, pre-commit's settings, how to cite the book."""

import json
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
CI = ROOT / ".github/workflows/ci.yml"
PUBLISH = CI.with_stem("publish")
DEPENDABOT = ROOT / ".github/dependabot.yml"
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
    found = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    found["on"] = found.pop(True)  # YAML reads the word as "yes"
    return found


def jobs(workflow: Path) -> dict[str, dict[str, Any]]:
    return read(workflow)["jobs"]


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job.get("steps", [])]


def findings(*paths: Path) -> list[dict[str, Any]]:
    """What the security audit finds, at its most thorough level without guesses."""
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--quiet"]
    command += ["--strict-collection", "--no-progress", "--no-config"]
    command += ["--persona", "pedantic", "--format", "json", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


each_workflow = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda p: p.stem)


@each_workflow
def test_workflow_meets_the_schema(workflow: Path) -> None:
    assert schema_errors("github-workflows", workflow) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("runs-on:", "runs-at:"),
        ("timeout-minutes: 35", "timeout-minutes: soon"),
        ("contents: read", "contents: all"),
        ("pull_request:", "pull_requests:"),
    ],
)
def test_broken_workflow_is_refused(tmp_path: Path, old: str, new: str) -> None:
    assert schema_errors("github-workflows", changed(CI, tmp_path, old, new))


def test_dependabot_meets_the_schema() -> None:
    assert schema_errors("dependabot", DEPENDABOT) == ""


def test_broken_dependabot_is_refused(tmp_path: Path) -> None:
    assert schema_errors("dependabot", changed(DEPENDABOT, tmp_path, "month", "moon"))


def test_workflows_pass_the_audit() -> None:
    found = findings(*WORKFLOWS, DEPENDABOT)
    assert [(it["ident"], it["desc"]) for it in found] == []


@pytest.mark.parametrize(
    ("workflow", "old", "new", "finding"),
    [
        (
            CI,
            "run: make colab",
            'run: echo "${{ github.head_ref }}"',
            "template-injection",
        ),
        (CI, "08c6903cd8c0fde910a37f88322edcfb5dd907a8", "v5", "unpinned-uses"),
        (CI, "persist-credentials: false", "fetch-depth: 1", "artipacked"),
        (CI, "contents: read", "contents: write", "excessive-permissions"),
        (CI, "  pull_request:", "  pull_request_target:", "dangerous-triggers"),
        (CI, "concurrency:\n", "env:\n", "concurrency-limits"),
        (PUBLISH, "permissions: {}", "permissions: write-all", "excessive-permissions"),
        (PUBLISH, "write # to publish", "write", "undocumented-permissions"),
        (
            PUBLISH,
            "permissions:\n      contents: read # to check the repository out",
            "secrets: inherit",
            "secrets-inherit",
        ),
        (DEPENDABOT, "default-days: 14", "default-days: 1", "dependabot-cooldown"),
    ],
)
def test_unsafe_workflow_is_found(
    tmp_path: Path, workflow: Path, old: str, new: str, finding: str
) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert old in text
    # The audit knows each kind of file by its place.
    copy = tmp_path / workflow.relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert finding in {it["ident"] for it in findings(copy)}


def unpinned(workflow: Path) -> list[str]:
    """What is used but not pinned by commit, with its version beside it."""
    used = re.findall(r"uses:(.*)", workflow.read_text(encoding="utf-8"))
    # "$/" is this repository, at the commit that runs.
    pinned = re.compile(r" (?:[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\$/.+)")
    return [line for line in used if not pinned.fullmatch(line)]


@each_workflow
def test_workflow_pins_actions_by_commit(workflow: Path) -> None:
    assert unpinned(workflow) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0", "@v5"), (" # v5.0.0", "")],
)
def test_unpinned_action_is_refused(tmp_path: Path, old: str, new: str) -> None:
    assert unpinned(changed(CI, tmp_path, old, new))


def test_each_action_has_one_pin() -> None:
    pins: dict[str, set[str]] = {}
    for step in (step for workflow in WORKFLOWS for step in steps(workflow)):
        name, _, commit = step.get("uses", "").partition("@")
        pins.setdefault(name, set()).add(commit)
    assert {name: it for name, it in pins.items() if len(it) > 1} == {}


# What a job may do beyond reading, and no other may.
MAY = {
    ("publish", "colab"): {"contents": "write"},
    ("publish", "deploy"): {"pages": "write", "id-token": "write"},
}


def excesses(workflow: Path) -> list[str]:
    """What a workflow and its jobs may do, though they should not."""
    given = read(workflow)
    found = [] if given["permissions"] in ({}, {"contents": "read"}) else ["workflow"]
    for name, job in given["jobs"].items():
        own = job.get("permissions", {})
        if own not in ({}, {"contents": "read"}, MAY.get((workflow.stem, name))):
            found.append(name)
    return found


@each_workflow
def test_workflow_may_only_read(workflow: Path) -> None:
    assert excesses(workflow) == []


@pytest.mark.parametrize(
    ("workflow", "old", "new", "where"),
    [
        (CI, "contents: read", "contents: write", "workflow"),
        (PUBLISH, "permissions: {}", "permissions: read-all", "workflow"),
        (PUBLISH, "contents: read # to ask", "contents: write # to ask", "site"),
        (PUBLISH, "pages: write", "packages: write", "deploy"),
    ],
)
def test_workflow_that_may_more_is_refused(
    tmp_path: Path, workflow: Path, old: str, new: str, where: str
) -> None:
    assert excesses(changed(workflow, tmp_path, old, new)) == [where]


@pytest.mark.parametrize(("workflow", "job"), MAY)
def test_job_that_may_write_runs_nothing_of_the_repository(
    workflow: str, job: str
) -> None:
    for step in jobs(CI.with_stem(workflow))[job]["steps"]:
        assert not step.get("uses", "").startswith(("actions/checkout", "./", "$/"))
        assert not re.search(r"\b(?:make|python|pip|bash|tools)\b", step.get("run", ""))


@each_workflow
def test_workflow_ends_in_time(workflow: Path) -> None:
    mine = [job for job in jobs(workflow).values() if "uses" not in job]
    assert all("timeout-minutes" in job for job in mine)


@each_workflow
def test_workflow_calls_targets_that_exist(workflow: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = re.findall(r"\b(?:make|target:) ([a-z-]+)\b", workflow.read_text())
    assert set(called) - set(targets) == set()


@each_workflow
def test_secrets_are_used_in_no_workflow(workflow: Path) -> None:
    assert "secrets." not in workflow.read_text(encoding="utf-8")


def test_ci_runs_make_test() -> None:
    commands = [step.get("run") for step in steps(CI)]
    assert "make test" in commands


def test_ci_makes_the_pdf_and_keeps_it() -> None:
    commands = [step.get("run") for step in steps(CI)]
    assert commands.index("make test") < commands.index("make pdf")
    kept = [step["with"]["path"] for step in steps(CI) if step.get("id") == "keep"]
    assert "_build/book.pdf" in kept[0].splitlines()


def test_ci_starts_at_the_oldest_supported_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    matrix = jobs(CI)["test"]["strategy"]
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
