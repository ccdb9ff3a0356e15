"""The door of `/v1/realtime`."""

from __future__ import annotations

from antiphon.edge.doors.intake import Intake
from antiphon.edge.media.voices import decode_voice
from antiphon.edge.protocols.realtime import RealtimeCommand
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import DuplexConfig, with_consent
from antiphon.shared_schemas.entries import ChunkIn, PlaybackIn, PrepareIn, StopIn
from antiphon.shared_schemas.realtime_messages import (
    MIN_SAMPLES,
    Append,
    PlaybackEvent,
    SessionClose,
    SessionUpdate,
    parse_realtime_event,
)

_DEFAULTS = DuplexConfig()


class RealtimeDoor:
    """Reads one client's frames: size, weight, JSON, fields, media, pace, in this order.

    `playback_ack`: the client asked for leave to say what it has played.
    """

    def __init__(self, settings: EdgeSettings, *, video: bool, playback_ack: bool = False) -> None:
        self._max_reference_s = settings.max_reference_s
        self._video = video
        self._playback_ack = playback_ack
        self._intake = Intake(settings)

    async def read(self, frame: str | bytes) -> RealtimeCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        data, payload = self._intake.open(frame)
        event = parse_realtime_event(data, payload, playback_ack=self._playback_ack)
        if isinstance(event, SessionClose):
            return StopIn()
        self._intake.message()
        match event:
            case Append():
                return self._append(event)
            case SessionUpdate():
                return await self._update(event)
            case PlaybackEvent(played_ms=played_ms):
                return PlaybackIn(played_ms=played_ms)

    def _append(self, event: Append) -> ChunkIn:
        sound = self._intake.chunk(event.audio, "audio", min_samples=MIN_SAMPLES)
        frames = self._frames(event)
        self._intake.charge(sound, "audio")
        return ChunkIn(
            audio=sound.data,
            pcm=sound.pcm,
            frames=frames,
            force_listen=event.force_listen,
            max_slice_nums=event.max_slice_nums,
        )

    def _frames(self, event: Append) -> tuple[bytes, ...]:
        """An audio session has no eyes; its document leaves open what becomes of frames."""
        if not self._video:
            return ()
        return tuple(
            self._intake.frame(media, f"video_frames.{index}")
            for index, media in enumerate(event.video_frames or ())
        )

    async def _update(self, event: SessionUpdate) -> PrepareIn:
        asked, limit = event.session, self._max_reference_s
        stated = {"max_slice_nums": asked.max_slice_nums} if asked.max_slice_nums else {}
        return PrepareIn(
            system_prompt=asked.instructions,
            config=with_consent(_DEFAULTS.model_copy(update=stated), given=asked.record),
            ref_audio=await decode_voice(asked.ref_audio, "session.ref_audio", limit),
            tts_ref_audio=await decode_voice(asked.tts_ref_audio, "session.tts_ref_audio", limit),
        )
