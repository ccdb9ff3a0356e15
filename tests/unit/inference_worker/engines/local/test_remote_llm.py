"""A language model on a server: what it is asked, what it answers, and every way in which it fails."""

import re
import ssl
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
import trustme
from structlog.testing import capture_logs

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.common.exchange import ModelServer
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.language_model import ModelAway, spoken_pieces
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.remote import llm as remote_llm
from antiphon.inference_worker.engines.local.remote.faults import CUT_OFF, NO_ANSWER, UNREACHABLE
from antiphon.inference_worker.engines.local.remote.llm import RemoteGeneration, RemoteLanguageModel
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS
from antiphon.inference_worker.engines.types import (
    ContextFull,
    TooManyRequests,
    UnsupportedContent,
)
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig
from antiphon.shared_schemas.unit_result import TokenUsage
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
from support.ports import free_port
from support.redis_server import wait_until

KEY = "sk-0123456789-very-secret"
SECRET = "My bank account number is 12345678."
QUESTION = [{"role": "user", "content": SECRET}]


MADE: list[RemoteLanguageModel] = []


@pytest.fixture(autouse=True)
def _close_all() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


@pytest.fixture
def llm(server: ScriptedServer) -> RemoteLanguageModel:
    return model(server.url)


def model(
    url: str,
    name: str = MODEL,
    key: str = KEY,
    timeout_s: float = 5.0,
    *,
    offers_rules: bool = False,
) -> RemoteLanguageModel:
    address = ModelServer(url, key)
    made = RemoteLanguageModel(address, name, timeout_s, sees=False, offers_rules=offers_rules)
    MADE.append(made)
    return made


def ask(llm: RemoteLanguageModel, counter: TokenCounter | None = None) -> RemoteGeneration:
    return llm.stream(QUESTION, 0, DuplexConfig(temperature=0.5), 90, counter)


def spoken(llm: RemoteLanguageModel) -> str:
    return "".join(spoken_pieces(ask(llm)))


def test_only_standard_fields_are_sent_and_the_answer_is_streamed(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    server.answers([*says("It", " is", " Rome.")[:-1], event({"choices": [], "usage": usage})])
    counter = TokenCounter()
    reply = ask(llm, counter)
    assert list(reply) == ["It", " is", " Rome."]
    assert (reply.complete, reply.context_tokens, reply.written_tokens) == (True, 23, 3)
    assert counter.take() == TokenUsage(input_text=12, output_text=3)
    assert server.keys == [f"Bearer {KEY}"]
    assert server.requests == [
        {
            "model": MODEL,
            "messages": QUESTION,
            "temperature": 0.5,
            "top_p": DuplexConfig().top_p,
            "max_tokens": 90,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


def test_tokens_are_estimated_where_the_server_counts_none(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers(says("It", " is", " Rome."))
    counter = TokenCounter()
    list(ask(llm, counter))
    counted = counter.take()
    assert 10 < counted.input_text == llm.prefill(QUESTION, 0) < 30
    assert counted.output_text == 3


@pytest.mark.parametrize(
    "usage",
    [
        "much",
        [1],
        {"prompt_tokens": "many", "completion_tokens": None, "prompt_tokens_details": 3},
        {"prompt_tokens_details": {"cached_tokens": "all"}},
    ],
)
def test_a_count_that_is_none_costs_no_answer(
    llm: RemoteLanguageModel, server: ScriptedServer, usage: object
) -> None:
    server.answers([*says("It", " is", " Rome.")[:-1], event({"choices": [], "usage": usage})])
    counter = TokenCounter()
    assert list(ask(llm, counter)) == ["It", " is", " Rome."]
    counted = counter.take()
    assert counted.input_text == llm.prefill(QUESTION, 0)
    assert counted.output_text == 3


OPENAI = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000."
)
FULL = {
    "OpenAI": {"error": {"message": OPENAI, "code": "context_length_exceeded"}},
    "llama.cpp": {
        "error": {
            "type": "exceed_context_size_error",
            "message": "the request exceeds the available context size",
        }
    },
    "vLLM": {
        "object": "error",
        "message": f"{OPENAI} Please reduce the length.",
        "type": "BadRequestError",
    },
    "Ollama": {"error": {"message": "prompt too long; exceeded max context length by 4 tokens"}},
} | {
    server: {"error": {"message": message}}
    for server, message in {
        "LM Studio": "Trying to keep the first 4843 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens, which is not enough.",
        "LM Studio before": "The number of tokens to keep from the initial prompt is greater than the "
        "context length (n_keep: 4843 >= n_ctx: 4096).",
        "Google": "The input token count (1048580) exceeds the maximum number of tokens allowed (1048576).",
        "SGLang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000",
        "Groq": "Please reduce the length of the messages or completion.",
        "Anthropic": "input length and `max_tokens` exceed context limit: 199000 + 180 > 200000",
        "xAI": "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "llama-cpp-python": "Requested tokens (5000) exceed context window of 4096",
        "Cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    }.items()
}


@pytest.mark.parametrize("body", FULL.values(), ids=FULL)
def test_a_full_context_is_named(
    llm: RemoteLanguageModel, server: ScriptedServer, body: dict[str, object]
) -> None:
    said = event(body).removeprefix(b"data: ")
    for answer in (Answer([said], 400, "application/json"), Answer([event(body)])):
        server.answers(answer)
        with pytest.raises(ContextFull, match="larger context in its server"):
            list(ask(llm))
        assert not llm.trouble


@pytest.mark.parametrize(
    "message",
    [
        f"{OPENAI} (568 in the messages, 7680 in the completion)",
        "max_tokens is too large: 4096. This model supports at most 2048 completion tokens.",
        "`max_tokens` must be less than or equal to `2048`, the maximum value for this model",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 2048]",
    ],
)
def test_an_answer_may_have_what_is_left_of_the_context(
    llm: RemoteLanguageModel, server: ScriptedServer, message: str
) -> None:
    server.script = lambda sent: (
        refuses(400, message) if "max_tokens" in sent else Answer(says("Hello."))
    )
    for _ in range(2):
        assert list(llm.stream(QUESTION, 0, GenerationConfig(), 4096)) == ["Hello."]
    assert [sent.get("max_tokens") for sent in server.requests] == [4096, None, 4096, None]
    assert not llm.trouble


def test_a_limit_of_another_name_may_be_too_large(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    def script(sent: dict[str, object]) -> Answer:
        if "max_tokens" in sent:
            return refuses(400, "'max_tokens' is not supported")
        large = sent.get("max_completion_tokens", 0) == 4096
        return refuses(400, "max_completion_tokens is too large") if large else Answer(says("Hi."))

    server.script = script
    for limit in (4096, 90):
        assert list(llm.stream(QUESTION, 0, GenerationConfig(), limit)) == ["Hi."]
    assert server.requests[-1]["max_completion_tokens"] == 90


SYSTEM = {"role": "system", "content": "Be kind."}


def dialogue(questions: int) -> list[LlmMessage]:
    """Each question and each answer has about 106 tokens by estimate."""
    turns: list[LlmMessage] = [SYSTEM]
    for number in range(questions):
        turns.append({"role": "user", "content": f"Question {number}. ".ljust(300, "x")})
        turns.append({"role": "assistant", "content": f"Answer {number}. ".ljust(300, "x")})
    return turns[:-1]


def small(server: ScriptedServer, most: int, *, in_stream: bool) -> None:
    """A model with room for `most` messages. The refusal may be the begin of a stream."""

    def script(sent: dict[str, object]) -> Answer:
        messages = sent["messages"]
        assert isinstance(messages, list)
        if len(messages) <= most:
            return Answer(says("Hello."))
        full = refuses(400, OPENAI)
        (said,) = full.events
        return Answer([b"event: error\ndata: " + said + b"\n\n"]) if in_stream else full

    server.script = script


@pytest.mark.parametrize("in_stream", [False, True])
def test_a_long_call_goes_on_without_its_oldest_turns(
    llm: RemoteLanguageModel, server: ScriptedServer, *, in_stream: bool
) -> None:
    small(server, 33, in_stream=in_stream)
    begins = []
    with capture_logs() as logs:
        for questions in range(14, 44):
            asked = dialogue(questions)
            before = len(server.requests)
            assert list(llm.stream(asked, 0, DuplexConfig(), 90)) == ["Hello."]
            assert len(server.requests) == before + 1 or questions == 17
            first, second, *_, last = server.requests[-1]["messages"]
            assert (first, last) == (SYSTEM, asked[-1])
            assert second["role"] == "user"
            assert server.requests[-1]["max_tokens"] == 90
            begins.append(second["content"][:11])
    assert not llm.trouble
    assert [entry["event"] for entry in logs] == ["language_model_context_is_small"]
    assert len(set(begins)) < 8  # the server reads only what is new, most of the time


def test_an_answer_is_continued_with_its_question(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    small(server, 4, in_stream=False)
    half = {"role": "assistant", "content": "The capital of"}
    assert list(llm.stream([*dialogue(9), half], 0, DuplexConfig(), 90)) == ["Hello."]
    assert server.requests[-1]["messages"][:-1] == [SYSTEM, dialogue(9)[-1], half]


def test_only_spoken_sessions_lose_turns(llm: RemoteLanguageModel, server: ScriptedServer) -> None:
    small(server, 9, in_stream=False)
    with pytest.raises(ContextFull):
        list(llm.stream(dialogue(9), 0, GenerationConfig(), 90))
    assert {len(sent["messages"]) for sent in server.requests} == {18}


def test_a_question_that_does_not_fit_alone_teaches_nothing(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    small(server, 1, in_stream=False)
    with pytest.raises(ContextFull):
        list(llm.stream(dialogue(9), 0, DuplexConfig(), 90))
    assert server.requests[-1]["messages"] == [SYSTEM, dialogue(9)[-1]]
    small(server, 99, in_stream=False)
    assert list(llm.stream(dialogue(9), 0, DuplexConfig(), 90)) == ["Hello."]
    assert server.requests[-1]["messages"] == dialogue(9)


NO_SYSTEM = {
    "Gemma": (400, "System role not supported"),
    "llama.cpp": (500, "Jinja Exception: System role not supported"),
    "Mistral": (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
    "Mistral with tools": (
        400,
        "After the optional system message, conversation roles must alternate user and assistant roles "
        "except for tool calls and results.",
    ),
    "Google": (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    "OpenAI": (400, "'messages[0].role' does not support 'system' with this model."),
}


@pytest.mark.parametrize(("status", "message"), NO_SYSTEM.values(), ids=NO_SYSTEM)
def test_a_model_without_a_system_role_gets_its_text_from_the_user(
    server: ScriptedServer, status: int, message: str
) -> None:
    def script(sent: dict[str, object]) -> Answer:
        messages = sent["messages"]
        assert isinstance(messages, list)
        roles = [said["role"] for said in messages]
        fits = roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        return Answer(says("Hello.")) if fits else refuses(status, message)

    server.script = script
    llm = model(server.url, offers_rules=True)
    answer = {"role": "assistant", "content": "Hello!"}
    asked = [SYSTEM, *QUESTION, *QUESTION, answer, *QUESTION]
    for _ in range(2):
        assert list(llm.stream(asked, 0, DuplexConfig(), 90, tools=RULE_TOOLS)) == ["Hello."]
    assert len(server.requests) == 3
    joined = {"role": "user", "content": f"Be kind.\n\n{SECRET}\n\n{SECRET}"}
    assert server.requests[-1]["messages"] == [joined, answer, *QUESTION]
    assert "tools" in server.requests[-1]
    seen = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    assert list(llm.stream([SYSTEM, seen], 0, DuplexConfig(), 90)) == ["Hello."]
    text = {"type": "text", "text": "Be kind."}
    assert server.requests[-1]["messages"][0]["content"] == [text, *seen["content"]]
    assert not llm.trouble


def test_a_probe_has_the_form_of_a_question(server: ScriptedServer) -> None:
    server.script = lambda sent: (
        refuses(400, "no such thing") if "tools" in sent else Answer(says("Hello."))
    )
    llm = model(server.url, offers_rules=True)
    with pytest.raises(ModelAway):
        llm.probe(5.0)
    assert [said["role"] for said in server.requests[0]["messages"]] == ["system", "user"]
    assert server.requests[0]["tools"] == list(RULE_TOOLS)
    server.answers(refuses(400, "image input is not supported"))
    sees = RemoteLanguageModel(ModelServer(server.url), MODEL, 5.0, sees=True)
    with pytest.raises(ModelAway, match="cannot reach"):
        sees.probe(5.0)
    text, picture = server.requests[-1]["messages"][-1]["content"]
    assert text == {"type": "text", "text": "Hello."}
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("status", "message", "field"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools", "tools"),
        (400, "Invalid schema for function 'weather'", "tools"),
        (500, "this model takes no image input", "messages"),
    ],
)
def test_what_the_model_refuses_of_a_client_is_no_fault_of_the_server(
    llm: RemoteLanguageModel, server: ScriptedServer, status: int, message: str, field: str
) -> None:
    server.answers(refuses(status, message))
    tools = [{"type": "function", "function": {"name": "weather"}}]
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    seen = [{"role": "user", "content": [picture]}]
    with pytest.raises(UnsupportedContent, match=f"{field}: .*{message}") as caught:
        list(llm.stream(seen, 0, GenerationConfig(), 50, None, tools if field == "tools" else ()))
    assert caught.value.field == field
    assert not llm.trouble
    with pytest.raises(ModelAway):
        list(llm.stream(seen, 0, DuplexConfig(), 50, None, tools))


@pytest.mark.parametrize(
    ("message", "field", "then"),
    [
        ("'max_tokens' is not supported", "max_tokens", "max_completion_tokens"),
        ("Unsupported value: 'temperature' does not support 0.5", "temperature", ""),
        ("extra fields not permitted", "stream_options", ""),
    ],
)
def test_a_field_that_the_server_refuses_is_left_out_from_then_on(
    llm: RemoteLanguageModel, server: ScriptedServer, message: str, field: str, then: str
) -> None:
    server.answers(refuses(400, message), says("Hello."))
    assert [list(ask(llm)) for _ in range(2)] == [["Hello."]] * 2
    assert [field in body for body in server.requests] == [True, False, False]
    assert [then in body for body in server.requests[1:]] == [bool(then)] * 2


PIECES = ("<th", "ink>no", "pe</thi", "nk>\n\nYes, 1 <", " 2.")
THOUGHTS = [delta(reasoning_content="Hm."), *says(*PIECES)]
WHOLE = {"choices": [{"message": {"content": "It is Rome."}, "finish_reason": "stop"}]}
CRLF = b"event: message\r\ndata:" + says("It is Rome.")[0][5:-2] + b"\r\n\r\n: ping\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(THOUGHTS), "Yes, 1 < 2."),
        (Answer([event(WHOLE)[6:]], kind="application/json"), "It is Rome."),
        (Answer([CRLF, event("[DONE]")]), "It is Rome."),
        (Answer([delta(content="Hi <thin"), delta("length")]), "Hi <thin"),
    ],
    ids=["thoughts", "no stream", "no finish_reason", "half a mark"],
)
def test_answers_in_other_forms(
    llm: RemoteLanguageModel, server: ScriptedServer, answer: Answer, text: str
) -> None:
    server.answers(answer)
    assert spoken(llm) == text
    assert not llm.trouble


def call(index: int | None, **part: object) -> bytes:
    place = {} if index is None else {"index": index}
    return delta(tool_calls=[{**place, **part}])


TWO = [("a", "weather", '{"city": "Rome"}'), ("b", "now", "{}")]
CALLS = {
    "in pieces": [
        call(0, id="a", type="function", function={"name": "weather", "arguments": ""}),
        call(0, function={"arguments": '{"city": '}),
        call(0, function={"arguments": '"Rome"}'}),
        call(1, id="b", function={"name": "now", "arguments": "{}"}),
    ],
    "without an index, arguments as an object": [
        call(None, id="a", function={"name": "weather", "arguments": {"city": "Rome"}}),
        call(None, id="b", function={"name": "now"}),
    ],
}


@pytest.mark.parametrize("events", CALLS.values(), ids=CALLS)
def test_calls_of_tools(
    llm: RemoteLanguageModel, server: ScriptedServer, events: list[bytes]
) -> None:
    server.answers([*events, delta("tool_calls"), event("[DONE]")])
    tools = [{"type": "function", "function": {"name": "weather"}}]
    reply = llm.stream(QUESTION, 0, GenerationConfig(), 50, None, tools)
    assert list(reply) == []
    calls = [(one.id, one.name, one.arguments.replace('":"', '": "')) for one in reply.tool_calls]
    assert calls == TWO
    assert server.requests[0]["tools"] == tools


SAID = [delta(content="The capital"), delta(content=" of")]
CUT = Answer([b"1b\r\n" + SAID[0]], headers={"Transfer-Encoding": "chunked"})
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
ENDLESS = Answer([b"data: " + b"x" * 2**21])
THOUGHT = Answer([delta(reasoning_content="Hm"), delta("length")])
ERROR = Answer([event({"error": {"message": "out of memory"}})])
AWAY = {
    "a wrong key": (refuses(401, f"Wrong key: {KEY}"), r"refuses the key.*key-file \(HTTP 401\)$"),
    "no right": (refuses(403, "not your model"), "--llm-key-file.*not your model"),
    "too many requests": (refuses(429, "slow down", Retry_After="60"), "429: slow down"),
    "no seconds to wait": (refuses(429, Retry_After=DATE), "429"),
    "too many requests twice": (refuses(429, Retry_After="0"), "429"),
    "a failure": (refuses(503, "Loading model"), r"failed \(HTTP 503: Loading model"),
    "a proxy": (Answer([b"<html>502</html>"], 502, "text/html"), r"failed \(HTTP 502\)$"),
    "elsewhere": (Answer([], 301, headers={"Location": "https://x"}), "301.*--llm-url"),
    "a quotation": (refuses(400, f"bad: {SECRET}"), r"refuses the request \(HTTP 400\)$"),
    "a page": (Answer([b"<html>"], kind="text/html"), "sends text/html: --llm-url is no"),
    "no JSON": (Answer([event("{oops")]), "else than JSON"),
    "another JSON": (Answer([event({"choices": ["x"]})]), "not in the form of OpenAI"),
    "an endless line": (ENDLESS, "line of more than"),
    "an error in the stream": (ERROR, "out of memory"),
    "nothing at all": (Answer(), "broke off"),
    "a cut chunk": (CUT, "broke off"),
    "silence": (Answer(hold=True), r"gave no token within 0\.3 s"),
    "only comments": (Answer([b": ping\n\n"], hold=True), r"gave no token within 0\.3 s"),
}
FAULTS = {name: (answer, UNREACHABLE, reason) for name, (answer, reason) in AWAY.items()} | {
    "an empty answer": (Answer(says()), NO_ANSWER, "empty answer .finish_reason stop"),
    "only thoughts": (THOUGHT, NO_ANSWER, "empty answer .finish_reason length"),
    "a cut answer": (Answer(SAID), CUT_OFF, "broke off in an answer"),
    "silence in an answer": (Answer(SAID, hold=True), CUT_OFF, r"stopped in an answer for 0\.3 s"),
}


@pytest.mark.parametrize(("answer", "sentence", "reason"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_said_to_the_user_and_explained_to_the_operator_once(
    server: ScriptedServer, answer: Answer, sentence: str, reason: str
) -> None:
    llm = model(server.url, timeout_s=0.3 if answer.hold else 5.0)
    server.answers(answer)
    with capture_logs() as logs:
        texts = {spoken(llm) for _ in range(2)}
        assert re.search(reason, llm.trouble)
        server.answers(says("Hello."))
        assert spoken(llm) == "Hello."
    said = "The capital of" if answer.events == SAID else ""
    assert texts == {f"{said}\n{sentence}\n"}
    assert llm.trouble == ""
    assert [entry["event"] for entry in logs] == ["language_model_away", "language_model_back"]
    assert not any(private in str(logs) for private in (KEY, SECRET))


def test_a_short_wait_that_the_server_asks_for_is_kept_once(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers(refuses(429, Retry_After="0.01"), says("Hello."))
    assert spoken(llm) == "Hello."
    assert len(server.requests) == 2


def test_a_client_may_try_again_what_the_server_has_no_time_for(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers(refuses(429, "slow down", Retry_After="60"))
    with pytest.raises(TooManyRequests):
        list(ask(llm))
    assert "429: slow down" in llm.trouble


def test_a_model_that_the_server_does_not_have(server: ScriptedServer) -> None:
    server.answers(refuses(404, "model not found"))
    wrong = model(server.url, "smol")
    assert UNREACHABLE in spoken(wrong)
    assert wrong.trouble == f"the server has no model 'smol'; --llm-model can be one of: {MODEL}"
    server.models = refuses(404)
    assert UNREACHABLE in spoken(wrong)
    assert "--llm-url usually ends in /v1" in wrong.trouble


def test_a_server_that_cannot_be_reached(server: ScriptedServer) -> None:
    urls = {
        f"http://127.0.0.1:{free_port()}/v1": "nothing listens at",
        "http://no-such-host.invalid/v1": "the host of http://no-such-host.invalid/v1 is not known",
        server.url.replace("http", "https"): "does not speak TLS",
    }
    for url, reason in urls.items():
        llm = model(url)
        llm.open()
        assert reason in llm.trouble
        assert spoken(llm) == f"\n{UNREACHABLE}\n"
        assert reason in llm.trouble


def test_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with scripted_server(context) as server, pytest.MonkeyPatch.context() as patch:
        stranger = model(server.url)
        assert UNREACHABLE in spoken(stranger)
        assert "is not trusted: " in stranger.trouble
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        patch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        server.answers(Answer([*SAID], hold=True))
        reply = ask(stranger)
        pieces = iter(reply)
        assert next(pieces) == "The capital"
        wait_until(lambda: server.held == 1, within_s=90, every_s=0.005)
        threading.Thread(target=reply.cancel).start()
        assert "".join(pieces) in ("", " of")
        wait_until(lambda: server.held == 0, within_s=90, every_s=0.005)


@pytest.mark.parametrize("events", [[], SAID], ids=["before the first token", "in an answer"])
def test_a_cancelled_reply_closes_the_connection(
    server: ScriptedServer, events: list[bytes]
) -> None:
    llm = model(server.url, timeout_s=60.0)
    server.answers(Answer(events, hold=True))
    counter = TokenCounter()
    reply = ask(llm, counter)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.extend(reply))
    reader.start()
    wait_until(lambda: server.held == 1 and len(got) == len(events), within_s=90, every_s=0.005)
    reply.cancel()
    reader.join(10)
    assert not reader.is_alive()
    wait_until(lambda: server.held == 0, within_s=90, every_s=0.005)
    assert got == ["The capital", " of"][: len(events)]
    assert not llm.trouble
    assert counter.take().output_text == len(events)


def test_an_interrupted_answer_is_continued_on_request(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    """OpenAI's API has no message that the model completes."""
    server.answers(says())
    half = {"role": "assistant", "content": "The capital of"}
    assert list(llm.stream([*QUESTION, half], 0, DuplexConfig(), 90)) == []
    *before, last = server.requests[0]["messages"]
    assert before == [*QUESTION, half]
    assert last["role"] == "user"
    assert "Continue" in last["content"]


def test_the_model_is_loaded_before_the_first_question(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    others = set(threading.enumerate())
    llm.open()
    wait_until(lambda: bool(server.requests), within_s=90, every_s=0.005)
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": "Hello."}
    wait_until(lambda: not _probes() - others, within_s=90, every_s=0.005)  # its answer counts too
    server.models = refuses(401)
    llm.open()
    assert "refuses the key" in llm.trouble
    llm.close()


def test_a_session_after_a_pause_lets_the_server_load_the_model(
    llm: RemoteLanguageModel, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm.prefill([SYSTEM], 0)
    monkeypatch.setattr(remote_llm, "_UNUSED_S", 0.0)
    llm.prefill([SYSTEM, *QUESTION], 0)
    assert not server.requests
    server.answers(Answer(hold=True))
    for _ in range(3):
        llm.prefill([SYSTEM], 0)
    wait_until(lambda: server.held == 1, within_s=90, every_s=0.005)
    assert len(server.requests) == 1
    server.answers(says("Hello."))
    assert spoken(llm) == "Hello."
    assert server.held == 1  # the server still loads it


def test_a_model_that_loads_for_longer_than_a_user_waits_is_soon_there(
    server: ScriptedServer,
) -> None:
    """Some servers load it only as long as a request waits for it: the first one is not closed."""
    llm = model(server.url, timeout_s=0.3)
    loaded = threading.Event()

    def script(_: object) -> Answer:
        loaded.wait(60)
        return Answer([delta(content="Hello.")], hold=True)

    server.script = script
    assert UNREACHABLE in spoken(llm)
    assert len(server.requests) == 1
    loaded.set()
    wait_until(lambda: not llm.trouble, within_s=10, every_s=0.005)
    wait_until(lambda: server.held == 0, within_s=10, every_s=0.005)  # nobody reads its answer
    assert len(server.requests) == 1


def test_only_one_request_goes_on_without_its_user(server: ScriptedServer) -> None:
    llm = model(server.url, timeout_s=0.3)
    server.answers(Answer(hold=True))
    assert {spoken(llm) for _ in range(3)} == {f"\n{UNREACHABLE}\n"}
    wait_until(
        lambda: server.held == 2, within_s=10, every_s=0.005
    )  # the other one warms the model up
    llm.close()
    wait_until(lambda: server.held == 0, within_s=10, every_s=0.005)


def test_the_key_is_read_again(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("old\n")
    server.script = lambda _: (
        Answer(says("Hello.")) if server.keys[-1] == "Bearer new" else refuses(401)
    )
    options = LocalOptions(llm_url=server.url, llm_model=MODEL, llm_key_file=file)
    llm = RemoteLanguageModel.of(options)
    MADE.append(llm)
    assert UNREACHABLE in spoken(llm)
    file.write_text("")  # as while it is written
    assert UNREACHABLE in spoken(llm)
    file.write_text("new\n")
    assert spoken(llm) == "Hello."
    assert server.keys[:2] == ["Bearer old"] * 2


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://[::1]/v1", "::1", 80),
        ("https://[2001:db8::abcd]/v1", "2001:db8::abcd", 443),
        ("https://[2001:db8::1]:8000/v1", "2001:db8::1", 8000),
        ("https://example.org/v1", "example.org", 443),
    ],
)
def test_the_host_and_the_port_of_an_address(url: str, host: str, port: int) -> None:
    connection = ModelServer(url).connect()
    assert (connection.host, connection.port) == (host, port)


def test_a_host_that_takes_no_connection_does_not_delay_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(remote_llm, "_LIST_S", 0.2)
    monkeypatch.setattr(HTTPConnection, "connect", lambda _: ended.wait(60))
    llm = model("http://sleeping.invalid/v1")
    begun = time.monotonic()
    llm.open()
    took_s = time.monotonic() - begun
    ended.set()
    assert took_s < 20
    assert "lists no models within 0.2 s" in llm.trouble


def _probes() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "remote-llm-probe"}


def test_a_server_that_comes_back_is_found_without_a_user(
    llm: RemoteLanguageModel, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_llm, "_ASK_AGAIN_S", 0.01)
    server.answers(*[refuses(503)] * 3, says("Hello."))
    assert UNREACHABLE in spoken(llm)
    wait_until(lambda: not llm.trouble, within_s=90, every_s=0.005)
    assert len(server.requests) == 4


def test_a_model_that_says_nothing_is_not_asked_without_a_user(
    llm: RemoteLanguageModel, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers, which may be long thoughts, cost money."""
    monkeypatch.setattr(remote_llm, "_ASK_AGAIN_S", 0.01)
    server.answers(says())
    assert NO_ANSWER in spoken(llm)
    time.sleep(0.1)
    assert len(server.requests) == 1
    assert "empty answer" in llm.trouble


def test_a_field_is_sent_again_if_it_was_not_the_reason_of_a_refusal(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers(*[refuses(400, "the temperature of hell")] * 3, says("Hello."))
    assert UNREACHABLE in spoken(llm)
    assert spoken(llm) == "Hello."
    assert {"temperature", "stream_options"} <= set(server.requests[-1])
