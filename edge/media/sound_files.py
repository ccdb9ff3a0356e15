"""The sound of answers as files, for OpenAI's API.

All functions block: call them in a thread.
"""

from typing import Any

import av
from av.audio.frame import AudioFrame

from antiphon.edge.media.unseekable_file import UnseekableFile
from antiphon.shared_schemas.audio import (
    OUTPUT_RATE,
    PcmFormat,
    samples_from_bytes,
    to_pcm16,
    without_zeros,
)
from antiphon.shared_schemas.wav import wav_header

MEDIA_TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""Of the files that `SoundEncoder` writes."""

_CONTAINERS = {
    "mp3": ("mp3", "libmp3lame", {"write_xing": "0"}),
    "opus": ("ogg", "libopus", {}),
    "aac": ("adts", "aac", {}),
    "flac": ("flac", "flac", {}),
}
_SILENCE = bytes(OUTPUT_RATE // 10 * PcmFormat.F32.width)


class SoundEncoder:
    """Writes a file in pieces, without going back: its header does not know the length.

    A file without sound has 100 ms of silence: players refuse files without samples.
    """

    def __init__(self, form: str) -> None:
        self._form = form
        self._buffer = UnseekableFile()
        self._is_empty = True
        self._container: Any = None
        if form in _CONTAINERS:
            name, codec, options = _CONTAINERS[form]
            self._container = av.open(self._buffer, "w", format=name, options=options)
            self._stream = self._container.add_stream(codec, rate=OUTPUT_RATE, layout="mono")
        elif form == "wav":
            self._buffer.write(wav_header(None, OUTPUT_RATE))

    def feed(self, sound: bytes) -> bytes:
        """What this sound (float32 at 24 kHz) adds to the file."""
        self._is_empty = self._is_empty and not sound
        samples = to_pcm16(samples_from_bytes(sound, PcmFormat.F32))
        if self._form == "opus":
            samples = without_zeros(samples)
        if self._container is None:
            self._buffer.write(samples.tobytes())
        elif len(samples):
            frame = AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout="mono")
            frame.sample_rate = OUTPUT_RATE
            for packet in self._stream.encode(frame):
                self._container.mux(packet)
        return self._buffer.take()

    def end(self) -> bytes:
        """The end of the file."""
        silence = self.feed(_SILENCE) if self._is_empty else b""
        if self._container is not None:
            for packet in self._stream.encode(None):
                self._container.mux(packet)
            self._container.close()
        return silence + self._buffer.take()


def encode_sound(form: str, sound: bytes) -> bytes:
    """A whole file."""
    encoder = SoundEncoder(form)
    return encoder.feed(sound) + encoder.end()
