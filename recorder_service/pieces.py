"""Sound that is kept piece by piece while a session lasts: an answer's is joined when it is finished.

A half-duplex user's is heard in the replay only. A piece is 16-bit PCM without a header, in a hidden
folder that goes when the recording is whole and merged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from antiphon.recorder_service.audio_files import answer_name, pcm_bytes, wav_of_pcm
from antiphon.recorder_service.files import write_whole
from antiphon.recorder_service.timeline import Line, Side, in_order
from antiphon.recorder_service.turns import spoken_lines
from antiphon.shared_schemas.audio import OUTPUT_RATE, PcmFormat, samples_from_bytes
from antiphon.shared_schemas.stream_entries import StreamPosition

_FOLDER = ".pieces"


def make_pieces_folder(folder: Path) -> None:
    """Be ready to save pieces below a session directory."""
    (folder / _FOLDER).mkdir(exist_ok=True)


def save_piece(
    folder: Path, side: Side, position: StreamPosition, audio: bytes, pcm: PcmFormat
) -> Line:
    """Keep what one entry holds of a sound; returns what its line says of it."""
    try:
        samples = samples_from_bytes(audio, pcm)
    except ValueError as error:
        return {"unreadable": str(error)}
    name, data = f"{_FOLDER}/{side}_{position.n:06d}.pcm", pcm_bytes(samples)
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
