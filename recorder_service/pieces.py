"""The sound of an answer: kept piece by piece while it is made, joined when the recording is finished.

A piece is 16-bit PCM without a header, in a hidden folder that goes when the recording is whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from recorder_service.audio_files import answer_name, pcm_bytes, wav_of_pcm
from recorder_service.files import write_whole
from recorder_service.timeline import Line, in_order
from recorder_service.turns import spoken_lines
from shared_schemas.audio import OUTPUT_RATE, PcmFormat, samples_from_bytes
from shared_schemas.stream_entries import StreamPosition

_FOLDER = ".pieces"


def make_pieces_folder(folder: Path) -> None:
    """Be ready to save pieces below a session directory."""
    (folder / _FOLDER).mkdir(exist_ok=True)


def save_piece(folder: Path, position: StreamPosition, audio: bytes) -> Line:
    """Keep a piece of an answer (float32 at 24 kHz); returns what its line says of it."""
    try:
        samples = samples_from_bytes(audio, PcmFormat.F32)
    except ValueError as error:
        return {"unreadable": str(error)}
    name, data = f"{_FOLDER}/{position.n:06d}.pcm", pcm_bytes(samples)
    write_whole(folder / name, data)
    return {"piece": name, "samples": len(samples), "files": {name: len(data)}}


def join_answers(folder: Path, lines: Iterable[Line]) -> None:
    """Write each turn's sound as one WAV; doing it again changes nothing.

    Holds one turn's sound in memory. Raises OSError, also when a piece is not there.
    """
    for index, spoken in spoken_lines(in_order(lines)["out"]):
        names = [line["piece"] for line in spoken if "piece" in line]
        if names:
            pcm = b"".join((folder / name).read_bytes() for name in names)
            write_whole(folder / answer_name(index), wav_of_pcm(pcm, OUTPUT_RATE))


def remove_pieces(folder: Path) -> None:
    """They are not needed any more. Raises OSError."""
    if (folder / _FOLDER).exists():
        shutil.rmtree(folder / _FOLDER)
