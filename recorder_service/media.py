"""The sound, pictures and videos of a session as files; the entry's journal line names them.

Sound is in 16-bit mono WAV files and in PCM fragments, which an answer is joined from. A fragment
is 16-bit PCM without a header. Fragments live in a hidden folder, which the recorder deletes when
the recording is whole and merged. Of a half-duplex session the utterances become WAV files, as the
worker cut them out. The silence between them, and what the user said during an answer, is kept as
fragments only, for the replay.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from antiphon.recorder_service.atomic_files import write_atomic
from antiphon.recorder_service.journal.journal import (
    NO_MEDIA,
    JournalEntries,
    SavedFile,
    SavedMedia,
    Side,
)
from antiphon.recorder_service.journal.state import JournalState
from antiphon.recorder_service.journal.turns import assemble_turns
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    PcmFormat,
    Samples,
    pcm16_bytes,
    samples_from_bytes,
)
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    ChunkIn,
    DeltaOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    PrepareIn,
    ResultOut,
    SettingsIn,
    StreamEntry,
    StreamPosition,
)
from antiphon.shared_schemas.file_kinds import QUICKTIME_BOXES
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.wav import wav_header

_FRAGMENTS = ".pieces"
_BARE = ".pcm"

_PartNaming = Callable[[str, int, str], str]
"""The file name of the n-th part of a type, given its suffix."""


def save_media(
    folder: Path,
    kind: SessionKind,
    position: StreamPosition,
    entry: StreamEntry,
    state: JournalState,
) -> SavedMedia:
    """Write an entry's files below a session directory.

    The first of several requests counts, as it does for the worker.
    """

    def audio(name: str, data: bytes, rate: int, pcm: PcmFormat = PcmFormat.F32) -> SavedMedia:
        return SavedMedia(audio=save_audio(folder, name, data, pcm, rate))

    match entry:
        case ChunkIn() if kind.is_duplex:
            return _save_chunk(folder, entry, state.chunks)
        case ChunkIn():
            return audio(fragment_name("in", position), entry.audio, INPUT_RATE, entry.pcm)
        case ResultOut() if entry.audio:
            return audio(ai_audio_name(state.turn, state.spoken), entry.audio, OUTPUT_RATE)
        case GeneratingOut() if entry.audio:
            return audio(user_audio_name(entry.turn_index), entry.audio, INPUT_RATE)
        case DeltaOut() | ChatDoneOut() if entry.audio:
            return audio(fragment_name("out", position), entry.audio, OUTPUT_RATE)
        case PrepareIn() if state.prepare is None:
            voices = {"ref_audio": entry.ref_audio, "tts_ref_audio": entry.tts_ref_audio}
            return SavedMedia(references=_save_references(folder, voices))
        case HalfDuplexPrepareIn() | SettingsIn() | ChatIn() if state.prepare is None:
            return _save_request(folder, entry)
    return NO_MEDIA


def frame_name(chunk: int, place: int) -> str:
    """A frame's file: `000.jpg`, further frames of the same chunk `000_1.jpg` and so on."""
    suffix = f"_{place}" if place else ""
    return f"user_frames/{chunk:03d}{suffix}.jpg"


def save_frames(folder: Path, chunk: int, frames: Sequence[bytes]) -> tuple[SavedFile, ...]:
    """Write the client's JPEG bytes, unchanged."""
    return tuple(
        save_file(folder, frame_name(chunk, place), frame) for place, frame in enumerate(frames)
    )


def media_suffix(data: bytes) -> str:
    """The file suffix for this content; `bin` when it is unknown."""
    if data.startswith(b"RIFF"):
        return {b"WEBP": "webp", b"AVI ": "avi"}.get(data[8:12], "bin")
    if data[4:8] in QUICKTIME_BOXES:
        return "mp4" if data[4:8] == b"ftyp" and data[8:12] != b"qt  " else "mov"
    starts = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"\x1aE\xdf\xa3": "webm", b"OggS": "ogg"}
    return next((form for start, form in starts.items() if data.startswith(start)), "bin")


def _save_chunk(folder: Path, chunk: ChunkIn, index: int) -> SavedMedia:
    return SavedMedia(
        audio=save_audio(folder, user_audio_name(index), chunk.audio, chunk.pcm, INPUT_RATE),
        frames=save_frames(folder, index, chunk.frames),
        chunk_index=index,
    )


def _save_request(folder: Path, entry: HalfDuplexPrepareIn | SettingsIn | ChatIn) -> SavedMedia:
    if isinstance(entry, SettingsIn):
        return SavedMedia(references=_save_references(folder, {"ref_audio": entry.ref_audio}))
    naming = _user_name if isinstance(entry, ChatIn) else _system_name
    return SavedMedia(
        parts=tuple(_save_parts(folder, entry.content, entry.blobs, naming)),
        references=_save_references(folder, {"ref_audio": entry.ref_audio}),
    )


def _save_references(folder: Path, voices: dict[str, bytes]) -> dict[str, SavedFile]:
    """Write the readable ones; the reference is optional, so an unreadable one is not named."""
    saved = {
        field: save_audio(folder, f"{field}.wav", data, PcmFormat.F32, INPUT_RATE)
        for field, data in voices.items()
        if data
    }
    return {field: voice for field, voice in saved.items() if voice.file is not None}


def _save_parts(
    folder: Path, content: Sequence[dict[str, Any]], blobs: Sequence[bytes], naming: _PartNaming
) -> Iterator[SavedFile]:
    counts: Counter[str] = Counter()
    parts = {part["blob"]: part for m in content for part in m["parts"] if "blob" in part}
    for place, data in enumerate(blobs):
        part = parts.get(place, {"type": "unknown"})
        kind = part["type"]
        name = naming(kind, counts[kind], media_suffix(data))
        counts[kind] += 1
        if kind == "audio":
            yield save_audio(folder, name, data, PcmFormat(part["pcm"]), INPUT_RATE)
        else:
            (folder / name).parent.mkdir(exist_ok=True)
            yield save_file(folder, name, data)


def _user_name(kind: str, n: int, suffix: str) -> str:
    match kind:
        case "audio":
            return user_audio_name(n)
        case "image":
            return f"user_images/img_{n}.{suffix}"
    return f"user_videos/{kind}_{n}.{suffix}"


def _system_name(kind: str, n: int, suffix: str) -> str:
    return f"system_{kind}_{n}.{'wav' if kind == 'audio' else suffix}"


def wav_bytes(samples: Samples, rate: int) -> bytes:
    """A whole WAV file: PCM, 16 bits, mono, `rate` Hz."""
    return _wav_of_pcm(pcm16_bytes(samples), rate)


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
    content = pcm16_bytes(samples) if name.endswith(_BARE) else wav_bytes(samples, rate)
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


def _wav_of_pcm(pcm: bytes, rate: int) -> bytes:
    return wav_header(len(pcm), rate) + pcm
