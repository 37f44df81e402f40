"""Query heads that share KV heads, and the size of the cache: `view_groups`."""

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import GROUPS
from attention_lib.course.views._tables import NUMBER_BYTES, plain_table
from attention_lib.validation import require_positive

LIMIT = 32


def view_groups(
    num_heads: int,
    *,
    head_dim: int,
    num_layers: int,
    tokens: int,
) -> Interactive:
    """Let the reader choose the number of KV heads, from all heads to one.

    It shows which query heads share a KV head, and the bytes of the cache: per token,
    and for a whole text.

    Args:
        num_heads: query heads, 2 to 32.
        head_dim: width of a head.
        num_layers: layers of the model.
        tokens: length of the text.

    Raises:
        TypeError: a size that is not an int.
        ValueError: a size below 1; too many heads, or one.
    """
    require_positive(head_dim=head_dim, num_layers=num_layers, tokens=tokens)
    require_positive(num_heads=num_heads)
    if not 2 <= num_heads <= LIMIT:
        raise ValueError(f"num_heads must be 2 to {LIMIT}; got {num_heads}")
    choices = [n for n in range(num_heads, 0, -1) if num_heads % n == 0]
    per_head = 2 * num_layers * head_dim * NUMBER_BYTES  # keys and values
    rows = [
        (
            GROUPS["several" if shared > 1 else "one"].format(count=shared),
            [
                _name(shared, num_heads),
                str(num_heads // shared),
                _words(shared * per_head),
                _words(shared * per_head * tokens),
            ],
        )
        for shared in choices
    ]
    caption = GROUPS["caption"].format(
        heads=num_heads, width=head_dim, layers=num_layers, bytes=NUMBER_BYTES
    )
    head = [each.format(tokens=tokens) for each in GROUPS["head"]]
    return Interactive(
        "groups",
        {
            "heads": num_heads,
            "choices": choices,
            "names": [_name(shared, num_heads) for shared in choices],
            "perToken": [_words(shared * per_head) for shared in choices],
            "perText": [_words(shared * per_head * tokens) for shared in choices],
            "tokens": tokens,
        },
        plain_table(caption, head, rows),
        GROUPS["line"].format(heads=num_heads, most=choices[0]),
    )


def _name(shared: int, num_heads: int) -> str:
    kind = {num_heads: "all", 1: "single"}.get(shared, "grouped")
    return str(GROUPS[kind])


def _words(count: int) -> str:
    """Write a number of bytes: ``128 KiB``, ``4 GiB``."""
    size, (*units, largest) = float(count), GROUPS["units"]
    for unit in units:
        if size < 1024:
            return str(GROUPS["size"]).format(size=size, unit=unit)
        size /= 1024
    return str(GROUPS["size"]).format(size=size, unit=largest)
