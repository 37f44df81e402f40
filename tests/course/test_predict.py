"""Predictions: what is asked, what is right, and what a view of them holds."""

import json
import re

import numpy as np
import pytest
import torch

from attention_lib.course.predict import predict

WHY = "So it is."
TOO_NEAR = {"mistakes": {22: "b"}, "within": "10%"}


def bundle(**options):
    given = {"answer": 24, "because": WHY} | options
    return predict(given.pop("question", "How many?"), **given)


def data(**options):
    html = bundle(**options)._repr_mimebundle_()["text/html"]
    return json.loads(re.search(r"json\">(.*?)</script>", html)[1])


def static(**options):
    html = bundle(**options)._repr_mimebundle_()["text/html"]
    return html[: html.index("<script")]


@pytest.mark.parametrize(
    ("answer", "held", "shown"),
    [
        (147648, 147648, "147,648"),
        (np.int64(-3), -3, "-3"),
        (0.0, 0.0, "0.0"),
        (168.0, 168.0, "168"),
        (1.7917594692, 1.7918, "1.792"),
        (1234567.891, 1234567.891, "1,234,568"),
        (0.0000123456, 0.00001235, "1.235e-05"),
        (np.float32(0.5), 0.5, "0.5"),
        (torch.zeros(2, 0).shape, [2, 0], "(2, 0)"),
        ((5,), [5], "(5,)"),
        ((), [], "()"),
    ],
)
def test_predict_holds_the_answer_rounded(answer, held, shown):
    came = data(answer=answer)
    assert (came["answer"], came["shown"]) == (held, shown)


@pytest.mark.parametrize(
    ("options", "tolerance", "hint"),
    [
        ({}, {"absolute": 0}, "A whole number, exactly."),
        ({"answer": 0.5}, {"relative": 0.01}, "A number. Within 1 % is right."),
        ({"answer": 0.5, "within": 0}, {"absolute": 0}, "A number, exactly."),
        ({"within": 2}, {"absolute": 2}, "A number. Within 2 is right."),
        ({"within": "5%"}, {"relative": 0.05}, "A number. Within 5 % is right."),
        ({"within": "0.5 %"}, {"relative": 0.005}, "A number. Within 0.5 % is right."),
        ({"answer": (2, 3)}, {}, "A shape: one size for each axis, as in (8, 5)."),
    ],
)
def test_predict_says_how_exact_it_must_be(options, tolerance, hint):
    came = data(**options)
    assert came["hint"] == hint
    said = {"absolute", "relative"} & came.keys()
    assert {name: came[name] for name in said} == tolerance


def test_predict_is_one_line_of_text_and_holds_mistakes_in_order():
    assert repr(bundle()) == "Predict: How many? Answer: 24."
    mistakes = {12: "Half of it.", 0.5: "`x` is missing."}
    held = [[12, "Half of it."], [0.5, "<code>x</code> is missing."]]
    assert data(mistakes=mistakes)["mistakes"] == held
    shapes = data(answer=(2, 3), mistakes={(3, 2): "Flipped."})["mistakes"]
    assert shapes == [[[3, 2], "Flipped."]]


@pytest.mark.parametrize(
    ("words", "html"),
    [
        ("a < b & c", "a &lt; b &amp; c"),
        ("`a <b>` and *M*", "<code>a &lt;b&gt;</code> and <em>M</em>"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("`2*3*4`", "<code>2*3*4</code>"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ],
)
def test_predict_escapes_words(words, html):
    came = data(question=words, because=words, mistakes={1: words})
    assert came["question"] == came["because"] == came["mistakes"][0][1] == html
    assert html in static(question=words)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"answer": "24"}, TypeError, "answer is a str: give an int, a float or"),
        ({"answer": True}, TypeError, "answer is a bool"),
        ({"answer": torch.tensor(3)}, TypeError, "answer is a Tensor"),
        ({"answer": (2, 3.0)}, TypeError, "answer is (2, 3.0): a shape holds whole"),
        ({"answer": (2, True)}, TypeError, "answer is (2, True): a shape"),
        ({"answer": (2, -1)}, ValueError, "answer is (2, -1): a size is 0 or more"),
        ({"answer": float("nan")}, ValueError, "answer is nan: give a finite"),
        ({"question": " "}, ValueError, "question is empty: give a text"),
        ({"because": 3}, TypeError, "because is a int: give a text"),
        ({"mistakes": {3: ""}}, ValueError, "mistakes[3] is empty"),
        ({"mistakes": {"a": "b"}}, TypeError, "a mistake is a str"),
        ({"mistakes": {24.0: "b"}}, ValueError, "a mistake is 24.0, which is right"),
        ({"answer": (2,), "mistakes": {(2,): "b"}}, ValueError, "a mistake is (2,), w"),
        (TOO_NEAR, ValueError, "a mistake is 22, which is right: remove it"),
        ({"mistakes": {(24,): "b"}}, TypeError, "a mistake is (24,), but the answer"),
        ({"answer": (24,), "mistakes": {24: "b"}}, TypeError, "a mistake is 24, but"),
        ({"answer": (2, 3), "within": 1}, TypeError, "within is for numbers"),
        ({"within": "a bit"}, ValueError, "within is 'a bit': give a number, or a"),
        ({"within": (1,)}, TypeError, "within is a tuple: give a number"),
        ({"within": -1}, ValueError, "within is -1: give 0 or more"),
        ({"within": float("inf")}, ValueError, "within is inf"),
    ],
)
def test_predict_refuses(refused, options, error, words):
    with refused(error, words):
        bundle(**options)
