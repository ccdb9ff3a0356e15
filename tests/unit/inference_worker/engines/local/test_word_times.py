"""When the words of a transcript were said."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.engines.local.hearing.transcription import (
    Recogniser,
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
