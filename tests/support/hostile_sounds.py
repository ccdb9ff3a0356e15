"""Sound files that attack a decoder: what they hold is larger, longer or elsewhere than it looks."""

import io
from functools import cache

import av
import numpy as np
from av.audio.frame import AudioFrame


def sound_file(
    form: str, codec: str, seconds: int, *, rate: int = 48_000, layout: str = "mono"
) -> bytes:
    """A file of silence."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        channels = len(stream.codec_context.layout.channels)
        second = np.zeros((1, rate * channels), "<i2")
        for _ in range(seconds):
            frame = AudioFrame.from_ndarray(second, "s16", layout)
            frame.sample_rate = rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def _long_silence(rate: int, layout: str, times: int) -> bytes:
    """FLAC of ten seconds, of which the frames are repeated."""
    parts = sound_file("flac", "flac", 10, rate=rate, layout=layout)
    begin = parts.index(b"\xff\xf8", 42)
    return parts[:begin] + parts[begin:] * times


@cache
def much_work() -> bytes:
    """Less than a megabyte that takes seconds: 192 kHz in eight channels, for ten minutes."""
    return _long_silence(192_000, "7.1", 59)


@cache
def hostile_sounds() -> dict[str, tuple[bytes, str]]:
    """Each file, and a part of what is said about it."""
    mp3 = sound_file("mp3", "libmp3lame", 2)
    return {
        "expands a thousand times": (_long_silence(48_000, "mono", 70), "longer than 600 s"),
        "cut off in its header": (sound_file("flac", "flac", 1)[:20], "damaged or incomplete"),
        "no MP3 behind its tag": (b"ID3\x04\0\0\0\0\0\0" + b"\x00" * 5000, "damaged or incomplete"),
        "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG picture"),
        "a playlist": (b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:1/a.mp3\n", "not a sound file"),
        "a list of files": (b"ffconcat version 1.0\nfile /etc/passwd\n", "not a sound file"),
        "a description of a stream": (b"v=0\nc=IN IP4 127.0.0.1\nm=audio 1 RTP/AVP 0\n", "not a"),
        "an address in a film": (_film_elsewhere(), "no sound track"),
        "a track of nothing": (
            b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm" + b"\xae\x80" * 500_000,
            "damaged or incomplete",
        ),
        "MP3 that ends": (mp3[:30], "damaged or incomplete"),
    }


def _film_elsewhere() -> bytes:
    """QuickTime with a reference to another file, as `rmra` and `dref` have it."""
    url = b"http://127.0.0.1:1/a.mp4\0"
    rdrf = _box(b"rdrf", bytes(4) + b"url " + len(url).to_bytes(4, "big") + url)
    return _box(b"ftyp", b"qt  " + bytes(8)) + _box(b"moov", _box(b"rmra", _box(b"rmda", rdrf)))


def _box(name: bytes, data: bytes) -> bytes:
    return (len(data) + 8).to_bytes(4, "big") + name + data
