"""Attention computed slowly: one text, one query after the other, in float64.

It takes the weights of a layer and calls none of its code. What a query may see is a
table (Q, K) of positions in the text: no columns, no padding, no cache.
"""

import math

import numpy as np


def attend(query, key, value, sees, scale, *, bias=None, softcap=None, sinks=None):
    """Query (H, Q, D), key (G, K, D) and value (G, K, V) give (H, Q, V)."""
    groups = len(query) // len(key)
    found = np.zeros((*query.shape[:2], value.shape[-1]))
    for head, row in np.ndindex(found.shape[:2]):
        keys = np.flatnonzero(sees[row])
        if not len(keys):
            continue
        scores = key[head // groups, keys] @ query[head, row] * scale
        if bias is not None:
            scores = scores + [bias(head, row, column) for column in keys]
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        if sinks is not None:
            scores = np.append(scores, sinks[head])
        shares = np.exp(scores - scores.max())
        shares = (shares / shares.sum())[: len(keys)]
        found[head, row] = shares @ value[head // groups, keys]
    return found


def numbers(tensor):
    return tensor.detach().double().numpy()


def linear(module, x):
    bias = 0 if module.bias is None else numbers(module.bias)
    return x @ numbers(module.weight).T + bias


def heads(x, count):
    """(T, H·D) -> (H, T, D)."""
    return x.reshape(len(x), count, -1).transpose(1, 0, 2)


def joined(found):
    """(H, T, D) -> (T, H·D)."""
    return found.transpose(1, 0, 2).reshape(found.shape[1], -1)


def turn(x, angles, layout="half"):
    """Rotate pairs of (..., T, D) as complex numbers."""
    if angles is None:
        return x
    half = x.shape[-1] // 2
    pairs = (slice(half), slice(half, None))
    if layout == "interleaved":
        pairs = (slice(0, None, 2), slice(1, None, 2))
    turned = (x[..., pairs[0]] + 1j * x[..., pairs[1]]) * np.exp(1j * angles)
    result = np.empty_like(x)
    result[..., pairs[0]], result[..., pairs[1]] = turned.real, turned.imag
    return result


def rms_norm(module, x):
    if module is None:
        return x
    weight = numbers(module.weight) + module.unit_offset
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + module.eps) * weight


def layer_norm(module, x):
    if not hasattr(module, "eps"):  # an identity
        return x
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + module.eps)
    return x * numbers(module.weight) + numbers(module.bias)


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def single_head(layer, x, sees, angles=None, memory=None):
    source = x if memory is None else memory
    key, value = linear(layer.k_proj, source)[None], linear(layer.v_proj, source)[None]
    query = linear(layer.q_proj, x)[None]
    return attend(query, key, value, sees, query.shape[-1] ** -0.5)[0]


def multi_head(layer, x, sees, angles=None, memory=None, scale=None, bias=None):
    source = x if memory is None else memory
    parts = layer.weights_by_head()

    def project(role, of):
        weight = np.stack([numbers(part) for part in parts[f"{role}_proj.weight"]])
        rows = of @ weight.transpose(0, 2, 1)  # (H, T, D)
        own = parts.get(f"{role}_proj.bias")
        return rows if own is None else rows + np.stack([*map(numbers, own)])[:, None]

    query, key = turn(project("q", x), angles), turn(project("k", source), angles)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    found = attend(query, key, project("v", source), sees, scale, bias=bias)
    return linear(layer.out_proj, joined(found))


def grouped(layer, x, sees, angles=None, memory=None):
    source = x if memory is None else memory
    query = rms_norm(layer.q_norm, heads(linear(layer.q_proj, x), layer.num_heads))
    key = heads(linear(layer.k_proj, source), layer.num_kv_heads)
    query = turn(query, angles, layer.layout)
    key = turn(rms_norm(layer.k_norm, key), angles, layer.layout)
    value = heads(linear(layer.v_proj, source), layer.num_kv_heads)
    sinks = None if layer.sinks is None else numbers(layer.sinks)
    also = {"softcap": layer.softcap, "sinks": sinks}
    found = attend(query, key, value, sees, layer.scale, **also)
    return linear(layer.out_proj, joined(found))


def latent(layer, x, sees, angles=None, memory=None):
    source = x if memory is None else memory
    nope, rope, _ = layer.widths
    if hasattr(layer.q_proj, "weight"):
        query = linear(layer.q_proj, x)
    else:
        query = rms_norm(layer.q_proj[1], linear(layer.q_proj[0], x))
        query = linear(layer.q_proj[2], query)
    query = heads(query, layer.num_heads)
    down = linear(layer.kv_down_proj, source)
    up = linear(layer.kv_up_proj, rms_norm(layer.kv_norm, down[:, :-rope]))
    up = heads(up, layer.num_heads)  # (H, K, N + V)
    turned = turn(query[..., nope:], angles, layer.layout)
    shared = turn(down[:, -rope:], angles, layer.layout)
    shared = np.broadcast_to(shared, (*up.shape[:2], rope))
    query = np.concatenate((query[..., :nope], turned), axis=-1)
    key = np.concatenate((up[..., :nope], shared), axis=-1)
    found = attend(query, key, up[..., nope:], sees, layer.scale)
    return linear(layer.out_proj, joined(found))


def relative(layer, x, sees, angles=None, memory=None):
    table = numbers(layer.distance_bias.weight)  # (buckets, H)
    far = sees.shape[1]
    by_offset = [table[bucket(layer, offset)] for offset in range(-far, far)]

    def bias(head, row, column):
        return by_offset[column - row + far][head]

    own = bias if memory is None else None
    return multi_head(layer, x, sees, angles, memory, scale=1.0, bias=own)


def bucket(layer, offset):
    """Which of its numbers T5 adds for a key so far behind its query."""
    count, first, distance = layer.distance_bias.num_embeddings, 0, max(-offset, 0)
    if layer.both_ways:
        count //= 2
        first, distance = count * (offset > 0), abs(offset)
    near = count // 2
    if distance < near:
        return first + distance
    far = math.log(distance / near) / math.log(layer.max_distance / near)
    return first + min(near + int(far * (count - near)), count - 1)


def block(layer, x, sees, angles=None):
    """A ``TinyBlock``; without an MLP, too."""

    def feed(x):
        return linear(layer.feed_forward.down_proj,
                      gelu(linear(layer.feed_forward.up_proj, x)))  # fmt: skip

    first = layer.attention_norm
    if layer.norm == "post":
        x = layer_norm(first, x + multi_head(layer.attention, x, sees, angles))
        return layer_norm(layer.feed_forward_norm, x + feed(x))
    x = x + multi_head(layer.attention, layer_norm(first, x), sees, angles)
    if not hasattr(layer, "feed_forward"):
        return x
    return x + feed(layer_norm(layer.feed_forward_norm, x))


def cross_block(layer, x, sees, memory, remembered):
    """A decoder's block; ``remembered`` (T, S) says what is seen of the memory."""
    steps = (
        (lambda x: multi_head(layer.attention, x, sees), layer.attention_norm),
        (
            lambda x: multi_head(layer.cross_attention, x, remembered, memory=memory),
            layer.cross_norm,
        ),
        (
            lambda x: linear(
                layer.feed_forward.down_proj,
                gelu(linear(layer.feed_forward.up_proj, x)),
            ),
            layer.feed_forward_norm,
        ),
    )
    for step, norm in steps:
        if layer.norm == "post":
            x = layer_norm(norm, x + step(x))
        else:
            x = x + step(layer_norm(norm, x))
    return x


def linear_attention(query, key, value):
    """Katharopoulos et al. (2020), token by token."""
    query, key = (
        np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (query, key)
    )
    state, total, found = 0, 0, []
    for q, k, v in zip(query, key, value, strict=True):
        state, total = state + np.outer(k, v), total + k
        found.append(q @ state / (q @ total))
    return np.stack(found)


def gated_delta_rule(query, key, value, log_decay, beta):
    """Yang et al. (2025), token by token."""
    state, found = np.zeros((key.shape[-1], value.shape[-1])), []
    for q, k, v, decay, share in zip(query, key, value, log_decay, beta, strict=True):
        state = state * np.exp(decay)
        state = state + share * np.outer(k, v - k @ state)
        found.append(q @ state)
    return np.stack(found)
