"""attention_lib.plotting.show_cells, read from the figure's own objects."""

import numpy as np
import pytest

from attention_lib.plotting import show_cells

CELLS = np.array([[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])


def panels(figure):
    return {ax.get_title(): ax for ax in figure.axes}


def colours(ax):
    """The colour of each cell, by the number that stands in it."""
    image = ax.images[0].to_rgba(ax.images[0].get_array())
    places = {text.get_text(): text.get_position() for text in ax.texts}
    return {number: tuple(image[row, col]) for number, (col, row) in places.items()}


def test_show_cells_writes_every_number_in_its_place():
    (ax,) = show_cells([{"x": CELLS}], head_dim=2).axes
    for text in ax.texts:
        col, row = text.get_position()
        assert text.get_text() == str(CELLS[row, col])
    assert len(ax.texts) == CELLS.size


def test_show_cells_keeps_a_cell_s_colour_wherever_it_stands():
    figure = show_cells([{"x": CELLS}, {"y": CELLS.reshape(6, 2)}], head_dim=2)
    assert colours(panels(figure)["x"]) == colours(panels(figure)["y"])


def test_show_cells_tells_tokens_and_heads_apart_as_lightly_as_dark_ink_needs():
    found = colours(show_cells([{"x": CELLS}], head_dim=2).axes[0])
    assert found["10"] == found["11"]
    assert found["12"] == found["13"]
    assert len(set(found.values())) == 6  # three tokens, two heads


def test_show_cells_panels_neither_overlap_nor_leave_the_figure():
    lines = [{"a": CELLS}, {"b": CELLS[:2], "c": CELLS}, {"d": CELLS.T}]
    wide = {"wide, which shrinks them all": np.tile(CELLS, 10)}
    figure = show_cells([*lines, wide], head_dim=2)
    boxes = [ax.get_position() for ax in figure.axes]
    assert all(box.x0 > 0 and box.x1 < 1 for box in boxes)
    assert all(box.y0 > 0 and box.y1 < 1 for box in boxes)
    for index, box in enumerate(boxes):
        for other in boxes[:index]:
            assert box.x0 > other.x1 or box.y1 < other.y0


@pytest.mark.parametrize("number", [9, 70])
def test_show_cells_refuses_a_token_without_colour(refused, number):
    with refused(ValueError, f"tokens 1 to 6 have a colour; got cell {number}"):
        show_cells([{"x": np.array([[number]])}], head_dim=2)
