"""Publishing: when it happens, and the steps of its workflow, run as they stand."""

import base64
import os
import shutil

import pytest
import yaml

from tests.running import ROOT, git, ran, written

PUBLISH = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())
TOKEN = "not-a-real-one"


def step(job, words):
    """Find a step by its name."""
    steps = PUBLISH["jobs"][job]["steps"]
    (found,) = [it for it in steps if words in it.get("name", "")]
    return found


def run(folder, script, **variables):
    """Run a step as a runner does: errors end it, nothing of this user's settings."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    return ran(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**env, "GITHUB_SHA": "c0ffee", **variables},
    )


# When.


def test_publishing_waits_for_the_tests_and_leaves_old_commits_out():
    jobs = PUBLISH["jobs"]
    assert PUBLISH[True] == {"push": {"branches": ["main"]}, "workflow_dispatch": None}
    assert PUBLISH["concurrency"] == {"group": "publish", "cancel-in-progress": False}
    assert "github.ref == 'refs/heads/main'" in jobs["site"]["if"]
    assert "needs.site.outputs.newest == 'true'" in jobs["colab"]["if"]
    for name, needed in {"site": "test", "colab": "site", "deploy": "colab"}.items():
        assert needed in jobs[name]["needs"]
        assert f"needs.{needed}.result == 'success'" in jobs[name]["if"]


@pytest.mark.parametrize(("newest", "said"), [("c0ffee", "true"), ("beef", "false")])
def test_old_commit_is_not_the_newest(tmp_path, newest, said):
    script = f"gh() {{ echo {newest}; }}\n{step('site', 'newest commit')['run']}"
    own = {"GITHUB_REPOSITORY": "ada/book", "GITHUB_OUTPUT": "output"}
    assert run(tmp_path, script, **own).returncode == 0
    assert (tmp_path / "output").read_text() == f"newest={said}\n"


# The Colab branch.


@pytest.fixture
def tree(tmp_path):
    """Copies as the tests made them, and a repository to push to."""
    made = {"README.md": "# Copies\n", "01-one.ipynb": "{}\n"}
    written(tmp_path / "_build/colab", made)
    git(tmp_path, "init", "--quiet", "--bare", "book")
    return tmp_path


def push(tree, **variables):
    """Push the branch from a fresh copy, as each run does."""
    shutil.rmtree(tree / "_build/colab/.git", ignore_errors=True)
    settings = {"GITHUB_SERVER_URL": f"file://{tree}", "GITHUB_REPOSITORY": "book"}
    script = step("colab", "Push")["run"]
    return run(tree, script, **settings, TOKEN=TOKEN, **variables)


def test_branch_holds_the_copies_and_no_past(tree):
    copy, remote = tree / "_build/colab/01-one.ipynb", tree / "book"
    for text in ("{}", "{ }"):
        copy.write_text(text)
        assert push(tree).returncode == 0
    names = git(remote, "ls-tree", "--name-only", "colab").split()
    assert names == ["01-one.ipynb", "README.md"]
    assert git(remote, "show", "colab:01-one.ipynb") == "{ }"
    assert git(remote, "rev-list", "--count", "colab") == "1"
    assert git(remote, "for-each-ref", "--format=%(refname)") == "refs/heads/colab"
    # It stays where nothing changed, and a run without copies does not empty it.
    before = git(remote, "rev-parse", "colab")
    assert "nothing changed" in push(tree, GITHUB_SHA="another").stdout
    copy.unlink()
    assert push(tree).returncode != 0
    assert git(remote, "rev-parse", "colab") == before
    shown = base64.b64encode(f"x-access-token:{TOKEN}".encode())
    written = [path.read_bytes() for path in tree.rglob("*") if path.is_file()]
    assert not [text for text in written if TOKEN.encode() in text or shown in text]
