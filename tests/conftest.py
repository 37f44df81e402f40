"""What all tests share: shapes checked at each call, examples that repeat, refusals."""

import ast
import gc
import itertools
import os
import re
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import jaxtyping
import pytest
from filelock import FileLock
from hypothesis import settings

# Before anything imports attention_lib: from here on its shapes are checked.
jaxtyping.install_import_hook("attention_lib", "beartype.beartype")

settings.register_profile(
    "book", derandomize=True, deadline=None, database=None, max_examples=25
)
settings.load_profile("book")

ROOT = Path(__file__).resolve().parents[1]
SITE_LIMIT = 900  # seconds; an idle machine needs half a minute

# Begun first, in this order: what takes long and runs in one process, so that nobody
# waits for it in the end. The site comes first, since browsers wait for it.
FIRST = (
    "tests/pipeline/test_checks.py",
    "tests/pipeline/test_lint.py",
    "notebooks/08",
    "notebooks/",
    "tests/site/test_visits.py",
    "tests/site/test_weights_view.py",
)
# The files that use a browser; and that browser, while they follow each other.
BROWSING, OPEN = set(), []
# Where a run's time went: the first that a file's name begins with.
KINDS = {
    "notebooks/": "notebooks, run again and compared",
    "tests/pipeline": "pipeline",
    "tests/site": "pages",
    "tests/course": "course",
    "tests/examine": "examine",
    "tests/": "library",
}


def pytest_xdist_auto_num_workers():
    """As many as there are cores, also where two of them share one."""
    return os.cpu_count() or 1


def pytest_addoption(parser):
    parser.addoption(
        "--changed",
        metavar="COMMIT",
        help="run what can be touched by the difference from a commit; 1: the last",
    )


def pytest_configure():
    # What is collected stays to the end, so nobody need look there for garbage.
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def _change(config):
    """What changed, where only that is asked for."""
    if since := config.getoption("--changed"):
        from tests.changed import change_since

        return change_since(since)
    return None


def pytest_ignore_collect(collection_path, config):
    """Import no file without a test to run: some imports take longer than the tests."""
    if collection_path.name.startswith("test_") or collection_path.suffix == ".ipynb":
        from tests.changed import may_be_touched

        file, change = collection_path.relative_to(ROOT).as_posix(), _change(config)
        return True if change and not may_be_touched(file, change) else None
    return None


def pytest_collection_modifyitems(config, items):
    if torch := sys.modules.get("torch"):
        # The tensors are tiny, and the tests run side by side: more threads only wait.
        torch.set_num_threads(1)
    for item in items:
        uses = getattr(item, "fixturenames", ())
        if "browser" in uses:
            BROWSING.add(item.path)
        if "site" in uses:  # it may have to wait until that is built
            item.add_marker(pytest.mark.timeout(SITE_LIMIT + 300))
    items.sort(key=lambda it: (_place(it.nodeid, FIRST), it.path not in BROWSING))
    if change := _change(config):
        from tests.changed import is_touched

        kept = {item: is_touched(item, change) for item in items}
        config.hook.pytest_deselected(items=[i for i in items if not kept[i]])
        items[:] = [item for item in items if kept[item]]


def _place(name, beginnings):
    """The place of the first beginning that a name has; after all of them without."""
    known = enumerate(beginnings)
    return next((n for n, part in known if name.startswith(part)), len(FIRST))


def pytest_terminal_summary(terminalreporter):
    """Say where the time went, in seconds of one worker."""
    files = Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        if hasattr(report, "duration"):
            files[report.nodeid.partition("::")[0]] += report.duration
    if files.total() < 60:
        return
    kinds = Counter()
    for file, seconds in files.items():
        kind = next(kind for start, kind in KINDS.items() if file.startswith(start))
        kinds[kind] += seconds
    terminalreporter.section("where the time went, in seconds of one worker")
    for name, seconds in (*kinds.most_common(), *files.most_common(8)):
        terminalreporter.line(f"{seconds:6.0f}  {name}")


@pytest.fixture(scope="session")
def change(pytestconfig):
    """What changed, where the tests are run for that alone."""
    return _change(pytestconfig)


@pytest.fixture(scope="session")
def site(change, testrun_uid):
    """The built site. The first worker that asks builds it; the others wait."""
    from tests.running import ran
    from tools.site.build import INDEX, is_current

    (ROOT / "_build").mkdir(exist_ok=True)
    faults = ROOT / "_build/site.faults"
    with FileLock(ROOT / "_build/site.lock", timeout=SITE_LIMIT):
        if not is_current(ROOT):
            found = faults.read_text(encoding="utf-8") if faults.is_file() else ""
            # What failed in this run would fail again, for each worker.
            assert not found.startswith(testrun_uid), found
            how = "changed" if change and change.is_of_words else "all"
            build = [sys.executable, "-m", "tools.site", "--check", how]
            done = ran(build, timeout=SITE_LIMIT)
            said = f"{testrun_uid}\n{done.stdout}{done.stderr}"
            faults.write_text(said, encoding="utf-8")
            assert done.returncode == 0, said
    return (ROOT / INDEX).parent


@contextmanager
def _shapes_unchecked():
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="session")
def model_file():
    """The path of the small published model; without it, the test is skipped."""
    from attention_lib.pretrained import small_model

    try:
        return small_model()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def refused():
    """``with refused(ValueError, "first words"):`` as users meet it, jaxtyping off."""

    @contextmanager
    def as_users_meet_it(error, words):
        beginning = "^" + re.escape(words)
        with _shapes_unchecked(), pytest.raises(error, match=beginning) as caught:
            yield
        assert type(caught.value) is error

    return as_users_meet_it


@pytest.fixture(scope="session")
def unchecked():
    """``with unchecked():`` for what a fixture does in all tests of a file."""
    return _shapes_unchecked


@pytest.fixture
def shapes_unchecked():
    """Let the calls of this test run as a user's do, without jaxtyping's checks."""
    with _shapes_unchecked():
        yield


@pytest.fixture
def settings_restored(monkeypatch):
    """Restore the global settings that ``make_deterministic`` changes."""
    import numpy as np
    import torch

    from attention_lib.reproducibility import RUN_ENVIRONMENT

    cublas = "CUBLAS_WORKSPACE_CONFIG"
    monkeypatch.setenv(cublas, RUN_ENVIRONMENT[cublas])
    monkeypatch.setenv("TORCHINDUCTOR_DETERMINISTIC", "1")
    numpy_options = np.get_printoptions()
    deterministic = torch.are_deterministic_algorithms_enabled()
    tf32 = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    with torch.random.fork_rng(devices=[]):
        yield
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32
    torch.set_printoptions(profile="default")
    np.set_printoptions(**numpy_options)


def _spoken(*modules):
    texts = []
    for module in modules:
        path = ROOT / f"attention_lib/course/exercises/{module}.py"
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        # A docstring is the value of an expression that stands alone; a solution, its
        # edits, and texts in ``CAPITALS`` are code; slips are answers of their own.
        alone = [node.value for node in nodes if isinstance(node, ast.Expr)]
        for node in nodes:
            targets = [it for to in getattr(node, "targets", []) for it in ast.walk(to)]
            names = [it.id for it in targets if isinstance(it, ast.Name)]
            is_code = names and all(it.isupper() and it[0] != "_" for it in names)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "slip":
                alone += ast.walk(node)
            elif getattr(node, "arg", "") in ("solution", "also") or is_code:
                alone += ast.walk(node.value)
        words = [node for node in nodes if isinstance(node, ast.Constant)]
        found = [node.value for node in words if node not in alone]
        texts += [it for it in found if isinstance(it, str) and " " in it.strip()]
    return texts


@pytest.fixture(scope="session")
def spoken():
    """``spoken("masks")``: the texts that a module of checks may say to a reader."""
    return _spoken


@pytest.fixture(scope="session")
def origin(tmp_path_factory):
    """A repository of the files as they stand; the library changed after the commit."""
    from tools.check.colab_copies import commit_all, snapshot

    folder = tmp_path_factory.mktemp("origin") / "book"
    commit = snapshot(ROOT, folder)
    with (folder / "attention_lib/toy.py").open("a") as file:
        file.write("# a later commit\n")
    assert commit_all(folder) != commit
    return folder, commit


@pytest.fixture(scope="module")
def browser():
    """A browser that finds no host but this machine. The next file has it, too."""
    from tests.browsing import opened_browser

    if not OPEN:
        stack = ExitStack()
        OPEN[:] = stack.enter_context(opened_browser()), stack
    return OPEN[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem):
    # While it is open, nothing else can start an event loop.
    if OPEN and getattr(nextitem, "path", None) not in BROWSING:
        OPEN[1].close()
        OPEN.clear()


@pytest.fixture(scope="module")
def address(site):
    """Where the built site is served."""
    from tests.browsing import served

    with served(site) as address:
        yield address
