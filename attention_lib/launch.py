"""Several processes on one machine, started from a notebook, and what they send.

The processes are copies of one program. Each knows its rank, 0 to N - 1, and all meet
in the default group of ``torch.distributed``.
"""

import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attention_lib._supervisor import run
from attention_lib.validation import require_above_zero, require_positive

# The start and the end of every program; the reader's functions go in between.
_START = """\
import json
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


"""
_END = """

if __name__ == "__main__":
    folder, limit = Path(sys.argv[1]), float(sys.argv[2])
    on_gpus = torch.cuda.device_count() >= {num_processes}
    backend = "nccl" if on_gpus else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=limit))
    rank = dist.get_rank()
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    results = {{}}
    try:
        for function in [{names}]:
            dist.barrier()
            results[function.__name__] = function(device)
        plain = json.dumps(results, default=lambda tensor: tensor.tolist())
        found = [None] * {num_processes}
        dist.all_gather_object(found, plain)
        if rank == 0:
            (folder / "results.json").write_text("[" + ",".join(found) + "]")
    except BaseException:
        (folder / f"error-{{rank}}.txt").write_text(traceback.format_exc())
        raise
    dist.destroy_process_group()
"""


def program_of(
    functions: Sequence[Callable[..., Any]],
    *,
    num_processes: int = 2,
    using: Sequence[Callable[..., Any]] = (),
) -> str:
    """Write the program that ``run_processes`` starts, from the functions' source.

    As a file, ``torchrun --nproc-per-node N FILE FOLDER SECONDS`` runs it.

    Args:
        functions: run one after the other in every process, each with the process's
            device: its own GPU with NCCL where there are enough, otherwise the CPU with
            gloo. Each imports what it uses, except ``torch`` and ``dist``, which is
            ``torch.distributed``, and returns what JSON can hold, or tensors.
        num_processes: how many copies will run.
        using: other functions that these call.

    Raises:
        TypeError: something that is not a function with source code.
        ValueError: no function; fewer than one process.
    """
    require_positive(num_processes=num_processes)
    for name, given in (("functions", functions), ("using", using)):
        if not isinstance(given, Sequence):
            raise TypeError(f"{name} must be a list; got {type(given).__name__}")
    if not functions:
        raise ValueError("functions must hold at least one function; got none")
    texts = [_text_of("using", each) for each in using]
    texts += [_text_of("functions", each) for each in functions]
    names = ", ".join(function.__name__ for function in functions)
    end = _END.format(num_processes=num_processes, names=names)
    return _START + "\n\n".join(texts) + end


def run_processes(
    functions: Sequence[Callable[..., Any]],
    *,
    num_processes: int = 2,
    using: Sequence[Callable[..., Any]] = (),
    timeout: float = 120.0,
) -> dict[str, list[Any]]:
    """Run functions in several processes by ``torchrun``; return what each returned.

    Nothing waits for ever: a process that waits for another longer than half of the
    time fails, and when one fails torchrun ends the others. When all have ended, when
    the time is over, or when this process ends, everything that the functions started
    is killed, so nothing is left.

    Args:
        functions: as in ``program_of``.
        num_processes: how many.
        using: as in ``program_of``.
        timeout: seconds, for everything together.

    Returns:
        For each function, by its name, a list: what it returned in process 0, 1, ….

    Raises:
        TypeError: see ``program_of``.
        ValueError: see ``program_of``; a time that is not above 0.
        RuntimeError: a process failed; the message holds its error.
        TimeoutError: the time is over.
    """
    require_above_zero(timeout=timeout)
    text = program_of(functions, num_processes=num_processes, using=using)
    library = str(Path(__file__).resolve().parents[1])
    paths = [library, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    env.setdefault("OMP_NUM_THREADS", "1")
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        env["TMPDIR"] = name  # torchrun leaves its own files there
        program = folder / "program.py"
        program.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--local-addr", "127.0.0.1", "--nproc-per-node", f"{num_processes}"]
        command += [str(program), str(folder), f"{timeout / 2}"]
        try:
            done = run(command, limit=timeout, env=env, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as error:
            words = f"the processes must end within {timeout:g} seconds; they did not"
            raise TimeoutError(words) from error
        results = folder / "results.json"
        if not results.exists():
            words = _first_error(folder) or done.stdout[-2000:]
            raise RuntimeError(f"a process failed:\n{words}")
        ranks = json.loads(results.read_text(encoding="utf-8"))
    return {name: [found[name] for found in ranks] for name in ranks[0]}


def _text_of(argument: str, function: Any) -> str:
    """Return the source of a function, as in its cell or file."""
    if not inspect.isfunction(function) or not function.__name__.isidentifier():
        raise TypeError(f"{argument} must be functions written by def; got {function}")
    try:
        return textwrap.dedent(inspect.getsource(function))
    except OSError as error:
        name = function.__name__
        raise TypeError(f"{argument}: the text of {name} is not known") from error


def _first_error(folder: Path) -> str:
    """Return the end of the first error, which may have caused the others."""
    files = sorted(folder.glob("error-*.txt"), key=lambda path: path.stat().st_mtime)
    return files[0].read_text(encoding="utf-8")[-2000:] if files else ""


# The internal names of calls of torch.distributed: the kind, whether the whole tensor
# comes first or last, and whether it is one of N pieces.
_CALLS = {
    "allreduce_": ("all-reduce", 0, False),
    "all_reduce": ("all-reduce", 0, False),
    "all_reduce_": ("all-reduce", 0, False),
    "_allgather_base_": ("all-gather", 0, False),
    "all_gather_into_tensor": ("all-gather", 0, True),
    "_reduce_scatter_base_": ("reduce-scatter", -1, False),
    "reduce_scatter_tensor": ("reduce-scatter", 0, False),
    "broadcast_": ("broadcast", 0, False),
    "send": ("send", 0, False),
}


class CommunicationCounter:
    """Count what a process hands to ``torch.distributed``, inside a ``with``.

    A tensor of S bytes that all N processes hold leaves each process in
    2 · (N - 1) / N · S bytes by an all-reduce, and in (N - 1) / N · S by an all-gather,
    a reduce-scatter or a broadcast, if the processes pass on pieces in a ring; a send
    is S. Groups of fewer than all processes are counted as if they held all.

    Attributes:
        calls: how many, by kind.
        sizes: the bytes S, by kind, summed over the calls.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()
        self._watch: Any = _Watch(self)

    def __enter__(self) -> "CommunicationCounter":
        """Start counting."""
        self._watch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop counting."""
        self._watch.__exit__(*error)

    @property
    def sent(self) -> int:
        """The bytes that leave this process."""
        others, size = dist.get_world_size() - 1, dist.get_world_size()
        times = {"all-reduce": 2 * others, "send": size}
        parts = (n * times.get(kind, others) for kind, n in self.sizes.items())
        return sum(parts) // size


class _Watch(TorchDispatchMode):
    """Record every call of an operation of PyTorch, and run it unchanged."""

    def __init__(self, count: CommunicationCounter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = count

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Count a call if it is one of ``_CALLS``."""
        if "c10d" in func.namespace and (call := _CALLS.get(func._opname)):
            kind, index, is_piece = call
            tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
            times = dist.get_world_size() if is_piece else 1
            self.count.calls[kind] += 1
            self.count.sizes[kind] += tensors[index].nbytes * times
        return func(*args, **(kwargs or {}))
