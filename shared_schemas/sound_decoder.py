"""Sound of files other than plain WAV, decoded by FFmpeg, which the extra `audio` installs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.file_kinds import FileKind
from antiphon.shared_schemas.wav import RATES

if TYPE_CHECKING:  # the base installation has no FFmpeg
    from av.audio.frame import AudioFrame
    from av.audio.resampler import AudioResampler
    from av.container import InputContainer

LONGEST_S = 2 * 3600.0
"""Of a sound file; as float32 at 16 kHz this takes 460 MB."""

_DEMUXERS = {
    FileKind.WAV: "wav",
    FileKind.WAVE64: "w64",
    FileKind.MP3: "mp3",
    FileKind.AAC: "aac",
    FileKind.OGG: "ogg",
    FileKind.FLAC: "flac",
    FileKind.MP4: "mp4",
    FileKind.WEBM: "matroska",
    FileKind.MATROSKA: "matroska",
    FileKind.AVI: "avi",
    FileKind.AIFF: "aiff",
    FileKind.AU: "au",
    FileKind.CAF: "caf",
    FileKind.AMR: "amr",
    FileKind.WMA: "asf",
}
"""FFmpeg's names. It never guesses the format: a playlist would make it open other files and addresses."""


def duration_text(seconds: float) -> str:
    """For people."""
    return f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds:g} s"


class UnreadableSound(ValueError):
    """The file is no sound, damaged or too long; the message says which."""


def decode_sound(data: bytes, kind: FileKind | None, longest_s: float = LONGEST_S) -> Samples:
    """The first sound track at 16 kHz, as far as it can be read. Raises UnreadableSound, ImportError."""
    if kind not in _DEMUXERS:
        formats = "WAV, FLAC, OGG, MP3, M4A, MP4 or WebM"
        what = f"; it is {kind}" if kind else ""
        raise UnreadableSound(f"it is not a sound file ({formats}){what}")
    import av

    parts: list[Samples] = [SILENCE]
    count = 0
    try:
        with av.open(
            io.BytesIO(data), "r", format=_DEMUXERS[kind], metadata_errors="replace"
        ) as container:
            for part in _mono_parts(container):
                parts.append(part)
                count += len(part)
                if count > longest_s * INPUT_RATE:
                    raise UnreadableSound(f"it is longer than {duration_text(longest_s)}")
    except av.FFmpegError as error:
        if not count:
            text = f"it looks like {kind}, but is damaged or incomplete: {error.strerror}"
            raise UnreadableSound(text) from error
    return np.concatenate(parts)


def _mono_parts(container: InputContainer) -> Iterator[Samples]:
    """Raises UnreadableSound without a sound track, av.FFmpegError where the file cannot be read further."""
    from av.audio.resampler import AudioResampler

    stream = next((s for s in container.streams.audio if s.codec_context is not None), None)
    if stream is None:
        raise UnreadableSound("it has no sound track, or its codec is unknown")
    resampler: AudioResampler | None = None
    shape: tuple[Any, ...] = ()
    for frame in _frames(container, stream.index):
        found = frame.format.name, frame.layout.name, frame.sample_rate
        if frame.sample_rate not in RATES:
            raise UnreadableSound(f"its header says {frame.sample_rate} Hz")
        if resampler is None or found != shape:  # joined files may change in the middle
            yield from _resample(resampler, None)
            resampler = AudioResampler(format="flt", rate=INPUT_RATE)
            shape = found
        frame.pts = None
        yield from _resample(resampler, frame)
    yield from _resample(resampler, None)


def _frames(container: InputContainer, index: int) -> Iterator[AudioFrame]:
    """Skips packets that are damaged; the error of the last one is raised if none could be decoded."""
    import av

    failure: av.FFmpegError | None = None
    decoded = False
    for packet in container.demux(container.streams[index]):
        try:
            frames = cast("list[AudioFrame]", packet.decode())
        except av.FFmpegError as error:
            failure = error
            continue
        decoded = decoded or bool(frames)
        yield from frames
    if failure is not None and not decoded:
        raise failure


def _resample(resampler: AudioResampler | None, frame: AudioFrame | None) -> Iterator[Samples]:
    """Mono parts. FFmpeg's own mix of two channels would be louder by 3 dB.

    Samples are interleaved: of eight planes, PyAV reads a ninth, which crashes.
    """
    for part in resampler.resample(frame) if resampler else ():
        channels = part.to_ndarray().reshape(-1, part.layout.nb_channels)
        yield channels.mean(axis=1, dtype=np.float32)
