"""The workshop: an empty file, its twelve checks, and what they say of mistakes."""

import importlib.util
import sys

import pytest
import torch

from attention_lib.course.workshop import FILES, emptied, workshop_parts
from attention_lib.course.workshop.__main__ import main
from attention_lib.pretrained import load_pretrained, load_tokenizer
from tests.running import ran

SOLVED = (FILES / "model.py").read_text(encoding="utf-8")
# Part, an edit of the solved file, and a part of what its check says.
MISTAKES = [
    (1, "scores.max(dim=-1, keepdim=True).values", "0", "subtract the largest"),
    (1, "powers / powers.sum(dim=-1, keepdim=True)", "scores.softmax(0)", "last axis"),
    (2, "<= first +", "< first +", "may attend to itself"),
    (2, "<= first +", "> first +", "True must mean"),
    (2, "first = key_len - query_len", "first = 0", "the last of the keys"),
    (3, ".sqrt() * weight", ".sqrt()", "`weight` is not used"),
    (3, "keepdim=True) + eps).sqrt()", "keepdim=True) + eps)", "take its root"),
    (4, "a * cos - b * sin, a * sin", "a * cos + b * sin, -a * sin", "the other way"),
    (4, "-torch.arange(half) / half", "-torch.arange(half) / (2 * half)", "exponent"),
    (4, "dim=-1).flatten(-2)", "dim=-2).flatten(-2)", "side by side"),
    (5, " / math.sqrt(query.shape[-1])", "", "root of the head's width"),
    (5, "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, 0)", "wrong, by up to"),
    (5, "key.repeat_interleave(sharing, dim=0)", "key.repeat(sharing, 1, 1)", "wrong"),
    (6, "gated * gated.sigmoid()", "gated.sigmoid()", "sigmoid(z) alone"),
    (6, "gated * gated.sigmoid()", "gated", "silu is missing"),
    (7, "rotate(query, positions), rotate(key, positions)", "query, key", "rotated"),
    (7, "    x = x + context", "    x = context", "wrong, by up to"),
    (7, "if keep is not None:", "if False:", "What `keep` returns"),
    (8, "rms_norm(x, weights", "(lambda x, _: x)(x, weights", "The last norm"),
    (8, "0 if cache is None else cache.length", "0", "positions go on"),
    (9, "[raw[:, 4:] & 15, raw[:, 4:] >> 4])", "2 * [raw[:, 4:] >> 4])", "wrong"),
    (9, ".view(np.int8)", "", "The codes have a sign"),
    (10, "min(pairs, key=ranks.get)", "pairs[0]", "yours is ['ab', 'ab']"),
    (11, "[old_key, key]", "[key, old_key]", "after the old ones"),
    (11, "self.layers[0][0].shape[1]", "len(self.layers)", "After 3 tokens"),
    (12, ".argmax().item()", ".argmax()", "Return an int"),
    (12, "logits / temperature", "logits", "Divide the logits"),
    (12, "ordered.cumsum(0) - ordered <", "ordered.cumsum(0) <", "Drawn"),
]


def module(name, path, source=None):
    """A module of that name from a file, or from another text in its place."""
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    if source is None:
        spec.loader.exec_module(made)
    else:
        exec(compile(source, path, "exec"), made.__dict__)
    return made


def checks(monkeypatch, source):
    """The checks, of a file with this text; by their part."""
    path = FILES / "model.py"
    monkeypatch.setitem(sys.modules, "model", module("model", path, source))
    found = vars(module("test_model", FILES / "test_model.py"))
    return {
        int(name.split("_")[2]): check
        for name, check in found.items()
        if name.startswith("test_part_")
    }


def test_solved_file_passes_all_twelve_checks(monkeypatch):
    found = checks(monkeypatch, SOLVED)
    assert [part.number for part in workshop_parts()] == [*range(1, 13)] == [*found]
    for check in found.values():
        check()


def test_empty_file_skips_all_twelve_checks(monkeypatch):
    for check in checks(monkeypatch, emptied(SOLVED)).values():
        with pytest.raises(pytest.skip.Exception, match="not written yet"):
            check()


@pytest.mark.parametrize(("part", "old", "new", "words"), MISTAKES)
def test_mistake_is_named(monkeypatch, part, old, new, words):
    assert old in SOLVED
    check = checks(monkeypatch, SOLVED.replace(old, new))[part]
    with pytest.raises((AssertionError, pytest.fail.Exception)) as caught:
        check()
    assert words in str(caught.value)


def test_every_part_has_a_mistake():
    assert {part for part, *_ in MISTAKES} == {part.number for part in workshop_parts()}


def test_emptied_file_keeps_what_is_given_and_says_what_to_do():
    empty = emptied(SOLVED)
    assert (empty.count("\n    ..."), empty.count("\n        ...")) == (12, 3)
    assert empty[empty.index("# Given:") :] == SOLVED[SOLVED.index("# Given:") :]
    assert "attention_lib" not in empty


def test_command_makes_a_folder_that_counts_the_parts(tmp_path, capsys):
    folder = tmp_path / "new" / "mine"
    assert main([str(folder)]) == 0
    assert "12 parts, about 120 minutes" in capsys.readouterr().out
    part = SOLVED[SOLVED.index("# Part 1.") : SOLVED.index("# Part 2.")]
    path = folder / "model.py"
    begun = path.read_text("utf-8")
    start, end = begun.index("# Part 1."), begun.index("# Part 2.")
    path.write_text(begun[:start] + part + begun[end:], "utf-8")
    done = ran([sys.executable, "-m", "pytest", "-q"], cwd=folder)
    assert done.returncode == 0
    assert "parts done: 1 of 12\nnext: part 2, causal mask" in done.stdout
    assert main([str(folder)]) == 2
    assert "not empty" in capsys.readouterr().err


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
def test_solved_file_writes_the_tokens_of_the_book(model_file):
    solved = module("model", FILES / "model.py")
    weights, fields = solved.load(model_file)
    ours, theirs = load_tokenizer(model_file), solved.Tokenizer(fields)
    text = "It's 1865;\n\n  naïve <b> 你好 <|im_start|>user\nWho?<|im_end|>\n"
    assert theirs.encode(text) == ours.encode(text)
    assert theirs.decode(theirs.encode("naïve 你好")) == "naïve 你好"
    ids = torch.tensor(ours.encode(text))
    with torch.inference_mode():
        right = load_pretrained(model_file)(ids[None])[0]
        found = solved.model(ids, weights)
        cache = solved.Cache()
        steps = [solved.model(part, weights, cache) for part in ids.split([9, 1, 17])]
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(torch.cat(steps), right, rtol=1e-4, atol=1e-3)
