"""The rules of full duplex; `common/test_endpointing.py` has the detector with those of half duplex."""

from antiphon.inference_worker.engines.common.endpointing import Endpoint, EndpointDetector
from antiphon.inference_worker.engines.local.hearing.speech_input import (
    LIKELY_SILENCE_MS,
    endpoint_rules,
)

RULES = endpoint_rules(480, 1.0)
END_FRAMES = 15
MIN_FRAMES = 7


def feed(detector: EndpointDetector, probability: float, frames: int) -> list[Endpoint]:
    results = [detector.feed(probability) for _ in range(frames)]
    return [result for result in results if result]


def likely_end(detector: EndpointDetector) -> Endpoint | None:
    return detector.utterance_after(LIKELY_SILENCE_MS)


def test_uncertain_frames_continue_speech_but_do_not_begin_it() -> None:
    detector = EndpointDetector(RULES)
    feed(detector, 0.4, 50)
    assert detector.start is None
    feed(detector, 0.9, 10)
    assert feed(detector, 0.4, 50) == []


def test_voiced_time_counts_the_current_speech_only() -> None:
    detector = EndpointDetector(RULES)
    feed(detector, 0.9, 10)
    assert detector.voiced_ms == 320.0
    feed(detector, 0.0, END_FRAMES)
    assert detector.voiced_ms == 0.0
    feed(detector, 0.9, 1)
    assert detector.voiced_ms == 32.0


def test_a_likely_end_is_known_before_the_end_and_is_the_same() -> None:
    detector = EndpointDetector(RULES)
    feed(detector, 0.9, 20)
    assert likely_end(detector) is None
    feed(detector, 0.0, 3)
    assert likely_end(detector) is None
    feed(detector, 0.0, 1)
    likely = likely_end(detector)
    assert likely == Endpoint(0, 20, is_utterance=True)
    assert feed(detector, 0.0, END_FRAMES - 4) == [likely]
    assert likely_end(detector) is None


def test_no_end_is_likely_after_a_noise_or_during_speech() -> None:
    detector = EndpointDetector(RULES)
    feed(detector, 0.9, MIN_FRAMES - 1)
    feed(detector, 0.0, 6)
    assert likely_end(detector) is None
    feed(detector, 0.9, 10)
    assert likely_end(detector) is None


def test_an_utterance_ends_on_request_and_at_the_longest_silence_in_any_case() -> None:
    detector = EndpointDetector(RULES)
    detector.longest_silence_ms = 3 * RULES.end_silence_ms
    feed(detector, 0.9, 20)
    assert feed(detector, 0.0, END_FRAMES) == []
    assert detector.end_after((END_FRAMES + 1) * RULES.frame_ms) is None
    assert detector.end_after(END_FRAMES * RULES.frame_ms) == Endpoint(0, 20, is_utterance=True)
    assert detector.end_after(0.0) is None
    feed(detector, 0.9, 20)
    assert feed(detector, 0.0, 3 * END_FRAMES - 1) == []
    assert feed(detector, 0.0, 1) == [Endpoint(35, 55, is_utterance=True)]


def test_a_short_noise_ends_at_the_usual_silence() -> None:
    detector = EndpointDetector(RULES)
    detector.longest_silence_ms = 3 * RULES.end_silence_ms
    feed(detector, 0.9, MIN_FRAMES - 1)
    assert feed(detector, 0.0, END_FRAMES) == [Endpoint(0, MIN_FRAMES - 1, is_utterance=False)]


def test_listen_prob_scale_makes_it_eager_or_reluctant() -> None:
    eager, cautious = endpoint_rules(480, 0.5), endpoint_rules(480, 2.0)
    assert eager.end_silence_ms == 240.0
    assert eager.min_speech_ms == 112.0
    assert cautious.end_silence_ms == 960.0
    assert cautious.min_speech_ms == 448.0


def test_listen_prob_scale_zero_still_waits_for_a_pause() -> None:
    rules = endpoint_rules(480, 0.0)
    assert rules.end_silence_ms > 0
    assert rules.min_speech_ms > 0


def test_a_huge_listen_prob_scale_practically_never_answers() -> None:
    detector = EndpointDetector(endpoint_rules(480, 100.0))
    feed(detector, 0.9, 100)
    assert feed(detector, 0.0, 1000) == []
