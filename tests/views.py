"""Open views of attention_lib.course.views in a bare page, as a front end does."""

import itertools
import json
import re
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import torch
from bs4 import BeautifulSoup
from playwright.sync_api import Page

from tests.running import sample

ADDRESS = "http://127.0.0.1/view.html"
COUNT = itertools.count()
PHONE = {"viewport": {"width": 375, "height": 800}, "has_touch": True}
TEMPERATURES = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10]  # the slider's
# Every way to use a view; a mouse clicks where a finger taps, so it waits for the rest.
each_way = pytest.mark.parametrize(
    "by", [pytest.param("mouse", marks=pytest.mark.slow), "finger", "keys"]
)
# How each front end says which colours it has: attributes of <html> and of <body>.
FRONT_ENDS = {
    "site": ('data-theme="{0}"', ""),
    "JupyterLab": ("", 'data-jp-theme-light="{1}" data-jp-theme-name="JupyterLab {2}"'),
    "VS Code": ("", 'class="vscode-{0}"'),
    "Colab": ('theme="{0}"', ""),
}
GROUND = {
    "light": "background: #fff; color: #222",
    "dark": "background: #111; color: #eee",
}
# As JupyterLab and VS Code do it: what innerHTML holds does not run, a copy does.
ADD = sample("add.js")

# Says what a finger may miss.
TAPS = sample("taps.js")

# Types each text into the field of a prediction, sends it, and gives what is said.
PREDICT = sample("predict.js")


def html_of(view):
    """What a notebook shows of a view, its program included."""
    return str(view._repr_mimebundle_()["text/html"])


def tables_of(view):
    """The tables that a view shows without a script, as lists of rows of texts."""
    return [
        [[cell.text for cell in row.select("th, td")] for row in table.select("tr")]
        for table in BeautifulSoup(view.static, "html.parser").select("table")
    ]


def numbers(rows):
    """The numbers of a table, without its head and its first column."""
    return torch.tensor([[float(cell) for cell in row[1:]] for row in rows[1:]])


def sent(view):
    """The data that reach the page."""
    pattern = r'<script type="application/json">(.*?)</script>'
    found = re.search(pattern, html_of(view))
    return json.loads(found[1])


def bare_page(*views, front_end="site", theme="light"):
    """A page with nothing but views, in the colours of a front end."""
    named = theme, {"light": "true", "dark": "false"}[theme], theme.title()
    html, body = (attributes.format(*named) for attributes in FRONT_ENDS[front_end])
    return (
        f'<!DOCTYPE html><html lang="en" {html}><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Views</title>'
        f'<link rel="icon" href="data:,"></head><body {body} style="{GROUND[theme]}">'
        f"<main><h1>Views</h1>{''.join(map(html_of, views))}</main></body></html>"
    )


class Window(NamedTuple):
    """A page of a browser, what went wrong in it, and what it is to show."""

    page: Page
    faults: list[str]
    text: list[str]


# A new window takes longer than most tests, so the next test uses it again.
FREE = {}


def new_window(browser, options):
    """A window that shows `text`, and notes what fails or is asked for."""
    page = browser.new_context(**options).new_page()
    page.add_init_script(TAPS)
    window = Window(page, [], [""])
    note = window.faults.append
    page.route(
        f"{ADDRESS}*",
        lambda route: route.fulfill(body=window.text[0], content_type="text/html"),
    )
    page.on("pageerror", lambda error: note(f"error: {error}"))
    page.on("console", lambda line: note(f"{line.type}: {line.text}"))
    page.on("request", lambda it: it.url.startswith(ADDRESS) or note(it.url))
    page.set_default_timeout(10_000)
    return window


@contextmanager
def opened(browser, *views, front_end="site", theme="light", by="", **options):
    """A page with views; when it closes, nothing may have failed or been asked for.

    Nor may anything that a finger uses be too small for it then.

    `options` are those of Playwright's `new_context`: `viewport`, `has_touch`,
    `java_script_enabled`, …; what is used by a finger is a phone.
    """
    options |= PHONE if by == "finger" else {}
    free = FREE.setdefault(f"{id(browser)} {options}", [])
    while free and free[-1].page.context.browser != browser:
        free.pop()
    window = free.pop() if free else new_window(browser, options)
    page, faults, text = window
    size = page.viewport_size
    faults.clear()
    text[0] = bare_page(*views, front_end=front_end, theme=theme)
    page.mouse.move(0, 0)
    page.emulate_media(media="screen")
    # Another address each time: where the last page was scrolled to is not kept.
    page.goto(f"{ADDRESS}?{next(COUNT)}")
    yield page
    if options.get("has_touch"):
        faults += page.evaluate("cramped()")
    assert not faults, faults
    if page.viewport_size == size:  # else the next test would get the new one
        free.append(window)
    else:
        page.context.close()


@contextmanager
def showing(browser, *views, **options):
    """A page, as `opened` gives it, and the first of its views."""
    with opened(browser, *views, **options) as page:
        yield page, live(page)


def live(page, index=0):
    """One of the page's views, once its program runs."""
    view = page.locator(".attention-live").nth(index)
    view.wait_for()
    return view


def use(part, by, key="Enter"):
    """Press a part of a view by mouse, finger or keys."""
    {"mouse": part.click, "finger": part.tap}.get(by, lambda: part.press(key))()


def slide(slider, value, by):
    """Move a slider, by keys one step at a time."""
    if by == "keys":
        steps = value - int(slider.input_value())
        for _ in range(abs(steps)):
            slider.press("ArrowRight" if steps > 0 else "ArrowLeft")
    else:
        slider.fill(str(value))


def set_temperature(view, temperature):
    """Move the slider of a view, and see what it says."""
    slider = view.get_by_role("slider", name="temperature")
    slider.fill(str(TEMPERATURES.index(temperature)))
    assert view.locator("output").inner_text() == f"{temperature:g}"


def add_view(page, view):
    """Show one more view in an open page, as a notebook shows an output."""
    page.evaluate(ADD, html_of(view))


def refusals(explore, given, *cases):
    """A test that a view refuses each case: what is other, the error, its words."""

    @pytest.mark.parametrize(("other", "error", "words"), cases)
    def test(refused, other, error, words):
        with refused(error, words):
            explore(**given | other)

    return test


def predicted(page, asked):
    """Type into predictions, named by their place; gives if it is right, and words."""
    return [(right, said) for right, said in page.evaluate(PREDICT, asked)]
