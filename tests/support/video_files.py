"""Small video files for tests, made with PyAV."""

from __future__ import annotations

import io
from fractions import Fraction

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
) -> bytes:
    """Grey pictures that get lighter from frame to frame; `sound` is float32 at 16 kHz."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=kind) as container:
        pictures = container.add_stream("mpeg4" if kind == "mp4" else "vp8", rate=rate)
        pictures.width, pictures.height, pictures.pix_fmt = *size, "yuv420p"
        track = None
        if sound is not None:
            codec = "aac" if kind == "mp4" else "libopus"
            track = container.add_stream(codec, rate=INPUT_RATE, layout="mono")
        for index in range(round(seconds * rate)):
            level = np.full((size[1], size[0], 3), (index * 10) % 256, dtype=np.uint8)
            frame = VideoFrame.from_ndarray(level, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, rate)
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
