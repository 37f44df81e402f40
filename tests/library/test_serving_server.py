"""attention_lib.serving: what is read and shared, and when; what is refused.

That each text is as if it were alone, and no page lost, is in
test_matrix_generation.py.
"""

import time

import pytest
import torch
from torch.testing import assert_close

from attention_lib.generation import generate
from attention_lib.reproducibility import seeded
from attention_lib.serving import PagedCache, PagePool, Server, page_hash
from attention_lib.tiny_lm import ModelConfig, TinyLM

pytestmark = pytest.mark.long

VOCAB_SIZE, CONTEXT_LEN = 7, 40


def tiny(kind):
    torch.manual_seed(0)
    sizes = VOCAB_SIZE, CONTEXT_LEN, 8, 2, 2
    model = TinyLM(ModelConfig(*sizes, positions=kind, mha="sdpa"))
    model.head.weight.data *= 30  # else all tokens are as likely
    return model.double().eval()


MODEL = tiny("rotary")


def alone(model, prompt, max_new_tokens, stop=None, seed=None):
    drawn = {} if seed is None else {"temperature": 2.0, "generator": seeded(seed)}
    options = {"max_new_tokens": max_new_tokens, "stop": stop} | drawn
    new = generate(model, torch.tensor([prompt]), **options)[0, len(prompt) :].tolist()
    return new[: new.index(stop) + 1] if stop in new else new


def submit(server, prompt, max_new_tokens, stop=None, seed=None):
    drawn = {} if seed is None else {"temperature": 2.0, "generator": seeded(seed)}
    options = {"max_new_tokens": max_new_tokens, "stop": stop} | drawn
    return server.submit(prompt, **options)


def server(model=MODEL, **sizes):
    sizes = {"num_pages": 16, "page_len": 3, "max_batch": 4} | sizes
    return Server(model, **sizes)


@torch.no_grad()
def test_pages_in_any_order_give_the_scores_of_a_plain_cache():
    model, text = tiny("learned"), torch.randint(7, (1, 9), generator=seeded(0))
    cache = PagedCache(model, num_pages=6, page_len=3)
    pages, found = [4, 0, 5], []
    for start, count in [(0, 4), (4, 1), (5, 4)]:
        fed = text[:, start : start + count].tolist()
        call = cache.prepare([pages], [start], fed)
        cache.prepare([[1]], [0], [[0, 0]])  # for another text: this call stays
        found.append(model(**call))
    assert_close(torch.cat(found, dim=1), model(text))


def test_pool_keeps_what_free_pages_hold_until_they_are_taken():
    pool, first = PagePool(2), page_hash(b"", [1, 2])
    pool.register(pool.allocate(), first)
    pool.release(0)
    assert pool.lookup([first, b"other"]) == [0]
    assert [pool.allocate(), pool.acquire(0)] == [1, 0]  # free for longer: page 1
    pool.release(0)
    assert (pool.allocate(), pool.lookup([first])) == (0, [])
    assert page_hash(first, [1, 2]) != first != page_hash(b"", [12])


@pytest.mark.usefixtures("shapes_unchecked")  # which would take most of its time
def test_taking_a_page_takes_as_long_however_many_are_gone():
    def seconds(pages):
        pools = [PagePool(pages) for _ in range(3)]
        times = []
        for pool in pools:
            start = time.perf_counter()
            for _ in range(pages):
                pool.allocate()
            times.append(time.perf_counter() - start)
        return min(times)

    # 8 times as many pages: 64 times as long, where each one walks past those gone.
    assert seconds(32_000) < 24 * seconds(4_000)


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
@pytest.mark.parametrize("later", [False, True])
def test_server_in_half_precision_writes_what_generate_writes(later):
    model, prompts = tiny("rotary").float(), [[1, 2, 3], [4, 5, 6, 0, 1], [1, 2, 3, 4]]
    if later:  # its pages hold keys of the first type
        ours = server(model, max_batch=2)
        ours.submit([1, 2, 3, 4], max_new_tokens=4)
        ours.run()
    model.half()
    ours = ours if later else server(model, max_batch=2)
    requests = [submit(ours, prompt, 6) for prompt in prompts]
    ours.run()
    wanted = [alone(model, prompt, 6) for prompt in prompts]
    assert [request.tokens for request in requests] == wanted


def redraw(model):
    """As a step of training: PyTorch counts it."""
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.7)


def step_fused(model):
    """A step of training that PyTorch does not count."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, fused=True)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()


def write_data(model):
    for weight in model.parameters():
        weight.data.copy_(torch.randn_like(weight))


def replace(model):
    weights = {n: torch.randn_like(w) for n, w in model.named_parameters()}
    model.load_state_dict(weights, strict=False, assign=True)


CHANGES = {each.__name__: each for each in (redraw, step_fused, write_data, replace)}


@pytest.mark.parametrize("change", CHANGES)
def test_pages_of_other_weights_are_not_used(change):
    model, prompt = tiny("rotary"), [1, 2, 3, 4, 5, 6, 0]
    ours = server(model)
    first = submit(ours, prompt, 6)
    ours.run()
    CHANGES[change](model)
    assert alone(model, prompt, 6) != first.tokens
    again = submit(ours, prompt, 6)
    assert list(ours.step().values()) == [len(prompt)]  # all of it is read
    ours.run()
    assert again.tokens == alone(model, prompt, 6)
    late = submit(ours, prompt, 6)
    assert list(ours.step().values()) == [1]  # the same weights: two pages are shared
    ours.run()
    assert late.tokens == again.tokens


@pytest.mark.parametrize("change", [redraw, replace])
def test_texts_under_way_go_on_with_the_new_weights(change):
    """They keep their tokens and their order; a twin, too; all is read anew."""
    model = tiny("rotary")
    ours = server(model, num_pages=30)
    one, other = submit(ours, [1, 2, 3, 4], 9), submit(ours, [5, 6], 9)
    for _ in range(3):
        ours.step()
    twin = ours.fork(one)
    begun = {request: [*request.text] for request in (one, other, twin)}
    change(model)
    # The twin waits for the pages that the first one is about to fill.
    assert ours.step() == {each: len(begun[each]) for each in (one, other)}
    ours.run()
    for request, text in begun.items():
        rest = alone(model, text, 9 + request.prompt_len - len(text))
        assert request.text == text + rest
    assert ours.free_pages == 30


def test_pages_are_forgotten_when_autocast_changes():
    model, prompt = tiny("rotary").float(), [1, 2, 3, 4]
    ours = server(model)
    submit(ours, prompt, 4)
    ours.run()
    with torch.autocast("cpu", torch.bfloat16):
        submit(ours, prompt, 4)
        assert list(ours.step().values()) == [4]


def test_forget_pages_after_a_small_change_of_data():
    model, prompt = tiny("rotary"), [1, 2, 3, 4]
    ours = server(model)
    submit(ours, prompt, 4)
    ours.run()
    model.blocks[0].attention.out_proj.weight.data[0, 1] += 9
    ours.forget_pages()
    request = submit(ours, prompt, 4)
    assert ours.step() == {request: 4}
    ours.run()
    assert request.tokens == alone(model, prompt, 4)


def test_a_shared_beginning_is_read_once():
    ours, begin = server(num_pages=30), [1, 2, 3, 4, 5, 6, 0]
    requests = [submit(ours, [*begin, last], 2) for last in range(4)]
    read = [ours.step() for _ in range(3)]
    # The first reads it; the others wait for its two full pages, and share them.
    assert [list(step.values()) for step in read] == [[8], [1, 2, 2, 2], [1, 1, 1]]
    assert ours.counts["shared"] == 6
    ours.run()
    late = submit(ours, [*begin, 1], 2)  # nobody uses the pages now: found again
    assert list(ours.step().values()) == [2]
    ours.run()
    assert late.tokens == requests[1].tokens == alone(MODEL, [*begin, 1], 2)


def test_without_pages_the_last_one_is_read_anew():
    ours = server(num_pages=4, max_batch=2)
    first, last = submit(ours, [1, 2, 3], 9), submit(ours, [4, 5, 6], 9)
    seen = set()
    while not last.done:
        ours.step()
        seen.add((first.state, last.state))
    assert ("running", "preempted") in seen
    assert ("preempted", "running") not in seen
    assert last.tokens == alone(MODEL, [4, 5, 6], 9)


def test_twins_draw_on_their_own_and_one_page_is_copied():
    ours = server()
    one = submit(ours, [1, 2, 3, 4], 12, seed=3)
    ours.step()
    other = ours.fork(one, generator=seeded(5))
    assert other.pages == one.pages
    ours.run()
    assert ours.counts["copied"] == 1
    assert one.tokens == alone(MODEL, [1, 2, 3, 4], 12, seed=3)
    begun = [1, 2, 3, 4, one.tokens[0]]
    assert other.tokens == one.tokens[:1] + alone(MODEL, begun, 11, seed=5)
    assert other.tokens != one.tokens


def test_a_long_prompt_is_read_in_pieces_and_stops_nobody():
    ours = server(num_pages=30, max_batch=2, step_tokens=6)
    short = submit(ours, [1], 9)
    ours.step()
    long = submit(ours, [2] * 14, 2)
    for fed, unread in [(5, 9), (5, 4), (4, 1)]:
        assert ours.step() == {short: 1, long: fed}
        assert long.unread == unread


def test_prompts_of_any_length_stand_in_one_row_as_long_as_a_text_can_be():
    ours, read, scored = server(num_pages=30, max_batch=5), [], []
    prompts = [[i] * length for i, length in enumerate([1, 14, 20, 12, 9])]
    notes = [
        part.register_forward_hook(lambda _, x, out, to=to: to.append(out.shape[:2]))
        for part, to in ((MODEL.token_embedding, read), (MODEL.head, scored))
    ]
    requests = [submit(ours, prompt, 3) for prompt in prompts[:4]]
    ours.step()
    requests.append(submit(ours, prompts[4], 3))
    ours.step()
    for note in notes:
        note.remove()
    # The context holds 40 tokens. Then each that writes has a row of its own.
    assert read == [(1, 12), (1, 1 + 14 + 20), (4, 1), (1, 9)]
    assert scored == [(1, 1), (1, 1 + 14 + 20), (4, 1), (1, 1)]
    ours.run()
    assert [one.tokens for one in requests] == [alone(MODEL, p, 3) for p in prompts]


@pytest.mark.parametrize("model", [True, False])
def test_guesses_that_are_right_save_steps(model):
    prompt, wanted = [1, 2, 3], alone(MODEL, [1, 2, 3], 13)

    def oracle(tokens, count):
        return wanted[len(tokens) - 3 :][:count]

    ours = server(draft=MODEL if model else oracle, draft_len=3)
    request = submit(ours, prompt, 13)
    ours.run()
    assert request.tokens == wanted
    # The first step has nothing to guess after; then three guesses give four tokens.
    assert ours.counts["steps"] == 1 + 3
    assert ours.counts["guessed"] == ours.counts["accepted"] == 9


def test_a_request_that_outgrows_all_pages_does_not_run_for_ever(refused):
    ours = server(num_pages=4)
    request = submit(ours, [1, 2], 11)
    request.max_new_tokens = 30
    with refused(ValueError, "the request needs 5 pages, for 13 tokens at 3 per page"):
        ours.run()
    ours.cancel(request)
    other = submit(ours, [3], 2)
    ours.run()
    assert other.state == "done"


def test_server_refuses_what_does_not_fit_in_words(refused):
    ours = server(num_pages=4)
    with refused(
        ValueError,
        "the request needs 5 pages, for 13 tokens at 3 per page; the server has 4: ask",
    ):
        submit(ours, [1, 2], 12)
    assert not ours.waiting
    submit(ours, [1, 2], 11)
    done = submit(ours, [1], 1)
    shared = seeded(0)
    ours.submit([1], max_new_tokens=1, generator=shared)
    for call in (lambda **own: ours.submit([2], max_new_tokens=1, **own),
                 lambda **own: ours.fork(done, **own)):  # fmt: skip
        with refused(ValueError, "generator must be a request's own"):
            call(generator=shared)
    ours.run()
    ours.submit([2], max_new_tokens=1, generator=shared)  # the other one is done
    ours.cancel(done)  # it is done already
    assert done.state == "done"
    with refused(ValueError, "the request is done, and this server does not know it"):
        ours.fork(done)
