"""The end of answers that repeat themselves or become obscene."""

from __future__ import annotations

import re

import pytest

from antiphon.inference_worker.engines.local.guard import CLOSING, AnswerGuard, cleaned


def guarded(text: str, *, filter_obscene: bool = True) -> str:
    """`text` through a guard, in pieces as a tokeniser makes them."""
    guard = AnswerGuard(filter_obscene=filter_obscene)
    said = "".join(guard.feed(piece) for piece in re.findall(r"\s?\S{1,4}|\s", text))
    return said + guard.flush()


@pytest.mark.parametrize(
    "text",
    [
        "The capital of Italy is Rome.\n\n* It is old.\n* It is big. ",
        "I am here. I am here. I am not.",
        "No. No. No. No.",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10.",
        "Row, row, row your boat, gently down the stream.",
        "```\nfor i in range(10):\n for i in range(10):\n  for i in range(10):\n   pass\n```",
        "",
        "  ",
    ],
)
def test_a_good_answer_stays_as_it_is(text: str) -> None:
    assert guarded(text) == text


def test_a_sentence_that_repeats_is_said_twice() -> None:
    loop = "Yes, I am happy. " * 30
    assert guarded(f"Hello. {loop}").strip() == "Hello. Yes, I am happy. Yes, I am happy."


def test_a_loop_with_quotation_marks_ends_after_two_rounds() -> None:
    said = guarded('The man laughed, "That\'s me," and smiled. ' * 20)
    assert said.count("laughed") == 2
    assert said.rstrip().endswith("smiled.")


def test_a_phrase_without_sentences_ends() -> None:
    said = guarded("the answer is that the question is how " * 30)
    assert said.count("question") <= 3


@pytest.mark.parametrize(
    "word", ["fuck", "Fucking", "motherfucker", "shit!", '"bullshit"', "assholes,", "blow job"]
)
def test_an_obscene_answer_ends_with_a_neutral_sentence(word: str) -> None:
    said = guarded(f"The man said {word} and left. He went home.")
    assert said.endswith(CLOSING)
    assert word.split()[-1] not in said
    assert "home" not in said


def test_the_filter_can_be_off() -> None:
    text = "The man said shit and left."
    assert guarded(text, filter_obscene=False) == text


@pytest.mark.parametrize(
    "text",
    [
        "Scunthorpe and Penistone are towns in England.",
        "The class will assess the cockpit, the peacock and the cocktail.",
        "Charles Dickens wrote Oliver Twist. Moby Dick is by Melville.",
        "Essex, Sussex and Middlesex; a sextant; shiitake mushrooms; Matsushita.",
        "Pass the bass, the grass, the Titanic, a title and the analysis.",
        "The great tit is a bird. He is the titular king of Nigeria and Niger.",
    ],
)
def test_no_false_alarm(text: str) -> None:
    assert guarded(text) == text


def test_a_complete_text_is_cleaned() -> None:
    assert cleaned("Nice to meet you, Peter.") == "Nice to meet you, Peter."
    assert cleaned("Nice to meet you, Fucker.") == f"Nice to meet you, {CLOSING}"
