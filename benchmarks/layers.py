"""The multi-head layers that are compared, with the same weights and the same mask.

Each is an ``nn.Module`` that takes (B, T, M) and a mask in its own dialect, which
``make_mask`` has made before the clock runs. All have biases in all projections, so
that all have as many parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention
from x_transformers.x_transformers import Attention as XAttention

from attention_lib.masks import causal_mask
from attention_lib.mha_variants import MHA_VARIANTS, make_mha
from attention_lib.multi_head import MultiHeadAttention, copy_weights
from benchmarks.textbook import TextbookSplit, TextbookWrapper

D_MODEL, NUM_HEADS = 256, 8
TOKENS = 2048  # in a batch: one text of 2,048, or sixteen of 128
LENGTHS = (128, 256, 512, 1024, 2048)
MASKS = ("none", "causal")
PASSES = ("forward", "with backward")
FLOOR = "floor"
# No mask to read: what our sdpa gains where it is told `causal`, against its own floor.
FLOOR_CAUSAL, OURS_CAUSAL = "floor, is_causal", "our sdpa, causal=True"


class Floor(nn.Module):
    """One fused projection, PyTorch's kernel, the output projection; nothing else."""

    def __init__(self, *, is_causal: bool = False) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(D_MODEL, 3 * D_MODEL)
        self.out_proj = nn.Linear(D_MODEL, D_MODEL)
        self.is_causal = is_causal

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, NUM_HEADS, -1).transpose(1, 2)
            for part in self.qkv_proj(x).chunk(3, dim=-1)
        )
        context = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=self.is_causal
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))


class PlainTorch(nn.Module):
    """``nn.MultiheadAttention`` unchanged, without our signature around it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(D_MODEL, NUM_HEADS, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


class ToldCausal(nn.Module):
    """Our fast layer with ``causal=True`` instead of a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = make_mha("sdpa", D_MODEL, NUM_HEADS, qkv_bias=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.layer(x, mask, causal=True)


class FaceGPT2(nn.Module):
    """The attention of Hugging Face's GPT-2: one fused projection too."""

    def __init__(self, implementation: str) -> None:
        super().__init__()
        config = GPT2Config(
            n_embd=D_MODEL,
            n_head=NUM_HEADS,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
            attn_implementation=implementation,
        )
        self.attention = GPT2Attention(config, layer_idx=0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        # Without a mask it would hide the future by itself.
        return self.attention(x, attention_mask=mask, is_causal=False)[0]


class FaceLlama(nn.Module):
    """The attention of Hugging Face's Llama; its rotation angles are 0 here."""

    def __init__(self) -> None:
        super().__init__()
        config = LlamaConfig(
            hidden_size=D_MODEL,
            num_attention_heads=NUM_HEADS,
            attention_bias=True,
            attn_implementation="sdpa",
        )
        self.attention = LlamaAttention(config, layer_idx=0)
        shape = (1, max(LENGTHS), D_MODEL // NUM_HEADS)
        self.turn = torch.ones(shape), torch.zeros(shape)  # cosines and sines

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        cosine, sine = (table[:, : x.shape[1]] for table in self.turn)
        return self.attention(x, (cosine, sine), mask, is_causal=False)[0]


class XTransformers(nn.Module):
    """The attention of x-transformers on PyTorch's kernel, with biases added."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = XAttention(
            D_MODEL, heads=NUM_HEADS, dim_head=D_MODEL // NUM_HEADS, flash=True
        )
        for name in ("to_q", "to_k", "to_v", "to_out"):
            setattr(self.attention, name, nn.Linear(D_MODEL, D_MODEL))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attention(x, attn_mask=mask)


@dataclass(frozen=True)
class Contender:
    """How to make a layer, fill it, and ask it for causal attention."""

    make: Callable[[], nn.Module]
    fill: Callable[[Any, MultiHeadAttention], None]
    dialect: str = "may attend"


def fill_named(layer: nn.Module, source: MultiHeadAttention) -> None:
    """Fill a layer whose parameters are named as in the source."""
    layer.load_state_dict(source.state_dict())


def fill_floor(layer: Floor, source: MultiHeadAttention) -> None:
    layer.qkv_proj.load_state_dict(packed(source))
    layer.out_proj.load_state_dict(source.out_proj.state_dict())


def fill_plain_torch(layer: PlainTorch, source: MultiHeadAttention) -> None:
    own = {f"in_proj_{name}": value for name, value in packed(source).items()}
    own |= source.out_proj.state_dict(prefix="out_proj.")
    layer.attention.load_state_dict(own)


def fill_gpt2(layer: FaceGPT2, source: MultiHeadAttention) -> None:
    for own, given in (
        (layer.attention.c_attn, packed(source)),
        (layer.attention.c_proj, source.out_proj.state_dict()),
    ):  # its weights are (in, out)
        own.load_state_dict({"weight": given["weight"].T, "bias": given["bias"]})


def fill_llama(layer: FaceLlama, source: MultiHeadAttention) -> None:
    layer.attention.load_state_dict(
        {
            name.replace("out_proj", "o_proj"): value
            for name, value in source.state_dict().items()
        }
    )


def fill_x(layer: XTransformers, source: MultiHeadAttention) -> None:
    names = {"q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "out_proj": "to_out"}
    for theirs, own in names.items():
        given = source.get_submodule(theirs).state_dict()
        layer.attention.get_submodule(own).load_state_dict(given)


def fill_wrapper(layer: TextbookWrapper, source: MultiHeadAttention) -> None:
    ours = make_mha("wrapper", D_MODEL, NUM_HEADS, qkv_bias=True)
    copy_weights(source, ours)
    layer.load_state_dict(ours.state_dict())  # type: ignore[attr-defined]


def packed(source: MultiHeadAttention) -> dict[str, Tensor]:
    """Return the projections of queries, keys and values as one."""
    projections = source.q_proj, source.k_proj, source.v_proj
    return {
        "weight": torch.cat([p.weight.detach() for p in projections]),
        "bias": torch.cat([p.bias.detach() for p in projections]),
    }


def ours(kind: str) -> Contender:
    return Contender(
        lambda: make_mha(kind, D_MODEL, NUM_HEADS, qkv_bias=True),
        lambda layer, source: copy_weights(source, layer),
    )


CONTENDERS: dict[str, Contender] = {
    FLOOR: Contender(Floor, fill_floor),
    **{f"our {kind}": ours(kind) for kind in MHA_VARIANTS},
    "nn.MultiheadAttention": Contender(PlainTorch, fill_plain_torch, "blocked"),
    "Hugging Face GPT-2": Contender(lambda: FaceGPT2("sdpa"), fill_gpt2),
    "Hugging Face Llama": Contender(FaceLlama, fill_llama),
    "Hugging Face GPT-2, eager": Contender(
        lambda: FaceGPT2("eager"), fill_gpt2, "additive"
    ),
    "x-transformers": Contender(XTransformers, fill_x),
    "textbook split": Contender(lambda: TextbookSplit(D_MODEL, NUM_HEADS), fill_named),
    "textbook wrapper": Contender(
        lambda: TextbookWrapper(D_MODEL, NUM_HEADS), fill_wrapper
    ),
    FLOOR_CAUSAL: Contender(lambda: Floor(is_causal=True), fill_floor, "is_causal"),
    OURS_CAUSAL: Contender(
        ToldCausal, lambda own, source: copy_weights(source, own.layer), "is_causal"
    ),
}


def make_layers(seed: int = 0) -> dict[str, nn.Module]:
    """Make all layers, with the same weights."""
    torch.manual_seed(seed)
    source = MultiHeadAttention(D_MODEL, NUM_HEADS, qkv_bias=True)
    layers = {}
    for name, contender in CONTENDERS.items():
        layers[name] = contender.make()
        contender.fill(layers[name], source)
    return layers


def make_mask(name: str, mask: str, length: int) -> Tensor | None:
    """Make the arguments for causal attention, or for none, of a layer."""
    dialect = CONTENDERS[name].dialect
    if mask == "none" or dialect == "is_causal":
        return None
    causal = causal_mask(length)
    if dialect == "blocked":
        return ~causal
    if dialect == "additive":
        return torch.zeros(length, length).masked_fill(~causal, -torch.inf)
    return causal


def measured(mask: str) -> list[str]:
    """Return which layers take part, for a mask."""
    told = FLOOR_CAUSAL, OURS_CAUSAL
    return [name for name in CONTENDERS if mask == "causal" or name not in told]


def make_call(
    layer: nn.Module, mask: Tensor | None, length: int, which: str
) -> Callable[[], Any]:
    """Return the timed call: one pass over ``TOKENS`` tokens."""
    x = torch.randn(TOKENS // length, length, D_MODEL)
    if which == "forward":
        layer.eval()

        @torch.inference_mode()
        def forward() -> Tensor:
            return layer(x, mask)

        return forward

    layer.train()
    wanted = [x.requires_grad_(), *layer.parameters()]
    upstream = torch.randn_like(x)

    def with_backward() -> tuple[Tensor, ...]:
        return torch.autograd.grad(layer(x, mask), wanted, upstream)

    return with_backward
