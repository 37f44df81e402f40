"""The tokenizer of a published model: ids, special tokens, and a template for chats."""

import sys
from collections.abc import Collection, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, NoReturn

import tokenizers
from jaxtyping import Int
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from torch import Tensor

from attention_lib.validation import (
    require_flags,
    require_ids,
    require_instance,
    require_mapping,
    require_messages,
    require_text,
)


class Tokenizer:
    """Turn texts into the ids that a published model was trained on, and back.

    Args:
        inner: of the library ``tokenizers``.
        names: the texts of special tokens, such as ``bos_token``.
        prefix: the ids that the model expects before each text.
        ends: ids that end a reply, besides ``eos``.
        template: of a chat, in Jinja's language; a base model has none.

    Attributes:
        vocab_size: how many ids there are.
        bos: the id that begins a text, if any.
        eos: the id that ends one, if any.

    Raises:
        TypeError: a different kind of tokenizer; names or a template that are not
            texts; ids that are not whole numbers.
        ValueError: a prefix outside the vocabulary.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        names: Mapping[str, str],
        *,
        prefix: Sequence[int] = (),
        ends: Collection[int] = (),
        template: str | None = None,
    ) -> None:
        require_instance("inner", inner, tokenizers.Tokenizer)
        require_mapping("names", names, str)
        if template is not None:
            require_instance("template", template, str)
        self._inner, self._names = inner, dict(names)
        self.vocab_size = inner.get_vocab_size()
        self.prefix = require_ids(prefix, self.vocab_size, "prefix")
        self.template = template
        self.bos = inner.token_to_id(names.get("bos_token", ""))
        self.eos = inner.token_to_id(names.get("eos_token", ""))
        known = require_ids(
            list(ends) if isinstance(ends, Set) else ends, sys.maxsize, "ends"
        )
        self.ends = {*known, self.eos} - {None}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without ``prefix``.

        Special tokens in the text are recognised. Bytes that the vocabulary lacks are
        left out: SmolLM2's has no tokens for a few control characters.

        Raises:
            TypeError: not a text.
            ValueError: half of a pair of surrogates, which is not a character.
        """
        require_text(text)
        return self._inner.encode(text, add_special_tokens=False).ids

    def decode(
        self, ids: Sequence[int] | Int[Tensor, " T"], *, unfinished: bool = False
    ) -> str:
        """Return the text, with its special tokens; bytes that are not UTF-8 become �.

        Args:
            ids: the tokens.
            unfinished: whether more may follow. A last character that still lacks bytes
                is then left out, so that the text of more ids begins with this one.

        Raises:
            TypeError: ids that are not whole numbers in one row.
            ValueError: an id outside the vocabulary.
        """
        require_flags(unfinished=unfinished)
        plain = require_ids(ids, self.vocab_size)
        text = self._inner.decode(plain, skip_special_tokens=False)
        return text.rstrip("�") if unfinished else text

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return the text of a chat, up to where the model's reply begins.

        The template is a program from a stranger, so it runs in Jinja's sandbox.

        Args:
            messages: each with a ``role``, such as "user", and a ``content``.

        Raises:
            TypeError: messages that are not a list of such mappings.
            ValueError: a model without a template; messages that it refuses.
        """
        require_messages(messages)
        if self.template is None:
            raise ValueError("the model has no chat template: it only continues texts")
        jinja = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        given = {"messages": messages, "add_generation_prompt": True, "tools": None}
        given |= {"raise_exception": _refuse, "strftime_now": datetime.now().strftime}
        try:
            return jinja.from_string(self.template).render(self._names | given)
        except Exception as error:  # a program may fail in any way
            raise ValueError(f"the chat template failed: {error}") from None


def _refuse(words: str) -> NoReturn:
    raise TemplateError(words)
