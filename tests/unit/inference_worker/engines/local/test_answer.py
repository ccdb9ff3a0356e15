"""The pieces of an answer: each clause has audio, and the same prompt gives the same text."""

import pytest

from antiphon.inference_worker.engines.local.answer import LocalAnswer
from antiphon.inference_worker.engines.local.guard import AnswerGuard
from antiphon.inference_worker.engines.local.llm import LocalGeneration
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.inference_worker.engines.local.voices.speaker import Speaker, Voices
from antiphon.shared_schemas.config import GenerationConfig

pytestmark = pytest.mark.speech

GREEDY = GenerationConfig(temperature=0.0, top_p=1.0, top_k=0, length_penalty=1.0)
HINT = "You are a helpful assistant. Give short, correct answers in plain words."
SYSTEM = {"role": "system", "content": HINT}


def generated(*pieces: str) -> LocalGeneration:
    """An answer that the model has finished."""
    generation = LocalGeneration(None)
    for piece in pieces:
        generation.take({"choices": [{"delta": {"content": piece}}]})
    generation.cancel()
    return generation


@pytest.fixture
def speaker() -> Speaker:
    return Voices.load(ESPEAK, 170).speaker()


@pytest.mark.parametrize("tail", ["\n\n", " --", ' "', "\n* "])
def test_only_a_tail_that_cannot_be_spoken_has_no_audio(speaker: Speaker, tail: str) -> None:
    text = generated("Rome", " is", " old.", " It", " is", " big.", tail)
    deltas = list(LocalAnswer(text, speaker, AnswerGuard(filter_obscene=True)))
    assert "".join(delta.text for delta in deltas) == f"Rome is old. It is big.{tail}"
    assert [bool(len(delta.audio)) for delta in deltas] == [True] * (len(deltas) - 1) + [False]


def test_earlier_prompts_of_a_slot_do_not_change_the_answer(local_engine: LocalProcessor) -> None:
    """The result of llama.cpp for a prompt's start depends on the length of its batch."""
    assert local_engine._models is not None
    llm = local_engine._models.llm
    question = [SYSTEM, {"role": "user", "content": "Tell me a long story about a cat."}]
    long = [
        SYSTEM,
        {"role": "user", "content": "The cat sat on the mat and looked at the moon. " * 12},
    ]
    answers = set()
    for before in (question, long):
        llm.prefill(before, 0, reuse_cache=False)
        llm.prefill(question, 0, reuse_cache=False)
        answers.add("".join(llm.stream(question, 0, GREEDY, 20)))
    assert len(answers) == 1


def test_bytes_that_are_not_a_character_are_not_spoken() -> None:
    assert list(generated("Rome", "\ufffd", " is\ufffd old.")) == ["Rome", " is old."]
