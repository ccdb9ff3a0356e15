"""Whether the user's words are a whole turn: by their ends, and by the bundled language model."""

import pytest

from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.hearing.completeness import (
    COMPLETE,
    LATER,
    LATEST,
    NORMAL,
    OPEN,
    SOON,
    is_open,
    patience,
)
from antiphon.inference_worker.engines.local.language_model import LanguageModel
from antiphon.inference_worker.engines.local.processor import LocalProcessor

SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


@pytest.fixture(scope="module")
def llm(local_engine: LocalProcessor) -> LanguageModel:
    assert local_engine._models is not None
    return local_engine._models.llm


@pytest.mark.parametrize(
    "text",
    [
        "So, um,",
        "What is too-plus?",
        "My name is.",
        "Hello, my name is",
        "The thing is,",
        "I want to cook pasta and.",
        "What is the difference between?",
        "Because the train was late,",
        "What is seventeen times?",
        "Can you",
        "I would like to.",
    ],
)
def test_some_last_words_end_no_turn(text: str) -> None:
    assert is_open(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is it for?",
        "Where are you from?",
        "My name is Anna.",
        "Because the train was late, I missed it.",
        "Do you know what it is?",
        "Yes, I can.",
        "How are you?",
        "Is that hers or mine?",
    ],
)
def test_other_last_words_may(text: str) -> None:
    assert not is_open(text)


@pytest.mark.parametrize(
    ("text", "probability", "answered", "expected"),
    [
        ("What is the capital of.", 1.0, True, LATEST),
        ("Tell me about.", OPEN / 2, False, LATEST),
        ("Tell me about.", OPEN / 2, True, LATEST),
        ("Why?", OPEN / 2, False, LATER),
        ("Tell me a joke.", OPEN, False, LATER),
        ("Tell me a joke.", OPEN, True, SOON),
        ("Tell me a joke.", COMPLETE, False, SOON),
        ("Tell me a joke.", None, False, NORMAL),
        ("Tell me a joke.", None, True, SOON),
    ],
)
def test_the_wait_after_a_text(
    text: str, probability: float | None, *, answered: bool, expected: float
) -> None:
    asked: list[str] = []

    def probability_of(said: str) -> float | None:
        asked.append(said)
        return probability

    assert patience(text, probability_of, answered=answered) == expected
    assert asked in ([], [text.rstrip(".?")])


def turn(said: str, before: str = "") -> list[LlmMessage]:
    """The messages of a dialogue that ends with `said`, after the assistant said `before`."""
    spoken = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": before}]
    return [SYSTEM, *(spoken if before else ()), {"role": "user", "content": said}]


@pytest.mark.speech
@pytest.mark.parametrize(
    ("messages", "low", "high"),
    [
        (turn("What is the capital of Italy"), COMPLETE, 1.0),
        (turn("What is the capital of"), 0.0, OPEN),
        (turn("Can you tell me"), 0.0, OPEN),
        (turn("Tell me a story about a dog"), OPEN, 1.0),
        (turn("Anna", before="What is your name?"), COMPLETE, 1.0),
        (turn("I live in", before="Which city do you live in?"), 0.0, OPEN),
    ],
)
def test_the_language_model_knows_whether_a_turn_is_whole(
    llm: LanguageModel, messages: list[LlmMessage], low: float, high: float
) -> None:
    probability = llm.end_probability(messages, slot=0)
    assert probability is not None
    assert low <= probability <= high


@pytest.mark.speech
def test_a_text_that_the_template_changes_has_no_probability(llm: LanguageModel) -> None:
    assert llm.end_probability(turn(""), slot=0) is None
