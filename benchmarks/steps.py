"""Training steps of models of one size: plain ones, ours, and other libraries'."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging
from x_transformers import Decoder, TransformerWrapper

from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.training import train_step
from benchmarks.plain import PlainBlock, PlainGPT, TextbookBlock

logging.set_verbosity_error()  # it has opinions on a loss that it then takes anyway

VOCAB_SIZE, D_MODEL, NUM_HEADS, NUM_LAYERS = 512, 128, 4, 2
TOKENS = 2048  # in a batch: sixteen texts of 128, or four of 512
LENGTHS = (64, 128, 512)
PLAIN, OURS, FACE = "nanoGPT's way", "TinyLM, sdpa", "Hugging Face GPT-2"


def make_ours(mha: str, length: int) -> TinyLM:
    """Return our model; its dropout is 0."""
    return TinyLM(
        ModelConfig(
            vocab_size=VOCAB_SIZE,
            context_len=length,
            d_model=D_MODEL,
            num_heads=NUM_HEADS,
            num_layers=NUM_LAYERS,
            mha=mha,
        )
    )


def make_plain(length: int, block: type[PlainBlock] = PlainBlock) -> PlainGPT:
    """Return the plain model, of our size."""
    return PlainGPT(VOCAB_SIZE, length, D_MODEL, NUM_HEADS, NUM_LAYERS, block)


def make_x(length: int) -> TransformerWrapper:
    """Return x-transformers' model, of our size, without biases in most parts."""
    return TransformerWrapper(
        num_tokens=VOCAB_SIZE,
        max_seq_len=length,
        attn_layers=Decoder(
            dim=D_MODEL,
            depth=NUM_LAYERS,
            heads=NUM_HEADS,
            attn_dim_head=D_MODEL // NUM_HEADS,
            attn_flash=True,
        ),
    )


def make_theirs(length: int, **choices: Any) -> GPT2LMHeadModel:
    """Return their model, of our size, with their defaults for everything else."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCAB_SIZE,
            n_positions=length,
            n_embd=D_MODEL,
            n_head=NUM_HEADS,
            n_layer=NUM_LAYERS,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
            tie_word_embeddings=False,  # as ours
            bos_token_id=None,
            eos_token_id=None,
            **choices,
        )
    )


def fill_theirs(theirs: GPT2LMHeadModel, ours: TinyLM) -> None:
    """Load our weights, of the kind ``sdpa``, into their model."""
    body = theirs.transformer
    with torch.no_grad():
        words = ours.token_embedding.weight * D_MODEL**0.5
        body.wte.weight.copy_(words)
        body.wpe.weight.copy_(ours.positions.embedding.weight)
        theirs.lm_head.weight.copy_(ours.head.weight)
        body.ln_f.load_state_dict(ours.last_norm.state_dict())
        for own, block in zip(body.h, ours.blocks, strict=True):
            own.ln_1.load_state_dict(block.attention_norm.state_dict())
            own.ln_2.load_state_dict(block.feed_forward_norm.state_dict())
            for wide, linear in (
                (own.attn.c_attn, block.attention.qkv_proj),
                (own.attn.c_proj, block.attention.out_proj),
                (own.mlp.c_fc, block.feed_forward.up_proj),
                (own.mlp.c_proj, block.feed_forward.down_proj),
            ):
                wide.weight.copy_(linear.weight.T)
                wide.bias.zero_()
                if linear.bias is not None:
                    wide.bias.copy_(linear.bias)


def fill_x(theirs: TransformerWrapper, ours: TinyLM) -> None:
    """Load our weights into x-transformers' model; its other biases are 0."""
    width, layers = D_MODEL**0.5, theirs.attn_layers
    norms = [n for b in ours.blocks for n in (b.attention_norm, b.feed_forward_norm)]
    with torch.no_grad():
        theirs.token_emb.emb.weight.copy_(ours.token_embedding.weight * width)
        theirs.pos_emb.emb.weight.copy_(ours.positions.embedding.weight * width)
        theirs.to_logits.weight.copy_(ours.head.weight)
        # Its norms multiply by 1 + gamma.
        layers.final_norm.gamma.copy_(ours.last_norm.weight - 1)
        for own, norm in zip(layers.layers, norms, strict=True):
            own[0][0].gamma.copy_(norm.weight - 1)
        for i, block in enumerate(ours.blocks):
            attention, wide = layers.layers[2 * i][1], layers.layers[2 * i + 1][1].ff
            qkv = block.attention.qkv_proj.weight.chunk(3)
            for own, part in zip(("to_q", "to_k", "to_v"), qkv, strict=True):
                attention.get_submodule(own).weight.copy_(part)
            attention.to_out.weight.copy_(block.attention.out_proj.weight)
            wide[0][0].load_state_dict(block.feed_forward.up_proj.state_dict())
            wide[2].load_state_dict(block.feed_forward.down_proj.state_dict())


def fill_plain(plain: PlainGPT, ours: TinyLM) -> None:
    """Load our weights, of the kind ``sdpa``, into the plain model."""
    with torch.no_grad():
        plain.words.weight.copy_(ours.token_embedding.weight * D_MODEL**0.5)
        plain.places.weight.copy_(ours.positions.embedding.weight)
    for name in ("last_norm", "head"):
        own = ours.get_submodule(name)
        plain.get_submodule(name).load_state_dict(own.state_dict())
    for mine, block in zip(plain.blocks, ours.blocks, strict=True):
        for path in (
            *("attention_norm", "attention.qkv_proj", "attention.out_proj"),
            *("feed_forward_norm", "feed_forward.up_proj", "feed_forward.down_proj"),
        ):
            own = block.get_submodule(path)
            mine.get_submodule(path.split(".")[-1]).load_state_dict(own.state_dict())


def x_loss(model: TransformerWrapper, ids: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())


def other_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Callable[[], Tensor]
) -> float:
    """Make one step like ``train_step``, with the loss of a different model."""
    model.train()
    loss = loss_of()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


MODELS: dict[str, Callable[[int], nn.Module]] = {
    PLAIN: make_plain,
    OURS: lambda length: make_ours("sdpa", length),
    "TinyLM, split": lambda length: make_ours("split", length),
    FACE: make_theirs,
    # Their default writes GELU's approximation out in Python; ours is PyTorch's GELU.
    "Hugging Face GPT-2, our GELU": lambda length: make_theirs(
        length, activation_function="gelu"
    ),
    "Hugging Face GPT-2, eager": lambda length: make_theirs(
        length, attn_implementation="eager"
    ),
    "x-transformers": make_x,
    "a textbook's way": lambda length: make_plain(length, TextbookBlock),
}


def make_call(name: str, length: int) -> Callable[[], float]:
    """Return the timed call: one training step on one batch."""
    torch.manual_seed(0)
    model: Any = MODELS[name](length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(VOCAB_SIZE, (TOKENS // length, length + 1))
    ids, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    if isinstance(model, TinyLM):
        return lambda: train_step(model, optimizer, ids)
    if isinstance(model, PlainGPT):
        return lambda: other_step(model, optimizer, lambda: model(ids, targets))
    if isinstance(model, TransformerWrapper):
        return lambda: other_step(model, optimizer, lambda: x_loss(model, ids, targets))
    return lambda: other_step(
        model, optimizer, lambda: model(input_ids=ids, labels=ids).loss
    )
