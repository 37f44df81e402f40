"""The dialog of the search, and what it shows."""

from tools.chapters import SITE

DIALOG, FIELD = "#pst-search-dialog", "#pst-search-dialog input"
OPTION = f"{DIALOG} [role=option]"
READY = "document.querySelector('#pst-search-dialog input[role=combobox]')"


def found(page, query):
    """What the dialog shows for a query, in order: addresses within the site."""
    page.fill(FIELD, query)
    links = page.locator(OPTION)
    addresses = links.evaluate_all("found => found.map((option) => option.href)")
    return [address.removeprefix(f"{SITE.as_uri()}/") for address in addresses]


def is_wanted(address, wanted):
    """Say if an address is one of those wanted: a page's beginning, or a place."""
    places = wanted.split(", ")
    return any(
        address.endswith(p) if p[0] == "#" else address.startswith(p) for p in places
    )
