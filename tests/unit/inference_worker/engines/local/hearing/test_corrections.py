"""What the recogniser writes, corrected."""

import pytest

from antiphon.inference_worker.engines.local.hearing.transcription import corrected, is_loop


@pytest.mark.parametrize(
    ("recognised", "meant"),
    [
        ("What is too plus, too?", "What is two plus two?"),
        ("What is too plustoo?", "What is two plus two?"),
        ("What is two plus to plus for?", "What is two plus two plus four?"),
        ("For times ate", "four times eight"),
        ("What is for minus too.", "What is four minus two."),
        ("Which day is to-day?", "Which day is today?"),
        ("To-morrow", "Tomorrow"),
        ("young young young young young", "young"),
        ("A, a, a, a cat", "A cat"),
        ("It is the one, the one, the one, the one.", "It is the one."),
        (
            "What is the capital of Italy, the Italy, the Italy, the Italy",
            "What is the capital of Italy, the Italy",
        ),
    ],
)
def test_what_was_meant(recognised: str, meant: str) -> None:
    assert corrected(recognised) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Me too.",
        "What is it for?",
        "It has a plus for me and you.",
        "I have been there two times to see it.",
        "No, no, no!",
        "It is very, very cold.",
        "That is 3 times for each of them.",
        "I am here. I am here. I am here.",
        "What is two plus two plus two plus two?",
        "What is 2 times 2 times 2 times 2 times 2 times 2 times 2 times 2?",
        "The code is zero zero zero zero zero zero zero.",
        "My pin is 1, 1, 1, 1.",
        "What is one one one one plus two?",
        "Count one two one two one two.",
        "Twenty minus three minus three minus three minus three.",
        "What is eighty divided by two divided by two divided by two?",
        "A hundred, a hundred, a hundred, and a hundred.",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert corrected(text) == text
    assert not is_loop(text)


@pytest.mark.parametrize("text", ["the cat " * 9, "one " * 40])
def test_what_no_user_says_is_a_loop(text: str) -> None:
    assert is_loop(text)
