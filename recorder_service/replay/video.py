"""Writes `merged_replay.mp4`: the frames at their times, the replay's sound, the words as subtitles.

H.264 and AAC, with the index in front, so that browsers play it while it loads. A frame stays until
the next readable one. One pass over the finished WAV holds a second of sound in memory at a time.
"""

import io
from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path

import av
import numpy as np
import structlog
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.subtitles.stream import SubtitleStream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image, ImageOps, PngImagePlugin

from antiphon.recorder_service.atomic_files import atomic_file
from antiphon.recorder_service.manifest.plan import Caption, ReplayPlan, TimedFrame
from antiphon.recorder_service.replay.mix import StopCheck, read_seconds
from antiphon.shared_schemas.audio import OUTPUT_RATE
from antiphon.shared_schemas.recording import REPLAY_VIDEO, REPLAY_WAV

log = structlog.get_logger()

LONGEST_SIDE = 1280
SHORTEST_MS = 100
"""The shortest time a frame is shown: frames within that time are left out."""

_COST_PER_MS = 4096 * 4096 / 1000
"""The decoding budget of one millisecond of replay: a pixel costs 1, a byte of the file more."""

_BYTE_COST = 8
_MAX_PIXELS = 64_000_000
_MAX_SCANS = 32
"""A progressive JPEG has about ten scans; each one takes time for the whole picture."""

_SCAN = b"\xff\xda"

Size = tuple[int, int]
"""Width and height."""

PngImagePlugin.MAX_TEXT_MEMORY = 2**20  # unused here, and 60 KiB unpack to 64 MiB


def decode_frames(
    folder: Path, frames: Iterable[TimedFrame], check: StopCheck
) -> Iterator[tuple[TimedFrame, Image.Image]]:
    """The readable frames, upright, as many as the time budget allows. Raises OSError."""
    free_at_ms = 0.0
    for frame in frames:
        if frame.at_ms < free_at_ms:
            continue
        check()
        data = _content(folder / frame.file)
        image, pixels = _decoded(data, frame.file)
        cost = pixels + _BYTE_COST * len(data)
        free_at_ms = frame.at_ms + max(SHORTEST_MS, cost / _COST_PER_MS)
        if image is not None:
            yield frame, image


def canvas_size(first: Image.Image) -> Size:
    """The size of a video whose first frame is `first`: even and bounded."""
    return _even(*_fitted(first.size, (LONGEST_SIDE, LONGEST_SIDE), grow=False))


def on_canvas(image: Image.Image, size: Size) -> Image.Image:
    """The whole picture scaled to fit, on black."""
    if image.size == size:
        return image
    fitted = image.resize(_fitted(image.size, size, grow=True))
    canvas = Image.new("RGB", size)
    canvas.paste(fitted, ((size[0] - fitted.width) // 2, (size[1] - fitted.height) // 2))
    return canvas


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _decoded(data: bytes, name: str) -> tuple[Image.Image | None, int]:
    """The picture, None when it is unreadable; and the number of pixels decoded."""
    pixels = 0
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG", "WEBP")) as image:
            _refuse_costly(image, data)
            pixels = image.width * image.height
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
            return ImageOps.exif_transpose(image.convert("RGB")), pixels
    except Exception as error:  # noqa: BLE001 - Pillow raises anything on broken files
        log.info("frame_unreadable", file=name, error=repr(error))
        return None, pixels


def _refuse_costly(image: Image.Image, data: bytes) -> None:
    """Raises ValueError, before its pixels are read, for a picture that no camera makes."""
    if image.width * image.height > _MAX_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels are too many")
    if image.format == "JPEG" and data.count(_SCAN) > _MAX_SCANS:
        raise ValueError(f"more than {_MAX_SCANS} scans of one picture")


def _fitted(size: Size, into: Size, *, grow: bool) -> Size:
    scale = min(into[0] / size[0], into[1] / size[1])
    if not grow:
        scale = min(scale, 1.0)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _even(width: int, height: int) -> Size:
    """H.264 halves the colour planes in both directions."""
    return max(2, width // 2 * 2), max(2, height // 2 * 2)


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


def write_video(folder: Path, plan: ReplayPlan, check: StopCheck) -> None:
    """Write the MP4 with the sound of the finished WAV, whole or not at all; none without a readable frame.

    Raises OSError, also for failures of FFmpeg.
    """
    found = _on_one_canvas(decode_frames(folder, plan.frames, check))
    if found is None:
        return
    size, shown = found
    with atomic_file(folder / REPLAY_VIDEO) as temporary:
        options = {"movflags": "+faststart"}
        with av.open(str(temporary), "w", format="mp4", options=options) as container:
            _Video(container, size, plan, shown).write(folder / REPLAY_WAV, check)


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
