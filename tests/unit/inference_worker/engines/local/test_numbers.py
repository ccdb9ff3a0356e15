"""Numbers in words and signs, and sums with very large, very small and negative ones."""

import time
from dataclasses import replace
from fractions import Fraction

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.quantities.arithmetic import (
    answer_next_sum,
    answer_sum,
)
from antiphon.inference_worker.engines.local.rules.quantities.numbers import (
    is_rounded,
    said,
    with_digits,
)
from antiphon.inference_worker.engines.local.rules.text import plain
from antiphon.inference_worker.engines.local.rules.tools import call_rule
from support.situations import NOW


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("a hundred and five", "105"),
        ("one point five million", "1500000"),
        ("two point five thousand", "2500"),
        ("zero point zero five", "0.05"),
        ("version two point zero", "version 2.0"),
        ("one hundred and two point five", "102.5"),
        ("one point five and two point five", "1.5 and 2.5"),
        ("one point five two point five", "1.5 2.5"),
        ("2 hundred thousand", "200000"),
        ("1.5 hundred thousand", "150000"),
        ("ninety-nine hundred million million", "9900000000000000"),
        ("two point five hundred", "250"),
        ("1.2345678 million", "1234567.8"),
        ("a hundred thousand", "100000"),
        ("a thousand million", "1000000000"),
        ("twenty and thirty", "20 and 30"),
        ("twenty and five", "20 and 5"),
        ("thirteen and twelve", "13 and 12"),
        ("one hundred and two hundred", "100 and 200"),
        ("one hundred two hundred", "100 200"),
        ("one thousand and two thousand", "1000 and 2000"),
        ("one million two million", "1000000 2000000"),
        ("one thousand two million", "1000 2000000"),
        ("one hundred and twenty thousand and six", "120006"),
        ("two million three hundred and four thousand and fifty-six", "2304056"),
        ("nineteen ninety-nine", "1999"),
        ("nineteen ninety and twenty twenty", "1990 and 2020"),
        ("nineteen hundred and five", "1905"),
        ("one two three", "1 2 3"),
        ("one point two point three", "1.2 point 3"),
        (".5 + .25", "0.5 + 0.25"),
        ("-.5", "-0.5"),
    ],
)
def test_digits_of_a_number_in_words(words: str, digits: str) -> None:
    assert with_digits(words) == digits


@pytest.mark.parametrize(
    "text", ["7" * 200_000, "7" * 20_000 + " million", "hundred " * 20_000, "one million " * 20_000]
)
def test_long_numbers_take_no_long_time(text: str) -> None:
    begun = time.process_time()
    with_digits(text)
    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Wait... 5 plus 5.", "wait 5 plus 5"),
        ("Wait...5", "wait 5"),
        ("I turned 5!", "i turned 5"),
        ("Count to 10!", "count to 10"),
        ("8!", "8"),
        ("What is 5!", "what is 5 factorial"),
        ("What is 5!?", "what is 5 factorial"),
        ("What is 5!!!", "what is 5"),
        ("5! = ?", "5 factorial ="),
        ("5! plus three", "5 factorial plus 3"),
        ("2*(3!+1)", "2*(3 factorial+1)"),
    ],
)
def test_points_and_exclamation_marks_at_numbers(text: str, form: str) -> None:
    assert plain(text) == form


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(-12_345), "-12,345"),
        (Fraction(10, 3), "3.3333"),
        (Fraction(-2, 3), "-0.6667"),
        (Fraction(29_999_999, 3000), "9999.9997"),
        (Fraction(1, 2000), "0.0005"),
        (Fraction(2, 3_000_000), "6.67 times 10 to the power of minus 7"),
        (Fraction(3**40), "1.22 times 10 to the power of 19"),
        (Fraction(-(10**20)), "minus 1 times 10 to the power of 20"),
        (Fraction(9_999 * 10**20), "1 times 10 to the power of 24"),
        (Fraction(2**1000, 3), "3.57 times 10 to the power of 300"),
        (Fraction(10**400, 3), "3.33 times 10 to the power of 399"),
        (Fraction(1, 10**20), "1 times 10 to the power of minus 20"),
    ],
)
def test_a_number_as_text(number: Fraction, text: str) -> None:
    assert said(number) == text


def test_a_number_is_rounded_if_its_text_says_another() -> None:
    assert is_rounded(Fraction(1, 3))
    assert is_rounded(Fraction(3**40))
    assert not is_rounded(Fraction(1, 2000))
    assert not is_rounded(Fraction(10**20))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "10^400/3",
            "10 to the power of 400 divided by 3 is about 3.33 times 10 to the power of 399.",
        ),
        (
            "sqrt(10^308)",
            "The result is 1 times 10 to the power of 154.",
        ),
        ("sqrt(2*10^308)", "The result is about 1.41 times 10 to the power of 154."),
        ("sqrt(10^400)", "The result is 1 times 10 to the power of 200."),
        ("cube root of 10^400", "The cube root of 10 to the power of 400 is about 2.15 times 10 to"
                                " the power of 133."),
        ("cube root of -27", "The cube root of minus 27 is -3."),
        ("sqrt(0.25)", "The result is 0.5."),
        ("square root of 2", "The square root of 2 is about 1.4142."),
        ("square root of 0", "The square root of 0 is 0."),
        ("cube root of 0", "The cube root of 0 is 0."),
        ("cube root of two", "The cube root of 2 is about 1.2599."),
        ("3^40", "3 to the power of 40 is about 1.22 times 10 to the power of 19."),
        ("10^-20", "10 to the power of minus 20 is 1 times 10 to the power of minus 20."),
        ("1 divided by 2000", "1 divided by 2000 is 0.0005."),
        ("What percent of 3 is 1?", "1 is about 33.3333 percent of 3."),
        ("one point five million plus one", "1500000 plus 1 is 1,500,001."),
        ("two to the power of twenty", "2 to the power of 20 is 1,048,576."),
        ("3 to the power of 2", "3 squared is 9."),
        ("2^2^3", "2 to the power of 2 to the power of 3 is 256."),
        (".5 + .5", "0.5 plus 0.5 is 1."),
        ("convert .25 inches to mm", "0.25 inches are 6.35 millimetres."),
        ("5! + 3", "The factorial of 5 plus 3 is 123."),
        ("17 % 5", "17 mod 5 is 2."),
        ("17%5", "17 mod 5 is 2."),
        ("17 % of 50", "17 percent of 50 is 8.5."),
        ("add twenty and thirty", "20 plus 30 is 50."),
        ("what is the product of thirteen and twelve", "13 times 12 is 156."),
        ("the sum of one hundred and two hundred", "100 plus 200 is 300."),
        ("the average of one, two and six", "The result is 3."),
        ("the difference between nine and four", "9 minus 4 is 5."),
    ],
)  # fmt: skip
def test_a_sum(question: str, expected: str) -> None:
    assert answer(question, NOW) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-15",
        "what is 2024-01-15",
        "01/15/2024",
        "15-1-2024",
        "what is 1/15/2024",
        "1-800-555-1234",
        "what is 555-123-4567",
        "1-800 555-1234",
        "7" * 5000 + " + 1",
        "2^4000 / 3^2500" + " / 3^2500" * 15,
    ],
)
def test_what_is_no_sum(text: str) -> None:
    assert answer_sum(text) is None


def test_what_is_a_sum_of_large_numbers_and_no_date() -> None:
    assert answer_sum("what is 2026-1990") == "2026 minus 1990 is 36."
    assert answer_sum("10-5-3") == "10 minus 5 minus 3 is 2."
    assert answer_sum("24/2/12") == "24 divided by 2 divided by 12 is 1."


def test_the_next_step_from_a_negative_result() -> None:
    previous = "3 minus 5 is -2."
    assert answer_next_sum("squared", previous) == "The result is 4."
    assert answer_next_sum("to the power of 3", previous) == "The result is -8."
    assert answer_next_sum("plus 3", previous) == "Minus 2 plus 3 is 1."
    assert answer("and squared?", replace(NOW, previous=previous)) == "The result is 4."
    assert answer_next_sum("squared", f"It is {'7' * 5000}.") is None


def test_a_long_number_of_the_answer_before_is_not_converted() -> None:
    assert answer("in miles", replace(NOW, previous=f"It is {'7' * 5000} km.")) is None


def test_the_tool_reads_a_percent_sign_as_a_remainder() -> None:
    assert call_rule("calculate", '{"question": "17 % 5"}', NOW.now) == "17 mod 5 is 2."
