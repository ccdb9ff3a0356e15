"""What the model says, as deltas that always carry sound."""

from __future__ import annotations

from antiphon.shared_schemas.audio import OUTPUT_RATE
from antiphon.shared_schemas.entries import ResultOut
from antiphon.shared_schemas.realtime_messages import AudioDelta, Listen

_MOMENT = bytes(4 * OUTPUT_RATE // 100)
"""10 ms of silence, for words at the end of a turn that have no sound."""


class Speaking:
    """Keeps words that came without sound until the next sound, or the end of the turn."""

    def __init__(self) -> None:
        self.words = ""

    def messages(self, entry: ResultOut) -> list[AudioDelta | Listen]:
        """The events of one unit; none when it has words only and the turn goes on."""
        if entry.is_listen:
            kept = [self._delta(entry, _MOMENT, ends=True)] if self.words else []
            return [*kept, Listen(kv_cache_length=entry.kv_cache_length)]
        self.words += entry.text
        if entry.audio or entry.end_of_turn:
            return [self._delta(entry, entry.audio or _MOMENT, ends=entry.end_of_turn)]
        return []

    def _delta(self, entry: ResultOut, audio: bytes, *, ends: bool) -> AudioDelta:
        words, self.words = self.words, ""
        return AudioDelta(
            text=words,
            audio=audio,
            end_of_turn=ends,
            kv_cache_length=entry.kv_cache_length,
        )
