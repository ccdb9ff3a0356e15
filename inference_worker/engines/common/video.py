"""Decodes the audio and the frames of a video file, within fixed limits."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import Image

from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.file_kinds import FileKind, file_kind

if TYPE_CHECKING:  # at run time only for a video: FFmpeg's libraries are large
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_ROUNDING_S = 1e-6

_DEMUXERS = {
    FileKind.MP4: "mp4",
    FileKind.WEBM: "matroska",
    FileKind.MATROSKA: "matroska",
    FileKind.AVI: "avi",
    FileKind.OGG: "ogg",
}
"""FFmpeg's name of each container."""


_UPRIGHT = {
    (False, False): None,
    (False, True): Image.Transpose.FLIP_TOP_BOTTOM,
    (True, False): Image.Transpose.FLIP_LEFT_RIGHT,
    (True, True): Image.Transpose.ROTATE_180,
}
"""By the signs of a and d of a display matrix."""
_SIDEWAYS = {
    (False, False): Image.Transpose.TRANSPOSE,
    (False, True): Image.Transpose.ROTATE_270,
    (True, False): Image.Transpose.ROTATE_90,
    (True, True): Image.Transpose.TRANSVERSE,
}
"""By the signs of b and c. Pillow turns to the left."""


class InvalidVideo(ValueError):
    """The video cannot be read or exceeds a limit; the message says which."""


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """Limits of one video.

    A longer video than `seconds`, or a frame of more than `pixels`, is rejected. `side` is the longer
    side of the pictures, in pixels: larger frames are scaled down.
    """

    seconds: float = 120.0
    pixels: int = 4096 * 2304
    side: int = 1920


_LIMITS = VideoLimits()


class VideoBudget:
    """Limits the decoding cost of all videos of one request.

    The defaults allow two minutes of 1920 x 1080 at 60 frames a second, with audio. `cancelled` is
    called before each packet and returns True if the client has left.
    """

    def __init__(
        self,
        packets: int = 100_000,
        pixels: int = 120 * 60 * 1920 * 1080,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits = packets, pixels
        self._packets, self._pixels = packets, pixels
        self._cancelled = cancelled

    def spend(self, pixels: int) -> None:
        """Charge one packet of `pixels`. Raises InvalidVideo over the limit, EngineError if cancelled."""
        self.check_cancelled()
        self._packets -= 1
        self._pixels -= pixels
        if self._packets < 0 or self._pixels < 0:
            packets, most = self._limits
            raise InvalidVideo(
                f"the request's videos have more than {packets} frames and audio packets, or more than "
                f"{most:.3g} pixels in total; send fewer frames a second, smaller frames, or a shorter video"
            )

    def check_cancelled(self) -> None:
        if self._cancelled():
            raise EngineError("the client no longer waits for this video")


@dataclass(frozen=True, slots=True, eq=False)
class VideoTrack:
    """`seconds` from the first frame to the end of the last; `audio` is float32 at 16 kHz, empty if none."""

    seconds: float
    audio: Samples = field(repr=False)


def read_track(
    data: bytes,
    budget: VideoBudget | None = None,
    limits: VideoLimits = _LIMITS,
    *,
    with_frames: bool = True,
) -> VideoTrack:
    """The length and the audio of a video. `with_frames` measures the frames and charges for them, but
    decodes none. Raises InvalidVideo, and the errors of `budget`.
    """
    budget = budget or VideoBudget()
    with _opened(data) as container:
        video, audio = _streams(container)
        span, sound = _Span(video), _Sound(limits)
        if with_frames:
            _check_size(video.width, video.height, limits)
        wanted = [*([video] if with_frames else []), *([audio] if audio else [])]
        for packet in _packets(container, wanted):
            if packet.stream is audio:
                budget.spend(0)
                with _skipping_damage():
                    sound.take(packet)
            else:
                budget.spend(video.width * video.height)
                span.take(packet)
                _check_length(span.seconds, limits)
        sound.finish(None if audio is None else _seconds(audio.duration, audio))
        return VideoTrack(span.seconds, sound.samples())


def frames_at(
    data: bytes,
    times: Iterable[float],
    budget: VideoBudget | None = None,
    limits: VideoLimits = _LIMITS,
) -> Iterator[tuple[float, Image.Image]]:
    """The RGB frame that is shown at each of `times`, in ascending seconds after the first frame.

    A time at which the last yielded frame is still shown is left out. Frames cost nothing here:
    `read_track` has charged for them. Raises like `read_track`.
    """
    budget, due = budget or VideoBudget(), iter(times)
    with _opened(data) as container:
        video, _ = _streams(container)
        video.codec_context.thread_count = 1
        time, shown, origin = next(due, None), None, None
        for frame in _frames(container, video):
            budget.check_cancelled()
            _check_size(frame.width, frame.height, limits)
            origin = (frame.time or 0.0) if origin is None else origin
            began = (frame.time or 0.0) - origin - _ROUNDING_S
            while time is not None and time < began:
                if shown is not None:
                    yield time, _picture(shown, limits.side)
                time, shown = next(due, None), None
            if time is None:
                return
            shown = frame
        if shown is not None and time is not None:
            yield time, _picture(shown, limits.side)


@contextmanager
def _opened(data: bytes) -> Iterator[InputContainer]:
    import av

    try:
        with av.open(
            io.BytesIO(data), "r", format=_format(data), metadata_errors="replace"
        ) as container:
            yield container
    except av.FFmpegError as error:
        raise InvalidVideo(
            f"the video cannot be read: {error.strerror}; it is damaged or cut off"
        ) from error


def _packets(container: InputContainer, wanted: Sequence[Stream]) -> Iterator[Packet[Any]]:
    """The packets that can be read. A file that was cut off ends earlier."""
    import av

    read = False
    try:
        for packet in container.demux(*wanted) if wanted else ():
            yield packet
            read = read or packet.size > 0
    except av.FFmpegError:
        if not read:
            raise


def _frames(container: InputContainer, video: VideoStream) -> Iterator[VideoFrame]:
    """The frames that can be decoded. Raises InvalidVideo if there are none."""
    decoded = False
    for packet in _packets(container, [video]):
        frames: list[VideoFrame] = []
        with _skipping_damage():
            frames = packet.decode()
        decoded = decoded or bool(frames)
        yield from frames
    if not decoded:
        raise InvalidVideo("no frame of the video can be decoded: it is damaged or cut off")


@contextmanager
def _skipping_damage() -> Iterator[None]:
    """Players skip a packet that cannot be decoded, too."""
    import av

    with suppress(av.error.InvalidDataError):
        yield


def _format(data: bytes) -> str:
    """The container format by its first bytes. Formats that can refer to other files are rejected."""
    kind = file_kind(data)
    if kind not in _DEMUXERS:
        what = f", it is {kind}" if kind else ""
        raise InvalidVideo(f"the video is neither MP4, MOV, WebM, Matroska, AVI nor Ogg{what}")
    return _DEMUXERS[kind]


def _streams(container: InputContainer) -> tuple[VideoStream, AudioStream | None]:
    """The first video stream, and the first audio stream if its codec is known."""
    video = container.streams.video[0] if container.streams.video else None
    audio = container.streams.audio[0] if container.streams.audio else None
    if video is None or video.codec_context is None:
        only = ", only sound" if container.streams.audio else ", or its codec is unknown"
        raise InvalidVideo(f"the file has no video stream{only}")
    return video, audio if audio is not None and audio.codec_context is not None else None


class _Span:
    """The time from the start of the first frame to the end of the last, from packets in any order."""

    def __init__(self, video: VideoStream) -> None:
        self._video = video
        self._frame_s = 1 / float(video.average_rate) if video.average_rate else 0.0
        self._first: float | None = None
        self._end = 0.0

    @property
    def seconds(self) -> float:
        return 0.0 if self._first is None else self._end - self._first

    def take(self, packet: Packet[Any]) -> None:
        start = _seconds(packet.pts if packet.pts is not None else packet.dts, self._video)
        if start is None:  # the flush packet
            return
        self._first = start if self._first is None else min(start, self._first)
        length = _seconds(packet.duration, self._video) or self._frame_s
        self._end = max(self._end, start + length)


class _Sound:
    """Collects the audio as 16 kHz mono, rounded to 16 bits like the audio that MiniCPM-o was given."""

    def __init__(self, limits: VideoLimits) -> None:
        from av.audio.resampler import AudioResampler

        self._limits = limits
        self._resampler = AudioResampler(format="s16", layout="mono", rate=INPUT_RATE)
        self._parts: list[Samples] = []
        self._count = 0
        self._length: int | None = None

    def take(self, packet: Packet[Any]) -> None:
        for frame in cast("list[AudioFrame]", packet.decode()):
            frame.pts = None  # closes gaps: only the words matter, not their times
            self._keep(self._resampler.resample(frame))

    def finish(self, seconds: float | None) -> None:
        """`seconds` is the length of the stream if the file says it: what follows is the codec's padding."""
        if self._parts:
            self._keep(self._resampler.resample(None))
        self._length = round(seconds * INPUT_RATE) if seconds else None

    def samples(self) -> Samples:
        return np.concatenate([SILENCE, *self._parts])[: self._length]

    def _keep(self, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            self._parts.append(frame.to_ndarray().reshape(-1).astype(np.float32) / 32768.0)
            self._count += len(self._parts[-1])
        _check_length(self._count / INPUT_RATE, self._limits)


def _seconds(ticks: int | None, stream: VideoStream | AudioStream) -> float | None:
    return None if ticks is None or stream.time_base is None else float(ticks * stream.time_base)


def _check_size(width: int, height: int, limits: VideoLimits) -> None:
    if width * height > limits.pixels:
        raise InvalidVideo(f"the video's frames are too large: {width} x {height}")


def _check_length(time_s: float, limits: VideoLimits) -> None:
    if time_s > limits.seconds + _ROUNDING_S:
        raise InvalidVideo(f"the video is longer than {limits.seconds:g} s")


def _picture(frame: VideoFrame, side: int) -> Image.Image:
    image = Image.fromarray(frame.to_ndarray(format="rgb24"))
    image.thumbnail((side, side))
    turn = _turn(frame)
    return image if turn is None else image.transpose(turn)


def _turn(frame: VideoFrame) -> Image.Transpose | None:
    """How a player turns the frame: a phone that is held upright writes sideways frames and a matrix.

    The matrix maps (x, y) to (a x + c y, b x + d y). It is rounded to quarters of a turn.
    """
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return None
    a, b, _, c, d = struct.unpack_from("=5i", bytes(cast("Any", matrix)))
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return _UPRIGHT[a < 0, d < 0]
    return _SIDEWAYS[b < 0, c < 0]
