"""The dialog of the search, and what it shows."""

from tools.chapters import SITE

DIALOG, FIELD = "#pst-search-dialog", "#pst-search-dialog input"
OPTION = f"{DIALOG} [role=option]"
READY = "document.querySelector('#pst-search-dialog input[role=combobox]')"


# The dialog shows what it finds as soon as it hears of a text.
FIND = """([queries, field, option]) => queries.map((query) => {
    const input = document.querySelector(field);
    input.value = query;
    input.dispatchEvent(new InputEvent("input"));
    return Array.from(document.querySelectorAll(option), (link) => link.href);
})"""


def found(page, query):
    """What the dialog shows for a query, in order: addresses within the site."""
    return found_for(page, [query])[0]


def found_for(page, queries, edition=""):
    """What it shows for each query: many at once take a quarter of the time."""
    shown = page.evaluate(FIND, [list(queries), FIELD, OPTION])
    start = f"{SITE.as_uri()}/{edition}"
    return [[address.removeprefix(start) for address in links] for links in shown]


def missed(page, asked, edition=""):
    """Of queries and the places wanted, those that are not among the first three."""
    shown = found_for(page, [query for query, *_ in asked], edition)
    return [
        (query, wanted, links[:3])
        for (query, wanted, *_), links in zip(asked, shown, strict=True)
        if not any(is_wanted(address, wanted) for address in links[:3])
    ]


def is_wanted(address, wanted):
    """Say if an address is one of those wanted: a page's beginning, or a place."""
    places = wanted.split(", ")
    return any(
        address.endswith(p) if p[0] == "#" else address.startswith(p) for p in places
    )
