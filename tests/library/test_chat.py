"""attention_lib.conversation and .chat: each turn as from a fresh cache."""

import io
import re
import runpy
import sys

import pytest
import torch

from attention_lib import chat
from attention_lib.chat import COMMANDS, main, talk
from attention_lib.conversation import Conversation
from attention_lib.generation import generate
from attention_lib.pretrained import (
    Decoder,
    load_tokenizer,
    read_config,
    save_pretrained,
)
from tests.library.tiny_tokenizers import (
    MODEL_FIELDS,
    TOKENS,
    tiny_decoder,
    write_folder,
    write_gguf,
)

END = 1
ROOM = MODEL_FIELDS["max_position_embeddings"]


class Scripted(Decoder):
    """A decoder that says a script first: token by token, then what it finds best.

    Where the script has None, Ctrl+C comes between two layers of that pass.
    """

    def __init__(self):
        super().__init__(read_config(MODEL_FIELDS))
        self.load_state_dict(tiny_decoder().state_dict())
        self.script, self.read = [], []
        self.blocks[0].register_forward_hook(self.interrupt)

    def interrupt(self, block, inputs, output):
        if self.script[:1] == [None]:
            self.script.pop(0)
            raise KeyboardInterrupt

    def forward(self, token_ids, **options):
        self.read.append(token_ids.shape[1])
        logits = super().forward(token_ids, **options)
        if self.script:
            logits[..., self.script.pop(0)] = 1e9
        return logits


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_tokenizer(write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "tiny.gguf"
    changes = {"chat_template": None, "ggml.add_bos_token": True}
    return load_tokenizer(write_gguf(path, **changes))


def started(tokenizer, **options):
    options = {"temperature": 0.0, "max_new_tokens": 6} | options
    return Conversation(Scripted().eval(), tokenizer, **options)


def say(conversation, text, script=(), end=True):
    """What was shown of a reply, and the reply, in which the model says a script."""
    pieces = []
    model, tokenizer = conversation.model, conversation.tokenizer
    model.script = [
        t
        for each in script
        for t in ([None] if each is None else tokenizer.encode(each))
    ]
    model.script += [END] * end
    reply = conversation.reply(text, pieces.append)
    assert "".join(pieces) == reply.text
    return pieces, reply


def fresh(conversation, count):
    """The tokens that a fresh cache leads to after the conversation's last prompt."""
    prompt = torch.tensor([conversation.token_ids[:-count]])
    conversation.model.script = []
    return generate(conversation.model, prompt, max_new_tokens=count)[0].tolist()


def test_reply_comes_in_pieces_and_ends_at_eos(tokenizer):
    conversation = started(tokenizer)
    pieces, reply = say(conversation, "hell", ["hell", " w", "é"])
    assert [piece for piece in pieces if piece] == ["hell", " w", "é"]
    assert (reply.text, reply.written, reply.cut) == ("hell wé", 5, "")
    prompt = tokenizer.encode(tokenizer.chat([{"role": "user", "content": "hell"}]))
    assert reply.read == len(prompt) == conversation.model.read[0]
    assert conversation.cache.length == len(prompt) + 4  # the end was not read
    words = rf"read {len(prompt)} tokens in \d\.\d s, wrote 5 at \d+\.\d tokens/s"
    assert re.fullmatch(words, str(reply))


def test_turn_reads_only_new_tokens_and_equals_a_fresh_cache(tokenizer):
    conversation = started(tokenizer, system="hell")
    _, first = say(conversation, "a", ["hell"])
    held = conversation.cache.length
    _, second = say(conversation, "b  2", end=False)
    assert conversation.messages == [
        {"role": "system", "content": "hell"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "b  2"},
        {"role": "assistant", "content": second.text},
    ]
    whole = tokenizer.encode(tokenizer.chat(conversation.messages[:-1]))
    assert second.read == len(whole) - held
    assert conversation.token_ids[: len(whole)] == whole
    assert fresh(conversation, second.written) == conversation.token_ids


def test_other_tokens_of_the_same_text_are_read_again(tokenizer):
    conversation = started(tokenizer)
    _, first = say(conversation, "a", ["h", "e", "l"])  # not the tokens of "hel"
    _, second = say(conversation, "b", end=False)
    assert second.read > len(tokenizer.encode("<|im_end|>\n<|im_start|>user\nb"))
    assert fresh(conversation, second.written) == conversation.token_ids
    assert first.text == "hel"


def test_template_may_drop_former_turns_and_a_prompt_may_repeat(tmp_path):
    changes = {"chat_template": "{{ messages[-1].content }}", "ggml.eot_token_id": 0}
    tokenizer = load_tokenizer(write_gguf(tmp_path / "x.gguf", **changes))
    conversation = started(tokenizer)
    for text, read in (("he w", 2), ("he w", 1), ("hell", 1), ("he2", 2)):
        _, reply = say(conversation, text, ["hell", "<|im_start|>"], end=False)
        assert (reply.text, reply.read, reply.cut) == ("hell", read, "")
    _, reply = say(conversation, "hea", end=False)
    assert reply.read == 1
    assert fresh(conversation, reply.written) == conversation.token_ids


@pytest.mark.parametrize("script", [[None], ["h", None], ["hell", "é", None]])
def test_ctrl_c_stops_a_reply_and_leaves_the_conversation_whole(tokenizer, script):
    conversation = started(tokenizer)
    _, stopped = say(conversation, "a", script)
    assert (stopped.text, stopped.cut) == ("".join(filter(None, script)), "stopped")
    layers = [layer.length for layer in conversation.cache.layers]
    assert layers[0] == layers[1] + (stopped.read if stopped.written == 0 else 1)
    _, reply = say(conversation, "b", end=False)
    assert conversation.messages[1]["content"] == stopped.text
    whole = tokenizer.encode(tokenizer.chat(conversation.messages[:-1]))
    assert conversation.token_ids[: len(whole)] == whole
    assert fresh(conversation, reply.written) == conversation.token_ids
    assert {layer.length for layer in conversation.cache.layers} == {
        len(conversation.token_ids) - 1
    }


def test_ctrl_c_within_a_character_leaves_it_out(tokenizer):
    conversation = started(tokenizer)
    half = TOKENS[tokenizer.encode("é")[0]]
    conversation.model.script = [TOKENS.index("h"), TOKENS.index(half), None]
    pieces = []
    reply = conversation.reply("a", pieces.append)
    assert (reply.text, reply.written, "".join(pieces)) == ("h", 2, "h")


def test_reset_forgets_and_draws_the_same_again(tokenizer):
    conversation = started(tokenizer, temperature=50.0, seed=3, system="hell")
    replies = []
    for _ in range(2):
        replies += [say(conversation, text, end=False)[1].text for text in "ab"]
        conversation.reset()
        assert [message["role"] for message in conversation.messages] == ["system"]
    assert replies[:2] == replies[2:]
    assert replies[0] != replies[1]


def test_context_that_is_full_is_said_and_nothing_is_lost(tokenizer, refused):
    conversation = started(tokenizer, max_new_tokens=1000)
    _, reply = say(conversation, "a", end=False)
    assert reply.cut == "the context is full"
    assert conversation.cache.length == ROOM == reply.read + reply.written - 1
    kept = list(conversation.messages)
    with refused(ValueError, "the context is full: this needs "):
        conversation.reply("b", str)
    assert conversation.messages == kept
    conversation.reset()
    assert say(conversation, "a", ["hell"])[1].text == "hell"


def test_prompt_that_just_fits_gets_one_token(tokenizer):
    conversation = started(tokenizer)
    empty = len(tokenizer.encode(tokenizer.chat([{"role": "user", "content": ""}])))
    _, reply = say(conversation, "w" * (ROOM - empty), end=False)
    assert (reply.read, reply.written) == (ROOM, 1)
    assert re.fullmatch(r"read 160 .* wrote 1 \(the context is full\)", str(reply))


def test_model_without_a_template_continues_the_text(plain):
    conversation = started(plain, system="w")
    say(conversation, "he", ["ll"])
    assert conversation.token_ids[:-2] == [0, *plain.encode("w\nhe")]
    say(conversation, "a", end=False)
    assert conversation.token_ids[:-6] == [0, *plain.encode("w\nhell\na")]
    assert fresh(conversation, 6) == conversation.token_ids


def test_wrong_replies_are_refused_before_the_model_reads(tokenizer, refused):
    conversation = started(tokenizer)
    with refused(TypeError, "a text must be a str; got int"):
        conversation.reply(3, print)
    with refused(TypeError, "write must be a function; got NoneType"):
        conversation.reply("a", None)
    assert conversation.model.read == []


def test_wrong_options_are_refused(tokenizer, refused):
    with refused(ValueError, "max_new_tokens must be at least 1"):
        started(tokenizer, max_new_tokens=0)
    with refused(ValueError, "temperature"):
        started(tokenizer, temperature=-1.0)


# The terminal.


def lines(*texts):
    """A reader of these lines; then the input ends."""
    left = list(texts)

    def read():
        if not left:
            raise EOFError
        if left[0] is None:
            raise KeyboardInterrupt
        return left.pop(0)

    return read


def test_user_talks_resets_and_quits(tokenizer):
    conversation, shown = started(tokenizer), []
    conversation.model.script = [*tokenizer.encode("hell"), END] * 2
    said = lines("a", "", "  ", "/help", "/x", "/reset", "/quit", "b")
    talk(conversation, said, shown.append, lambda line: shown.append(f"{line}|"))
    kept = [it for it in shown if it]
    assert kept[:2] == ["hell", "\n"]
    assert re.fullmatch(r"\[read \d+ .* wrote 2 at .*; cache: .*\]\|", kept[2])
    size = conversation.cache.nbytes / ROOM / 1e6  # of a position
    held = int(re.search(r"cache: (\d+) of 160 positions", kept[2])[1])
    assert f"positions, {held * size:.1f} MB]" in kept[2]
    assert kept[3:] == [*[f"{COMMANDS}|"] * 2, "The conversation is forgotten.|"]
    assert said() == "b"
    assert conversation.messages == []


@pytest.mark.parametrize("end", [[], [None]])
def test_input_ends_the_talk_as_ctrl_c_at_the_prompt_does(tokenizer, end):
    conversation, shown = started(tokenizer), []
    conversation.model.script = [5, None, END]
    talk(conversation, lines("a", "/tmp is", *end), shown.append, shown.append)
    assert "(stopped)" in shown[2] if shown[2] != "\n" else shown[3]
    assert len(conversation.messages) == 4


def test_what_cannot_be_answered_is_said_and_the_talk_goes_on(tokenizer):
    conversation, shown = started(tokenizer), []
    conversation.model.script = [5, END]
    said = lines("w" * 200, "\ud800", "a")
    talk(conversation, said, shown.append, shown.append)
    assert shown[0].startswith("the context is full: this needs ")
    assert shown[1].startswith("the text holds '\\ud800'")
    assert conversation.messages[0]["content"] == "a"


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "tiny-llama"
    save_pretrained(path, tiny_decoder(), MODEL_FIELDS)
    return write_folder(path, tokenizer)


def run(monkeypatch, capsys, text, *arguments):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def test_command_works_in_a_pipe(folder, monkeypatch, capsys):
    options = "--max-new-tokens", 3, "--temperature", 0, "--system", "hell"
    text = b"a\n\xff\n/reset\na"
    status, out, _ = run(monkeypatch, capsys, text, folder, *options)
    assert status == 0
    assert "\033" not in out
    head, first, second, third, fourth = re.split(r"(?m)^> ", out)
    count = sum(weight.numel() for weight in tiny_decoder().parameters())
    assert head.splitlines()[:3] == [
        f"Loading {folder} ...",
        f"tiny-llama: {count:,} parameters, {count * 4 / 1e6:,.0f} MB in memory",
        "/help lists the commands.",
    ]
    assert second.startswith("\ufffd\n")
    assert third.startswith("/reset\nThe conversation")
    figures = r"in \d\.\d s|at .* tokens/s"
    assert re.sub(figures, "", first) == re.sub(figures, "", fourth)


def test_command_says_that_a_base_model_continues(
    folder, tokenizer, monkeypatch, capsys
):
    write_folder(folder, tokenizer, chat_template=None)
    status, out, _ = run(monkeypatch, capsys, b"", folder)
    write_folder(folder, tokenizer)
    assert status == 0
    assert "There is no chat template" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none"], "path must be a folder or a GGUF file that exists; got 'none'"),
        (
            ["none.gguf"],
            "path must be a folder or a GGUF file that exists; got 'none.",
        ),
        (["FOLDER", "--temperature=-1"], "temperature must be"),
        (["FOLDER", "--max-new-tokens=0"], "max_new_tokens must be at least 1"),
        (["FOLDER", "--seed=-1"], "seed must be between 0 and"),
        ([], "BOOK_MODEL is 'none', but there is no such file"),
    ],
)
def test_command_that_finds_no_model_ends_in_a_line(
    arguments, words, folder, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOOK_MODEL", "none")
    given = [it.replace("FOLDER", str(folder)) for it in arguments]
    status, _, err = run(monkeypatch, capsys, b"", *given)
    assert status == 2
    assert err.rpartition("\r")[2].startswith(f"no chat: {words}")
    assert err.count("\n") == 1


def test_command_stopped_while_it_loads_ends_quietly(folder, monkeypatch, capsys):
    def stopped(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("attention_lib.chat.load_pretrained", stopped)
    assert run(monkeypatch, capsys, b"", folder)[0] == 130


@pytest.mark.long
@pytest.mark.usefixtures("model_file", "shapes_unchecked")
def test_real_model_answers_in_turns(monkeypatch, capsys):
    text = b"What is the capital of France?\nAnd of Italy?\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    monkeypatch.setattr(sys, "argv", ["chat", "--temperature", "0"])
    with pytest.raises(SystemExit) as ended:  # as `python -m` runs it
        runpy.run_path(chat.__file__, run_name="__main__")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "135M" in said
    assert "134,515,008 parameters, 538 MB in memory, licence apache-2.0" in said
    first, second = re.split(r"(?m)^> ", said)[1:]
    assert "The capital of France is Paris.\n" in first
    assert "Rome" in second
    read = int(re.search(r"\[read (\d+) tokens", second)[1])
    assert read < int(re.search(r"\[read (\d+) tokens", first)[1])
