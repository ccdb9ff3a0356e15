"""Takes a video file apart: some of its frames as JPEG, all of its sound. Everything is bounded."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image

from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

_JPEG_QUALITY = 85
_ROUNDING_S = 1e-6


class InvalidVideo(ValueError):
    """The file is no video that can be read, or is beyond a limit; the message says which."""


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """`seconds` of play and `pixels` of a picture are refused beyond; of `frames` fewer are taken.

    `side` is the longer side of the JPEGs, in pixels.
    """

    seconds: float = 120.0
    frames: int = 64
    pixels: int = 4096 * 2304
    side: int = 1024


class VideoAllowance:
    """What all videos of one request may cost to decode; a short one may hold pictures without number.

    The defaults are two minutes of 60 pictures of 1920 x 1080 a second, and their sound. `unwanted` says
    whether the client has left; asked between two packets.
    """

    def __init__(
        self,
        packets: int = 100_000,
        pixels: int = 120 * 60 * 1920 * 1080,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits = packets, pixels
        self._packets, self._pixels = packets, pixels
        self._unwanted = unwanted

    def spend(self, pixels: int) -> None:
        """One packet more, with a picture of so many pixels. Raises InvalidVideo, EngineError once unwanted."""
        if self._unwanted():
            raise EngineError("nobody waits for this video any more")
        self._packets -= 1
        self._pixels -= pixels
        if self._packets < 0 or self._pixels < 0:
            packets, most = self._limits
            raise InvalidVideo(
                f"the request's videos hold more than {packets} pictures and pieces of sound, or {most:.3g} "
                "pixels in all their pictures; send fewer pictures a second, smaller ones, or a shorter video"
            )


@dataclass(frozen=True, slots=True, eq=False)
class VideoClip:
    """`frames` are JPEG files, each from its second in `times`; `audio` is float32 at 16 kHz."""

    frames: tuple[bytes, ...] = field(repr=False)
    times: tuple[float, ...]
    audio: Samples = field(repr=False)


def split_video(
    data: bytes,
    stack_frames: int = 1,
    limits: VideoLimits | None = None,
    *,
    with_frames: bool = True,
    allowance: VideoAllowance | None = None,
) -> VideoClip:
    """The first frame at or after each 1/`stack_frames` of a second, and the sound ("" if none).

    Where that would be more than `limits.frames`, every second one is left out, as often as
    needed. Raises InvalidVideo, and what `allowance` raises.
    """
    limits, allowance = limits or VideoLimits(), allowance or VideoAllowance()
    frames, sound = _Frames(stack_frames, limits), _Sound(limits)
    try:
        with av.open(
            io.BytesIO(data), "r", format=_format(data), metadata_errors="replace"
        ) as container:
            _read(container, frames if with_frames else None, sound, allowance)
    except av.FFmpegError as error:
        raise InvalidVideo(f"the video cannot be read: {error.strerror}") from error
    return VideoClip(tuple(frames.jpegs), tuple(frames.times), sound.samples())


def _format(data: bytes) -> str:
    """The container's name by its first bytes: formats that refer to other files are never opened."""
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
    container: InputContainer, frames: _Frames | None, sound: _Sound, allowance: VideoAllowance
) -> None:
    video = container.streams.video[0] if container.streams.video else None
    audio = container.streams.audio[0] if container.streams.audio else None
    if video is None or video.codec_context is None:
        raise InvalidVideo("the file holds no pictures, or in a form that nobody knows")
    heard = audio if audio is not None and audio.codec_context is not None else None
    wanted = [stream for stream in (video if frames else None, heard) if stream]
    if frames:
        frames.check_size(video.width, video.height)
        video.codec_context.thread_count = 1
    for packet in container.demux(wanted) if wanted else ():
        allowance.spend(_pixels(packet))
        for decoded in packet.decode():
            if isinstance(decoded, VideoFrame) and frames:
                frames.take(decoded)
            elif isinstance(decoded, AudioFrame):
                sound.take(decoded)
    sound.finish()


def _pixels(packet: Packet[Any]) -> int:
    """Of its picture; 0 of sound."""
    stream = packet.stream
    return stream.width * stream.height if isinstance(stream, VideoStream) else 0


class _Frames:
    """Keeps a frame when the next one is due; thins out what it has when it has too many."""

    def __init__(self, per_second: int, limits: VideoLimits) -> None:
        self.jpegs: list[bytes] = []
        self.times: list[float] = []
        self._limits = limits
        self._interval = 1.0 / max(1, per_second)
        self._due = 0.0

    def check_size(self, width: int, height: int) -> None:
        if width * height > self._limits.pixels:
            raise InvalidVideo(f"the video's pictures are too large: {width} x {height}")

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
    """Collects the sound at 16 kHz, one channel."""

    def __init__(self, limits: VideoLimits) -> None:
        self._limits = limits
        self._resampler = AudioResampler(format="flt", layout="mono", rate=INPUT_RATE)
        self._parts: list[Samples] = []
        self._count = 0

    def take(self, frame: AudioFrame) -> None:
        frame.pts = None  # gaps are closed: what is said counts, not when
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
