"""Workflows: what no linter of `make check` tells about who may do what, and when."""

import re

import pytest
import yaml

from tests.running import ROOT, ran

WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github/workflows").glob("*.y*ml"))
}
JOBS = [(flow, name) for flow, it in WORKFLOWS.items() for name in it["jobs"]]
# What a job may do beyond reading, and no other may.
MAY = {
    ("publish", "colab"): {"contents": "write"},
    ("publish", "deploy"): {"pages": "write", "id-token": "write"},
}


@pytest.mark.parametrize(("flow", "name"), JOBS)
def test_job_may_only_read_but_for_two_that_publish(flow, name):
    job = WORKFLOWS[flow]["jobs"][name]
    reads = ({}, {"contents": "read"})
    assert WORKFLOWS[flow]["permissions"] in reads
    expected = MAY.get((flow, name))
    assert job.get("permissions", {}) in ([expected] if expected else reads)
    if expected:  # it sees files only, as data, and runs nothing of the repository
        used = [step.get("uses", "") for step in job["steps"]]
        assert not [it for it in used if it.startswith(("actions/checkout", "."))]
        commands = " ".join(step.get("run", "") for step in job["steps"]).split()
        assert not {"make", "python", "pip", "bash", ".ci/run"} & set(commands)


def test_required_job_needs_all_others():
    jobs = WORKFLOWS["ci"]["jobs"]
    assert {*jobs["all"]["needs"], "all"} == set(jobs)
    assert jobs["all"]["if"] == "${{ always() }}"  # else a failure would skip it
    assert all(job.get("needs") == "lint" for job in list(jobs.values())[1:-1])


@pytest.mark.parametrize(
    ("results", "code"),
    [("success success", 0), ("success failure", 1), ("skipped success", 1)],
)
def test_required_job_fails_with_any_other(results, code):
    (step,) = WORKFLOWS["ci"]["jobs"]["all"]["steps"]
    command = ["bash", "-e", "-c", step["run"]]
    done = ran(command, env={"RESULTS": results})
    assert done.returncode == code


def test_parts_hold_every_notebook_once():
    job = WORKFLOWS["ci"]["jobs"]["notebooks"]
    scripts = [it["run"] for it in job["steps"] if "make test" in it.get("run", "")]
    assert len(scripts) == 2
    for script in scripts:
        seen = ""
        made = f'make() {{ echo "${{2#ARGS=}}"; }}\n{script}'
        for part in job["strategy"]["matrix"]["part"]:
            env = {"PART": str(part), "PATH": "/usr/bin:/bin"}
            command = ["bash", "-e", "-c", made]
            seen += ran(command, env=env, check=True).stdout
        notebooks = [str(it.relative_to(ROOT)) for it in ROOT.glob("notebooks/*.ipynb")]
        assert sorted(seen.split()) == sorted(notebooks)


@pytest.mark.parametrize(("flow", "name"), JOBS)
def test_job_ends_after_the_limits_of_its_steps(flow, name):
    job = WORKFLOWS[flow]["jobs"][name]
    if "uses" in job:  # another workflow, whose jobs have their limits
        return
    limits = [step.get("timeout-minutes", 0) for step in job["steps"]]
    for row in job.get("strategy", {}).get("matrix", {}).get("include", [{}]):
        known = [row["minutes"] if "matrix.minutes" in str(it) else it for it in limits]
        assert sum(known) < job["timeout-minutes"] <= 110


def test_gpu_runs_code_of_main_only_and_before_it_is_published():
    flow = WORKFLOWS["gpu"]
    assert set(flow[True]) == {"workflow_call", "schedule", "workflow_dispatch"}
    job = flow["jobs"]["notebooks"]
    assert "github.ref == 'refs/heads/main'" in job["if"]
    assert job["environment"] == "gpu"
    users = {
        name: [it for it, job in flow["jobs"].items() if words in str(job)]
        for name, flow in WORKFLOWS.items()
        for words in ["GPU_RUNNER" if name == "gpu" else "gpu.yml"]
    }
    assert users.pop("gpu") == ["runner", "notebooks"]
    assert {name: it for name, it in users.items() if it} == {"publish": ["gpu"]}
    assert WORKFLOWS["publish"]["jobs"]["test"]["needs"] == "gpu"


def test_secrets_are_used_in_no_workflow():
    paths = (ROOT / ".github").rglob("*.y*ml")
    assert [path for path in paths if "secrets." in path.read_text("utf-8")] == []


def test_makefile_lists_at_most_14_targets_in_three_groups():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert len(re.findall(r"(?m)^[a-z-]+:.*## ", text)) <= 14
    assert len(re.findall(r"(?m)^##@ ", text)) == 3
