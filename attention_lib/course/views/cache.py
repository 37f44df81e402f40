"""A cache that fills, step by step, and what each step saves: `view_cache`."""

from collections.abc import Sequence

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import CACHE
from attention_lib.course.views._tables import plain_table
from attention_lib.validation import require_positive

Row = dict[str, int]


def view_cache(
    words: Sequence[str],
    *,
    prompt: int,
    num_layers: int,
    num_heads: int,
    head_dim: int,
    vocab_size: int,
    bytes_per_number: int,
) -> Interactive:
    """Show which keys and values each step computes and which it reads from the cache.

    The reader goes step by step, from the prompt to the last word, and can switch the
    cache off. The sizes are those of a ``TinyLM``; operations are counted as 24 M² per
    token and layer, 4 M per token, key and layer, and 2 M V per token.

    Args:
        words: the whole text.
        prompt: how many of the words are the prompt.
        num_layers: blocks on top of each other.
        num_heads: heads of each block; all have their own keys and values.
        head_dim: width of each head.
        vocab_size: how many tokens the head scores.
        bytes_per_number: how many bytes a number takes in the cache.

    Raises:
        TypeError: words that are not a list of texts; a size that is not an int.
        ValueError: a size below 1; no word after the prompt.
    """
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise TypeError("words must be a list of texts, one for each token")
    require_positive(prompt=prompt, num_layers=num_layers, num_heads=num_heads)
    require_positive(head_dim=head_dim, vocab_size=vocab_size)
    require_positive(bytes_per_number=bytes_per_number)
    if prompt >= len(words):
        raise ValueError(
            f"prompt must leave a word to generate; got {prompt} of {len(words)} words"
        )
    width = num_heads * head_dim

    def operations(new: int, keys: int) -> int:
        layers = num_layers * (24 * width**2 + 4 * keys * width)
        return new * (layers + 2 * width * vocab_size)

    steps = [
        {
            "length": length,
            "new": prompt if length == prompt else 1,
            "bytes": 2 * num_layers * width * bytes_per_number * length,
            "cached": operations(prompt if length == prompt else 1, length),
            "anew": operations(length, length),
        }
        for length in range(prompt, len(words))
    ]
    data = {"words": list(words), "layers": num_layers, "steps": steps}
    line = CACHE["line"].format(words=len(words), steps=len(steps))
    return Interactive("cache", data, _static(steps, words), line)


def _static(steps: Sequence[Row], words: Sequence[str]) -> str:
    """Return all steps as one table."""
    rows = [
        (
            CACHE["word"].format(word=words[row["length"]]),
            [f"{row[key]:,}" for key in ("new", "bytes", "cached", "anew")],
        )
        for row in steps
    ]
    return plain_table(CACHE["caption"], CACHE["head"], rows)
