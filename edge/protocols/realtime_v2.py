"""Version 2 of `/v1/realtime`: its legal commands, its input, and the events of a unit."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from antiphon.edge.errors import ChatRequested, Fault
from antiphon.edge.media.decode import InputReader
from antiphon.edge.media.voices import decode_voice
from antiphon.edge.protocols.machine import Phase
from antiphon.edge.protocols.realtime_codec import (
    CLOSED_AS_V2,
    RealtimeCodec,
    encode_v2_error,
    phase_text,
)
from antiphon.shared_schemas.config import with_consent
from antiphon.shared_schemas.entries import (
    ChunkIn,
    InEntry,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
)
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.messages.realtime_v2 import (
    DuplexInput,
    InitPayload,
    OutputDelta,
    SessionClosedV2,
    SessionCreatedV2,
    UserTranscribed,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage, user_transcript
from antiphon.shared_schemas.wire import ServerMessage

WIRE_NAMES: Mapping[type[InEntry], str] = {
    PrepareIn: "session.init",
    ChunkIn: "input.append",
    PlaybackIn: "output_audio_buffer.playback_ack",
    StopIn: "session.close",
}

LEGAL: Mapping[Phase, frozenset[type[InEntry]]] = {
    Phase.QUEUED: frozenset({PrepareIn, StopIn}),
    Phase.QUEUED_PREPARED: frozenset({StopIn}),
    Phase.ASSIGNED: frozenset({PrepareIn, StopIn}),
    Phase.PREPARING: frozenset({StopIn}),
    Phase.ACTIVE: frozenset({ChunkIn, PlaybackIn, StopIn}),
    Phase.STOPPING: frozenset({ChunkIn, PlaybackIn, StopIn}),
    Phase.OVER: frozenset(),
}
"""While it is stopping, a session ignores them: input in flight must not become a fatal error."""


PHASE_TEXT = phase_text(WIRE_NAMES[PrepareIn])

OutputKind = Literal["listen", "text", "audio"]

_VERSIONS = {
    "session.update": 1,
    "input_audio_buffer.append": 1,
    "session.init": 2,
    "input.append": 2,
}


class Negotiation:
    """The version that a client speaks. Its first message of a known type decides.

    None until then: the queue messages of both versions are the same. `may_chat`: the URL has no
    mode, so the first `session.init` may ask for chat.
    """

    def __init__(self, *, may_chat: bool = False) -> None:
        self.version: int | None = None
        self.may_chat = may_chat

    def is_version_2(self, message: object) -> bool:
        """Whether this message of the client belongs to version 2."""
        if self.version is None and isinstance(message, dict):
            kind = message.get("type")
            self.version = _VERSIONS.get(kind) if isinstance(kind, str) else None
        return self.version == 2


async def read_init(
    payload: InitPayload, max_reference_s: float, negotiation: Negotiation
) -> PrepareIn:
    """The settings of a session. Raises InvalidInput, or ChatRequested."""
    may_chat, negotiation.may_chat = negotiation.may_chat, False
    if may_chat and payload.mode == "turn_based":
        raise ChatRequested
    stated: dict[str, Any] = {}
    if payload.max_slice_nums is not None:
        stated["max_slice_nums"] = payload.max_slice_nums
    if not payload.use_tts:
        stated["generate_audio"] = False
    config = with_consent(payload.config.duplex().model_copy(update=stated), given=payload.record)
    prompt = payload.instructions if payload.system_prompt is None else payload.system_prompt
    return PrepareIn(
        system_prompt=DEFAULT_SYSTEM_PROMPT if prompt is None else prompt,
        config=config,
        ref_audio=await _voice(payload, "ref_audio_base64", max_reference_s),
        tts_ref_audio=await _voice(payload, "tts_ref_audio_base64", max_reference_s),
        deferred_finalize=payload.deferred_finalize,
        version=2,
    )


async def _voice(payload: InitPayload, name: str, max_reference_s: float) -> bytes:
    for key in (name, name.removesuffix("_base64")):
        voice = getattr(payload.voice, key)
        if voice is not None:
            return await decode_voice(voice, f"payload.voice.{key}", max_reference_s)
    return await decode_voice(getattr(payload, name), f"payload.{name}", max_reference_s)


def read_input(reader: InputReader, asked: DuplexInput, *, video: bool) -> ChunkIn:
    """A chunk of a session. Audio sessions ignore video frames. Raises InvalidInput."""
    return reader.read_chunk(
        asked.audio,
        "input.audio",
        images=asked.video_frames if video else None,
        images_field="input.video_frames",
        force_listen=asked.force_listen or asked.hints.force_listen,
        max_slice_nums=asked.max_slice_nums or asked.hints.max_slice_nums,
    )


def usage_fields(usage: TokenUsage | None, *, video: bool = True) -> dict[str, Any] | None:
    """Token counts under the names of the public demo; None if the engine does not count.

    `video`: what the model saw were frames of a video, not pictures of a chat.
    """
    if usage is None:
        return None
    return {
        "input_tokens": usage.read,
        "output_tokens": usage.generated,
        "total_tokens": usage.read + usage.generated,
        "input_token_details": {
            "text_tokens": usage.input_text,
            "audio_tokens": usage.input_audio,
            "image_tokens": 0 if video else usage.input_vision,
            "vision_tokens": usage.input_vision,
            "video_tokens": usage.input_vision if video else 0,
            "cached_tokens": 0,
        },
        "output_token_details": {
            "text_tokens": usage.output_text,
            "audio_tokens": usage.output_audio,
        },
    }


class RealtimeV2(RealtimeCodec):
    """An answer ends with the end of its turn or with a `listen`.

    The `session_id` is the id of the recording: pages of the public demo share recordings by it.
    """

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES
    PHASE_TEXT: ClassVar = PHASE_TEXT
    ERRORS_END: ClassVar = True

    def created(self, entry: PreparedOut) -> ServerMessage:
        return SessionCreatedV2(
            mode="full_duplex",
            session_id=self._session.recording,
            prompt_length=entry.prompt_length,
            recording_session_id=self._recording,
            usage=usage_fields(entry.usage),
        )

    def unit(self, entry: ResultOut, now_ms: float) -> Sequence[ServerMessage]:
        messages = self._with_transcript(entry, self._deltas(entry, now_ms))
        if self._session.transcript_events and (said := user_transcript(entry)):
            return [UserTranscribed(text=said, session_id=self._session.recording), *messages]
        return messages

    def closed(self, reason: EndReason, diagnostic: str, usage: TokenUsage | None) -> ServerMessage:
        why, text = CLOSED_AS_V2[reason]
        sid = self._session.recording
        return SessionClosedV2.of(why, diagnostic or text, sid, usage_fields(usage))

    def errors(self, fault: Fault) -> Sequence[ServerMessage]:
        return encode_v2_error(fault, self._session.recording)

    def _deltas(self, entry: ResultOut, now_ms: float) -> list[OutputDelta]:
        """At least one event: clients wait for the output of each input.

        A unit with text and audio is two events, and one with neither is an empty text. `listen` ends a
        turn, as in the demo. The first event of a unit has its counts; its audio repeats the sum, because
        the SDK of the model makers reads it there only.
        """
        outputs: list[tuple[OutputKind, dict[str, Any]]] = []
        if not entry.is_listen:
            if entry.text or not entry.audio:
                outputs.append(("text", {"text": entry.text}))
            if entry.audio:
                outputs.append(("audio", {"audio": entry.audio}))
        if entry.is_listen or entry.end_of_turn:
            outputs.append(("listen", {"text": ""}))
        total = usage_fields(entry.total_usage)
        counts = {
            "chunk_index": entry.unit,
            "chunk_usage": usage_fields(entry.usage),
            "usage": total,
        }
        (first, output), *others = outputs
        return [
            self._delta(entry, now_ms, first, **output, **counts),
            *(
                self._delta(entry, now_ms, kind, usage=total if kind == "audio" else None, **fields)
                for kind, fields in others
            ),
        ]

    def _delta(
        self, entry: ResultOut, now_ms: float, kind: OutputKind, **fields: Any
    ) -> OutputDelta:
        metrics = {
            "kv_cache_length": entry.kv_cache_length,
            "wall_clock_ms": entry.wall_clock_ms,
            "generate_ms": entry.cost_all_ms,
            "vision_slices": entry.vision_slices,
            "vision_tokens": entry.vision_tokens,
        }
        return OutputDelta(
            kind=kind,
            response_id=f"resp_{self._session.sid.removeprefix('rt_')}_{entry.turn}",
            session_id=self._session.recording,
            metrics=metrics,
            server_send_ts=round(now_ms / 1000, 3),
            **fields,
        )
