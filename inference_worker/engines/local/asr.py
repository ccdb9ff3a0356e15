"""Speech to text (Moonshine tiny-en, bundled with its wheel)."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_TARGET_PEAK = 0.6
_MAX_GAIN = 10.0
_OPTIONS = {
    "vad_threshold": "0",  # our own detector has already cut the speech out
    "return_audio_data": "false",
}


class Recogniser:
    """Transcribes one utterance at a time; sessions take turns."""

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

    def transcribe(self, speech: Samples) -> str:
        """Text of `speech` (16 kHz), "" where no word was recognised."""
        with self._lock:
            transcript = self._transcriber.transcribe_without_streaming(
                _levelled(speech).tolist(), INPUT_RATE
            )
        text = " ".join(line.text.strip() for line in transcript.lines).strip()
        return text if any(character.isalnum() for character in text) else ""

    def close(self) -> None:
        """Free the model."""
        with self._lock:
            self._transcriber.close()


def _levelled(speech: Samples) -> Samples:
    """`speech` at a loudness that the model knows well."""
    peak = float(np.max(np.abs(speech), initial=0.0))
    gain = min(_MAX_GAIN, _TARGET_PEAK / peak) if peak > 0 else 1.0
    return speech * np.float32(gain)
