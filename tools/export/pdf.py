"""Make a PDF of the whole book from the pages of the site, with nothing executed.

Run as `python -m tools.export.pdf [--output FILE]`. The site is brought up to date
first; its
pages become one document, with contents in front and solutions at the end. What is
wrong with the PDF is said, and makes the exit status 1: a picture that is not there,
text over the margin, a number in the contents, a link without a destination, a solution
before the appendix, too many pages or bytes.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = Path("_build", "book.pdf")


def main(root: Path = ROOT) -> int:
    """Write the PDF, and return the command's exit status."""
    parser = argparse.ArgumentParser(prog="tools.export.pdf", description=__doc__)
    parser.add_argument("--output", type=Path, default=root / OUTPUT)
    output: Path = parser.parse_args().output
    site = [sys.executable, "-m", "tools.site.build"]
    if subprocess.run(site, cwd=root, check=False).returncode:
        return 1
    try:
        found = make(root, output)
    except (RuntimeError, ValueError) as error:
        print(f"make pdf: {error}", file=sys.stderr)
        return 1
    for fault in found:
        print(f"make pdf: {fault}", file=sys.stderr)
    print(f"The PDF is ready. Open {output} ({output.stat().st_size / 1e6:.1f} MB)")
    return 1 if found else 0


def make(root: Path, output: Path) -> list[str]:
    """Print the built site as a book, and return what is wrong with the PDF.

    Raises:
        ValueError: a page is not built, or a link leads nowhere.
        RuntimeError: there is no browser.
    """
    from tools.export.paper_book import commit_and_date, whole_book
    from tools.export.paper_check import faults, read_paper
    from tools.export.paper_print import print_book

    print("putting the pages together", flush=True)
    document = root / "_build/pdf/book.html"
    document.parent.mkdir(parents=True, exist_ok=True)
    text = whole_book(root)
    document.write_text(text, encoding="utf-8")
    output.parent.mkdir(parents=True, exist_ok=True)
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    about = {
        "/Title": config["title"],
        "/Author": config["author"],
        "/Subject": commit_and_date(root),
    }
    seen = print_book(document, output, about)
    print("checking contents, links and solutions", flush=True)
    return seen + faults(read_paper(output), text, root)


if __name__ == "__main__":
    sys.exit(main())
