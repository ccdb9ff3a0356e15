"""`recording.json` of a half-duplex or chat session: what was asked and answered in every turn."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime

from antiphon.shared_schemas.recording_parts import EventRecord, Gap, Record
from antiphon.shared_schemas.states import SessionKind


class PartRecord(Record):
    """A part of a message: `text`, or the `file` it was put into."""

    type: Literal["text", "audio", "image", "video"]
    text: str | None = None
    file: str | None = None
    duration_ms: int | None = None
    stack_frames: int | None = None
    unreadable: str | None = None


class MessageRecord(Record):
    """One message of a chat's history."""

    role: str
    parts: list[PartRecord]


class TurnInput(Record):
    """What a turn answers: one utterance, or a chat request.

    `text`: the last user message; of an utterance, the engine's transcript if it makes one. `audio`
    is the first sound, `audios` lists all where there are several; `images`, `videos`: all that the
    user's messages hold, in order; `audio_duration_ms` of the sound together. `messages`: a chat's
    whole history.
    """

    text: str | None = None
    audio: str | None = None
    audios: list[str] | None = None
    audio_duration_ms: int | None = None
    speech_ms: int | None = None
    images: list[str] | None = None
    videos: list[str] | None = None
    unreadable: str | None = None
    messages: list[MessageRecord] | None = None


class TurnOutput(Record):
    """An answer. `audio` is all the sound that was sent, joined.

    `streamed_text`: the words as they were sent, where they differ from `text`: a worker that could
    not go on with another's answer began anew.
    """

    text: str
    streamed_text: str | None = None
    audio: str | None = None
    audio_duration_ms: int | None = None
    unreadable: str | None = None


class TurnTiming(Record):
    """What a turn cost; `elapsed_ms` is the worker's figure.

    `prefill_ms`, `first_delta_ms`: from the request to its having been read, to the first piece.
    """

    elapsed_ms: float | None = None
    prefill_ms: float | None = None
    first_delta_ms: float | None = None
    tokens: int | None = None
    input_tokens: int | None = None
    kv_cache_length: int | None = None


class TurnRecord(Record):
    """One request and its answer.

    `stopped`: broken off by the client; `failed`: the engine could not answer; `unfinished`: the
    session ended before the answer did.
    """

    index: int
    request_ts_ms: float
    done_ts_ms: float | None = None
    input: TurnInput
    output: TurnOutput
    timing: TurnTiming
    stopped: bool | None = None
    failed: bool | None = None
    unfinished: bool | None = None


class TurnRecording(Record):
    """`recording.json` of a half-duplex or chat session; VAD and errors are among the events.

    `merged_replay`: the replay's file, once there is one. Its first `merged_replay_lead_ms` lie
    before `start_ts`: a chat's user has spoken before the request comes.
    """

    session_id: str
    recording_id: str
    mode: Literal["half_duplex", "chat"]
    app_type: SessionKind
    worker_id: str
    start_ts: AwareDatetime
    config: dict[str, Any]
    turns: list[TurnRecord]
    events: list[EventRecord]
    missing: list[Gap] | None = None
    merged_replay: str | None = None
    merged_replay_lead_ms: float | None = None
