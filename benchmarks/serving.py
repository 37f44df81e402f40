"""Many requests of unequal length: one by one, in static batches, continuously.

All models have the same weights, so all generate the same tokens. A case is the whole
stream; all its requests are there from the start. Each call returns, by the given
clock, when each request had its first token and its last.
"""

import math
import os
from collections.abc import Callable, Iterator
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from attention_lib.data import pad_texts
from attention_lib.generation import generate
from attention_lib.pretrained import Decoder, load_pretrained
from attention_lib.reproducibility import seeded
from attention_lib.serving import Server

os.environ["TQDM_DISABLE"] = "1"  # it draws its bars with a thread of its own

VOCAB_SIZE, CONTEXT_LEN = 1000, 256
D_MODEL, NUM_HEADS, KV_HEADS, NUM_LAYERS = 256, 4, 2, 4
STREAMS, REQUESTS, BATCH = (0, 1, 2), 32, 8  # the seeds of the streams
SHORTEST, MEDIAN, LONGEST, SPREAD = 4, 24, 182, 0.9  # tokens to write, log-normal
PAGE_LEN, NUM_PAGES, PROMPT_TOKENS = 16, 128, 64
REFERENCE, STATIC, THEIRS = "one by one", "static batches of 8", "Hugging Face"
OURS, MORE = "Server, 8 at a time", "Server, 32 at a time"
THEIR_ONE = f"{THEIRS} generate, one by one"
THEIR_STATIC = f"{THEIRS} generate, batches of 8"
THEIR_BATCH = f"{THEIRS} generate_batch"
Clock = Callable[[], float]


class Wanted(NamedTuple):
    """The arguments of one request."""

    prompt: list[int]
    count: int


class Served(NamedTuple):
    """The result of one request: the new tokens, and the first and the last time."""

    tokens: list[int]
    first: float
    last: float


Way = Callable[[list[Wanted], Clock], Iterator[Served]]


def make_stream(seed: int, count: int = REQUESTS) -> list[Wanted]:
    """Make prompts of 8 to 48 tokens; few of the generated texts are long."""
    draw = seeded(seed)
    stream = []
    for _ in range(count):
        prompt_len = int(torch.randint(8, 49, (), generator=draw))
        prompt = torch.randint(VOCAB_SIZE, (prompt_len,), generator=draw).tolist()
        more = MEDIAN * math.exp(SPREAD * float(torch.randn((), generator=draw)))
        stream.append(Wanted(prompt, min(max(round(more), SHORTEST), LONGEST)))
    return stream


@cache
def their_model() -> LlamaForCausalLM:
    """Return their model; its weights are so large that no two tokens nearly tie."""
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        max_position_embeddings=CONTEXT_LEN,
        hidden_size=D_MODEL,
        intermediate_size=4 * D_MODEL,
        num_attention_heads=NUM_HEADS,
        num_key_value_heads=KV_HEADS,
        num_hidden_layers=NUM_LAYERS,
        initializer_range=0.08,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


@cache
def our_model() -> Decoder:
    """Return our model, with their weights."""
    with TemporaryDirectory() as folder:
        their_model().save_pretrained(folder)
        return load_pretrained(folder).eval()


def timed(
    model: nn.Module,
    clock: Clock,
    write: Callable[..., Tensor],
    *given: Any,
    **how: Any,
) -> tuple[list[list[int]], float, float]:
    """Return the texts, and when the model was first and last called for them."""
    times: list[float] = []
    hook = model.register_forward_hook(lambda *_: times.append(clock()))
    texts = write(*given, **how).tolist()
    hook.remove()
    return texts, times[0], clock()


def one_by_one(stream: list[Wanted], clock: Clock) -> Iterator[Served]:
    model = our_model()
    for prompt, count in stream:
        given = model, torch.tensor([prompt])
        texts, *when = timed(model, clock, generate, *given, max_new_tokens=count)
        yield Served(texts[0][len(prompt) :], *when)


def static(stream: list[Wanted], clock: Clock) -> Iterator[Served]:
    """Generate in static batches, up to the longest text of each; drop the rest."""
    model = our_model()
    for batch in batches(stream):
        ids, lengths = pad_texts([torch.tensor(prompt) for prompt, _ in batch])
        how = {"max_new_tokens": max(count for _, count in batch), "lengths": lengths}
        texts, *when = timed(model, clock, generate, model, ids, **how)
        for text, (prompt, count) in zip(texts, batch, strict=True):
            yield Served(text[len(prompt) :][:count], *when)


def batches(stream: list[Wanted], size: int = BATCH) -> list[list[Wanted]]:
    return [stream[i : i + size] for i in range(0, len(stream), size)]


def continuous(slots: int) -> Way:
    def serve(stream: list[Wanted], clock: Clock) -> Iterator[Served]:
        server = Server(
            our_model(),
            num_pages=NUM_PAGES,
            page_len=PAGE_LEN,
            max_batch=slots,
            step_tokens=slots + PROMPT_TOKENS,
        )
        requests = [server.submit(p, max_new_tokens=n) for p, n in stream]
        first, last = [0.0] * len(stream), [0.0] * len(stream)
        while not all(request.done for request in requests):
            server.step()
            now = clock()
            for i, request in enumerate(requests):
                first[i] = first[i] or (now if request.tokens else 0.0)
                last[i] = last[i] or (now if request.done else 0.0)
        for request, begun, ended in zip(requests, first, last, strict=True):
            yield Served(request.tokens, begun, ended)

    return serve


def their_generate(size: int) -> Way:
    def write(stream: list[Wanted], clock: Clock) -> Iterator[Served]:
        model = their_model()
        for batch in batches(stream, size):
            longest = max(len(prompt) for prompt, _ in batch)
            left = [longest - len(prompt) for prompt, _ in batch]
            rows = [[0] * n + b.prompt for n, b in zip(left, batch, strict=True)]
            seen = torch.arange(longest) >= torch.tensor(left)[:, None]
            how = {"max_new_tokens": max(count for _, count in batch)}
            how |= {"attention_mask": seen.long(), "do_sample": False}
            texts, *when = timed(
                model, clock, model.generate, torch.tensor(rows), **how
            )
            for text, (_, count) in zip(texts, batch, strict=True):
                yield Served(text[longest:][:count], *when)

    return write


def their_batch(stream: list[Wanted], clock: Clock) -> Iterator[Served]:
    """Run their server, which reports when a text is done, not its first token."""
    model = their_model()
    how = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
    sizes = ContinuousBatchingConfig(
        num_blocks=NUM_PAGES, page_size=PAGE_LEN, max_batch_tokens=BATCH + PROMPT_TOKENS
    )
    served: dict[str, Served] = {}
    with model.continuous_batching_context_manager(
        generation_config=how, continuous_batching_config=sizes, warmup=False
    ) as manager:
        for number, (prompt, count) in enumerate(stream):
            manager.add_request(prompt, max_new_tokens=count, request_id=f"{number}")
        while len(served) < len(stream):
            if found := manager.get_result(timeout=1):
                tokens = list(found.generated_tokens)
                served[found.request_id] = Served(tokens, math.nan, clock())
    for number in range(len(stream)):
        yield served[f"{number}"]


WAYS: dict[str, Way] = {
    REFERENCE: one_by_one,
    STATIC: static,
    OURS: continuous(BATCH),
    MORE: continuous(REQUESTS),
    THEIR_ONE: their_generate(1),
    THEIR_STATIC: their_generate(BATCH),
    THEIR_BATCH: their_batch,
}


def serve(name: str, stream: list[Wanted], clock: Clock) -> list[Served]:
    """Run the timed call: the whole stream; times count from its beginning."""
    start = clock()
    return [
        Served(tokens, first - start, last - start)
        for tokens, first, last in WAYS[name](stream, clock)
    ]
