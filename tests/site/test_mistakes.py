"""The predictions of the chapters as they are written: no mistake is lost."""

import ast

import pytest

from tools.chapters import chapter_paths, read_chapter


def keys_of_mistakes(source):
    """The mistakes of each prediction of a cell, as they are written."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [word for call in calls for word in call.keywords if word.arg == "mistakes"]
    mistakes = [word.value for word in named if isinstance(word.value, ast.Dict)]
    return [[key for key in each.keys if key] for each in mistakes]


def written_twice(keys):
    """The keys that a dictionary would drop: 1 / 2 after 4 / 8, or the same words."""
    seen = set()
    twice = []
    for key in keys:
        text = ast.unparse(key)
        names = any(isinstance(node, ast.Name) for node in ast.walk(key))
        value = text if names else eval(text)
        if value in seen:
            twice.append(text)
        seen.add(value)
    return twice


@pytest.mark.parametrize("path", chapter_paths(), ids=lambda path: path.stem)
def test_predictions_of_a_chapter_name_no_mistake_twice(path):
    cells = [cell for cell in read_chapter(path).cells if cell.cell_type == "code"]
    predictions = [c for c in cells if "predict" in c.metadata.get("tags", [])]
    assert predictions, "no cell is tagged predict"
    mistakes = [keys for cell in predictions for keys in keys_of_mistakes(cell.source)]
    assert mistakes
    assert [written_twice(keys) for keys in mistakes] == [[]] * len(mistakes)


def test_written_twice_sees_equal_numbers():
    (keys,) = keys_of_mistakes('predict("?", mistakes={1 / 2: "", V: "", 4 / 8: ""})')
    assert written_twice(keys) == ["4 / 8"]
