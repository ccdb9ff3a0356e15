"""The speech policy with given probabilities, and the whole detector with synthesised speech."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.common import BUNDLED_QUESTION
from antiphon.inference_worker.engines.common.endpointing import (
    MAX_UTTERANCE_S,
    WINDOW_MS,
    WINDOW_SAMPLES,
    Endpoint,
    EndpointDetector,
    EndpointRules,
    SpeechEnded,
    SpeechStarted,
    StreamingVAD,
    VadEvent,
)
from antiphon.inference_worker.engines.common.silero import STEP_SAMPLES
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import VadConfig
from antiphon.shared_schemas.wav import open_wav

CONFIG = VadConfig()
END = 13
"""Number of windows in 800 ms of silence."""


def span(start: int, stop: int) -> Endpoint:
    return Endpoint(start, stop, is_utterance=True)


def detect(probabilities: Iterable[float], config: VadConfig = CONFIG) -> list[Endpoint | int]:
    """Utterances that ended, and the number of each window at which speech was announced."""
    detector = EndpointDetector(EndpointRules.of(config))
    answers: list[Endpoint | int] = []
    for index, probability in enumerate(probabilities):
        announced = detector.is_utterance
        endpoint = detector.feed(probability)
        if endpoint is not None and endpoint.is_utterance:
            answers.append(endpoint)
        elif detector.is_utterance and not announced:
            answers.append(index)
    return answers


def level(windows: Iterable[float]) -> Samples:
    """Audio whose level is a probability, for a detector that returns the level."""
    return np.repeat(np.array(list(windows), dtype=np.float32), WINDOW_SAMPLES)


def reading(samples: Samples) -> float:
    return float(samples[0])


def detector(config: VadConfig = CONFIG) -> StreamingVAD:
    return StreamingVAD(config, reading)


def test_speech_is_announced_once_it_is_long_enough_and_ends_in_silence() -> None:
    assert detect([0.1, 0.9, 0.9, 0.9, *[0.0] * END]) == [2, span(1, 4)]


def test_speech_begins_at_the_threshold_and_continues_slightly_below_it() -> None:
    assert detect([0.79] * 5) == []
    assert detect([0.8, 0.66, 0.66, 0.64, *[0.0] * END]) == [1, span(0, 3)]


@pytest.mark.parametrize(
    ("threshold", "speech", "silence"),
    [
        (0.8, 0.8, 0.65),
        (0.5, 0.5, 0.35),
        (0.16, 0.16, 0.08),
        (0.15, 0.15, 0.075),
        (0.05, 0.05, 0.025),
        (0.01, 0.01, 0.01),
        (0.001, 0.01, 0.01),
    ],
)
def test_silence_is_below_the_levels_of_any_threshold(
    threshold: float, speech: float, silence: float
) -> None:
    rules = EndpointRules.of(VadConfig(threshold=threshold))
    levels = (rules.speech_level, rules.voiced_level, rules.silence_level)
    assert levels == pytest.approx((speech, silence, silence))


def test_noise_shorter_than_speech_is_never_announced() -> None:
    assert detect([0.9, *[0.0] * END, 0.9, *[0.0] * END]) == []


def test_clicks_do_not_add_up_to_speech_across_an_end() -> None:
    assert detect([0.9, *[0.0] * END, 0.9, 0.9, *[0.0] * END]) == [END + 2, span(END + 1, END + 3)]


def test_a_pause_within_the_limit_does_not_end_speech() -> None:
    pause = [0.0] * (END - 1)
    assert detect([0.9, 0.9, *pause, 0.9, *[0.0] * END]) == [1, span(0, END + 2)]


def test_no_minimum_announces_at_the_first_window() -> None:
    config = VadConfig(min_speech_duration_ms=0, min_silence_duration_ms=32)
    assert detect([0.9, 0.0], config) == [0, span(0, 1)]


def test_endless_speech_is_cut() -> None:
    windows = -int(-MAX_UTTERANCE_S * 1000 // WINDOW_MS)
    spans = [answer for answer in detect([0.9] * (2 * windows)) if isinstance(answer, Endpoint)]
    assert spans == [span(0, windows), span(windows, 2 * windows)]


@given(st.lists(st.floats(0, 1), max_size=300))
def test_every_announcement_has_one_end_and_spans_never_overlap(probabilities: list[float]) -> None:
    answers = detect([*probabilities, *[0.0] * END])
    announced = [isinstance(answer, int) for answer in answers]
    assert announced == [True, False] * (len(answers) // 2)
    spans = [answer for answer in answers if isinstance(answer, Endpoint)]
    for one, next_one in pairwise(spans):
        assert one.start < one.stop <= next_one.start


def test_an_utterance_ends_early_if_the_silence_is_long_enough() -> None:
    vad = StreamingVAD(CONFIG, reading, longest=2.0)
    vad.feed(level([0.1] * 3 + [0.9] * 4 + [0.1] * 2))
    assert vad.paused() is None
    assert vad.feed(level([0.1] * 8)) == []
    paused = vad.paused()
    assert paused is not None
    assert vad.end_early(1.0) is None
    ended = vad.end_early(0.5)
    assert ended is not None
    assert np.array_equal(ended.audio, paused[1])
    assert (ended.speech_ms, ended.silence_ms) == (256, 640)
    assert vad.paused() is None
    assert vad.end_early(0.5) is None


def test_an_utterance_ends_at_the_longest_silence_in_any_case() -> None:
    speech, silence = [0.9] * 4, [0.1] * (2 * END)
    vad = StreamingVAD(CONFIG, reading, longest=2.0)
    assert [type(event) for event in vad.feed(level(speech + silence[:-2]))] == [SpeechStarted]
    assert [type(event) for event in vad.feed(level(silence[-2:]))] == [SpeechEnded]


def test_a_very_short_silence_of_the_client_is_kept() -> None:
    config = VadConfig(min_silence_duration_ms=64)
    events = StreamingVAD(config, reading, longest=2.0).feed(level([0.9] * 4 + [0.1] * 2))
    assert [type(event) for event in events] == [SpeechStarted, SpeechEnded]


def test_the_utterance_holds_the_speech_and_its_padding() -> None:
    audio = level([0.1] * 3 + [0.9] * 4 + [0.1] * END)
    started, ended = detector().feed(audio)
    pad = 30 * INPUT_RATE // 1000
    assert started == SpeechStarted(3 * WINDOW_SAMPLES)
    assert isinstance(ended, SpeechEnded)
    assert ended.speech_ms == 256
    expected = audio[3 * WINDOW_SAMPLES - pad : 7 * WINDOW_SAMPLES + pad]
    np.testing.assert_array_equal(ended.audio, expected)


def test_padding_stops_where_the_audio_does() -> None:
    config = VadConfig(speech_pad_ms=1000, min_silence_duration_ms=64)
    ended = detector(config).feed(level([0.9] * 4 + [0.1]))[1]
    assert isinstance(ended, SpeechEnded)
    assert len(ended.audio) == 5 * WINDOW_SAMPLES


@given(st.lists(st.sampled_from([0.0, 0.7, 0.9]), max_size=80), st.integers(1, 5000))
def test_the_chunk_size_does_not_matter(windows: list[float], size: int) -> None:
    audio = level([*windows, *[0.0] * END])
    whole = detector().feed(audio)
    pieces = detector()
    events = [e for i in range(0, len(audio), size) for e in pieces.feed(audio[i : i + size])]
    assert [shown(event) for event in events] == [shown(event) for event in whole]


def shown(event: VadEvent) -> object:
    return event if isinstance(event, SpeechStarted) else (event.speech_ms, event.audio.tobytes())


def test_a_long_silence_is_not_kept() -> None:
    vad = detector()
    for _ in range(100):
        vad.feed(level([0.0] * 10))
    assert len(vad._buffer.samples) < 2 * WINDOW_SAMPLES


def test_a_reset_forgets_unfinished_speech() -> None:
    vad = detector()
    assert vad.feed(level([0.9] * 4)) == [SpeechStarted(0)]
    vad.reset()
    assert vad.feed(level([0.0] * END)) == []


def test_the_probability_of_a_window_is_that_of_its_likelier_half() -> None:
    vad = detector(VadConfig(min_speech_duration_ms=64))
    half = np.zeros(WINDOW_SAMPLES, dtype=np.float32)
    half[STEP_SAMPLES:] = 0.9
    assert vad.feed(half) == [SpeechStarted(0)]


@pytest.mark.parametrize("threshold", [0.001, 0.01, 0.05, 0.15, 0.8])
def test_a_question_ends_at_any_threshold(threshold: float) -> None:
    question = open_wav(BUNDLED_QUESTION.read_bytes()).mono()
    vad = StreamingVAD(VadConfig(threshold=threshold))
    events = vad.feed(np.pad(question, (0, 3 * INPUT_RATE)))
    assert [type(event) for event in events] == [SpeechStarted, SpeechEnded]
    assert isinstance(events[1], SpeechEnded)
    assert events[1].speech_ms <= len(question) * 1000 / INPUT_RATE


@pytest.mark.speech
def test_the_network_finds_each_spoken_sentence_and_nothing_else() -> None:
    from support.synthetic_speech import ITALY, silence, spoken

    rng = np.random.default_rng(1)
    sentence = spoken(ITALY, lead_s=1.0)
    audio = np.concatenate([sentence, silence(1.2), sentence, silence(1.2)])
    audio += rng.normal(0, 0.001, len(audio)).astype(np.float32)
    vad = StreamingVAD(VadConfig())
    events = [e for i in range(0, len(audio), 8000) for e in vad.feed(audio[i : i + 8000])]
    assert [type(event) for event in events] == [SpeechStarted, SpeechEnded] * 2
    for event in events:
        if isinstance(event, SpeechEnded):
            spoken_ms = (len(sentence) - INPUT_RATE) / 16
            assert abs(event.speech_ms - spoken_ms) < 250
    other = StreamingVAD(VadConfig())
    assert other.feed(silence(3.0)) == []
