"""A server: requests come and go, and each gets the tokens that it would get alone.

In each step the model reads some tokens of every running request: one if its text is
being generated, a piece if its prompt is being read. So requests join and leave at any
step (Yu et al., 2022), and a long prompt does not hold up the others.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor, nn

from attention_lib.kv_cache import WeightsWatch
from attention_lib.reproducibility import evaluation_mode
from attention_lib.sampling import sample_token
from attention_lib.serving.paged_cache import PagedCache, PagePool, page_hash, pages_for
from attention_lib.serving.speculative import Draft, model_draft
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import (
    require_draft,
    require_guesses,
    require_instance,
    require_open,
    require_own_generator,
    require_pages,
    require_positive,
    require_request,
    require_sampling,
    require_step_tokens,
    require_stop,
)


@dataclass(eq=False)
class Request:
    """A text that a server generates; made by ``Server.submit``.

    Attributes:
        text: the prompt, then the new tokens.
        prompt_len: the length of the prompt.
        max_new_tokens: how many tokens to add.
        stop: the token that ends the text.
        sampling: how tokens are drawn; see ``sample_token``.
        page_len: tokens per page.
        pages: its block table.
        read: how many tokens of the text are in the pages.
        state: ``waiting``, ``running``, ``preempted``, ``done`` or ``cancelled``.
    """

    text: list[int]
    prompt_len: int
    max_new_tokens: int
    stop: int | None
    sampling: dict[str, Any]
    page_len: int
    pages: list[int] = field(default_factory=list)
    read: int = 0
    state: str = "waiting"
    _hashes: list[bytes] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        """The new tokens so far; a stop is the last of them."""
        return self.text[self.prompt_len :]

    @property
    def done(self) -> bool:
        """Whether no more tokens come, since it is finished or was cancelled."""
        return self.state in ("done", "cancelled")

    @property
    def unread(self) -> int:
        """How many tokens of the text the model has not read; 1 while it generates."""
        return len(self.text) - self.read

    @property
    def finished(self) -> bool:
        """Whether the text has its last token."""
        stopped = self.left < self.max_new_tokens and self.text[-1] == self.stop
        return stopped or not self.left

    @property
    def left(self) -> int:
        """How many tokens it may still get."""
        return self.prompt_len + self.max_new_tokens - len(self.text)

    def pick(self, scores: Tensor, best: int) -> int:
        """Pick the next token from its scores (1, V), given the best one."""
        if not self.sampling.get("temperature"):
            return best
        return int(sample_token(scores, **self.sampling))

    def copy_for_fork(self, generator: Generator | None) -> "Request":
        """Return a waiting request with the same text and a generator of its own."""
        return Request(
            [*self.text],
            self.prompt_len,
            self.max_new_tokens,
            self.stop,
            self.sampling | {"generator": generator},
            self.page_len,
        )

    def page_hashes(self) -> list[bytes]:
        """Return the hashes of all pages that the text fills."""
        while len(self._hashes) < len(self.text) // self.page_len:
            start = len(self._hashes) * self.page_len
            previous = self._hashes[-1] if self._hashes else b""
            page = self.text[start : start + self.page_len]
            self._hashes.append(page_hash(previous, page))
        return self._hashes

    def unread_page_hashes(self) -> list[bytes]:
        """Return the hashes of the full pages that are not read yet."""
        return self.page_hashes()[self.read // self.page_len :]


def _share_calls(plan: dict[Request, list[int]], row_len: int) -> list[list[Request]]:
    """Return groups of requests that share a call of the model.

    Requests that read equally many tokens share one, a row each. Prompts of any length
    are joined into one row; see ``PagedCache.prepare``.

    Args:
        plan: the tokens that each request reads.
        row_len: how many tokens a row may have.
    """
    by_count: dict[int, list[Request]] = {}
    joined: list[Request] = []
    for request, new_tokens in plan.items():
        # The first one in the row may be the rest of a prompt.
        may_join = not request.read or (request.unread > 1 and not joined)
        if may_join and len(new_tokens) <= row_len:
            joined.append(request)
            row_len -= len(new_tokens)
        else:
            by_count.setdefault(len(new_tokens), []).append(request)
    return [group for group in (*by_count.values(), joined) if group]


def _read(
    model: LanguageModel,
    cache: PagedCache,
    group: list[Request],
    plan: dict[Request, list[int]],
) -> Iterator[tuple[Request, Tensor, list[int]]]:
    """Read for some requests in one call; yield each with its scores and best tokens.

    Args:
        model: reads.
        cache: holds the pages.
        group: the requests.
        plan: the tokens that each of them reads.
    """
    tables, starts = zip(*((each.pages, each.read) for each in group), strict=True)
    call = cache.prepare(tables, starts, [plan[each] for each in group])
    counts = [len(plan[each]) for each in group]
    # Scores before the last token are needed to confirm drafts only. Joined texts end
    # in different columns.
    drafted = any(len(plan[each]) > each.unread for each in group)
    last_only = not drafted and min(counts) == max(counts)
    counts = [1] * len(group) if last_only else counts
    logits = model(**call, last_only=last_only).flatten(0, 1)  # text after text
    best = sample_token(logits).tolist()
    for request, scores in zip(group, logits.split(counts), strict=True):
        yield request, scores, best[: len(scores)]
        best = best[len(scores) :]


class Server:
    """Generate many texts at a time, with one pool of pages for all of them.

    Requests are served in order of arrival. When no page is free, the latest request
    releases its pages, waits, and is read again. Texts that begin with the same tokens
    share their full pages. When the weights change, all texts are read again and keep
    their tokens. Call ``forget_pages`` after a change that is not noticed: a new hook,
    a few elements written to ``weight.data``, a module replaced during generation.

    Args:
        model: a ``TinyLM``, a ``TinyLlama``, or a result of ``load_pretrained``.
        num_pages: how many pages there are.
        page_len: tokens per page.
        max_batch: how many requests run at a time.
        step_tokens: how many tokens a step reads at most: one for each text that is
            generated, the rest of prompts and drafts; ``max_batch`` + 64 by default.
        draft: proposes the next tokens: ``ngram_draft``, or a smaller model.
        draft_len: how many tokens it proposes at most.

    Attributes:
        counts: of ``steps``; of tokens ``read``; of requests ``preempted``; of pages
            ``shared`` and ``copied``; of tokens ``guessed`` and ``accepted``.

    Raises:
        TypeError: a different kind of model; a size that is not an int; not a draft.
        ValueError: a size below 1; fewer ``step_tokens`` than ``max_batch``.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        num_pages: int,
        page_len: int,
        max_batch: int,
        step_tokens: int | None = None,
        draft: Draft | nn.Module | None = None,
        draft_len: int = 4,
    ) -> None:
        require_instance("model", model, LanguageModel)
        require_positive(page_len=page_len, max_batch=max_batch, draft_len=draft_len)
        step_tokens = max_batch + 64 if step_tokens is None else step_tokens
        require_step_tokens(step_tokens, max_batch)
        if draft is not None:
            require_draft(draft)
            draft = model_draft(draft) if isinstance(draft, nn.Module) else draft
        self.model, self.page_len, self.max_batch = model, page_len, max_batch
        self.draft, self.draft_len, self.step_tokens = draft, draft_len, step_tokens
        self.pool, self.watch = PagePool(num_pages), WeightsWatch(model)
        self.cache = PagedCache(model, num_pages, page_len)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []  # in order of arrival
        self.counts: Counter[str] = Counter()

    @property
    def free_pages(self) -> int:
        """How many pages have no user."""
        return len(self.pool.free)

    def submit(
        self,
        prompt: Sequence[int] | Tensor,
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | None = None,
        generator: Generator | None = None,
    ) -> Request:
        """Put a request into the queue.

        Args:
            prompt: token ids in one row.
            max_new_tokens: how many tokens to add.
            temperature: see ``sample_token``.
            top_k: see ``sample_token``.
            top_p: see ``sample_token``.
            stop: the token that ends the text.
            generator: of this request only, so that it draws as it would alone.

        Raises:
            TypeError: ids that are not whole numbers in one row; see ``sample_token``.
            ValueError: an empty prompt; an unknown id; a text too long for the context,
                all pages or a ``dynamic`` rotation; see ``sample_token``.
        """
        text = require_request(self.model, prompt, max_new_tokens)
        require_stop(self.model, stop)
        require_sampling(temperature, top_k, top_p)
        require_own_generator(generator, [*self.waiting, *self.running])
        longest = len(text) + max_new_tokens - 1  # the last token is never read
        require_pages(longest, self.page_len, len(self.pool.users))
        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        sampling["generator"] = generator  # type: ignore[assignment]
        options = max_new_tokens, stop, sampling, self.page_len
        self.waiting.append(Request(text, len(text), *options))
        return self.waiting[-1]

    def fork(self, request: Request, *, generator: Generator | None = None) -> Request:
        """Return a second request that continues from where the first one is.

        If there is room in the batch it runs at once, and shares the pages of the first
        one. Before either writes into a shared page, it gets a copy (copy on write).

        Args:
            request: one that is not done.
            generator: of the second one.
        """
        require_open(request, [*self.waiting, *self.running])
        require_own_generator(generator, [*self.waiting, *self.running])
        fork = request.copy_for_fork(generator)
        if request in self.running and len(self.running) < self.max_batch:
            fork.pages = [self.pool.acquire(page) for page in request.pages]
            fork.read, fork.state = request.read, "running"
            self.running.append(fork)
        else:
            self.waiting.append(fork)
        return fork

    def cancel(self, request: Request) -> None:
        """End a request: it keeps its tokens, and its pages are free at once."""
        if not (isinstance(request, Request) and request.done):
            require_open(request, [*self.waiting, *self.running])
            self._release(request, "cancelled")

    def forget_pages(self) -> None:
        """Forget all pages, as a step does when the weights have changed."""
        for request in reversed(self.running):
            self._release(request, "preempted")
        self.pool = PagePool(len(self.pool.users))
        del self.cache  # it may be large: so never two of them
        self.cache = PagedCache(self.model, len(self.pool.users), self.page_len)

    def run(self) -> None:
        """Call ``step`` until all requests are done."""
        while self.waiting or self.running:
            self.step()

    def step(self) -> dict[Request, int]:
        """Read once for all running requests, and append the tokens that follow.

        Returns:
            How many tokens were read for each request.
        """
        if self.watch.changed(thorough=not self.running):
            self.forget_pages()
        plan = self._plan()
        with evaluation_mode(self.model), torch.inference_mode():
            for group in _share_calls(plan, self.model.config.context_len):
                for request, scores, best in _read(self.model, self.cache, group, plan):
                    self._append_tokens(request, plan[request], scores, best)
        read = {request: len(new_tokens) for request, new_tokens in plan.items()}
        self.counts.update(steps=int(bool(read)), read=sum(read.values()))
        return read

    def _plan(self) -> dict[Request, list[int]]:
        """Return the tokens that each request reads next, and allocate their pages."""
        plan: dict[Request, list[int]] = {}
        budget, queue = self.step_tokens, deque(self.running)
        while queue or (budget and self._admit(queue)):
            request = queue.popleft()
            new_tokens = request.text[request.read :][: budget - len(queue)]
            if request.unread == 1:  # the rest of a batch may need one token each
                new_tokens += self._draft_tokens(request, budget + len(plan))
            if request in self.running and self._make_room(request, len(new_tokens)):
                plan[request], budget = new_tokens, budget - len(new_tokens)
        return {key: tokens for key, tokens in plan.items() if key in self.running}

    def _admit(self, queue: deque[Request]) -> bool:
        """Let the first waiting request run, if the batch and the pages have room."""
        if not self.waiting or len(self.running) == self.max_batch:
            return False
        request = self.waiting[0]
        require_pages(len(request.text), self.page_len, len(self.pool.users))
        # At least one token is read, as its scores are needed.
        limit = (len(request.text) - 1) // self.page_len
        hashes = request.page_hashes()[:limit]
        pages = self.pool.lookup(hashes)
        coming = (each for own in self.running for each in own.unread_page_hashes())
        if len(pages) < limit and hashes[len(pages)] in coming:
            return False  # another request is about to read it: share it then
        idle = sum(page in self.pool.free for page in pages)
        more = pages_for(len(request.text), self.page_len) - len(pages)
        if more > self.free_pages - idle:
            return False
        request.pages = [self.pool.acquire(page) for page in pages]
        request.read, request.state = len(pages) * self.page_len, "running"
        self.running.append(self.waiting.popleft())
        queue.append(request)
        self.counts["shared"] += len(pages)
        return True

    def _draft_tokens(self, request: Request, budget: int) -> list[int]:
        """Return guesses of the next tokens, as many as there is room for."""
        room = (len(request.pages) + self.free_pages) * self.page_len - request.read
        count = min(self.draft_len, budget - self.max_batch, request.left - 1, room - 1)
        if self.draft is None or count < 1:
            return []
        return require_guesses(self.model, self.draft([*request.text], count))[:count]

    def _make_room(self, request: Request, count: int) -> bool:
        """Allocate pages for new tokens; return whether the request still runs."""
        more = pages_for(request.read + count, self.page_len) - len(request.pages)
        written = range(request.read // self.page_len, len(request.pages))
        while True:
            shared = [at for at in written if self.pool.users[request.pages[at]] > 1]
            if more + len(shared) <= self.free_pages:
                break
            self._release(self.running[-1], "preempted")
            if request.state == "preempted":
                return False
        for at in shared:  # copy on write
            source, request.pages[at] = request.pages[at], self.pool.allocate()
            self.cache.copy_page(source, request.pages[at])
            self.pool.release(source)
        self.counts["copied"] += len(shared)
        request.pages += [self.pool.allocate() for _ in range(more)]
        return True

    def _append_tokens(
        self, request: Request, new_tokens: list[int], scores: Tensor, best: list[int]
    ) -> None:
        """Append the next token, and further ones as long as they were guessed."""
        start, known = request.read, min(request.unread, len(new_tokens))
        request.read += known
        while not request.unread:
            count = request.read - start
            last = count - len(new_tokens) - 1  # of the tokens read, from the end
            token = request.pick(scores[last][None], best[last])
            request.text.append(token)
            if not request.finished and new_tokens[count : count + 1] == [token]:
                request.read += 1
        self.counts["guessed"] += len(new_tokens) - known
        self.counts["accepted"] += request.read - start - known
        for at in range(start // self.page_len, request.read // self.page_len):
            self.pool.register(request.pages[at], request.page_hashes()[at])
        needed = pages_for(request.read, self.page_len)
        self.pool.release_from_end(request.pages, keep=needed)  # of wrong guesses
        if request.finished:
            self._release(request, "done")

    def _release(self, request: Request, state: str) -> None:
        """Take a request out of its queue, and release its pages."""
        queue = self.running if request in self.running else self.waiting
        queue.remove(request)
        self.pool.release_from_end(request.pages)
        request.read, request.state = 0, state
        if state == "preempted":
            self.waiting.appendleft(request)
            self.counts["preempted"] += 1
