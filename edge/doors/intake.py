"""The media of one client: decoded, checked, and counted against what it may send."""

from __future__ import annotations

from antiphon.edge.access.limits import InputBudget
from antiphon.edge.doors.frames import open_frame
from antiphon.edge.media.decode import as_float32, read_audio, read_image
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.media import Media, Payload, Raw


class Intake:
    """What a session takes in of microphone and camera; every call raises InvalidInput by field."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._settings = settings
        self._budget = InputBudget(
            settings.input_ahead_s,
            settings.input_messages_per_s,
            settings.input_bytes_per_s,
            settings.max_message_bytes,
        )

    def open(self, frame: str | bytes) -> tuple[object, Payload | None]:
        """One frame's JSON value and what follows it, counted by what it costs to read.

        Raises NotJson, too.
        """
        return open_frame(frame, self._settings.max_message_bytes, self._budget.charge_bytes)

    def message(self) -> None:
        """Count one message."""
        self._budget.charge_message()

    def chunk(self, media: Media, field: str, *, min_samples: int = 1) -> Raw:
        """One chunk of microphone audio, in the format it came in."""
        return read_audio(media, field, self._settings.max_chunk_s, min_samples=min_samples)

    def charge(self, sound: Raw, field: str) -> None:
        """Count a chunk that is taken."""
        self._budget.charge_audio(len(sound.data) / (sound.pcm.width * INPUT_RATE), field)

    def frame(self, media: Media, field: str) -> bytes:
        """One camera frame."""
        limits = self._settings
        return read_image(
            media, field, max_bytes=limits.max_frame_bytes, max_pixels=limits.max_frame_pixels
        )

    def voice(self, media: Media | None, field: str) -> bytes:
        """A reference voice as float32 PCM; none is empty."""
        if not media:
            return b""
        return as_float32(read_audio(media, field, self._settings.max_reference_s))
