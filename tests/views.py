"""Opening views of attention_lib.explorer in a bare page, as each front end does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, Page

from tests.browsing import AXE, AXE_RULES, EXAMINE

ADDRESS = "http://127.0.0.1/view.html"
Theme = Literal["light", "dark"]
# How each front end says which colours it has: attributes of <html> and of <body>.
FRONT_ENDS: dict[str, dict[Theme, tuple[str, str]]] = {
    "site": {
        "light": ('data-theme="light"', ""),
        "dark": ('data-theme="dark"', ""),
    },
    "JupyterLab": {
        "light": (
            "",
            'data-jp-theme-light="true" data-jp-theme-name="JupyterLab Light"',
        ),
        "dark": (
            "",
            'data-jp-theme-light="false" data-jp-theme-name="JupyterLab Dark"',
        ),
    },
    "VS Code": {
        "light": ("", 'class="vscode-light"'),
        "dark": ("", 'class="vscode-dark"'),
    },
    "Colab": {"light": ('theme="light"', ""), "dark": ('theme="dark"', "")},
}
GROUND = {
    "light": "background: #fff; color: #222",
    "dark": "background: #111; color: #eee",
}
# As JupyterLab and VS Code do it: what innerHTML holds does not run, a copy does.
ADD = """(html) => {
    const output = document.createElement("div");
    output.innerHTML = html;
    for (const script of output.querySelectorAll("script")) {
        const copy = document.createElement("script");
        for (const { name, value } of script.attributes) copy.setAttribute(name, value);
        copy.textContent = script.textContent;
        script.replaceWith(copy);
    }
    document.querySelector("main").append(output);
}"""


def html_of(view: Any) -> str:
    """What a notebook shows of a view, its program included."""
    return str(view._repr_mimebundle_()["text/html"])


def bare_page(*views: Any, front_end: str = "site", theme: Theme = "light") -> str:
    """A page with nothing but views, in the colours of a front end."""
    html, body = FRONT_ENDS[front_end][theme]
    return (
        f'<!DOCTYPE html><html lang="en" {html}><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Views</title>'
        f'<link rel="icon" href="data:,"></head><body {body} style="{GROUND[theme]}">'
        f"<main><h1>Views</h1>{''.join(map(html_of, views))}</main></body></html>"
    )


@contextmanager
def opened(
    browser: Browser,
    *views: Any,
    front_end: str = "site",
    theme: Theme = "light",
    **options: Any,
) -> Iterator[Page]:
    """A page with views; when it closes, nothing may have failed or been asked for.

    `options` are those of Playwright's `new_context`: `viewport`, `has_touch`,
    `java_script_enabled`, …
    """
    faults: list[str] = []
    text = bare_page(*views, front_end=front_end, theme=theme)
    with browser.new_context(**options) as context, context.new_page() as page:
        page.route(
            ADDRESS, lambda route: route.fulfill(body=text, content_type="text/html")
        )
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda line: faults.append(f"{line.type}: {line.text}"))
        page.on(
            "request",
            lambda sent: faults.append(sent.url) if sent.url != ADDRESS else None,
        )
        page.set_default_timeout(10_000)
        page.goto(ADDRESS)
        yield page
        assert not faults, faults


def add_view(page: Page, view: Any) -> None:
    """Show one more view in an open page, as a notebook shows an output."""
    page.evaluate(ADD, html_of(view))


def axe_faults(page: Page) -> list[str]:
    """What axe finds wrong with a page, by WCAG 2.2 AA and its own best practices."""
    page.evaluate(AXE)
    return list(page.evaluate(EXAMINE, AXE_RULES))
