"""Tools with the local engine: the bundled model does not know them; its template can."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.inference_worker.engines.local import llm
from antiphon.inference_worker.engines.local.chat import LocalChatView
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.shared_schemas.config import ChatOptions, GenerationConfig, TtsConfig
from support.tools import TEMPLATE, WEATHER, asks_weather, calls_weather, weather_result

pytestmark = pytest.mark.speech

CITIES = ("Rome", "Berlin")
HABIT = [message for city in CITIES for message in (asks_weather(city), calls_weather(city))]
"""A history that the small model continues with a call."""


@pytest.fixture(scope="module")
def engine_with_tools() -> Iterator[LocalProcessor]:
    """The bundled model with a template that has tools."""
    plain = llm._parameters

    def parameters(*arguments: Any) -> Any:
        chosen = plain(*arguments)
        chosen.chat_template = TEMPLATE
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llm, "_parameters", parameters)
        engine = LocalProcessor(LocalOptions(slots=1, context_tokens=1024, voice=ESPEAK))
        engine.load(lambda _: None)
    yield engine
    engine.close()


@pytest.fixture
def view(engine_with_tools: LocalProcessor) -> Iterator[LocalChatView]:
    request = engine_with_tools.set_chat_mode()
    yield request
    request.cleanup()


def options(tokens: int = 60, **values: object) -> ChatOptions:
    generation = GenerationConfig(temperature=0.0, max_new_tokens=tokens)
    return ChatOptions.model_validate({"generation": generation, "tools": [WEATHER], **values})


def test_the_model_knows_tools(engine_with_tools: LocalProcessor) -> None:
    assert engine_with_tools.info.calls_tools


def test_a_call_is_structured_and_neither_shown_nor_spoken(view: LocalChatView) -> None:
    speaks = options(tts=TtsConfig(enabled=True, voice=ESPEAK))
    assert view.prefill([*HABIT, asks_weather("Paris")], speaks) > 150
    deltas = list(view.generate())
    assert "".join(delta.text for delta in deltas) == ""
    assert sum(len(delta.audio) for delta in deltas) == 0
    (call,) = [call for delta in deltas for call in delta.tool_calls]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert len(call.id) > 20
    assert sum(delta.n_tokens for delta in deltas) == view.take_usage().output_text
    assert view.resume("It") is None


@pytest.mark.parametrize("must_call", [True, False])
def test_a_call_can_be_demanded(view: LocalChatView, *, must_call: bool) -> None:
    """The small model does not call a tool here by itself."""
    view.prefill([asks_weather("Paris")], options(must_call=must_call))
    deltas = list(view.generate())
    calls = [call.name for delta in deltas for call in delta.tool_calls]
    assert calls == (["get_weather"] if must_call else [])
    assert any(delta.text for delta in deltas) is not must_call


def test_a_call_that_the_limit_cuts_off_is_left_out(view: LocalChatView) -> None:
    view.prefill([*HABIT, asks_weather("Paris")], options(tokens=18))
    assert not [call for delta in view.generate() for call in delta.tool_calls]


def test_the_model_reads_the_result(view: LocalChatView) -> None:
    question = [asks_weather("Rome"), calls_weather("Rome")]
    short = view.prefill([*question, weather_result("Rome", "x")], options(8))
    long = view.prefill([*question, weather_result("Rome", "sunny and 25 degrees")], options(8))
    assert long > short + 3
    assert "".join(delta.text for delta in view.generate())
