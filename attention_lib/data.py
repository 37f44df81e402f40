"""From text to batches: tokenizers, windows, padding, and what n-grams can predict.

A tokenizer turns a text into ids and back. Shapes: B batch, T length.
"""

import math
from collections import Counter
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from statistics import fmean

import torch
from jaxtyping import Int
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from attention_lib.reproducibility import seeded
from attention_lib.validation import (
    require_ids,
    require_not_negative,
    require_path,
    require_positive,
    require_text,
    require_texts,
    require_token_texts,
    require_window_sizes,
)


class ByteTokenizer:
    """One token for each byte of UTF-8: 256 ids for every text there is."""

    vocab_size = 256

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises:
            TypeError: not a text.
            ValueError: half of a pair of surrogates, which is not a character.
        """
        require_text(text)
        return list(text.encode("utf-8"))

    def decode(self, ids: Sequence[int] | Int[Tensor, " T"]) -> str:
        """Return the text; bytes that are not UTF-8 become �.

        Raises:
            TypeError: ids that are not whole numbers in one row.
            ValueError: an id below 0, or of 256 and more.
        """
        plain = require_ids(ids, self.vocab_size)
        return bytes(plain).decode("utf-8", errors="replace")


class CharTokenizer:
    """One token for each character that a text contains.

    Args:
        text: where the characters come from.

    Raises:
        ValueError: an empty text.
    """

    def __init__(self, text: str) -> None:
        require_texts([text])
        self.chars = sorted(set(text))
        self.ids = {char: i for i, char in enumerate(self.chars)}
        self.vocab_size = len(self.chars)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises:
            TypeError: not a text.
            ValueError: a character that is not in the tokenizer's text.
        """
        require_text(text)
        if unknown := sorted(set(text) - self.ids.keys()):
            raise ValueError(
                f"text contains {unknown[0]!r}, which this tokenizer has not seen: "
                "build it from a text that contains it, or use a ByteTokenizer"
            )
        return [self.ids[char] for char in text]

    def decode(self, ids: Sequence[int] | Int[Tensor, " T"]) -> str:
        """Return the text.

        Raises:
            TypeError: ids that are not whole numbers in one row.
            ValueError: an id outside the vocabulary.
        """
        return "".join(self.chars[i] for i in require_ids(ids, self.vocab_size))


class BPETokenizer:
    """Byte-pair encoding, trained on the spot: frequent neighbours become one token.

    Sennrich, Haddow and Birch (2016), on bytes as in GPT-2, by the ``tokenizers``
    library. A piece of text ends where a word ends; the space belongs to the next word.

    Args:
        texts: what to learn from.
        vocab_size: the largest number of tokens, including the 256 bytes.

    Raises:
        ValueError: no text, or nothing in it; fewer than 256 tokens.
    """

    def __init__(self, texts: Sequence[str], vocab_size: int) -> None:
        require_texts(texts)
        require_positive(vocab_size=vocab_size)
        if vocab_size < 256:
            raise ValueError(
                f"vocab_size must be at least 256, one a byte; got {vocab_size}"
            )
        self._tokenizer = Tokenizer(models.BPE())
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self._tokenizer.train_from_iterator(texts, trainer)
        self.vocab_size = self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises:
            TypeError: not a text.
            ValueError: half of a pair of surrogates, which is not a character.
        """
        require_text(text)
        return self._tokenizer.encode(text).ids

    def decode(self, ids: Sequence[int] | Int[Tensor, " T"]) -> str:
        """Return the text; bytes that are not UTF-8 become �.

        Raises:
            TypeError: ids that are not whole numbers in one row.
            ValueError: an id outside the vocabulary.
        """
        return self._tokenizer.decode(require_ids(ids, self.vocab_size))


def read_text(path: str | Path, *, encoding: str = "utf-8") -> str:
    """Read one of your own text files.

    Raises:
        TypeError: a path that is neither a str nor a Path.
        ValueError: an empty file; bytes that the encoding does not know.
    """
    path = require_path(path)
    content = path.read_bytes()
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name} is not {encoding}: byte {content[error.start]:#04x} at "
            f'{error.start}; try encoding="cp1252", or save it as UTF-8'
        ) from error
    require_texts([text])
    return text


class SlidingWindowDataset(Dataset[Tensor]):
    """Windows over one long text, each one a tensor of ids.

    A window holds ``length + 1`` tokens: each one but the last is followed by its
    target. The loss shifts them, and nothing else does. With ``stride = length`` every
    token but the first is a target exactly once; the last window may be shorter.

    Args:
        token_ids: the text.
        length: targets in a window.
        stride: tokens from the start of one window to that of the next.

    Raises:
        TypeError: ids that are not whole numbers in one row; a size that is not an int.
        ValueError: a size below 1; a text shorter than one window.
    """

    def __init__(
        self, token_ids: Sequence[int] | Int[Tensor, " N"], length: int, stride: int
    ) -> None:
        require_window_sizes(token_ids, length, stride)
        self.token_ids = torch.as_tensor(token_ids)
        self.length = length
        self.stride = stride

    def __len__(self) -> int:
        # Where windows leave gaps, the last one must still hold a target.
        step = max(self.length, self.stride)
        return 1 + math.ceil((len(self.token_ids) - 1 - step) / self.stride)

    def __getitem__(self, index: int) -> Int[Tensor, " T"]:
        if not isinstance(index, Integral):
            raise TypeError(f"index must be an int; got {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        start = index % len(self) * self.stride
        return self.token_ids[start : start + self.length + 1]


def pad_texts(
    texts: Sequence[Int[Tensor, " _"]],
) -> tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]:
    """Put texts of different lengths into one batch, padded on the right.

    Returns:
        Ids, 0 where there is no token, and how many tokens each text has.

    Raises:
        TypeError: texts that are not tensors of whole numbers.
        ValueError: no texts; a text that does not have exactly one axis.
    """
    texts = require_token_texts(texts)
    lengths = torch.tensor([len(text) for text in texts], device=texts[0].device)
    return torch.nn.utils.rnn.pad_sequence(texts, batch_first=True), lengths


def make_loader(
    texts: Dataset[Tensor] | Sequence[Tensor],
    batch_size: int,
    *,
    seed: int | None = None,
) -> DataLoader[Tensor]:
    """Return batches (token_ids, lengths), padded on the right.

    Args:
        texts: windows, or a list of texts of any lengths.
        batch_size: texts in a batch; the last one may hold fewer.
        seed: shuffles, in the same way for the same seed; without it the order is kept.

    Raises:
        TypeError: a batch size or a seed that is not an int; texts that are not
            tensors of whole numbers.
        ValueError: a batch size below 1; no texts.
    """
    require_positive(batch_size=batch_size)
    require_not_negative(seed=0 if seed is None else seed)
    if not isinstance(texts, Dataset):  # a dataset is checked batch by batch
        require_token_texts(texts)
    return DataLoader(
        texts,  # type: ignore[arg-type]  # a list has all that a loader needs
        batch_size,
        shuffle=seed is not None,
        generator=seeded(seed or 0),  # else it would draw from the global one
        collate_fn=pad_texts,
    )


def ngram_nlls(
    token_ids: Sequence[int], held_out: Sequence[int], vocab_size: int, orders: int
) -> list[list[float]]:
    """Return -ln of the probability that n-grams assign to each token, in nats.

    An n-gram counts what followed the same n - 1 tokens, and falls back on the shorter
    one where it has seen little: p = (count + p of the shorter) / (total + 1).

    Args:
        token_ids: where to count.
        held_out: what to predict.
        vocab_size: how many tokens there are; the 0-gram finds all equally likely.
        orders: the largest n.

    Returns:
        One list for each n from 0 to ``orders``, as long as ``held_out``.

    Raises:
        TypeError: a size that is not an int; ids that are not whole numbers in a row.
        ValueError: a size below 1; an id outside the vocabulary.
    """
    require_positive(vocab_size=vocab_size, orders=orders)
    require_ids(token_ids, vocab_size, "token_ids")
    require_ids(held_out, vocab_size, "held_out")
    probabilities = [1 / vocab_size] * len(held_out)
    surprises = [[math.log(vocab_size)] * len(held_out)]
    for order in range(1, orders + 1):
        seen = Counter(_ngrams(token_ids, order))
        contexts = Counter(gram[:-1] for gram in seen.elements())
        for i, gram in enumerate(_ngrams(held_out, order)):
            shorter = probabilities[i]
            probabilities[i] = (seen[gram] + shorter) / (contexts[gram[:-1]] + 1)
        surprises.append([-math.log(p) for p in probabilities])
    return surprises


def ngram_losses(
    token_ids: Sequence[int], held_out: Sequence[int], vocab_size: int, orders: int
) -> list[float]:
    """Return the mean of ``ngram_nlls`` for each n: uniform, unigram, bigram …

    Raises:
        TypeError: see ``ngram_nlls``.
        ValueError: likewise; an empty ``held_out``.
    """
    surprises = ngram_nlls(token_ids, held_out, vocab_size, orders)
    if len(held_out) == 0:
        raise ValueError("held_out is empty: there is nothing to predict")
    return [fmean(each) for each in surprises]


def _ngrams(token_ids: Sequence[int], order: int) -> list[tuple[int, ...]]:
    """Return for each token the n-gram that ends with it, n = ``order``."""
    # -1 is used where there is no token yet.
    padded = [-1] * (order - 1) + [int(i) for i in token_ids]
    return [tuple(padded[i : i + order]) for i in range(len(token_ids))]
