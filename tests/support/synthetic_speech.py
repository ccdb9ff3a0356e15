"""Synthesised speech for tests with the local engine's models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import soxr

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
STEADY = DuplexConfig(force_listen_count=0, temperature=0.0, voice=ESPEAK)
MAX_UNITS = 40


def spoken(text: str, *, lead_s: float = 0.3, voice: str = CALLER) -> Samples:
    """`text` as 16 kHz speech after `lead_s` of silence; ends with its last audible sample."""
    raw = espeak().synthesise(text, voice, 150)
    pcm = np.concatenate(raw.pcm).astype(np.float32) * np.float32(3 / 32768)
    audio = soxr.resample(pcm, espeak().sample_rate, INPUT_RATE)
    audible = np.flatnonzero(np.abs(audio) > 0.01)
    return np.concatenate([silence(lead_s), audio[: audible[-1] + 1]]).astype(np.float32)


def cough() -> Samples:
    """A burst of breath and a rough voice that falls from 200 Hz. The recogniser finds a word in it."""
    voice_s, begin_s = 0.4, 0.08
    end_s = begin_s + voice_s
    rng = np.random.default_rng(1)
    since = np.arange(round((end_s + 0.17) * INPUT_RATE)) / INPUT_RATE
    pulses = np.zeros(len(since))
    at_s = begin_s
    while at_s < end_s:
        pulses[int(at_s * INPUT_RATE)] = 8.0
        at_s += 1 / (200.0 - 60.0 * at_s)
    voice = pulses * np.sin(np.pi * np.clip((since - begin_s) / voice_s, 0, 1))
    breath = np.minimum(1, since / 0.1) * np.exp(-np.maximum(0, since - end_s) / 0.03)
    burst = np.exp(-since / 0.02)
    source = 0.45 * voice + (1.5 * burst + 0.1 * breath) * rng.uniform(-1, 1, len(since))
    poles = [(600, 0.97), (1400, 0.96), (2500, 0.94)]
    sound = np.sum([_resonance(source, hz, radius) for hz, radius in poles], axis=0)
    return (0.5 * sound / np.abs(sound).max()).astype(np.float32)


def _resonance(source: Samples, hz: float, radius: float) -> Samples:
    """`source` through two complex poles."""
    turn = 2 * radius * np.cos(2 * np.pi * hz / INPUT_RATE)
    out = np.zeros(len(source) + 2)
    for n, value in enumerate(source):
        out[n + 2] = (1 - radius) * 2 * value + turn * out[n + 1] - radius * radius * out[n]
    return out[2:]


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
