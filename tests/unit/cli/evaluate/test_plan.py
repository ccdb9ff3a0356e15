"""The cases of `antiphon evaluate`, and the sounds that they need."""

from collections import Counter

import numpy as np
import orjson
import pytest

from antiphon.cli.evaluate.plan import FULL_CASES, QUICK_CASES, calls, script, scripts
from antiphon.cli.evaluate.sounds import SOUNDS, babble, pink_noise, white_noise
from antiphon.cli.evaluate.speech import (
    CALLERS,
    FOLDER,
    PAUSED,
    RECORDED,
    active_rms,
    at_level,
    say,
    say_halves,
    sentences_of,
    spoken_by,
)
from antiphon.cli.evaluate.tracks import Kind
from antiphon.shared_schemas.audio import INPUT_RATE, Samples


def decibels(samples: Samples) -> float:
    return float(20 * np.log10(active_rms(samples)))


@pytest.mark.parametrize("caller", range(len(CALLERS)))
def test_every_sentence_is_recorded(caller: int) -> None:
    """A failure: run tools/make_evaluation_speech.py again."""
    voice = CALLERS[caller]
    assert sentences_of(voice) == tuple(spoken_by(caller))
    for text in spoken_by(caller):
        said = say(text, voice)
        assert 0.2 < len(said) / INPUT_RATE < 5
        assert decibels(said) == pytest.approx(-24, abs=0.1)


def test_a_breath_after_a_sentence_is_no_part_of_it() -> None:
    """This recording ends with 0.7 s of it."""
    said = say("Tell me a long story about a king.", "fable")
    index = orjson.loads((FOLDER / "index.json").read_bytes())
    begin, end, _ = index["fable"]["Tell me a long story about a king."]
    assert len(said) < end - begin - INPUT_RATE // 2
    assert decibels(said[-INPUT_RATE // 10 :]) > -45


def test_the_folder_has_no_other_files() -> None:
    names = {path.name for path in FOLDER.iterdir()}
    assert names == {f"{voice}.opus" for voice in (*CALLERS, RECORDED)} | {"index.json"}


@pytest.mark.parametrize("place", range(len(PAUSED)))
def test_a_sentence_is_divided_where_it_is_quiet(place: int) -> None:
    """The pause lies between two words, not in one."""
    before, after = say_halves(PAUSED[place], CALLERS[place % len(CALLERS)])
    for half in (before, after):
        assert len(half) > INPUT_RATE // 5
    edge = np.concatenate([before[-32:], after[:32]])
    assert np.sqrt(np.square(edge).mean()) < 0.35 * active_rms(np.concatenate([before, after]))


def test_the_full_plan_has_twelve_cases_of_each_main_kind() -> None:
    numbers = Counter(one.kind for one in scripts(FULL_CASES))
    assert numbers[Kind.QUESTION] == numbers[Kind.PAUSE] == numbers[Kind.INTERRUPTION] == 12
    assert numbers[Kind.BACKCHANNEL] == numbers[Kind.SOUND] == numbers[Kind.ASIDE] == 12
    noisy = (Kind.WHITE_NOISE, Kind.PINK_NOISE, Kind.BABBLE)
    assert sum(numbers[kind] for kind in noisy) == 12
    assert set(numbers) == {one.kind for one in scripts(QUICK_CASES)} == set(Kind)


def test_each_case_is_in_one_call_of_its_caller() -> None:
    planned = scripts(5)
    made = calls(planned)
    assert sorted(map(id, planned)) == sorted(id(one) for call in made for one in call)
    assert all(len({one.voice for one in call}) == 1 and len(call) <= 4 for call in made)
    assert all(len(call) == 1 for call in made if call[0].kind is Kind.HALF_DUPLEX)


def test_sounds_begin_at_all_phases_of_the_grid() -> None:
    phases = sorted(script(Kind.BACKCHANNEL, number).phase for number in range(12))
    assert max(np.diff([phases[-1] - 1, *phases])) < 0.2


def test_levels_are_those_of_the_definitions() -> None:
    aside = script(Kind.ASIDE, 0)
    assert decibels(aside.sound) - decibels(aside.opener) == pytest.approx(-18, abs=0.2)
    for kind in (Kind.WHITE_NOISE, Kind.PINK_NOISE, Kind.BABBLE):
        noisy = script(kind, 1)
        rms = np.sqrt(np.square(noisy.noise, dtype=np.float64).mean())
        assert decibels(noisy.sound) - 20 * np.log10(rms) == pytest.approx(10, abs=0.1)


def test_a_case_is_always_the_same() -> None:
    for kind in Kind:
        one, same, other = script(kind, 4), script(kind, 4), script(kind, 5)
        assert np.array_equal(one.sound, same.sound)
        assert np.array_equal(one.noise, same.noise)
        assert (one.text, one.voice) != (other.text, other.voice) or kind is Kind.SILENCE


@pytest.mark.parametrize("name", SOUNDS)
def test_no_two_sounds_are_the_same(name: str) -> None:
    one, other = SOUNDS[name](1), SOUNDS[name](2)
    assert np.abs(one).max() == pytest.approx(0.5)
    assert not np.array_equal(one, other)


def test_noise_has_its_spectrum() -> None:
    def power(noise: Samples, low: int, high: int) -> float:
        spectrum = np.abs(np.fft.rfft(noise)) ** 2
        hz = np.fft.rfftfreq(len(noise), 1 / INPUT_RATE)
        return float(spectrum[(hz >= low) & (hz < high)].sum())

    white, pink = white_noise(INPUT_RATE * 4), pink_noise(INPUT_RATE * 4)
    assert power(white, 2000, 4000) / power(white, 500, 1000) == pytest.approx(4, rel=0.1)
    assert power(pink, 2000, 4000) / power(pink, 500, 1000) == pytest.approx(1, rel=0.1)


def test_babble_has_all_voices() -> None:
    tones = [np.sin(2 * np.pi * hz * np.arange(INPUT_RATE) / INPUT_RATE) for hz in (400, 900)]
    sound = babble(INPUT_RATE, [at_level(tone.astype(np.float32), -20) for tone in tones])
    spectrum = np.abs(np.fft.rfft(sound))
    assert set(np.argsort(spectrum)[-2:]) == {400, 900}
