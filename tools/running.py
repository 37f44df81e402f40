"""Commands that end within a limit, and leave no process behind: the library's own."""

from typing import TYPE_CHECKING

from tools.alone import alone

if TYPE_CHECKING:
    from attention_lib._supervisor import run, supervised
else:
    _supervisor = alone("_supervisor.py")
    run, supervised = _supervisor.run, _supervisor.supervised

__all__ = ["run", "supervised"]
