"""Sessions of the local engine whose language model is on a server: llama.cpp's, and a scripted one."""

import functools
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from antiphon.inference_worker.engines.factory import build_processor, examine_engine
from antiphon.inference_worker.engines.local import llm
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.remote.faults import CUT_OFF, UNREACHABLE
from antiphon.inference_worker.engines.local.stored_models import bundled_model
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.inference_worker.engines.types import ContextFull, EngineError, EngineLoadError
from antiphon.shared_schemas.config import (
    ChatOptions,
    HalfDuplexConfig,
)
from antiphon.shared_schemas.content import (
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
)
from antiphon.shared_schemas.findings import FindingStatus
from support.llm_server import (
    MODEL,
    Answer,
    ScriptedServer,
    delta,
    event,
    refuses,
    says,
    scripted_server,
)
from support.redis_server import wait_until
from support.synthetic_speech import (
    ITALY,
    STEADY,
    ask_until_speech,
    converse,
    run_unit,
    silence,
    spoken,
    text_of,
)
from support.tools import WEATHER, asks_weather, calls_weather, weather_result

pytestmark = pytest.mark.speech

KEY = "a-key-of-this-test"
RULE_NAMES = ["calendar", "calculate", "convert_units", "distance"]
JPEG = b"\xff\xd8\xff\xe0 a picture"


class LlamaServer:
    """The server of llama.cpp with the bundled weights, on the loopback interface."""

    def __init__(self) -> None:
        library = import_library("xllamacpp")
        parameters = llm._parameters(library, bundled_model(), 1, 1024, 1, KEY)
        parameters.endpoint_metrics = True
        self._server: Any = library.Server(parameters)
        self.url = f"{self._server.listening_address}/v1"

    @property
    def generates(self) -> bool:
        return "\nllamacpp:requests_processing 1" in str(self._server.handle_metrics())


@pytest.fixture(scope="module")
def llama() -> LlamaServer:
    return LlamaServer()


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture(scope="module")
def remote(
    llama: LlamaServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalProcessor]:
    """With a large limit of words, so that the model's answers are long."""
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_text(f"{KEY}\n")
    yield from _loaded(llama.url, llm_key_file=key, reply_words=400)


@pytest.fixture(scope="module")
def sees(scripted: ScriptedServer) -> Iterator[LocalProcessor]:
    yield from _warmed_up(scripted, llm_sees=True)


def _warmed_up(scripted: ScriptedServer, **options: Any) -> Iterator[LocalProcessor]:
    """The request with which it lets the server load the model has arrived."""
    before = len(scripted.requests)
    for engine in _loaded(scripted.url, **options):
        wait_until(lambda: len(scripted.requests) > before, within_s=90, every_s=0.005)
        yield engine


def _loaded(url: str, **options: Any) -> Iterator[LocalProcessor]:
    usual = {"slots": 1, "voice": ESPEAK, "llm_url": url, "llm_model": MODEL}
    # A busy machine may need longer than the usual 8 s for a token.
    engine = LocalProcessor(LocalOptions(**usual, llm_timeout_s=60.0, **options))
    engine.load(lambda _: None)
    yield engine
    engine.close()


def test_a_spoken_conversation_and_a_barge_in(remote: LocalProcessor, llama: LlamaServer) -> None:
    view = remote.set_duplex_mode()
    view.prepare("You are a helpful assistant.", STEADY)
    first = converse(view, ITALY)
    assert len(text_of(first).split()) > 2
    assert first[-1].kv_cache_length > 40
    usage = view.take_usage()
    assert usage.input_text > 20
    assert usage.output_text > 3
    ask_until_speech(view, "Tell me a long story about a dog and a cat.")
    assert llama.generates
    assert run_unit(view, silence(1.0), force_listen=True).is_listen
    wait_until(lambda: not llama.generates, within_s=90, every_s=0.005)
    view.cleanup()
    assert remote.trouble == ""
    assert remote.info.model == MODEL


def test_a_barge_in_closes_the_connection(sees: LocalProcessor, scripted: ScriptedServer) -> None:
    scripted.answers(Answer([delta(content="Once upon a time, there was a ")], hold=True))
    view = sees.set_duplex_mode()
    view.prepare("", STEADY)
    ask_until_speech(view, ITALY)
    # A reply to the question as it was first expected has ended.
    wait_until(lambda: scripted.held == 1, within_s=90, every_s=0.005)
    assert run_unit(view, silence(1.0), force_listen=True).is_listen
    wait_until(lambda: scripted.held == 0, within_s=90, every_s=0.005)
    view.cleanup()
    assert sees.trouble == ""


@pytest.mark.parametrize("end", ["", " ", "\n", " \n\n"])
def test_an_answer_may_end_with_spaces(
    sees: LocalProcessor, scripted: ScriptedServer, end: str
) -> None:
    scripted.script = lambda _: Answer(says(f"It is far. Eight kilometres.{end}"))
    view = sees.set_duplex_mode()
    view.prepare("", STEADY)
    assert text_of(converse(view, ITALY)) == "It is far. Eight kilometres."
    view.cleanup()


def test_a_chat_that_does_not_fit(remote: LocalProcessor) -> None:
    view = remote.set_chat_mode()
    history = [ConversationMessage(Role.USER, (TextPart("word " * 3000),))]
    assert view.prefill(history, ChatOptions()) > 3000
    with pytest.raises(ContextFull, match="larger context in its server"):
        list(view.generate())
    view.cleanup()


def test_a_half_duplex_session_goes_on_without_its_oldest_turns(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    """The session ends only if the prompt and the last question alone do not fit."""

    def script(most: int, sent: dict[str, Any]) -> Answer:
        full = refuses(400, "Please reduce the length of the messages or completion.")
        return full if len(sent["messages"]) > most else Answer(says("It is Rome."))

    half = sees.set_half_duplex_mode()
    half.prepare(ConversationMessage(Role.SYSTEM, ()), HalfDuplexConfig())
    for most, asked in ((99, 2), (99, 4), (4, 2), (4, 4), (2, 2)):
        scripted.script = functools.partial(script, most)
        half.prefill(spoken(ITALY))
        assert "".join(piece.text for piece in half.generate()) == "It is Rome."
        assert len(scripted.requests[-1]["messages"]) == asked
    scripted.script = functools.partial(script, 1)
    half.prefill(spoken(ITALY))
    with pytest.raises(ContextFull):
        list(half.generate())
    half.cleanup()
    assert sees.trouble == ""


def test_chat_with_tools(sees: LocalProcessor, scripted: ScriptedServer) -> None:
    assert sees.info.calls_tools
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    calls = delta("tool_calls", tool_calls=[{"index": 0, "id": "one", "function": function}])
    scripted.answers([calls, event("[DONE]")])
    options = ChatOptions.model_validate({"tools": [WEATHER]})
    view = sees.set_chat_mode()
    history = [asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome", "rain")]
    view.prefill([*history, asks_weather("Paris")], options)
    (made,) = [call for piece in view.generate() for call in piece.tool_calls]
    assert (made.id, made.name, made.arguments) == ("one", "get_weather", '{"city": "Paris"}')
    sent = scripted.requests[-1]
    assert sent["tools"] == options.tools
    assert [message["role"] for message in sent["messages"][1:]] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert view.resume("It") is None
    view.cleanup()


def calls(name: str, question: str) -> list[bytes]:
    function = {"name": name, "arguments": json.dumps({"question": question})}
    call = {"index": 0, "id": "one", "function": function}
    return [delta("tool_calls", tool_calls=[call]), event("[DONE]")]


def written(engine: LocalProcessor, question: str, **options: object) -> str:
    view = engine.set_chat_mode()
    history = [ConversationMessage(Role.USER, (TextPart(question),))]
    view.prefill(history, ChatOptions.model_validate(options))
    text = "".join(piece.text for piece in view.generate())
    view.cleanup()
    return text


def test_the_model_calls_the_rules(sees: LocalProcessor, scripted: ScriptedServer) -> None:
    scripted.answers(calls("calculate", "17 * 23"), says("It is ", "391."))
    assert written(sees, "What is seventeen times twenty-three?") == "It is 391."
    first, second = scripted.requests[-2:]
    assert [tool["function"]["name"] for tool in first["tools"]] == RULE_NAMES
    call, result = second["messages"][-2:]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "one"
    assert result["content"] == "17 times 23 is 391."


def test_the_rules_know_the_time_of_the_user(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    for zone in ("Etc/GMT-9", "Etc/GMT+4"):
        scripted.answers(calls("calendar", "what time is it"), says("Well."))
        now = datetime.now(ZoneInfo(zone))
        written(sees, "Time?", time_zone=zone)
        told = scripted.requests[-1]["messages"][-1]["content"]
        assert told[6:-1] in {
            (now + timedelta(minutes=late)).strftime("%I:%M %p").lstrip("0") for late in (0, 1)
        }


def test_a_spoken_answer_says_what_a_rule_found(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    scripted.script = lambda sent: Answer(
        says("About eight kilometres.")
        if sent["messages"][-1]["role"] == "tool"
        else calls("convert_units", "5 miles in km")
    )
    view = sees.set_duplex_mode()
    view.prepare("", STEADY)
    assert "eight kilometres" in text_of(converse(view, ITALY))
    view.cleanup()


def test_a_model_that_calls_for_ever_must_answer(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    before = len(scripted.requests)
    scripted.script = lambda sent: Answer(
        calls("calculate", "nonsense") if "tools" in sent else says("I do not know.")
    )
    assert written(sees, "What is nonsense?") == "I do not know."
    requests = scripted.requests[before:]
    assert len(requests) == 4
    assert "Not understood" in requests[-1]["messages"][-1]["content"]


def test_a_call_of_something_else_is_answered(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    scripted.answers(calls("get_weather", "Rome"), calls("calculate", ""), says("I cannot."))
    assert written(sees, "What is the weather?") == "I cannot."
    *_, unknown, _, empty = (message["content"] for message in scripted.requests[-1]["messages"])
    assert "no such function" in unknown
    assert "must be a text" in empty


def test_a_server_without_tools_answers_without_the_rules(scripted: ScriptedServer) -> None:
    without = refuses(500, "tools param requires --jinja flag")
    scripted.script = lambda sent: without if "tools" in sent else Answer(says("Hello."))
    for engine in _warmed_up(scripted):
        assert written(engine, "Hello?") == "Hello."
        begun = len(scripted.requests)
        assert written(engine, "Hello?") == "Hello."
        assert not any("tools" in sent for sent in scripted.requests[begun:])
        assert engine.trouble == ""


def test_the_rules_can_be_left_out(
    sees: LocalProcessor, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = sees._options.model_copy(update={"rules": False})
    monkeypatch.setattr(sees, "_options", without)
    scripted.answers(says("Hello."))
    assert written(sees, "Hello?") == "Hello."
    assert "tools" not in scripted.requests[-1]


def test_an_error_of_a_chat_is_no_answer(sees: LocalProcessor, scripted: ScriptedServer) -> None:
    scripted.answers(Answer([delta(content="Ro")]))
    view = sees.set_chat_mode()
    view.prefill([ConversationMessage(Role.USER, (TextPart(ITALY),))], ChatOptions())
    pieces = view.generate()
    assert next(iter(pieces)).text == "Ro"
    with pytest.raises(EngineError, match=CUT_OFF):
        list(pieces)
    view.cleanup()


def test_pictures_are_sent_as_data(sees: LocalProcessor, scripted: ScriptedServer) -> None:
    assert sees.info.sees_frames
    scripted.answers(says("A cat."))
    chat = sees.set_chat_mode()
    question = ConversationMessage(Role.USER, (TextPart("What is this?"), ImagePart(JPEG)))
    alone = ConversationMessage(Role.USER, (ImagePart(JPEG),))
    for asked in (question, alone):
        assert chat.prefill([asked], ChatOptions()) > 600
        assert "".join(piece.text for piece in chat.generate()) == "A cat."
    chat.cleanup()
    picture = {
        "type": "image_url",
        "image_url": {"url": "data:image/jpeg;base64,/9j/4CBhIHBpY3R1cmU="},
    }
    text = {"type": "text", "text": "What is this?"}
    sent = [request["messages"][-1]["content"] for request in scripted.requests[-2:]]
    assert sent == [[text, picture], [picture]]


def test_a_picture_in_the_system_message_stays_one(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    scripted.answers(says("A cat."))
    system = ConversationMessage(Role.SYSTEM, (TextPart("Look at this."), ImagePart(JPEG)))
    question = ConversationMessage(Role.USER, (TextPart("Describe the picture, please."),))
    chat = sees.set_chat_mode()
    chat.prefill([system, question], ChatOptions())
    assert "".join(piece.text for piece in chat.generate()) == "A cat."
    chat.cleanup()
    text, picture = scripted.requests[-1]["messages"][0]["content"]
    assert "Look at this." in text["text"]
    assert "data:" not in text["text"]
    assert picture["type"] == "image_url"


def test_a_video_call_sends_its_newest_frame(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    scripted.answers(says("A cat."))
    view = sees.set_duplex_mode()
    view.prepare("", STEADY)
    view.prefill(silence(1.0), [b"old"])
    view.generate()
    view.finalize()
    view.prefill(silence(1.0), [b"older", JPEG])
    view.generate()
    view.finalize()
    assert "cat" in text_of(converse(view, ITALY))
    content = scripted.requests[-1]["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert content[1]["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
    view.cleanup()


def test_the_user_hears_that_the_model_is_away(
    sees: LocalProcessor, scripted: ScriptedServer
) -> None:
    scripted.answers(Answer(status=503))
    duplex = sees.set_duplex_mode()
    duplex.prepare("", STEADY)
    assert text_of(converse(duplex, ITALY)).strip() == UNREACHABLE
    duplex.cleanup()
    half = sees.set_half_duplex_mode()
    half.prepare(ConversationMessage(Role.SYSTEM, ()), HalfDuplexConfig())
    half.prefill(spoken(ITALY))
    assert "".join(piece.text for piece in half.generate()).strip() == UNREACHABLE
    half.cleanup()
    assert "HTTP 503" in sees.trouble
    scripted.answers(Answer([delta(content="It is a"), delta(content=" big")]))
    duplex = sees.set_duplex_mode()
    duplex.prepare("", STEADY)
    assert text_of(converse(duplex, ITALY)).strip() == f"It is a big {CUT_OFF}"
    duplex.cleanup()
    scripted.answers(says("Rome."))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"llm_url": "localhost:11434/v1", "llm_model": "x"}, "llm_url: must begin with http://"),
        ({"llm_url": "http://me:pw@host/v1", "llm_model": "x"}, "belongs in llm_key_file"),
        ({"llm_url": "http://host:99999", "llm_model": "x"}, "port from 0 to 65535"),
        ({"llm_url": "http://host/v1"}, "llm_url needs llm_model"),
        ({"llm_model": "x"}, "llm_model needs llm_url"),
        ({"llm_sees": True}, "llm_sees needs llm_url"),
        ({"llm_url": "http://h/v1", "llm_model": "x", "llm_key_file": "/nowhere"}, "/nowhere: No such"),
        ({"llm_url": "http://h/v1", "llm_model": "x", "llm_key_file": __file__}, "one key and nothing"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(EngineLoadError, match=message):
        build_processor("local", options=options)


def test_doctor_asks_the_server(llama: LlamaServer, tmp_path: Path) -> None:
    def finding(about: str = "language model", **options: object) -> tuple[FindingStatus, str]:
        values = {"llm_url": llama.url, "llm_model": MODEL, **options}
        findings = examine_engine("local", 1, None, values)
        assert "model weights" not in [one.about for one in findings]
        (one,) = [one for one in findings if one.about == about]
        return one.verdict, one.found

    verdict, found = finding()
    assert verdict is FindingStatus.FAILURE
    assert "wants a key" in found
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o644)
    verdict, found = finding(llm_key_file=key)
    assert verdict is FindingStatus.OK
    assert found.startswith(f"{MODEL} at {llama.url}, first token after ")
    verdict, found = finding("its key", llm_key_file=key)
    assert verdict is FindingStatus.WARNING
    assert KEY not in found
    key.write_text("another")
    assert "refuses the key" in finding(llm_key_file=key)[1]
