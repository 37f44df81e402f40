"""attention_lib.plotting.show_boxes, read from the figure's own objects."""

import numpy as np
import pytest
from matplotlib.patches import Polygon, Rectangle

from attention_lib.plotting import show_boxes

BOXES = {
    "token": ("token\n12", 0, 0, 1, "plain"),
    "kept": ("latent\n6", 0, 3.6, 2, "kept"),
    "up": ("W", 1, 7.2, 0.5, "weight"),
}


def drawn(kind, figure):
    return [patch for patch in figure.axes[0].patches if type(patch) is kind]


def test_show_boxes_writes_every_line_inside_its_box():
    figure = show_boxes(BOXES, [], columns=2)
    figure.canvas.draw()
    boxes = [box.get_window_extent() for box in drawn(Rectangle, figure)]
    words = {text.get_text(): text for text in figure.axes[0].texts}
    owners = {"token": 0, "12": 0, "latent": 1, "6": 1, "W": 2}
    assert words.keys() == owners.keys()
    for word, owner in owners.items():
        found = words[word].get_window_extent()
        assert boxes[owner].contains(found.x0, found.y0)
        assert boxes[owner].contains(found.x1, found.y1)


def test_show_boxes_draws_arrows_in_the_middle_of_what_boxes_share():
    figure = show_boxes(BOXES, ["token, kept, up"], columns=2)
    tips = [arrow.get_xy()[2] for arrow in drawn(Polygon, figure)]
    np.testing.assert_allclose(tips, [(0.5, 3.6), (1.25, 7.2)])
    starts = [line.get_ydata()[0] for line in figure.axes[0].lines]
    np.testing.assert_allclose(starts, [2.6, 6.2])


def test_show_boxes_tells_looks_apart_by_fill_and_by_frame():
    boxes = drawn(Rectangle, show_boxes(BOXES, [], columns=2))
    assert len({box.get_facecolor() for box in boxes}) == 3
    assert len({(box.get_linewidth(), box.get_linestyle()) for box in boxes}) == 3


@pytest.mark.parametrize(
    ("boxes", "paths", "words"),
    [
        (BOXES | {"up": ("W", 1, 7, 1, "bold")}, [], "look must be one of plain,"),
        (BOXES, ["kept, token"], "an arrow goes straight down; kept → token cannot"),
        (BOXES, ["token, up"], "an arrow goes straight down; token → up cannot"),
    ],
)
def test_show_boxes_refuses_what_it_cannot_draw(refused, boxes, paths, words):
    with refused(ValueError, words):
        show_boxes(boxes, paths, columns=2)
