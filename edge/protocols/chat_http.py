"""`POST /api/chat`: the same request and answer, told as one body."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pybase64

from antiphon.edge.errors import Fault
from antiphon.edge.protocols.chat import ChatMachine
from antiphon.edge.protocols.contract import Action, QueuePlace, Tell
from antiphon.shared_schemas.chat_messages import ChatProblem, ChatResponse, HttpBody, TokenStats
from antiphon.shared_schemas.entries import ChatDoneOut, ChatIn, DeltaOut
from antiphon.shared_schemas.wire import Error, ServerMessage


class ChatHttpMachine(ChatMachine):
    """Says nothing until the answer is complete, and then how long the request waited."""

    def __init__(
        self, request: ChatIn | None, recording: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(request, recording)
        self._clock = clock
        self._joined_at = clock()
        self._waited_s = 0.0
        self._estimate_s = 0.0

    def placed(self, place: QueuePlace) -> list[Action]:
        """The request waits there."""
        if place.first:
            self._estimate_s = place.eta_s
        return []

    def granted(self) -> list[Action]:
        """A worker has it."""
        self._waited_s = self._clock() - self._joined_at
        return [action for action in super().granted() if not isinstance(action, Tell)]

    def _prefilled(self, input_tokens: int) -> list[Action]:  # noqa: ARG002 - the body says it
        return []

    def _piece(self, entry: DeltaOut) -> list[Action]:  # noqa: ARG002 - nothing is streamed
        return []

    def _answer(self, entry: ChatDoneOut) -> ServerMessage:
        read, made = entry.input_tokens, entry.generated_tokens
        body = ChatResponse(
            text=entry.text,
            audio_data=pybase64.b64encode_as_string(entry.audio) if entry.audio else None,
            tokens_generated=made,
            duration_ms=entry.duration_ms,
            token_stats=TokenStats(
                input_tokens=read, generated_tokens=made, total_tokens=read + made
            ),
            recording_session_id=self._recording,
            queue_wait_ms=round(self._waited_s * 1000),
            estimated_queue_wait_s=round(self._estimate_s, 1),
        )
        return HttpBody(body=body)

    def _problem(self, error: Error) -> ServerMessage:
        return problem(error)


def http(fault: Fault) -> Sequence[ServerMessage]:
    """What to tell of a fault."""
    return [problem(fault.message)]


def problem(error: Error) -> HttpBody:
    """An error as a body."""
    body = ChatProblem(
        error=error.error,
        message=error.message,
        detail=error.message,
        code=error.code,
        field=error.field,
        retryable=error.retryable,
    )
    return HttpBody(body=body)
