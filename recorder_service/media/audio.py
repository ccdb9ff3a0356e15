"""Sound on disk: 16-bit mono WAV."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterable
from pathlib import Path

from antiphon.recorder_service.journal.files import write_atomic
from antiphon.recorder_service.journal.journal import Line, Side, in_order
from antiphon.recorder_service.journal.turns import spoken_lines
from antiphon.shared_schemas.audio import (
    OUTPUT_RATE,
    PcmFormat,
    Samples,
    samples_from_bytes,
    to_pcm16,
)
from antiphon.shared_schemas.stream_position import StreamPosition

HEADER_BYTES = 44
_MAX_DATA_BYTES = 2**32 - HEADER_BYTES


def wav_bytes(samples: Samples, rate: int) -> bytes:
    """A whole WAV file: PCM, 16 bits, mono, `rate` Hz."""
    return wav_of_pcm(pcm_bytes(samples), rate)


def pcm_bytes(samples: Samples) -> bytes:
    """16-bit little-endian PCM, without a header."""
    return to_pcm16(samples).astype("<i2", copy=False).tobytes()


def wav_of_pcm(pcm: bytes, rate: int) -> bytes:
    """A whole WAV file around 16-bit mono PCM."""
    return wav_header(len(pcm), rate) + pcm


def wav_header(size: int, rate: int, channels: int = 1) -> bytes:
    """What comes before `size` bytes of 16-bit PCM. Raises ValueError when a WAV cannot hold them."""
    if size > _MAX_DATA_BYTES:
        raise ValueError(f"{size} bytes of sound are more than a WAV can hold")
    frame = 2 * channels
    riff = struct.pack("<4sI4s", b"RIFF", 36 + size, b"WAVE")
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * frame, frame, 16)
    return riff + form + struct.pack("<4sI", b"data", size)


def user_audio_name(chunk: int) -> str:
    """Where the audio of a chunk lies."""
    return f"user_audio/{chunk:03d}.wav"


def ai_audio_name(turn: int, spoken: int) -> str:
    """Where a spoken unit's audio lies: the `spoken`-th with sound in its turn, both from 0."""
    return f"ai_audio/turn_{turn}_chunk_{spoken:03d}.wav"


def answer_name(turn: int) -> str:
    """Where the whole sound of a half-duplex or chat answer lies."""
    return f"ai_audio/turn_{turn}.wav"


def save_audio(folder: Path, name: str, samples: Samples, rate: int) -> int:
    """Write one WAV below a session directory; returns the file's size."""
    data = wav_bytes(samples, rate)
    write_atomic(folder / name, data)
    return len(data)


_FOLDER = ".pieces"


def make_fragments_folder(folder: Path) -> None:
    """Be ready to save pieces below a session directory."""
    (folder / _FOLDER).mkdir(exist_ok=True)


def save_fragment(
    folder: Path, side: Side, position: StreamPosition, audio: bytes, pcm: PcmFormat
) -> Line:
    """Keep what one entry holds of a sound; returns what its line says of it."""
    try:
        samples = samples_from_bytes(audio, pcm)
    except ValueError as error:
        return {"unreadable": str(error)}
    name, data = f"{_FOLDER}/{side}_{position.n:06d}.pcm", pcm_bytes(samples)
    write_atomic(folder / name, data)
    return {"piece": name, "samples": len(samples), "files": {name: len(data)}}


def join_answers(folder: Path, lines: Iterable[Line]) -> None:
    """Write each turn's sound as one WAV; doing it again changes nothing.

    Holds one turn's sound in memory. Raises OSError, also when a piece is not there.
    """
    for index, spoken in spoken_lines(in_order(lines)["out"]):
        names = [line["piece"] for line in spoken if "piece" in line]
        if names:
            pcm = b"".join((folder / name).read_bytes() for name in names)
            write_atomic(folder / answer_name(index), wav_of_pcm(pcm, OUTPUT_RATE))


def remove_fragments(folder: Path) -> None:
    """They are not needed any more. Raises OSError."""
    if (folder / _FOLDER).exists():
        shutil.rmtree(folder / _FOLDER)
