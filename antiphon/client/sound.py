"""Audio of programs: checks, sound files, and chunks at the times of a microphone."""

import asyncio
import shlex
import stat
import time
import wave
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from antiphon.client.errors import InvalidAudio, MissingFile
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples, pcm16_bytes
from antiphon.shared_schemas.file_kinds import FileKind, file_kind, find_mpeg_audio
from antiphon.shared_schemas.sound_decoder import LONGEST_S, UnreadableSound, decode_sound
from antiphon.shared_schemas.wav import CompressedWav, UnreadableWav, is_wav, open_wav

_LOUDEST = 1.5
"""Float audio may exceed full scale a little, for example after resampling."""

_MAX_FILE_BYTES = 2048 * 1024**2
"""Of a sound file: two hours of stereo at 32 bits and 32 kHz."""

_AS_ARRAY = {
    str: ": antiphon.client.sound.load_wav reads a file",
    Path: ": antiphon.client.sound.load_wav reads a file",
    bytes: ": numpy.frombuffer(audio, '<i2').astype(numpy.float32) / 32768 for 16-bit samples",
    list: ": numpy.array(audio, dtype=numpy.float32)",
    Iterator: ": pieces come from an asynchronous generator (async def)",
}
"""How to make an array of each type."""

_AS_FLOAT = {
    "uint8": "use (samples.astype(numpy.float32) - 128) / 128",
    "int16": "divide it: samples.astype(numpy.float32) / 32768",
    "int32": "divide it: samples.astype(numpy.float32) / 2147483648",
    "int64": "divide 16-bit values: samples.astype(numpy.float32) / 32768",
}
"""How to make float32 of each dtype."""


def check_samples(
    samples: Any,
    rate: int = INPUT_RATE,
    longest_s: float | None = None,
    name: str = "audio",
) -> Samples:
    """The same samples. Raises InvalidAudio unless they are float32 mono at 16 kHz within -1 and 1.

    `longest_s` is the limit of the edge for one message; None: not known. The errors begin with `name`.
    """
    if rate != INPUT_RATE:
        raise InvalidAudio(
            f"{name} has {rate} Hz, 16000 Hz are needed: resample it, such as with soxr"
        )
    if not isinstance(samples, np.ndarray):
        kind = type(samples)
        remedy = next((text for one, text in _AS_ARRAY.items() if issubclass(kind, one)), "")
        raise InvalidAudio(f"{name} is a {kind.__name__}, a numpy array is needed{remedy}")
    if samples.dtype != np.float32:
        remedy = _AS_FLOAT.get(samples.dtype.name, "use astype(numpy.float32)")
        raise InvalidAudio(f"{name} is {samples.dtype}, float32 is needed: {remedy}")
    if samples.ndim != 1:
        remedy = f": use mean(axis={int(np.argmin(samples.shape))})" if samples.ndim == 2 else ""
        text = f"mono with shape (n,) is needed{remedy}"
        raise InvalidAudio(f"{name} has the shape {samples.shape}, {text}")
    if not len(samples):
        raise InvalidAudio(f"{name} has no samples")
    if longest_s is not None and len(samples) > longest_s * INPUT_RATE:
        raise InvalidAudio(
            f"{name} has {len(samples) / INPUT_RATE:g} s, this edge takes at most {longest_s:g} s in "
            "one message: send it in parts, such as those of `converse`, or shorten a reference voice"
        )
    peak = float(np.abs(samples).max())
    if not np.isfinite(peak):
        raise InvalidAudio(f"{name} has NaN or infinite samples")
    if peak > _LOUDEST:
        raise InvalidAudio(
            f"{name} has values up to {peak:g}, between -1 and 1 are needed: divide 16-bit values by 32768"
        )
    return samples


def load_wav(path: str | Path) -> Samples:
    """Speech of a sound file as float32 mono, at 16 kHz. The content decides the format, not the name.

    WAV files with PCM at 16 kHz need no other package; other rates, and other formats such as MP3 or
    M4A, need the extra `audio`. Of a file that was cut off, what is there is returned.
    Raises InvalidAudio.
    """
    data = _content(path)
    try:
        samples = _decode(data)
    except InvalidAudio as error:
        raise InvalidAudio(f"cannot read {path}: {error.message}") from error
    except ImportError as error:
        raise InvalidAudio(
            f"{path} is not a WAV file with PCM at 16 kHz, and {error.name} is not installed, which reads "
            "others; install the extra `audio`, such as by pip install '.[audio]' in Antiphon's checkout, "
            f"or convert it: ffmpeg -i {shlex.quote(str(path))} -ac 1 -ar 16000 speech.wav"
        ) from None
    if not len(samples):
        raise InvalidAudio(f"{path} has no sound")
    try:
        return check_samples(samples)
    except InvalidAudio as error:
        raise InvalidAudio(f"cannot use {path}: {error.message}") from None


def read_source(source: str | Path | Samples, rate: int) -> Samples:
    """A recording: a sound file, or an array. Raises InvalidAudio."""
    return check_samples(load_wav(source) if isinstance(source, str | Path) else source, rate)


def _content(path: str | Path) -> bytes:
    """Raises InvalidAudio. A pipe or a device is not opened: it might never end."""
    try:
        status = Path(path).stat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_FILE_BYTES:
            return Path(path).read_bytes()
    except FileNotFoundError:
        if str(path).startswith(("http:", "https:")):
            raise InvalidAudio("give a file instead of a URL: download it first") from None
        raise MissingFile(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidAudio(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # a zero byte in the name
        raise InvalidAudio(f"cannot read {str(path)!r}: {error}") from error
    if stat.S_ISREG(status.st_mode):
        limit = _MAX_FILE_BYTES // 1024**2
        raise InvalidAudio(f"cannot read {path}: it is larger than {limit} MiB")
    what = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
    raise InvalidAudio(f"cannot read {path}: it is {what}, a sound file is needed")


def _decode(data: bytes) -> Samples:
    """Raises InvalidAudio, or ImportError for a file that needs the extra `audio`."""
    if not data:
        raise InvalidAudio("it is empty")
    if not is_wav(data):
        return _decode_file(data, file_kind(data) or find_mpeg_audio(data))
    try:
        sound = open_wav(data)
    except CompressedWav as error:
        try:
            return _decode_file(data, FileKind.WAV)
        except InvalidAudio:
            raise InvalidAudio(str(error)) from None
    except UnreadableWav as error:
        raise InvalidAudio(str(error)) from error
    if sound.frames > LONGEST_S * sound.rate:
        raise InvalidAudio(f"it is longer than {LONGEST_S / 3600:g} hours")
    samples = sound.mono()
    if sound.rate == INPUT_RATE:
        return samples
    import soxr

    resampled: Samples = soxr.resample(samples, sound.rate, INPUT_RATE)
    return resampled.astype(np.float32, copy=False)


def _decode_file(data: bytes, kind: FileKind | None) -> Samples:
    """Raises InvalidAudio or ImportError."""
    try:
        return decode_sound(data, kind)
    except UnreadableSound as error:
        raise InvalidAudio(str(error)) from error


def save_wav(path: Path, samples: Samples) -> None:
    """Write 24 kHz speech as a 16-bit WAV file. Raises OSError."""
    with path.open("wb") as raw, wave.open(raw, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(OUTPUT_RATE)
        file.writeframes(pcm16_bytes(samples))


def padded_chunks(samples: Samples, chunk_s: float = 1.0) -> Iterator[Samples]:
    """Equal chunks of a recording; silence fills up the last one."""
    size = round(INPUT_RATE * chunk_s)
    for start in range(0, len(samples), size):
        chunk = samples[start : start + size]
        yield np.pad(chunk, (0, size - len(chunk)))


def silence(chunk_s: float = 1.0) -> Iterator[Samples]:
    """Endless chunks of silence."""
    while True:
        yield np.zeros(round(INPUT_RATE * chunk_s), dtype=np.float32)


async def paced(
    chunks: Iterable[Samples], start: float, chunk_s: float = 1.0
) -> AsyncGenerator[Samples, None]:
    """Yield each chunk at the time of a microphone that opened at `start` (`time.monotonic()`)."""
    for number, chunk in enumerate(chunks, start=1):
        await asyncio.sleep(start + number * chunk_s - time.monotonic())
        yield chunk


async def microphone_chunks(
    pieces: AsyncIterable[Samples], chunk_s: float, rate: int = INPUT_RATE
) -> AsyncGenerator[Samples, None]:
    """Chunks of pieces of any length; silence fills up the last one, and follows it in real time.

    Closes `pieces` if it is a generator: its `finally` runs when the sending stops. Raises InvalidAudio.
    """
    size, kept = round(INPUT_RATE * chunk_s), SILENCE
    source = aiter(pieces)
    try:
        async for piece in source:
            if isinstance(piece, np.ndarray) and not piece.size:
                continue  # a resampler may have nothing yet
            check_samples(piece, rate)
            kept = np.concatenate([kept, piece])
            while len(kept) >= size:
                yield kept[:size]
                kept = kept[size:]
        if len(kept):
            yield np.pad(kept, (0, size - len(kept)))
        async for chunk in paced(silence(chunk_s), time.monotonic(), chunk_s):
            yield chunk
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
