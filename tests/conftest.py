"""What all tests share: shapes checked at each call, examples that repeat, refusals."""

import ast
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import jaxtyping
import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Before anything imports attention_lib: from here on its shapes are checked.
jaxtyping.install_import_hook("attention_lib", "beartype.beartype")

# The tensors are tiny, and the tests run side by side: more threads only wait.
torch.set_num_threads(1)

settings.register_profile("book", derandomize=True, deadline=None, database=None)
settings.load_profile("book")

# Begun first: what takes minutes and runs in one process, so that none is waited for.
SLOWEST = (
    "tests/test_book_desktop.py",
    "tests/test_book_phone.py",
    "notebooks/08-training.ipynb",
    "tests/test_book_site.py",
)

Spoken = Callable[..., list[str]]
Refused = Callable[[type[Exception], str], AbstractContextManager[None]]


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: browsers and kernels let a test wait."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        file = item.nodeid.partition("::")[0]
        return SLOWEST.index(file) if file in SLOWEST else len(SLOWEST)

    items.sort(key=place)


@contextmanager
def _shapes_unchecked() -> Iterator[None]:
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@contextmanager
def _refused(error: type[Exception], words: str) -> Iterator[None]:
    with (
        _shapes_unchecked(),
        pytest.raises(error, match="^" + re.escape(words)) as caught,
    ):
        yield
    assert type(caught.value) is error


@pytest.fixture(scope="session")
def refused() -> Refused:
    """``with refused(ValueError, "first words"):`` as users meet it, jaxtyping off."""
    return _refused


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """Calls of this test run as a user's do, without jaxtyping's checks."""
    with _shapes_unchecked():
        yield


def _spoken(*modules: str) -> list[str]:
    texts: list[str] = []
    for module in modules:
        path = Path(__file__).parents[1] / f"attention_lib/exercises/{module}.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # A docstring is the value of an expression that stands alone.
        alone = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }
        texts += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value.strip()
            and id(node) not in alone
        ]
    return texts


@pytest.fixture(scope="session")
def spoken() -> Spoken:
    """``spoken("masks")``: the texts that a module of checks may say to a reader."""
    return _spoken


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository of the files as they stand; the library changed after the commit."""
    from tools.check.colab_copies import commit_all, snapshot

    folder = tmp_path_factory.mktemp("origin") / "book"
    commit = snapshot(Path(__file__).parents[1], folder)
    with (folder / "attention_lib/toy.py").open("a") as file:
        file.write("# a later commit\n")
    assert commit_all(folder) != commit
    return folder, commit


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A browser that finds no host but this machine."""
    from tests.browsing import opened_browser

    with opened_browser() as browser:
        yield browser
