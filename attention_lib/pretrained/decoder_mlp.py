"""The MLPs of published decoders: plain, gated, and a choice of experts.

Shapes: B batch, T tokens, M d_model.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attention_lib.precision import widened
from attention_lib.pretrained.decoder_config import DecoderConfig
from attention_lib.tiny_llama import SwiGLU
from attention_lib.validation import (
    require_choice,
    require_instance,
    require_positive,
    require_tokens,
)


def make_mlp(config: DecoderConfig) -> nn.Module:
    """Make the MLP of one layer."""
    require_instance("config", config, DecoderConfig)
    width, hidden = config.d_model, config.hidden_dim
    if config.mlp == "experts":
        return Experts(config)
    if config.mlp == "plain":
        return PlainMLP(width, hidden, config.activation)
    return SwiGLU(width, hidden, activation=config.activation)


class PlainMLP(nn.Module):
    """Two linear layers with biases and a GELU between them, as in GPT-2.

    Args:
        d_model: width of the input and of the output.
        hidden_dim: width of the hidden layer.
        activation: ``gelu``, or ``gelu_tanh``, which approximates it.

    Raises:
        TypeError: a width that is not an int.
        ValueError: a width below 1; another activation.
    """

    def __init__(self, d_model: int, hidden_dim: int, activation: str) -> None:
        super().__init__()
        require_positive(d_model=d_model, hidden_dim=hidden_dim)
        require_choice("activation", activation, ("gelu", "gelu_tanh"))
        self.d_model = d_model
        self.up_proj = nn.Linear(d_model, hidden_dim)
        self.down_proj = nn.Linear(hidden_dim, d_model)
        self.approximate = "tanh" if activation == "gelu_tanh" else "none"

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Compute each output token from the input token at the same position."""
        require_tokens(x, self.up_proj, self.d_model)
        return self.down_proj(F.gelu(self.up_proj(x), approximate=self.approximate))


class Experts(nn.Module):
    """Many small MLPs; a router sends each token through a few of them.

    As in gpt-oss (OpenAI, 2025): the outputs are mixed by a softmax over the chosen
    experts' scores, the gate is x · sigmoid(alpha · x), and inputs are clamped.

    Args:
        config: of the model.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        require_instance("config", config, DecoderConfig)
        require_choice("mlp, in config,", config.mlp, ("experts",))
        experts, width, hidden = config.num_experts, config.d_model, config.hidden_dim
        self.d_model = width
        self.router = nn.Linear(width, experts)
        self.experts_gate_up = nn.Parameter(torch.empty(experts, width, 2 * hidden))
        self.experts_gate_up_bias = nn.Parameter(torch.zeros(experts, 2 * hidden))
        self.experts_down = nn.Parameter(torch.empty(experts, hidden, width))
        self.experts_down_bias = nn.Parameter(torch.zeros(experts, width))
        for weight in (self.experts_gate_up, self.experts_down):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        self.chosen = config.experts_per_token
        self.limit, self.alpha = config.expert_limit, config.expert_alpha

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Send each token through its experts, and mix their outputs."""
        require_tokens(x, self.router, self.d_model)
        scores, indices = self.router(x).topk(self.chosen, dim=-1)  # (B, T, chosen)
        (scores,) = widened(scores)
        shares = scores.softmax(dim=-1)
        mixed = shares.new_zeros(x.shape)
        for expert in range(len(self.experts_down)):
            hit = indices == expert  # (B, T, chosen)
            tokens = hit.any(dim=-1)  # (B, T)
            share = (shares * hit).sum(dim=-1)[tokens]  # (tokens,)
            mixed[tokens] += share[:, None] * self._through(x[tokens], expert)
        return mixed.to(x.dtype)

    def _through(self, x: Tensor, expert: int) -> Tensor:
        hidden = x @ self.experts_gate_up[expert] + self.experts_gate_up_bias[expert]
        gate = hidden[..., 0::2].clamp(max=self.limit)
        up = hidden[..., 1::2].clamp(-self.limit, self.limit)
        out = (up + 1) * gate * torch.sigmoid(self.alpha * gate)
        return out @ self.experts_down[expert] + self.experts_down_bias[expert]
