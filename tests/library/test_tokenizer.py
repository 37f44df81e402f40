"""attention_lib.pretrained.load_tokenizer: ids and chats of published models."""

import json
import re
from pathlib import Path

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

import attention_lib
from attention_lib.pretrained import Tokenizer, load_tokenizer
from attention_lib.stories import load_alice
from tests.library.tiny_tokenizers import (
    BYTES,
    END,
    START,
    TEMPLATE,
    TOKENS,
    write_folder,
    write_gguf,
)

CODE = Path(attention_lib.__file__).with_name("generation.py").read_text("utf-8")
HELLO = [{"role": "user", "content": "Hello  2"}]
CHATS = {
    "question": HELLO,
    "system": [{"role": "system", "content": "Be brief."}, *HELLO],
    "turns": [*HELLO, {"role": "assistant", "content": " 4\n"}, *HELLO],
    "other role": [{"role": "tool", "content": "<|im_end|>{{ 1 }}"}],
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return load_tokenizer(write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture(scope="module")
def published(model_file, unchecked):
    with unchecked():  # ten seconds otherwise
        return load_tokenizer(model_file)


@pytest.fixture(scope="module")
def theirs(model_file):
    """The same file in transformers: its tokenizer, and that with a template."""
    gguf = pytest.importorskip("transformers.integrations.gguf")
    transformers = pytest.importorskip("transformers")
    architecture, fields, config = gguf.get_gguf_tokenizer(str(model_file))
    inner, _ = gguf.convert_gguf_tokenizer(architecture, fields)
    return inner, transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **config)


def pieces(tokenizer, text):
    return [tokenizer._inner.id_to_token(i) for i in tokenizer.encode(text)]


def test_ids_are_those_worked_out_by_hand(tiny, tmp_path):
    assert (tiny.bos, tiny.eos, tiny.ends, tiny.prefix) == (0, 1, {1}, [])
    assert tiny.vocab_size == len(TOKENS) == tiny.encode("<tool>")[0] + 1
    hell, ll = TOKENS.index("hell"), TOKENS.index("ll")
    assert tiny.encode("hell") == [hell]
    assert tiny.encode(f"{START}hell{END}") == [0, hell, 1]
    assert tiny.encode("lll") == [ll, TOKENS.index("l")]
    assert pieces(tiny, "<tool> w<tool") == ["<tool>", "Ġw", *"<tool"]
    assert pieces(tiny, "é") == ["Ã", "©"]
    # A digit is a piece of its own, so both spaces stay together; not so in GPT-2.
    assert pieces(tiny, "a  2") == ["a", "ĠĠ", "2"]
    gpt2 = load_tokenizer(write_gguf(tmp_path / "x.gguf", **{"ggml.pre": "gpt-2"}))
    assert pieces(gpt2, "a  2") == ["a", "Ġ", "Ġ", "2"]


@given(st.lists(st.text(st.sampled_from("hel w2\n é🙂\u0301½<|>") | st.characters())))
def test_round_trip_is_exact_and_a_text_only_grows(tiny, parts):
    text = START.join(parts)
    ids = tiny.encode(text)
    assert tiny.decode(ids) == tiny.decode(torch.tensor(ids).long()) == text
    so_far = [tiny.decode(ids[:n], unfinished=True) for n in range(len(ids) + 1)]
    for n, shorter in enumerate(so_far):
        assert text.startswith(shorter)
        assert tiny.decode(ids[:n]).rstrip("\ufffd") == shorter
    assert so_far[-1] == text.rstrip("\ufffd")


def test_characters_wait_for_their_last_byte(tiny):
    ids = tiny.encode("a🙂")
    shown = [tiny.decode(ids[: n + 1], unfinished=True) for n in range(5)]
    assert shown == ["a", "a", "a", "a", "a🙂"]
    assert tiny.decode(ids[:3]) != "a"


@given(st.text())
def test_folder_and_gguf_are_the_same_tokenizer(tiny, folder, text):
    assert folder.encode(text) == tiny.encode(text)


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    return load_tokenizer(write_folder(tmp_path_factory.mktemp("tiny"), tiny))


def test_folder_names_special_tokens_and_ends(tiny, tmp_path):
    inner = tokenizers.Tokenizer.from_str(tiny._inner.to_str())
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, 0)]
    )
    inner.enable_truncation(2)
    inner.enable_padding(length=9)
    named = {"content": END, "lstrip": False}
    write_folder(tmp_path, Tokenizer(inner, {}), eos_token=named, chat_template="x")
    (tmp_path / "chat_template.jinja").write_text("{{ eos_token }}!")
    for ends, wanted in ((5, {1, 5}), ([1, 7], {1, 7}), (None, {1}), (-1, {1})):
        (tmp_path / "generation_config.json").write_text(
            json.dumps({"eos_token_id": ends})
        )
        found = load_tokenizer(str(tmp_path))
        assert (found.bos, found.eos, found.ends) == (0, 1, wanted)
    assert found.prefix == [0]
    assert found.encode("wwww") == [TOKENS.index("w")] * 4
    assert found.chat(HELLO) == f"{END}!"
    (tmp_path / "chat_template.jinja").unlink()
    for name, wanted in (("default", "!"), ("tools", None)):
        several = [{"name": name, "template": "!"}]
        write_folder(tmp_path, Tokenizer(inner, {}), chat_template=several)
        assert load_tokenizer(tmp_path).template == wanted
    bare = write_folder(tmp_path / "bare", tiny, bos_token=None, chat_template=None)
    assert (load_tokenizer(bare).bos, load_tokenizer(bare).template) == (None, None)
    (bare / "tokenizer_config.json").unlink()
    assert (load_tokenizer(bare).eos, load_tokenizer(bare).ends) == (None, set())


def test_gguf_may_ask_for_bos_and_end_turns_with_another_token(tmp_path):
    changes = {"ggml.add_bos_token": True, "ggml.eot_token_id": 5}
    changes |= {"ggml.token_type": None, "chat_template": None}
    found = load_tokenizer(write_gguf(tmp_path / "x.gguf", **changes))
    assert (found.prefix, found.ends, found.template) == ([0], {1, 5}, None)
    assert pieces(found, END) == list(END)  # nothing says that it is special


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"ggml.model": "llama"},
            "x.gguf has 'llama' as tokenizer.ggml.model; wanted gpt2",
        ),
        ({"ggml.pre": "llama-bpe"}, "x.gguf has 'llama-bpe' as tokenizer.ggml.pre; "),
        ({"ggml.pre": None}, "x.gguf has None as tokenizer.ggml.pre; wanted gpt-2 or"),
        ({"ggml.tokens": None}, "x.gguf has no list tokenizer.ggml.tokens"),
        ({"ggml.merges": "Ġ Ġ"}, "x.gguf has no list tokenizer.ggml.merges"),
        ({"ggml.merges": ["h é"]}, "x.gguf has a broken tokenizer: Error while"),
        ({"ggml.merges": ["hell"]}, "x.gguf has a broken tokenizer"),
        ({"ggml.tokens": [1, 2], "ggml.token_type": None}, "x.gguf has a broken"),
        ({"ggml.token_type": [1]}, "x.gguf has 264 tokens, but 1 in token_type"),
        ({"ggml.bos_token_id": 999}, "bos_token_id"),
    ],
)
def test_gguf_that_is_not_understood_is_refused(changes, words, tmp_path, refused):
    with refused(ValueError, words):
        load_tokenizer(write_gguf(tmp_path / "x.gguf", **changes))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("tokenizer.json", None, "the folder"),
        ("tokenizer.json", "{", "tokenizer.json cannot be read"),
        ("tokenizer.json", "{}", 'tokenizer.json has no "model"'),
        ("tokenizer_config.json", "[]", "tokenizer_config.json must hold an object"),
        ("tokenizer_config.json", '{"eos_token": 3}', "folder has a broken tokenizer"),
        ("generation_config.json", "x", "generation_config.json cannot be read"),
    ],
)
def test_folder_that_is_broken_is_refused(
    file, content, words, tiny, tmp_path, refused
):
    folder = write_folder(tmp_path / "folder", tiny)
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)
    with refused(ValueError, words):
        load_tokenizer(folder)


def test_wrong_calls_are_refused(tiny, tmp_path, refused):
    with refused(ValueError, "none.gguf: the header cannot be read"):
        load_tokenizer(tmp_path / "none.gguf")
    with refused(ValueError, f"there is no folder {tmp_path / 'none'}"):
        load_tokenizer(tmp_path / "none")
    with refused(ValueError, "the text holds '\\ud800' at 0, which is not a char"):
        tiny.encode("\ud800")
    for wrong in (tiny.vocab_size, -1):
        with refused(
            ValueError, f"ids must be between 0 and {tiny.vocab_size - 1}; got {wrong}"
        ):
            tiny.decode([1, wrong])


# The template of a chat.


@pytest.mark.parametrize("messages", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize(
    "template",
    [
        TEMPLATE,
        "{%- for m in messages %}\n    {% if loop.last %}{% break %}{% endif %}\n"
        "{{ m.content | trim }}{{ eos_token }}\n  {% endfor %}\n<a>\n",
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
        "{% endfor %}{{ ns.n }}{% if tools is none and add_generation_prompt %}!"
        "{% endif %}{{ strftime_now('%%') }}{{ bos_token }}{{ nothing }}",
    ],
)
def test_chat_equals_the_one_of_transformers(template, messages, tiny):
    transformers = pytest.importorskip("transformers")
    names = {"bos_token": START, "eos_token": END}
    ours = Tokenizer(tiny._inner, names, template=template)
    kept = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny._inner, **names)
    options = {"tokenize": False, "add_generation_prompt": True}
    wanted = kept.apply_chat_template(messages, chat_template=template, **options)
    assert ours.chat(messages) == wanted


def test_chat_takes_the_messages_of_a_call_of_a_tool(tiny):
    asked = {"role": "assistant", "content": None, "tool_calls": [{"name": "t"}]}
    told = {"role": "tool", "content": {"celsius": 22}}
    template = "{% for m in messages %}{{ m.role }};{% endfor %}"
    chat = Tokenizer(tiny._inner, {}, template=template).chat
    assert chat([asked, told]) == "assistant;tool;"


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ("hello", "messages must be a list of mappings with a role and a content; got"),
        ({"role": "user"}, "messages must be a list of mappings with a role and a"),
        (["hello"], "messages[0] must be a Mapping; got str"),
        ([{"content": "x"}], "messages[0]['role'] must be a str; got NoneType"),
        ([{"role": "user", "content": None}], "messages[0]['content'] must be a text"),
    ],
)
def test_chat_refuses_what_are_no_messages(messages, words, tiny, refused):
    with refused(TypeError, words):
        Tokenizer(tiny._inner, {}, template=TEMPLATE).chat(messages)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (None, "the model has no chat template"),
        (
            "{{ raise_exception('no system here') }}",
            "the chat template failed: no system here",
        ),
        ("{% for m in messages %}", "the chat template failed: Unexpected end"),
        (
            "{{ messages[0]['text'] + 'x' }}",
            "the chat template failed: 'dict object' has no",
        ),
        ("{{ messages.append(1) }}", "the chat template failed: access to attribute"),
        (
            "{{ ''.__class__.__mro__ }}",
            "the chat template failed: access to attribute '__c",
        ),
        ("{{ 1 / 0 }}", "the chat template failed: division by zero"),
    ],
)
def test_template_that_fails_is_refused(template, words, tiny, refused):
    with refused(ValueError, words):
        Tokenizer(tiny._inner, {}, template=template).chat(HELLO)


# The published file.


@pytest.mark.long
def test_real_ids_equal_those_of_transformers(published, theirs):
    special = f"{START}user\nWhat's <|endoftext|> ?{END}\n<jupyter_code>"
    for text in (load_alice(), CODE, special, "", "½x", "naïve 注意 🙂\r\n\tx"):
        ids = published.encode(text)
        assert ids == theirs[0].encode(text, add_special_tokens=False).ids
        assert published.decode(ids) == text
    assert published.vocab_size == 49152
    assert (published.bos, published.eos, published.prefix) == (1, 2, [])


@pytest.mark.long
def test_real_digits_are_pieces_which_transformers_forgets(published, theirs):
    assert pieces(published, "a  2") == ["a", "ĠĠ", "2"]
    assert pieces(published, "in 1865\n\n19") == ["in", "Ġ", *"1865", "ĊĊ", *"19"]
    assert theirs[0].encode("a  2").tokens == ["a", "Ġ", "Ġ", "2"]


@pytest.mark.long
@pytest.mark.parametrize("messages", CHATS.values(), ids=CHATS)
def test_real_chat_equals_the_one_of_transformers(messages, published, theirs):
    options = {"tokenize": False, "add_generation_prompt": True}
    assert published.chat(messages) == theirs[1].apply_chat_template(
        messages, **options
    )


def test_real_vocabulary_lacks_bytes_that_no_word_needs(published):
    absent = [byte for byte in BYTES if published._inner.token_to_id(byte) is None]
    # Six controls, 13 that UTF-8 never has, and 2 that begin unassigned characters.
    assert len(absent) == 6 + 13 + 2


@given(st.text())
def test_real_round_trip_is_exact_but_for_bytes_without_a_token(published, text):
    kept = re.sub("[\x04\x06\x13\x14\x16\x1d]", "", text)
    if not re.search("[\U00040000-\U000bffff]", text):
        assert published.decode(published.encode(text)) == kept
