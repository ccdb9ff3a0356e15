"""The responses of `POST /api/chat`."""

import orjson
import pytest
from msgspec.structs import replace

from antiphon.edge.errors import SlowConsumer, TooManyConnections, explain
from antiphon.edge.protocols.chat import explain_failure
from antiphon.edge.routes.chat import chat_response, problem_response
from antiphon.edge.session.chat import ChatAnswer
from antiphon.shared_schemas.entries import ChatDoneOut, ErrorOut
from support.tools import calls_weather

DONE = ChatDoneOut(
    text="Hi.", audio=b"\0\0\0\0", generated_tokens=2, input_tokens=9, duration_ms=12.5
)


def test_an_answer() -> None:
    answer = ChatAnswer(DONE, recording="rec", waited_s=1.5, estimate_s=4.5)
    assert orjson.loads(chat_response(answer).body) == {
        "text": "Hi.",
        "audio_path": None,
        "audio_data": "AAAAAA==",
        "audio_sample_rate": 24_000,
        "tokens_generated": 2,
        "duration_ms": 12.5,
        "prompt": None,
        "token_stats": {
            "cached_tokens": 0,
            "input_tokens": 9,
            "generated_tokens": 2,
            "total_tokens": 11,
        },
        "recording_session_id": "rec",
        "error": None,
        "success": True,
        "queue_wait_ms": 1500,
        "estimated_queue_wait_s": 4.5,
    }


def test_calls_of_tools() -> None:
    calls = [call.wire() for call in calls_weather("Rome").tool_calls]
    done = replace(DONE, text="", audio=b"", tool_calls=calls)
    body = orjson.loads(chat_response(ChatAnswer(done, "rec", 0.0, None)).body)
    assert (body["tool_calls"], body["audio_data"]) == (calls, None)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (SlowConsumer(), 503, "internal"),
        (TooManyConnections("wait"), 429, "rate_limited"),
    ],
)
def test_what_may_succeed_later(error: Exception, status: int, code: str) -> None:
    response = problem_response(explain(error))
    assert (response.status_code, response.headers["retry-after"]) == (status, "1")
    body = orjson.loads(response.body)
    assert (body["code"], body["retryable"]) == (code, True)


def test_a_problem_has_the_usual_fields() -> None:
    field = "messages.0.content.1"
    refused = ErrorOut(code="invalid_field", message="bad", field=field, fatal=True)
    response = problem_response(explain_failure(refused)[0])
    assert (response.status_code, "retry-after" in response.headers) == (422, False)
    assert orjson.loads(response.body) == {
        "success": False,
        "text": "",
        "error": "bad",
        "message": "bad",
        "detail": "bad",
        "code": "invalid_field",
        "field": field,
        "retryable": False,
    }
