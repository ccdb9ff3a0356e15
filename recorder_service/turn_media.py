"""Takes the media of half-duplex and chat sessions out of an entry and into files.

Of what a half-duplex client sends the utterances become files, as the worker cut them out; the
silence between them, and what was said during an answer, is in the replay only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from antiphon.recorder_service.audio_files import save_audio, user_audio_name
from antiphon.recorder_service.files import write_whole
from antiphon.recorder_service.media import REF_AUDIO
from antiphon.recorder_service.pieces import save_piece
from antiphon.recorder_service.tally import Tally
from antiphon.recorder_service.timeline import Line
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, samples_from_bytes
from antiphon.shared_schemas.stream_entries import (
    ChatDoneOut,
    ChatIn,
    ChunkIn,
    DeltaOut,
    GeneratingOut,
    HalfPrepareIn,
    StreamEntry,
    StreamPosition,
)

USER_AUDIO = "user_audio"

_Naming = Callable[[str, int, str], str]
"""Where the n-th part of a type lies, given the suffix of its form."""


def save_turn_media(
    folder: Path, position: StreamPosition, entry: StreamEntry, tally: Tally
) -> Line:
    """Write an entry's files below a session directory; returns what its line says of them.

    Of several requests the first counts, as it does for the worker.
    """
    match entry:
        case GeneratingOut() if entry.audio:
            name = user_audio_name(entry.turn_index)
            return _sound(folder, USER_AUDIO, name, entry.audio, PcmFormat.F32)
        case ChunkIn():
            return save_piece(folder, "in", position, entry.audio, entry.pcm)
        case DeltaOut() | ChatDoneOut() if entry.audio:
            return save_piece(folder, "out", position, entry.audio, PcmFormat.F32)
        case HalfPrepareIn() if tally.prepare is None:
            return _request(folder, entry, _system_name)
        case ChatIn() if tally.prepare is None:
            return _request(folder, entry, _user_name)
    return {}


def _request(folder: Path, entry: HalfPrepareIn | ChatIn, naming: _Naming) -> Line:
    media = list(_save_parts(folder, entry.content, entry.blobs, naming))
    line: Line = {}
    if entry.ref_audio:
        line = _sound(folder, REF_AUDIO, f"{REF_AUDIO}.wav", entry.ref_audio, PcmFormat.F32)
    return {**line, "files": _sizes([*media, line]), "media": media}


def _save_parts(
    folder: Path, content: Sequence[dict[str, Any]], blobs: Sequence[bytes], naming: _Naming
) -> Iterator[Line]:
    """What became of each blob, in their order."""
    counts: Counter[str] = Counter()
    parts = {part["blob"]: part for m in content for part in m["parts"] if "blob" in part}
    for place, data in enumerate(blobs):
        part = parts.get(place, {"type": "unknown"})
        kind = part["type"]
        name = naming(kind, counts[kind], suffix(data))
        counts[kind] += 1
        if kind == "audio":
            yield _sound(folder, "file", name, data, PcmFormat(part["pcm"]))
        else:
            yield _copy(folder, name, data)


def _user_name(kind: str, n: int, form: str) -> str:
    match kind:
        case "audio":
            return user_audio_name(n)
        case "image":
            return f"user_images/img_{n}.{form}"
    return f"user_videos/{kind}_{n}.{form}"


def _system_name(kind: str, n: int, form: str) -> str:
    return f"system_{kind}_{n}.{'wav' if kind == 'audio' else form}"


def suffix(data: bytes) -> str:
    """What a file of this content is to be called; `bin` where nobody knows."""
    if data.startswith(b"RIFF"):
        return {b"WEBP": "webp", b"AVI ": "avi"}.get(data[8:12], "bin")
    if data[4:8] == b"ftyp":
        return "mov" if data[8:12] == b"qt  " else "mp4"
    starts = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"\x1aE\xdf\xa3": "webm", b"OggS": "ogg"}
    return next((form for start, form in starts.items() if data.startswith(start)), "bin")


def _copy(folder: Path, name: str, data: bytes) -> Line:
    (folder / name).parent.mkdir(exist_ok=True)
    write_whole(folder / name, data)
    return {"file": name, "files": {name: len(data)}}


def _sound(folder: Path, field: str, name: str, data: bytes, pcm: PcmFormat) -> Line:
    try:
        samples = samples_from_bytes(data, pcm)
    except ValueError as error:
        return {"unreadable": str(error)}
    size = save_audio(folder, name, samples, INPUT_RATE)
    return {field: name, "samples": len(samples), "files": {name: size}}


def _sizes(items: Sequence[Line]) -> dict[str, int]:
    """Take the files out of the items: a journal line lists all of its entry's."""
    return {name: size for item in items for name, size in item.pop("files", {}).items()}
