"""Two dozen published attentions: what each caches and sees, and whether ours is equal.

``python -m benchmarks.published`` compares small layers of all of them with ours, keeps
what it found in ``book/published.json``, and fills the tables of ``book/published.md``.
Nothing there is typed by hand: sizes are those of the configs of ``transformers``, but
for those written here, with the page that states them.
"""

import importlib
import json
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from attention_lib.hf_layers import from_transformers
from attention_lib.masks import padding_mask
from attention_lib.reproducibility import seeded
from attention_lib.rope import rope_angles
from benchmarks.published_layers import (
    KINDS,
    SIZES,
    Given,
    Sizes,
    build,
    lightning,
    rotation,
    stated,
)
from tools.check.reproduces import fill
from tools.words import say

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "book/published.json", ROOT / "book/published.md"
SHORT, LONG = 1_000, 100_000  # tokens
CHAPTERS = {
    10: "10-rotary-positions",
    11: "11-grouped-query",
    12: "12-real-weights",
    13: "13-relatives",
    14: "14-latent-attention",
    15: "15-cross-attention",
    17: "17-windows-and-sinks",
    18: "18-linear-attention",
}
FACE = "https://huggingface.co"
# What is written as a state is computed in float32, there as here.
LOOSE = {"Qwen3NextGatedDeltaNet": 1e-5, "KimiLinearDeltaAttention": 1e-5}
BOUND = 1e-6


@dataclass(frozen=True)
class Model:
    """One line of the table.

    Attributes:
        name: as it was published.
        year: of its publication.
        what: how its attention differs from plain multi-head attention.
        chapter: which chapter explains it.
        layers: its classes in ``transformers``.
        sizes: what its config has and the default of ``transformers`` has not.
        source: the page that says these sizes.
        kind: ``decoder``, ``encoder``, or ``both`` of them.
    """

    name: str
    year: int
    what: str
    chapter: int
    layers: tuple[str, ...]
    sizes: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    kind: str = "decoder"

    def config(self) -> Any:
        """Make the config of the published model."""
        kind = KINDS[self.layers[0]]
        package = importlib.import_module(f"transformers.models.{kind.file}")
        return getattr(package, kind.config)(**self.sizes)


def types(one: str, other: str, every: int, count: int) -> list[str]:
    """Return the type of each layer: every n-th has the other type."""
    return [one if (i + 1) % every else other for i in range(count)]


LINEAR, FULL, SLIDING = "linear_attention", "full_attention", "sliding_attention"
MODELS = (
    Model("BERT base", 2018, "attends to both sides", 15, ("BertAttention",),
          kind="encoder"),
    Model("GPT-2", 2019, "attends to the past; learned positions", 12,
          ("GPT2Attention",)),
    Model("BART large", 2019, "an encoder, and a decoder that attends to it", 15,
          ("BartAttention",), kind="both"),
    Model("T5 small", 2019, "distances add to the scores, which are not scaled", 15,
          ("T5Attention",), kind="both"),
    Model("Longformer base", 2020, "a window to both sides, and global tokens", 17,
          ("LongformerSelfAttention",), kind="encoder"),
    Model("BLOOM", 2022, "ALiBi: scores fall with the distance", 10,
          ("BloomAttention",),
          {"n_layer": 70, "n_head": 112, "hidden_size": 14336, "seq_length": 2048},
          "https://github.com/bigscience-workshop/bigscience/blob/master/train/"
          "tr11-176B-ml/README.md"),
    Model("MPT-7B", 2023, "ALiBi", 10, ("MptAttention",),
          {"n_layers": 32, "n_heads": 32, "d_model": 4096},
          f"{FACE}/OpenVINO/mpt-7b-int8-ov/blob/main/config.json"),
    Model("Mistral 7B", 2023, "grouped queries; a window", 13, ("MistralAttention",),
          {"max_position_embeddings": 32768},
          "https://github.com/neobundy/Deep-Dive-Into-AI-With-MLX-PyTorch/blob/"
          "b80f3fd3c3bda95ff8a21d446e02a2c87ce65e9e/deep-dives/001-mistral-7b/README.md"),
    Model("Llama 3 8B", 2024, "grouped queries; rotary positions", 11,
          ("LlamaAttention",),
          {"num_key_value_heads": 8, "max_position_embeddings": 8192},
          f"{FACE}/jerryzh168/llama3-8B/blob/main/config.json"),
    Model("DeepSeek-Coder-V2-Lite", 2024, "latent attention", 14,
          ("DeepseekV2Attention",),
          {"num_hidden_layers": 27, "max_position_embeddings": 163840},
          f"{FACE}/deepseek-ai/DeepSeek-Coder-V2-Lite-Base/blame/main/config.json"),
    Model("Qwen2 7B", 2024, "biases on queries, keys and values", 13,
          ("Qwen2Attention",),
          {"num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
           "num_key_value_heads": 4, "max_position_embeddings": 131072},
          f"{FACE}/Qwen/Qwen2-7B/blob/main/config.json"),
    Model("Gemma 2 2B", 2024, "scores are capped; every second layer has a window", 13,
          ("Gemma2Attention",)),
    Model("ModernBERT base", 2024, "both sides; two layers of three have a window", 17,
          ("ModernBertAttention",), kind="encoder"),
    Model("DeepSeek-V3", 2024, "latent attention, compressed queries", 14,
          ("DeepseekV3Attention",), {"max_position_embeddings": 163840},
          f"{FACE}/deepseek-ai/DeepSeek-V3/blob/main/config.json"),
    Model("MiniMax-Text-01", 2025, "lightning: linear, with a fixed decay", 18,
          ("MiniMaxLightningAttention", "MiniMaxAttention"),
          {"num_hidden_layers": 80, "hidden_size": 6144, "num_attention_heads": 64,
           "head_dim": 128, "max_position_embeddings": 1_000_000,
           "layer_types": types(LINEAR, FULL, 8, 80)},
          "https://github.com/MiniMax-AI/MiniMax-01"),
    Model("Gemma 3 270M", 2025, "normed queries and keys; five layers of six have a "
          "window", 13, ("Gemma3Attention",),
          {"num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1,
           "hidden_size": 640, "sliding_window": 512, "max_position_embeddings": 32768},
          f"{FACE}/Codingstark/gemma3-270m-leetcode/blob/main/config.json"),
    Model("Llama 4 Scout", 2025, "chunks; every fourth layer sees all, without "
          "positions", 17, ("Llama4TextAttention",)),
    Model("Qwen3 8B", 2025, "normed queries and keys", 13, ("Qwen3Attention",),
          {"num_hidden_layers": 36, "num_key_value_heads": 8,
           "max_position_embeddings": 40960},
          f"{FACE}/thejaminator/qwen-hook-layer-9/"
          "commit/478fb720f1f3ced834fce0275b55b2732d438edc"),
    Model("SmolLM3 3B", 2025, "every fourth layer has no positions", 13,
          ("SmolLM3Attention",)),
    Model("gpt-oss-120b", 2025, "learned sinks; every second layer has a window", 13,
          ("GptOssAttention",)),
    Model("Qwen3-Next 80B", 2025, "gated delta rule; gates on softmax attention", 18,
          ("Qwen3NextGatedDeltaNet", "Qwen3NextAttention"),
          {"max_position_embeddings": 262144},
          "https://www.alibabacloud.com/blog/qwen3-next-towards-ultimate-training-"
          "%26-inference-efficiency_602580"),
    Model("DeepSeek-V3.2", 2025, "latent attention to keys that an index chooses", 17,
          ("DeepseekV32Attention",)),
    Model("Kimi Linear 48B", 2025, "delta rule, a decay for each channel; latent "
          "attention without positions", 18,
          ("KimiLinearDeltaAttention", "KimiLinearAttention"),
          {"layer_types": [*types(LINEAR, FULL, 4, 26), FULL]},
          "https://github.com/MoonshotAI/Kimi-Linear"),
    Model("GLM-5", 2026, "chosen keys, as DeepSeek-V3.2's", 17,
          ("GlmMoeDsaAttention",)),
)  # fmt: skip


def per_token(model: Model) -> int:
    """Count the numbers per token that a layer which keeps all tokens caches."""
    config = model.config()
    if hasattr(config, "kv_lora_rank"):  # a latent and a rotated key; one of an index
        latent = config.kv_lora_rank + config.qk_rope_head_dim
        return latent + (getattr(config, "index_head_dim", 0) or 0)
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    shared = getattr(config, "num_key_value_heads", None) or heads
    return 2 * shared * width


def kept(model: Model, length: int) -> int:
    """Count the bytes of a whole model's cache for a text, with numbers of 2 bytes.

    A state is kept in 4 bytes a number, as ``transformers`` does.
    """
    config, total = model.config(), 0
    for kind in layer_types(model):
        if kind == LINEAR:
            total += state(config)
            continue
        most = {SLIDING: "sliding_window", "chunked_attention": "attention_chunk_size"}
        seen = min(length, getattr(config, most[kind])) if kind in most else length
        total += 2 * per_token(model) * seen
    return total


def state(config: Any) -> int:
    """Count the bytes of a layer whose state does not grow."""
    if hasattr(config, "linear_num_value_heads"):  # Qwen3-Next
        keys = config.linear_num_key_heads * config.linear_key_head_dim
        values = config.linear_num_value_heads * config.linear_value_head_dim
        numbers, channels = config.linear_key_head_dim * values, 2 * keys + values
    elif hasattr(config, "linear_num_heads"):  # Kimi
        channels = 3 * config.linear_num_heads * config.linear_head_dim
        numbers = config.linear_num_heads * config.linear_head_dim**2
    else:  # MiniMax: no convolution
        return 4 * config.num_attention_heads * config.head_dim**2
    return 4 * numbers + 2 * channels * (config.linear_conv_kernel_dim - 1)


def layer_types(model: Model) -> list[str]:
    """Return the type of each layer of a published model."""
    config = model.config()
    found = getattr(config, "layer_types", None)
    if found is None:
        kind = SLIDING if getattr(config, "sliding_window", None) else FULL
        found = [kind] * config.num_hidden_layers
    return list(found)


def reach(model: Model) -> str:
    """Describe what a token sees, from the config."""
    config, kinds = model.config(), Counter(layer_types(model))
    if model.layers == ("LongformerSelfAttention",):
        return f"{config.attention_window // 2} to each side, and global tokens"
    words = {FULL: "all before", LINEAR: "a state"}
    if model.kind != "decoder":
        words[FULL] = "both sides"
    if model.kind == "both":
        words[FULL] += " of the source, and what was written"
    if "indexed_attention" in kinds:
        words["indexed_attention"] = f"{config.index_topk:,} chosen of all before"
    if SLIDING in kinds:
        where = "to each side" if model.kind == "encoder" else "last tokens"
        words[SLIDING] = f"{config.sliding_window:,} {where}"
    if "chunked_attention" in kinds:
        words["chunked_attention"] = f"its chunk of {config.attention_chunk_size:,}"
    if len(kinds) == 1:
        return words[next(iter(kinds))]
    parts = sorted(kinds, key=lambda kind: kind == FULL)
    return "; ".join(f"{kinds[kind]} layers: {words[kind]}" for kind in parts)


def context(model: Model) -> int | None:
    """Return how many tokens the config allows; None if it does not specify it."""
    config = model.config()
    names = "max_position_embeddings", "max_seq_len", "seq_length"
    return next((n for it in names if (n := getattr(config, it, None))), None)


@torch.no_grad()
def difference(name: str, sizes: Sizes, number: int, **options: Any) -> float:
    """Compare a small published layer with ours: the largest difference.

    Where an output is above 1, it is divided by the largest one.

    Args:
        name: its class.
        sizes: its heads and widths.
        number: which layer of its model it is.
        options: ``causal`` and ``memory``, for BERT, BART and T5.
    """
    layer = build(name, number, sizes, **options)
    ours, length = from_transformers(layer), 12  # longformer's windows divide it
    width = 20 if name == "T5Attention" else layer.config.hidden_size
    x = torch.randn(2, length, width, generator=seeded(1))
    real = padding_mask(torch.tensor([length, 8]), length)[:, 0]
    given, words = Given(x, real, rotation(layer)), dict[str, Any]()
    if options.get("memory"):
        words["memory"] = torch.randn(2, 9, width, generator=seeded(2))
        given.memory, given.real = words["memory"], real[:, :9]
    if name == "LongformerSelfAttention" and number:
        words["global_tokens"] = torch.zeros_like(real)
        words["global_tokens"][:, [0, 5]] = True
        given.global_tokens = words["global_tokens"]
    mask = (
        given.real if KINDS[name].call in (stated, lightning) else given.real[:, None]
    )
    if name == "GlmMoeDsaAttention" and number:  # takes what the layer before it chose
        before = from_transformers(build(name, 0, sizes))
        turns = dict(base=before.base, scaling=before.scaling)
        angles = rope_angles(torch.arange(length), before.head_dim, **turns)
        mask = before.attention.choose(x, mask, causal=True, angles=angles)
        given.chosen = mask
    wanted, found = KINDS[name].call(layer, given), ours(x, mask, **words)
    apart = ((wanted - found) * real[..., None]).abs().max()
    return float(apart / wanted.abs().max().clamp(min=1))


def differences(model: Model) -> dict[str, float]:
    """Compare each class of a model's layers in several sizes: the largest ones."""
    found = {}
    for name in model.layers:
        ways: list[dict[str, Any]] = [{}]
        if model.kind == "both":
            ways += [{"causal": True}, {"memory": True}]
        cases = [(sizes, number) for sizes in SIZES for number in (0, 1)]
        found[name] = max(difference(name, *it, **way) for it in cases for way in ways)
    return found


def measure(model: Model) -> dict[str, Any]:
    """Return everything that the tables show of a model."""
    most = context(model)
    decodes = model.kind != "encoder"
    lengths = [n for n in (SHORT, LONG) if most is None or n <= most]
    return {
        "numbers": per_token(model) if decodes else None,
        "layers": dict(Counter(layer_types(model))),
        "kept": {str(n): kept(model, n) for n in lengths} if decodes else {},
        "context": most,
        "reach": reach(model),
    }


def texts(kept_: dict[str, Any]) -> dict[str, str]:
    """Make the tables of the page from the recorded results."""
    heads = (
        say("published.heads", short=SHORT, long=LONG),
        "|---|---|---:|---:|---:|---|---:|",
    )
    rows = [line(model, kept_["rows"][model.name]) for model in MODELS]
    sources = [say("published.sources"), "|---|---|---|"]
    for model in MODELS:
        if model.sizes:
            told = ", ".join(f"`{it}` {size(n)}" for it, n in model.sizes.items())
            page = f"[{say('published.page')}]({model.source})"
            sources.append(f"| {model.name} | {told} | {page} |")
    largest = max(max(row["differences"].values()) for row in kept_["rows"].values())
    classes = sum(len(model.layers) for model in MODELS)
    found = {"models": len(MODELS), "classes": classes, "largest": shown(largest)}
    return {
        "attentions": "\n".join((*heads, *rows)),
        "sources": "\n".join(sources),
        "equal": say("published.equal", **kept_ | found),
    }


def line(model: Model, row: dict[str, Any]) -> str:
    """Make one line of the table."""
    stem = CHAPTERS[model.chapter]
    link = f"{{doc}}`{model.chapter} <../chapters/{stem}>`"
    sizes = [
        rounded(row["kept"][str(n)] / n / 1024) if str(n) in row["kept"] else "–"
        for n in (SHORT, LONG)
    ]
    numbers = f"{row['numbers']:,}" if row["numbers"] else "–"
    largest = shown(max(row["differences"].values()))
    name, what = f"{model.name} ({model.year})", f"{model.what} ({link})"
    cells = name, what, numbers, *sizes, row["reach"]
    return f"| {' | '.join(str(cell) for cell in cells)} | {largest} |"


def size(value: Any) -> str:
    """Write a number of a config, or the length of a list."""
    if isinstance(value, int):
        return f"{value:,}"
    return say("published.and").join(
        f"{n} × `'{kind}'`" for kind, n in Counter(value).items()
    )


def rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"


def shown(number: float) -> str:
    return f"{number:.0e}".replace("e-0", "e-") if number else "0"


def main() -> None:
    """Compare, keep the results, and fill the page."""
    rows = {}
    for model in MODELS:
        rows[model.name] = measure(model) | {"differences": differences(model)}
        print(line(model, rows[model.name]), flush=True)
    found = {"transformers": version("transformers")}
    found["torch"] = version("torch").split("+")[0]
    record = found | {"rows": rows}
    RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page = fill(PAGE.read_text(encoding="utf-8"), texts(record))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
