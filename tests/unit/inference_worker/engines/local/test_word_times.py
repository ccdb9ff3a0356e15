"""When the words of a transcript were said."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.engines.local.hearing.transcription import (
    Recogniser,
    between_pauses,
    timed_words,
    transcribed_segments,
)
from antiphon.shared_schemas.audio import INPUT_RATE
from support.synthetic_speech import silence, spoken

STEP_S = 0.032


@given(
    text=st.text("ab ", max_size=40),
    voiced=st.lists(st.booleans(), max_size=200),
    begin_s=st.floats(0, 1000),
)
def test_words_are_in_order_and_within_the_sound(
    text: str, voiced: list[bool], begin_s: float
) -> None:
    words = list(timed_words(text, np.array(voiced, dtype=np.bool_), begin_s))
    assert [word.word for word in words] == (text.split() if any(voiced) else [])
    times = [time for word in words for time in (word.start, word.end)]
    assert all(a <= b + 0.0011 for a, b in pairwise(times))
    assert not times or times[0] >= begin_s - 0.001
    assert not times or times[-1] <= begin_s + len(voiced) * STEP_S + 0.001


def test_a_pause_is_between_two_words() -> None:
    voiced = np.array([True] * 20 + [False] * 30 + [True] * 20)
    one, two = timed_words("a wonderful", voiced, 0.0)
    assert one.end == pytest.approx(20 * STEP_S, abs=0.001)
    assert two.start == pytest.approx(50 * STEP_S, abs=0.001)


@given(
    text=st.text("ab ", max_size=40),
    voiced=st.lists(st.booleans(), max_size=200),
)
def test_groups_have_all_words_and_no_long_pause(text: str, voiced: list[bool]) -> None:
    words = list(timed_words(text, np.array(voiced, dtype=np.bool_), 0.0))
    groups = between_pauses(words)
    assert [word for group in groups for word in group] == words
    assert all(b.start - a.end < 1.0 for group in groups for a, b in pairwise(group))
    assert all(b[0].start - a[-1].end >= 1.0 for a, b in pairwise(groups))


@pytest.mark.speech
def test_segments_begin_and_end_with_the_speech() -> None:
    """Also where the sound is cut in a pause, and where several sentences are in one piece."""
    texts = ["What is the capital of Italy?", "I would like a cup of tea.", "Good morning."]
    speech = [spoken(text, lead_s=0.0) for text in texts]
    leads_s = [2.4, 3.0, 8.0]
    sound = np.concatenate(
        [
            part
            for lead_s, said in zip(leads_s, speech, strict=True)
            for part in (silence(lead_s), said)
        ]
    )
    deltas = list(transcribed_segments(Recogniser(), np.concatenate([sound, silence(3.0)])))
    segments = [delta.segment for delta in deltas if delta.segment is not None]
    assert "".join(delta.text for delta in deltas) == " ".join(texts)
    assert [segment.text for segment in segments] == texts
    start_s = 0.0
    for segment, lead_s, said in zip(segments, leads_s, speech, strict=True):
        start_s += lead_s
        assert segment.start == pytest.approx(start_s, abs=0.25)
        start_s += len(said) / INPUT_RATE
        assert segment.end == pytest.approx(start_s, abs=0.25)


@pytest.mark.speech
def test_words_are_near_their_places() -> None:
    """A word ends where the speech of the words before it, and itself, ends."""
    texts = [
        "Please tell me the weather in Rome tomorrow morning.",
        "What is the capital of Italy?",
    ]
    recogniser = Recogniser()
    for text in texts:
        words, sound = text.split(), spoken(text)
        (delta,) = transcribed_segments(recogniser, np.concatenate([sound, silence(0.5)]))
        assert delta.segment is not None
        assert delta.text == text
        starts = [len(spoken(" ".join(words[:n]))) / INPUT_RATE for n in range(1, len(words))]
        found = [word.start for word in delta.segment.words[1:]]
        assert found == pytest.approx(starts, abs=0.3)
