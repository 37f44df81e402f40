"""The files that describe a published model's tokenizer.

A folder describes it in ``tokenizer.json``, which the library ``tokenizers`` reads. A
``.gguf`` file holds tokens and merges, from which it is built here.
"""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from attention_lib.pretrained.gguf import GGUFFile
from attention_lib.pretrained.load import _read_json
from attention_lib.pretrained.tokenizer import Tokenizer
from attention_lib.validation import require_ids, require_path

# How a text is split before its pieces are encoded, by tokenizer.ggml.pre. Converters
# often ignore it: without DIGITS, two spaces before a digit become other tokens.
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
DIGITS = pre_tokenizers.Digits(individual_digits=True)
SPLITS: dict[str, list[Any]] = {"gpt-2": [BYTES], "smollm": [DIGITS, BYTES]}
NORMAL, SPECIAL, WHOLE = 1, 3, 4  # types of tokens: the last two are never split
# The names of special tokens in Hugging Face's files, and in GGUF.
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Load the tokenizer of a published model; nothing is downloaded.

    Args:
        path: a ``.gguf`` file, or a folder with ``tokenizer.json``. The folder's
            ``tokenizer_config.json`` names the special tokens and has the template of
            chats, unless ``chat_template.jinja`` has it.

    Raises:
        TypeError: not a path.
        ValueError: a file that is missing or broken; in a ``.gguf`` file, a tokenizer
            other than byte-pair encoding, or an unknown way to split texts.
    """
    path = require_path(path)
    try:
        return _from_gguf(path) if path.suffix == ".gguf" else _from_folder(path)
    except ValueError:
        raise
    except Exception as error:  # tokenizers raises nothing more specific
        words = str(error).splitlines()[0]
        raise ValueError(f"{path.name} has a broken tokenizer: {words}") from None


def _from_folder(folder: Path) -> Tokenizer:
    if folder.is_file():
        raise ValueError(f"{folder} is a file: pass its folder")
    if "model" not in _read_json(folder / "tokenizer.json"):
        raise ValueError(
            'tokenizer.json has no "model": is it a vocabulary or a config?'
        )
    inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    inner.no_truncation()
    inner.no_padding()
    config, generation = (
        _read_json(folder / name) if (folder / name).exists() else {}
        for name in ("tokenizer_config.json", "generation_config.json")
    )
    names = {}
    for name in (f"{role}_token" for role in ROLES):
        token = config.get(name)
        if token is not None:
            names[name] = token["content"] if isinstance(token, dict) else token
    ends = generation.get("eos_token_id") or []
    ends = [ends] if isinstance(ends, int) else ends
    template, beside = config.get("chat_template"), folder / "chat_template.jinja"
    if isinstance(template, list):  # several, by name
        template = {it["name"]: it["template"] for it in template}.get("default")
    return Tokenizer(
        inner,
        names,
        prefix=inner.encode("").ids,
        ends=[end for end in ends if end != -1],  # -1 stands for none
        template=beside.read_text("utf-8") if beside.exists() else template,
    )


def _from_gguf(path: Path) -> Tokenizer:
    fields = GGUFFile(path).fields
    own = {name.removeprefix("tokenizer.ggml."): it for name, it in fields.items()}
    for name, known in {"model": ["gpt2"], "pre": list(SPLITS)}.items():
        if own.get(name) not in known:
            raise ValueError(
                f"{path.name} has {own.get(name)!r} as tokenizer.ggml.{name}; wanted "
                f"{' or '.join(known)}"
            )
    for name in ("tokens", "merges"):
        if not isinstance(own.get(name), list):
            raise ValueError(f"{path.name} has no list tokenizer.ggml.{name}")
    tokens, merges = own["tokens"], [tuple(it.split(" ")) for it in own["merges"]]
    types = own.get("token_type", [NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise ValueError(
            f"{path.name} has {len(tokens)} tokens, but {len(types)} in token_type"
        )
    ids = {token: i for i, token in enumerate(tokens)}
    inner = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.Sequence(SPLITS[own["pre"]])
    inner.decoder = decoders.ByteLevel()
    inner.add_tokens(
        [
            AddedToken(token, special=kind == SPECIAL, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind in (SPECIAL, WHOLE)
        ]
    )
    names = {}
    for ours, theirs in ROLES.items():
        if (name := f"{theirs}_token_id") in own:
            (number,) = require_ids([own[name]], len(tokens), name)
            names[f"{ours}_token"] = tokens[number]
    return Tokenizer(
        inner,
        names,
        prefix=[own["bos_token_id"]] if own.get("add_bos_token") else [],
        ends=[own["eot_token_id"]] if "eot_token_id" in own else [],
        template=fields.get("tokenizer.chat_template"),
    )
