"""attention_lib.packed_kernel: a product with weights in 4 bits, never unpacked."""

import pytest
import torch
from torch.testing import assert_close

from attention_lib.packed_kernel import packed_linear
from attention_lib.pretrained.gguf_blocks import BLOCK_TYPES, unpack_blocks
from attention_lib.reproducibility import seeded
from tests.kernels import (
    DEVICE,
    INTERPRETED,
    TRITON,
    compile_for_a_gpu,
    needs_kernel,
    needs_triton,
)


def packed(outputs, blocks):
    """Random blocks of the type Q4_1: codes, step, minimum."""
    generator = seeded(0)
    shape = outputs, blocks, 16
    codes = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
    step, minimum = torch.randn(2, outputs, blocks, 1, generator=generator).half()
    return codes, step, minimum


def unpacked(codes, step, minimum):
    """The weights as the reader of GGUF files unpacks the same bytes."""
    halves = torch.cat([step, minimum], dim=-1).view(torch.uint8)
    raw = torch.cat([halves, codes], dim=-1).flatten().numpy()
    return torch.from_numpy(unpack_blocks(raw, BLOCK_TYPES[3])).view(len(codes), -1)


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("outputs", "blocks", "leading"),
    [(1, 1, ()), (16, 8, (1,)), (37, 18, (2, 3)), (15, 9, (1, 1))],
)
def test_equals_the_product_with_unpacked_weights(outputs, blocks, leading, dtype):
    tensors = packed(outputs, blocks)
    x = torch.randn(*leading, 32 * blocks, generator=seeded(1)).to(dtype)
    wanted = torch.nn.functional.linear(x.double(), unpacked(*tensors).double())
    ours = packed_linear(x.to(DEVICE), *(t.to(DEVICE) for t in tensors)).cpu()
    assert ours.dtype == dtype
    # The interpreter cuts digits off where a GPU rounds.
    digits = {torch.float32: 1e-6, torch.bfloat16: 2**-7, torch.float16: 2**-10}
    bound = digits[dtype] * wanted.abs().max().item()
    assert_close(ours.double(), wanted, rtol=0, atol=bound)


@needs_triton
def test_compiles_for_a_gpu_that_is_not_here():
    types = "*bf16 *u8 *fp16 *fp16 *bf16 i32 i32"
    place = "attention_lib.packed_kernel", "multiply_kernel"
    compile_for_a_gpu(*place, types, ROWS=16, BLOCKS=8)


@pytest.mark.parametrize("wrong", ["x", "step", "minimum"])
def test_sizes_that_do_not_fit_are_named(wrong, shapes_unchecked):
    x, (codes, step, minimum) = torch.zeros(64), packed(3, 2)
    given = {"x": x, "codes": codes, "step": step, "minimum": minimum}
    given[wrong] = torch.zeros(33) if wrong == "x" else given[wrong][:, :1]
    with pytest.raises(ValueError, match=r"x must end in 64, .* be \(3, 2, 1\); got"):
        packed_linear(**given)


def test_without_what_it_needs_it_says_so():
    tensors = packed(3, 2)
    with pytest.raises(TypeError, match="got float64"):
        packed_linear(torch.zeros(64, dtype=torch.float64), *tensors)
    if not TRITON:
        with pytest.raises(ModuleNotFoundError, match="pip install triton"):
            packed_linear(torch.zeros(64), *tensors)
    elif not INTERPRETED:
        with pytest.raises(ValueError, match=r"x must be on a GPU.*got .* on cpu"):
            packed_linear(torch.zeros(64), *tensors)
