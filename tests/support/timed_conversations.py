"""Conversations with times, for tests of replays and captions."""

import io
import wave
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from PIL import Image

from antiphon.recorder_service.journal.journal import Side
from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.shared_schemas.audio import PcmFormat, Samples, float_bytes, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, Entry, PreparedOut, PrepareIn, StreamPosition
from antiphon.shared_schemas.ids import new_recording_id
from antiphon.shared_schemas.recording import (
    DuplexRecording,
    Meta,
    TurnRecording,
    parse_meta,
    parse_recording,
)
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.recorder_conversations import Script, record_in_order, result, sound

T0 = 1_700_000_000_000.0
TICKET = 7


def jpeg(width: int, height: int, colour: tuple[int, int, int], form: str = "JPEG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, form)
    return file.getvalue()


def tone(seconds: float, hz: float, rate: int, level: float = 0.4) -> Samples:
    at = np.arange(round(seconds * rate)) / rate
    wave: Samples = (level * np.sin(2 * np.pi * hz * at)).astype(np.float32)
    return wave


@dataclass
class TimedTalk:
    """Entries of both streams, each with its time (seconds since `prepare`)."""

    kind: SessionKind = SessionKind.AUDIO_DUPLEX
    script: Script = field(default_factory=list)
    epoch: int = 1

    @classmethod
    def prepared(cls, kind: SessionKind = SessionKind.AUDIO_DUPLEX) -> "TimedTalk":
        talk = cls(kind)
        talk.into(0.0, PrepareIn(system_prompt="p", config=DuplexConfig()))
        talk.out(0.05, PreparedOut(input_n=1, prompt_length=3))
        return talk

    def into(self, at_s: float, entry: Entry) -> int:
        """Adds an input entry; returns its number."""
        return self._add("in", at_s, entry)

    def out(self, at_s: float, entry: Entry) -> int:
        return self._add("out", at_s, entry)

    def chunk(self, at_s: float, samples: Samples, *frames: bytes, **more: Any) -> int:
        """Adds a chunk of the user, as PCM16 like a browser's."""
        audio = to_pcm16(samples).tobytes()
        return self.into(at_s, ChunkIn(audio=audio, pcm=PcmFormat.S16, frames=frames, **more))

    def speak(self, at_s: float, samples: Samples, *, end: bool = False, **more: Any) -> None:
        audio = float_bytes(samples)
        self.out(at_s, result(2, speak=True, end_of_turn=end, **{"audio": audio, **more}))

    def listen(self, at_s: float, **more: Any) -> None:
        self.out(at_s, result(2, **more))

    def _add(self, side: Side, at_s: float, entry: Entry) -> int:
        n = 1 + sum(origin == side for origin, _, _ in self.script)
        timed = structs.replace(entry, at=T0 + at_s * 1000)
        self.script.append((side, StreamPosition(TICKET, self.epoch, n), timed))
        return n

    @property
    def job(self) -> RecordingJob:
        return RecordingJob(sid="talk_1", ticket=TICKET, kind=self.kind, recording="ab" * 16)

    def record(self, root: Path, ended_s: float = 60.0) -> "Recorded":
        ending = SessionEnding(at=round(T0 + ended_s * 1000), reason=EndReason.STOPPED, worker="w1")
        record_in_order(root, self.job, self.script, ending)
        return Recorded(root / self.job.recording)

    def store(self, data_dir: Path, ended_s: float) -> str:
        """Makes a recording that the edge of this data folder sends. Returns its id, which is unique."""
        folder = data_dir / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        recording = new_recording_id()
        self.record(folder, ended_s).folder.rename(folder / recording)
        return recording


@dataclass
class Recorded:
    folder: Path

    @property
    def meta(self) -> Meta:
        return parse_meta((self.folder / "meta.json").read_bytes())

    @property
    def recording(self) -> DuplexRecording | TurnRecording:
        return parse_recording((self.folder / "recording.json").read_bytes())

    def replay(self) -> np.ndarray[Any, np.dtype[np.int16]]:
        """The merged WAV, shape (n, 2): user, model."""
        with wave.open(str(self.folder / "merged_replay.wav")) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            assert form == (2, 2, 24000)
            return np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)


def noise(seed: int, seconds: float, rate: int) -> Samples:
    """Noise as loud as speech without clipping; low-passed so that resampling preserves it."""
    raw = sound(seed, round(seconds * rate))
    kernel = np.hanning(33)
    return (0.6 * np.convolve(raw, kernel / kernel.sum(), "same")).astype(np.float32)
