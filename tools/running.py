"""Commands that end within a limit, and leave no process behind.

The library has them, in a file that is read by its path: to import the package would
take seconds.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attention_lib._supervisor import run, supervised
else:
    _PATH = Path(__file__).parents[1] / "attention_lib/_supervisor.py"
    _spec = spec_from_file_location("supervisor", _PATH)
    _spec.loader.exec_module(_module := module_from_spec(_spec))
    run, supervised = _module.run, _module.supervised

__all__ = ["run", "supervised"]
