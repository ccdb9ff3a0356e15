"""The door of `/ws/duplex`: a frame becomes a checked, typed command, or is refused by name."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.edge.doors.intake import Intake
from antiphon.edge.media.voices import UploadedVoices, load_named_voice, no_uploaded_voices
from antiphon.edge.protocols.duplex_commands import CameraFrame, DuplexCommand
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import with_consent
from antiphon.shared_schemas.duplex_messages import (
    AudioChunk,
    ClientDiagnostic,
    Pause,
    PlaybackAck,
    Prepare,
    Resume,
    Stop,
    VideoFrame,
    parse_duplex_message,
)
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    PauseIn,
    PlaybackIn,
    PrepareIn,
    ResumeIn,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

_MAX_DIAGNOSTIC_BYTES = 64 * 1024
_MAX_DIAGNOSTIC_DEPTH = 32
"""It is stored inside of other JSON, whose encoder follows 254 levels."""


class DuplexDoor:
    """Reads one client's frames: size, weight, JSON, fields, media, pace, in this order."""

    def __init__(
        self, settings: EdgeSettings, uploads: UploadedVoices = no_uploaded_voices
    ) -> None:
        self._settings = settings
        self._uploads = uploads
        self._intake = Intake(settings)

    async def read(self, frame: str | bytes) -> DuplexCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        message = parse_duplex_message(*self._intake.open(frame))
        if isinstance(message, Stop):
            return StopIn()
        self._intake.message()
        match message:
            case AudioChunk():
                return self._chunk(message)
            case VideoFrame():
                return CameraFrame(self._intake.frame(message.frame, "frame"))
            case Prepare():
                return await self._prepare(message)
            case Pause():
                return self._pause(message)
            case Resume():
                return ResumeIn()
            case PlaybackAck(played_ms=played_ms):
                return PlaybackIn(played_ms=played_ms)
            case ClientDiagnostic():
                return _diagnostic(message)

    def _chunk(self, message: AudioChunk) -> ChunkIn:
        sound = self._intake.chunk(message.audio, "audio")
        frames = tuple(
            self._intake.frame(media, f"frame_base64_list.{index}")
            for index, media in enumerate(message.frame_base64_list or ())
        )
        self._intake.charge(sound, "audio")
        return ChunkIn(
            audio=sound.data,
            pcm=sound.pcm,
            frames=frames,
            force_listen=message.force_listen,
            max_slice_nums=message.max_slice_nums,
        )

    async def _prepare(self, message: Prepare) -> PrepareIn:
        config = message.config
        if message.max_slice_nums is not None:
            config = config.model_copy(update={"max_slice_nums": message.max_slice_nums})
        return PrepareIn(
            system_prompt=message.system_prompt,
            config=with_consent(config, given=message.record),
            ref_audio=await self._reference(message),
            tts_ref_audio=self._intake.voice(message.tts_ref_audio_base64, "tts_ref_audio_base64"),
            deferred_finalize=message.deferred_finalize,
        )

    async def _reference(self, message: Prepare) -> bytes:
        """The named voice wins over the one sent along, as it always did."""
        if not message.ref_audio_path:
            return self._intake.voice(message.ref_audio_base64, "ref_audio_base64")
        return await load_named_voice(self._settings, self._uploads, message.ref_audio_path)

    def _pause(self, message: Pause) -> PauseIn:
        limit = self._settings.max_pause_timeout_s
        if message.timeout is not None and message.timeout > limit:
            raise InvalidInput(f"timeout: at most {limit:g} s", field="timeout")
        return PauseIn(timeout_s=message.timeout or self._settings.pause_timeout_s)


def _diagnostic(message: ClientDiagnostic) -> DiagnosticIn:
    """Every field is kept; what could not be stored again is refused here."""
    metrics: dict[str, Any] = dict(message.model_extra or {})
    if message.metrics is not None:
        metrics["metrics"] = message.metrics
    try:
        size = len(orjson.dumps(metrics))
    except orjson.JSONEncodeError:  # it follows 254 levels
        raise _too_deep() from None
    if size > _MAX_DIAGNOSTIC_BYTES:
        raise InvalidInput(
            f"metrics: {size} bytes, the limit is {_MAX_DIAGNOSTIC_BYTES}",
            field="metrics",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    if _deeper_than(_MAX_DIAGNOSTIC_DEPTH, metrics):
        raise _too_deep()
    return DiagnosticIn(metrics=metrics)


def _too_deep() -> InvalidInput:
    text = f"metrics: nested more than {_MAX_DIAGNOSTIC_DEPTH} deep"
    return InvalidInput(text, field="metrics")


def _deeper_than(limit: int, value: Any) -> bool:
    inner = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inner, list):
        return False
    return limit == 0 or any(_deeper_than(limit - 1, item) for item in inner)
