"""The loudspeaker and the microphone of a scripted call, on a clock that the tests set."""

import numpy as np
import pytest

from antiphon.cli.evaluate.tracks import Microphone, Playback, Span, sounds_in
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples


def speech(seconds: float, silent_s: float = 0.0) -> Samples:
    sound = np.full(round(seconds * OUTPUT_RATE), 0.3, np.float32)
    sound[: round(silent_s * OUTPUT_RATE)] = 0
    return sound


def played(playback: Playback, end: float = 20.0) -> list[tuple[float, float]]:
    spans = sounds_in(playback.track(0.0, end), 0.0)
    return [(round(one.begin, 2), round(one.end, 2)) for one in spans]


def test_results_play_one_after_another_and_late_ones_after_a_gap() -> None:
    playback = Playback()
    for now in (1.0, 1.5, 4.0):
        playback.add(speech(1.0), "word ", 0, now)
    assert played(playback) == [(1.0, 3.0), (4.0, 5.0)]
    assert playback.ends_at == 5.0
    [turn] = playback.turns(0.5, 20.0)
    assert turn.span == Span(0.5, 4.5)
    assert turn.pieces == ((0.5, "word "), (1.5, "word "), (3.5, "word "))
    assert not turn.ended
    assert not turn.cut


def test_what_is_dropped_is_not_played() -> None:
    playback = Playback()
    playback.add(speech(1.0), "a", 0, 1.0)
    playback.add(speech(1.0), "b", 0, 1.1)
    playback.add(speech(1.0), "c", 0, 1.2)
    assert playback.drop(2.25) == pytest.approx(1.25)
    assert played(playback) == [(1.0, 2.25)]
    [turn] = playback.turns(0.0, 20.0)
    assert turn.text == "ab"
    assert turn.cut
    assert playback.drop(2.3) is None
    playback.add(speech(1.0), "d", 1, 2.4)
    assert played(playback) == [(1.0, 2.25), (2.4, 3.4)]


def test_an_answer_that_stops_where_nothing_is_left_is_cut_too() -> None:
    playback = Playback()
    playback.add(speech(1.0), "a", 0, 1.0)
    assert playback.drop(2.5, open_turns_only=True) is None
    playback.add(speech(1.0), "b", 1, 3.0)
    playback.end_turn(1)
    assert playback.drop(4.5, open_turns_only=True) is None
    assert [turn.cut for turn in playback.turns(0.0, 20.0)] == [True, False]


def test_a_complete_answer_plays_to_its_end_unless_the_server_says_otherwise() -> None:
    playback = Playback()
    playback.add(speech(2.0), "a", 0, 1.0)
    playback.end_turn(0)
    assert playback.drop(1.5, open_turns_only=True) is None
    assert played(playback) == [(1.0, 3.0)]
    assert playback.drop(1.5) == pytest.approx(0.5)
    [turn] = playback.turns(0.0, 20.0)
    assert turn.ended
    assert turn.cut


def test_the_first_sound_is_no_sooner_than_it_is_played() -> None:
    playback = Playback()
    playback.add(speech(1.0, silent_s=0.4), "a", 0, 1.0)
    assert playback.sound_since(0.0, 1.3) is None
    assert playback.sound_since(0.0, 1.5) == pytest.approx(1.4)
    assert playback.sound_since(1.6, 1.7) == pytest.approx(1.6)
    assert playback.sound_since(2.1, 9.0) is None


def test_a_track_is_cut_at_any_times() -> None:
    playback = Playback()
    playback.add(speech(3.0), "a", 0, 1.0)
    assert len(playback.track(2.0, 2.5)) == OUTPUT_RATE // 2
    assert playback.track(2.0, 2.5).all()
    assert not playback.track(5.0, 6.0).any()
    assert playback.turns(4.5, 6.0) == ()


def test_the_microphone_mixes_what_is_said_at_its_times() -> None:
    microphone = Microphone()
    tone = np.full(INPUT_RATE, 0.2, np.float32)
    assert microphone.add(tone, 1.0) == Span(1.0, 2.0)
    assert microphone.add(tone, 1.5) == Span(1.5, 2.5)
    track = microphone.track(0.5, 3.0)
    assert [
        round(float(track[round((at - 0.5) * INPUT_RATE)]), 1) for at in (0.6, 1.2, 1.7, 2.2, 2.7)
    ] == [*(0.0, 0.2, 0.4, 0.2, 0.0)]
    microphone.hush(1.75)
    assert not microphone.track(1.75, 3.0).any()
    assert microphone.track(1.6, 1.75).all()
