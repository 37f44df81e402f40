"""attention_lib.tiny_llama: the gated network, and the model as a whole."""

import pytest
import torch
import torch.nn.functional as F

from attention_lib.reproducibility import seeded
from attention_lib.tiny_llama import ACTIVATIONS, LlamaConfig, SwiGLU, TinyLlama
from attention_lib.training import TrainConfig, train

SIZES = dict(
    vocab_size=11,
    context_len=9,
    d_model=12,
    num_heads=6,
    num_kv_heads=3,
    num_layers=2,
    hidden_dim=20,
)
IDS = torch.randint(11, (2, 9), generator=seeded(0))


def model(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TinyLlama(LlamaConfig(**SIZES | options)).double()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_swiglu_is_a_gate_times_a_value(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = SwiGLU(3, 4, activation=name)
    x = torch.randn(2, 5, 3, generator=seeded(0))
    act = {"silu": lambda z: z * z.sigmoid(), "gelu": F.gelu}.get(
        name, lambda z: z * (1 + (0.7978846 * (z + 0.044715 * z**3)).tanh()) / 2
    )
    gate, up, down = (part.weight for part in layer.children())
    torch.testing.assert_close(layer(x), (act(x @ gate.T) * (x @ up.T)) @ down.T)


def test_llama_gives_the_weights_of_every_query_head():
    weights = model(window=3).attention_weights(IDS)
    assert [own.shape for own in weights] == [(2, 6, 9, 9)] * 2
    torch.testing.assert_close(weights[1].sum(-1), torch.ones(2, 6, 9).double())
    assert not weights[1].tril(-3).any()


def test_llama_learns_a_text():
    made, text = model(tie_weights=True), IDS[0].repeat(4)[:9]
    config = TrainConfig(steps=40, batch_size=1, warmup=2, learning_rate=0.02)
    losses = train(made, [text], config)
    assert losses[0] > 1.5
    assert losses[-1] < 0.1
