"""The pieces of an answer: each clause has audio, and the same prompt gives the same text."""

from concurrent.futures import Future
from typing import Any

import pytest

from antiphon.inference_worker.engines.local import llm
from antiphon.inference_worker.engines.local.answer import LocalAnswer
from antiphon.inference_worker.engines.local.guard.answer_guard import AnswerGuard
from antiphon.inference_worker.engines.local.language_model import ModelAway
from antiphon.inference_worker.engines.local.llm import LocalGeneration, LocalLanguageModel
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.remote.faults import NO_ANSWER
from antiphon.inference_worker.engines.local.stored_models import bundled_model
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


@pytest.fixture(scope="module")
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


def complete(*choices: dict[str, Any], notes: list[str], **settings: bool) -> LocalGeneration:
    """A reply of these choices whose call has ended."""
    call: Future[None] = Future()
    generation = LocalGeneration(None, note=notes.append, **settings)
    for choice in choices:
        generation.take({"choices": [choice]})
    generation.start(call)
    call.set_result(None)
    return generation


THINKS = {"delta": {"reasoning_content": "Italy? That is Rome."}}
CALLS = {"delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{"}}]}}
SPACE, ENDS = {"delta": {"content": "\n"}}, {"delta": {}, "finish_reason": "stop"}
CUT_OFF = {"delta": {}, "finish_reason": "length"}


@pytest.mark.parametrize(
    ("choices", "reason"),
    [([ENDS], "empty"), ([SPACE, ENDS], "empty"), ([THINKS, ENDS], "thinks"), ([THINKS, CUT_OFF], "thinks")],
)  # fmt: skip
def test_an_answer_without_words_is_a_fault(choices: list[dict[str, Any]], reason: str) -> None:
    notes: list[str] = []
    with pytest.raises(ModelAway, match=NO_ANSWER) as fault:
        list(complete(*choices, notes=notes))
    assert reason in fault.value.reason
    assert notes == [fault.value.reason]


def test_other_answers_without_words_are_none() -> None:
    notes: list[str] = []
    assert not "".join(complete(CUT_OFF, notes=notes))
    assert not "".join(complete(CALLS, CUT_OFF, notes=notes))
    assert not "".join(complete(ENDS, notes=notes, may_be_empty=True))
    said = complete(THINKS, {"delta": {"content": "Rome."}}, ENDS, notes=notes)
    assert "".join(said) == "Rome."
    assert notes == [""] * 4
    stopped = complete(ENDS, notes=notes)
    stopped.cancel()
    assert not "".join(stopped)
    assert notes == [""] * 4


TURNS = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.reasoning_content %}"
    "<think>\n{{ message.reasoning_content }}\n</think>\n\n{% endif %}{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
)
MAY_THINK = (
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}"
)


def thinking_model(monkeypatch: pytest.MonkeyPatch, template: str) -> LocalLanguageModel:
    """The bundled weights with the template of a model that thinks."""
    usual = llm._parameters

    def parameters(*values: Any) -> Any:
        made = usual(*values)
        made.chat_template = template
        return made

    monkeypatch.setattr(llm, "_parameters", parameters)
    return LocalLanguageModel(bundled_model(), slots=1, context_tokens=512, threads=1)


QUESTION = [{"role": "user", "content": "What is the capital of Italy?"}]


def test_a_model_that_may_think_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = thinking_model(monkeypatch, TURNS + MAY_THINK)
    assert model._prompt(QUESTION, ()).endswith("</think>\n\n")
    assert "".join(model.stream(QUESTION, 0, GREEDY, 20)).strip()
    assert model.trouble == ""
    model.close()


def test_a_model_that_always_thinks_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    model = thinking_model(monkeypatch, TURNS + "<think>\n{% endif %}")
    with pytest.raises(ModelAway, match=NO_ANSWER):
        list(model.stream(QUESTION, 0, GREEDY, 20))
    assert "only thinks" in model.trouble
    model.close()
