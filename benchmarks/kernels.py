"""Our kernels on a GPU: weights in 4 bits against 16 and 32, tiles against a table.

Run as `python -m benchmarks.kernels` on a machine with an NVIDIA GPU; it writes
`benchmarks/gpu.json`, from which `python -m benchmarks.report` fills the page. Each
time is Triton's median, with the GPU's cache emptied before every call.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

RESULTS = Path(__file__).with_name("gpu.json")
# Outputs and inputs of a layer: the MLP of SmolLM2 135M, and that of Llama 3 8B.
SIZES = {"SmolLM2 135M": (1536, 576), "Llama 3 8B": (14336, 4096)}
ROWS = 1, 4, 16
PLAIN = "16 bits"


def products(size: str, rows: int) -> dict[str, Callable[[], Any]]:
    """Return one product of a layer with some rows, by each way to keep its weights."""
    from attention_lib.packed_kernel import packed_linear

    outputs, inputs = SIZES[size]
    random = torch.Generator("cuda").manual_seed(0)
    options: dict[str, Any] = {"generator": random, "device": "cuda"}
    shape = outputs, inputs // 32, 16
    codes = torch.randint(256, shape, dtype=torch.uint8, **options)
    step, minimum = torch.rand(2, outputs, inputs // 32, 1, **options).half()

    def unpacked() -> torch.Tensor:
        whole = torch.cat([codes % 16, codes // 16], dim=-1)
        return (step * whole + minimum).flatten(1)

    x = torch.randn(rows, inputs, **options)
    weight = unpacked().float()
    half, short = weight.half(), x.half()
    torch.testing.assert_close(
        packed_linear(x, codes, step, minimum), F.linear(x, weight), rtol=1e-3, atol=0.5
    )
    return {
        PLAIN: lambda: F.linear(short, half),
        "32 bits": lambda: F.linear(x, weight),
        "4 bits, unpacked in PyTorch": lambda: F.linear(short, unpacked()),
        "4 bits, our kernel": lambda: packed_linear(short, codes, step, minimum),
    }


def attentions(length: int) -> dict[str, Callable[[], Any]]:
    """Return causal attention over one text: 8 heads of width 64, in float32."""
    from attention_lib.attention import scaled_dot_product_attention
    from attention_lib.flash_kernel import flash_kernel
    from attention_lib.masks import causal_mask

    random = torch.Generator("cuda").manual_seed(0)
    inputs = torch.randn(3, 1, 8, length, 64, generator=random, device="cuda")
    mask = causal_mask(length).cuda()
    return {
        "PyTorch's kernel": lambda: F.scaled_dot_product_attention(
            *inputs, is_causal=True
        ),
        "our kernel": lambda: flash_kernel(*inputs, causal=True),
        "the whole table": lambda: scaled_dot_product_attention(*inputs, mask),
    }


def ratios(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Time each way and divide by the first."""
    from triton.testing import do_bench

    times = {name: do_bench(way, return_mode="median") for name, way in ways.items()}
    reference = next(iter(times.values()))
    return {name: round(time / reference, 3) for name, time in times.items()}


@torch.inference_mode()
def main() -> None:
    """Measure everything, and keep ratios with the names of the GPU and versions."""
    import triton

    found = {
        "measured": datetime.now(UTC).date().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "products": {
            size: {rows: ratios(products(size, rows)) for rows in ROWS}
            for size in SIZES
        },
        "attention": {
            length: ratios(attentions(length)) for length in (512, 2048, 8192)
        },
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
