"""Numbers that the language model is not sure of, with the probabilities of its tokens."""

from __future__ import annotations

import math

import pytest

from antiphon.inference_worker.engines.local.doubt import UNSURE, NumberDoubt, asks_number

Tokens = list[tuple[str, float]]


def said(tokens: Tokens) -> str:
    """What is said of an answer that ends with its last token."""
    doubt, text = NumberDoubt(), ""
    for token, probability in tokens:
        logprobs = {"content": [{"token": token, "logprob": math.log(probability)}]}
        text += doubt.feed(token, {"logprobs": logprobs, "finish_reason": None})
    return text + doubt.feed("", {"logprobs": None, "finish_reason": "stop"})


@pytest.mark.parametrize(
    "tokens",
    [
        [("There", 0.2), (" are ", 0.4), ("8", 0.9), (" legs", 0.3), (".", 0.9)],
        [("It is ", 0.9), ("3", 0.9), (".", 0.9), ("1", 0.8), ("4", 0.2), ("2", 0.2), (".", 0.9)],
        [("In ", 0.9), ("1492", 0.9), (".", 0.9), (" He had ", 0.9), ("3", 0.1), (" ships.", 0.9)],
        [("Very long", 0.1)],
    ],
    ids=["sure", "later decimals", "second sentence", "no number"],
)
def test_what_the_model_is_sure_of_is_said(tokens: Tokens) -> None:
    assert said(tokens) == "".join(token for token, _ in tokens)


@pytest.mark.parametrize("decimal", [("7", 0.2), (".7", 0.2), ("75", 0.2)])
def test_an_unsure_first_decimal_is_not_said(decimal: tuple[str, float]) -> None:
    point = [] if decimal[0].startswith(".") else [(".", 0.9)]
    assert said([("Some ", 0.9), ("3", 0.9), *point, decimal, (" million.", 0.9)]) == UNSURE


@pytest.mark.parametrize("last", [" miles.", " miles", " miles. Far."])
def test_an_unsure_number_is_not_said(last: str) -> None:
    assert said([("It is ", 0.9), ("1", 0.9), ("80", 0.3), (last, 0.9)]) == UNSURE


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("How many planets are there?", True),
        ("When did the war end?", True),
        ("What is the population of Rome?", True),
        ("How do I boil an egg?", False),
        ("Who wrote Hamlet?", False),
    ],
)
def test_questions_for_a_number(text: str, asks: bool) -> None:
    assert asks_number({"role": "user", "content": text}) is asks
    assert not asks_number({"role": "assistant", "content": text})
