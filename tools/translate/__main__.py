"""The Chinese edition: `python -m tools.translate WHAT [page ...]`.

A page is named as its file is: `chapters/03-masks`. `update` brings the catalogues in
step with the English pages, and begins those that are named. `check` says what is
missing, stale or wrong in the finished pages, or in those that are named. `source`
writes the source of the edition to `_build/zh`, `build` its site, too, to
`_build/html/zh`, `copies` its copies for Colab to `_build/colab/zh`, and `pdf` a PDF of
the finished pages. Pages that are named are shown in Chinese though not finished.
"""

import argparse
from datetime import date

from tools.chapters import ROOT

MADE = {"source": "", "build": "site", "copies": "copies", "pdf": "pdf"}


def main() -> int:
    """Run one of them, and return the command's exit status."""
    parser = argparse.ArgumentParser(prog="tools.translate", description=__doc__)
    parser.add_argument("what", choices=("update", "check", *MADE))
    parser.add_argument("page", nargs="*", help="as in `chapters/03-masks`")
    options = parser.parse_args()
    from tools.translate import catalogue, check, edition

    if unknown := {*options.page} - {*catalogue.page_paths(ROOT)}:
        parser.error(f"{min(unknown)} is no page")
    if options.what in MADE:
        return edition.build(ROOT, options.page, MADE[options.what])
    if options.what == "check":
        return check.report(ROOT, options.page, date.today())
    said = catalogue.update(ROOT, options.page, date.today())
    print("\n".join(said) or "every catalogue is in step")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
