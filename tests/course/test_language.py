"""What the course says in the language that a reader chose."""

import json

import pytest

from attention_lib.course.exercises.verdict import NOT_YET, Verdict
from attention_lib.course.language import in_words, lines_of, pattern_of, table
from attention_lib.course.predict import predict
from attention_lib.course.views import Interactive


@pytest.fixture
def chinese(monkeypatch):
    monkeypatch.setenv("ATTENTION_LANGUAGE", "zh")


@pytest.mark.parametrize("language", ["", "en", None])
def test_english_is_spoken_unless_another_language_is_chosen(monkeypatch, language):
    monkeypatch.delenv("ATTENTION_LANGUAGE", raising=False)
    if language is not None:
        monkeypatch.setenv("ATTENTION_LANGUAGE", language)
    assert repr(NOT_YET) == f"○ {NOT_YET.message}"
    shown = predict("How many?", answer=3, because="One, two.")._repr_mimebundle_()
    assert "attentionWords={" not in shown["text/html"]


@pytest.mark.parametrize("language", ["fr", "../zh", "zh.toml"])
def test_unknown_language_is_refused(monkeypatch, language):
    monkeypatch.setenv("ATTENTION_LANGUAGE", language)
    with pytest.raises(ValueError, match="choose 'en' or 'zh'"):
        in_words("Right.")


def test_message_of_several_lines_is_said_line_by_line(chinese):
    assert repr(NOT_YET) == "○ 还没有答案：请替换上面的 ...，再运行这个单元格。"
    message = f"This is right for small scores. Nobody said this. {NOT_YET.message}"
    said = repr(Verdict(False, message))
    assert said.startswith("✗ 分数")
    assert said.endswith("再运行这个单元格。")
    assert " Nobody said this. " in said


def test_part_that_is_filled_in_keeps_what_it_was(chinese):
    said = in_words("At temperature 3.5 the largest weight is 0.500.")
    assert "3.5" in said
    assert "0.500" in said
    assert "temperature" not in said


def test_no_line_takes_what_a_later_one_says(chinese):
    lines = [*lines_of(table())]
    filled_in = [(n, line) for n, line in enumerate(lines) if "{" in line]
    taken = [
        (line, later)
        for at, line in filled_in
        for n, later in filled_in
        if at < n and pattern_of(line).fullmatch(later)
    ]
    assert taken == []


def test_view_in_a_notebook_says_its_words_in_chinese(chinese):
    view = predict("`key` 有几个？", answer=3, because="一、二、三。")
    assert repr(view) == "先猜一猜：`key` 有几个？ 答案：3。"
    shown = view._repr_mimebundle_()
    html = shown["text/html"]
    assert shown["text/plain"] == repr(view)
    assert "<strong>先猜一猜。</strong> <code>key</code> 有几个？" in html
    script = html.partition('<script data-attention-program="views">')[2]
    assert script.startswith('globalThis.attentionWords={"')
    assert '"Check":"\\u68c0\\u67e5"' in script.partition(";")[0]


def test_names_in_the_data_of_a_view_are_said_in_chinese(chinese):
    view = Interactive("mask", {"masks": [["an empty row", "x"]]}, "", "")
    html = view._repr_mimebundle_()["text/html"]
    assert '[["an empty row","x"]]' in html  # by which phrases of a page set it
    words = html.partition("globalThis.attentionWords=")[2].partition(";")[0]
    assert json.loads(words)["an empty row"] == "一个空行"
    assert "colour" not in json.loads(words)
