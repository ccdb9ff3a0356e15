"""Version 2 of `/v1/realtime`: its legal commands, its input, and the events of a unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from antiphon.edge.errors import ChatRequested
from antiphon.edge.media.decode import InputReader
from antiphon.edge.media.voices import decode_voice
from antiphon.edge.protocols.machine import Phase
from antiphon.shared_schemas.config import with_consent
from antiphon.shared_schemas.entries import (
    ChunkIn,
    InEntry,
    PlaybackIn,
    PrepareIn,
    ResultOut,
    StopIn,
)
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.messages.realtime_v2 import DuplexInput, InitPayload, OutputDelta
from antiphon.shared_schemas.unit_result import TokenUsage

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


def phase_text(prepare: str) -> Mapping[Phase, str]:
    """Phases in the words of a version whose first message is `prepare`."""
    return {
        Phase.QUEUED: "queued",
        Phase.QUEUED_PREPARED: f"queued and its {prepare} is kept",
        Phase.ASSIGNED: "connected",
        Phase.PREPARING: f"connected and its {prepare} is being carried out",
        Phase.ACTIVE: "active",
        Phase.STOPPING: "closing",
        Phase.OVER: "closed",
    }


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
    config = with_consent(payload.config.model_copy(update=stated), given=payload.record)
    prompt = payload.instructions if payload.system_prompt is None else payload.system_prompt
    return PrepareIn(
        system_prompt=DEFAULT_SYSTEM_PROMPT if prompt is None else prompt,
        config=config,
        ref_audio=await _voice(payload, "ref_audio_base64", max_reference_s),
        tts_ref_audio=await _voice(payload, "tts_ref_audio_base64", max_reference_s),
        deferred_finalize=payload.deferred_finalize,
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
        *(asked.audio, "input.audio", asked.video_frames if video else None, "input.video_frames"),
        force_listen=asked.force_listen or asked.hints.force_listen,
        max_slice_nums=asked.max_slice_nums or asked.hints.max_slice_nums,
    )


def usage_fields(usage: TokenUsage | None, *, video: bool = True) -> dict[str, Any] | None:
    """Token counts under the names of the public demo; None if the engine does not count.

    `video`: what the model saw were frames of a video, not pictures of a chat.
    """
    if usage is None:
        return None
    read = usage.input_text + usage.input_audio + usage.input_vision
    made = usage.output_text + usage.output_audio
    return {
        "input_tokens": read,
        "output_tokens": made,
        "total_tokens": read + made,
        "input_token_details": {
            "text_tokens": usage.input_text,
            "audio_tokens": usage.input_audio,
            "image_tokens": 0 if video else usage.input_vision,
            "video_tokens": usage.input_vision if video else 0,
            "cached_tokens": 0,
        },
        "output_token_details": {
            "text_tokens": usage.output_text,
            "audio_tokens": usage.output_audio,
        },
    }


class ResponseDeltas:
    """The events of each unit. An answer ends with the end of its turn or with a `listen`.

    `shown_id` is the `session_id` that the client knows.
    """

    def __init__(self, sid: str, shown_id: str) -> None:
        self._sid = sid
        self._shown_id = shown_id
        self._number = 0
        self._speaking = False
        self._units = 0
        self._usage: TokenUsage | None = None

    def snapshot(self) -> list[Any]:
        """The state as JSON."""
        usage = self._usage.model_dump() if self._usage else None
        return [self._number, self._speaking, self._units, usage]

    def restore(self, snapshot: list[Any]) -> None:
        self._number, self._speaking, self._units, usage = snapshot
        self._usage = None if usage is None else TokenUsage.model_validate(usage)

    def count(self, usage: TokenUsage | None) -> dict[str, Any] | None:
        """The usage of the session, including this."""
        if usage is not None:
            self._usage = self._usage + usage if self._usage else usage
        return usage_fields(self._usage)

    def messages(self, entry: ResultOut, now_ms: float) -> list[OutputDelta]:
        """At least one event: clients wait for the output of each input.

        A unit with text and audio is two events, and one with neither is an empty text. `listen` ends a
        turn, as in the demo. The first event of a unit has its counts.
        """
        outputs: list[tuple[OutputKind, dict[str, Any]]] = []
        if not entry.is_listen:
            self._number += not self._speaking
            if entry.text or not entry.audio:
                outputs.append(("text", {"text": entry.text}))
            if entry.audio:
                outputs.append(("audio", {"audio": entry.audio}))
        if entry.is_listen or entry.end_of_turn:
            outputs.append(("listen", {}))
        self._speaking = not (entry.is_listen or entry.end_of_turn)
        counts = {
            "chunk_index": self._units,
            "chunk_usage": usage_fields(entry.usage),
            "usage": self.count(entry.usage),
        }
        self._units += 1
        (first, output), *others = outputs
        return [
            self._delta(entry, now_ms, first, **output, **counts),
            *(self._delta(entry, now_ms, kind, **fields) for kind, fields in others),
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
            response_id=f"resp_{self._sid.removeprefix('rt_')}_{self._number}",
            session_id=self._shown_id,
            metrics=metrics,
            server_send_ts=round(now_ms / 1000, 3),
            **fields,
        )
