"""Synthesised speech for tests with the local engine's models."""

from collections.abc import Iterable, Iterator

import numpy as np
import soxr

from antiphon.cli.evaluate.sounds import voiced_cough
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.inference_worker.engines.local.voices.espeak import espeak
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import UnitResult

CALLER = "en-us+Hugo"
"""One of the few eSpeak voices whose output is the same every time."""

ITALY = "What is the capital of Italy?"
GERMANY = "What is the capital of Germany?"
JAPAN = "What is the capital of Japan?"
"""The recogniser understands these at every frame offset; it does not understand France and others."""
PERSONA = "Your name is Ann. Be brief."
"""A system prompt. An assistant with another name looks nothing up, so the language model answers."""
STEADY = DuplexConfig(force_listen_count=0, temperature=0.0, voice=ESPEAK)
MAX_UNITS = 40

cough = voiced_cough
"""The recogniser finds a word in it."""


def spoken(text: str, *, lead_s: float = 0.3, voice: str = CALLER) -> Samples:
    """`text` as 16 kHz speech after `lead_s` of silence; ends with its last audible sample."""
    raw = espeak().synthesise(text, voice, 150)
    pcm = np.concatenate(raw.pcm).astype(np.float32) * np.float32(3 / 32768)
    audio = soxr.resample(pcm, espeak().sample_rate, INPUT_RATE)
    audible = np.flatnonzero(np.abs(audio) > 0.01)
    return np.concatenate([silence(lead_s), audio[: audible[-1] + 1]]).astype(np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * INPUT_RATE), dtype=np.float32)


def units_of(audio: Samples, size: int = INPUT_RATE) -> list[Samples]:
    """`audio` in units of `size` samples; the last one is padded with silence."""
    count = -(-len(audio) // size)
    padded = np.pad(audio, (0, count * size - len(audio)))
    return list(padded.reshape(count, size))


def run_unit(view: DuplexView, audio: Samples, *, force_listen: bool = False) -> UnitResult:
    view.prefill(audio)
    result = view.generate(force_listen)
    view.finalize()
    return result


def run_units(view: DuplexView, units: Iterable[Samples]) -> list[UnitResult]:
    return [run_unit(view, audio) for audio in units]


def listen(view: DuplexView, unit: Samples | None = None) -> Iterator[UnitResult]:
    """Sends silent units until the end of a turn; fails after MAX_UNITS."""
    unit = silence(1.0) if unit is None else unit
    for _ in range(MAX_UNITS):
        result = run_unit(view, unit)
        yield result
        if result.end_of_turn:
            return
    raise AssertionError(f"no turn ended within {MAX_UNITS} units")


def ask_until_speech(view: DuplexView, question: str) -> list[UnitResult]:
    """Asks and waits until the answer begins; the last result speaks."""
    results = run_units(view, units_of(spoken(question)))
    while results[-1].is_listen:
        assert len(results) < MAX_UNITS, "no answer began"
        results.append(run_unit(view, silence(1.0)))
    return results


def converse(view: DuplexView, question: str) -> list[UnitResult]:
    """Asks and waits for the complete answer; returns all results."""
    results = run_units(view, units_of(spoken(question)))
    return results if results[-1].end_of_turn else [*results, *listen(view)]


def text_of(results: Iterable[UnitResult]) -> str:
    return "".join(result.text for result in results)


def audio_of(results: Iterable[UnitResult]) -> Samples:
    return np.concatenate([SILENCE, *(result.audio for result in results)])


def past(results: list[UnitResult], audio: list[Samples]) -> list[PastUnit]:
    """The units as another worker recovers them."""
    return [
        PastUnit(
            audio=chunk,
            is_listen=result.is_listen,
            text=result.text,
            end_of_turn=result.end_of_turn,
            memo=result.memo,
        )
        for result, chunk in zip(results, audio, strict=True)
    ]
