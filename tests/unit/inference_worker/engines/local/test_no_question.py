"""Histories without a question at the end: the model is asked to speak, and continues no earlier answer."""

from collections.abc import Iterator

import pytest

from antiphon.inference_worker.engines.local.chat import SAYS_NOTHING
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, GenerationConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from support.llm_server import MODEL, ScriptedServer, says, scripted_server
from support.redis_server import wait_until
from support.synthetic_speech import ITALY
from support.tools import WEATHER, asks_weather, calls_weather, weather_result

pytestmark = pytest.mark.speech

OPTIONS = ChatOptions(generation=GenerationConfig(temperature=0.0, max_new_tokens=30))


def said(role: Role, text: str) -> ConversationMessage:
    return ConversationMessage(role, (TextPart(text),))


SYSTEM = said(Role.SYSTEM, "Ask whether the user is still there.")
QUESTION = said(Role.USER, ITALY)
ROME = said(Role.ASSISTANT, "The capital of Italy is Rome.")
MORE = said(Role.ASSISTANT, "Is there anything else?")
EMPTY = said(Role.ASSISTANT, "")


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture(scope="module")
def remote(scripted: ScriptedServer) -> Iterator[LocalProcessor]:
    options = LocalOptions(slots=1, voice=ESPEAK, llm_url=scripted.url, llm_model=MODEL)
    engine = LocalProcessor(options)
    engine.load(lambda _: None)
    wait_until(lambda: scripted.requests, within_s=90, every_s=0.005)  # it lets the server load
    yield engine
    engine.close()


def answer(
    engine: LocalProcessor, history: list[ConversationMessage], options: ChatOptions = OPTIONS
) -> str:
    view = engine.set_chat_mode()
    try:
        view.prefill(history, options)
        return "".join(delta.text for delta in view.generate())
    finally:
        view.cleanup()


@pytest.mark.parametrize(
    "history",
    [
        [SYSTEM, QUESTION, ROME],
        [SYSTEM, QUESTION, ROME, MORE],
        [SYSTEM, QUESTION, EMPTY],
        [SYSTEM, ROME],
        [ROME, MORE, MORE],
        [SYSTEM],
        [],
    ],
    ids=["answer", "two", "empty", "greeting", "three greetings", "system", "nothing"],
)
def test_the_bundled_model_begins_another_answer(
    local_engine: LocalProcessor, history: list[ConversationMessage]
) -> None:
    text = answer(local_engine, history)
    assert any(character.isalpha() for character in text)
    assert not text.startswith("assistant")


@pytest.mark.parametrize(
    ("history", "roles", "last"),
    [
        ([SYSTEM, QUESTION, ROME], "system user assistant user", SAYS_NOTHING),
        ([SYSTEM, QUESTION, ROME, MORE], "system user assistant user", SAYS_NOTHING),
        ([SYSTEM, ROME, MORE, QUESTION], "system assistant user", ITALY),
        ([SYSTEM], "system user", SAYS_NOTHING),
        ([], "system user", SAYS_NOTHING),
        ([SYSTEM, QUESTION], "system user", ITALY),
    ],
    ids=["answer", "two", "two in the middle", "system", "nothing", "question"],
)
def test_a_server_gets_one_answer_at_a_time_and_a_question_at_the_end(
    remote: LocalProcessor,
    scripted: ScriptedServer,
    history: list[ConversationMessage],
    roles: str,
    last: str,
) -> None:
    scripted.answers(says("Are you still there?"))
    assert answer(remote, history) == "Are you still there?"
    sent = scripted.requests[-1]["messages"]
    assert [message["role"] for message in sent] == roles.split()
    assert sent[-1]["content"] == last


def test_neighbouring_answers_keep_their_words(
    remote: LocalProcessor, scripted: ScriptedServer
) -> None:
    scripted.answers(says("Yes?"))
    answer(remote, [QUESTION, ROME, EMPTY, MORE])
    [joined] = [each for each in scripted.requests[-1]["messages"] if each["role"] == "assistant"]
    assert joined["content"] == "The capital of Italy is Rome.\nIs there anything else?"


def test_the_result_of_a_tool_is_answered_and_calls_stay_alone(
    remote: LocalProcessor, scripted: ScriptedServer
) -> None:
    scripted.answers(says("It rains."))
    options = OPTIONS.model_copy(update={"tools": [WEATHER]})
    history = [asks_weather("Rome"), MORE, calls_weather("Rome"), weather_result("Rome", "rain")]
    assert answer(remote, history, options) == "It rains."
    sent = scripted.requests[-1]["messages"]
    roles = ["system", "user", "assistant", "assistant", "tool"]
    assert [message["role"] for message in sent] == roles


def test_messages_that_the_library_refuses_end_the_answer_only(
    local_engine: LocalProcessor,
) -> None:
    view = local_engine.set_chat_mode()
    llm = view._slot.models.llm
    twice = [{"role": "assistant", "content": "Hello."}] * 2
    with pytest.raises(EngineError, match="2 or more assistant messages"):
        llm.prefill(twice, 0)
    with pytest.raises(EngineError, match="2 or more assistant messages"):
        list(llm.stream(twice, 0, DuplexConfig(), 5))
    view.cleanup()
