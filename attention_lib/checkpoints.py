"""Stop a training run, and resume it as if it had never stopped.

One file holds all that the next step depends on: the weights, the optimiser's memory,
the losses so far and the state of torch's generator on the CPU.
"""

import json
import os
import zlib
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from attention_lib.training import Training

FORMAT = "attention_lib training 1"


def save_checkpoint(training: Training, path: str | Path) -> None:
    """Writes a run to a file; what stood there stays until the new one is complete."""
    path = Path(path)
    metadata = {"format": FORMAT, "settings": json.dumps(_settings(training))}
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        save_file(_state(training), unfinished, metadata)
        os.replace(unfinished, path)  # at once, or not at all
    finally:
        unfinished.unlink(missing_ok=True)


def load_checkpoint(training: Training, path: str | Path) -> None:
    """Takes a run up where a file left it; on any error nothing is changed.

    Args:
        training: made like the one that was saved: same model, texts and settings.
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file that is half written, or from elsewhere; another model,
            other texts or settings.
    """
    metadata, state = _read(Path(path))
    saved, now = json.loads(metadata.get("settings", "{}")), _settings(training)
    other = [name for name in now if saved.get(name) != now[name]]
    if other:
        raise ValueError(
            f"the run was saved with {', '.join(f'{n}={saved.get(n)}' for n in other)};"
            f" this one has {', '.join(f'{n}={now[n]}' for n in other)}"
        )
    own = {f"model.{name}": p for name, p in training.model.named_parameters()}
    kept = {n: (t.shape, t.dtype) for n, t in state.items() if n.startswith("model.")}
    if kept != {name: (p.shape, p.dtype) for name, p in own.items()}:
        raise ValueError(
            "the run was saved with another model: build it from the same ModelConfig"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(state[name])
    memory: dict[int, dict[str, Tensor]] = {}
    for number, name in enumerate(own):
        prefix = f"optimizer.{name}:"
        found = {n: t for n, t in state.items() if n.startswith(prefix)}
        if found:
            memory[number] = {n.removeprefix(prefix): t for n, t in found.items()}
    groups = training.optimizer.state_dict()["param_groups"]
    training.optimizer.load_state_dict({"state": memory, "param_groups": groups})
    training.losses = state["losses"].tolist()
    torch.set_rng_state(state["random"])


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path.name}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path.name} is half written or damaged ({error}): take an earlier one"
        ) from error
    if metadata.get("format") != FORMAT or not {"losses", "random"} <= state.keys():
        raise ValueError(
            f"{path.name} is no checkpoint of this book: it does not say {FORMAT!r}"
        )
    return metadata, state


def _state(training: Training) -> dict[str, Tensor]:
    """Gives all that the next step depends on, by name."""
    state = {
        "losses": torch.tensor(training.losses, dtype=torch.float64),
        "random": torch.get_rng_state(),
    }
    for name, parameter in training.model.named_parameters():
        state[f"model.{name}"] = parameter.detach()
        for key, value in training.optimizer.state[parameter].items():
            state[f"optimizer.model.{name}:{key}"] = value
    return state


def _settings(training: Training) -> dict[str, int | float | str]:
    """Gives what must be the same when the run goes on."""
    ids = torch.cat(list(training.texts)).cpu().numpy()
    return asdict(training.config) | {
        "model": str(getattr(training.model, "config", "")),
        "texts": f"{len(training.texts)} (checksum {zlib.crc32(ids.tobytes())})",
    }
