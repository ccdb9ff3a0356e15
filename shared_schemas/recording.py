"""The files of a recording: their names, `meta.json` and `recording.json`.

Times named `*_ts_ms` are milliseconds since `start_ts`, from the Redis clock. File names are relative
to the session directory. Fields that do not apply are left out of `recording.json`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, Literal

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from antiphon.shared_schemas.states import EndReason, SessionKind
from antiphon.shared_schemas.unit_result import TimedText, TokenUsage

META_FILE = "meta.json"
RECORDING_FILE = "recording.json"
REPLAY_WAV = "merged_replay.wav"
REPLAY_OPUS = "merged_replay.opus"
REPLAY_VIDEO = "merged_replay.mp4"
PEAKS_FILE = "peaks.json"
TIMELINE_FILE = "timeline.jsonl"
"""The recorder's journal; it exists only while a session is being recorded or merged."""

USED_FILE = ".last_used"
"""Readers of a recording touch this file: its mtime is the time of last use."""

SESSION_FOLDERS = ("user_audio", "user_frames", "ai_audio", "user_images")


class Record(BaseModel):
    """Base of everything in a recording's JSON; fields of a later version are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class EntryRange(Record):
    """Stream entries `first` to `last` (inclusive, counted from 1).

    `first_chunk`, `last_chunk`: the duplex chunks among them, by index.
    """

    stream: Literal["in", "out"]
    first: int
    last: int
    first_chunk: int | None = None
    last_chunk: int | None = None


class Gap(EntryRange):
    """Entries that were lost and could not be recorded. `why` is the known cause."""

    why: str = ""


class DiskOutage(Record):
    """An outage of the disk. `late`: entries that were written late, after `resumed_at`."""

    at: AwareDatetime
    error: str
    resumed_at: AwareDatetime | None = None
    late: list[EntryRange] = Field(default_factory=list)


class EventRecord(Record):
    """Any other entry; `type` is the stream entry's (prepare, paused, error …)."""

    ts_ms: float
    type: str
    input_n: int | None = None
    chunk: int | None = None
    speaking: bool | None = None
    timeout_s: float | None = None
    elapsed_s: float | None = None
    played_ms: float | None = None
    prompt_length: int | None = None
    usage: TokenUsage | None = None
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    field: str | None = None
    fatal: bool | None = None


class RecordingState(StrEnum):
    """`interrupted`: a part of the session, or its end, could not be recorded (`Meta.missing`)."""

    RECORDING = "recording"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class ReplayState(StrEnum):
    """State of the merged replay. `none`: there is no audio; `failed`: see `Meta.replay_error`."""

    MERGING = "merging"
    READY = "ready"
    NONE = "none"
    FAILED = "failed"


class Meta(Record):
    """`meta.json`. `reason` is why the session ended, None if unknown.

    `chunks` counts the chunks of a duplex session, `turns` the turns of other kinds. `replay` is None
    while the session is recorded; `merged_replay`, `merged_replay_video` and `merged_replay_opus` are
    file names.
    `first_words`: of the user, or of the model if there is no transcript of the user.
    `missing` and `degraded` list what was lost, what was late, and why.
    """

    session_id: str
    recording_id: str
    ticket: int
    app_type: SessionKind
    state: RecordingState
    reason: EndReason | None = None
    created_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    duration_s: float | None = None
    worker_id: str = ""
    chunks: int | None = None
    turns: int | None = None
    first_words: str = ""
    config: dict[str, Any]
    missing: list[Gap] = Field(default_factory=list)
    degraded: list[DiskOutage] = Field(default_factory=list)
    replay: ReplayState | None = None
    replay_error: str | None = None
    merged_replay: str | None = None
    merged_replay_video: str | None = None
    merged_replay_opus: str | None = None

    @property
    def is_busy(self) -> bool:
        """True while a recorder writes in the directory."""
        return self.state is RecordingState.RECORDING or self.replay is ReplayState.MERGING


class UnitTiming(Record):
    """Durations of one unit. `all_ms` is the engine's share, `wall_clock_ms` the worker's.

    `edge_to_worker_ms`: from the edge's timestamp of the chunk until the worker reads it.
    """

    prefill_ms: float
    llm_ms: float
    tts_prep_ms: float
    tts_ms: float
    token2wav_ms: float
    all_ms: float
    wall_clock_ms: float
    edge_to_worker_ms: float
    n_tokens: int
    n_tts_tokens: int
    kv_cache_length: int
    vision_slices: int
    vision_tokens: int


class UnitRecord(Record):
    """One result. `user_text` is the engine's transcript of the user, if it makes one.

    `words`: the words of `text`, each with the millisecond of `ai_audio` at which it begins, if known.
    """

    mode: Literal["LISTEN", "SPEAK"]
    publish_ts_ms: float
    epoch: int
    timing: UnitTiming
    text: str | None = None
    words: list[TimedText] | None = None
    user_text: str | None = None
    ai_audio: str | None = None
    ai_audio_duration_ms: int | None = None
    end_of_turn: bool | None = None
    simulated: bool | None = None
    unreadable: str | None = None
    usage: TokenUsage | None = None


class ChunkRecord(Record):
    """One chunk of user audio. `input_n` is its number in the input stream.

    `user_frame` is the first frame, `user_frames` lists all if there are several. `skipped`: the
    worker dropped it under backpressure. `repeated_results`: further results the client received
    for the same chunk, after a change of workers, in order.
    """

    index: int
    input_n: int
    receive_ts_ms: float
    user_audio: str | None = None
    user_audio_duration_ms: int | None = None
    user_frame: str | None = None
    user_frames: list[str] | None = None
    force_listen: bool | None = None
    skipped: bool | None = None
    unreadable: str | None = None
    result: UnitRecord | None = None
    repeated_results: list[UnitRecord] | None = None


class DiagnosticRecord(Record):
    """Metrics that the client measured."""

    ts_ms: float
    metrics: dict[str, Any]


class DuplexRecording(Record):
    """`recording.json` of a duplex session. `orphan_results`: results whose chunk is missing.

    `events_left_out`, `diagnostics_left_out` count those above the limits.
    `merged_replay`, `merged_replay_video`: file names, once the files exist.
    """

    session_id: str
    recording_id: str
    mode: Literal["duplex"]
    app_type: SessionKind
    worker_id: str
    start_ts: AwareDatetime
    config: dict[str, Any]
    chunks: list[ChunkRecord]
    events: list[EventRecord]
    events_left_out: int | None = None
    diagnostics: list[DiagnosticRecord]
    diagnostics_left_out: int | None = None
    orphan_results: list[UnitRecord] | None = None
    missing: list[Gap] | None = None
    merged_replay: str | None = None
    merged_replay_video: str | None = None


class PartRecord(Record):
    """A part of a message: its `text`, or the `file` it is stored in."""

    type: Literal["text", "audio", "image", "video"]
    text: str | None = None
    file: str | None = None
    duration_ms: int | None = None
    stack_frames: int | None = None
    unreadable: str | None = None


class MessageRecord(Record):
    """One message of a chat's history. Calls of tools have the form of OpenAI's API."""

    role: str
    parts: list[PartRecord]
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class TurnInput(Record):
    """The input of a turn: one utterance, or a chat request.

    `text`: the last user message, or the engine's transcript of an utterance. `audio` is the first
    audio, `audios` lists all if there are several. `images`, `videos`: those of the user's messages, in
    order. `audio_duration_ms`: of all audio. `messages`: the whole history of a chat.
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
    """An answer. `audio` is all audio that was sent, joined.

    `streamed_text`: the text as it was sent, if it differs from `text` because a second worker
    had to start the answer again.
    """

    text: str
    streamed_text: str | None = None
    audio: str | None = None
    audio_duration_ms: int | None = None
    unreadable: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class TurnTiming(Record):
    """Durations of a turn; `elapsed_ms` is measured by the worker.

    `prefill_ms`, `first_delta_ms`: from the request until it was processed, until the first delta.
    """

    elapsed_ms: float | None = None
    prefill_ms: float | None = None
    first_delta_ms: float | None = None
    tokens: int | None = None
    input_tokens: int | None = None
    kv_cache_length: int | None = None


class TurnRecord(Record):
    """One request and its answer.

    `stopped`: interrupted by the client; `failed`: the engine could not answer; `unfinished`: the
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
    usage: TokenUsage | None = None


class TurnRecording(Record):
    """`recording.json` of a half-duplex or chat session; VAD and errors are among the events.

    `merged_replay`: a file name, once the file exists. Its first `merged_replay_lead_ms` are
    before `start_ts`: the user of a chat has spoken before the request arrives.
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
    events_left_out: int | None = None
    missing: list[Gap] | None = None
    merged_replay: str | None = None
    merged_replay_lead_ms: float | None = None


_RECORDING: TypeAdapter[DuplexRecording | TurnRecording] = TypeAdapter(
    Annotated[DuplexRecording | TurnRecording, Field(discriminator="mode")]
)


_END_BYTES = 4096
_NAMED = b',\n  "merged_replay'
"""Begins the last fields: no string in JSON contains a line break."""
_CLOSE = b"\n}"


def encode_meta(meta: Meta) -> bytes:
    """The text of `meta.json`."""
    return orjson.dumps(meta.model_dump(mode="json"), option=orjson.OPT_INDENT_2)


def parse_meta(text: bytes) -> Meta:
    """Inverse of `encode_meta`. Raises ValueError."""
    return Meta.model_validate_json(text)


def recording_blocks(recording: DuplexRecording | TurnRecording) -> Iterator[bytes]:
    """The text of `recording.json`, one item of a list after the other."""
    comma = b""
    yield b"{"
    for name in type(recording).model_fields:
        value = getattr(recording, name)
        if value is None:
            continue
        yield comma + f'\n  "{name}": '.encode()
        comma = b","
        if isinstance(value, list) and value:
            yield from _list_blocks(value)
        else:
            plain = recording.model_dump(mode="json", exclude_none=True, include={name})
            yield _indented(plain[name], b"\n  ")
    yield b"\n}"


def _list_blocks(records: Sequence[Record]) -> Iterator[bytes]:
    comma = b"["
    for record in records:
        yield comma + b"\n    "
        yield _indented(record.model_dump(mode="json", exclude_none=True), b"\n    ")
        comma = b","
    yield b"\n  ]"


def _indented(value: Any, margin: bytes) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).replace(b"\n", margin)


def change_end(text: BinaryIO, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Rewrite the `merged_replay…` fields at the end of an open `recording.json`.

    `change` receives those that are there and returns all that are to be there. The rest of the text
    is not read. Raises ValueError when the text has another form.
    """
    size = text.seek(0, os.SEEK_END)
    start = max(0, size - _END_BYTES)
    text.seek(start)
    end = text.read()
    cut = end.find(_NAMED)
    if not end.endswith(_CLOSE):
        raise ValueError(f"{RECORDING_FILE} has an unknown form")
    found = {} if cut < 0 else orjson.loads(b"{" + end[cut + 1 :])
    kept = end[: cut if cut >= 0 else -len(_CLOSE)]
    fields = {name: value for name, value in change(found).items() if value is not None}
    lines = [f',\n  "{name}": '.encode() + orjson.dumps(value) for name, value in fields.items()]
    text.seek(start + len(kept))
    text.truncate()
    text.write(b"".join(lines) + _CLOSE)


def parse_recording(text: bytes) -> DuplexRecording | TurnRecording:
    """Inverse of `recording_blocks`; `mode` selects the class. Raises ValueError."""
    return _RECORDING.validate_json(text)
