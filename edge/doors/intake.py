"""The media of one client: decoded, checked, and counted against what it may send."""

from __future__ import annotations

from edge.limits import InputBudget
from edge.media import decode_audio, decode_image
from edge.settings import EdgeSettings
from shared_schemas.audio import INPUT_RATE

_BYTES_PER_S = 4 * INPUT_RATE


class Intake:
    """What a session takes in of microphone and camera; every call raises InvalidInput by field."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._settings = settings
        self._budget = InputBudget(settings.input_ahead_s, settings.input_messages_per_s)

    def message(self) -> None:
        """Count one message."""
        self._budget.charge_message()

    def chunk(self, text: str, field: str, *, min_samples: int = 1) -> bytes:
        """One chunk of microphone audio, base64 float32 PCM."""
        limit = self._settings.max_chunk_s
        return decode_audio(text, field, limit, min_samples=min_samples)

    def charge(self, audio: bytes, field: str) -> None:
        """Count a chunk that is taken."""
        self._budget.charge_audio(len(audio) / _BYTES_PER_S, field)

    def frame(self, text: str, field: str) -> bytes:
        """One camera frame."""
        limits = self._settings
        return decode_image(
            text, field, max_bytes=limits.max_frame_bytes, max_pixels=limits.max_frame_pixels
        )

    def voice(self, text: str | None, field: str) -> bytes:
        """A reference voice, base64 float32 PCM; none is empty."""
        return decode_audio(text, field, self._settings.max_reference_s) if text else b""
