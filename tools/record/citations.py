"""Keys of `book/references.bib` in, links and the list of references out."""

from functools import cache

from pybtex.backends.markdown import Backend
from pybtex.database import BibliographyData, Entry
from pybtex.style.formatting.plain import Style

from tools.record.book import Place, escaped
from tools.words import say

ADDRESSES = {"doi": "https://doi.org/", "url": "", "eprint": "https://arxiv.org/abs/"}


def cite(
    keys: list[str], entries: dict[str, Entry], place: Place, *, in_text: bool
) -> str:
    """Return links: `([Vaswani et al., 2017](…))`, or `[Vaswani et al. (2017)](…)`."""
    links = []
    for key in keys:
        if key not in entries:
            raise place.error(f"{key!r} is not in book/references.bib; add it")
        fields = entries[key].fields
        found = [f"{ADDRESSES[it]}{fields[it]}" for it in ADDRESSES if it in fields]
        names, year = _names(entries[key]), fields.get("year")
        if not (found and names and year):
            raise place.error(
                f"{key} needs an author, a year, and a doi, url or eprint"
            )
        label = f"{names} ({year})" if in_text else f"{names}, {year}"
        links.append(f"[{label}]({found[0]})")
    return ", ".join(links) if in_text else f"({'; '.join(links)})"


def references(keys: set[str], entries: dict[str, Entry]) -> str:
    """Return the full entries as a Markdown list, sorted by author."""
    cited = BibliographyData({key: entries[key] for key in sorted(keys)})
    formatted = _style().format_bibliography(cited)
    return "\n".join(f"- {entry.text.render(_Plain())}" for entry in formatted)


@cache
def _style() -> Style:
    return Style()  # looks through all that is installed, for its parts


def _names(entry: Entry) -> str:
    """Return `Shaw`, `Press and Wolf` or `van den Oord et al.`, without LaTeX."""
    people = entry.persons.get("author", [])
    parts = [person.rich_prelast_names + person.rich_last_names for person in people]
    names = [" ".join(map(str, part)) for part in parts]
    if len(names) > 2:
        return say("notebook.others", first=names[0])
    return f" {say('notebook.and')} ".join(names)


class _Plain(Backend):  # type: ignore[misc]
    """Markdown that escapes only what would be read as markup."""

    symbols = {"ndash": "–", "newblock": " ", "nbsp": " "}  # noqa: RUF012

    def format_str(self, text: str) -> str:
        """Escape one piece of text."""
        return escaped(text)

    def format_href(self, url: str, text: str, external: bool = False) -> str:
        """Return a Markdown link, in short form if its text is its own address."""
        return f"<{url}>" if text == escaped(url) else f"[{text}]({url})"
