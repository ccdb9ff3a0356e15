"""Takes the sound and the pictures out of an entry and into files; the journal line names them."""

from __future__ import annotations

from pathlib import Path

from antiphon.recorder_service.audio_files import ai_audio_name, save_audio, user_audio_name
from antiphon.recorder_service.frame_files import save_frames
from antiphon.recorder_service.tally import Tally
from antiphon.recorder_service.timeline import Line
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat, samples_from_bytes
from antiphon.shared_schemas.stream_entries import ChunkIn, PrepareIn, ResultOut, StreamEntry

REF_AUDIO = "ref_audio"
TTS_REF_AUDIO = "tts_ref_audio"


def save_media(folder: Path, entry: StreamEntry, tally: Tally) -> Line:
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
