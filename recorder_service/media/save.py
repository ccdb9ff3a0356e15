"""Takes the sound and the pictures out of an entry and into files; the journal line names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from antiphon.recorder_service.journal.files import write_atomic
from antiphon.recorder_service.journal.journal import Line
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.media.audio import (
    ai_audio_name,
    save_audio,
    save_fragment,
    user_audio_name,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat, samples_from_bytes
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    ChunkIn,
    DeltaOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    PrepareIn,
    ResultOut,
    StreamEntry,
)
from antiphon.shared_schemas.stream_position import StreamPosition

REF_AUDIO = "ref_audio"
TTS_REF_AUDIO = "tts_ref_audio"


def save_media(folder: Path, entry: StreamEntry, tally: JournalState) -> Line:
    """Write an entry's files below a session directory; returns what its line says of them."""
    match entry:
        case ChunkIn():
            return _chunk(folder, entry, tally.chunks)
        case ResultOut() if entry.audio:
            name = ai_audio_name(tally.turn, tally.spoken)
            return _sound(folder, "ai_audio", name, entry.audio, PcmFormat.F32, OUTPUT_RATE)
        case PrepareIn() if tally.prepare is None:
            return _references(folder, entry)
    return {}


def _chunk(folder: Path, chunk: ChunkIn, index: int) -> Line:
    name = user_audio_name(index)
    line = _sound(folder, "user_audio", name, chunk.audio, chunk.pcm, INPUT_RATE)
    frames = save_frames(folder, index, chunk.frames)
    files = {**line.get("files", {}), **frames}
    return {**line, "index": index, "user_frames": list(frames), "files": files}


def _references(folder: Path, prepare: PrepareIn) -> Line:
    line: Line = {"files": {}}
    sounds = {REF_AUDIO: prepare.ref_audio, TTS_REF_AUDIO: prepare.tts_ref_audio}
    for field, data in sounds.items():
        if data:
            saved = _sound(folder, field, f"{field}.wav", data, PcmFormat.F32, INPUT_RATE)
            line = {**line, **saved, "files": {**line["files"], **saved.get("files", {})}}
    return line


def _sound(
    folder: Path, field: str, name: str, data: bytes, pcm_format: PcmFormat, rate: int
) -> Line:
    try:
        samples = samples_from_bytes(data, pcm_format)
    except ValueError as error:
        return {"unreadable": str(error)}
    size = save_audio(folder, name, samples, rate)
    return {field: name, "samples": len(samples), "files": {name: size}}


USER_AUDIO = "user_audio"

_Naming = Callable[[str, int, str], str]
"""Where the n-th part of a type lies, given the suffix of its form."""


def save_turn_media(
    folder: Path, position: StreamPosition, entry: StreamEntry, tally: JournalState
) -> Line:
    """Write an entry's files below a session directory; returns what its line says of them.

    Of several requests the first counts, as it does for the worker.
    """
    match entry:
        case GeneratingOut() if entry.audio:
            name = user_audio_name(entry.turn_index)
            return _sound(folder, USER_AUDIO, name, entry.audio, PcmFormat.F32, INPUT_RATE)
        case ChunkIn():
            return save_fragment(folder, "in", position, entry.audio, entry.pcm)
        case DeltaOut() | ChatDoneOut() if entry.audio:
            return save_fragment(folder, "out", position, entry.audio, PcmFormat.F32)
        case HalfDuplexPrepareIn() if tally.prepare is None:
            return _request(folder, entry, _system_name)
        case ChatIn() if tally.prepare is None:
            return _request(folder, entry, _user_name)
    return {}


def _request(folder: Path, entry: HalfDuplexPrepareIn | ChatIn, naming: _Naming) -> Line:
    media = list(_save_parts(folder, entry.content, entry.blobs, naming))
    line: Line = {}
    if entry.ref_audio:
        line = _sound(
            folder, REF_AUDIO, f"{REF_AUDIO}.wav", entry.ref_audio, PcmFormat.F32, INPUT_RATE
        )
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
            yield _sound(folder, "file", name, data, PcmFormat(part["pcm"]), INPUT_RATE)
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
    write_atomic(folder / name, data)
    return {"file": name, "files": {name: len(data)}}


def _sizes(items: Sequence[Line]) -> dict[str, int]:
    """Take the files out of the items: a journal line lists all of its entry's."""
    return {name: size for item in items for name, size in item.pop("files", {}).items()}


def frame_name(chunk: int, place: int) -> str:
    """Where a chunk's frame lies: `000.jpg`, further ones of the same chunk `000_1.jpg` and so on."""
    suffix = f"_{place}" if place else ""
    return f"user_frames/{chunk:03d}{suffix}.jpg"


def save_frames(folder: Path, chunk: int, frames: Sequence[bytes]) -> dict[str, int]:
    """Write a chunk's frames below a session directory; returns name → size."""
    sizes: dict[str, int] = {}
    for place, frame in enumerate(frames):
        name = frame_name(chunk, place)
        write_atomic(folder / name, frame)
        sizes[name] = len(frame)
    return sizes
