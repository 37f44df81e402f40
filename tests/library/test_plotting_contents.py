"""What a picture says it draws: all that a reader sees, and nothing of the machine."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from attention_lib.plotting import (
    show_bars,
    show_curves,
    show_masks,
    show_matrices,
    show_weights,
)
from attention_lib.plotting._contents import contents
from tests.running import ROOT

WORDS = ["p", "q"]
RECORDS = ROOT.glob("notebooks/*.ipynb")


def curve(y, **options):
    return show_curves([1, 2, 4], {"loss": y}, xlabel="step", ylabel="nats", **options)


def drawn(figure):
    """The description of a figure's first axes."""
    return json.loads(contents(figure))["axes"][0]


def test_picture_carries_its_contents_and_who_drew_it():
    figure = curve([3, 2, 1])
    with Image.open(io.BytesIO(figure.png())) as picture:
        assert picture.info["Contents"] == contents(figure)
        assert picture.info["Drawn by"].startswith("matplotlib 3.")


def test_contents_of_a_curve():
    told = drawn(curve([3, 2, 1]))
    assert told["lines"] == [
        {"look": "#0072b2 -o", "width": "1.5"}
        | {"x": "1.000 2.000 4.000", "y": "3.000 2.000 1.000"}
    ]
    assert (told["x"]["label"], told["y"]["label"]) == ("step", "nats")
    assert told["legend"] == ["loss"]


def test_several_runs_are_thin_lines_with_one_name():
    told = drawn(curve([[3, 2, 1], [3, 1, 0]]))
    assert [line["y"] for line in told["lines"]] == [
        "3.000 2.000 1.000",
        "3.000 1.000 0.000",
    ]
    assert {line["look"] for line in told["lines"]} == {"#0072b2 -None"}
    assert {line["width"] for line in told["lines"]} == {"0.8"}
    assert told["legend"] == ["loss"]


def test_contents_of_a_logarithmic_axis_tell_small_numbers_apart():
    told = drawn(curve([1.0, 1e-3, 1e-6], log_y=True))
    assert told["lines"][0]["y"] == "0.000 -3.000 -6.000"


def bars(name="a"):
    return show_bars({name: [1, 2]}, WORDS, xlabel="x", ylabel="y")


def test_contents_of_bars():
    told = drawn(bars())
    assert told["x"]["ticks"] == WORDS
    heights = [float(patch["corners"].split()[5]) for patch in told["patches"]]
    assert heights == [1, 2]


def test_contents_of_a_map():
    told = drawn(show_weights(np.eye(2), WORDS, WORDS))
    assert told["images"][0]["rows"] == ["1.000 0.000", "0.000 1.000"]
    look = ["#1f2430 11.0", "0°"]
    places = ["0.000 0.000", "1.000 1.000"]
    assert told["texts"] == [["1.00", place, *look] for place in places]
    assert told["y"]["ticks"] == WORDS


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (curve([3, 2, 1]), curve([3, 2, 1.01])),
        (curve([3e-4, 2e-4, 1e-4]), curve([3e-4, 2e-4, 1.1e-4])),
        (curve([3, 2, 1]), curve([3, 2, np.nan])),
        (curve([3, 2, 1]), curve([3, 2, 1], log_y=True)),
        (bars("a"), bars("b")),
        [show_masks(mask > 0, WORDS, WORDS) for mask in (np.eye(2), np.ones((2, 2)))],
        [show_weights(np.eye(2), WORDS, WORDS, title=t) for t in ("before", "after")],
        (show_matrices({"x": np.eye(2)}), show_matrices({"x": 2 * np.eye(2)})),
    ],
)
def test_contents_differ_where_a_reader_sees_a_difference(one, two):
    assert contents(one) != contents(two)


def test_contents_leave_out_what_cannot_be_seen():
    assert contents(curve([1.0, 1e-9, 1e-12])) == contents(curve([1 - 1e-8, 0.0, 0.0]))


def test_contents_refuse_what_they_cannot_describe():
    figure = curve([3, 2, 1])
    figure.axes[0].scatter([1], [2])
    with pytest.raises(TypeError, match="describe others here"):
        contents(figure)
    figure = curve([3, 2, 1])
    figure.legend(["loss"])
    with pytest.raises(TypeError, match="artists of the figure"):
        contents(figure)


def test_picture_without_known_contents_is_drawn_all_the_same():
    figure = curve([3, 2, 1])
    figure.axes[0].scatter([1], [2])
    with Image.open(io.BytesIO(figure.png())) as picture:
        assert "Contents" not in picture.info


def test_contents_tell_the_place_of_panels_that_we_set():
    told = [drawn(show_matrices({"x": np.eye(n)}))["place"] for n in (2, 3)]
    assert told[0] != told[1]
    assert drawn(curve([3, 2, 1]))["place"] == ""


@pytest.mark.parametrize("path", sorted(RECORDS), ids=lambda p: p.stem)
def test_every_recorded_picture_carries_its_contents(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    data = [o.get("data", {}) for c in cells for o in c.get("outputs", [])]
    pictures = [each["image/png"] for each in data if "image/png" in each]
    assert pictures
    for encoded in pictures:
        with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
            assert json.loads(picture.info["Contents"])["axes"]
