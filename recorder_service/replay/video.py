"""Writes `merged_replay.mp4`: the frames at their times, the replay's sound, the words as subtitles.

H.264 and AAC, with the index in front, so that browsers play it while it loads. A frame stays until
the next readable one. One pass over the finished WAV holds a second of sound in memory at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path

import av
import numpy as np
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.subtitles.stream import SubtitleStream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image

from antiphon.recorder_service.journal.files import atomic_file
from antiphon.recorder_service.manifest.plan import Caption, ReplayPlan, TimedFrame
from antiphon.recorder_service.replay.frames import Size, canvas_size, decode_frames, on_canvas
from antiphon.recorder_service.replay.mix import StopCheck, read_seconds
from antiphon.shared_schemas.audio import OUTPUT_RATE

_MS = Fraction(1, 1000)
_KEY_FRAME_EVERY = 10
_LAST_FRAME_MS = 1000
_LONGEST_CAPTION = 1000
_ASS_HEADER = b"""[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, Alignment
Style: Default,Sans,16,&Hffffff,2

[Events]
Format: Layer, Start, End, Style, Text
"""
"""The encoder requires a header, though the track carries plain text."""

_Shown = tuple[int, Image.Image]
"""The time (ms) from which a frame is shown, and the frame on its canvas."""


def write_video(folder: Path, name: str, sound: str, plan: ReplayPlan, check: StopCheck) -> bool:
    """Write the MP4 below a session directory, whole or not at all; False when no frame is readable.

    `sound` names the finished replay WAV. Raises OSError, also for failures of FFmpeg.
    """
    found = _on_one_canvas(decode_frames(folder, plan.frames, check))
    if found is None:
        return False
    size, shown = found
    with atomic_file(folder / name) as temporary:
        options = {"movflags": "+faststart"}
        with av.open(str(temporary), "w", format="mp4", options=options) as container:
            _Video(container, size, plan, shown).write(folder / sound, check)
    return True


def _on_one_canvas(
    frames: Iterator[tuple[TimedFrame, Image.Image]],
) -> tuple[Size, Iterator[_Shown]] | None:
    """All frames in the size of the first one, decoded lazily; None when there is none."""
    first = next(frames, None)
    if first is None:
        return None
    size = canvas_size(first[1])
    begin = (first[0].at_ms, on_canvas(first[1], size))
    return size, chain([begin], ((p.at_ms, on_canvas(image, size)) for p, image in frames))


class _Video:
    def __init__(
        self, container: OutputContainer, size: Size, plan: ReplayPlan, shown: Iterator[_Shown]
    ) -> None:
        self._container = container
        self._frames = _frame_stream(container, size)
        self._sound: AudioStream = container.add_stream("aac", rate=OUTPUT_RATE, layout="stereo")
        self._words = _caption_stream(container) if plan.captions else None
        self._ends_ms = round(plan.seconds * 1000)
        self._shown = shown
        self._next = next(shown, None)
        self._captions = deque(plan.captions)

    def write(self, wav: Path, check: StopCheck) -> None:
        """Mux everything in order of time, a second at a time."""
        resampler = AudioResampler(format="fltp", layout="stereo", rate=OUTPUT_RATE)
        for second, block in enumerate(read_seconds(wav)):
            check()
            self._show(until_ms=(second + 1) * 1000)
            for frame in resampler.resample(block):
                self._container.mux(self._sound.encode(frame))
        self._show(until_ms=None)
        self._container.mux(self._frames.encode(None))
        self._container.mux(self._sound.encode(None))

    def _show(self, until_ms: int | None) -> None:
        while self._next and (until_ms is None or self._next[0] < until_ms):
            self._add_picture(*self._next)
        while self._captions and (until_ms is None or self._captions[0].start_ms < until_ms):
            self._add_caption(self._captions.popleft())

    def _add_picture(self, at_ms: int, image: Image.Image) -> None:
        self._next = next(self._shown, None)
        gone_ms = self._next[0] if self._next else max(at_ms + _LAST_FRAME_MS, self._ends_ms)
        frame = VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
        frame.pts, frame.time_base = at_ms, _MS
        for packet in self._frames.encode(frame):
            packet.duration = gone_ms - at_ms
            self._container.mux(packet)

    def _add_caption(self, caption: Caption) -> None:
        assert self._words is not None
        text = caption.text[:_LONGEST_CAPTION].encode()
        packet = Packet(len(text).to_bytes(2, "big") + text)
        packet.stream, packet.time_base = self._words, _MS
        packet.pts = packet.dts = caption.start_ms
        packet.duration = caption.end_ms - caption.start_ms
        self._container.mux(packet)


def _frame_stream(container: OutputContainer, size: Size) -> VideoStream:
    """Each packet holds one frame: no frame waits for a later one."""
    stream: VideoStream = container.add_stream("libx264", rate=1000)
    stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
    stream.time_base = _MS
    codec = stream.codec_context
    codec.time_base, codec.gop_size, codec.max_b_frames = _MS, _KEY_FRAME_EVERY, 0
    codec.thread_count = 1
    codec.options = {"preset": "veryfast", "crf": "26", "tune": "zerolatency"}
    return stream


def _caption_stream(container: OutputContainer) -> SubtitleStream:
    stream: SubtitleStream = container.add_stream("mov_text")
    stream.time_base = _MS
    stream.codec_context.subtitle_header = _ASS_HEADER
    return stream
