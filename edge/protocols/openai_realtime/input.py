"""What a client sends: kept while it waits for a worker, and its sound in pieces of 100 ms."""

from collections.abc import Callable

import numpy as np
import orjson
from msgspec.structs import replace

from antiphon.edge.media.audio_formats import AudioFormat, FormatDecoder
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples, pcm16_bytes
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.entries import ChunkIn, InEntry, ItemIn, RespondIn, SettingsIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

MAX_ENTRIES = 1000
MAX_BYTES = 8 * 1024 * 1024
MOST_SOUND_S = 60
CHUNK_BYTES = 5 * 2 * INPUT_RATE
_BYTES_PER_S = 2 * INPUT_RATE


class HeldInput:
    """Keeps what comes while the client waits, in order, within limits.

    The oldest sound is dropped: no worker has received it.
    """

    def __init__(self) -> None:
        self.entries: list[InEntry] = []
        self.dropped_ms = 0
        self._sound = 0
        self._bytes = 0

    def add(self, *entries: InEntry) -> None:
        """Raises InvalidInput, and keeps none of them, when there is too much."""
        others = [entry for entry in entries if not isinstance(entry, ChunkIn)]
        size = sum(map(_size, others))
        if others and (len(self.entries) >= MAX_ENTRIES or self._bytes + size > MAX_BYTES):
            text = (
                f"at most {MAX_ENTRIES} events with {MAX_BYTES >> 20} MiB are kept while the session "
                "waits"
            )
            raise InvalidInput(text, field="type", code=ErrorCode.INPUT_BACKPRESSURE)
        self._bytes += size
        for entry in entries:
            if isinstance(entry, ChunkIn):
                self._add_sound(entry)
            else:
                self.entries.append(entry)

    def remove(self, is_wanted: Callable[[InEntry], bool]) -> bool:
        """Remove the entries for which this is true; whether there was one."""
        removed = [entry for entry in self.entries if is_wanted(entry)]
        self.entries = [entry for entry in self.entries if not is_wanted(entry)]
        self._bytes -= sum(map(_size, removed))
        self._sound -= sum(len(entry.audio) for entry in removed if isinstance(entry, ChunkIn))
        return bool(removed)

    def _add_sound(self, chunk: ChunkIn) -> None:
        last = self.entries[-1] if self.entries else None
        if isinstance(last, ChunkIn) and len(last.audio) + len(chunk.audio) <= CHUNK_BYTES:
            self.entries[-1] = replace(last, audio=last.audio + chunk.audio)
        else:
            self.entries.append(chunk)
        self._sound += len(chunk.audio)
        while self._sound > MOST_SOUND_S * _BYTES_PER_S:
            oldest = next(entry for entry in self.entries if isinstance(entry, ChunkIn))
            self.entries.remove(oldest)
            self._sound -= len(oldest.audio)
            self.dropped_ms += len(oldest.audio) * 1000 // _BYTES_PER_S


def _size(entry: InEntry) -> int:
    """Bytes of what a client may send without end."""
    match entry:
        case ItemIn():
            return sum(map(len, entry.blobs)) + len(orjson.dumps(entry.content))
        case RespondIn():
            texts = len(orjson.dumps([entry.content, entry.refs]))
            return sum(map(len, entry.blobs)) + texts + _config_size(entry.config)
        case SettingsIn():
            return _config_size(entry.config) + len(entry.ref_audio)
    return 0


def _config_size(config: TurnsConfig) -> int:
    return len(config.instructions) + len(orjson.dumps(config.tools))


_LEAST_S = 0.1


class SoundInput:
    """Collects what the decoder has read. The machine takes it.

    The sound is decoded and resampled in pieces, not in each message.
    """

    def __init__(self, audio_format: AudioFormat) -> None:
        self._decoder = FormatDecoder(audio_format)
        self._raw = bytearray()
        self._decoded: list[Samples] = []

    def add(self, data: bytes, audio_format: AudioFormat) -> None:
        """Whole samples."""
        if audio_format is not self._decoder.format:
            self._decode()
            self._decoder = FormatDecoder(audio_format)
        self._raw += data

    def take(self, least_s: float = _LEAST_S) -> bytes:
        """16-bit PCM at 16 kHz; empty if there is less than `least_s` of it."""
        kind = self._decoder.format
        if not self._decoded and len(self._raw) < least_s * kind.rate * kind.width:
            return b""
        self._decode()
        samples, self._decoded = np.concatenate([SILENCE, *self._decoded]), []
        return pcm16_bytes(samples)

    def _decode(self) -> None:
        if self._raw:
            self._decoded.append(self._decoder.decode(bytes(self._raw)))
            self._raw.clear()
