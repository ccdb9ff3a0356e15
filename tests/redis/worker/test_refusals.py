"""Mistakes of clients on real streams: they are no errors of the engine, and nothing warns of them."""

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from structlog.testing import capture_logs

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    InputRefused,
    RefusalReason,
    UnsupportedContent,
)
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    ChatIn,
    ChunkIn,
    ErrorOut,
    HalfDuplexPrepareIn,
    InEntry,
    PrepareIn,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import UnitResult
from support.scripted_engine import ScriptedConversation, ScriptedView
from support.worker_harness import open_worker_session

CONTENT, BLOBS = flatten([ConversationMessage(Role.USER, (TextPart("hello"),))])
KINDS: dict[str, tuple[SessionKind, list[InEntry]]] = {
    "prepare": (SessionKind.AUDIO_DUPLEX, [PrepareIn(system_prompt="", config=DuplexConfig())]),
    "unit": (
        SessionKind.AUDIO_DUPLEX,
        [PrepareIn(system_prompt="", config=DuplexConfig()), ChunkIn(audio=bytes(4 * INPUT_RATE))],
    ),
    "turn": (
        SessionKind.HALF_DUPLEX,
        [HalfDuplexPrepareIn(content=CONTENT, blobs=BLOBS, config=HalfDuplexConfig(greeting="Hi"))],
    ),
    "chat": (SessionKind.CHAT, [ChatIn(content=CONTENT, blobs=BLOBS, options=ChatOptions())]),
}


async def served(
    broker: Broker, settings: BrokerSettings, kind: SessionKind, sent: list[InEntry], **options: Any
) -> tuple[ErrorOut, float, dict[RefusalReason, float], set[str]]:
    """The first error; then the errors of the engine, the refusals by reason, and the levels of the log."""
    with capture_logs() as logs:
        async with open_worker_session(broker, settings, kind, **options) as (worker, client):
            await client.send(*sent)
            _, error = await client.receive_until(ErrorOut)
            context = worker.context
            refused = {
                reason: value
                for reason in RefusalReason
                if (value := context.metrics.refused.labels(reason)._value.get())
            }
            errors = context.counters.engine_errors
    return error, errors, refused, {str(line["log_level"]) for line in logs}


def failing(error: Exception, monkeypatch: pytest.MonkeyPatch, step: str) -> dict[str, Any]:
    """Options of a worker whose engine raises an error at a step."""

    def prepare(*_: object) -> NoReturn:
        raise error

    def unit(_: int) -> UnitResult:
        raise error

    def answer(_: ScriptedConversation) -> Iterator[Delta]:
        raise error
        yield

    if step == "prepare":
        monkeypatch.setattr(ScriptedView, "prepare", prepare)
    return {"step": unit, "answer": answer, "greets": True}


@pytest.mark.parametrize(
    ("step", "refusal", "code"),
    [
        # Only a conversation has a full context: a prompt can be shortened, and the session continues.
        ("prepare", ContextFull("the prompt is too long"), ErrorCode.INVALID_FIELD),
        ("unit", UnsupportedContent("no eyes", "content.0"), ErrorCode.INVALID_FIELD),
        ("turn", InputRefused("the voice is too short"), ErrorCode.INVALID_FIELD),
        ("chat", ContextFull("the history is too long"), ErrorCode.CONTEXT_FULL),
    ],
)
async def test_a_refusal_is_no_error_of_the_engine(
    broker: Broker,
    settings: BrokerSettings,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    refusal: InputRefused,
    code: ErrorCode,
) -> None:
    options = failing(refusal, monkeypatch, step)
    error, errors, refused, levels = await served(broker, settings, *KINDS[step], **options)
    assert (error.code, error.message) == (code, str(refusal))
    assert errors == 0
    assert refused == {refusal.reason: 1}
    assert levels <= {"debug", "info"}


async def test_an_error_of_the_engine_is_no_refusal(
    broker: Broker, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = failing(EngineError("no memory left"), monkeypatch, "prepare")
    error, errors, refused, levels = await served(broker, settings, *KINDS["prepare"], **options)
    assert error.code == ErrorCode.INFERENCE_ERROR
    assert errors == 1
    assert not refused
    assert "warning" in levels
