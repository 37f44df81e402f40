"""Published checkpoints: load a folder from Hugging Face into our own layers."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from tqdm import tqdm

from attention_lib.pretrained.configs import read_config
from attention_lib.pretrained.decoder import Decoder
from attention_lib.pretrained.gguf_checkpoint import GGUFCheckpoint
from attention_lib.pretrained.names import published_names
from attention_lib.validation import (
    require_device,
    require_dtype,
    require_flags,
    require_path,
    require_tensor,
)

# Stored in some old files, and computed by every model: masks and frequencies.
COMPUTED = ".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"
TYPES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


class Checkpoint:
    """A folder with ``config.json`` and ``*.safetensors``, opened but not loaded.

    Only the headers are read: names, types and shapes. A tensor is read on demand.

    Args:
        folder: where the files are.

    Attributes:
        fields: the content of ``config.json``.
        shapes: the shape of each tensor, by its name.
        nbytes: how many bytes all tensors take.

    Raises:
        TypeError: a folder that is not a path.
        ValueError: a folder without these files; a broken file; a file name outside
            the folder; weights stored as a pickle.
    """

    header = "config.json"  # where the fields come from

    def __init__(self, folder: str | Path) -> None:
        self.folder = require_path(folder)
        self.fields = _read_json(self.folder / "config.json")
        self._files: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.nbytes = 0
        wanted = self._index()
        for file in dict.fromkeys(wanted.values()) if wanted else ["model.safetensors"]:
            self._open(file)
        for name, file in wanted.items():
            if name not in self._files or self._files[name][0] != file:
                raise ValueError(f"{file} lacks {name}, which the index names")

    def read(self, name: str) -> Tensor:
        """Read one tensor."""
        require_tensor(name, self._files, self.folder)
        return self._files[name][1].get_tensor(name)

    def _index(self) -> Mapping[str, str]:
        """Return the file of each tensor, if they are spread over several files."""
        path = self.folder / "model.safetensors.index.json"
        if not path.exists():
            return {}
        files = _read_json(path).get("weight_map")
        if not isinstance(files, dict) or not files:
            raise ValueError(f"{path.name} has no weight_map")
        whole = "model.safetensors"
        if (self.folder / whole).exists() and whole not in files.values():
            raise ValueError(
                f"the folder has {whole}, and other files that {path.name} names: "
                "remove those that do not belong to this model"
            )
        for file in files.values():
            if not isinstance(file, str) or Path(file).name != file:
                raise ValueError(
                    f"{path.name} names the file {file!r}, which is not in the folder"
                )
        return files

    def _open(self, file: str) -> None:
        path = self.folder / file
        if not path.exists():
            pickles = [*self.folder.glob("*.bin"), *self.folder.glob("*.pt")]
            hint = ": a pickle can run any code, so it is not read" if pickles else ""
            raise ValueError(f"{self.folder.name} has no {file}{hint}")
        try:
            opened: Any = safe_open(path, "pt")
            for name in opened.keys():  # noqa: SIM118 (not a dict)
                part = opened.get_slice(name)
                shape, kind = tuple(part.get_shape()), part.get_dtype()
                if kind not in TYPES and not name.endswith(COMPUTED):
                    raise ValueError(
                        f"{file} stores {name} as {kind}; wanted {', '.join(TYPES)}"
                    )
                if name in self._files:
                    raise ValueError(f"{name} is in two files")
                self._files[name] = file, opened
                self.shapes[name] = shape
                self.nbytes += math.prod(shape) * TYPES.get(kind, 1)
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"{file} is not a whole safetensors file: {error}"
            ) from None


def load_pretrained(
    path: str | Path,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    copy: bool = False,
) -> Decoder:
    """Build a published model from our own layers, with its weights.

    The tests require logits and greedy output equal to those of ``transformers``.
    Nothing is downloaded and no code of the folder runs.

    As in ``transformers``, weights that need no conversion are not copied: they stay
    views of the file, which the system reads when they are used. Another program that
    writes into the file would change the model, and one that truncates it would crash
    the process. Replacing the file by a new one is safe. ``copy=True`` is always safe;
    it makes loading slower (measured: by 0.15 s for 90 MB) and takes memory for all
    weights at once. The weights of a GGUF file are always unpacked into memory.

    Args:
        path: of a folder with ``config.json`` and ``*.safetensors``, in Hugging Face's
            format; or of a Llama in a file whose name ends in ``.gguf``.
        dtype: the type of the weights; when left out, as stored, and float32 for GGUF.
        device: where the weights go; the CPU when left out.
        copy: whether to copy all weights out of the file.

    Returns:
        The model, in evaluation mode.

    Raises:
        TypeError: not a path; not a dtype, or not a device.
        ValueError: an unknown family; a field of ``config.json`` that is missing, of
            the wrong type, or not understood; a tensor that is missing, left over or of
            the wrong shape; a broken file; see ``Checkpoint`` and ``GGUFCheckpoint``. A
            dtype that is not float64, float32, float16 or bfloat16; a device that does
            not exist.
    """
    if dtype is not None:
        require_dtype(dtype)
    if device is not None:
        require_device(device)
    require_flags(copy=copy)
    path = require_path(path)
    if not path.exists():
        raise ValueError(
            f"path must be a folder or a GGUF file that exists; got {str(path)!r}"
        )
    is_gguf = path.suffix == ".gguf" and not path.is_dir()
    if not is_gguf and path.is_file():
        raise ValueError(
            f"path must be a folder or a file that ends in .gguf; got {path.name}: "
            "pass its folder"
        )
    checkpoint = GGUFCheckpoint(path) if is_gguf else Checkpoint(path)
    config = read_config(checkpoint.fields)
    family = checkpoint.fields["model_type"]
    with torch.device("meta"):
        model = Decoder(config)
    stored = {_full_name(family, name): name for name in checkpoint.shapes}
    table, _ = published_names(family, "token_embedding.weight")
    if config.tie_weights and table not in stored and "lm_head.weight" in stored:
        stored[table] = stored.pop("lm_head.weight")  # one table, stored as the head
    tied = config.tie_weights and "lm_head.weight" not in stored
    if config.tie_weights and not tied:  # a separate head, which transformers uses
        model.head = torch.nn.Linear(
            config.d_model, config.vocab_size, bias=False, device="meta"
        )
    sources = {
        name: published_names(family, name)
        for name in model.state_dict()
        if not (tied and name == "head.weight")
    }
    wanted = {source for source, _ in sources.values()}
    _check_names(wanted, stored, checkpoint.header)
    shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    options = {"device": device, "dtype": dtype, "copy": copy}
    weights = {
        name: _read_weight(
            checkpoint, stored[source], change, name, shapes[name], options
        )
        for name, (source, change) in tqdm(sources.items(), desc="weights", leave=False)
    }
    kinds = sorted({str(weight.dtype) for weight in weights.values()})
    if len(kinds) > 1:
        raise ValueError(
            f"the files hold weights of {' and '.join(kinds)}: pass dtype=, "
            "one type for all"
        )
    embedding, head = weights["token_embedding.weight"], weights.get("head.weight")
    # A head that equals the table is tied, as transformers does it.
    tied = tied or (config.tie_weights and head is not None and head.equal(embedding))
    if tied:
        weights["head.weight"] = embedding
    model.load_state_dict(weights, assign=True)
    if tied:
        model.head.weight = model.token_embedding.weight
    return model.eval()


def _read_weight(
    checkpoint: Checkpoint | GGUFCheckpoint,
    source: str,
    change: Callable[[Tensor], Tensor],
    name: str,
    shape: tuple[int, ...],
    options: Mapping[str, Any],
) -> Tensor:
    """Read a tensor, and convert it to the weight of this name and shape."""
    whole = checkpoint.read(source)
    weight = _changed(whole, change)
    if weight is None or tuple(weight.shape) != shape:
        raise ValueError(
            f"{source} has shape {tuple(whole.shape)}, which does not fit {name}, "
            f"{shape}: {checkpoint.header} belongs to a different model"
        )
    return weight.to(**options).contiguous()


def _changed(whole: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor | None:
    try:
        return change(whole)
    except (RuntimeError, IndexError):
        return None


def _full_name(family: str, name: str) -> str:
    """Add the prefix that files of a model without a head leave out."""
    prefix = "transformer." if family == "gpt2" else "model."
    return name if name.startswith((prefix, "lm_head.")) else prefix + name


def _check_names(wanted: set[str], stored: Mapping[str, str], header: str) -> None:
    """Refuse a file that lacks a tensor, or has one that the model does not need."""
    missing = sorted(wanted - set(stored))
    extra = sorted(name for name in set(stored) - wanted if not name.endswith(COMPUTED))
    if missing == ["lm_head.weight"]:
        raise ValueError(
            "the files hold no lm_head.weight, and config.json does not tie it to the "
            "embedding: a model without a head has no logits"
        )
    for names, what in ((missing, "lack"), (extra, "also hold")):
        if names:
            more = f" and {len(names) - 1} more" if names[1:] else ""
            raise ValueError(
                f"the files {what} {names[0]}{more}: {header} belongs to a "
                "different model"
            )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if path.parent.is_dir():
            words = f"the folder {path.parent} has no {path.name}"
        elif not path.parent.exists():
            words = f"there is no folder {path.parent}"
        else:
            words = f"{path.parent} is a file: pass its folder"
            if path.parent.suffix == ".gguf":
                words = f"{path.parent} is a file: GGUFCheckpoint opens it"
        raise ValueError(words) from None
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"{path.name} must hold an object; got {type(content).__name__}"
        )
    return content
