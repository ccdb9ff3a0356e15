"""What the user says, as text: Moonshine tiny-en, which its wheel contains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from antiphon.inference_worker.engines.common.silero import STEP_SAMPLES, SileroStream
from antiphon.inference_worker.engines.local.corrections import corrected
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.types import EngineLoadError, ProgressCallback, no_progress
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

SPEECH_LEVEL = 0.5
"""The probability of speech from which a frame has some."""

_TARGET_PEAK = 0.6
_MAX_GAIN = 10.0
_LEAD: Samples = np.zeros(INPUT_RATE // 5, dtype=np.float32)
_TAIL: Samples = np.zeros(INPUT_RATE * 2 // 5, dtype=np.float32)
"""Silence around the speech, which saves half of the wrong words of natural voices (docs/performance.md)."""

_SHARE_IN_PASSING = 0.4
"""Of the time, at most, that all sessions together spend on texts that may be left out."""
_OPTIONS = {
    "vad_threshold": "0",  # the input is already cut to speech
    "return_audio_data": "false",
}


class Recogniser:
    """Transcribes one utterance at a time. All sessions share it."""

    def __init__(self) -> None:
        package = import_library("moonshine_voice")
        transcriber = import_library("moonshine_voice.transcriber")
        folder = Path(str(package.__file__)).parent / "assets" / "tiny-en"
        try:
            self._transcriber = transcriber.Transcriber(
                folder, package.ModelArch.TINY, options=_OPTIONS
            )
        except package.MoonshineError as error:
            raise EngineLoadError(f"the speech model in {folder} does not load: {error}") from error
        self._lock = threading.Lock()
        self._rests_until = 0.0

    def transcribe(self, speech: Samples) -> str:
        """Text of `speech` (16 kHz), empty if no word was recognised."""
        with self._lock:
            return self._text(speech)

    def transcribe_in_passing(self, *parts: Samples) -> list[str] | None:
        """The texts of parts of a speech, which may be left out.

        None while the recogniser is busy, and for some time after each call (see _SHARE_IN_PASSING).
        """
        if time.monotonic() < self._rests_until or not self._lock.acquire(blocking=False):
            return None
        began = time.monotonic()
        try:
            return [self._text(part) if len(part) else "" for part in parts]
        finally:
            now = time.monotonic()
            self._rests_until = now + (now - began) * (1 / _SHARE_IN_PASSING - 1)
            self._lock.release()

    def _text(self, speech: Samples) -> str:
        transcript = self._transcriber.transcribe_without_streaming(
            np.concatenate([_LEAD, _normalised(speech), _TAIL]).tolist(), INPUT_RATE
        )
        text = " ".join(line.text.strip() for line in transcript.lines).strip()
        return corrected(text) if any(character.isalnum() for character in text) else ""

    def close(self) -> None:
        with self._lock:
            self._transcriber.close()


def _normalised(speech: Samples) -> Samples:
    """`speech` at the loudness that the model expects."""
    peak = float(np.max(np.abs(speech), initial=0.0))
    gain = min(_MAX_GAIN, _TARGET_PEAK / peak) if peak > 0 else 1.0
    return speech * np.float32(gain)


_PIECE_MIN = 6 * INPUT_RATE
_PIECE_MAX = 14 * INPUT_RATE
_HOP = INPUT_RATE // 20


def transcribe(
    recogniser: Recogniser,
    speech: Samples,
    cancelled: Callable[[], bool] = lambda: False,
    on_progress: ProgressCallback = no_progress,
) -> str:
    """Text of `speech` (16 kHz) of any length, empty if no word was recognised.

    The speech is transcribed in pieces. `cancelled` is called before each piece; if it returns True
    the rest is left out.
    """
    texts, done = [], 0
    for piece in pieces_of(speech):
        if cancelled():
            break
        if _has_speech(piece):
            texts.append(recogniser.transcribe(piece))
        done += len(piece)
        on_progress(done / len(speech))
    return " ".join(text for text in texts if text)


def _has_speech(piece: Samples) -> bool:
    """The recogniser finds a word, mostly "You", in silence and in noise."""
    network, piece = SileroStream(), _normalised(piece)
    frames = piece[: len(piece) // STEP_SAMPLES * STEP_SAMPLES].reshape(-1, STEP_SAMPLES)
    return any(network.step(frame) >= SPEECH_LEVEL for frame in frames)


def pieces_of(speech: Samples) -> Iterator[Samples]:
    """`speech` in pieces of 6 to 14 s, cut where it is quietest. The last may be shorter."""
    while len(speech) > _PIECE_MAX:
        hops = speech[_PIECE_MIN:_PIECE_MAX].reshape(-1, _HOP)
        quietest = int(np.argmin(np.square(hops).sum(axis=1)))
        cut = _PIECE_MIN + quietest * _HOP + _HOP // 2
        yield speech[:cut]
        speech = speech[cut:]
    if len(speech):
        yield speech
