"""attention_lib.data: exact round trips, every target once, n-grams by another way."""

import math
import os
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lib.data import (
    BPETokenizer,
    ByteTokenizer,
    CharTokenizer,
    SlidingWindowDataset,
    make_loader,
    ngram_nlls,
    pad_texts,
    read_text,
)
from attention_lib.stories import make_stories

STORIES = [story.text for story in make_stories(60, seed=0)]
BPE = BPETokenizer(STORIES, 400)
STRANGE = [
    *("", " ", "   ", "\n", "\r\n", "a\r\nb\rc\n", "\t\x0b\x0c", " a", "a ", "a  b "),
    *("\x00", "a\x00b", "\ufeffa", "\ufffd", "\U0010ffff", "\ue000", "\x80\xff"),
    *("é", "e\u0301", "注意", "🙂", "👩🏽\u200d🚀", "🇬🇧", "शब्द", "العربية"),
    *("\u200d", "\u2028"),
    *("Ġ", "Ċ", "ÄĠ", "<|endoftext|>", "[UNK]", "##a", "it's 1,000"),
]


# Every character but halves of one. `st.text` would first sort all by their category.
any_text = st.lists(st.integers(0, 0xD7FF) | st.integers(0xE000, 0x10FFFF)).map(
    lambda codes: "".join(map(chr, codes))
)


def tokenizers_for(text):
    """All three kinds; the characters are those of the text and a few more."""
    return [ByteTokenizer(), BPE, CharTokenizer(text + "ab\n")]


def test_tokenizer_gives_strange_texts_back():
    for text in STRANGE:
        for tokenizer in tokenizers_for(text):
            assert tokenizer.decode(tokenizer.encode(text)) == text


@given(any_text)
def test_tokenizer_gives_any_text_back(text):
    for tokenizer in tokenizers_for(text):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert all(0 <= i < tokenizer.vocab_size for i in ids)


@given(st.lists(st.text(alphabet="ab é🙂\n", max_size=8), min_size=1), any_text)
def test_bpe_trained_on_any_text_gives_any_text_back(texts, other):
    tokenizer = BPETokenizer([*texts, "x"], 270)
    for text in [*texts, other]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_tokenizers_hand_worked():
    assert ByteTokenizer().encode("aé🙂") == [97, 195, 169, 240, 159, 153, 130]
    assert ByteTokenizer().vocab_size == 256
    tokenizer = CharTokenizer("banana é")
    assert tokenizer.chars == [" ", "a", "b", "n", "é"]
    assert tokenizer.vocab_size == 5
    assert tokenizer.encode("ban é") == [2, 1, 3, 0, 4]


def test_bpe_hand_worked():
    tokenizer = BPETokenizer(["low low low lower"], 258)
    pieces = [tokenizer.decode([i]) for i in tokenizer.encode("low lower slow")]
    assert tokenizer.vocab_size == 258
    assert pieces == ["low", " ", "low", "e", "r", " ", "s", "low"]


@pytest.mark.parametrize("vocab_size", [256, 257, 5000])
def test_bpe_has_no_more_tokens_than_asked(vocab_size):
    tokenizer = BPETokenizer(STORIES, vocab_size)
    assert 256 <= tokenizer.vocab_size <= vocab_size
    if vocab_size <= 300:
        assert tokenizer.vocab_size == vocab_size
    used = {i for text in STORIES for i in tokenizer.encode(text)}
    assert max(used) < tokenizer.vocab_size


def test_bpe_of_256_is_one_token_a_byte():
    tokenizer = BPETokenizer(["aaaa"], 256)
    for text in STRANGE:
        assert len(tokenizer.encode(text)) == len(text.encode())


def test_bpe_gives_words_one_token_each():
    tokenizer = BPETokenizer(STORIES, 1000)
    for story in make_stories(60, seed=0):
        ids = tokenizer.encode(story.text)
        words = [tokenizer.decode([i]).strip(" ") for i in ids]
        assert words == list(story.words)


def test_bpe_joins_no_pair_across_words():
    tokenizer = BPETokenizer(["ab ab ab"] * 9, 300)
    assert tokenizer.decode(tokenizer.encode("abab")[:1]) == "ab"
    assert {tokenizer.decode([i]) for i in tokenizer.encode("ab ab")} == {"ab", " ab"}


# Files.


def test_read_text_gives_back_what_was_written(tmp_path):
    for text in filter(None, STRANGE):
        (tmp_path / "a.txt").write_bytes(text.encode())
        assert read_text(tmp_path / "a.txt") == text
    assert read_text(str(tmp_path / "a.txt")) == text


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_read_text_in_another_encoding(tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes("café\r\n".encode(encoding))
    assert read_text(tmp_path / "a.txt", encoding=encoding) == "café\r\n"


WRONG_BYTE = 'mine.txt is not utf-8: byte 0xe9 at 6; try encoding="cp1252", or save'


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "the text is empty: there is nothing"), (b"le caf\xe9", WRONG_BYTE)],
)
def test_read_text_refuses_what_is_no_text(tmp_path, refused, content, words):
    (tmp_path / "mine.txt").write_bytes(content)
    with refused(ValueError, words):
        read_text(tmp_path / "mine.txt")


# Windows.


def windows(*arguments):
    return [window.tolist() for window in SlidingWindowDataset(*arguments)]


def test_sliding_windows_hand_worked():
    assert windows(range(9), 4, 4) == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]
    assert windows(range(8), 4, 4) == [[0, 1, 2, 3, 4], [4, 5, 6, 7]]
    assert windows(range(8), 3, 2) == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert windows(range(8), 2, 3) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert windows(range(7), 2, 3) == [[0, 1, 2], [3, 4, 5]]
    assert windows(range(2), 1, 1) == [[0, 1]]


@pytest.mark.parametrize("index", [4, -5, 100])
def test_sliding_windows_end(index):
    windows = SlidingWindowDataset(range(10), 3, 2)
    assert windows[-4].equal(windows[0])
    with pytest.raises(IndexError, match=f"window {index} of 4"):
        windows[index]


@pytest.mark.parametrize("kind", [list, tuple, torch.tensor, torch.IntTensor])
def test_sliding_windows_take_every_kind_of_row(kind):
    window = SlidingWindowDataset(kind([3, 1, 2]), 2, 2)[0]
    assert isinstance(window, torch.Tensor)
    assert window.tolist() == [3, 1, 2]


# Batches.


def rows(*lengths):
    """Texts of these lengths; no id stands twice, and none is 0."""
    return [*(torch.arange(sum(lengths)) + 1).split(lengths)]


def test_pad_texts_hand_worked():
    token_ids, lengths = pad_texts(rows(2, 3, 1))
    assert token_ids.tolist() == [[1, 2, 0], [3, 4, 5], [6, 0, 0]]
    assert lengths.tolist() == [2, 3, 1]
    assert token_ids.dtype == lengths.dtype == torch.int64


def batches(*lengths, **options):
    return [
        ([row[:n].tolist() for row, n in zip(ids, lengths, strict=True)], ids.shape[1])
        for ids, lengths in make_loader(rows(*lengths), **options)
    ]


def test_loader_in_order_without_seed():
    assert batches(2, 3, 1, 1, 4, batch_size=2) == [
        ([[1, 2], [3, 4, 5]], 3),
        ([[6], [7]], 1),
        ([[8, 9, 10, 11]], 4),
    ]


def test_loader_same_seed_same_order():
    lengths = range(1, 40)
    first, again = (batches(*lengths, batch_size=4, seed=3) for _ in range(2))
    assert first == again
    assert first != batches(*lengths, batch_size=4, seed=4)
    assert first != batches(*lengths, batch_size=4)


def test_loader_next_round_has_another_order():
    loader = make_loader(rows(*[1] * 30), 30, seed=0)
    (first, _), (second, _) = next(iter(loader)), next(iter(loader))
    assert first.tolist() != second.tolist()
    assert first.sort(0).values.equal(second.sort(0).values)


# n-grams.


def slow_probability(token, before, seen, vocab_size):
    """p of a token after the tokens before it, counted anew, as a fraction."""
    p = Fraction(1, vocab_size)
    for order in range(len(before) + 1):
        context = before[len(before) - order :]
        padded = [None] * order + seen
        places = [i for i in range(len(seen)) if padded[i : i + order] == context]
        followers = [seen[i] for i in places]
        p = (followers.count(token) + p) / (len(followers) + 1)
    return p


def slow_surprises(seen, held_out, vocab_size, orders):
    found = [[-math.log(1 / vocab_size)] * len(held_out)]
    for order in range(1, orders + 1):
        padded = [None] * (order - 1) + held_out
        befores = [padded[i : i + order - 1] for i in range(len(held_out))]
        pairs = zip(held_out, befores, strict=True)
        row = [slow_probability(*pair, seen, vocab_size) for pair in pairs]
        found.append([-math.log(p) for p in row])
    return found


tokens = st.lists(st.integers(0, 3), min_size=1, max_size=20)


@given(tokens, tokens)
def test_ngram_surprises_agree_with_slow_counting(seen, held_out):
    wanted = slow_surprises(seen, held_out, 4, 3)
    found = ngram_nlls(seen, held_out, 4, 3)
    for row, wanted_row in zip(found, wanted, strict=True):
        assert row == pytest.approx(wanted_row)


def test_character_that_was_not_seen_is_refused(refused):
    words = "text contains 'x', which this tokenizer has not seen: bui"
    with refused(ValueError, words):
        CharTokenizer("abc").encode("abzx")


def test_tokenizers_write_no_progress_and_no_files(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    BPETokenizer(STORIES[:5], 300)
    assert capfd.readouterr() == ("", "")
    assert os.listdir() == []
