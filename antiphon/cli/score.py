"""What was sent in a recorded full-duplex session, step by step, so that it can be sent again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile

from antiphon.cli.comparison import Said
from antiphon.cli.stored import NotStored
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.recording import ChunkRecord, Recording
from antiphon.shared_schemas.states import SessionKind

_LONGEST_GAP_S = 3.0
"""A longer silence between two chunks was a pause; it is not waited for again."""


@dataclass(frozen=True, slots=True)
class Step:
    """One chunk: sent `at_s` after the first one, and what came of it then (None: no answer)."""

    index: int
    at_s: float
    folder: Path
    audio: str
    frames: tuple[str, ...]
    force_listen: bool
    was: Said | None

    def samples(self) -> Samples:
        """Its sound as it was sent, but for the rounding to 16 bits. Raises NotStored."""
        return load_pcm(self.folder / self.audio)

    def pictures(self) -> list[bytes]:
        """Its camera frames, byte by byte. Raises NotStored."""
        return [read_file(self.folder / name) for name in self.frames]


@dataclass(frozen=True, slots=True)
class Score:
    """A whole session to be played again. References are at 16 kHz, None where there were none.

    `broke_off`: it ended while something was being said, so that nobody knows how it would go on.
    """

    recording: str
    with_video: bool
    prompt: str
    config: DuplexConfig
    ref_audio: Samples | None
    tts_ref_audio: Samples | None
    steps: tuple[Step, ...]
    broke_off: bool


def score_of(folder: Path, recording: Recording) -> Score:
    """Raises NotStored when there is nothing to play, or its references are gone.

    Chunks that the worker skipped then are left out, since the engine never heard them. The replay
    itself is not recorded.
    """
    steps = tuple(_steps(folder, recording.chunks))
    if not steps:
        raise NotStored(f"{recording.recording_id} holds no sound to play")
    config = recording.config
    return Score(
        recording=recording.recording_id,
        with_video=recording.app_type is SessionKind.OMNI_DUPLEX,
        prompt=str(config.get("system_prompt", "")),
        config=DuplexConfig.model_validate(config).model_copy(update={"record": False}),
        ref_audio=load_reference(folder, config.get("ref_audio")),
        tts_ref_audio=load_reference(folder, config.get("tts_ref_audio")),
        steps=steps,
        broke_off=_breaks_off(recording.chunks),
    )


def load_pcm(path: Path) -> Samples:
    """A recorded 16-bit mono WAV at 16 kHz, on the scale of the wire. Raises NotStored."""
    try:
        pcm, rate = soundfile.read(path, dtype="int16")
    except (OSError, soundfile.SoundFileError) as error:
        raise NotStored(f"{path} cannot be read: {error}") from error
    if rate != INPUT_RATE or pcm.ndim != 1:
        raise NotStored(f"{path} is not mono sound at {INPUT_RATE} Hz")
    return samples_from_bytes(pcm.astype("<i2").tobytes(), PcmFormat.S16)


def load_reference(folder: Path, name: Any) -> Samples | None:
    """A reference voice, None where there was none. Raises NotStored."""
    return load_pcm(folder / name) if name else None


def read_file(path: Path) -> bytes:
    """A recorded file, whole. Raises NotStored."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotStored(f"{path} cannot be read: {error.strerror}") from error


def _steps(folder: Path, chunks: list[ChunkRecord]) -> Iterator[Step]:
    at_s, last_ms = 0.0, None
    for chunk in chunks:
        if last_ms is not None:
            at_s += _gap_s(chunk.receive_ts_ms - last_ms, chunk)
        last_ms = chunk.receive_ts_ms
        if chunk.user_audio is None or chunk.skipped:
            continue
        frames = chunk.user_frames or ([chunk.user_frame] if chunk.user_frame else [])
        yield Step(
            index=chunk.index,
            at_s=at_s,
            folder=folder,
            audio=chunk.user_audio,
            frames=tuple(frames),
            force_listen=bool(chunk.force_listen),
            was=_said(chunk),
        )


def _breaks_off(chunks: list[ChunkRecord]) -> bool:
    units = [chunk.result for chunk in chunks if chunk.result is not None]
    return bool(units) and units[-1].mode == "SPEAK" and not units[-1].end_of_turn


def _gap_s(gap_ms: float, chunk: ChunkRecord) -> float:
    pause = gap_ms > _LONGEST_GAP_S * 1000
    usual_ms = chunk.user_audio_duration_ms or 0
    return max(0.0, usual_ms if pause else gap_ms) / 1000


def _said(chunk: ChunkRecord) -> Said | None:
    unit = chunk.result
    if unit is None:
        return None
    return Said(unit.mode == "SPEAK", unit.text or "", unit.timing.wall_clock_ms)
