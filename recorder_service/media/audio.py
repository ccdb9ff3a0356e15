"""Sound on disk: 16-bit mono WAV files, and the PCM fragments that an answer is joined from.

A fragment is 16-bit PCM without a header. Fragments live in a hidden folder, which the recorder
deletes when the recording is whole and merged. What a half-duplex user says between utterances is
kept as fragments only, for the replay.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from antiphon.recorder_service.journal.files import write_atomic
from antiphon.recorder_service.journal.journal import JournalEntries, SavedFile, Side
from antiphon.recorder_service.journal.turns import assemble_turns
from antiphon.shared_schemas.audio import (
    OUTPUT_RATE,
    PcmFormat,
    Samples,
    samples_from_bytes,
    to_pcm16,
)
from antiphon.shared_schemas.entries import StreamPosition

HEADER_BYTES = 44
_MAX_DATA_BYTES = 2**32 - HEADER_BYTES
_FRAGMENTS = ".pieces"
_BARE = ".pcm"


def wav_bytes(samples: Samples, rate: int) -> bytes:
    """A whole WAV file: PCM, 16 bits, mono, `rate` Hz."""
    return _wav_of_pcm(_pcm_bytes(samples), rate)


def wav_header(size: int, rate: int, channels: int = 1) -> bytes:
    """The header for `size` bytes of 16-bit PCM. Raises ValueError when a WAV cannot hold them."""
    if size > _MAX_DATA_BYTES:
        raise ValueError(f"{size} bytes of sound are more than a WAV can hold")
    frame = 2 * channels
    riff = struct.pack("<4sI4s", b"RIFF", 36 + size, b"WAVE")
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * frame, frame, 16)
    return riff + form + struct.pack("<4sI", b"data", size)


def user_audio_name(chunk: int) -> str:
    return f"user_audio/{chunk:03d}.wav"


def ai_audio_name(turn: int, spoken: int) -> str:
    """A duplex unit's file: the `spoken`-th unit with sound in its turn, both from 0."""
    return f"ai_audio/turn_{turn}_chunk_{spoken:03d}.wav"


def answer_name(turn: int) -> str:
    """The file with the whole sound of a half-duplex or chat answer."""
    return f"ai_audio/turn_{turn}.wav"


def fragment_name(side: Side, position: StreamPosition) -> str:
    return f"{_FRAGMENTS}/{side}_{position.n:06d}{_BARE}"


def save_audio(folder: Path, name: str, data: bytes, pcm: PcmFormat, rate: int) -> SavedFile:
    """Write a WAV file, or a fragment if `name` is a fragment's."""
    try:
        samples = samples_from_bytes(data, pcm)
    except ValueError as error:
        return SavedFile(unreadable=str(error))
    content = _pcm_bytes(samples) if name.endswith(_BARE) else wav_bytes(samples, rate)
    return save_file(folder, name, content, len(samples))


def save_file(folder: Path, name: str, data: bytes, samples: int | None = None) -> SavedFile:
    write_atomic(folder / name, data)
    return SavedFile(file=name, size=len(data), samples=samples)


def make_fragments_folder(folder: Path) -> None:
    (folder / _FRAGMENTS).mkdir(exist_ok=True)


def join_answers(folder: Path, outputs: JournalEntries) -> None:
    """Write each turn's sound as one WAV; a second call changes nothing.

    Holds one turn's sound in memory. Raises OSError, also when a fragment is missing.
    """
    for turn in assemble_turns(outputs):
        sounds = (item.media.audio for item in turn.spoken)
        names = [sound.file for sound in sounds if sound is not None and sound.file is not None]
        if names:
            pcm = b"".join((folder / name).read_bytes() for name in names)
            write_atomic(folder / answer_name(turn.index), _wav_of_pcm(pcm, OUTPUT_RATE))


def remove_fragments(folder: Path) -> None:
    if (folder / _FRAGMENTS).exists():
        shutil.rmtree(folder / _FRAGMENTS)


def _pcm_bytes(samples: Samples) -> bytes:
    return to_pcm16(samples).astype("<i2", copy=False).tobytes()


def _wav_of_pcm(pcm: bytes, rate: int) -> bytes:
    return wav_header(len(pcm), rate) + pcm
