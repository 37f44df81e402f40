"""Stop a training run, and resume it as if it had never stopped.

One file holds all that the next step depends on: the weights and buffers, the
optimizer's memory, the losses so far and the state of torch's generator on the CPU.
"""

import dataclasses
import json
import os
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from attention_lib.training import Training
from attention_lib.validation import require_instance, require_path

FORMAT = "attention_lib training 2"


def save_checkpoint(training: Training, path: str | Path) -> None:
    """Write a run to a file; an earlier file stays until the new one is complete.

    A compiled model is saved under the names of the plain one, so either loads the
    other's file. This function writes to ``NAME.unfinished`` next to the file, and
    renames that when all is on the disk. A process that is killed in between leaves it
    there; the next save to the same path replaces it.

    Raises:
        TypeError: not a ``Training``; a path that is neither a str nor a Path; an
            optimizer whose state holds anything other than tensors.
        ValueError: the optimizer holds a weight that is not the model's.
        OSError: the file cannot be written; the earlier one stays.
    """
    require_instance("training", training, Training)
    path = require_path(path)
    state, settings = _state(training), json.dumps(_settings(training))
    metadata = {"format": FORMAT, "settings": settings}
    content = save(state, metadata | {"checksum": _checksum(state, settings)})
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else the new name could reach the disk first
        os.replace(unfinished, path)  # at once, or not at all
    finally:
        unfinished.unlink(missing_ok=True)


def load_checkpoint(training: Training, path: str | Path) -> None:
    """Continue a run from where a file left it; after any error nothing has changed.

    A setting that the file does not know, because it is newer, must have its default.

    Args:
        training: made like the one that was saved: same model, texts, settings and
            parameter groups.
        path: the file.

    Raises:
        TypeError: not a ``Training``; a path that is neither a str nor a Path.
        FileNotFoundError: the file does not exist.
        ValueError: a file that is half written, damaged or from elsewhere; a different
            model, or different texts, settings or parameter groups.
    """
    require_instance("training", training, Training)
    settings, state = _read(require_path(path))
    _check_settings(training, settings)
    tensors = _tensors(training.model)
    kept = {n: (t.shape, t.dtype) for n, t in state.items() if n.startswith("model.")}
    if kept != {name: (t.shape, t.dtype) for name, t in tensors.items()}:
        raise ValueError(
            "the run was saved with a different model: use the same ModelConfig"
        )
    memory: dict[int, dict[str, Tensor]] = {}
    for number, name in enumerate(_learning(training)):
        prefix = f"optimizer.{name}:"
        entries = {n: t for n, t in state.items() if n.startswith(prefix)}
        if entries:
            memory[number] = {n.removeprefix(prefix): t for n, t in entries.items()}
    groups = training.optimizer.state_dict()["param_groups"]
    torch.Generator().set_state(state["random"])  # raises if it is not a valid state
    # From here on nothing can fail.
    training.optimizer.load_state_dict({"state": memory, "param_groups": groups})
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(state[name])
    training.losses = state["losses"].tolist()
    torch.set_rng_state(state["random"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the settings and tensors of a file whose checksum is right."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path.name}")
    damaged = f"{path.name} is half written or damaged ({{}}): take an earlier one"
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(damaged.format(error)) from error
    if (found := metadata.get("format")) != FORMAT:
        raise ValueError(
            f"{path.name} is not a checkpoint that this version reads: its format is "
            f"{found!r}, not {FORMAT!r}"
        )
    settings = metadata.get("settings", "")
    if metadata.get("checksum") != _checksum(state, settings):
        raise ValueError(damaged.format("its checksum differs"))
    # A file of a compiled model may have been saved under the names that it had then.
    plain = json.loads(settings)
    plain["groups"] = {_plain(name): each for name, each in plain["groups"].items()}
    return plain, {_plain(name): tensor for name, tensor in state.items()}


def _checksum(state: dict[str, Tensor], settings: str) -> str:
    total = zlib.crc32(settings.encode())
    for name, tensor in sorted(state.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {[*tensor.shape]}".encode(), total)
        plain = tensor.cpu().contiguous().flatten().view(torch.uint8)
        total = zlib.crc32(plain.numpy().data, total)
    return str(total)


def _check_settings(training: Training, saved: dict[str, Any]) -> None:
    """Refuse a file that was saved with different settings, and say which."""
    now = _settings(training)
    groups = saved.pop("groups"), now.pop("groups")
    if unknown := sorted(saved.keys() - now.keys()):
        raise ValueError(
            f"the run was saved with {unknown[0]}={saved[unknown[0]]}, which this "
            "version does not know: load it with the version that saved it"
        )
    saved = _fields(training, defaults=True) | saved
    if different := [name for name in now if saved.get(name) != now[name]]:
        raise ValueError(
            f"the run was saved with {_listed(saved, different)}; this one has "
            f"{_listed(now, different)}"
        )
    _check_groups(*groups)


def _listed(settings: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{name}={settings.get(name)}" for name in names)


def _check_groups(saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a different choice of weights that learn, or different options for one."""
    for name in sorted(saved.keys() | now.keys()):
        was, has = saved.get(name, {"learns": False}), now.get(name, {"learns": False})
        # Ignore an option that only one of two versions of PyTorch has.
        for key in sorted(was.keys() & has.keys()):
            if was[key] != has[key]:
                raise ValueError(
                    f"the run was saved with {key}={was[key]} for {name}; this one has "
                    f"{has[key]}: make the same parameter groups"
                )


def _state(training: Training) -> dict[str, Tensor]:
    """Return all that the next step depends on, by name."""
    state = {
        "losses": torch.tensor(training.losses, dtype=torch.float64),
        "random": torch.get_rng_state(),
    }
    # Copies, since a file cannot hold two tensors that share memory.
    state |= {n: t.detach().clone() for n, t in _tensors(training.model).items()}
    for name, parameter in _learning(training).items():
        for key, value in training.optimizer.state.get(parameter, {}).items():
            if value is None:  # momentum that has not begun
                continue
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"the optimizer remembers {key}={value!r} for {name}: a checkpoint "
                    "holds tensors only"
                )
            state[f"optimizer.{name}:{key}"] = value.clone()
    return {name: tensor.contiguous() for name, tensor in state.items()}


def _tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """Return weights and buffers by name, each once; not those that are not saved."""
    kept = model.state_dict().keys()
    named = [*model.named_parameters(), *model.named_buffers()]
    return {f"model.{_plain(name)}": tensor for name, tensor in named if name in kept}


def _plain(name: str) -> str:
    """Return a weight's name without the prefix that ``torch.compile`` adds."""
    return name.replace("_orig_mod.", "")


def _learning(training: Training) -> dict[str, Tensor]:
    """Return the optimizer's weights by name, in the optimizer's order."""
    named = training.model.named_parameters()
    names = {parameter: f"model.{_plain(name)}" for name, parameter in named}
    groups = training.optimizer.param_groups
    learning = [p for group in groups for p in group["params"]]
    if not names.keys() >= {*learning}:
        raise ValueError("the optimizer holds a weight that is not the model's")
    return {names[parameter]: parameter for parameter in learning}


def _settings(training: Training) -> dict[str, Any]:
    """Return what must be the same when the run goes on, in JSON's types."""
    ids = torch.cat(training.texts).cpu().numpy()
    ends = str([len(text) for text in training.texts])
    checksum = zlib.crc32(ends.encode(), zlib.crc32(ids.tobytes()))
    names = {parameter: name for name, parameter in _learning(training).items()}
    groups: dict[str, dict[str, Any]] = {}
    for group in training.optimizer.param_groups:
        # Each step sets the learning rate again.
        options = {k: v for k, v in group.items() if k not in ("params", "lr")}
        groups |= {names[p]: {"learns": True} | options for p in group["params"]}
    settings = {
        **_fields(training),
        "texts": f"{len(training.texts)} (checksum {checksum})",
        "optimizer": type(training.optimizer).__name__,
        "groups": groups,
    }
    return json.loads(json.dumps(settings, default=str))


def _fields(training: Training, *, defaults: bool = False) -> dict[str, Any]:
    """Return the fields of the run's config and of the model's, or their defaults."""
    fields: dict[str, Any] = {}
    model = getattr(training.model, "config", "")
    for owner, config in [("", training.config), ("model.", model)]:
        if not dataclasses.is_dataclass(config):
            fields["model"] = str(config)
            continue
        for field in dataclasses.fields(config):
            if not defaults:
                fields[owner + field.name] = getattr(config, field.name)
            elif field.default is not dataclasses.MISSING:
                fields[owner + field.name] = field.default
    return fields
