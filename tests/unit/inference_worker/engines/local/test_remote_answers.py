"""What the answers of other models and servers look like: thoughts, calls of tools, and odd forms."""

import json
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest

from antiphon.inference_worker.engines.common.exchange import ModelServer
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.language_model import ModelAway
from antiphon.inference_worker.engines.local.remote.faults import NO_ANSWER
from antiphon.inference_worker.engines.local.remote.llm import RemoteGeneration, RemoteLanguageModel
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS, ToolRounds
from antiphon.shared_schemas.config import DuplexConfig
from support.llm_server import (
    MODEL,
    Answer,
    ScriptedServer,
    delta,
    event,
    refuses,
    says,
)
from support.redis_server import wait_until

QUESTION = [{"role": "user", "content": "What is up?"}]
PICTURE = {"type": "image_url", "image_url": {"url": "data:,"}}
DONE = event("[DONE]")


@pytest.fixture
def llm(server: ScriptedServer) -> Iterator[RemoteLanguageModel]:
    made = RemoteLanguageModel(ModelServer(server.url), MODEL, 5.0, sees=True)
    yield made
    made.close()


def ask(
    llm: RemoteLanguageModel, tools: Sequence[dict[str, Any]] = (), tokens: int = 90
) -> RemoteGeneration:
    return llm.stream(QUESTION, 0, DuplexConfig(), tokens, tools=tools)


def said(llm: RemoteLanguageModel, tokens: int = 90) -> str:
    return "".join(ask(llm, tokens=tokens))


def call(arguments: str, name: str = "calculate", **more: object) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": 0, "id": "one", "type": "function", "function": function, **more}


def calls(*made: dict[str, Any], finish: str = "tool_calls", **fields: object) -> list[bytes]:
    return [delta(finish, tool_calls=list(made), **fields), DONE]


HARMONY = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"


@pytest.mark.parametrize(
    "thoughts",
    [
        "<think>Hm.</think>\n\n", "\n<think>\nHm.\n</think> ", "<thinking>Hm. 1 < 2</thinking>",
        "<think></think><think>Hm.</think>", "[THINK]Hm.[/THINK]", "</think>\n\n",
        HARMONY,
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_thoughts_at_the_begin_of_an_answer_are_left_out(
    llm: RemoteLanguageModel, server: ScriptedServer, thoughts: str, piece: int
) -> None:
    text = f"{thoughts}It is Rome."
    server.answers(says(*(text[at : at + piece] for at in range(0, len(text), piece))))
    assert [said(llm), said(llm)] == ["It is Rome."] * 2


@pytest.mark.parametrize(
    "text",
    [
        "In HTML-like tags, <think> and </think> surround thoughts.", "Write <think> first.",
        "It ends with `</think>`. Or with '</think>'.", "1 < 2 <", " <",
    ],
)  # fmt: skip
def test_an_answer_may_speak_of_the_marks(
    llm: RemoteLanguageModel, server: ScriptedServer, text: str
) -> None:
    server.answers(says(*text))
    assert [said(llm), said(llm)] == [text] * 2


OPENED = "Okay, they ask. I say hello.\n</think>\n\nHello there."
"""The template wrote <think>, as those of DeepSeek-R1 do, so the answer does not."""


def test_a_lone_end_teaches_that_answers_begin_with_thoughts(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers(says(*OPENED))
    said(llm)
    assert [said(llm), said(llm)] == ["Hello there."] * 2
    server.answers([delta(content="Okay, they"), delta("length")])
    with pytest.raises(ModelAway, match=NO_ANSWER):
        said(llm)
    server.answers(says("Hello", " again."))
    assert said(llm) == "Hello again."
    assert list(ask(llm)) == ["Hello", " again."]  # it does not think any more


def test_the_first_question_after_the_warm_up_knows_the_thoughts(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers(says(*OPENED))
    llm.probe(5.0)
    assert said(llm) == "Hello there."


def test_a_whole_answer_loses_what_is_before_a_lone_end(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    message = {"choices": [{"message": {"content": OPENED}, "finish_reason": "stop"}]}
    server.answers(Answer([json.dumps(message).encode()], kind="application/json"))
    assert said(llm) == "Hello there."


def thinks(sent: dict[str, Any], thoughts: int = 400) -> Answer:
    """A model that thinks first, unless it is told not to."""
    if sent.get("reasoning_effort") == "none":
        return Answer(says("It", " is", " Rome."))
    if sent["max_tokens"] <= thoughts:
        return Answer([delta(reasoning_content="Hm."), delta("length"), DONE])
    return Answer([delta(reasoning_content="Hm."), *says("It", " is", " Rome.")])


def test_a_model_that_thinks_is_asked_not_to(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.script = thinks
    llm.probe(5.0)
    assert said(llm) == "It is Rome."
    assert server.requests[-1]["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    "message",
    [
        "Unrecognized request argument supplied: reasoning_effort", "invalid think value: none",
        "Budget 0 is invalid. This model only works in thinking mode.", "extra fields not permitted",
    ],
)  # fmt: skip
def test_thoughts_that_cannot_be_turned_off_have_their_own_room(
    llm: RemoteLanguageModel, server: ScriptedServer, message: str
) -> None:
    server.script = lambda sent: (
        refuses(400, message) if "reasoning_effort" in sent else thinks(sent)
    )
    llm.probe(5.0)
    assert said(llm) == "It is Rome."
    before = len(server.requests)
    assert said(llm, tokens=2) == "It is"
    assert len(server.requests) == before + 1
    assert not llm.trouble


USAGE = {"completion_tokens": 90, "completion_tokens_details": {"reasoning_tokens": 90}}


@pytest.mark.parametrize(
    "begin",
    [
        [delta(reasoning_content="Hm."), delta("length"), DONE],
        [delta(content="<think>Hm."), delta("length"), DONE],
        [delta("length"), event({"choices": [], "usage": USAGE}), DONE],
        [delta(reasoning_content="Hm."), *calls(call('{"q'), finish="length")],
    ],
    ids=["in a field", "in the text", "hidden", "before a call"],
)
def test_an_answer_that_was_all_thoughts_is_asked_for_again(
    llm: RemoteLanguageModel, server: ScriptedServer, begin: list[bytes]
) -> None:
    server.answers(begin, says("It is", " Rome."))
    reply = ask(llm)
    assert list(reply) == ["It is", " Rome."]
    assert reply.complete
    assert not reply.broken_calls
    assert [sent["max_tokens"] > 1000 for sent in server.requests] == [False, True]
    assert not llm.trouble


def test_the_second_answer_can_be_cancelled(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    thoughts = [delta(reasoning_content="Hm."), delta("length"), DONE]
    server.answers(Answer(thoughts), Answer([delta(content="It")], hold=True))
    reply = ask(llm)
    pieces = iter(reply)
    assert next(pieces) == "It"
    threading.Thread(target=reply.cancel).start()
    assert list(pieces) == []
    wait_until(lambda: server.held == 0, within_s=90, every_s=0.005)


def test_a_small_context_has_no_room_for_thoughts(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    full = refuses(400, "This model's maximum context length is 2048 tokens.")
    server.answers([delta(reasoning_content="Hm."), *says("Rome.")])
    assert said(llm) == "Rome."
    server.script = lambda sent: full if sent["max_tokens"] > 1000 else Answer(says("Rome."))
    assert said(llm) == "Rome."
    assert [sent["max_tokens"] for sent in server.requests] == [90, 2090, 90]


def test_a_model_that_only_thinks_is_not_ready(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers([delta(reasoning_content="Hm."), delta("length"), DONE])
    with pytest.raises(ModelAway) as refused:
        llm.probe(5.0)
    assert "thoughts" in refused.value.reason


SUM = call('{"question": "17 * 23"}')
BROKEN = [call('{"question": '), call("17 * 23"), call('["17 * 23"]'), call("{}", name="")]


def rounds(llm: RemoteLanguageModel, messages: Sequence[LlmMessage] = QUESTION) -> ToolRounds:
    def stream(messages: Sequence[LlmMessage], tools: Sequence[dict[str, Any]]) -> RemoteGeneration:
        return llm.stream(messages, 0, DuplexConfig(), 90, tools=tools)

    return ToolRounds(stream, messages, lambda: datetime(2026, 7, 1))


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_call_is_no_silence(
    llm: RemoteLanguageModel, server: ScriptedServer, broken: dict[str, Any]
) -> None:
    server.answers(calls(broken, finish="length"))
    with pytest.raises(ModelAway, match=NO_ANSWER) as refused:
        list(ask(llm, RULE_TOOLS))
    assert "call" in refused.value.reason
    assert not llm.trouble


@pytest.mark.parametrize("broken", BROKEN)
def test_the_model_reads_that_its_call_is_broken(
    llm: RemoteLanguageModel, server: ScriptedServer, broken: dict[str, Any]
) -> None:
    server.answers(calls(broken), calls(SUM), says("It is 391."))
    assert "".join(rounds(llm)) == "It is 391."
    asked, told = server.requests[1]["messages"][-2:]
    assert "JSON object" in told["content"]
    assert told["tool_call_id"] == asked["tool_calls"][0]["id"]
    json.loads(asked["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize("made", [SUM, BROKEN[0]])
def test_calls_without_end_are_no_silence(
    llm: RemoteLanguageModel, server: ScriptedServer, made: dict[str, Any]
) -> None:
    server.answers(calls(made))
    with pytest.raises(ModelAway, match=NO_ANSWER):
        list(rounds(llm))
    assert len(server.requests) == 4


def test_what_a_server_adds_to_a_call_goes_back_to_it(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    signature = {"google": {"thought_signature": "abc"}}
    made = call('{"question": "17 * 23"}', extra_content=signature)
    thoughts = [delta(reasoning_content="I must "), delta(reasoning_content="calculate.")]
    server.answers([*thoughts, *calls(made)], says("It is 391."))
    assert "".join(rounds(llm)) == "It is 391."
    (asked,) = (m for m in server.requests[1]["messages"] if m["role"] == "assistant")
    assert asked["tool_calls"][0]["extra_content"] == signature
    assert asked["reasoning_content"] == "I must calculate."


@pytest.mark.parametrize("content", ["Sum?", [{"type": "text", "text": "Sum?"}, PICTURE]])
@pytest.mark.parametrize("status", [400, 422, 500])
def test_results_that_the_server_refuses_go_to_it_as_text(
    llm: RemoteLanguageModel, server: ScriptedServer, content: object, status: int
) -> None:
    def script(sent: dict[str, Any]) -> Answer:
        if any(message["role"] == "tool" for message in sent["messages"]):
            return refuses(status, "Function call is missing a thought_signature in tool call")
        return Answer(calls(SUM) if "tools" in sent else says("It is 391."))

    server.script = script
    assert "".join(rounds(llm, [{"role": "user", "content": content}])) == "It is 391."
    (told,) = server.requests[-1]["messages"]
    assert told["role"] == "user"
    for part in ("Sum?", "17 times 23 is 391."):
        assert part in json.dumps(told["content"])
    assert "tools" not in server.requests[-1]
    assert not llm.refuses_rules
    assert not llm.trouble


@pytest.mark.parametrize(
    ("status", "slip"),
    [
        (500, "error parsing tool call: raw='{'"),
        (500, "Failed to parse tool call arguments as JSON"),
        (400, "Failed to call a function. tool_use_failed"),
    ],
)
def test_a_slip_of_the_model_does_not_turn_the_rules_off(
    llm: RemoteLanguageModel, server: ScriptedServer, status: int, slip: str
) -> None:
    server.answers(refuses(status, slip), says("It is 391."))
    assert "".join(rounds(llm)) == "It is 391."
    assert not llm.refuses_rules


def test_the_text_before_a_call_is_a_sentence_of_its_own(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    server.answers(calls(SUM, content="Let me calculate that."), says("It is 391."))
    assert "".join(rounds(llm)) == "Let me calculate that. It is 391."


def test_a_name_that_is_sent_with_each_piece_is_one_name(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    pieces = [call('{"question": '), call('"1 + '), call('1"}')]
    server.answers([*(delta(tool_calls=[one]) for one in pieces), *calls()])
    reply = ask(llm, RULE_TOOLS)
    assert list(reply) == []
    assert [(one.name, one.arguments) for one in reply.tool_calls] == [
        ("calculate", '{"question": "1 + 1"}')
    ]


def test_calls_with_one_index_and_no_id_are_two(
    llm: RemoteLanguageModel, server: ScriptedServer
) -> None:
    made = [call('{"question": "1 + 1"}') | {"id": ""}, call('{"question": "2 + 2"}') | {"id": ""}]
    server.answers([*(delta(tool_calls=[one]) for one in made), *calls()])
    reply = ask(llm, RULE_TOOLS)
    assert list(reply) == []
    assert [json.loads(one.arguments)["question"] for one in reply.tool_calls] == ["1 + 1", "2 + 2"]


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
PARTS = [THINKING, {"type": "text", "text": "It is "}, {"type": "text", "text": "Rome."}]
WHOLE = {"choices": [{"message": {"content": PARTS}, "finish_reason": "stop"}]}
LINES = b"".join(says("It is ", "Rome."))
FORMS = {
    "parts": Answer([delta(content=PARTS[:2]), delta(content=PARTS[2:]), delta("stop"), DONE]),
    "whole parts": Answer([json.dumps(WHOLE).encode()], kind="application/json"),
    "plain text": Answer([LINES], kind="text/plain"),
    "bytes": Answer([b": hello\n\n", LINES], kind="application/octet-stream"),
    "said to be JSON": Answer([LINES], kind="application/json"),
    "JSON said to be a stream": Answer([json.dumps(WHOLE).encode()]),
    "byte order mark": Answer([b"\xef\xbb\xbf" + LINES]),
    "byte order mark of JSON": Answer(
        [b"\xef\xbb\xbf" + json.dumps(WHOLE).encode()], kind="application/json"
    ),
    "refusal": Answer([delta(refusal="It is "), delta(refusal="Rome."), delta("stop"), DONE]),
    "kept open": Answer([delta(content="It is Rome."), delta("stop")], hold=True),
}


@pytest.mark.parametrize("answer", FORMS.values(), ids=FORMS)
def test_answers_in_odd_forms(
    llm: RemoteLanguageModel, server: ScriptedServer, answer: Answer
) -> None:
    server.answers(answer)
    reply = ask(llm)
    assert "".join(reply) == "It is Rome."
    assert reply.complete
    assert not llm.trouble
