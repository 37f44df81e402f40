"""What a head does: scores of its map, its ablation, and the paths between two heads.

A head is named by its index, (layer, head), both counted from 0. The output of a head
is its context (B, T, D), before the output projection.

Shapes: B batch, T length, L layers, M d_model, H heads, D head_dim, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file
from torch import Tensor, nn

from attention_lib.block import TinyBlock
from attention_lib.kv_cache import CacheLike
from attention_lib.masks import causal_mask
from attention_lib.modules import weight_of
from attention_lib.multi_head import split_heads
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.validation import (
    fitted_patch,
    require_choice,
    require_compared,
    require_generator,
    require_head_indices,
    require_head_maps,
    require_head_path,
    require_instance,
    require_not_negative,
    require_patch,
    require_periods,
    require_positive,
)

HeadIndex = tuple[int, int]  # layer and head, from 0
# Whether an instrument calls a part itself: then no instrument records or changes it.
_ASKING: ContextVar[bool] = ContextVar("_ASKING", default=False)


def repeated_texts(
    count: int,
    length: int,
    vocab_size: int,
    *,
    periods: tuple[int, int] = (6, 16),
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Draw texts that repeat a piece of different tokens up to their length.

    Args:
        count: how many texts.
        length: of each text.
        vocab_size: how many different tokens there are.
        periods: the lengths of the shortest and the longest piece; each text draws one.
        generator: on the CPU, so that every device draws the same.

    Returns:
        The token ids, and True where a token has occurred in the text before.

    Raises:
        TypeError: a size that is not an int; a generator that is not one of torch's.
        ValueError: a size below 1; pieces as long as the text, or longer than there
            are tokens.
    """
    require_positive(count=count, length=length, vocab_size=vocab_size)
    require_periods(periods, length, vocab_size)
    require_generator(generator)
    shortest, longest = periods
    # The order of random numbers: each token once, in a random order.
    order = torch.rand(count, vocab_size, generator=generator).argsort(dim=-1)
    pick = torch.rand(count, 1, generator=generator, dtype=torch.float64)
    period = shortest + (pick * (longest + 1 - shortest)).long()  # (B, 1)
    positions = torch.arange(length)
    return order.gather(1, positions % period), positions >= period


def induction_targets(token_ids: Int[Tensor, "B T"]) -> Bool[Tensor, "B T T"]:
    """Return for each query which keys come right after an earlier copy of its token.

    Raises:
        TypeError: ids that are not whole numbers.
        ValueError: ids that are not (B, T).
    """
    require_compared(token_ids)
    length = token_ids.shape[1]
    previous = token_ids.roll(1, dims=1)  # at each position the token before it
    matches = token_ids[:, :, None] == previous[:, None, :]  # (B, T, T)
    matches[:, :, 0] = False  # nothing comes before the first
    return matches & causal_mask(length, device=token_ids.device)


def previous_token_score(weights: Float[Tensor, "B H T T"]) -> Float[Tensor, " H"]:
    """Return each head's mean weight on the token before the query.

    The first query, which has none, does not count.

    Raises:
        TypeError: weights that are not floats.
        ValueError: weights that are not (B, H, T, T), or of a single token.
    """
    require_head_maps(weights)
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 2))


def induction_score(
    weights: Float[Tensor, "B H T T"], token_ids: Int[Tensor, "B T"]
) -> Float[Tensor, " H"]:
    """Return each head's mean weight on what followed earlier copies of the query.

    Queries whose token is new do not count. A query may have several earlier copies:
    the weights on all of them are summed.

    Raises:
        TypeError: weights that are not floats; ids that are not whole numbers.
        ValueError: weights that are not (B, H, T, T), or not of these texts.
    """
    require_head_maps(weights, token_ids)
    targets = induction_targets(token_ids)
    counts = targets.any(dim=-1).sum().clamp(min=1)
    return (weights * targets[:, None]).sum(dim=(0, 2, 3)) / counts


class AttentionBlock(TinyBlock):
    """A ``TinyBlock`` that normalises first and has no MLP.

    Args:
        d_model: width of the stream.
        num_heads: number of attention heads.
        dropout: as in ``TinyBlock``.
        mha: as in ``TinyBlock``.
    """

    def __init__(
        self, d_model: int, num_heads: int, *, dropout: float = 0.0, mha: str = "split"
    ) -> None:
        super().__init__(d_model, num_heads, dropout=dropout, mha=mha)
        del self.feed_forward, self.feed_forward_norm

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Add the output of attention to the stream."""
        attended = self.attention(
            self.attention_norm(x), mask, causal=causal, angles=angles, cache=cache
        )
        return x + self.dropout(attended)

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Float[Tensor, "*B T P"] | None = None,
    ) -> Float[Tensor, "B H T T"]:
        """Return the attention weights of each head, before dropout."""
        return self.attention.attention_weights(
            self.attention_norm(x), mask, causal=causal, angles=angles
        )


class AttentionOnlyLM(TinyLM):
    """A ``TinyLM`` whose blocks are ``AttentionBlock``, as in Elhage et al. (2021).

    There the blocks have no norms either. It is called like any ``LanguageModel``.

    Args:
        config: the sizes and choices; it must normalise first.

    Raises:
        TypeError: not a ``ModelConfig``.
        ValueError: a ``norm`` other than ``pre``.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        require_choice("norm", config.norm, ["pre"])
        sizes = config.d_model, config.num_heads
        blocks = [
            AttentionBlock(*sizes, dropout=config.dropout, mha=config.mha)
            for _ in self.blocks
        ]
        for block, drawn in zip(blocks, self.blocks, strict=True):
            # Keep the weights that have been drawn already.
            block.attention = drawn.attention  # type: ignore[assignment]
        self.blocks = nn.ModuleList(blocks)


@torch.no_grad()
def head_outputs(
    model: nn.Module, token_ids: Int[Tensor, "B T"]
) -> list[Float[Tensor, "B H T D"]]:
    """Return the outputs of each layer's heads, before the output projection.

    Raises:
        TypeError: not a model with blocks.
    """
    require_head_indices(model)
    outputs: list[Tensor] = []
    with ExitStack() as hooks:
        for block in _blocks(model):
            layer = block.attention

            def keep(
                _: nn.Module, inputs: Any, num_heads: int = layer.num_heads
            ) -> None:
                if not _ASKING.get():
                    outputs.append(split_heads(inputs[0], num_heads))

            hooks.enter_context(layer.out_proj.register_forward_pre_hook(keep))
        model(token_ids)
    return outputs


@contextmanager
def patch_heads(
    model: nn.Module, values: Mapping[HeadIndex, Tensor | float]
) -> Iterator[None]:
    """Replace outputs of heads in every call of the model inside the ``with``.

    Args:
        model: has ``blocks``, each with an ``attention`` that ends in ``out_proj``.
        values: for each head the output that replaces its own, broadcast to (B, T, D):
            0 for ablation, a mean, or its output in a different text.

    Raises:
        TypeError: not a model with blocks; an index that is not two ints.
        ValueError: a head that the model does not have.
    """
    require_instance("values", values, Mapping)
    for index in values:
        require_head_indices(model, **{"a head of values": index})
        require_patch(values[index])
    with ExitStack() as hooks:
        for (layer, head), value in values.items():
            attention = _blocks(model)[layer].attention

            def replace(
                _: nn.Module,
                inputs: Any,
                head: int = head,
                count: int = attention.num_heads,
                value: Tensor | float = value,
            ) -> tuple[Tensor] | None:
                if _ASKING.get():
                    return None
                return (_with(inputs[0], head, count, value),)

            hooks.enter_context(attention.out_proj.register_forward_pre_hook(replace))
        yield


@contextmanager
def patch_path(
    model: nn.Module,
    sender: HeadIndex,
    receiver: HeadIndex,
    into: Literal["query", "key", "value"],
    value: Tensor | float,
) -> Iterator[None]:
    """Replace what one head sends to another, on one path only.

    The receiver's queries, keys or values are computed from a stream in which the
    sender's output is ``value``. Everything else, such as what the sender adds for
    later layers, stays the same: "path patching", Wang et al. (2022), Goldowsky-Dill et
    al. (2023). Paths from several senders into the same projection of a head are
    replaced together; the same path twice has the value that was given last. Parts on
    the path may be called more than once.

    Args:
        model: as in ``patch_heads``; the receiver's block normalises first.
        sender: the earlier head.
        receiver: a head of a later layer.
        into: the projection of the receiver that the path enters. Query heads that
            share a KV head share these paths too: the path into the key of one is the
            path into the keys of its whole group.
        value: the output that replaces the sender's, broadcast to (B, T, D).

    Raises:
        TypeError: not a model with blocks; an index that is not two ints.
        ValueError: a head that the model does not have; a sender that is not earlier;
            an unsupported kind of block or attention.
    """
    require_head_path(model, sender, receiver, into)
    require_patch(value)
    first, block = _blocks(model)[sender[0]], _blocks(model)[receiver[0]]
    projection = getattr(block.attention, f"{into[0]}_proj")
    receive = _Receiver(block, receiver[1], into)
    for other in projection._forward_hooks.values():
        if isinstance(other, _Receiver) and other.columns == receive.columns:
            receive.kept = other.kept
    kept: dict[str, Any] = {"sender": sender}

    def note_change(out_proj: nn.Module, inputs: Any, output: Tensor) -> None:
        if not _ASKING.get():
            head = sender[1], first.attention.num_heads
            kept["change"] = _change(first, out_proj, inputs[0], output, head, value)

    def note_stream(norm: nn.Module, inputs: Any) -> None:
        if not _ASKING.get():
            kept["stream"] = inputs[0]

    out_proj, norm = first.attention.out_proj, block.attention_norm
    with ExitStack() as hooks:
        receive.kept.append(kept)
        hooks.callback(receive.forget, kept)
        hooks.enter_context(out_proj.register_forward_hook(note_change))
        hooks.enter_context(norm.register_forward_pre_hook(note_stream))
        hooks.enter_context(projection.register_forward_hook(receive))
        yield


class _Receiver:
    """Compute what one head reads from a stream in which senders' outputs differ.

    Args:
        block: the receiver's.
        head: one of its query heads.
        into: the projection whose forward hook calls this object.
    """

    def __init__(self, block: Any, head: int, into: str) -> None:
        count = groups = block.attention.num_heads
        if into != "query":
            groups = getattr(block.attention, "num_kv_heads", count)
        self.block, self.columns = block, (head * groups // count, groups)
        self.kept: list[dict[str, Any]] = []  # each path: sender, change, stream

    def forget(self, path: dict[str, Any]) -> None:
        """Remove one path again."""
        self.kept[:] = [each for each in self.kept if each is not path]

    def __call__(self, projection: nn.Module, inputs: Any, output: Tensor) -> Any:
        if _ASKING.get():
            return None
        stream = self.kept[0]["stream"]
        # Heads that share a KV head share a path: its change counts once.
        for change in {path["sender"]: path["change"] for path in self.kept}.values():
            stream = stream + change
        new = _ask(projection, _ask(self.block.attention_norm, stream))
        columns = _columns(output, *self.columns)
        output = output.clone()
        output[..., columns] = new[..., columns]
        return output


def load_storyteller(seed: int = 0) -> TinyLM:
    """Return the trained model of chapter 8: the same weights for the same seed.

    It was trained on the stories of ``make_stories(9_600, seed=0)``, with the tokens of
    a ``BPETokenizer`` of the first 2,000. Its weights are stored in float16, and
    returned in the default type.

    Args:
        seed: 0, as in chapter 8, or 1 or 2: different initial weights, all else equal.

    Raises:
        TypeError: a seed that is not an int.
        ValueError: a seed that was not kept.
    """
    require_not_negative(seed=seed)
    if seed > 2:
        raise ValueError(f"seed must be 0, 1 or 2: only these were kept; got {seed}")
    path = Path(__file__).parent / "texts" / "storytellers.safetensors"
    prefix = f"{seed}."
    state = {
        name.removeprefix(prefix): tensor
        for name, tensor in load_file(path).items()
        if name.startswith(prefix)
    }
    vocab_size, width = state["token_embedding.weight"].shape
    context_len = len(state["positions.embedding.weight"])
    model = TinyLM(ModelConfig(vocab_size, context_len, width, 4, 2, mha="sdpa"))
    model.load_state_dict(state)
    return model.eval()


def _blocks(model: nn.Module) -> list[Any]:
    return [*model.blocks]  # type: ignore[misc]


def _columns(x: Tensor, head: int, count: int) -> slice:
    """Return the columns of one head, where all heads are side by side."""
    width = x.shape[-1] // count
    return slice(head * width, (head + 1) * width)


def _with(context: Tensor, head: int, count: int, value: Tensor | float) -> Tensor:
    """Return all heads' outputs, (B, T, H·D), with one of them replaced by a value."""
    new = context.clone()
    columns = _columns(context, head, count)
    new[..., columns] = fitted_patch(value, new[..., columns])
    return new


def _ask(part: nn.Module, x: Tensor) -> Tensor:
    """Call a part with all its hooks except those of these instruments."""
    token = _ASKING.set(True)
    try:
        return part(x)
    finally:
        _ASKING.reset(token)


def _change(
    block: Any,
    out_proj: nn.Module,
    context: Tensor,
    output: Tensor,
    head: tuple[int, int],
    value: Tensor | float,
) -> Float[Tensor, "B T M"]:
    """Return how the stream after a block changes when one head's output is a value.

    Args:
        block: the head's.
        out_proj: of its attention.
        context: the outputs of all heads.
        output: of ``out_proj``, for this context.
        head: its index in the layer, and the number of heads.
        value: the output that replaces the head's.
    """
    weight, columns = weight_of(out_proj), _columns(context, *head)
    hooks = *out_proj._forward_hooks.values(), *out_proj._forward_pre_hooks.values()
    foreign = any(getattr(hook, "__module__", "") != __name__ for hook in hooks)
    foreign = foreign or "forward" in vars(out_proj)  # as accelerate replaces it
    if weight is None or foreign or getattr(block, "norm_outputs", False):
        new = _ask(out_proj, _with(context, *head, value))
        return _added(block, new) - _added(block, output)
    # A difference, so the bias cancels.
    value = fitted_patch(value, context[..., columns])
    return (value - context[..., columns]) @ weight[:, columns].T


def _added(block: Any, output: Tensor) -> Tensor:
    """Return what a block adds to the stream, given the output of its attention."""
    if getattr(block, "norm_outputs", False):  # as in Gemma 2 and 3
        return _ask(block.attention_out_norm, output)
    return output
