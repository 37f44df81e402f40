"""The command ``python -m attention_lib.chat PATH``: talk with a published model.

The model is a ``.gguf`` file or a folder, as ``load_pretrained`` takes it. The exit
status is 2 if there is no such model; the reason is on stderr.
"""

import argparse
import io
import os
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from attention_lib.conversation import Conversation
from attention_lib.pretrained import (
    GGUFFile,
    load_pretrained,
    load_tokenizer,
    small_model,
)
from attention_lib.tiny_lm import LanguageModel

COMMANDS = """/reset  forget the conversation
/help   show these lines
/quit   end the program
Ctrl+C  stop a reply; at the prompt, end the program"""
NO_TEMPLATE = """There is no chat template: this is probably a base model. It does not
answer, but continues your text, together with all text since the last /reset."""


def talk(
    conversation: Conversation,
    read: Callable[[], str],
    write: Callable[[str], object],
    note: Callable[[str], object],
) -> None:
    """Let a user talk with a model, until /quit, Ctrl+C or the end of the input.

    Args:
        conversation: with the model.
        read: returns the next line of the user.
        write: called with each piece of a reply.
        note: called with lines that are not the model's.
    """
    while True:
        try:
            line = read().strip()
        except (EOFError, KeyboardInterrupt):
            write("\n")
            return
        if line == "/quit":
            return
        if line == "/reset":
            conversation.reset()
            note("The conversation is forgotten.")
        elif line.startswith("/") and " " not in line:
            note(COMMANDS)
        elif line:
            try:
                reply = conversation.reply(line, write)
            except ValueError as error:
                note(f"{error}")
            else:
                write("\n")
                note(f"[{reply}; {conversation}]")


def main(arguments: Sequence[str] | None = None) -> int:
    """Talk with the model of a path, and return the command's exit status."""
    options = vars(_parser().parse_args(arguments))
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show
    with suppress(ImportError):  # Windows lacks it
        import readline  # noqa: F401 (edits the lines that `input` reads)
    path = options.pop("path")
    try:
        path = small_model() if path is None else Path(path)
        _note(f"Loading {path} ...")
        model, tokenizer = load_pretrained(path), load_tokenizer(path)
        conversation = Conversation(model, tokenizer, **options)
        _note(_describe(path, model))
        if tokenizer.template is None:
            _note(NO_TEMPLATE)
        _note("/help lists the commands.")
        talk(conversation, _ask, _write, _note)
    except (OSError, TypeError, ValueError) as error:
        print(f"no chat: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # while it loads
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attention_lib.chat",
        description="Talk with a published model.",
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path", nargs="?", help="a .gguf file, or a folder; a small model if left out"
    )
    add = parser.add_argument
    add(
        "--max-new-tokens",
        type=int,
        default=256,
        help="the most of a reply; %(default)s",
    )
    add("--temperature", type=float, default=0.7, help="0 is greedy; %(default)s")
    add("--top-p", type=float, default=0.9, help="of nucleus sampling; %(default)s")
    add("--seed", type=int, default=random.randrange(2**31), help="of the draws")
    add("--system", help="the system message")
    return parser


def _describe(path: Path, model: LanguageModel) -> str:
    """Return the model's name, licence and size."""
    fields = GGUFFile(path).fields if path.suffix == ".gguf" else {}
    name = fields.get("general.name", path.resolve().name)
    licence = fields.get("general.license")
    weights = list(model.parameters())
    return (
        f"{name}: {sum(it.numel() for it in weights):,} parameters, "
        f"{sum(it.nbytes for it in weights) / 1e6:,.0f} MB in memory"
        + (f", licence {licence}" if licence else "")
    )


def _ask() -> str:
    """Return the user's next line, which is shown even if it comes from a pipe."""
    if sys.stdin.isatty():
        return input("\n> ")
    line = input()
    print(f"\n> {line}")
    return line


def _write(piece: str) -> None:
    print(piece, end="", flush=True)


def _note(line: str) -> None:
    """Print what is not the model's: dim in a terminal."""
    dim = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(f"\033[2m{line}\033[0m" if dim else line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
