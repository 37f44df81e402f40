"""Checks of chapter 14: caches, cross-attention, a text in two parts, writing."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Verdict,
    after,
    judge,
    judge_number,
    make_layer,
    run,
)
from attention_lib.cross_attention import TinyTranslator, TranslatorConfig
from attention_lib.masks import causal_mask
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded

_NAMES = "q_proj", "k_proj", "v_proj", "out_proj"


def check_both_caches(answer: object) -> Verdict:
    """Checks the numbers in two caches: 12 blocks, 100 words read, 40 written."""
    blocks, heads, head, source, target = 12, 8, 64, 100, 40
    one = blocks * 2 * heads * head  # keys and values of one word
    right = one * (source + target)
    mistakes = [
        (one * source, "That is the memory alone: the words written have keys too."),
        (one * target, "Those are the words written alone: the memory's keys and "
         "values are kept too."),
        (one * source * target, "Keys and values are kept, not the weights: the two "
         "lengths are added."),
        (right // 2, "Keys and values are both kept."),
        (right // blocks, "That is one block: there are 12."),
        (right // heads, "That is one head: there are 8."),
        (right // head, "Each key has 64 numbers."),
        (one * target + 2 * heads * head * source, "Every block makes keys and values "
         "of the memory with weights of its own."),
        (one * target + blocks * heads * head * source, "The memory's values are kept "
         "as well as its keys."),
        (one * target + heads * head * source, "The memory itself need not be kept: "
         "each block keeps its keys and values."),
        (2 * right, "Queries are not kept, and bytes are not asked for."),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "100 + 40 words, in 12 blocks, with 2 times 512 numbers each.",
        mistakes,
        "Not that many: first count the numbers of one word in one block.",
    )


def check_one_text_mask(answer: object) -> Verdict:
    """Checks ``mask(source_len, target_len)`` of a decoder that reads and writes."""
    for source, target, so_far in [
        (3, 5, ""),
        (2, 1, "Right for 3 words read and 5 written. For 2 and 1:"),
    ]:
        right = _one_text_mask(source, target)
        place = torch.arange(source + target)
        read = place < source  # (S + T,)
        causal = causal_mask(source + target)
        mistakes = [
            (causal, "The words of the source may look ahead within the source."),
            (torch.ones_like(right), "A word that is written must not see later "
             "ones: the model would copy what it shall find."),
            (~right, "It is the wrong way round: True must mean that it may attend."),
            (right.mT, "Rows are queries, columns are keys."),
            (right | read[:, None], "The source sees the target: no word of it is "
             "written yet when the source is read."),
            (right & (read | ~read[:, None]) & (read == read[:, None]), "The target "
             "sees nothing of the source."),
            (right & read, "A word of the target sees no word of the target, not even "
             "itself."),
            (right & (read | (place != place[:, None])), "A word of the target may "
             "see itself."),
            (_one_text_mask(target, source), "The source comes first: its columns are "
             "those that all may see."),
            (causal | (place <= source), "One word too many is open to all: the first "
             "of the target."),
            (causal | (place < source - 1), "One word too few is open to all: the "
             "last of the source."),
            (right[source:], "The words of the source are queries as well: they have "
             "rows, too."),
            (right[:, source:], "The words of the source are keys as well: they have "
             "columns, too."),
        ]  # fmt: skip
        if wrong := judge(answer, (source, target), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "All see the source, and of the target what is written.")


def _one_text_mask(source: int, target: int) -> Tensor:
    length = source + target
    return causal_mask(length) | (torch.arange(length) < source)


def check_cross_attention(answer: object) -> Verdict:
    """Checks a class of cross-attention, built by the reader."""
    for sizes, so_far in [
        ((6, 3), ""),
        ((5, 1), "Right for three heads. For a single one:"),
    ]:
        layer = make_layer(answer, *sizes)
        if isinstance(layer, Verdict):
            return layer if layer is NOT_YET or not so_far else after(so_far, layer)
        wrong = _parameters(layer, *sizes) or _results(layer, *sizes)
        if wrong is not None:
            return wrong if wrong is NOT_YET or not so_far else after(so_far, wrong)
    return Verdict(True, "Cross-attention: one text looks at another.")


def _parameters(layer: nn.Module, d_model: int, heads: int) -> Verdict | None:
    """Says which parameter is missing, too many, or of a wrong shape."""
    wanted = {f"{name}.weight": (d_model, d_model) for name in _NAMES}
    found = {name: tuple(own.shape) for name, own in layer.named_parameters()}
    given = torch.zeros(2, 4, d_model), torch.zeros(2, 3, d_model)
    if not found and run(layer.forward, *given) is NOT_YET:
        return NOT_YET
    for name in [*wanted, *found]:
        if name not in found:
            return Verdict(False, f"The layer has no parameter {name}: is it an "
                           "attribute of self?")  # fmt: skip
        if name not in wanted:
            return Verdict(False, f"Too many parameters: {name}. Four weights without "
                           "a bias are all.")  # fmt: skip
        if found[name] != wanted[name]:
            return Verdict(False, f"{name} is {found[name]}; it must be "
                           f"{wanted[name]} here.")  # fmt: skip
    return None


def _results(layer: nn.Module, d_model: int, heads: int) -> Verdict | None:
    """Compares the output with the right one, and with those that mistakes give."""
    own, rng = dict(layer.eval().named_parameters()), seeded(0)
    with torch.no_grad():
        for name in sorted(own):
            own[name].copy_(torch.randn(own[name].shape, generator=rng) / 2)
    weights = [own[f"{name}.weight"].detach().T for name in _NAMES]
    for lengths, masked in [((4, 3), False), ((4, 4), False), ((2, 5), True)]:
        x, memory = (torch.randn(2, n, d_model, generator=rng) for n in lengths)
        seen = torch.ones(2, 1, lengths[1], dtype=torch.bool)
        seen[0, :, 2:] = not masked
        plain: Any = (x, memory, heads, *weights)
        right = _cross(*plain, mask=seen)
        mistakes: list[tuple[Tensor, str]] = [
            (_cross(x, x, heads, *weights), "Keys and values come from x: the memory "
             "is never looked at."),
            (_cross(memory, memory, heads, *weights), "The queries come from the "
             "memory: they are made from x."),
            (_cross(memory, x, heads, *weights), "x and the memory have changed "
             "places."),
            (_cross(*plain, mask=seen, scale=1.0), "The scores are not scaled."),
            (_cross(*plain, mask=seen, scale=d_model**-0.5), "The scale takes the "
             "width of all heads: it is that of one."),
            (_cross(*plain, mask=seen, swapped=True), "Keys and values have changed "
             "places."),
            (_cross(*plain, mask=seen, over=-2), "The softmax runs over the queries: "
             "each row must sum to 1 over the memory."),
            (_cross(*plain, mask=seen, back=True), "The way back mixes tokens and "
             "heads: which axes change places before the heads stand side by side?"),
            (_cross(*plain, mask=seen, out=False), "The output projection is missing."),
            (_cross(x, memory, 1, *weights, mask=seen), "There is a single head: "
             "split queries, keys and values first."),
            (right + x, "x is added to the output: that is the block's part."),
        ]  # fmt: skip
        if masked:
            mistakes += [
                (_cross(*plain), "The mask is not used: padding is seen."),
                (_cross(*plain, mask=seen, late=True), "The mask comes after the "
                 "softmax: the weights no longer sum to 1."),
                (_cross(*plain, mask=seen, hidden=0.0), "A hidden score of 0 still "
                 "gets a weight."),
                (_cross(*plain, mask=~seen), "The mask is the wrong way round: True "
                 "means may attend."),
            ]  # fmt: skip
        if lengths[0] == lengths[1]:
            past = torch.ones(lengths, dtype=torch.bool).tril()
            hidden = _cross(*plain, mask=past)
            words = "A causal mask hides part of the memory: all of it was read before."
            mistakes.append((hidden, words))
        given = (x, memory, seen) if masked else (x, memory)
        if wrong := judge(layer.forward, given, right, mistakes):
            return wrong
    return None


def _cross(
    x: Tensor,
    memory: Tensor,
    heads: int,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
    swapped: bool = False,
    over: int = -1,
    back: bool = False,
    out: bool = True,
    late: bool = False,
    hidden: float = -math.inf,
) -> Tensor:
    """Cross-attention in which one step or more may be another."""
    query, key, value = (
        split_heads(of @ w, heads) for of, w in ((x, w_q), (memory, w_k), (memory, w_v))
    )
    key, value = (value, key) if swapped else (key, value)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale
    seen = torch.tensor(True) if mask is None else mask
    seen = seen[:, None] if seen.ndim == 3 else seen
    shown = scores if late else scores.masked_fill(~seen, hidden)
    found = shown.softmax(dim=over).nan_to_num()  # an empty row: zeros
    context = (found * seen if late else found) @ value
    joined = context.reshape(x.shape) if back else merge_heads(context)
    return joined @ w_o if out else joined


def check_translation(answer: object) -> Verdict:
    """Checks ``write(model, source, start, stop, max_new_tokens)`` of one sentence."""
    model = _random_translator()
    start, stop = 1, _STOP
    for source, limit, so_far in [
        ([3, 4, 5, 6], 7, ""),
        ([8, 3, 7], 2, "Right where the stop token comes in time. Where the number of "
         "tokens ends it:"),
    ]:  # fmt: skip
        came = run(answer, model, torch.tensor([source]), start, stop, limit)
        if isinstance(came, Tensor) and came.ndim == 2 and len(came) == 1:
            came = came[0]
        came = _ids(came)
        if not isinstance(came, Tensor):
            kind = type(came).__name__
            wrong = came if isinstance(came, Verdict) else Verdict(
                False, f"Your function returns a {kind}: a list of token ids is "
                "wanted.")  # fmt: skip
            return after(so_far, wrong)
        given: Any = (model, source, start, stop, limit)
        right = _write(*given)
        mistakes = [
            ([start, *right], "The start token is not part of what is written."),
            (right[:-1], "The last token is missing: what is written ends with the "
             "stop token, or after so many tokens as are allowed."),
            (_write(model, source, start, -1, limit), "Writing goes on after the "
             "stop token."),
            (_write(model, source, start, -1, limit + 1), "More tokens than "
             "are allowed."),
            (_write(*given, place=0), "The next token is read off the wrong place of "
             "the target: which row of the logits stands for the next one?"),
            (_write(*given, whole=False), "The decoder gets the newest token alone: "
             "without a cache it needs all that is written so far."),
            (_write(*given, seen=False), "What is written does not depend on the "
             "source: is the memory passed on?"),
            (_write(*given, begin=source), "The decoder begins with the start token, "
             "not with the source."),
        ]  # fmt: skip
        tensors = [(torch.tensor(ids), words) for ids, words in mistakes]
        own: Tensor = came
        wrong_ids = judge(lambda own=own: own, (), torch.tensor(right), tensors)
        if wrong_ids:
            return after(so_far, wrong_ids)
    return Verdict(True, "Read once, then written token by token.")


def _ids(came: Any) -> Any:
    """Gives token ids as a tensor; what holds no numbers stays what it is."""
    if isinstance(came, str | Verdict):
        return came
    try:
        return torch.tensor([int(token) for token in came])
    except (TypeError, ValueError, RuntimeError):
        return came


_STOP = 7  # the fourth token that the model writes for the first source


def _random_translator() -> TinyTranslator:
    """Gives a model whose texts depend on the source and on what is written."""
    with torch.random.fork_rng(devices=[]):
        model = TinyTranslator(TranslatorConfig(9, 8, 12, 3, 1)).float().eval()
    rng = seeded(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=rng, dtype=torch.float32)
            scale = 1.5 * weight.shape[-1] ** -0.5 if weight.ndim == 2 else 0.1
            weight.copy_(drawn * scale + (weight.ndim == 1 and "norm.weight" in name))
    return model


@torch.no_grad()
def _write(
    model: TinyTranslator,
    source: list[int],
    start: int,
    stop: int,
    limit: int,
    *,
    place: int = -1,
    whole: bool = True,
    seen: bool = True,
    begin: list[int] | None = None,
) -> list[int]:
    """Writes greedily; one step or more may be another."""
    memory, _ = model.encode(torch.tensor([source]))
    memory = memory if seen else torch.zeros_like(memory)
    ids, found = list(begin or [start]), list[int]()
    while len(found) < min(limit, 8 - len(begin or [])) and found[-1:] != [stop]:
        target = torch.tensor([ids if whole else ids[-1:]])
        found.append(int(model.decode(target, [memory])[0, place].argmax()))
        ids.append(found[-1])
    return found
