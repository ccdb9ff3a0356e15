"""Decodes a video file into JPEG frames and audio, within fixed limits."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

if TYPE_CHECKING:  # at run time only for a video: FFmpeg's libraries are large
    from av.audio.frame import AudioFrame
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame

_JPEG_QUALITY = 85
_ROUNDING_S = 1e-6


class InvalidVideo(ValueError):
    """The video cannot be read or exceeds a limit; the message says which."""


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """Limits of one video.

    A longer video than `seconds`, or a frame of more than `pixels`, is rejected. Of more than
    `frames` frames only some are used. `side` is the longer side of the JPEGs, in pixels.
    """

    seconds: float = 120.0
    frames: int = 64
    pixels: int = 4096 * 2304
    side: int = 1024


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
        if self._cancelled():
            raise EngineError("the client no longer waits for this video")
        self._packets -= 1
        self._pixels -= pixels
        if self._packets < 0 or self._pixels < 0:
            packets, most = self._limits
            raise InvalidVideo(
                f"the request's videos have more than {packets} frames and audio packets, or more than "
                f"{most:.3g} pixels in total; send fewer frames a second, smaller frames, or a shorter video"
            )


@dataclass(frozen=True, slots=True, eq=False)
class VideoClip:
    """`frames` are JPEG files, `times` their positions in seconds; `audio` is float32 at 16 kHz."""

    frames: tuple[bytes, ...] = field(repr=False)
    times: tuple[float, ...]
    audio: Samples = field(repr=False)


def decode_video(
    data: bytes,
    stack_frames: int = 1,
    limits: VideoLimits | None = None,
    *,
    with_frames: bool = True,
    budget: VideoBudget | None = None,
) -> VideoClip:
    """The first frame at or after each 1/`stack_frames` of a second, and the audio (empty if none).

    If there are more than `limits.frames`, every second one is dropped until they fit. Raises
    InvalidVideo, and the errors of `budget`.
    """
    import av

    limits, budget = limits or VideoLimits(), budget or VideoBudget()
    frames, sound = _Frames(stack_frames, limits), _Sound(limits)
    try:
        with av.open(
            io.BytesIO(data), "r", format=_format(data), metadata_errors="replace"
        ) as container:
            _read(container, frames if with_frames else None, sound, budget)
    except av.FFmpegError as error:
        raise InvalidVideo(f"the video cannot be read: {error.strerror}") from error
    return VideoClip(tuple(frames.jpegs), tuple(frames.times), sound.samples())


def _format(data: bytes) -> str:
    """The container format by its first bytes. Formats that can refer to other files are rejected."""
    if data[4:8] == b"ftyp":
        return "mp4"
    if data.startswith(b"\x1aE\xdf\xa3"):
        return "matroska"
    if data.startswith(b"RIFF") and data[8:12] == b"AVI ":
        return "avi"
    if data.startswith(b"OggS"):
        return "ogg"
    raise InvalidVideo("the video is neither MP4, WebM, Matroska, AVI nor Ogg")


def _read(
    container: InputContainer, frames: _Frames | None, sound: _Sound, budget: VideoBudget
) -> None:
    from av.audio.frame import AudioFrame
    from av.video.frame import VideoFrame

    video = container.streams.video[0] if container.streams.video else None
    audio = container.streams.audio[0] if container.streams.audio else None
    if video is None or video.codec_context is None:
        raise InvalidVideo("the file has no video stream, or its codec is unknown")
    sound_stream = audio if audio is not None and audio.codec_context is not None else None
    wanted = [stream for stream in (video if frames else None, sound_stream) if stream]
    if frames:
        frames.check_size(video.width, video.height)
        video.codec_context.thread_count = 1
    for packet in container.demux(wanted) if wanted else ():
        budget.spend(_pixels(packet))
        for decoded in packet.decode():
            if isinstance(decoded, VideoFrame) and frames:
                frames.take(decoded)
            elif isinstance(decoded, AudioFrame):
                sound.take(decoded)
    sound.finish()


def _pixels(packet: Packet[Any]) -> int:
    """Pixels of a video packet's frame; 0 for audio."""
    from av.video.stream import VideoStream

    stream = packet.stream
    return stream.width * stream.height if isinstance(stream, VideoStream) else 0


class _Frames:
    """Keeps the frames that are due, and drops every second one when there are too many."""

    def __init__(self, per_second: int, limits: VideoLimits) -> None:
        self.jpegs: list[bytes] = []
        self.times: list[float] = []
        self._limits = limits
        self._interval = 1.0 / max(1, per_second)
        self._due = 0.0

    def check_size(self, width: int, height: int) -> None:
        if width * height > self._limits.pixels:
            raise InvalidVideo(f"the video's frames are too large: {width} x {height}")

    def take(self, frame: VideoFrame) -> None:
        self.check_size(frame.width, frame.height)
        time_s = frame.time or 0.0
        _check_length(time_s, self._limits)
        if time_s + _ROUNDING_S < self._due:
            return
        self.jpegs.append(_jpeg(frame, self._limits.side))
        self.times.append(round(time_s, 3))
        self._due += self._interval
        if len(self.jpegs) > self._limits.frames:
            self.jpegs, self.times = self.jpegs[::2], self.times[::2]
            self._interval *= 2
            self._due = self.times[-1] + self._interval


class _Sound:
    """Collects the audio as 16 kHz mono."""

    def __init__(self, limits: VideoLimits) -> None:
        from av.audio.resampler import AudioResampler

        self._limits = limits
        self._resampler = AudioResampler(format="flt", layout="mono", rate=INPUT_RATE)
        self._parts: list[Samples] = []
        self._count = 0

    def take(self, frame: AudioFrame) -> None:
        frame.pts = None  # closes gaps: only the words matter, not their times
        self._keep(self._resampler.resample(frame))

    def finish(self) -> None:
        if self._parts:
            self._keep(self._resampler.resample(None))

    def samples(self) -> Samples:
        return np.concatenate([SILENCE, *self._parts])

    def _keep(self, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            self._parts.append(frame.to_ndarray().reshape(-1).astype(np.float32))
            self._count += len(self._parts[-1])
        _check_length(self._count / INPUT_RATE, self._limits)


def _check_length(time_s: float, limits: VideoLimits) -> None:
    if time_s > limits.seconds:
        raise InvalidVideo(f"the video is longer than {limits.seconds:g} s")


def _jpeg(frame: VideoFrame, side: int) -> bytes:
    image = Image.fromarray(frame.to_ndarray(format="rgb24"))
    image.thumbnail((side, side))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return buffer.getvalue()
