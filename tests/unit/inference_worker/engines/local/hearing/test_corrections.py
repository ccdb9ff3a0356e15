"""What the recogniser writes, corrected."""

import pytest

from antiphon.inference_worker.engines.local.hearing.transcription import corrected


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
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert corrected(text) == text
