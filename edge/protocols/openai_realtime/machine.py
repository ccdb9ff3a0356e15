"""One session of OpenAI's Realtime API as its client sees it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import orjson

from antiphon.edge.errors import Close, Fault
from antiphon.edge.protocols.machine import (
    Action,
    Actions,
    Deadline,
    Finish,
    Forward,
    Phase,
    QueuePlace,
    Send,
    SessionMachine,
)
from antiphon.edge.protocols.openai_realtime.decoder import (
    AddItem,
    AppendSound,
    Ask,
    RealtimeCommand,
    Update,
)
from antiphon.edge.protocols.openai_realtime.events import (
    RealtimeEvent,
    encode_fault,
    error_event,
    error_kind,
    error_name,
    event,
)
from antiphon.edge.protocols.openai_realtime.input import CHUNK_BYTES, HeldInput
from antiphon.edge.protocols.openai_realtime.items import MAX_ITEMS, ItemLedger
from antiphon.edge.protocols.openai_realtime.responses import RealtimeResponse
from antiphon.edge.protocols.openai_realtime.settings import RealtimeState
from antiphon.edge.protocols.sound_stream import SoundRefusals
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat
from antiphon.shared_schemas.content import flatten
from antiphon.shared_schemas.entries import (
    CancelIn,
    ChunkIn,
    ClearIn,
    CommitIn,
    DeleteItemIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    InEntry,
    ItemIn,
    ItemOut,
    OutEntry,
    RefusedOut,
    RespondIn,
    SettingsIn,
    StoppedOut,
    TimeoutOut,
    TranscriptOut,
    TruncateItemIn,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.entries.turns import new_response_id
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.openai_realtime import (
    CancelResponse,
    ClearAudio,
    CommitAudio,
    DeleteItem,
    RetrieveItem,
    TruncateItem,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ServerMessage

_NOT_HERE = "type: output_audio_buffer.clear is for calls by WebRTC; stop the playback yourself"
MAX_BYTES = 16 * 1024 * 1024
MAX_RESPONSES = 32
"""Answers that have not ended."""


class OpenAiRealtimeMachine(SessionMachine[RealtimeCommand]):
    """Everything is possible in the queue too: the client does not learn that it waits.

    `began_at`: when the session was queued, on the clock of the event loop; `limit_s`: its longest duration.
    """

    LEGAL: ClassVar = {}
    LEADS_TO: ClassVar = {}
    WIRE_NAMES: ClassVar = {}
    PHASE_TEXT: ClassVar = {phase: str(phase) for phase in Phase}

    def __init__(self, state: RealtimeState, began_at: float, limit_s: float) -> None:
        super().__init__()
        self._state = state
        self._limit_s = limit_s
        self._ends_at = began_at + limit_s
        self._waiting = HeldInput()
        self._greeted = False
        self._ledger = ItemLedger()
        self._responses: dict[str, RealtimeResponse] = {}
        self._current: RealtimeResponse | None = None
        self._settings_due = True
        self._refusals = SoundRefusals()
        self._before: list[Action] = []
        """Of a command that was refused: its report follows them."""

    def deadlines(self) -> Iterable[Deadline]:
        """The greeting does not wait for anything."""
        yield Deadline(asyncio.get_running_loop().time(), self._greet)
        yield Deadline(self._ends_at, self._expire)

    def receive(self, command: RealtimeCommand) -> Actions:
        """Raises InvalidInput."""
        greeting = self._greet()
        if isinstance(command, AppendSound):
            pcm = self._state.sound.take()
            self._refusals.accept(len(pcm) / (2 * INPUT_RATE))
            return [*greeting, *self._put_sound(pcm)]
        before = [*greeting, *self._put_sound(self._state.sound.take(0.0))]
        try:
            return [*before, *self._handle(command)]
        except InvalidInput:
            self._before = [*before, *self._before]
            raise

    def refused(self, entry: InEntry) -> None:  # noqa: ARG002
        """Only sound is refused. The report of it does not name the command that came after it."""
        if not self._state.is_sound:
            self._state.begin_event()

    def placed(self, place: QueuePlace) -> Actions:  # noqa: ARG002
        """The protocol has no queue."""
        return self._greet()

    def worker_replaced(self, ticket_id: str) -> Actions:  # noqa: ARG002
        self.recovering = False
        return []

    def granted(self) -> Actions:
        self.phase = Phase.ACTIVE
        held, self._waiting.entries = self._waiting.entries, []
        return [*self._greet(), *(Forward(entry) for entry in held)]

    def deliver(self, entry: OutEntry, now_ms: float) -> Actions:  # noqa: ARG002
        match entry:
            case TimeoutOut(reason=reason):
                return self._close_expired(f"Your session has ended: {reason}.")
            case StoppedOut():
                self.phase = Phase.OVER
                return [Finish(Close.NORMAL, EndReason.STOPPED)]
            case ErrorOut(fatal=True):
                self.phase = Phase.OVER
                kind, code = error_kind(entry.code), error_name(entry.code)
                failed = error_event(entry.message, code, entry.field, kind=kind)
                return [Send(failed), Finish(Close.INTERNAL, EndReason.ERROR)]
        return _sends(self._events_of(entry))

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        if fault.close is not None:
            return encode_fault(fault)
        code, self._state.code = self._state.code, None
        return encode_fault(fault, code, self._state.event_id)

    def report(self, fault: Fault) -> Actions:
        before, self._before = self._before, []
        if self._state.is_sound and not self._refusals.is_new(fault):
            return [*self._greet(), *before]
        return [*self._greet(), *before, *super().report(fault)]

    def ended(self, reason: EndReason | None) -> Actions:
        return [*self._greet(), *super().ended(reason)]

    def _greet(self) -> list[Action]:
        if self._greeted:
            return []
        self._greeted = True
        return [Send(event("session.created", session=self._state.session))]

    def _expire(self) -> list[Action]:
        minutes = self._limit_s / 60
        return self._close_expired(
            f"Your session hit the maximum duration of {minutes:g} minutes. Open a new one."
        )

    def _close_expired(self, text: str) -> list[Action]:
        self.phase = Phase.OVER
        return [
            *self._greet(),
            Send(error_event(text, "session_expired")),
            Finish(Close.NORMAL, EndReason.PAUSE_TIMEOUT),
        ]

    def _put(self, entry: InEntry) -> list[Action]:
        """Forward it, or keep it until there is a worker, behind new settings. Raises InvalidInput."""
        state, entries = self._state, [entry]
        if self._settings_due:
            entries = [SettingsIn(config=state.config(), ref_audio=state.ref_audio), entry]
        if self.waiting:
            self._waiting.add(*entries)
        self._settings_due = False
        return [] if self.waiting else [Forward(each) for each in entries]

    def _put_sound(self, pcm: bytes) -> list[Action]:
        actions: list[Action] = []
        for start in range(0, len(pcm), CHUNK_BYTES):
            chunk = pcm[start : start + CHUNK_BYTES]
            actions += self._put(ChunkIn(audio=chunk, pcm=PcmFormat.S16))
        return actions

    def _handle(self, command: RealtimeCommand) -> Actions:
        match command:
            case Update():
                return self._update(command)
            case AddItem():
                return self._add(command)
            case Ask():
                return self._ask(command)
            case CommitAudio():
                return self._put(CommitIn(event_id=command.event_id))
            case ClearAudio():
                return [*self._put(ClearIn()), Send(event("input_audio_buffer.cleared"))]
            case DeleteItem():
                return self._delete(command)
            case RetrieveItem():
                item = self._find(command.item_id, "retrieve")
                return [Send(event("conversation.item.retrieved", item=item))]
            case TruncateItem():
                return self._truncate(command)
            case CancelResponse():
                return self._cancel(command)
        raise InvalidInput(_NOT_HERE, field="type")  # ClearOutput; a call handles it

    def _update(self, command: Update) -> list[Action]:
        state = self._state
        state.session, state.voice, state.ref_audio = (
            command.session,
            command.voice,
            command.ref_audio,
        )
        self._settings_due = True
        return [Send(event("session.updated", session=state.session))]

    def _add(self, command: AddItem) -> list[Action]:
        item, ledger = command.shown, self._ledger
        if item["id"] in ledger:
            text = f"Error adding item: an item with the id '{item['id']}' already exists."
            raise self._state.refusal("item_create_duplicate_item_id", text, "item.id")
        if len(ledger) >= MAX_ITEMS:
            text = f"a conversation has at most {MAX_ITEMS} items; delete some"
            raise InvalidInput(text, field="item")
        after = ledger.last if command.after is None else command.after
        if after == "root":
            after = None
        elif after is not None and after not in ledger:
            text = f"Error adding item: the previous item with id '{after}' does not exist."
            code = "item_create_invalid_previous_item_id"
            raise self._state.refusal(code, text, "previous_item_id")
        content, blobs = flatten([command.message])
        size = sum(map(len, blobs)) + len(orjson.dumps(item))
        if ledger.size + size > MAX_BYTES:
            text = f"the items of a client have at most {MAX_BYTES >> 20} MiB; delete some"
            raise InvalidInput(text, field="item")
        put = self._put(ItemIn(item_id=item["id"], after=after, content=content, blobs=blobs))
        ledger.add(item, after, size)
        return [*put, *_sends(_added(item, after))]

    def _delete(self, command: DeleteItem) -> list[Action]:
        self._find(command.item_id, "delete")
        put = self._put(DeleteItemIn(item_id=command.item_id))
        self._ledger.remove(command.item_id)
        return [*put, Send(event("conversation.item.deleted", item_id=command.item_id))]

    def _truncate(self, command: TruncateItem) -> list[Action]:
        """Never an error: a client's clock may be ahead of the end, and its item may be gone."""
        item_id, at_ms = command.item_id, command.audio_end_ms
        put: list[Action] = []
        if item_id in self._ledger:
            put = self._put(TruncateItemIn(item_id=item_id, audio_ms=at_ms))
            self._ledger.truncate(item_id, at_ms)
        shown = {"item_id": item_id, "content_index": command.content_index, "audio_end_ms": at_ms}
        return [*put, Send(event("conversation.item.truncated", **shown))]

    def _find(self, item_id: str, verb: str) -> dict[str, Any]:
        item = self._ledger.get(item_id)
        if item is None:
            text = f"Error: the item with id '{item_id}' does not exist."
            raise self._state.refusal(f"item_{verb}_invalid_item_id", text, "item_id")
        return item

    def _ask(self, command: Ask) -> list[Action]:
        """The client learns at once that its answer will come, unless the worker may refuse it."""
        state, response = self._state, self._new_response(new_response_id(), command.shown)
        active = next((each for each in self._responses.values() if each.is_active), None)
        if response.in_conversation and active is not None:
            text = f"Conversation already has an active response in progress: {active.id}."
            raise state.refusal("conversation_already_has_active_response", text)
        if len(self._responses) >= MAX_RESPONSES:
            text = f"at most {MAX_RESPONSES} responses wait or are in progress; wait for one to end"
            raise InvalidInput(text, field="type", code=ErrorCode.INPUT_BACKPRESSURE)
        for number, ref in enumerate(command.refs or ()):
            if ref is not None:
                self._check_reference(ref, f"response.input.{number}.id")
        content, blobs = flatten(command.messages)
        put = self._put(
            RespondIn(
                response_id=response.id,
                config=command.config,
                ref_audio=command.ref_audio,
                in_conversation=response.in_conversation,
                refs=command.refs,
                content=content,
                blobs=blobs,
                event_id=state.event_id,
            )
        )
        self._responses[response.id] = response
        is_sure = self.waiting or not response.in_conversation
        return [*put, *(_sends(response.announce()) if is_sure else ())]

    def _check_reference(self, item_id: str, field: str) -> None:
        """Raises InvalidInput."""
        if item_id not in self._ledger:
            text = f"{field}: the item with id '{item_id}' does not exist"
            raise InvalidInput(text, field=field)

    def _cancel(self, command: CancelResponse) -> list[Action]:
        """Without an id, that of the conversation."""
        wanted = command.response_id
        asked = [
            each
            for each in self._responses.values()
            if wanted == each.id or (not wanted and each.in_conversation)
        ]
        found = next((each for each in asked if not each.cancelled), None)
        if found is None and asked:
            return []  # its end is under way
        if found is None:
            text = "Cancellation failed: no active response found"
            raise self._state.refusal("response_cancel_not_active", text)
        found.cancelled = True
        if not self.waiting:
            return [Forward(CancelIn(response_id=found.id))]
        self._waiting.remove(
            lambda entry: isinstance(entry, RespondIn) and entry.response_id == found.id
        )
        done = TurnDoneOut(
            input_n=0, turn_index=0, text="", stopped=True, reason="client_cancelled"
        )
        del self._responses[found.id]
        return _sends(found.done(done))

    def _events_of(self, entry: OutEntry) -> Iterator[RealtimeEvent]:
        """What an entry of the worker means to the client."""
        match entry:
            case VadOut(speaking=True):
                at_ms = entry.at_ms + self._waiting.dropped_ms
                about = {"audio_start_ms": at_ms, "item_id": entry.item_id}
                yield event("input_audio_buffer.speech_started", **about)
            case ItemOut():
                yield from self._user_item(entry)
            case TranscriptOut():
                yield from self._transcribed(entry)
            case RefusedOut():
                self._responses.pop(entry.response_id or "", None)
                yield error_event(entry.message, entry.code, None, entry.event_id)
            case GeneratingOut():
                self._current = self._response(entry.response_id)
                yield from self._current.announce(entry)
            case DeltaOut() if self._current is not None:
                yield from self._said(self._current, entry)
            case ErrorOut() if self._current is not None:
                self._current.error = entry
            case TurnDoneOut():
                yield from self._done(entry)

    def _response(self, response_id: str) -> RealtimeResponse:
        """One that the worker began by itself has the session's settings."""
        if response_id not in self._responses:
            self._responses[response_id] = self._new_response(response_id, self._state.session)
        return self._responses[response_id]

    def _new_response(self, response_id: str, shown: Mapping[str, Any]) -> RealtimeResponse:
        return RealtimeResponse(response_id, shown, self._state.output_format(shown))

    def _user_item(self, entry: ItemOut) -> Iterator[RealtimeEvent]:
        item = {
            "id": entry.item_id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        if entry.stopped_ms is not None:
            at_ms = entry.stopped_ms + self._waiting.dropped_ms
            about = {"audio_end_ms": at_ms, "item_id": entry.item_id}
            yield event("input_audio_buffer.speech_stopped", **about)
        previous = self._ledger.append(item)
        about = {"item_id": entry.item_id, "previous_item_id": previous}
        yield event("input_audio_buffer.committed", **about)
        yield from _added(item, previous)
        if entry.response_id:
            self._response(entry.response_id)

    def _transcribed(self, entry: TranscriptOut) -> Iterator[RealtimeEvent]:
        """The item has it even if the client did not ask for it."""
        item = self._ledger.get(entry.item_id)
        if item is not None:
            item["content"][0]["transcript"] = entry.text
        if self._state.session["audio"]["input"]["transcription"] is None:
            return
        name = "conversation.item.input_audio_transcription"
        about: dict[str, Any] = {"item_id": entry.item_id, "content_index": 0}
        if entry.text is None:
            error = {
                "type": "transcription_error",
                "code": "transcription_unavailable",
                "message": entry.problem,
                "param": None,
            }
            yield event(f"{name}.failed", **about, error=error)
            return
        if entry.text:
            yield event(f"{name}.delta", **about, delta=entry.text)
        usage = {"type": "duration", "seconds": entry.seconds}
        yield event(f"{name}.completed", **about, transcript=entry.text, usage=usage)

    def _said(self, response: RealtimeResponse, entry: DeltaOut) -> Iterator[RealtimeEvent]:
        begins = response.message is None
        yield from response.delta(entry, self._ledger.last)
        if begins and response.message is not None and response.in_conversation:
            self._ledger.append(response.message)
        if response.message is not None:
            self._ledger.set_length(response.message["id"], response.audio_ms)

    def _done(self, entry: TurnDoneOut) -> Iterator[RealtimeEvent]:
        response = self._response(entry.response_id)
        del self._responses[entry.response_id]
        self._current = None
        yield from response.announce()
        yield from response.end_message(entry)
        if response.message is not None:
            self._ledger.finish(response.message["id"])
        for item in response.items(entry):
            yield from response.call(item, self._ledger.last)
            if response.in_conversation:
                self._ledger.append(item)
        yield from response.done(entry)


def _added(item: dict[str, Any], previous: str | None) -> Iterator[RealtimeEvent]:
    yield event("conversation.item.added", item=item, previous_item_id=previous)
    yield event("conversation.item.done", item=item, previous_item_id=previous)


def _sends(events: Iterable[RealtimeEvent]) -> list[Action]:
    return [Send(message) for message in events]
