"""When the user stopped speaking, and which units begin an answer."""

import numpy as np
import pytest

from antiphon.inference_worker.sessions.model_speech import ResponseTimer, VoiceLevel
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.unit_result import UnitResult

SOUND: Samples = np.full(2400, 0.1, dtype=np.float32)
LISTEN = UnitResult(is_listen=True)
SPEAK = UnitResult(is_listen=False, text="a", audio=SOUND)
TEXT_ONLY = UnitResult(is_listen=False, text="a")
LAST = UnitResult(is_listen=False, text="a", audio=SOUND, end_of_turn=True)
SILENT = 9000.0
"""The user has said nothing in the unit."""


def asked(*units: tuple[UnitResult, float]) -> list[float | None]:
    """The results of units of one second, each with the silence at its end; they arrive at 1000, 2000 …"""
    timer = ResponseTimer()
    return [
        timer.add(result, 1000.0 * number, silence_ms, 1000.0)
        for number, (result, silence_ms) in enumerate(units, start=1)
    ]


def test_the_first_audio_after_speech_is_marked_once() -> None:
    units = (LISTEN, 0), (LISTEN, 400), (SPEAK, SILENT), (SPEAK, SILENT), (LAST, SILENT)
    assert asked(*units) == [None, None, 1600, None, None]


def test_the_answer_may_begin_in_the_unit_in_which_the_user_stops() -> None:
    assert asked((LISTEN, 0), (SPEAK, 700)) == [None, 1300]


def test_text_without_sound_does_not_count() -> None:
    assert asked((LISTEN, 300), (TEXT_ONLY, SILENT), (SPEAK, SILENT)) == [None, None, 700]


def test_a_greeting_answers_nothing() -> None:
    assert asked((SPEAK, SILENT), (LAST, SILENT), (LISTEN, SILENT)) == [None] * 3


def test_sound_during_an_answer_is_no_question_unless_the_model_stops() -> None:
    echo = (LISTEN, 500), (SPEAK, SILENT), (LAST, 0), (SPEAK, SILENT)
    assert asked(*echo) == [None, 500, None, None]
    barge_in = (LISTEN, 500), (SPEAK, SILENT), (LISTEN, 200), (SPEAK, SILENT)
    assert asked(*barge_in) == [None, 500, None, 2800]


def test_a_model_that_speaks_long_after_the_user_answers_nothing() -> None:
    quiet = [(LISTEN, 1000.0 * n) for n in range(1, 32)]
    assert asked((LISTEN, 100), *quiet, (SPEAK, SILENT))[-1] is None
    assert asked((LISTEN, 100), *quiet[:20], (SPEAK, SILENT))[-1] == 900


def test_a_pause_forgets_what_was_said() -> None:
    timer = ResponseTimer()
    timer.add(LISTEN, 1000.0, 100.0, 1000.0)
    timer.reset()
    assert timer.add(SPEAK, 9000.0, SILENT, 1000.0) is None


def noise(seconds: float, level: float) -> Samples:
    shape = round(seconds * INPUT_RATE)
    return np.random.default_rng(1).normal(0, level, shape).astype(np.float32)


@pytest.mark.parametrize("floor", [0.0, 0.001, 0.01])
def test_a_voice_ends_where_its_level_falls_to_that_of_the_noise(floor: float) -> None:
    level = VoiceLevel()
    assert level.feed(noise(1, floor)) >= 1000
    voiced = noise(1, floor)
    voiced[: INPUT_RATE * 6 // 10] += noise(0.6, 0.15)
    assert level.feed(voiced) == pytest.approx(400, abs=20)
    assert level.feed(noise(1, floor)) == pytest.approx(1400, abs=20)


def test_a_voice_goes_on_through_many_short_units() -> None:
    level = VoiceLevel()
    level.feed(noise(1, 0.001))
    assert max(level.feed(noise(0.2, 0.15)) for _ in range(20)) < 20


def test_constant_noise_and_a_click_are_no_voice() -> None:
    level = VoiceLevel()
    loud = [level.feed(noise(1, 0.3)) for _ in range(3)]
    assert loud == sorted(loud)
    click = noise(1, 0.001)
    click[8000:8200] = 0.9
    level = VoiceLevel()
    level.feed(noise(1, 0.001))
    assert level.feed(click) >= 2000


def test_any_length_of_audio_counts() -> None:
    level = VoiceLevel()
    assert level.feed(np.zeros(100, dtype=np.float32)) == pytest.approx(6.25)
    assert level.feed(np.zeros(0, dtype=np.float32)) == pytest.approx(6.25)
