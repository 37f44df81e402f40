"""A function of queries, keys and values as a layer, so that it can be examined."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.masks import with_causal
from attention_lib.multi_head import add_head_axis, merge_heads, split_heads
from attention_lib.validation import require_function, require_heads

_MASKS = "mask", "attn_mask"
_CAUSAL = "causal", "is_causal"


class FunctionLayer(nn.Module):
    """Multi-head attention whose heads attend by a function.

    Args:
        function: ``function(query, key, value)``, each (B, H, T, D), gives the same
            shape, or a tuple that begins with it. It may take ``mask`` or
            ``attn_mask``, boolean, and ``causal`` or ``is_causal``.
        d_model: width of the layer.
        num_heads: number of heads.

    Raises:
        TypeError: no function; a width that is not an int.
        ValueError: a width that the heads do not divide.
    """

    def __init__(
        self, function: Callable[..., Any], d_model: int = 12, num_heads: int = 3
    ) -> None:
        super().__init__()
        require_function("function", function)
        require_heads(d_model, num_heads)
        self.function, self.d_model, self.num_heads = function, d_model, num_heads
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.q_proj = nn.Linear(d_model, d_model)
            self.k_proj = nn.Linear(d_model, d_model)
            self.v_proj = nn.Linear(d_model, d_model)
            self.out_proj = nn.Linear(d_model, d_model)
        try:
            names = list(inspect.signature(function).parameters)
        except ValueError:  # written in C, as torch's own
            names = ["attn_mask", "is_causal"]
        self.mask_name = next((name for name in _MASKS if name in names), None)
        self.causal_name = next((name for name in _CAUSAL if name in names), None)
        self.takes = {"memory"} | ({"mask", "causal"} if self.mask_name else set())
        self.takes |= {"causal"} if self.causal_name else set()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Projects, lets the function attend, and projects the result."""
        source = x if memory is None else memory
        inputs = ((self.q_proj, x), (self.k_proj, source), (self.v_proj, source))
        query, key, value = (
            split_heads(proj(of), self.num_heads) for proj, of in inputs
        )
        options: dict[str, Any] = {}
        if causal and self.causal_name and mask is None:
            options[self.causal_name] = True
        elif causal:
            mask = with_causal(add_head_axis(mask), causal, query, key)
        if mask is not None:
            options[str(self.mask_name)] = add_head_axis(mask)
        found = self.function(query, key, value, **options)
        found = found[0] if isinstance(found, tuple) else found
        return self.out_proj(merge_heads(found))
