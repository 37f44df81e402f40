"""attention_lib.plotting: what stands in a figure, read from its own objects.

How the chapters' figures look is compared with their records, and what stands in a map
or a curve is in test_plotting_contents.py.
"""

import io
import re

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from PIL import Image

from attention_lib.plotting import (
    BookFigure,
    show_bars,
    show_cells,
    show_curves,
    show_masks,
    show_matrices,
    show_panels,
    show_weights,
)
from attention_lib.plotting._contents import contents

ROWS, COLUMNS = ["he", "sat"], ["the", "cat", "sat"]
WEIGHTS = np.array([[0.25, 0.75, 0.0], [0.5, 0.3, 0.2]])
SMALLER = WEIGHTS / 2
CURVES = {"up": [1.0, 2.0, 4.0], "down": [3.0, 2.0, 1.0]}


def tick_labels(ax):
    return (
        [label.get_text() for label in ax.get_yticklabels()],
        [label.get_text() for label in ax.get_xticklabels()],
    )


def numbers(ax):
    """The numbers in the cells, by (row, column)."""
    places = {text.get_position()[::-1]: text.get_text() for text in ax.texts}
    return dict(sorted(places.items()))


def curves_figure(**options):
    return show_curves([1, 2, 4], CURVES, xlabel="step", ylabel="loss", **options)


def bars_figure():
    bars = {"before": [1.0, 2.0, 3.0], "after": [3.0, 2.0, 1.0]}
    return show_bars(bars, ["a", "b", 3], xlabel="word", ylabel="share")


def luminance(colour):
    """How light a colour is, as WCAG counts it."""
    parts = np.array(colour)
    curved = np.where(parts > 0.04045, ((parts + 0.055) / 1.055) ** 2.4, parts / 12.92)
    return float(curved @ [0.2126, 0.7152, 0.0722])


maps = pytest.mark.parametrize("show", [show_weights, show_masks])


def test_book_figure_bundle_states_the_width_and_is_small():
    weights = torch.rand(7, 7, generator=torch.Generator().manual_seed(0)).numpy()
    figure = show_weights({"before": weights, "after": weights.T}, list("abcdefg"))
    data, metadata = figure._repr_mimebundle_()
    picture = Image.open(io.BytesIO(data["image/png"]))
    # 1.6 dots of the picture to one of the page: sharp on dense screens too.
    assert metadata == {"image/png": {"width": round(picture.width / 1.6)}}
    assert len(data["image/png"]) < 60_000


@pytest.mark.parametrize(
    "draw",
    [
        lambda array: show_weights(array, ROWS, COLUMNS),
        lambda array: show_masks(array > 0.3, ROWS, COLUMNS),
        lambda array: show_matrices({"x": array}),
        lambda array: show_curves(array[0], {"y": array[1]}, xlabel="x", ylabel="y"),
        lambda array: show_bars({"y": array[0]}, COLUMNS, xlabel="x", ylabel="y"),
    ],
    ids=["weights", "masks", "matrices", "curves", "bars"],
)
def test_figure_takes_torch_and_numpy_alike(draw):
    trained = torch.from_numpy(WEIGHTS).clone().requires_grad_()
    assert isinstance(draw(trained), BookFigure)
    assert contents(draw(WEIGHTS)) == contents(draw(trained))


@maps
def test_map_names_its_axes_and_puts_words_on_both(show):
    figure = show(WEIGHTS > 0, ROWS, COLUMNS, rows="output", columns="input")
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("input", "output")
    ax = show(WEIGHTS > 0, ROWS, COLUMNS).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")
    assert tick_labels(ax) == (ROWS, COLUMNS)


@maps
@pytest.mark.parametrize(
    ("maps", "queries", "keys", "words"),
    [
        ({"head": WEIGHTS * np.nan}, ROWS, COLUMNS, "head holds NaN: check how its"),
        (WEIGHTS[None], ROWS, COLUMNS, "a map must be (Q, K); got (1, 2, 3)"),
        (WEIGHTS > 0, COLUMNS, COLUMNS, "3 queries and 3 keys do not name the rows"),
        (WEIGHTS > 0, ROWS, ROWS, "2 queries and 2 keys do not name the rows and colu"),
        (WEIGHTS > 0, ROWS, None, "2 queries and 2 keys do not name the rows and col"),
    ],
)
def test_map_refuses_nan_axes_and_words(refused, show, maps, queries, keys, words):
    with refused(ValueError, words):
        show(maps, queries, keys)
    with refused(TypeError, "past must be boolean; got float64"):
        show_masks(WEIGHTS, ROWS, COLUMNS, title="past")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: show_weights(WEIGHTS, ROWS, COLUMNS),
        lambda: show_matrices({"x": np.array([[-np.inf, -9.0], [0.0, 9.0]])}),
        lambda: show_cells([{"x": np.array([[10, 62], [30, 52]])}], head_dim=2),
    ],
    ids=["weights", "matrices", "cells"],
)
def test_numbers_can_be_read_on_their_cells(draw):
    ax = draw().axes[0]
    colours = ax.images[0].to_rgba(ax.images[0].get_array())
    assert ax.texts
    for text in ax.texts:
        col, row = text.get_position()
        *colour, share = colours[int(row), int(col)]
        ground = 1 - share * (1 - np.array(colour))
        ratio = (luminance(ground) + 0.05) / (
            luminance(to_rgb(text.get_color())) + 0.05
        )
        assert ratio >= 4.5


@pytest.mark.parametrize(("columns", "word"), [(3, "0.75"), (8, ".75")])
def test_narrow_cells_have_shorter_numbers(columns, word):
    array = np.full((1, columns), 0.75)
    maps = {"a": array, "b": array}
    ax = show_weights(maps, ["query"], ["key"] * columns).axes[0]
    assert {text.get_text() for text in ax.texts} == {word}


@pytest.mark.parametrize(("size", "written"), [(8, True), (9, False)])
def test_show_weights_leaves_numbers_out_of_a_large_map(size, written):
    ax = show_weights(np.eye(size), list("abcdefghi")[:size]).axes[0]
    assert bool(ax.texts) == written


@pytest.mark.parametrize(
    ("cells", "written"),
    [
        ([0.126, -2.5], ["0.13", "-2.50"]),
        ([3.0, -2.0, 0.0], ["3", "-2", "0"]),
        ([-0.001, -0.0, 0.5], ["0.00", "0.00", "0.50"]),
    ],
    ids=["two decimals", "whole", "no minus zero"],
)
def test_show_matrices_writes_the_numbers(cells, written):
    ax = show_matrices({"x": np.array([cells])}).axes[0]
    assert list(numbers(ax).values()) == written


def test_show_matrices_draws_minus_infinity():
    figure = show_matrices({"additive": np.array([[0.0, -np.inf], [0.0, 2.0]])})
    figure.png()
    assert numbers(figure.axes[0])[0, 1] == "-inf"
    assert np.isfinite(figure.axes[0].images[0].get_clim()).all()


def test_show_matrices_colours_are_strong_without_numbers():
    large, small = show_matrices({"a": np.ones((9, 9)), "b": np.ones((2, 2))}).axes
    assert large.images[0].cmap(1.0)[3] > small.images[0].cmap(1.0)[3]
    assert not large.texts


def test_series_are_told_apart_not_by_colour_alone():
    curves, bars = (figure.axes[0] for figure in (curves_figure(), bars_figure()))
    names = [[it.get_text() for it in ax.get_legend().texts] for ax in (curves, bars)]
    assert names == [list(CURVES), ["before", "after"]]
    axes = [(ax.get_xlabel(), ax.get_ylabel()) for ax in (curves, bars)]
    assert axes == [("step", "loss"), ("word", "share")]
    assert tick_labels(bars)[1] == ["a", "b", "3"]
    assert len({line.get_linestyle() for line in curves.lines}) == 2
    assert len({group[0].get_hatch() for group in bars.containers}) == 2


@pytest.mark.parametrize(("points", "marker"), [(12, "o"), (13, "None")])
def test_show_curves_marks_single_points(points, marker):
    x = np.arange(points)
    figure = show_curves(x, {"y": x}, xlabel="x", ylabel="y")
    assert figure.axes[0].lines[0].get_marker() == marker


@pytest.mark.parametrize(("least", "from_zero"), [(0.0, True), (-0.1, False)])
def test_show_curves_start_at_zero_unless_below(least, from_zero):
    curves = {"high": [2.0, 3.0], "low": [least, 1.0]}
    ax = show_curves([1, 2], curves, xlabel="x", ylabel="y").axes[0]
    assert (ax.get_ylim()[0] == 0) == from_zero


def panels(count):
    some = {f"run {i}": CURVES for i in range(count)}
    return show_panels([1, 2, 4], some, xlabel="step", ylabel="loss")


@pytest.mark.parametrize("count", [1, 3, 6])
def test_show_panels_label_outer_axes_and_have_one_legend(count):
    figure = panels(count)
    assert [ax.get_title() for ax in figure.axes] == [f"run {i}" for i in range(count)]
    last = [ax.get_xlabel() for ax in figure.axes][-2:]
    assert last == ["step"] * min(count, 2)
    labelled = [bool(ax.get_ylabel()) for ax in figure.axes]
    assert labelled == [i % 2 == 0 for i in range(count)]
    legends = [ax.get_legend() for ax in figure.axes]
    assert legends[1:] == [None] * (count - 1)
    assert not figure.legends
    assert [text.get_text() for text in legends[0].get_texts()] == list(CURVES)
    assert all(ax.get_ylim()[0] == 0 for ax in figure.axes)


@pytest.mark.parametrize(("word", "slant"), [("a", 0), ("because", 45)])
def test_show_bars_slants_words_that_would_touch(word, slant):
    figure = show_bars({"x": range(11)}, [word] * 11, xlabel="word", ylabel="nats")
    labels = figure.axes[0].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {slant}


@pytest.mark.parametrize("name", ["long names", "many words", "curves"])
def test_names_of_series_stand_above_the_axes(name):
    figure = LAYOUTS[name]()
    figure.draw_without_rendering()
    ax = figure.axes[0]
    box = ax.get_legend().get_window_extent()
    assert box.y0 >= ax.get_window_extent().y1


def test_plotting_changes_no_global_style():
    before = dict(matplotlib.rcParams)
    LAYOUTS["curves"]().png()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("count", [0, 7])
def test_charts_refuse_more_series_than_can_be_told_apart(count):
    series = {str(index): [1.0, 2.0] for index in range(count)}
    with pytest.raises(ValueError, match=f"1 to 6 series; got {count}"):
        show_curves([1, 2], series, xlabel="x", ylabel="y")
    with pytest.raises(ValueError, match=f"1 to 6 series; got {count}"):
        show_bars(series, [1, 2], xlabel="x", ylabel="y")
    with pytest.raises(ValueError, match=f"1 to 6 series; got {count}"):
        show_panels([1, 2], {"a": series}, xlabel="x", ylabel="y")
    with pytest.raises(ValueError, match="at least one panel"):
        show_panels([1, 2], {}, xlabel="x", ylabel="y")


BOTH = {"xlabel": "x", "ylabel": "y"}


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: show_curves([1, 2], {"a": [1]}, **BOTH), "a must have one number for"),
        (lambda: show_curves([0, 1], {"a": [1, 2]}, log_x=True, **BOTH), "x must be"),
        (lambda: show_curves([1], {"a": [-1]}, log_y=True, **BOTH), "a must be above"),
        (lambda: show_panels([1], {"a": {"b": [-1]}}, **BOTH), "b must not be below 0"),
        (lambda: show_bars({"a": [1, 2]}, ["x"], **BOTH), "a must have one number for"),
        (lambda: show_bars({"a": [1]}, ["x", "y"], **BOTH), "a must have one"),
        (lambda: show_weights([[-1.0]], ["a"]), "weights must be finite"),
        (lambda: show_weights({}, []), "there must be at least one map"),
        (lambda: show_matrices({}), "at least one matrix"),
        (lambda: show_matrices({"a": np.ones((1, 2, 3))}), "a must be (rows, columns)"),
        (lambda: show_matrices({"a": [1]}, words={"b": ([], [])}), "a name in words"),
        (lambda: show_matrices({"a": [1]}, words={"a": ("x", "yz")}), "the words of a"),
    ],
)  # fmt: skip
def test_drawings_refuse_what_they_would_draw_wrongly(draw, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        draw()


NAMES = {f"a curve with a long name, {i}": [i, 2.0] for i in range(5)}
MANY = {"surprise": range(11)}, ["because"] * 11
LAYOUTS = {
    "one map": lambda: show_weights(WEIGHTS, ROWS, COLUMNS, title="a title"),
    "two maps": lambda: show_weights({"a": WEIGHTS, "b": SMALLER}, ROWS, COLUMNS),
    "masks": lambda: show_masks({"a": WEIGHTS > 0, "b": WEIGHTS < 0}, ROWS, COLUMNS),
    "matrices": lambda: show_matrices({"a": WEIGHTS, "b": WEIGHTS.T, "c": np.eye(4)}),
    "words": lambda: show_matrices({"s": WEIGHTS}, words={"s": (ROWS, COLUMNS)}),
    "wide": lambda: show_matrices({"m": np.ones((2, 16)), "n": np.eye(7)}, columns=2),
    "curves": lambda: show_curves([1, 2, 3], CURVES, xlabel="x", ylabel="y"),
    "panels": lambda: panels(6),
    "three panels": lambda: panels(3),
    "long names": lambda: show_curves([1, 2], NAMES, xlabel="x", ylabel="y"),
    "many words": lambda: show_bars(*MANY, xlabel="word", ylabel="nats"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_figure_cuts_nothing_off_and_wastes_little(name):
    figure = LAYOUTS[name]()
    figure.draw_without_rendering()  # so that everything has its place
    box = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01
    assert box.height >= 0.7 * height
