"""A server: requests come and go, and each gets the tokens that it would get alone.

In each step the model reads some tokens of every request that runs: one, where a text
is being written; a piece, where a prompt is being read. So requests join and leave at
any step (Yu et al., 2022), and a long prompt stops nobody else.
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
    require_generator,
    require_guesses,
    require_instance,
    require_open,
    require_pages,
    require_positive,
    require_request,
    require_sampling,
    require_step_tokens,
    require_stop,
)


@dataclass(eq=False)
class Request:
    """A text that a server writes; made by ``Server.submit``.

    Attributes:
        text: the prompt, then the new tokens.
        prompt_len: how many of them are the prompt.
        max_new_tokens: how many to add.
        stop: the token that ends the text.
        sampling: how tokens are picked; see ``sample_token``.
        pages: its block table.
        read: how many tokens of the text lie in the pages.
        state: ``waiting``, ``running``, ``preempted``, ``done`` or ``cancelled``.
        names: of the pages that the text fills, as far as they were asked for.
    """

    text: list[int]
    prompt_len: int
    max_new_tokens: int
    stop: int | None
    sampling: dict[str, Any]
    pages: list[int] = field(default_factory=list)
    read: int = 0
    state: str = "waiting"
    names: list[bytes] = field(default_factory=list)

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
        """How many tokens of the text the model has not read; 1 while it writes."""
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
        if not self.sampling["temperature"]:
            return best
        return int(sample_token(scores, **self.sampling))

    def twin(self, generator: Generator | None) -> "Request":
        """Makes a request with the same text that waits, and draws on its own."""
        sampling = self.sampling | {"generator": generator}
        parts = [*self.text], self.prompt_len, self.max_new_tokens, self.stop, sampling
        return Request(*parts)

    def full_pages(self, page_len: int) -> list[bytes]:
        """Names all pages that the text fills."""
        while len(self.names) < len(self.text) // page_len:
            start = len(self.names) * page_len
            before = self.names[-1] if self.names else b""
            self.names.append(page_hash(before, self.text[start : start + page_len]))
        return self.names

    def coming(self, page_len: int) -> list[bytes]:
        """Names the full pages that are not read yet."""
        return self.full_pages(page_len)[self.read // page_len :]


def _share_calls(plan: dict[Request, list[int]], longest: int) -> list[list[Request]]:
    """Says which requests share a call of the model.

    Those that read as many tokens do, each in a row of its own. Beginnings of any
    length stand end to end in a single row; see ``PagedCache.prepare``.

    Args:
        plan: the tokens that each request reads.
        longest: how many tokens a row may have.
    """
    alike: dict[int, list[Request]] = {}
    end_to_end: list[Request] = []
    for own, fed in plan.items():
        # The first one in the row may be the rest of a prompt.
        may_join = not own.read or (own.unread > 1 and not end_to_end)
        if may_join and len(fed) <= longest:
            end_to_end.append(own)
            longest -= len(fed)
        else:
            alike.setdefault(len(fed), []).append(own)
    return [group for group in (*alike.values(), end_to_end) if group]


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
    fed = [plan[own] for own in group]
    call = cache.prepare([own.pages for own in group], [own.read for own in group], fed)
    counts = [len(new) for new in fed]
    # Only guesses need scores before the last token. Texts that are not equally long
    # stand in one row, where each ends elsewhere.
    guessed = any(len(plan[own]) > own.unread for own in group)
    last_only = not guessed and min(counts) == max(counts)
    counts = [1] * len(group) if last_only else counts
    logits = model(**call, last_only=last_only).flatten(0, 1)  # text after text
    best = sample_token(logits).tolist()
    for own, scores in zip(group, logits.split(counts), strict=True):
        yield own, scores, best[: len(scores)]
        best = best[len(scores) :]


class Server:
    """Writes many texts at a time, with one memory of pages for all of them.

    Requests are served in the order in which they came. When no page is free, the one
    that came last gives its pages back, waits, and is read anew. Full pages are shared
    by all texts that begin with the same tokens. When the weights change, all texts are
    read again from their start and keep their tokens. Call ``forget_pages`` after a
    change that is not noticed: a new hook, a few elements written to ``weight.data``,
    a module that is exchanged while texts are being written.

    Args:
        model: a ``TinyLM``, a ``TinyLlama``, or what ``load_pretrained`` gives.
        num_pages: how many pages there are.
        page_len: tokens per page.
        max_batch: how many requests run at a time.
        step_tokens: how many tokens a step reads at most: one for each request that
            writes, and what is left for prompts and guesses. 64 more than
            ``max_batch`` when it is left out.
        draft: guesses the next tokens: ``ngram_draft``, say, or a smaller model.
        draft_len: how many tokens it guesses at most.

    Attributes:
        counts: how many ``steps``; tokens ``read``; requests ``preempted``; pages
            ``shared`` and ``copied``; tokens ``guessed`` and ``accepted``.

    Raises:
        TypeError: another kind of model; a size that is not an int; no draft.
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
        self.running: list[Request] = []  # the one that came first is the first
        self.counts: Counter[str] = Counter()

    @property
    def free_pages(self) -> int:
        """How many pages no request uses."""
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
        """Puts a request into the queue.

        Args:
            prompt: token ids in one row.
            max_new_tokens: how many to add.
            temperature: see ``sample_token``.
            top_k: see ``sample_token``.
            top_p: see ``sample_token``.
            stop: the token that ends the text.
            generator: the request's own, so that it draws as it would alone.

        Raises:
            TypeError: ids that are not whole numbers in one row; see ``sample_token``.
            ValueError: no token; an id outside the vocabulary; a text that the context
                or all pages together do not hold, or that outgrows the trained length
                of a ``dynamic`` rotation; see ``sample_token``.
        """
        text = require_request(self.model, prompt, max_new_tokens)
        require_stop(self.model, stop)
        require_sampling(temperature, top_k, top_p)
        require_generator(generator)
        longest = len(text) + max_new_tokens - 1  # the last token is never read
        require_pages(longest, self.page_len, len(self.pool.users))
        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        sampling["generator"] = generator  # type: ignore[assignment]
        request = Request(text, len(text), max_new_tokens, stop, sampling)
        self.waiting.append(request)
        return request

    def fork(self, request: Request, *, generator: Generator | None = None) -> Request:
        """Makes a second request that goes on from where the first one is.

        Where there is a place it runs at once, and uses the pages of the first one.
        Whoever writes into a page that both use gets a copy of it (copy on write).

        Args:
            request: one that is not done.
            generator: of the second one.
        """
        require_open(request, [*self.waiting, *self.running])
        require_generator(generator)
        twin = request.twin(generator)
        if request in self.running and len(self.running) < self.max_batch:
            twin.pages = [self.pool.share(page) for page in request.pages]
            twin.read, twin.state = request.read, "running"
            self.running.append(twin)
        else:
            self.waiting.append(twin)
        return twin

    def cancel(self, request: Request) -> None:
        """Ends a request: it keeps its tokens, and its pages are free at once."""
        if not (isinstance(request, Request) and request.done):
            require_open(request, [*self.waiting, *self.running])
            self._drop(request, "cancelled")

    def forget_pages(self) -> None:
        """Forget all pages, as a step does when the weights have changed."""
        for request in reversed(self.running):
            self._drop(request, "preempted")
        self.pool = PagePool(len(self.pool.users))
        del self.cache  # it may be large: so never two of them
        self.cache = PagedCache(self.model, len(self.pool.users), self.page_len)

    def run(self) -> None:
        """Steps until all requests are done."""
        while self.waiting or self.running:
            self.step()

    def step(self) -> dict[Request, int]:
        """Lets the model read once for all that run, and adds the tokens that it gives.

        Returns:
            How many tokens were read for each request.
        """
        if self.watch.changed(thorough=not self.running):
            self.forget_pages()
        plan = self._plan()
        with evaluation_mode(self.model), torch.inference_mode():
            for group in _share_calls(plan, self.model.config.context_len):
                for own, scores, best in _read(self.model, self.cache, group, plan):
                    self._accept(own, plan[own], scores, best)
        read = {request: len(fed) for request, fed in plan.items()}
        self.counts.update(steps=int(bool(read)), read=sum(read.values()))
        return read

    def _plan(self) -> dict[Request, list[int]]:
        """Says which tokens are read for whom, and finds pages for them."""
        plan: dict[Request, list[int]] = {}
        left, queue = self.step_tokens, deque(self.running)
        while queue or (left and self._admit(queue)):
            request = queue.popleft()
            fed = request.text[request.read :][: left - len(queue)]
            if request.unread == 1:  # one token is left for each place
                fed += self._guesses(request, left - self.max_batch + len(plan))
            if request in self.running and self._make_room(request, len(fed)):
                plan[request], left = fed, left - len(fed)
        return {own: fed for own, fed in plan.items() if own in self.running}

    def _admit(self, queue: deque[Request]) -> bool:
        """Lets the first that waits run, if there are a place and pages for it."""
        if not self.waiting or len(self.running) == self.max_batch:
            return False
        request = self.waiting[0]
        # At least one token is read: its scores are needed.
        most = (len(request.text) - 1) // self.page_len
        names = request.full_pages(self.page_len)[:most]
        pages = self.pool.lookup(names)
        coming = (name for own in self.running for name in own.coming(self.page_len))
        if len(pages) < most and names[len(pages)] in coming:
            return False  # another one is about to read it: share it then
        idle = sum(page in self.pool.free for page in pages)
        more = pages_for(len(request.text), self.page_len) - len(pages)
        if more > self.free_pages - idle:
            return False
        request.pages = [self.pool.share(page) for page in pages]
        request.read, request.state = len(pages) * self.page_len, "running"
        self.running.append(self.waiting.popleft())
        queue.append(request)
        self.counts["shared"] += len(pages)
        return True

    def _guesses(self, request: Request, spare: int) -> list[int]:
        """Guesses the next tokens, as far as pages are free when it asks."""
        room = (len(request.pages) + self.free_pages) * self.page_len - request.read
        count = min(self.draft_len, spare, request.left - 1, room - 1)
        if self.draft is None or count < 1:
            return []
        return require_guesses(self.model, self.draft([*request.text], count))[:count]

    def _make_room(self, request: Request, count: int) -> bool:
        """Finds pages for new tokens; says whether the request still runs then."""
        more = pages_for(request.read + count, self.page_len) - len(request.pages)
        written = range(request.read // self.page_len, len(request.pages))
        while True:
            shared = [at for at in written if self.pool.users[request.pages[at]] > 1]
            if more + len(shared) <= self.free_pages:
                break
            self._drop(self.running[-1], "preempted")
            if request.state == "preempted":
                return False
        for at in shared:  # copy on write
            source, request.pages[at] = request.pages[at], self.pool.take()
            self.cache.copy_page(source, request.pages[at])
            self.pool.give_back(source)
        self.counts["copied"] += len(shared)
        request.pages += [self.pool.take() for _ in range(more)]
        return True

    def _accept(
        self, request: Request, fed: list[int], scores: Tensor, best: list[int]
    ) -> None:
        """Adds what comes after the text; goes on as long as it had been guessed."""
        start, known = request.read, min(request.unread, len(fed))
        request.read += known
        while not request.unread:  # always a new one after the last that was read
            count = request.read - start
            last = count - len(fed) - 1  # counted from the end
            token = request.pick(scores[last][None], best[last])
            request.text.append(token)
            if not request.finished and fed[count : count + 1] == [token]:
                request.read += 1
        self.counts["guessed"] += len(fed) - known
        self.counts["accepted"] += request.read - start - known
        for at in range(start // self.page_len, request.read // self.page_len):
            self.pool.name(request.pages[at], request.full_pages(self.page_len)[at])
        needed = pages_for(request.read, self.page_len)
        self.pool.give_back_all(request.pages, keep=needed)  # those of wrong guesses
        if request.finished:
            self._drop(request, "done")

    def _drop(self, request: Request, state: str) -> None:
        """Takes a request out, and gives its pages back, those of its end first."""
        queue = self.running if request in self.running else self.waiting
        queue.remove(request)
        self.pool.give_back_all(request.pages)
        request.read, request.state = 0, state
        if state == "preempted":
            self.waiting.appendleft(request)
            self.counts["preempted"] += 1
