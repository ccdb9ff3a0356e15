"""Small video files for tests, made with PyAV."""

import io
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame

from antiphon.shared_schemas.audio import INPUT_RATE, Samples


def video(
    *,
    seconds: float = 2.0,
    rate: int = 10,
    size: tuple[int, int] = (64, 48),
    sound: Samples | None = None,
    kind: str = "mp4",
    times: Sequence[int] | None = None,
    picture: np.ndarray[Any, Any] | None = None,
) -> bytes:
    """Grey pictures that get lighter from frame to frame; `sound` is float32 at 16 kHz.

    `times` are those of the frames in 1/`rate` s; without them, a frame follows each 1/`rate` s.
    `picture` replaces the grey ones.
    """
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=kind) as container:
        pictures = container.add_stream("mpeg4" if kind == "mp4" else "vp8", rate=rate)
        pictures.width, pictures.height, pictures.pix_fmt = *size, "yuv420p"
        track = None
        if sound is not None:
            codec = "aac" if kind == "mp4" else "libopus"
            track = container.add_stream(codec, rate=INPUT_RATE, layout="mono")
        for index, time in enumerate(times or range(round(seconds * rate))):
            level = np.full((size[1], size[0], 3), (index * 10) % 256, dtype=np.uint8)
            frame = VideoFrame.from_ndarray(level if picture is None else picture, format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, rate)
            container.mux(pictures.encode(frame))
        container.mux(pictures.encode(None))
        if track is not None and sound is not None:
            for start in range(0, len(sound), 960):
                frame_audio = AudioFrame.from_ndarray(
                    sound[np.newaxis, start : start + 960], format="flt", layout="mono"
                )
                frame_audio.sample_rate, frame_audio.pts = INPUT_RATE, start
                frame_audio.time_base = Fraction(1, INPUT_RATE)
                container.mux(track.encode(frame_audio))
            container.mux(track.encode(None))
    return buffer.getvalue()


def boxes(data: bytes) -> dict[bytes, bytes]:
    """The outer boxes of an MP4 file by name, with their headers."""
    at, found = 0, dict[bytes, bytes]()
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found[data[at + 4 : at + 8]] = data[at : at + size]
        at += size
    return found


def index_first(data: bytes) -> bytes:
    """An MP4 file with `moov` in front of the media, as files for the web have it."""
    found = boxes(data)
    index = bytearray(found.pop(b"moov"))
    at = index.find(b"stco")
    while at >= 0:
        (count,) = struct.unpack_from(">I", index, at + 8)
        places = struct.unpack_from(f">{count}I", index, at + 12)
        struct.pack_into(f">{count}I", index, at + 12, *(place + len(index) for place in places))
        at = index.find(b"stco", at + 1)
    return b"".join([found.pop(b"ftyp"), bytes(index), *found.values()])


def without_ftyp(data: bytes, name: bytes) -> bytes:
    """As older QuickTime files begin: with another box of the same length."""
    size = len(boxes(data)[b"ftyp"])
    return struct.pack(">I4s", size, name) + bytes(size - 8) + data[size:]


def turned(data: bytes, a: int, b: int, c: int, d: int) -> bytes:
    """With this display matrix of the first track, in 1/65536."""
    changed = bytearray(data)
    at = data.index(b"tkhd") + 4 + 4 + 20 + 8 + 8
    changed[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 0x40000000)
    return bytes(changed)
