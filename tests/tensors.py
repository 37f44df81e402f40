"""What tests of tensors share: equal to the bit, and results with their gradients."""

from contextlib import contextmanager

import torch


@contextmanager
def global_seed(seed):
    """What draws from the global generator draws the same; afterwards it goes on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def assert_same(result, wanted):
    torch.testing.assert_close(result, wanted, rtol=0, atol=0)


def values_and_gradients(function, *inputs):
    """The result, and the gradient of each input, for one direction of the result."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    result = function(*inputs)
    direction = torch.linspace(-1, 1, result.numel(), dtype=result.dtype)
    gradients = torch.autograd.grad(result, inputs, direction.view_as(result))
    return result, *gradients


def assert_leaves_alone(function, *inputs):
    before = [tensor.clone() for tensor in inputs]
    function(*inputs)
    for tensor, copy in zip(inputs, before, strict=True):
        assert_same(tensor, copy)
