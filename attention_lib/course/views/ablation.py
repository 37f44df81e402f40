"""Heads that are switched off, and the losses that this costs: `view_ablation`."""

from collections.abc import Mapping, Sequence

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import ABLATION
from attention_lib.course.views._tables import plain_table

Losses = Sequence[float]


def view_ablation(
    orders: Mapping[str, Mapping[str, tuple[Losses, Losses]]],
    *,
    texts: Sequence[str],
    whole: Losses,
) -> Interactive:
    """Let the reader switch heads off, one alone or all up to it; show the losses.

    Args:
        orders: for each order's name its heads, by name: the losses without this head
            alone, and without it and all before it; each with one loss for each text.
        texts: what the losses are measured on.
        whole: the losses with all heads.

    Raises:
        ValueError: no orders; an order without heads; not one loss for each text.
    """
    if not orders or not all(orders.values()):
        raise ValueError(f"orders must hold heads; got {dict(orders)}")
    measured = {"whole": whole}
    for name, heads in orders.items():
        for head, (alone, together) in heads.items():
            measured |= {f"orders[{name!r}][{head!r}][0]": alone}
            measured |= {f"orders[{name!r}][{head!r}][1]": together}
    for where, losses in measured.items():
        if len(losses) != len(texts):
            raise ValueError(
                f"{where} must have {len(texts)} losses; got {len(losses)}"
            )
    lines = [
        (f"{name}: {head}", [f"{loss:.2f}" for loss in (*alone, *together)])
        for name, heads in orders.items()
        for head, (alone, together) in heads.items()
    ]
    tops = [ABLATION["head"], *(ABLATION["alone"].format(text=text) for text in texts)]
    tops += [ABLATION["together"].format(text=text) for text in texts]
    named = [
        ABLATION["loss"].format(text=text, loss=f"{loss:.2f}")
        for text, loss in zip(texts, whole, strict=True)
    ]
    caption = ABLATION["caption"].format(whole=ABLATION["between"].join(named))
    data = {
        "orders": [
            {
                "name": name,
                "heads": list(heads),
                "losses": [
                    [[round(loss, 2) for loss in losses] for losses in each]
                    for each in heads.values()
                ],
            }
            for name, heads in orders.items()
        ],
        "texts": list(texts),
        "whole": [round(loss, 2) for loss in whole],
    }
    line = ABLATION["line"].format(count=len(lines))
    return Interactive("ablation", data, plain_table(caption, tops, lines), line)
