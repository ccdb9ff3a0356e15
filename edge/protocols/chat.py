"""`/ws/chat` as a state machine: one request, one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

from antiphon.edge.errors import Close, error_message, explain_end
from antiphon.edge.protocols.contract import Action, Finish, Forward, QueuePlace, Tell
from antiphon.edge.protocols.queue_messages import queue_message
from antiphon.shared_schemas.chat_messages import (
    ChatChunk,
    ChatDone,
    PrefillDone,
    PrefillProgress,
    UnstreamedChatDone,
)
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    InEntry,
    OutEntry,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import Error, QueueDone, ServerMessage


class ChatPhase(StrEnum):
    """Where a request stands; the words appear in error messages."""

    QUEUED = "queued"
    ANSWERING = "being answered"
    STOPPING = "being stopped"
    OVER = "over"


class ChatMachine:
    """One request, which is known from the start, or from the session that a client comes back to.

    The client hears of the queue only if it waits, or if it will need a token to come back.
    """

    def __init__(self, request: ChatIn | None, recording: str, *, resumable: bool = False) -> None:
        self.phase = ChatPhase.QUEUED
        self._held: list[InEntry] = [request] if request else []
        self._streaming = request is None or request.options.streaming
        self._recording = recording
        self._resumable = resumable
        self._told_of_queue = False
        self._told_of_prefill = False
        self._progress = 0.0

    @property
    def waiting(self) -> bool:
        """No worker has been granted yet."""
        return self.phase is ChatPhase.QUEUED

    @property
    def held(self) -> Sequence[InEntry]:
        """What goes to the worker with the grant."""
        return self._held

    def memory(self) -> dict[str, Any]:
        """Where the request stands, ready for JSON."""
        return {
            "phase": str(self.phase),
            "streaming": self._streaming,
            "told_of_queue": self._told_of_queue,
            "told_of_prefill": self._told_of_prefill,
            "progress": self._progress,
        }

    def recall(self, memory: Mapping[str, Any], held: Sequence[InEntry]) -> None:
        """Stand there again."""
        self.phase = ChatPhase(memory["phase"])
        self._held = list(held)
        self._streaming = memory["streaming"]
        self._told_of_queue = memory["told_of_queue"]
        self._told_of_prefill = memory["told_of_prefill"]
        self._progress = memory["progress"]

    def adopt(self, entry: InEntry) -> None:
        """Stand where this input, found in the stream, has led."""
        if isinstance(entry, StopIn):
            self.phase = ChatPhase.STOPPING

    def receive(self, command: StopIn) -> list[Action]:
        """The client wants no more of the answer. Raises InvalidInput when it said so before."""
        if self.phase is ChatPhase.QUEUED:
            empty = ChatDoneOut(
                text="", generated_tokens=0, input_tokens=0, duration_ms=0.0, stopped=True
            )
            return self._done(empty)
        if self.phase is not ChatPhase.ANSWERING:
            text = f"stop: not allowed while the request is {self.phase}"
            raise InvalidInput(text, field="type", code=ErrorCode.NOT_READY)
        self.phase = ChatPhase.STOPPING
        return [Forward(command)]

    def placed(self, place: QueuePlace) -> list[Action]:
        """The request waits there."""
        self._told_of_queue = True
        return [Tell(queue_message(place))]

    def granted(self) -> list[Action]:
        """A worker has it."""
        self.phase = ChatPhase.ANSWERING
        kept, self._held = self._held, []
        told = [Tell(QueueDone())] if self._told_of_queue or self._resumable else []
        return [*told, *(Forward(entry) for entry in kept)]

    def asked(self, ask: SessionCommand) -> list[Action]:
        """Someone beside the client asks for something."""
        wanted = ask is SessionCommand.INTERRUPT and self.phase is ChatPhase.ANSWERING
        return self.receive(StopIn()) if wanted else []

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:  # noqa: ARG002 - as all have
        """The worker answers."""
        match entry:
            case DeltaOut():
                return self._piece(entry)
            case ProgressOut(done=done):
                return self._progressed(done)
            case PrefillDoneOut(input_tokens=input_tokens):
                return self._prefilled(input_tokens)
            case ChatDoneOut():
                return self._done(entry)
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a chat")

    def ended(self, reason: EndReason | None) -> list[Action]:
        """The request ended without a last word of the worker; None: its record is lost."""
        self.phase = ChatPhase.OVER
        fault = explain_end(reason)
        told = [Tell(self._problem(fault.message))]
        return [*told, Finish(fault.close or Close.INTERNAL, reason or EndReason.ERROR)]

    def gone(self) -> EndReason:
        """The client left, and nobody waits for what it asked."""
        self._held = []
        stopping = self.phase is ChatPhase.STOPPING
        return EndReason.STOPPED if stopping else EndReason.CLIENT_GONE

    def _progressed(self, done: float) -> list[Action]:
        """Never backwards: a worker that takes the request over begins to read anew."""
        if self._told_of_prefill or done <= self._progress:
            return []
        self._progress = done
        return [Tell(PrefillProgress(done=done))]

    def _prefilled(self, input_tokens: int) -> list[Action]:
        """Told once: a worker that takes the request over reads it again, unseen."""
        if self._told_of_prefill:
            return []
        self._told_of_prefill = True
        return [Tell(PrefillDone(input_tokens=input_tokens))]

    def _piece(self, entry: DeltaOut) -> list[Action]:
        if not (entry.text_delta or entry.audio):
            return []
        return [
            Tell(ChatChunk(text_delta=entry.text_delta or None, audio_data=entry.audio or None))
        ]

    def _done(self, entry: ChatDoneOut) -> list[Action]:
        self.phase = ChatPhase.OVER
        return [Tell(self._answer(entry)), Finish(Close.NORMAL, EndReason.STOPPED)]

    def _answer(self, entry: ChatDoneOut) -> ServerMessage:
        whole = partial(UnstreamedChatDone, audio_data=entry.audio or None)
        kind: Callable[..., ChatDone] = ChatDone if self._streaming else whole
        return kind(
            text=entry.text,
            generated_tokens=entry.generated_tokens,
            input_tokens=entry.input_tokens,
            recording_session_id=self._recording,
            stopped=entry.stopped or None,
        )

    def _failed(self, entry: ErrorOut) -> list[Action]:
        self.phase = ChatPhase.OVER
        told = Tell(self._problem(error_message(entry.code, entry.message, field=entry.field)))
        if entry.code == ErrorCode.CONTEXT_FULL:
            return [told, Finish(Close.POLICY, EndReason.CONTEXT_FULL)]
        asked_wrong = entry.code == ErrorCode.INVALID_FIELD
        return [told, Finish(Close.POLICY if asked_wrong else Close.INTERNAL, EndReason.ERROR)]

    def _problem(self, error: Error) -> ServerMessage:
        return error
