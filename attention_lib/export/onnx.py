"""A model as an ONNX file, which is written only if it computes what the model does.

``python -m attention_lib.export FOLDER OUT`` exports a published model with its cache.
Its exit status is 0 if the file was written, 1 if it was not, and 2 if the command line
is not understood; the reason is on stderr.

Needs the packages ``onnx``, ``onnxscript`` and ``onnxruntime``.
"""

import argparse
import copy
import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from tqdm import tqdm

from attention_lib.export.run import (
    PACKAGES,
    frozen_rope_frequencies,
    generate_in_onnx,
    open_onnx,
    require_packages,
    write_onnx,
)
from attention_lib.export.steps import DynamicCacheStep, StaticCacheStep
from attention_lib.generation import generate
from attention_lib.modules import uncompiled
from attention_lib.pretrained import load_pretrained
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import (
    require_above_zero,
    require_axes,
    require_function,
    require_input_names,
    require_instance,
    require_names,
    require_new_file,
    require_positive,
    require_sizes,
)

SIZES = 1, 2, 3, 17, 64, 250  # tried where no others are named
TOLERANCE = 2e-6  # of one layer, about 16 roundings of a float32
ROUNDING = 1e-3  # a wrong file is mostly further off

Model = TypeVar("Model", bound=nn.Module)
Axes = Mapping[str, Any] | Sequence[Any]  # of names, as torch.onnx.export takes them


@dataclass(frozen=True)
class Exported:
    """A file that was checked.

    Attributes:
        path: where it is.
        inputs: the shape of each input, by its name; free axes have a name.
        outputs: the same of the outputs.
        errors: the sizes that were tried, and by how much the file differed there,
            divided by the largest number of the output where that is above 1.
        weights: the file beside it with the weights, if they take more than 1.5 GB.
    """

    path: Path
    inputs: dict[str, tuple[int | str, ...]]
    outputs: dict[str, tuple[int | str, ...]]
    errors: dict[str, float]
    weights: Path | None = None

    @property
    def worst(self) -> float:
        """The largest error."""
        return max(self.errors.values())

    @property
    def nbytes(self) -> int:
        """The bytes of the file, and of the weights beside it."""
        files = [self.path] if self.weights is None else [self.path, self.weights]
        return sum(file.stat().st_size for file in files)

    def __str__(self) -> str:
        """The inputs and outputs of the file, line by line."""
        lines = [f"{self.path.name}: {self.nbytes:,} bytes"]
        width = max(map(len, [*self.inputs, *self.outputs]))
        for word, shapes in (("in", self.inputs), ("out", self.outputs)):
            for name, shape in shapes.items():
                # The exporter writes a sum in either order.
                sizes = (" + ".join(sorted(str(size).split(" + "))) for size in shape)
                lines.append(f"  {word:3} {name:{width}} ({', '.join(sizes)})")
        lines.append(
            f"  checked at {len(self.errors)} sizes: at most {self.worst:.0e} off"
        )
        return "\n".join(lines)


def export_checked(
    model: nn.Module,
    args: tuple[Any, ...],
    path: str | Path,
    *,
    dynamic_shapes: Axes | None = None,
    sizes: Mapping[str, Iterable[int]] | None = None,
    make_args: Callable[..., tuple[Any, ...]] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    tolerance: float = TOLERANCE,
    opset: int = 23,
) -> Exported:
    """Write a model as an ONNX file, if the file agrees with it at other sizes too.

    The file is run in onnxruntime at the sizes of ``args``, then with each free axis at
    each other size, then with all of them at other sizes at once. It appears at
    ``path`` only after that. A copy of the model is exported: on the CPU, in evaluation
    mode.

    Args:
        model: returns a tensor, or several.
        args: the arguments of its call: tensors, or lists of them.
        path: the file; an older one is replaced, a folder is refused.
        dynamic_shapes: names the axes that are free, such as
            ``{"x": {0: "batch", 1: "time"}}``; none when left out.
        sizes: what to try for an axis, by its name; ``SIZES`` for the others.
        make_args: returns arguments for sizes, as in ``make_args(batch=2, time=5)``. If
            left out, they are drawn: floats normally, others from those of ``args``.
        input_names: one per tensor of ``args``.
        output_names: one per output.
        tolerance: how far a number may be off, relative to the largest number of its
            output if that is above 1. Rounding adds up from layer to layer, so a deep
            model needs more.
        opset: the version of ONNX's operations. From 23 on a row that may see nothing
            is zeros, as in PyTorch.

    Raises:
        ModuleNotFoundError: a package is not installed.
        TypeError: not a model; axes that are not names; sizes that are not ints.
        ValueError: a file that differs, or does not run, at some sizes; sizes of an
            axis that is not free; sizes that the model itself refuses.
    """
    require_instance("model", model, nn.Module)
    require_instance("args", args, tuple)
    require_above_zero(tolerance=tolerance)
    require_positive(opset=opset)
    if sizes is not None:
        require_instance("sizes", sizes, Mapping)
    if make_args is not None:
        require_function("make_args", make_args)
    require_names(input_names=input_names, output_names=output_names)
    path = require_new_file(path)
    free = require_axes(args, _in_order(model, dynamic_shapes))
    require_input_names(input_names, args, free)
    example, tried = require_sizes(args, free, sizes or {}, SIZES)
    require_packages(PACKAGES)
    plain, args = _copied(model).eval(), _on_cpu(args)
    make = make_args or (lambda **wanted: _resized(args, free, wanted))
    # The arguments of each run, and the model's results: the model runs first, so that
    # sizes that it refuses are known before the export.
    calls = {}
    with torch.no_grad(), frozen_rope_frequencies() as replaying:
        for wanted in _plan(example, tried):
            call = args if wanted == example else _on_cpu(make(**wanted))
            calls[_words(wanted)] = call, _wanted(plain, call, wanted)
        with tempfile.TemporaryDirectory() as folder, replaying():
            draft = Path(folder, path.name)
            write_onnx(
                plain,
                args,
                draft,
                dynamic_shapes=dynamic_shapes,
                input_names=input_names,
                output_names=output_names,
                opset_version=opset,
            )
            found = _compared(draft, calls, tolerance)
            path.parent.mkdir(parents=True, exist_ok=True)
            written = sorted(Path(folder).iterdir())  # the file, and perhaps weights
            for file in written:
                shutil.copyfile(file, path.parent / file.name)
    beside = [path.parent / file.name for file in written if file.name != path.name]
    return Exported(path, *found, *beside)


def export_model(
    model: LanguageModel,
    path: str | Path,
    *,
    max_len: int | None = None,
    sizes: Mapping[str, Iterable[int]] | None = None,
    tolerance: float | None = None,
    **options: Any,
) -> Exported:
    """Export a language model with its cache, by ``export_checked``.

    Args:
        model: a ``TinyLM``, or what ``load_pretrained`` returns, in float32.
        path: the file.
        max_len: the length of a cache that keeps its size (``StaticCacheStep``). If
            left out, the cache grows (``DynamicCacheStep``).
        sizes: what to try for ``batch``, for ``time`` (the new tokens) and, if the
            cache grows, for ``past``. Up to 600, as the context allows, when left out.
        tolerance: how far a number may be off, relative to the largest number of its
            output if that is above 1; 2e-6 for each layer when left out.
        options: the other options of ``export_checked``.

    Raises:
        TypeError: a different kind of model.
        ValueError: a model that is not in float32, or has a context of fewer than 6
            tokens; see ``export_checked``.
    """
    require_instance("model", model, LanguageModel)
    path = require_new_file(path)
    if max_len is not None:
        require_positive(max_len=max_len)
    if sizes is not None:
        require_instance("sizes", sizes, Mapping)
    kinds = {weight.dtype for weight in model.parameters()}
    if kinds != {torch.float32}:
        raise ValueError(
            f"model must be in float32; got {', '.join(map(str, kinds))}: call .float()"
        )
    plain = _copied(model)
    room = model.config.context_len if max_len is None else max_len
    if max_len is None and room < 6:
        raise ValueError(f"model must have a context of at least 6 tokens; got {room}")
    if tolerance is None:
        tolerance = TOLERANCE * len(plain.blocks)
    time = [size for size in (1, 2, 17, 64, 600) if size <= room - 5]
    tried: dict[str, Iterable[int]] = {"batch": (1, 3), "time": time}
    step: Any
    if max_len is None:
        step = DynamicCacheStep(plain)
        tried["past"] = 0, *(size for size in time if size <= room - 3)
    else:
        step = StaticCacheStep(plain, max_len)
        tried["time"] = *time, max_len
    return export_checked(
        step,
        # A layer with a window drops older keys, by an `if` on the length. Few old
        # tokens take the branch that keeps all, which is right at any length.
        step.example(2, 3, 2) if max_len is None else step.example(2, 3),
        path,
        dynamic_shapes=step.axes,
        sizes=tried | dict(sizes or {}),
        make_args=step.example,
        input_names=step.inputs,
        output_names=step.outputs,
        tolerance=tolerance,
        **options,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Export the model of a folder, and return the command's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m attention_lib.export",
        description="Export a published model with its cache, and check the file.",
        epilog="Exit status: 0 if the file was written, 1 if it was not, 2 if the "
        "command line is not understood.",
    )
    parser.add_argument(
        "folder", help="with config.json and *.safetensors; or a GGUF file"
    )
    parser.add_argument("out", help="the file to write, such as model.onnx")
    parser.add_argument(
        "--room", type=int, help="tokens that the cache has room for; else it grows"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        help="how far a number may be off, relative to the largest number of its "
        f"output if that is above 1; {TOLERANCE:.0e} for each layer if left out",
    )
    chosen = parser.parse_args(arguments)
    out = Path(chosen.out)
    try:
        model = load_pretrained(chosen.folder, dtype=torch.float32)
        exported = export_model(
            model,
            out if out.suffix else out / "model.onnx",
            max_len=chosen.room,
            tolerance=chosen.tolerance,
        )
        _check_tokens(exported.path, model, chosen.room)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        print(f"not exported: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    print(exported)
    print("  greedy text: the same tokens as in PyTorch")
    return 0


def _copied(model: Model) -> Model:
    """Return a copy on the CPU; its parameters there are shared."""
    model = uncompiled(model)
    shared = {id(it): it for it in model.parameters() if it.device.type == "cpu"}
    return copy.deepcopy(model, shared).cpu()


def _in_order(model: nn.Module, axes: Axes | None) -> list[Any]:
    """Return the axes of each argument, in the order of the model's call."""
    if axes is None:
        return []
    if isinstance(axes, list | tuple):
        return list(axes)
    if not isinstance(axes, Mapping):
        raise TypeError(f"dynamic_shapes must be a dict or a list; got {axes!r}")
    known = list(inspect.signature(uncompiled(model).forward).parameters)
    if extra := sorted(set(axes) - set(known)):
        raise ValueError(
            f"dynamic_shapes names {extra[0]!r}; the model takes {', '.join(known)}"
        )
    return [axes.get(name) for name in known]


def _resized(args: Any, free: Any, wanted: Mapping[str, int]) -> Any:
    """Draw arguments of other sizes; what has no free axis stays as it is."""
    if not isinstance(args, Tensor):
        return type(args)(
            _resized(arg, own, wanted) for arg, own in zip(args, free, strict=True)
        )
    if not free:
        return args
    shape = list(args.shape)
    for axis, name in free.items():
        shape[axis] = wanted[name]
    generator = torch.Generator().manual_seed(sum(wanted.values()))
    if args.is_floating_point():
        return torch.randn(shape, generator=generator, dtype=args.dtype)
    some = torch.randint(args.numel(), shape, generator=generator)
    return args.flatten()[some]


def _plan(
    example: Mapping[str, int], tried: Mapping[str, Sequence[int]]
) -> Iterator[dict[str, int]]:
    """Return all sizes to run at: the example's, one axis moved, then all of them."""
    yield dict(example)
    for name, sizes in tried.items():
        for size in sizes:
            yield {**example, name: size}
    smallest = {name: min(sizes) for name, sizes in tried.items()}
    yield {**example, **smallest}


def _words(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "as given"


def _tensors(tree: Any) -> list[Tensor]:
    """Return the tensors of arguments or of an output, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, Mapping) else tree
    return [tensor for part in parts for tensor in _tensors(part)]


def _on_cpu(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.detach().cpu()
    return type(tree)(_on_cpu(part) for part in tree)


def _wanted(model: nn.Module, call: Any, sizes: Mapping[str, int]) -> list[Tensor]:
    try:
        return _tensors(model(*call))
    except Exception as error:
        raise ValueError(
            f"the model itself refuses {_words(sizes)} ({error}): say in sizes= what "
            "it takes"
        ) from error


def _compared(
    path: Path, calls: Mapping[str, tuple[Any, list[Tensor]]], tolerance: float
) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
    """Return shapes of the file's inputs and outputs, and its errors at all sizes."""
    session = open_onnx(path)
    ends = session.get_inputs(), session.get_outputs()
    inputs, outputs = ({end.name: tuple(end.shape) for end in side} for side in ends)
    errors: dict[str, float] = {}
    broken: list[str] = []
    for words, (call, wanted) in tqdm(calls.items(), desc="checks", leave=False):
        given = [tensor.numpy() for tensor in _tensors(call)]
        try:
            found = session.run(None, dict(zip(inputs, given, strict=True)))
        except Exception:
            broken.append(words)
            continue
        errors[words] = _error(found, wanted)
    wrong = {words: off for words, off in errors.items() if not off <= tolerance}
    if broken or wrong:
        raise ValueError(_disagreement([*calls], broken, wrong, tolerance))
    return inputs, outputs, errors


def _disagreement(
    tried: Sequence[str],
    broken: Sequence[str],
    wrong: Mapping[str, float],
    tolerance: float,
) -> str:
    """Return what is wrong with a file, and the likely reason where there is one."""
    listed = {words: "it does not run" for words in broken}
    listed |= {words: f"{off:.1e} off" for words, off in wrong.items()}
    right = [words for words in tried if words not in listed]
    said = (
        "the file does not agree with the model at "
        + "; ".join(f"{words}: {listed[words]}" for words in tried if words in listed)
        + f". It agrees at {'; '.join(right) or 'no size'}. "
    )
    if not broken and max(wrong.values()) < ROUNDING:
        return said + (
            f"Allowed is {tolerance:.1e}. Differences this small are mostly rounding, "
            "which adds up in a deep model: set a larger tolerance (--tolerance)"
        )
    if tried[0] in listed:  # the sizes of the export itself: no size explains that
        return said + "It is wrong at the sizes of the example, too"
    return said + (
        "What Python decides by a size (`if`, `range`, `int`) is decided once, while "
        "exporting"
    )


def _error(found: Sequence[Any], wanted: Sequence[Tensor]) -> float:
    """Return the largest difference, divided by an output's largest number above 1."""
    worst = 0.0
    for array, right in zip(found, wanted, strict=True):
        came = torch.from_numpy(array)
        if came.shape != right.shape or not came.isfinite().equal(right.isfinite()):
            return float("inf")
        if right.numel() == 0:
            continue
        same = came == right  # infinities, too
        off = (came.double() - right.double()).abs().masked_fill(same, 0.0)
        scale = right.double().nan_to_num(0.0, 0.0, 0.0).abs().max().clamp(min=1.0)
        worst = max(worst, (off.nan_to_num(0.0) / scale).max().item())
    return worst


def _check_tokens(path: Path, model: LanguageModel, room: int | None) -> None:
    """Check that greedy texts of the file are those of the model."""
    longest = min(model.config.context_len, room or 32, 32)
    start = torch.arange(min(4, longest - 1))[None] % model.config.vocab_size
    options = {"max_new_tokens": longest - start.shape[1]}
    in_onnx = generate_in_onnx(path, start, **options)
    if not in_onnx.equal(generate(model, start, **options)):
        raise ValueError("the greedy text of the file differs from the model's")
