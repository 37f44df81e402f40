"""Files of the library, read by their path: the whole package would take seconds."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

LIBRARY = Path(__file__).parents[1] / "attention_lib"


def alone(name: str) -> ModuleType:
    """Return what a file such as `course/language.py` defines; it imports no other."""
    spec = spec_from_file_location(Path(name).stem, LIBRARY / name)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
