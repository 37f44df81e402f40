"""Citations as links, and the list of references, from `book/references.bib`."""

from pathlib import Path

from pybtex.backends.markdown import Backend
from pybtex.database import BibliographyData, Entry, Person, parse_file
from pybtex.style.formatting.plain import Style

from tools.record.myst import Place, escaped


def read_entries(root: Path) -> dict[str, Entry]:
    """Read the bibliography; a book without one has no entries."""
    path = root / "book" / "references.bib"
    return dict(parse_file(str(path)).entries) if path.is_file() else {}


def cite(
    keys: list[str], entries: dict[str, Entry], place: Place, *, in_text: bool
) -> str:
    """Return links: `([Vaswani et al., 2017](…))`, or `[Vaswani et al. (2017)](…)`."""
    links = []
    for key in keys:
        if key not in entries:
            raise place.error(
                f"unknown citation {key!r}; add it to book/references.bib"
            )
        entry = entries[key]
        names, year = _names(entry, place), entry.fields["year"]
        label = f"{names} ({year})" if in_text else f"{names}, {year}"
        links.append(f"[{label}]({_address(entry, place)})")
    return ", ".join(links) if in_text else f"({'; '.join(links)})"


def references(keys: set[str], entries: dict[str, Entry]) -> str:
    """Return the full entries as a Markdown list, sorted by author."""
    cited = BibliographyData({key: entries[key] for key in sorted(keys)})
    formatted = Style().format_bibliography(cited)
    return "\n".join(f"- {entry.text.render(_Plain())}" for entry in formatted)


def _names(entry: Entry, place: Place) -> str:
    """Return `Shaw`, `Press and Wolf` or `Vaswani et al.`."""
    names = [_last_name(person) for person in entry.persons.get("author", [])]
    if not names or "year" not in entry.fields:
        raise place.error(f"{entry.key} needs an author and a year in references.bib")
    return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)


def _last_name(person: Person) -> str:
    """Return a family name with its particles, freed of LaTeX."""
    return " ".join(map(str, person.rich_prelast_names + person.rich_last_names))


def _address(entry: Entry, place: Place) -> str:
    """Return where a work is found."""
    for field, prefix in (
        ("doi", "https://doi.org/"),
        ("url", ""),
        ("eprint", "https://arxiv.org/abs/"),
    ):
        if field in entry.fields:
            return f"{prefix}{entry.fields[field]}"
    raise place.error(f"{entry.key} needs a doi, url or eprint in references.bib")


class _Plain(Backend):  # type: ignore[misc]
    """Markdown that escapes only what would be read as markup."""

    symbols = {"ndash": "–", "newblock": " ", "nbsp": " "}  # noqa: RUF012

    def format_str(self, text: str) -> str:
        """Escape one piece of text."""
        return escaped(text)

    def format_href(self, url: str, text: str, external: bool = False) -> str:
        """Return a Markdown link, the short form where it shows its own address."""
        if text == escaped(url):
            return f"<{url}>"
        return f"[{text}]({url})"
