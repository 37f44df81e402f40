"""ONNX files: written by PyTorch, run by onnxruntime.

Needs the packages ``onnx``, ``onnxscript`` and ``onnxruntime``, when it is called.

Shapes: B batch, T tokens.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

import attention_lib.rope as rope  # whose functions are exchanged, so as a whole
from attention_lib.validation import (
    require_instance,
    require_names,
    require_new_file,
    require_path,
    require_place,
    require_positive,
    require_token_ids,
    require_token_values,
)

PACKAGES = "onnx", "onnxscript", "onnxruntime"
LARGE = 1_500_000_000  # bytes; a single file holds less than 2³¹


def require_packages(packages: Sequence[str]) -> None:
    """Raise an error that lists what to install, if a package is missing."""
    require_names(packages=packages)
    if missing := [name for name in packages if find_spec(name) is None]:
        raise ModuleNotFoundError(
            f"{missing[0]} is not installed: pip install {' '.join(PACKAGES)}"
        )


def generate_in_onnx(
    path: str | Path, token_ids: Int[Tensor, "B T"], *, max_new_tokens: int
) -> Int[Tensor, "B T+{max_new_tokens}"]:
    """Add the most likely tokens to each text, with a file of ``export_model``.

    onnxruntime computes, without the model and without PyTorch's operations.

    Args:
        path: the file.
        token_ids: the prompts.
        max_new_tokens: how many to add.

    Raises:
        ModuleNotFoundError: onnxruntime is not installed.
        TypeError: not a path; ids that are not whole numbers.
        ValueError: a number below 1; ids outside the vocabulary; more tokens than the
            cache has room for; a file that cannot be opened or is not one of
            ``export_model``.
    """
    path = require_path(path)
    require_positive(max_new_tokens=max_new_tokens)
    require_token_ids(token_ids)
    require_packages(PACKAGES[2:])
    session = open_onnx(path)
    inputs = session.get_inputs()
    names = [given.name for given in inputs]
    static = names[1:2] == ["cache_position"]
    first = 2 if static else 1
    if names[0] != "token_ids" or names[first : first + 1] != ["key_0"]:
        raise ValueError(
            f"path must lead to a file of export_model; {path.name} has the inputs "
            f"{', '.join(names)}"
        )
    vocab_size = session.get_outputs()[0].shape[-1]
    require_token_values(token_ids, vocab_size)
    token_ids = token_ids.long()
    shapes = [[*given.shape] for given in inputs[first:]]
    if static:
        require_place(token_ids.shape[1] + max_new_tokens - 1, shapes[0][2])
    # A free axis has a name: it is that of the tokens so far, and there are none yet.
    fixed = [[n if isinstance(n, int) else 0 for n in shape[1:]] for shape in shapes]
    kept = [torch.zeros(len(token_ids), *shape).numpy() for shape in fixed]
    text, unread, position = token_ids, token_ids, 0
    for _ in range(max_new_tokens):
        positions = [torch.tensor([position]).numpy()] if static else []
        given = [unread.numpy(), *positions, *kept]
        scores, *kept = _run(session, dict(zip(names, given, strict=True)))
        position += unread.shape[1]
        unread = torch.from_numpy(scores[:, -1].argmax(axis=-1)[:, None])
        text = torch.cat((text, unread), dim=1)
    return text


def _run(session: Any, given: Mapping[str, Any]) -> list[Any]:
    try:
        outputs: list[Any] = session.run(None, given)
    except Exception as error:
        words = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"the file does not run with these token_ids: {words}. Does its model have "
            "room for so many tokens?"
        ) from None
    return outputs


@contextmanager
def frozen_rope_frequencies() -> Iterator[Callable[[], Any]]:
    """Record the frequencies of rotations, so that a file holds them as constants.

    Otherwise the exporter computes them once more, and rounds some of them differently:
    at position 600, an angle would be 600 roundings off.

    Yields:
        A context in which the recorded frequencies are used.
    """
    recorded: dict[tuple[Any, ...], Tensor] = {}
    module: Any = rope
    compute = module.rope_frequencies

    def record(positions: Tensor, head_dim: int, base: float, scaling: Any) -> Tensor:
        frequencies = compute(positions, head_dim, base, scaling)
        if scaling.get("rope_type") != "dynamic":  # they depend on the length
            key = positions.dtype, head_dim, base, repr(sorted(scaling.items()))
            recorded[key] = frequencies
        return frequencies

    def replay(positions: Tensor, head_dim: int, base: float, scaling: Any) -> Tensor:
        key = positions.dtype, head_dim, base, repr(sorted(scaling.items()))
        known = recorded.get(key)
        return compute(positions, head_dim, base, scaling) if known is None else known

    @contextmanager
    def replaying() -> Iterator[None]:
        module.rope_frequencies = replay
        yield

    module.rope_frequencies = record
    try:
        yield replaying
    finally:
        module.rope_frequencies = compute


def write_onnx(
    model: nn.Module, args: tuple[Any, ...], path: Path, **options: Any
) -> None:
    """Export without a check; messages of the exporter become part of an error.

    The exporter notes at each operation which lines of your program asked for it, with
    the paths of your machine. The file does not keep these notes.

    Args:
        model: on the CPU.
        args: the arguments of its call.
        path: the file. Weights of more than 1.5 GB go into a second file next to it.
        options: of ``torch.onnx.export``.

    Raises:
        TypeError: not a model; not a path.
        ValueError: a model that the exporter cannot follow; a path that is a folder.
    """
    require_instance("model", model, nn.Module)
    path = require_new_file(path)
    if isinstance(options.get("dynamic_shapes"), list):
        options["dynamic_shapes"] = tuple(options["dynamic_shapes"])
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    large = sum(weight.nbytes for weight in model.parameters()) > LARGE
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program: Any = torch.onnx.export(
                model, args, dynamo=True, verbose=False, **options
            )
            for node in program.model.graph.all_nodes():
                node.metadata_props.clear()  # your program's lines, with their paths
            program.save(path, external_data=large)
        written = program.model.opset_imports[""]
    except Exception as error:
        raise ValueError(
            f"torch.onnx cannot export this model: {_gist(error)}"
        ) from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    if options.get("opset_version", written) != written:
        raise ValueError(
            f"opset must be a version that torch.onnx writes; got "
            f"{options['opset_version']}, for which it wrote {written}"
        )


def _gist(error: Exception) -> str:
    """Return the line of an exporter's long error that states the cause."""
    *_, summary = str(error).partition("## Exception summary")
    lines = (summary or str(error)).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def open_onnx(path: str | Path) -> Any:
    """Open a file for running, on the CPU.

    Raises:
        TypeError: not a path.
        ValueError: a file that does not exist, or does not hold a graph.
    """
    import onnxruntime

    path = require_path(path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong comes as an exception
    try:
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception as error:
        words = str(error).strip().splitlines()[0]
        raise ValueError(f"the file {path.name} cannot be opened: {words}") from None
