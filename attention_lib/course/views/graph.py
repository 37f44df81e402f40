"""The contents of a recorded graph, and the lengths at which it fails: `view_graph`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import GRAPH
from attention_lib.course.views._tables import plain_table
from attention_lib.validation import require_choice

RECORDED_AT = 1, 3, 7, 20
LONGEST = 30
WINDOW, LONG = 4, 16


class _Recorder(TorchFunctionMode):
    """Record each operation that returns a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Tensor]] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.calls.append((function, args, kwargs or {}, result))
        return result


def _mix(scores: Tensor, x: Tensor) -> Tensor:
    return torch.matmul(torch.softmax(scores, dim=1), x)


def _plain(x: Tensor) -> Tensor:
    return _mix(torch.matmul(x, torch.transpose(x, 0, 1)), x)


def _causal(x: Tensor) -> Tensor:
    length = x.shape[0]
    scores = torch.matmul(x, torch.transpose(x, 0, 1))
    allowed = torch.gt(torch.tril(torch.ones(length, length)), 0)
    return _mix(torch.where(allowed, scores, -1e9), x)


def _window(x: Tensor) -> Tensor:
    scores = torch.matmul(x, torch.transpose(x, 0, 1))
    if x.shape[0] > LONG:
        ones = torch.ones_like(x[:, 0], dtype=torch.int64)
        positions = torch.cumsum(ones, 0)
        near = torch.lt(torch.abs(torch.sub(positions[:, None], positions)), WINDOW)
        scores = torch.where(near, scores, -1e9)
    return _mix(scores, x)


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": _plain,
    "causal": _causal,
    "window": _window,
}


def view_graph(program: str = "window", *, recorded_at: int = 7) -> Interactive:
    """Let the reader record three functions at some length, and run the graph at any.

    Args:
        program: the function chosen at first: ``plain``, ``causal`` (its mask
            is made from the length), or ``window`` (long texts get a window).
        recorded_at: the initial length of the example: 1, 3, 7 or 20.

    Returns:
        What a cell shows when it is the cell's last line.

    Raises:
        ValueError: an unknown program or length.
    """
    require_choice("program", program, PROGRAMS)
    require_choice("recorded_at", str(recorded_at), [str(at) for at in RECORDED_AT])
    programs: list[dict[str, Any]] = [
        {
            "name": name,
            "words": _called(name),
            "graphs": [_graph(function, at) for at in RECORDED_AT],
        }
        for name, function in PROGRAMS.items()
    ]
    lines = [
        (
            GRAPH["graph"].format(program=one["words"], at=at),
            [_in_words(graph["outcomes"])],
        )
        for one in programs
        for at, graph in zip(RECORDED_AT, one["graphs"], strict=True)
    ]
    static = plain_table(GRAPH["caption"].format(longest=LONGEST), GRAPH["head"], lines)
    data = {"program": program, "at": RECORDED_AT.index(recorded_at)}
    data |= {"lengths": RECORDED_AT, "longest": LONGEST, "programs": programs}
    return Interactive(
        "graph", data, static, GRAPH["line"].format(program=_called(program))
    )


def _called(program: str) -> str:
    return str(GRAPH["programs"][program]).format(long=LONG)


def _text(length: int) -> Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randn(length, 2, generator=generator, dtype=torch.float64)


def _graph(function: Callable[[Tensor], Tensor], recorded_at: int) -> dict[str, Any]:
    """Return the operations with their shapes, and the outcome at each length."""
    first = _text(recorded_at)
    with torch.device("cpu"), _Recorder() as recorder:
        function(first)
    steps = [
        {
            "name": called.__name__.strip("_"),
            "frozen": [*args] if called is torch.ones else [],  # read from a shape
            "shape": list(result.shape),
        }
        for called, args, _, result in recorder.calls
    ]
    outcomes = ""
    for length in range(1, LONGEST + 1):
        x = _text(length)
        try:
            result = _replayed(first, recorder.calls, x)
        except RuntimeError:
            outcomes += "!"
            continue
        right = function(x)
        same = result.shape == right.shape and torch.allclose(result, right)
        outcomes += "=" if same else "x"
    return {"steps": steps, "outcomes": outcomes}


def _replayed(first: Tensor, calls: list[Any], x: Tensor) -> Tensor:
    known = {id(first): x}
    new = x
    for function, args, kwargs, old in calls:
        args = [known.get(id(arg), arg) for arg in args]
        new = known[id(old)] = function(*args, **kwargs)
    return new


def _in_words(outcomes: str) -> str:
    """Describe how often each outcome occurs: ``the same at 16 lengths``."""
    counts = [
        GRAPH["counted"].format(outcome=outcome, count=outcomes.count(sign))
        for sign, outcome in GRAPH["outcomes"].items()
        if sign in outcomes
    ]
    return GRAPH["counts"].join(counts)
