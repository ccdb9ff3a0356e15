"""Sums as people say them: fractions, prices, what each gets, and stories about two numbers."""

from dataclasses import replace

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.quantities.arithmetic import (
    answer_next_sum,
    answer_sum,
)
from antiphon.inference_worker.engines.local.rules.quantities.numbers import with_digits
from antiphon.inference_worker.engines.local.rules.quantities.units import answer_conversion
from antiphon.inference_worker.engines.local.rules.text import plain
from support.situations import NOW


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("two and a half", "2.5"),
        ("one and a half times six", "1.5 times 6"),
        ("two and a quarter hours", "2.25 hours"),
        ("five and three quarters", "5.75"),
        ("a hundred and a half", "100.5"),
        ("six feet and a half", "6 feet and a half"),
        ("five and half of it", "5 and half of it"),
        ("one and a half-brother", "1 and a half-brother"),
        ("version 2.1 and a half day", "version 2.1 and a half day"),
    ],
)
def test_and_a_half_belongs_to_the_number(words: str, digits: str) -> None:
    assert with_digits(words) == digits


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # Fractions
        ("What's three quarters of two hundred?", "The result is 150."),
        ("three-quarters of eighty", "The result is 60."),
        ("what is two thirds of ninety", "The result is 60."),
        ("What's two fifths of fifty?", "The result is 20."),
        ("what's 3/4 of 200", "The result is 150."),
        ("a fifth of fifty", "The result is 10."),
        ("one tenth of thirty", "The result is 3."),
        ("what's two thirds plus one third", "The result is 1."),
        ("three quarters minus a half", "The result is 0.25."),
        ("What's two and a half times four?", "2.5 times 4 is 10."),
        ("half of seven and a half", "Half of 7.5 is 3.75."),
        ("what's a quarter of a million", "A quarter of 1000000 is 250,000."),
        ("a dozen times three", "12 times 3 is 36."),
        ("what's ten to the sixth", "10 to the power of 6 is 1,000,000."),
        # Prices
        ("four dollars twenty times three", "4.20 times 3 is 12.6."),
        ("what's ten pounds fifty plus three pounds twenty", "10.50 plus 3.20 is 13.7."),
        ("what's five dollars fifty minus two dollars", "5.50 minus 2 is 3.5."),
        ("two euros plus fifty cents", "2 plus 0.5 is 2.5."),
        ("fifty cents plus thirty cents", "50 plus 30 is 80."),
        ("how much is four coffees at two eighty each", "4 times 2.80 is 11.2."),
        ("what do six pens at 1.50 each cost", "6 times 1.50 is 9."),
        ("three tickets for 12 pounds fifty each", "3 times 12.50 is 37.5."),
        ("what's eighty minus thirty percent", "The result is 56."),
        ("if something costs eighty and it's thirty percent off what do I pay", "The result is 56."),
        ("A coat costs 90 dollars with 10% off. What do I pay?", "The result is 81."),
        # Sharing
        ("split forty pounds between three", "That is about 13.33 each."),
        ("If I split forty pounds between three people how much does each get",
         "That is about 13.33 each."),
        ("split sixty between four people", "That is 15 each."),
        ("share a bill of 60 dollars among five friends", "That is 12 each."),
        ("what's sixty split four ways", "That is 15 each."),
        ("How much is a hundred pounds divided between eight of us?", "That is 12.5 each."),
        ("if a pizza has eight slices and two people share it how many slices each",
         "That is 4 each."),
        ("How many times does seven go into fifty-six?", "56 divided by 7 is 8."),
        ("what's seven into fifty six", "56 divided by 7 is 8."),
        ("what's two hundred divided into four", "200 divided by 4 is 50."),
        # What is left
        ("I've got forty pounds. I spend twelve on lunch. How much do I have left?",
         "40 minus 12 is 28."),
        ("let's say I've got forty pounds and I spend twelve fifty on lunch what have I got left",
         "40 minus 12.50 is 27.5."),
        # Speed
        ("if I drive at sixty for two hours how far do I go", "60 times 2 is 120."),
        ("A train goes 120 km an hour for 2.5 hours. How far does it get?", "120 times 2.5 is 300."),
        # Units
        ("How many grams are two and a half kilos?", "2.5 kilograms are 2500 grams."),
        ("Five and a half feet in centimetres", "5.5 feet are 167.64 centimetres."),
        ("how many minutes in two and a half hours", "2.5 hours are 150 minutes."),
        ("how many minutes are an hour and a half", "1.5 hours are 90 minutes."),
    ],
)  # fmt: skip
def test_a_sum_in_everyday_words(question: str, expected: str) -> None:
    assert answer(question, NOW) == expected


@pytest.mark.parametrize(
    "text",
    [
        "three quarters",
        "what is a third",
        "a quarter past four",
        "two thirds of the way",
        "three quarters of an hour",
        "half the battle",
        "if i run for 2 hours how far is it",
        "i bought two pounds fifty metres away",
        "share it between us",
        "split 40 pounds between 3 friends and me",
        "share 2 secrets between friends",
        "how many times does he go into 2 shops",
        "turn into 4",
        "split 10 between 0 people",
        "a dozen times i told him",
        "i have 2 meetings at 10 each day",
        "the film is 2 hours at 30 percent off",
        "it costs 5 and she is 10",
        "get 2 for 1",
        "i was 20 when it was 30 percent off",
    ],
)
def test_what_is_no_sum_in_everyday_words(text: str) -> None:
    assert answer_sum(plain(text)) is None
    assert answer_conversion(plain(text)) is None


@pytest.mark.parametrize(
    ("asked", "previous", "expected"),
    [
        ("so what's the total", "20 percent of 60 is 12.", "60 plus 12 is 72."),
        ("What's the total with the tip?", "15 percent of 80 is 12.", "80 plus 12 is 92."),
        ("and altogether?", "20 percent of 60 is 12.", "60 plus 12 is 72."),
        ("what's the total", "17 times 23 is 391.", None),
        ("what's the total", "Paris is the capital of France.", None),
        ("the total eclipse", "20 percent of 60 is 12.", None),
    ],
)
def test_the_total_after_a_percentage(asked: str, previous: str, expected: str | None) -> None:
    assert answer_next_sum(plain(asked), previous) == expected
    if expected:
        assert answer(asked, replace(NOW, previous=previous)) == expected
