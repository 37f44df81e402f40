"""A conversation with a published model, turn by turn, through one cache."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attention_lib.generation import generate
from attention_lib.pretrained import Tokenizer
from attention_lib.reproducibility import seeded
from attention_lib.tiny_lm import LanguageModel
from attention_lib.validation import (
    require_function,
    require_instance,
    require_positive,
    require_sampling,
    require_text,
)

LONGEST = 8192  # positions of a cache, unless the model has fewer


@dataclass(frozen=True)
class Reply:
    """A reply of the model, and what it took.

    Attributes:
        text: what the model wrote.
        read: tokens before the reply that the cache did not hold.
        written: tokens of the reply, with the one that ended it.
        seconds: until the first of these, and from there to the last one.
        cut: why the reply did not end by itself; empty if it did.
    """

    text: str
    read: int
    written: int
    seconds: tuple[float, float]
    cut: str

    def __str__(self) -> str:
        """What the reply took, in a line."""
        line = f"read {self.read} tokens in {self.seconds[0]:.1f} s, "
        line += f"wrote {self.written}"
        if self.written > 1:
            line += f" at {(self.written - 1) / self.seconds[1]:.1f} tokens/s"
        return line + (f" ({self.cut})" if self.cut else "")


class _Heard:
    """The tokens of a reply, shown as soon as their characters are whole."""

    def __init__(self, tokenizer: Tokenizer, write: Callable[[str], object]) -> None:
        self.tokenizer, self.write = tokenizer, write
        self.new: list[int] = []
        self.shown, self.ended = "", False
        self.times = [time.perf_counter()]

    def __call__(self, picked: Tensor) -> bool:
        """Take the next token, and return whether it ends the reply."""
        self.new.append(int(picked))
        self.times.append(time.perf_counter())
        self.ended = self.new[-1] in self.tokenizer.ends
        if not self.ended:
            self._show(unfinished=True)
        return self.ended

    def reply(self, read: int, cut: str) -> Reply:
        """Show the rest and return the reply; ``cut`` says why it is no longer."""
        self._show(unfinished=not self.ended)
        self.times.append(time.perf_counter())  # if there was no token
        first = self.times[1]
        seconds = first - self.times[0], self.times[max(1, len(self.new))] - first
        cut = "" if self.ended else cut
        return Reply(self.shown, read, len(self.new), seconds, cut)

    def _show(self, *, unfinished: bool) -> None:
        kept = self.new[:-1] if self.ended else self.new
        text = self.tokenizer.decode(kept, unfinished=unfinished)
        self.write(text[len(self.shown) :])
        self.shown = text


class Conversation:
    """A conversation: the keys and values of all turns stay in a cache.

    So a turn reads only what is new. Where the template rewrites former turns, or a
    text is split into other tokens than before, it reads again from there on.

    A model without a chat template continues the plain text of all turns.

    Args:
        model: of ``load_pretrained``.
        tokenizer: of ``load_tokenizer``.
        system: the system message; that of the template when left out.
        max_new_tokens: the most tokens of a reply.
        temperature: see ``sample_token``.
        top_p: see ``sample_token``.
        seed: of the draws, from each reset on.

    Raises:
        TypeError: a different kind of model or tokenizer; a system message that is not
            a text; a number of a different type.
        ValueError: a number out of range; see ``sample_token``.
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        *,
        system: str | None = None,
        max_new_tokens: int = 256,
        temperature: float = 0.7,
        top_p: float = 0.9,
        seed: int = 0,
    ) -> None:
        require_instance("model", model, LanguageModel)
        require_instance("tokenizer", tokenizer, Tokenizer)
        if system is not None:
            require_instance("system", system, str)
        require_positive(max_new_tokens=max_new_tokens)
        require_sampling(temperature, None, top_p)
        self.model, self.tokenizer, self.system = model, tokenizer, system
        self.max_new_tokens, self.seed = max_new_tokens, seed
        self.temperature, self.top_p = temperature, top_p
        self.cache = model.new_cache(1, min(model.config.context_len, LONGEST))
        self.reset()

    def reset(self) -> None:
        """Forget all turns."""
        told = [] if self.system is None else [("system", self.system)]
        self.messages = [{"role": role, "content": text} for role, text in told]
        self.generator = seeded(self.seed)
        self.token_ids: list[int] = []  # the cache holds the first ones of them

    def reply(self, text: str, write: Callable[[str], object]) -> Reply:
        """Reply to a text, until Ctrl+C; both are kept as a turn.

        Args:
            text: of the user.
            write: called with each piece of the reply as soon as it is there.

        Raises:
            TypeError: not a text; a ``write`` that cannot be called.
            ValueError: no room in the cache; messages that the template refuses.
        """
        require_text(text)
        require_function("write", write)
        messages = [*self.messages, {"role": "user", "content": text}]
        prompt = self._encode(messages)
        room = self.cache.max_len - len(prompt) + 1  # the last token is never read
        if room < 1:
            raise ValueError(
                f"the context is full: this needs {len(prompt):,} of "
                f"{self.cache.max_len:,} positions; /reset starts again"
            )
        known, heard = self._keep(prompt), _Heard(self.tokenizer, write)
        try:
            generate(
                self.model,
                torch.tensor([prompt[known:]]),
                max_new_tokens=min(room, self.max_new_tokens),
                temperature=self.temperature,
                top_p=self.top_p,
                cache=self.cache,
                generator=self.generator,
                on_token=heard,
            )
            full = room <= self.max_new_tokens
            cut = "the context is full" if full else "cut at max_new_tokens"
        except KeyboardInterrupt:
            cut = "stopped"
        self.token_ids = prompt + heard.new
        reply = heard.reply(len(prompt) - known, cut)
        self.messages = [*messages, {"role": "assistant", "content": reply.text}]
        return reply

    def _encode(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        if self.tokenizer.template is not None:
            return self.tokenizer.encode(self.tokenizer.chat(messages))
        text = "".join(it["content"] + "\n" * (it["role"] != "user") for it in messages)
        return self.tokenizer.prefix + self.tokenizer.encode(text)

    def _keep(self, prompt: list[int]) -> int:
        """Crop the cache to the tokens that begin a prompt, and return their number."""
        held = self.token_ids[: self._held()]
        # The last token of the prompt is read again: the scores after it are needed.
        pairs = zip(held, prompt[:-1], strict=False)
        known = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
        self.cache.crop(known)
        self.token_ids = prompt  # until the reply has ended
        return known

    def _held(self) -> int:
        """Return how many tokens are in the caches of all layers."""
        # Ctrl+C may have come between two layers.
        return min(layer.length for layer in self.cache.layers)

    def __str__(self) -> str:
        """What the cache holds."""
        held, most = self._held(), self.cache.max_len
        size = self.cache.nbytes / most * held / 1e6
        return f"cache: {held:,} of {most:,} positions, {size:.1f} MB"
