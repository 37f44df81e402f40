"""The drawing that a picture carries for the site: what stands in it, and what not."""

import io
import re
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from attention_lib.plotting import show_bars, show_cells, show_curves, show_weights
from attention_lib.plotting._figure import COLOURS, NAMES

WEIGHTS = np.array([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]])
WORDS = ["he", "sat"], ["the", "cat", "sat"]
FIGURES = {
    "map": lambda: show_weights(WEIGHTS, *WORDS),
    "curve": lambda: show_curves([1, 2], {"a": [1e-3, 10]}, xlabel="x", ylabel="y"),
    "log": lambda: show_curves(
        [1, 2], {"a": [1e-9, 1]}, xlabel="x", ylabel="y", log_y=True
    ),
    "bars": lambda: show_bars({"a": [1], "b": [2]}, ["p"], xlabel="x", ylabel="y"),
    "cells": lambda: show_cells([{"x": np.array([[10, 21]])}], head_dim=1),
}
every = pytest.mark.parametrize("name", FIGURES)


@cache
def drawn(name):
    return drawing(FIGURES[name]())


def drawing(figure):
    with Image.open(io.BytesIO(figure.png())) as picture:
        return picture.info.get("Drawing", "")


@every
def test_picture_and_its_drawing_have_the_same_bytes_twice(name):
    assert FIGURES[name]().png() == FIGURES[name]().png()


@every
def test_drawing_has_words_in_the_pages_typeface_none_too_small(name):
    found = drawn(name)
    assert "font-family" not in found
    sizes = [float(size) for size in re.findall(r"font-size:([\d.]+)px", found)]
    # On a phone 343 pixels show the figure's width of 72 points an inch.
    assert min(sizes) * 343 / (72 * FIGURES[name]().get_figwidth()) >= 11


@every
def test_drawing_names_every_colour(name):
    found = drawn(name)
    bare = re.sub(r"var\((--[\w-]+),(#[0-9a-f]{6})\)", "", found)
    assert re.findall(r"#[0-9a-f]{6}\b", bare) == []
    assert "var(--book-ink,#1f2430)" in found


@every
def test_drawing_holds_nothing_of_the_machine_and_loads_nothing(name):
    found = drawn(name)
    assert not re.search(r"https?:|data:|matplotlib|DejaVu|20\d\d-", found)
    ids = re.findall(r'\bid="([^"]+)"', found)
    assert len(ids) == len({*ids})
    assert {*re.findall(r'(?:href="#|url\(#)([^")]+)', found)} <= {*ids}


def test_drawings_of_one_page_share_no_names():
    one, two = drawn("curve"), drawn("bars")
    names = [{*re.findall(r'\bid="([^"]+)"', each)} for each in (one, two)]
    assert names[0]
    assert not names[0] & names[1]


def test_map_s_cells_are_paths_as_opaque_as_their_weights():
    svg = ElementTree.fromstring(drawn("map"))
    paths = [it for it in svg.iter("path") if "--figure-map" in it.get("style", "")]
    found = {it.get("d"): float(it.get("style", "").split(":")[-1]) for it in paths}
    # The cell without weight is not drawn; equal neighbours are one piece.
    assert found == {
        "M0 0h1v1h-1zM1 1h2v1h-2z": pytest.approx(0.55 / 3, abs=0.01),
        "M1 0h1v1h-1z": pytest.approx(0.55, abs=0.01),
        "M0 1h1v1h-1z": pytest.approx(0.55 * 2 / 3, abs=0.01),
    }


def test_words_stand_where_the_picture_has_them():
    figure = FIGURES["map"]()
    svg = ElementTree.fromstring(drawing(figure))
    place = next(it for it in svg.iter("text") if it.text == "0.75")
    ax = figure.axes[0]
    x, y = ax.transData.transform((1, 0)) * 72 / figure.dpi
    height = 72 * figure.get_figheight()
    assert float(place.get("x", 0)) == pytest.approx(x, abs=0.1)
    assert height - float(place.get("y", 0)) == pytest.approx(y, abs=6)


def test_figure_with_a_formula_is_shown_as_a_picture():
    figure = FIGURES["curve"]()
    figure.axes[0].set_title("$x^2$")
    assert drawing(figure) == ""


def test_every_series_has_a_name_of_its_own():
    assert len({NAMES[colour] for colour in COLOURS}) == len(COLOURS)
