"""What a head does: scores of its map, its removal, and the paths between two heads.

A head is named by its place, (layer, head), both counted from 0. What a head finds is
its context (B, T, D), before the output projection.

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
    require_choice,
    require_compared,
    require_generator,
    require_head_maps,
    require_head_path,
    require_head_places,
    require_instance,
    require_not_negative,
    require_periods,
    require_positive,
)

HeadIndex = tuple[int, int]  # layer and head, from 0
# Whether an instrument calls a part itself: then no instrument notes or changes it.
_ASKING: ContextVar[bool] = ContextVar("_ASKING", default=False)


def repeated_texts(
    count: int,
    length: int,
    vocab_size: int,
    *,
    periods: tuple[int, int] = (6, 16),
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Draws texts that repeat a piece of different tokens until they are full.

    Args:
        count: how many texts.
        length: of each text.
        vocab_size: tokens are drawn from so many.
        periods: the shortest and the longest piece; each text has its own length.
        generator: on the CPU, so that every device draws the same.

    Returns:
        The token ids, and True where a token has stood in the text before.

    Raises:
        TypeError: a size that is not an int; a generator that is none.
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
    places = torch.arange(length)
    return order.gather(1, places % period), places >= period


def induction_targets(token_ids: Int[Tensor, "B T"]) -> Bool[Tensor, "B T T"]:
    """Says for each query which keys stand right after an earlier copy of its token.

    Raises:
        TypeError: ids that are not whole numbers.
        ValueError: ids that are not (B, T).
    """
    require_compared(token_ids)
    length = token_ids.shape[1]
    before = token_ids.roll(1, dims=1)  # at each place the token before it
    found = token_ids[:, :, None] == before[:, None, :]  # (B, T, T)
    found[:, :, 0] = False  # nothing stands before the first
    return found & causal_mask(length, device=token_ids.device)


def previous_token_score(weights: Float[Tensor, "B H T T"]) -> Float[Tensor, " H"]:
    """Gives each head's mean weight on the token before the query.

    The first query, which has none, does not count.

    Raises:
        TypeError: weights that are no floats.
        ValueError: weights that are not (B, H, T, T), or of a single token.
    """
    require_head_maps(weights)
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 2))


def induction_score(
    weights: Float[Tensor, "B H T T"], token_ids: Int[Tensor, "B T"]
) -> Float[Tensor, " H"]:
    """Gives each head's mean weight on what followed earlier copies of the query.

    Queries whose token is new do not count. A query may have several earlier copies:
    the weights on all of them are summed.

    Raises:
        TypeError: weights that are no floats; ids that are not whole numbers.
        ValueError: weights that are not (B, H, T, T), or not of these texts.
    """
    require_head_maps(weights, token_ids)
    wanted = induction_targets(token_ids)
    counts = wanted.any(dim=-1).sum().clamp(min=1)
    return (weights * wanted[:, None]).sum(dim=(0, 2, 3)) / counts


class AttentionBlock(TinyBlock):
    """A ``TinyBlock`` that normalises first, and has no MLP.

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
        """Adds the output of attention to the stream."""
        found = self.attention(
            self.attention_norm(x), mask, causal=causal, angles=angles, cache=cache
        )
        return x + self.dropout(found)

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Float[Tensor, "*B T P"] | None = None,
    ) -> Float[Tensor, "B H T T"]:
        """Gives the attention weights of each head, before dropout."""
        return self.attention.attention_weights(
            self.attention_norm(x), mask, causal=causal, angles=angles
        )


class AttentionOnlyLM(TinyLM):
    """A ``TinyLM`` whose blocks are ``AttentionBlock``, as in Elhage et al. (2021).

    There the blocks have no norms either. Its call is that of a ``LanguageModel``.

    Args:
        config: the sizes and choices; it must normalise first.

    Raises:
        TypeError: a config of another kind.
        ValueError: another norm.
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
            # Its weights have been drawn.
            block.attention = drawn.attention  # type: ignore[assignment]
        self.blocks = nn.ModuleList(blocks)


@torch.no_grad()
def head_outputs(
    model: nn.Module, token_ids: Int[Tensor, "B T"]
) -> list[Float[Tensor, "B H T D"]]:
    """Gives what the heads of each layer find in texts, before the output projection.

    Raises:
        TypeError: no model with blocks.
    """
    require_head_places(model)
    found: list[Tensor] = []
    with ExitStack() as hooks:
        for block in _blocks(model):
            layer = block.attention

            def keep(
                _: nn.Module, inputs: Any, num_heads: int = layer.num_heads
            ) -> None:
                if not _ASKING.get():
                    found.append(split_heads(inputs[0], num_heads))

            hooks.enter_context(layer.out_proj.register_forward_pre_hook(keep))
        model(token_ids)
    return found


@contextmanager
def patch_heads(
    model: nn.Module, values: Mapping[HeadIndex, Tensor | float]
) -> Iterator[None]:
    """Replaces what heads find, in all calls of the model inside the ``with``.

    Args:
        model: has ``blocks``, each with an ``attention`` that ends in ``out_proj``.
        values: for each place what its head shall find, broadcast to (B, T, D): 0 for
            nothing, a mean, or what it found in another text.

    Raises:
        TypeError: no model with blocks; a place that is not two ints.
        ValueError: a place that the model does not have.
    """
    require_instance("values", values, Mapping)
    for place in values:
        require_head_places(model, **{"a place of values": place})
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
    """Replaces what one head gives to another, on one way only.

    The receiver's queries, keys or values are made from a stream in which the sender
    found ``value``. All else, such as what the sender adds for later layers, is as
    before: "path patching", Wang et al. (2022), Goldowsky-Dill et al. (2023). Paths
    from several senders into the same projection of a head are replaced together. To
    find what would come, parts on the way may be called more often than once.

    Args:
        model: as in ``patch_heads``; the receiver's block normalises first.
        sender: the earlier head.
        receiver: a head of a later layer.
        into: the projection of the receiver that the path enters. Query heads that
            share a KV head share these paths too: the path into the key of one is the
            path into the keys of its whole group.
        value: the output that replaces the sender's, broadcast to (B, T, D).

    Raises:
        TypeError: no model with blocks; a place that is not two ints.
        ValueError: a place that the model does not have; a sender that is not earlier;
            another kind of block or attention.
    """
    require_head_path(model, sender, receiver, into)
    first, block = _blocks(model)[sender[0]], _blocks(model)[receiver[0]]
    projection = getattr(block.attention, f"{into[0]}_proj")
    receive = _Receiver(block, receiver[1], into)
    for other in projection._forward_hooks.values():
        if isinstance(other, _Receiver) and other.place == receive.place:
            receive.kept = other.kept
    kept: dict[str, Tensor] = {}

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
        into: which projection is meant; a hook of that one calls this object.
    """

    def __init__(self, block: Any, head: int, into: str) -> None:
        count = groups = block.attention.num_heads
        if into != "query":
            groups = getattr(block.attention, "num_kv_heads", count)
        self.block, self.place = block, (head * groups // count, groups)
        self.kept: list[dict[str, Tensor]] = []  # of each path: a change, the stream

    def forget(self, path: dict[str, Tensor]) -> None:
        """Leave one path out again."""
        self.kept[:] = [own for own in self.kept if own is not path]

    def __call__(self, projection: nn.Module, inputs: Any, output: Tensor) -> Any:
        if _ASKING.get():
            return None
        stream = self.kept[0]["stream"]
        for path in self.kept:
            stream = stream + path["change"]
        new = _ask(projection, _ask(self.block.attention_norm, stream))
        own = _rows(output, *self.place)
        output = output.clone()
        output[..., own] = new[..., own]
        return output


def load_storyteller(seed: int = 0) -> TinyLM:
    """Gives the model of chapter 8 after its run: the same model for the same seed.

    It was trained on the stories of ``make_stories(9_600, seed=0)``, with the tokens of
    a ``BPETokenizer`` of the first 2,000. Its weights were kept in float16, and are
    given in the default type.

    Args:
        seed: 0, as in chapter 8, or 1 or 2: other first weights, all else the same.

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


def _rows(x: Tensor, head: int, count: int) -> slice:
    """Return the columns of one head, where all heads are side by side."""
    width = x.shape[-1] // count
    return slice(head * width, (head + 1) * width)


def _with(context: Tensor, head: int, count: int, value: Tensor | float) -> Tensor:
    """Return what all heads found, (B, T, H·D), with another value for one of them."""
    new = context.clone()
    new[..., _rows(context, head, count)] = value
    return new


def _ask(part: nn.Module, x: Tensor) -> Tensor:
    """Call a part as it is, with all its hooks but those of these instruments."""
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
    """Return how the stream changes behind a block where one head finds a value.

    Args:
        block: the head's.
        out_proj: of its attention.
        context: what all heads found.
        output: of ``out_proj``, for this context.
        head: its number, and how many there are.
        value: the output that replaces the head's.
    """
    weight, own = weight_of(out_proj), _rows(context, *head)
    hooks = *out_proj._forward_hooks.values(), *out_proj._forward_pre_hooks.values()
    foreign = any(getattr(hook, "__module__", "") != __name__ for hook in hooks)
    if weight is None or foreign or getattr(block, "norm_outputs", False):
        new = _ask(out_proj, _with(context, *head, value))
        return _added(block, new) - _added(block, output)
    return (value - context[..., own]) @ weight[:, own].T  # a difference, so no bias


def _added(block: Any, found: Tensor) -> Tensor:
    """Return what a block adds to the stream, from the output of its attention."""
    if getattr(block, "norm_outputs", False):  # as in Gemma 2 and 3
        return _ask(block.attention_out_norm, found)
    return found
