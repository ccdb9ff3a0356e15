"""The entries of a session's streams, and how they are stored.

An entry is a JSON header in the field `h` and raw bytes in fields beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, NamedTuple, TypeVar, overload

import orjson
from pydantic import BaseModel

from antiphon.shared_schemas.audio import PcmFormat, float_bytes
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, restore
from antiphon.shared_schemas.tagged import TaggedDataclass
from antiphon.shared_schemas.unit_result import FirstAudio, TimedText, TokenUsage, UnitResult

BINARY = {"binary": True}
"""Field metadata: the value is stored raw; a tuple is stored as name0, name1, ..."""

_USAGE = {"load": TokenUsage.model_validate}
_FIRST_AUDIO = {"load": FirstAudio.model_validate}

_HEADER = b"h"

EPOCHS_PER_TICKET = 1000


class StreamPosition(NamedTuple):
    """An entry's id, `<ticket * 1000 + epoch>-<n>`; `n` counts from 1 over the whole session.

    Redis rejects an id that is not above the last one, so an older epoch cannot write after a newer
    one, and a retried append cannot duplicate an entry.
    """

    ticket: int
    epoch: int
    n: int

    def id(self) -> str:
        """The Redis stream id. Raises ValueError on an epoch that would run into the next ticket."""
        if not 0 <= self.epoch < EPOCHS_PER_TICKET:
            raise ValueError(f"epoch {self.epoch} is not below {EPOCHS_PER_TICKET}")
        return f"{self.ticket * EPOCHS_PER_TICKET + self.epoch}-{self.n}"

    @classmethod
    def parse(cls, entry_id: bytes | str) -> StreamPosition:
        """Inverse of `id`."""
        text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
        major, _, n = text.partition("-")
        ticket, epoch = divmod(int(major), EPOCHS_PER_TICKET)
        return cls(ticket, epoch, int(n))

    def next(self) -> StreamPosition:
        """The position of the same writer's next entry. `_replace` takes twice as long."""
        return StreamPosition(self.ticket, self.epoch, self.n + 1)

    def follows(self, other: StreamPosition) -> bool:
        """Newer, and with a higher number.

        When a failover has lost entries that a reader has, the next writer gives their numbers again.
        """
        return self > other and self.n > other.n

    @classmethod
    def before(cls, ticket: int) -> StreamPosition:
        """The position that precedes every entry of the session with this ticket."""
        return cls(ticket, 0, 0)


class StreamEntry(metaclass=TaggedDataclass):
    """Base of every entry; a subclass is identified by its `tag`."""

    tag: ClassVar[str]
    at: float = 0.0
    """Redis-clock milliseconds at which the writer appended it."""
    clock_step: float = 0.0
    """By how many milliseconds the writer's clock was set forward since it opened the stream:
    `at - clock_step` does not jump when Redis' clock does."""
    trace: bytes = field(default=b"", metadata=BINARY, repr=False)
    """Trace context of the entry (`broker.service.tracing`); empty while tracing is off."""

    def __init_subclass__(cls) -> None:
        _BY_TAG[cls.tag] = cls


_BY_TAG: dict[str, type[StreamEntry]] = {}

EntryT = TypeVar("EntryT", bound=StreamEntry)


class UnreadableEntry(ValueError):
    """A stream entry is not of this version's form."""


class _Layout(NamedTuple):
    """How the fields of a class are stored."""

    names: tuple[str, ...]
    """Of the fields in the header."""
    names_in_json: tuple[str, ...]
    values_in_json: Callable[[dict[str, Any]], tuple[Any, ...]]
    """The values of those fields in a header. Raises KeyError if one is missing."""
    header_values: Callable[[StreamEntry], tuple[Any, ...]]
    """The values of those fields."""
    converted: tuple[tuple[str, Callable[[Any], Any], bool], ...]
    """Fields whose value in JSON is converted, how, and whether it may be None."""
    raw: tuple[tuple[str, bytes], ...]
    raw_tuples: tuple[tuple[str, bytes], ...]


@functools.cache
def _layout(cls: type[StreamEntry]) -> _Layout:
    binary = [item for item in fields(cls) if item.metadata.get("binary")]
    others = [item for item in fields(cls) if not item.metadata.get("binary")]
    loaded = [item for item in others if "load" in item.metadata]
    names = tuple(item.name for item in others)
    names_in_json = tuple(item.metadata.get("stored_as", item.name) for item in others)
    return _Layout(
        names,
        names_in_json,
        itemgetter(*names_in_json),
        attrgetter(*names),
        tuple((item.name, item.metadata["load"], item.default is None) for item in loaded),
        tuple((item.name, item.name.encode()) for item in binary if item.default != ()),
        tuple((item.name, item.name.encode()) for item in binary if item.default == ()),
    )


def pack(entry: StreamEntry, **stamps: float) -> list[bytes]:
    """Field names and values, flat, ready for XADD; with the stamps `at` and `clock_step`, if given."""
    layout = _layout(type(entry))
    values = layout.header_values(entry)
    header: dict[str, Any] = {"type": entry.tag}
    header.update(zip(layout.names_in_json, values, strict=True))
    header.update(stamps)
    packed = [_HEADER, orjson.dumps(header, BaseModel.model_dump)]
    for name, key in layout.raw:
        if value := getattr(entry, name):
            packed += (key, value)
    for name, key in layout.raw_tuples:
        for index, part in enumerate(getattr(entry, name)):
            packed += (b"%b%d" % (key, index), part)
    return packed


@overload
def unpack(data: Mapping[bytes, bytes]) -> StreamEntry: ...
@overload
def unpack(data: Mapping[bytes, bytes], kinds: tuple[type[EntryT], ...]) -> EntryT: ...
def unpack(
    data: Mapping[bytes, bytes], kinds: tuple[type[StreamEntry], ...] | None = None
) -> StreamEntry:
    """Inverse of `pack`. Raises UnreadableEntry on an unknown or incomplete entry.

    It must be one of `kinds` if they are given.
    """
    try:
        header: dict[str, Any] = orjson.loads(data[_HEADER])
        cls = _BY_TAG[header["type"]]
        layout = _layout(cls)
        values: dict[str, Any]
        try:
            values = dict(zip(layout.names, layout.values_in_json(header), strict=True))
        except KeyError:  # of another version
            values = {
                name: header[stored_as]
                for name, stored_as in zip(layout.names, layout.names_in_json, strict=True)
                if stored_as in header
            }
        for name, convert, nullable in layout.converted:
            if name in values and not (nullable and values[name] is None):
                values[name] = convert(values[name])
        for name, key in layout.raw:
            values[name] = data.get(key, b"")
        for name, key in layout.raw_tuples:
            parts: list[bytes] = []
            while (part := data.get(b"%b%d" % (key, len(parts)))) is not None:
                parts.append(part)
            values[name] = tuple(parts)
        entry = cls(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableEntry(f"stream entry cannot be read: {error!r}") from error
    if kinds is not None and not isinstance(entry, kinds):
        raise UnreadableEntry(f"a {entry.tag!r} entry does not belong in this stream")
    return entry


class PrepareIn(StreamEntry, tag="prepare"):
    """The client's `prepare`. References are float32 PCM at 16 kHz; empty means none."""

    system_prompt: str
    config: DuplexConfig = field(metadata={"load": DuplexConfig.model_validate})
    ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    tts_ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    deferred_finalize: bool = True


class ChunkIn(StreamEntry, tag="chunk"):
    """One chunk of user audio (16 kHz) with its JPEG frames."""

    audio: bytes = field(metadata=BINARY, repr=False)
    pcm: PcmFormat = field(default=PcmFormat.F32, metadata={"load": PcmFormat})
    frames: tuple[bytes, ...] = field(default=(), metadata=BINARY, repr=False)
    force_listen: bool = False
    max_slice_nums: int | None = None


class PauseIn(StreamEntry, tag="pause"):
    """Pause for at most `timeout_s`."""

    timeout_s: float


class ResumeIn(StreamEntry, tag="resume"):
    """Resume after a pause."""


class PlaybackIn(StreamEntry, tag="playback"):
    """How much of the current answer's audio, or else of the last one's, the client has played."""

    played_ms: float


class StopIn(StreamEntry, tag="stop"):
    """End the session."""


class DiagnosticIn(StreamEntry, tag="diagnostic"):
    """Metrics measured by the client; the worker ignores them, the recorder stores them."""

    metrics: dict[str, Any]


class PreparedOut(StreamEntry, tag="prepared"):
    """The engine has processed the prompt. `input_n`: the `prepare` that this answers."""

    input_n: int
    prompt_length: int
    usage: TokenUsage | None = field(default=None, metadata=_USAGE)


class ResultOut(StreamEntry, tag="result"):
    """One unit's result (24 kHz float32 audio).

    `input_n` is the chunk it answers, `skipped` the chunks dropped just before it under
    backpressure. `received_at`, `read_at` are the Redis-clock ms at which the edge appended that
    chunk and the worker read it; `at` is when the worker published.
    """

    input_n: int
    skipped: tuple[int, ...] = field(default=(), metadata={"load": tuple})
    received_at: float
    read_at: float
    prefill_ms: float
    wall_clock_ms: float
    is_listen: bool
    text: str
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    end_of_turn: bool
    current_time: int
    cost_llm_ms: float
    cost_tts_prep_ms: float
    cost_tts_ms: float
    cost_token2wav_ms: float
    cost_all_ms: float
    n_tokens: int
    n_tts_tokens: int
    kv_cache_length: int
    vision_slices: int
    vision_tokens: int
    simulated: bool
    interim_user_text: str | None = None
    memo: dict[str, Any]
    usage: TokenUsage | None = field(default=None, metadata=_USAGE)
    first_audio: FirstAudio | None = field(default=None, metadata=_FIRST_AUDIO)

    @classmethod
    def of(cls, result: UnitResult, **context: Any) -> ResultOut:
        """Join an engine's result with its position in the session."""
        values = {name: getattr(result, name) for name in UnitResult.__slots__}
        values["audio"] = float_bytes(result.audio)
        return cls(**values, **context)


class PausedOut(StreamEntry, tag="paused"):
    """The session is paused."""

    input_n: int
    timeout_s: float


class ResumedOut(StreamEntry, tag="resumed"):
    """The session is active again after a pause."""

    input_n: int


class StoppedOut(StreamEntry, tag="stopped"):
    """Last entry of a session that was stopped."""


class TimeoutOut(StreamEntry, tag="timeout"):
    """Last entry of a session whose pause, or the silence of its client, lasted too long.

    `elapsed_s`: the seconds without audio.
    """

    reason: str
    elapsed_s: float | None = None


class ErrorOut(StreamEntry, tag="error"):
    """A step failed; `fatal` ends the session. `input_n`: the entry that could not be served, 0 if none.

    `skipped`: the chunks dropped just before it under backpressure.
    """

    input_n: int = 0
    skipped: tuple[int, ...] = field(default=(), metadata={"load": tuple})
    code: str
    message: str
    field: str | None = None
    fatal: bool = False


class HalfDuplexPrepareIn(StreamEntry, tag="half_prepare"):
    """A half-duplex `prepare`. `content`, `blobs`: the flattened system message (see `content`).

    `ref_audio` is float32 PCM at 16 kHz; empty means none.
    """

    content: list[dict[str, Any]]
    blobs: tuple[bytes, ...] = field(default=(), metadata=BINARY, repr=False)
    config: HalfDuplexConfig = field(metadata={"load": HalfDuplexConfig.model_validate})
    ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)

    def system(self) -> ConversationMessage:
        return restore(self.content, self.blobs)[0]


class BreakIn(StreamEntry, tag="break"):
    """Stop the answer that is being generated; the session stays active."""


class ChatIn(StreamEntry, tag="chat"):
    """A whole chat request. `ref_audio` is float32 PCM at 16 kHz; empty means none.

    `progress`: the client wants progress messages during a long prefill.
    """

    content: list[dict[str, Any]]
    blobs: tuple[bytes, ...] = field(default=(), metadata=BINARY, repr=False)
    options: ChatOptions = field(metadata={"load": ChatOptions.model_validate})
    ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    progress: bool = False

    def messages(self) -> tuple[ConversationMessage, ...]:
        return restore(self.content, self.blobs)


class VadOut(StreamEntry, tag="vad"):
    """The user started or stopped speaking, within input `input_n`.

    `interim_user_text`: the user continues to speak, and has said this so far.
    """

    input_n: int
    speaking: bool
    interim_user_text: str | None = None


class GeneratingOut(StreamEntry, tag="generating"):
    """An utterance is complete and its answer starts. `audio`: the utterance, float32 at 16 kHz."""

    input_n: int
    turn_index: int
    speech_duration_ms: int
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)


class DeltaOut(StreamEntry, tag="delta"):
    """A part of an answer: text, and audio (float32 at 24 kHz) that may lag behind it."""

    text_delta: str
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    first_audio: FirstAudio | None = field(default=None, metadata=_FIRST_AUDIO)


class TurnDoneOut(StreamEntry, tag="turn_done"):
    """A half-duplex answer is complete, was stopped, or failed. `input_n`: the last input it used.

    After a failure (an ErrorOut came before) the context is as before the turn. `memo` is the
    engine's data for recovery; costs are milliseconds.
    """

    input_n: int
    turn_index: int
    text: str
    stopped: bool = False
    failed: bool = False
    n_tokens: int = 0
    cost_all_ms: float = 0.0
    kv_cache_length: int = 0
    memo: dict[str, Any] = field(default_factory=dict)
    usage: TokenUsage | None = field(default=None, metadata=_USAGE)


def user_transcript(entry: ResultOut | TurnDoneOut) -> str | None:
    """What the user said up to this unit or in this turn, if there is a transcript."""
    text = entry.memo.get("user")
    return text if isinstance(text, str) else None


def word_times(entry: ResultOut) -> list[TimedText] | None:
    """The words of a unit's text, each with the millisecond of its audio at which it begins, if known."""
    match entry.memo.get("word_times"):
        case [_, *_] as words if all(map(_is_timed_text, words)):
            return [(float(at_ms), text) for at_ms, text in words]
    return None


def _is_timed_text(word: object) -> bool:
    match word:
        case [int() | float(), str()]:
            return True
    return False


class ProgressOut(StreamEntry, tag="progress"):
    """The share of a chat request, 0 to 1, that has been processed; only for clients that asked."""

    done: float


class PrefillDoneOut(StreamEntry, tag="prefill_done"):
    """A chat request has been processed: it has `input_tokens` tokens."""

    input_tokens: int


class ChatDoneOut(StreamEntry, tag="chat_done"):
    """Last entry of a chat: the whole answer. `audio` (float32 at 24 kHz) unless it was streamed.

    `tool_calls` are in the form of OpenAI's API. They are only here: an answer that another worker
    continues must not repeat them.
    """

    text: str
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    generated_tokens: int
    input_tokens: int
    duration_ms: float
    stopped: bool = False
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    usage: TokenUsage | None = field(default=None, metadata=_USAGE)
    first_audio: FirstAudio | None = field(default=None, metadata=_FIRST_AUDIO)


class Checkpoint(StreamEntry, tag="mark"):
    """What an edge records after an event of a resumable session, so that any edge can resume it.

    `seq` numbers the last message sent. `last_output` is the stream id of the last output entry
    delivered, `last_input` that of the last input entry written. `snapshot` is the protocol machine's.
    `messages` are those of this event that cannot be derived from the output stream; the last of
    them has the number `seq`.
    """

    seq: int
    last_output: str = field(metadata={"stored_as": "heard"})
    last_input: str = field(metadata={"stored_as": "sent"})
    snapshot: dict[str, Any] = field(metadata={"stored_as": "memory"})
    messages: list[dict[str, Any]]


class PastSteps(StreamEntry, tag="past"):
    """Finished units or turns in a row, as recovery needs them, so that their entries can be trimmed.

    `last_input` and `last_output` are the stream ids of the last entries that belong to them. `count`
    is the duration of the input up to there (ms), or the index of the next turn. A step has the
    fields of the engine's `PastUnit` or `PastTurn`. `audio` is the steps' sound as one FLAC file, and
    empty if the engine does not need it; `samples` in each step is its share, `frames` its number of
    frames.
    """

    last_input: str
    last_output: str
    count: int
    steps: list[dict[str, Any]]
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    frames: tuple[bytes, ...] = field(default=(), metadata=BINARY, repr=False)


InEntry = (
    PrepareIn
    | ChunkIn
    | PauseIn
    | ResumeIn
    | PlaybackIn
    | StopIn
    | DiagnosticIn
    | HalfDuplexPrepareIn
    | BreakIn
    | ChatIn
)
"""Client to worker."""

OutEntry = (
    PreparedOut
    | ResultOut
    | PausedOut
    | ResumedOut
    | StoppedOut
    | TimeoutOut
    | ErrorOut
    | VadOut
    | GeneratingOut
    | DeltaOut
    | TurnDoneOut
    | ProgressOut
    | PrefillDoneOut
    | ChatDoneOut
)
"""Worker to client."""

Entry = InEntry | OutEntry

CheckpointEntry = Checkpoint | InEntry
"""The checkpoint stream of a resumable session; an input in it waits for the first worker."""
