"""The door of `/v1/realtime`."""

from __future__ import annotations

from edge.doors.frames import parse_json
from edge.doors.intake import Intake
from edge.protocols.realtime import RealtimeCommand
from edge.settings import EdgeSettings
from edge.voices import decode_voice
from shared_schemas.config import DuplexConfig
from shared_schemas.realtime_messages import (
    MIN_SAMPLES,
    Append,
    SessionClose,
    SessionUpdate,
    parse_realtime_event,
)
from shared_schemas.stream_entries import ChunkIn, PrepareIn, StopIn

_DEFAULTS = DuplexConfig()


class RealtimeDoor:
    """Reads one client's frames: size, JSON, fields, media, pace, in this order."""

    def __init__(self, settings: EdgeSettings, *, video: bool) -> None:
        self._max_bytes = settings.max_message_bytes
        self._max_reference_s = settings.max_reference_s
        self._video = video
        self._intake = Intake(settings)

    async def read(self, frame: str | bytes) -> RealtimeCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        event = parse_realtime_event(parse_json(frame, self._max_bytes))
        if isinstance(event, SessionClose):
            return StopIn()
        self._intake.message()
        match event:
            case Append():
                return self._append(event)
            case SessionUpdate():
                return await self._update(event)

    def _append(self, event: Append) -> ChunkIn:
        audio = self._intake.chunk(event.audio, "audio", min_samples=MIN_SAMPLES)
        frames = self._frames(event)
        self._intake.charge(audio, "audio")
        return ChunkIn(
            audio=audio,
            frames=frames,
            force_listen=event.force_listen,
            max_slice_nums=event.max_slice_nums,
        )

    def _frames(self, event: Append) -> tuple[bytes, ...]:
        """An audio session has no eyes; its document leaves open what becomes of frames."""
        if not self._video:
            return ()
        return tuple(
            self._intake.frame(text, f"video_frames.{index}")
            for index, text in enumerate(event.video_frames or ())
        )

    async def _update(self, event: SessionUpdate) -> PrepareIn:
        asked, limit = event.session, self._max_reference_s
        slices = {"max_slice_nums": asked.max_slice_nums} if asked.max_slice_nums else {}
        return PrepareIn(
            system_prompt=asked.instructions,
            config=_DEFAULTS.model_copy(update=slices),
            ref_audio=await decode_voice(asked.ref_audio, "session.ref_audio", limit),
            tts_ref_audio=await decode_voice(asked.tts_ref_audio, "session.tts_ref_audio", limit),
        )
