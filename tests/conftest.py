"""What all tests share: shapes checked at each call, examples that repeat, refusals."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import jaxtyping
import pytest
import torch
from hypothesis import settings

# Before anything imports attention_lib: from here on its shapes are checked.
jaxtyping.install_import_hook("attention_lib", "beartype.beartype")

# The tensors are tiny, and the tests run side by side: more threads only wait.
torch.set_num_threads(1)

settings.register_profile("book", derandomize=True, deadline=None, database=None)
settings.load_profile("book")

Refused = Callable[[type[Exception], str], AbstractContextManager[None]]


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
