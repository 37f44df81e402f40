"""The examples of the library's pages run, and show what they give."""

import doctest

import pytest

import attention_lib
from tests.test_reproducibility import _restored  # noqa: F401  # one changes settings
from tools.chapters import ROOT
from tools.site.api import examples

EXAMPLES = examples(ROOT)


def test_every_name_at_the_top_has_an_example_of_its_own():
    assert sorted(EXAMPLES) == sorted(attention_lib.__all__)
    for name, text in EXAMPLES.items():
        calls = [line for line in text.splitlines() if "import" not in line]
        assert any(name in line for line in calls), name
        assert max(map(len, text.splitlines())) <= 72


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_gives_what_it_shows(name):
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test) == (0, len(test.examples))
