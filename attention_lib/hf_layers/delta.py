"""Qwen3-Next's and Kimi Linear's layers, whose state is updated by the delta rule."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from attention_lib.kv_cache import repeat_texts
from attention_lib.linear_attention import delta_chunk, delta_step, gated_delta_rule
from attention_lib.norms import RMSNorm
from attention_lib.precision import widened
from attention_lib.validation import is_traced

CHUNK = 64  # tokens that are read at once


class DeltaCache:
    """What a delta layer keeps of a text, whatever its length.

    Attributes:
        state: (B, H, D, V), or None before the first token.
        last: the inputs of the last tokens, for the short convolution.
    """

    state: Tensor | None = None
    last: Tensor | None = None

    def repeat(self, times: int) -> "DeltaCache":
        """Return a cache that holds ``times`` copies of every text."""
        return repeat_texts(self, times)


def refuse_padding_within(cache: DeltaCache | None, mask: Tensor) -> None:
    """Refuse padding after tokens that a cache holds: the state would decay there.

    Only a call with a cache reads the values of its mask; a compiled call never does.

    Raises:
        ValueError: padding after a token, in this call or an earlier one.
    """
    if cache is None or torch.compiler.is_compiling() or is_traced(mask):
        return
    seen = mask.bool()
    padded = ~seen if cache.state is not None else seen[..., :-1] & ~seen[..., 1:]
    if padded.any():
        raise ValueError(
            "mask must be True after a text's first token, cached or not: "
            "padding there would change the state; pad on the left, or read texts of "
            "unequal length one by one"
        )


class DeltaAttention(nn.Module):
    """What layers with a state share: short convolution, unit keys, an output gate.

    Args:
        layer: the published one; its convolution is copied.
        norm: its gated norm of the state's output.
        out: its output projection.
        squash: the gate's activation.
    """

    def __init__(self, layer: Any, norm: Any, out: nn.Linear, squash: Any) -> None:
        super().__init__()
        if layer.activation != "silu":
            raise ValueError(f"layer has hidden_act {layer.activation}: not supported")
        self.conv = nn.Parameter(layer.conv1d.weight.detach().clone())
        self.norm = RMSNorm(len(norm.weight), eps=norm.variance_epsilon)
        self.norm.weight = nn.Parameter(norm.weight.detach().clone())
        self.out_proj = copy.deepcopy(out)
        self.squash = squash

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        positions: Num[Tensor, "*B T"] | None = None,
        cache: DeltaCache | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Write each token into the state, and read from it.

        Args:
            x: the tokens; with a cache, those that are new.
            mask: which tokens are real; padding is read as zeros, and may come before
                a text, or, without a cache, after it, but not between its tokens.
            positions: not used: this layer depends on the order of tokens only.
            cache: a ``DeltaCache``, which this call changes.
        """
        if mask is not None:
            refuse_padding_within(cache, mask)
            x = x * mask[..., None]
        mixed, gate, log_decay, beta = self._project(x)
        mixed = F.silu(self._convolve(mixed, cache))
        query, key, value = self._split(mixed)  # (B, H, T, D)
        query, key = _unit(query) * query.shape[-1] ** -0.5, _unit(key)
        numbers = widened(query, key, value, log_decay, beta)  # (B, H, T, ...) each
        context = self._mix(numbers, cache).transpose(1, 2).to(x.dtype)  # (B, T, H, V)
        context = self.norm(context) * self.squash(*widened(gate))
        return self.out_proj(context.flatten(2).to(x.dtype))

    def new_cache(self, batch_size: int, max_len: int) -> DeltaCache:
        """Make an empty cache; its size depends neither on texts nor on lengths."""
        return DeltaCache()

    def _convolve(
        self, mixed: Float[Tensor, "B T C"], cache: DeltaCache | None
    ) -> Float[Tensor, "B T C"]:
        """Sum each channel over the last few tokens, with its own weights."""
        size = self.conv.shape[-1]
        if cache is None or cache.last is None:
            mixed = F.pad(mixed, (0, 0, size - 1, 0))
        else:
            mixed = torch.cat((cache.last, mixed), dim=1)
        if cache is not None:
            cache.last = mixed[:, mixed.shape[1] + 1 - size :]
        channels = mixed.shape[-1]
        return F.conv1d(mixed.mT, self.conv, groups=channels).mT

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries, keys and values together, the gate, the decay, and beta."""
        raise NotImplementedError

    def _split(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split the convolution's output into queries, keys and values of heads."""
        raise NotImplementedError

    def _mix(self, numbers: list[Tensor], cache: DeltaCache | None) -> Tensor:
        """Write and read by the gated delta rule, starting from the cached state."""
        query, key, value, log_decay, beta = numbers
        if cache is None:
            return gated_delta_rule(query, key, value, log_decay, beta)
        state = cache.state
        if state is None:
            state = value.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
        columns = query, key, value, log_decay[..., None], beta[..., None]
        out = []
        parts = (it.split(CHUNK, dim=2) for it in columns)
        for q, k, v, fade, b in zip(*parts, strict=True):
            context, state = delta_chunk(q, k, v, fade, b, state)
            out.append(context)
        cache.state = state
        return torch.cat(out, dim=2)


class GatedDeltaNet(DeltaAttention):
    """Qwen3-Next's other layers: one decay per head and token.

    Rows of its projections are grouped by KV head: [query, key, value, gate].
    """

    def __init__(self, layer: Any) -> None:
        super().__init__(layer, layer.norm, layer.out_proj, F.silu)
        self.heads = layer.num_k_heads, layer.num_v_heads
        self.widths = layer.head_k_dim, layer.head_v_dim
        self.in_proj = copy.deepcopy(layer.in_proj_qkvz)
        self.decay_proj = copy.deepcopy(layer.in_proj_ba)
        self.log_rate = nn.Parameter(layer.A_log.detach().clone())
        self.decay_bias = nn.Parameter(layer.dt_bias.detach().clone())

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (keys, values), (key_dim, value_dim) = self.heads, self.widths
        each = values // keys  # value heads that share a key head
        widths = [key_dim, key_dim, each * value_dim, each * value_dim]
        parts = self.in_proj(x).unflatten(-1, (keys, -1)).split(widths, dim=-1)
        mixed = torch.cat([part.flatten(2) for part in parts[:3]], dim=-1)
        gate = parts[3].unflatten(-1, (each, value_dim)).flatten(2, 3)
        beta, pace = self.decay_proj(x).unflatten(-1, (keys, 2, each)).unbind(-2)
        pace, beta, log_rate = widened(pace.flatten(2), beta.flatten(2), self.log_rate)
        log_decay = -log_rate.exp() * F.softplus(pace + self.decay_bias)  # (B, T, H)
        return mixed, gate, log_decay.mT, beta.sigmoid().mT

    def _split(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (keys, values), (key_dim, value_dim) = self.heads, self.widths
        widths = [keys * key_dim, keys * key_dim, values * value_dim]
        query, key, value = mixed.split(widths, dim=-1)
        query, key = (
            it.unflatten(-1, (keys, key_dim)).repeat_interleave(values // keys, dim=2)
            for it in (query, key)
        )
        value = value.unflatten(-1, (values, value_dim))
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


class KimiDeltaAttention(DeltaAttention):
    """Kimi Linear: each channel of a key has its own decay."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer, layer.o_norm, layer.o_proj, torch.sigmoid)
        self.num_heads = layer.num_heads
        for name in ("q_proj", "k_proj", "v_proj", "b_proj", "g_a_proj", "g_b_proj"):
            self.add_module(name, copy.deepcopy(getattr(layer, name)))
        gate = layer.forget_gate
        self.decay_proj = copy.deepcopy(nn.Sequential(gate.f_a_proj, gate.f_b_proj))
        self.log_rate = nn.Parameter(gate.A_log.detach().clone().flatten())
        self.decay_bias = nn.Parameter(gate.dt_bias.detach().clone())

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        parts = [self.get_submodule(f"{name}_proj")(x) for name in "qkv"]
        gate = self.get_submodule("g_b_proj")(self.get_submodule("g_a_proj")(x))
        pace, beta, log_rate = widened(
            self.decay_proj(x), self.get_submodule("b_proj")(x), self.log_rate
        )
        pace = F.softplus(pace + self.decay_bias)
        pace = pace.unflatten(-1, (self.num_heads, -1))  # (B, T, H, D)
        log_decay = -log_rate.exp()[:, None] * pace
        beta = beta.sigmoid().mT
        gate = gate.unflatten(-1, (self.num_heads, -1))
        return torch.cat(parts, dim=-1), gate, log_decay.transpose(1, 2), beta

    def _split(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads = mixed.unflatten(-1, (3, self.num_heads, -1))  # (B, T, 3, H, D)
        query, key, value = heads.transpose(1, 3).unbind(2)
        return query, key, value

    def _mix(self, numbers: list[Tensor], cache: DeltaCache | None) -> Tensor:
        """Let each channel of the state decay, then write by the delta rule."""
        query, key, value, log_decay, beta = numbers
        state = None if cache is None else cache.state
        if state is None:
            state = value.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
        steps = (query, key, value, log_decay[..., None], beta[..., None])
        kept = beta.new_zeros(*beta.shape[:2], 1, 1)  # no decay by the rule itself
        out = []
        for q, k, v, fade, b in zip(*(it.split(1, 2) for it in steps), strict=True):
            state = state * fade.squeeze(2).exp()  # (B, H, D, 1): each row its own
            context, state = delta_step(q, k, v, kept, b, state)
            out.append(context)
        if cache is not None:
            cache.state = state
        return torch.cat(out, dim=2)


def _unit(x: Tensor) -> Tensor:
    """Scale each vector to length 1."""
    (x,) = widened(x)
    return x * (x.square().sum(dim=-1, keepdim=True) + 1e-6).rsqrt()
