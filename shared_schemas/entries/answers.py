"""The entries of half-duplex sessions, whose sound arrives as in full duplex, and of chats."""

from typing import Any

import msgspec

from antiphon.shared_schemas.config import ChatOptions, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, restore
from antiphon.shared_schemas.entries.base import StreamEntry
from antiphon.shared_schemas.unit_result import FirstAudio, TokenUsage


class HalfDuplexPrepareIn(StreamEntry, tag="half_prepare"):
    """A half-duplex `prepare`. `content`, `blobs`: the flattened system message (see `content`).

    `ref_audio` is float32 PCM at 16 kHz; empty means none. `input_n`: see `PrepareIn`.
    """

    content: list[dict[str, Any]]
    blobs: tuple[bytes, ...] = ()
    config: HalfDuplexConfig
    ref_audio: bytes = b""
    input_n: int = 0

    def system(self) -> ConversationMessage:
        return restore(self.content, self.blobs)[0]


class VadOut(StreamEntry, tag="vad"):
    """The user started or stopped speaking, within input `input_n`.

    `interim_user_text`: the user continues to speak, and has said this so far. In a session of the kind
    `turns`, `item_id` is that of the item which the speech becomes, and `at_ms` where it begins.
    """

    input_n: int
    speaking: bool
    interim_user_text: str | None = None
    item_id: str = ""
    at_ms: int = 0


class GeneratingOut(StreamEntry, tag="generating"):
    """An utterance is complete and its answer starts. `audio`: the utterance, float32 at 16 kHz.

    In a session of the kind `turns`, `response_id` is that of the answer and `item_id` that of its item.
    """

    input_n: int
    turn_index: int
    speech_duration_ms: int
    response_id: str = ""
    item_id: str = ""
    audio: bytes = b""


class DeltaOut(StreamEntry, tag="delta"):
    """A part of an answer: text, and audio (float32 at 24 kHz) that may lag behind it."""

    text_delta: str
    audio: bytes = b""
    first_audio: FirstAudio | None = None


class TurnDoneOut(StreamEntry, tag="turn_done"):
    """A half-duplex answer is complete, was stopped, or failed. `input_n`: the last input it used.

    After a failure (an ErrorOut came before) the context is as before the turn. `memo` is the
    engine's data for recovery; costs are milliseconds. The last four are those of a session of the kind
    `turns`; `reason` says why an answer is not complete, in OpenAI's words.
    """

    input_n: int
    turn_index: int
    text: str
    stopped: bool = False
    failed: bool = False
    n_tokens: int = 0
    cost_all_ms: float = 0.0
    kv_cache_length: int = 0
    memo: dict[str, Any] = msgspec.field(default_factory=dict)
    usage: TokenUsage | None = None
    response_id: str = ""
    reason: str | None = None
    input_tokens: int = 0
    tool_calls: list[dict[str, Any]] = msgspec.field(default_factory=list)


class InterruptedOut(StreamEntry, tag="interrupted"):
    """The user interrupted a half-duplex answer, which may be complete already.

    `played_ms`: how much of its audio a client has played that plays it as it arrives. `text` is that part
    of it. `input_n`: the input in which the user did.
    """

    input_n: int
    turn_index: int
    played_ms: int
    text: str


class ChatIn(StreamEntry, tag="chat"):
    """A whole chat request. `ref_audio` is float32 PCM at 16 kHz; empty means none.

    `progress`: the client wants progress messages during a long prefill.
    """

    content: list[dict[str, Any]]
    blobs: tuple[bytes, ...] = ()
    options: ChatOptions
    ref_audio: bytes = b""
    progress: bool = False

    def messages(self) -> tuple[ConversationMessage, ...]:
        return restore(self.content, self.blobs)


class BreakIn(StreamEntry, tag="break"):
    """Stop the answer that is being generated; the session stays active."""


class ProgressOut(StreamEntry, tag="progress"):
    """The share of a chat request, 0 to 1, that has been processed; only for clients that asked."""

    done: float


class PrefillDoneOut(StreamEntry, tag="prefill_done"):
    """A chat request has been processed: it has `input_tokens` tokens."""

    input_tokens: int


class ChatDoneOut(StreamEntry, tag="chat_done"):
    """Last entry of a chat: the whole answer. `audio` (float32 at 24 kHz) unless it was streamed.

    `tool_calls` are in the form of OpenAI's API. They are only here: an answer that another worker
    continues must not repeat them. `segments` are the parts of a transcript: `start`, `end` (seconds), `text`.
    `streaming`: the answer came in pieces before.
    """

    text: str
    audio: bytes = b""
    generated_tokens: int
    input_tokens: int
    duration_ms: float
    streaming: bool = True
    stopped: bool = False
    tool_calls: list[dict[str, Any]] = msgspec.field(default_factory=list)
    segments: list[dict[str, Any]] = msgspec.field(default_factory=list)
    usage: TokenUsage | None = None
    first_audio: FirstAudio | None = None
