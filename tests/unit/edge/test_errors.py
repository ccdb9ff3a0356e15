"""Exceptions and ends, as messages to clients."""

import pytest

from antiphon.broker.errors import (
    BrokerUnavailable,
    QueueFull,
    SessionExists,
    StaleFence,
    StoreFull,
)
from antiphon.edge.errors import Close, Draining, NotJson, explain, explain_end, worker_error
from antiphon.shared_schemas.entries import ErrorOut
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import EndReason

CASES = [
    (InvalidInput("audio: bad", field="audio"), "invalid_field", None, None),
    (
        InvalidInput("bad id", field="session_id", code=ErrorCode.INVALID_SESSION_ID),
        "invalid_session_id",
        Close.POLICY,
        None,
    ),
    (NotJson("no"), "invalid_json", Close.UNSUPPORTED, False),
    (SessionExists("adx_1"), "session_exists", Close.POLICY, None),
    (QueueFull(9), "queue_full", Close.TRY_LATER, True),
    (StoreFull(0.9), "store_full", Close.TRY_LATER, True),
    (Draining(), "server_shutdown", Close.TRY_LATER, True),
    (BrokerUnavailable("down"), "broker_unavailable", Close.TRY_LATER, True),
    (StaleFence("newer"), "session_exists", Close.POLICY, False),
    (ZeroDivisionError("secret"), "internal", Close.INTERNAL, True),
]


@pytest.mark.parametrize(("error", "code", "close", "retryable"), CASES)
def test_every_exception_has_a_message_and_a_close_code(
    error: Exception, code: str, close: Close | None, retryable: bool | None
) -> None:
    fault = explain(error)
    assert fault.message.code == code
    assert fault.message.error == fault.message.message
    assert "secret" not in fault.message.message
    assert fault.message.retryable is retryable
    assert fault.close is close
    assert fault.expected is (code != "internal")


@pytest.mark.parametrize("reason", [*EndReason, None])
def test_every_end_has_a_message_and_a_close_code(reason: EndReason | None) -> None:
    fault = explain_end(reason)
    assert fault.close is not None
    assert fault.message.retryable is not None


@pytest.mark.parametrize(
    ("code", "fatal", "retryable"),
    [
        (ErrorCode.INFERENCE_ERROR, True, True),
        (ErrorCode.BROKER_UNAVAILABLE, True, True),
        (ErrorCode.CONTEXT_FULL, True, False),
        (ErrorCode.INVALID_FIELD, True, False),
        (ErrorCode.NOT_READY, True, False),
        (ErrorCode.INFERENCE_ERROR, False, None),
    ],
)
def test_an_error_of_a_worker_that_ends_the_session_says_whether_to_try_again(
    code: ErrorCode, fatal: bool, retryable: bool | None
) -> None:
    message = worker_error(ErrorOut(code=code, message="bad", fatal=fatal))
    assert message.retryable is retryable
