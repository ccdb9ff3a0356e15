"""Sounds that are no words: coughs, sneezes, clicks, noise. All are made, and each is the same every time."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_Numbers = NDArray[np.float64]
_Poles = Sequence[tuple[float, float]]


def voiced_cough(seed: int = 1, hz: float = 200.0) -> Samples:
    """A burst of breath and a rough voice that falls from `hz`. Recognisers find a word in it."""
    voice_s, begin_s = 0.4, 0.08
    end_s = begin_s + voice_s
    rng = np.random.default_rng(seed)
    since = _times(end_s + 0.17)
    pulses = np.zeros(len(since))
    at_s = begin_s
    while at_s < end_s:
        pulses[int(at_s * INPUT_RATE)] = 8.0
        at_s += 1 / (hz - 60.0 * at_s)
    voice = pulses * np.sin(np.pi * np.clip((since - begin_s) / voice_s, 0, 1))
    breath = np.minimum(1, since / 0.1) * np.exp(-np.maximum(0, since - end_s) / 0.03)
    burst = np.exp(-since / 0.02)
    source = 0.45 * voice + (1.5 * burst + 0.1 * breath) * rng.uniform(-1, 1, len(since))
    return _through(source, [(600, 0.97), (1400, 0.96), (2500, 0.94)])


def cough(seed: int = 1) -> Samples:
    """An explosion, noise, and a short rough end, twice. It has no voice."""
    since = _times(0.5)
    envelope = (
        np.exp(-since / 0.03) + 0.5 * _bump(since, 0.05, 0.2) + 0.25 * _bump(since, 0.2, 0.32)
    )
    noise = np.random.default_rng(seed).uniform(-1, 1, len(since))
    once = _through(noise * envelope, [(600, 0.95), (1700, 0.93), (3200, 0.9)])
    return np.concatenate([once, np.zeros(INPUT_RATE // 5, np.float32), once])


def sneeze(seed: int = 1) -> Samples:
    """Breath, and then a burst that fades."""
    since = _times(0.9)
    envelope = 0.15 * _bump(since, 0, 0.4) + _bump(since, 0.4, 0.46) + _bump(since, 0.42, 0.8)
    noise = np.random.default_rng(seed).uniform(-1, 1, len(since))
    return _through(noise * envelope, [(2500, 0.85), (4000, 0.8)])


def laugh(seed: int = 1, hz: float = 220.0) -> Samples:
    """Short voiced bursts of breath that become lower and softer."""
    rng = np.random.default_rng(seed)
    bursts = []
    for number in range(3 + seed % 4):
        voice_s, begin_s = rng.uniform(0.08, 0.12), 0.04
        since = _times(voice_s + 0.1)
        period = round(INPUT_RATE / (hz * (1.1 - 0.06 * number)))
        pulses = np.where(np.arange(len(since)) % period == 0, 8.0, 0.0)
        breath = np.exp(-np.square((since - 0.03) / 0.03)) * rng.uniform(-1, 1, len(since))
        voice = pulses * _bump(since, begin_s, begin_s + voice_s)
        source = 0.45 * voice + 0.3 * breath
        loud = _through(source, [(660, 0.97), (1540, 0.96), (2750, 0.94)])
        bursts.append(loud * np.float32(0.9**number))
    return np.concatenate(bursts)


def throat(seed: int = 1, hz: float = 90.0) -> Samples:
    """Two rough and low sounds of somebody who clears the throat."""
    rng = np.random.default_rng(seed)
    since = _times(0.7)
    pulses, at_s = np.zeros(len(since)), 0.02
    while at_s < 0.65:
        pulses[int(at_s * INPUT_RATE)] = 8 * rng.uniform(0.4, 1.6)
        at_s += rng.uniform(0.8, 1.2) / hz
    source = (0.4 * pulses + 0.4 * rng.uniform(-1, 1, len(since))) * (
        _bump(since, 0, 0.3) + 0.9 * _bump(since, 0.34, 0.66)
    )
    return _through(source, [(500, 0.96), (1200, 0.95), (2300, 0.93)])


def slam(seed: int = 1) -> Samples:
    """A door that falls shut and rattles."""
    rng = np.random.default_rng(seed)
    since = _times(0.8)
    envelope = np.exp(-since / 0.05) + 0.15 * np.exp(-since / 0.25)
    for begin_s in rng.uniform(0.08, 0.35, 3):
        envelope += 0.2 * np.exp(-np.maximum(0, since - begin_s) / 0.015) * (since >= begin_s)
    noise = rng.uniform(-1, 1, len(since))
    return _through(noise * envelope, [(90, 0.99), (240, 0.985), (700, 0.95)])


def knocks(seed: int = 1) -> Samples:
    """Three knocks on a door."""
    since = _times(0.18)
    envelope = np.exp(-since / 0.012) + 0.1 * np.exp(-since / 0.08)
    noise = np.random.default_rng(seed).uniform(-1, 1, len(since))
    return np.tile(_through(noise * envelope, [(170, 0.99), (420, 0.98)]), 3)


def clicks(seed: int = 1) -> Samples:
    """Keys of a keyboard for a second."""
    rng = np.random.default_rng(seed)
    since = _times(1.0)
    sound = np.zeros(len(since))
    for begin_s in np.arange(0, 0.95, 0.12) + rng.uniform(0, 0.03, 8):
        key = np.exp(-np.maximum(0, since - begin_s) / 0.006) * (since >= begin_s)
        sound += rng.uniform(0.5, 1.0) * key * rng.uniform(-1, 1, len(since))
    return _through(sound, [(2200, 0.93), (4100, 0.9)])


SOUNDS: dict[str, Callable[[int], Samples]] = {
    "cough": cough,
    "cough with a voice": voiced_cough,
    "sneeze": sneeze,
    "laugh": laugh,
    "throat": throat,
    "door": slam,
    "knocks": knocks,
    "keyboard": clicks,
}
"""By name. Each takes a seed, so that no two are the same."""


def white_noise(samples: int, seed: int = 1) -> Samples:
    """With an RMS of 1."""
    noise = np.random.default_rng(seed).standard_normal(samples)
    return _even(noise)


def pink_noise(samples: int, seed: int = 1) -> Samples:
    """With an RMS of 1. Each octave from 20 Hz has the same power."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(samples))
    hz = np.fft.rfftfreq(samples, 1 / INPUT_RATE)
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(hz, 20.0)), samples)
    return _even(noise)


def babble(samples: int, voices: Sequence[Samples], seed: int = 1) -> Samples:
    """With an RMS of 1: all the voices at once, each from another place."""
    rng = np.random.default_rng(seed)
    noise = np.zeros(samples)
    for voice in voices:
        repeated = np.resize(np.roll(voice, -int(rng.integers(len(voice)))), samples)
        noise += repeated / np.sqrt(np.square(voice, dtype=np.float64).mean())
    return _even(noise)


def _even(noise: _Numbers) -> Samples:
    """With an RMS of 1."""
    scaled: Samples = (noise / np.sqrt(np.square(noise).mean())).astype(np.float32)
    return scaled


def _times(seconds: float) -> _Numbers:
    since: _Numbers = np.arange(round(seconds * INPUT_RATE)) / INPUT_RATE
    return since


def _bump(since: _Numbers, begin_s: float, end_s: float) -> _Numbers:
    """0 outside, and 1 in the middle."""
    place = np.clip((since - begin_s) / (end_s - begin_s), 0, 1)
    bump: _Numbers = np.sin(np.pi * place)
    return bump


def _through(source: _Numbers, poles: _Poles) -> Samples:
    """The source through resonances (frequency, radius of the pole), with a peak of 0.5."""
    sound = np.sum([_resonance(source, hz, radius) for hz, radius in poles], axis=0)
    loud: Samples = (0.5 * sound / np.abs(sound).max()).astype(np.float32)
    return loud


def _resonance(source: _Numbers, hz: float, radius: float) -> _Numbers:
    turn = 2 * radius * np.cos(2 * np.pi * hz / INPUT_RATE)
    out = np.zeros(len(source) + 2)
    for n, value in enumerate(source):
        out[n + 2] = (1 - radius) * 2 * value + turn * out[n + 1] - radius * radius * out[n]
    return out[2:]
