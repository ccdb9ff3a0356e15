"""Writes `merged_replay.wav`: both sides of a session on one time line, streamed from files on disk.

16 bits, 24 kHz, the user left and the model right, so that neither can drown or clip the other. The
model's samples are those that were sent; the user's are resampled from 16 kHz.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import soxr
from av.audio.frame import AudioFrame
from numpy.typing import NDArray

from antiphon.recorder_service.atomic_files import atomic_file
from antiphon.recorder_service.manifest.plan import PlacedClip, ReplayPlan
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    Samples,
    to_pcm16,
    without_zeros,
)
from antiphon.shared_schemas.recording import REPLAY_WAV
from antiphon.shared_schemas.wav import HEADER_BYTES, wav_header

Pcm16 = NDArray[np.int16]
StopCheck = Callable[[], None]
"""Called once per block; raises MergeStopped when the work must stop."""

_BLOCK_S = 1


def write_replay(folder: Path, plan: ReplayPlan, check: StopCheck) -> None:
    """Write the WAV below a session directory, whole or not at all. Holds seconds in memory.

    Raises OSError, and ValueError when it would be longer than a WAV can be.
    """
    frames = math.ceil(plan.seconds * OUTPUT_RATE)
    header = wav_header(4 * frames, OUTPUT_RATE, channels=2)
    with atomic_file(folder / REPLAY_WAV) as temporary, temporary.open("xb") as file:
        file.write(header)
        for block in _stereo(folder, plan, frames):
            check()
            file.write(block.astype("<i2", copy=False).tobytes())


def _stereo(folder: Path, plan: ReplayPlan, frames: int) -> Iterator[Pcm16]:
    """Blocks of shape (n, 2), `frames` samples in all."""
    model = _channel(folder, plan.model, frames, OUTPUT_RATE)
    for left, right in zip(_user_channel(folder, plan.user, frames), model, strict=True):
        yield np.stack([left, right], axis=1)


def _user_channel(folder: Path, clips: Iterable[PlacedClip], frames: int) -> Iterator[Pcm16]:
    """Resample from 16 to 24 kHz block by block, with the resampler's delay compensated."""
    resampler = soxr.ResampleStream(INPUT_RATE, OUTPUT_RATE, 1, dtype="float32")
    ahead: Samples = np.zeros(0, dtype=np.float32)
    source = _channel(folder, clips, math.ceil(frames * INPUT_RATE / OUTPUT_RATE), INPUT_RATE)
    for length in _lengths(frames, OUTPUT_RATE):
        while len(ahead) < length:
            block = next(source, None)
            sound = np.zeros(0, np.float32) if block is None else block.astype(np.float32) / 32767
            more = resampler.resample_chunk(sound, last=block is None)
            if block is None:
                more = np.pad(more, (0, max(0, length - len(ahead) - len(more))))
            ahead = np.concatenate([ahead, more])
        yield to_pcm16(ahead[:length])
        ahead = ahead[length:]


def _channel(folder: Path, clips: Iterable[PlacedClip], frames: int, rate: int) -> Iterator[Pcm16]:
    """A channel's blocks of a second each, silent between clips and where a file is missing."""
    waiting = deque(clips)
    start = 0
    for length in _lengths(frames, rate):
        block = np.zeros(length, dtype=np.int16)
        stop = start + length
        while waiting and waiting[0].start < stop:
            clip = waiting[0]
            begin, end = max(start, clip.start), min(stop, clip.stop)
            sound = _samples(folder / clip.file, begin - clip.start, end - begin)
            block[begin - start : begin - start + len(sound)] = sound
            if clip.stop > stop:
                break
            waiting.popleft()
        yield block
        start = stop


def _lengths(frames: int, rate: int) -> Iterator[int]:
    block = rate * _BLOCK_S
    for start in range(0, frames, block):
        yield min(block, frames - start)


def _samples(path: Path, first: int, count: int) -> Pcm16:
    """Samples of a WAV or PCM file that this recorder wrote; fewer when the file is shorter."""
    try:
        with path.open("rb") as file:
            file.seek(2 * first + (0 if path.suffix == ".pcm" else HEADER_BYTES))
            data = file.read(2 * count)
    except FileNotFoundError:
        return np.zeros(0, dtype=np.int16)
    return np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2").astype(np.int16, copy=False)


def read_seconds(wav: Path, *, for_opus: bool = False) -> Iterator[AudioFrame]:
    """The finished replay, a second at a time, for FFmpeg's encoders."""
    start = 0
    with wav.open("rb") as file:
        file.seek(HEADER_BYTES)
        while data := file.read(4 * OUTPUT_RATE):
            samples = np.frombuffer(data, dtype="<i2").reshape(1, -1)
            if for_opus:
                samples = without_zeros(samples)
            frame = AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
            frame.sample_rate, frame.pts, frame.time_base = (
                OUTPUT_RATE,
                start,
                Fraction(1, OUTPUT_RATE),
            )
            start += frame.samples
            yield frame
