"""Ten pictures, and what the engine's real networks see in them."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.sight.scene import Scene
from antiphon.inference_worker.engines.local.sight.sight import Sight
from antiphon.inference_worker.engines.types import InputRefused
from support.pictures import circle, photograph, sign

pytestmark = pytest.mark.speech

NO_TEXT = "I see no text that I can read."

PICTURES = {
    "cat": (photograph("cat"), "I see a brown cat.", NO_TEXT),
    "coffee": (photograph("coffee"), "I see a cup, probably espresso.", NO_TEXT),
    "astronaut": (photograph("astronaut"), "I see a person.", NO_TEXT),
    "photographer": (photograph("photographer"), "I see a person.", NO_TEXT),
    "horse": (photograph("horse"), "I see a black horse.", NO_TEXT),
    "room": (sign("Room 204"), "I see the text: Room 204.", "It says: Room 204."),
    "hours": (
        sign("Closed on\nMonday.\nOpen 9 to 5", ink="yellow", ground="navy"),
        "I see the text: Closed on Monday. Open 9 to 5.",
        "It says: Closed on Monday. Open 9 to 5.",
    ),
    "seven": (sign("7", size=200), "I see the text: 7.", "It says: 7."),
    "exit": (
        sign("EXIT", ink="white", ground="green", size=120),
        "I see the text: EXIT.",
        "It says: EXIT.",
    ),
    "circle": (
        circle("red", "white"),
        "I see red on white, and nothing that I recognise.",
        NO_TEXT,
    ),
}
"""The picture, and the answers to "What do you see?" and "What does it say?"."""

QUESTIONS = (
    ("cat", "What animal is this?", "I see a brown cat."),
    ("cat", "Is it a cat or a dog?", "I see a cat."),
    ("cat", "Is there a person?", "No, I see no person. I see a brown cat."),
    ("coffee", "How many cups are there?", "I see one cup."),
    ("astronaut", "Is there a person in the picture?", "Yes, I see a person."),
    ("photographer", "How many people do you see?", "I see one person."),
    ("horse", "What colour is the horse?", "The horse is black."),
    ("hours", "What colour is the text?", "The text is yellow."),
    ("exit", "Read the sign to me, please.", "It says: EXIT."),
    ("circle", "What colour is it?", "It is red."),
    ("circle", "What colour is the picture?", "The picture is mainly red on white."),
    ("circle", "Is it blue?", "No. It is red."),
)


@pytest.fixture(scope="module")
def scenes() -> Iterator[dict[str, Scene]]:
    sight = Sight()
    yield {name: sight.see(picture) for name, (picture, _, _) in PICTURES.items()}
    sight.close()


def ask(scene: Scene, question: str) -> str | None:
    return answer(question, Situation(datetime.now(UTC), "1.2.3", scene=scene))


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_seen_and_what_it_says(scenes: dict[str, Scene], name: str) -> None:
    _, seen, said = PICTURES[name]
    assert ask(scenes[name], "What do you see?") == seen
    assert ask(scenes[name], "What does it say?") == said


@pytest.mark.parametrize(("name", "question", "answered"), QUESTIONS)
def test_other_questions(scenes: dict[str, Scene], name: str, question: str, answered: str) -> None:
    assert ask(scenes[name], question) == answered


def test_a_picture_that_is_sent_again_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sight = Sight()
    looks: list[object] = []
    look = sight.look
    monkeypatch.setattr(sight, "look", lambda *what: looks.append(what) or look(*what))
    assert sight.see(photograph("horse")) == sight.see(photograph("horse"))
    assert len(looks) == 1
    with pytest.raises(InputRefused, match="not a readable picture"):
        sight.see(b"\xff\xd8\xff nonsense")
    sight.close()
