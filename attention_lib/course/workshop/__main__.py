"""Make a workshop: ``python -m attention_lib.course.workshop FOLDER``."""

import argparse
import sys

from attention_lib.course.workshop import workshop_parts, write_workshop


def main(arguments: list[str] | None = None) -> int:
    """Write the folder, and return the command's exit status."""
    parser = argparse.ArgumentParser(
        "attention_lib.course.workshop", description=__doc__
    )
    parser.add_argument("folder", help="a new folder, such as ~/my-model")
    try:
        folder = write_workshop(parser.parse_args(arguments).folder)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    parts = workshop_parts()
    minutes = sum(part.minutes for part in parts)
    print(f"{folder}: {len(parts)} parts, about {minutes} minutes.")
    print(f"Write part 1 in {folder / 'model.py'}. Then, to check it:")
    print(f"  {sys.executable} -m pytest {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
