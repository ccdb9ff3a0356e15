"""The positions of captured and played audio on the time line, and the captions."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.recorder_service.manifest.plan import (
    Caption,
    PlacedClip,
    SpokenText,
    TimedSound,
    lay_out_captions,
    place_captured,
    place_played,
)

RATE = 1000
"""One sample per millisecond."""


def chunks(*arrivals: float, samples: int = 1000) -> list[TimedSound]:
    return [TimedSound(at, f"{place}.wav", samples) for place, at in enumerate(arrivals)]


def starts(clips: list[PlacedClip]) -> list[int]:
    return [clip.start for clip in clips]


@pytest.mark.parametrize(
    ("arrivals", "places"),
    [
        pytest.param((1000, 2000, 3000), [0, 1000, 2000], id="a chunk ends at its arrival"),
        pytest.param(
            (1000, 2000, 3700, 4000, 5000), [0, 1000, 2000, 3000, 4000], id="the third is delayed"
        ),
        pytest.param(
            (1000, 5000, 5001, 5002, 6000),
            [0, 2000, 3000, 4000, 5000],
            id="a burst after an outage",
        ),
        pytest.param((1000, 2000, 9500, 10500), [0, 1000, 8500, 9500], id="a pause stays a pause"),
        pytest.param((5, 6, 7), [0, 1000, 2000], id="faster than real time"),
        pytest.param((0, 0, 0), [0, 1000, 2000], id="all at once"),
    ],
)
def test_a_chunk_is_placed_where_it_was_spoken(
    arrivals: tuple[float, ...], places: list[int]
) -> None:
    assert starts(place_captured(chunks(*arrivals), RATE)) == places


def test_jitter_makes_no_gaps() -> None:
    """A jitter of 40 ms, and a clock that is slow by a ten-thousandth."""
    times = [1000.1 * n + 20 * (-1) ** n + 20 for n in range(1, 1000)]
    clips = place_captured(chunks(*times), RATE)
    gaps = [b.start - a.stop for a, b in pairwise(clips)]
    assert gaps == [0] * len(gaps)
    assert all(abs(clip.stop - at) <= 240 for clip, at in zip(clips, times, strict=True))


def test_drift_is_corrected_in_steps() -> None:
    times = [1001.0 * n for n in range(1, 1000)]
    clips = place_captured(chunks(*times), RATE)
    assert all(0 <= at - clip.stop <= 201 for clip, at in zip(clips, times, strict=True))


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 2000)), max_size=30))
def test_captured_audio_keeps_its_order_and_never_overlaps(steps: list[tuple[float, int]]) -> None:
    at, sounds = 0.0, []
    for place, (step, samples) in enumerate(steps):
        at += step
        sounds.append(TimedSound(at, f"{place}.wav", samples))
    clips = place_captured(sounds, RATE)
    assert [(c.file, c.samples) for c in clips] == [(s.file, s.samples) for s in sounds]
    pen = 0
    for clip in clips:
        assert clip.start >= pen
        pen = clip.stop


def test_audio_that_arrives_early_is_played_after_the_earlier_one() -> None:
    clips = place_played(chunks(100, 1050, 2300), (), RATE)
    assert starts(clips) == [100, 1100, 2300]


def test_a_barge_in_drops_unplayed_audio() -> None:
    clips = place_played(chunks(100, 101, 102, 2000), [1500.0], RATE)
    assert [(c.start, c.samples) for c in clips] == [(100, 1000), (1100, 400), (2000, 1000)]


def test_a_barge_in_during_silence_changes_nothing() -> None:
    clips = place_played(chunks(100), [50.0, 5000.0], RATE)
    assert [(c.start, c.samples) for c in clips] == [(100, 1000)]


def test_captions_grow_with_the_turn_and_remain_for_a_while() -> None:
    texts = [
        SpokenText(1000, 2000, "The capital of Italy ", ends_turn=False),
        SpokenText(2000, 2600, "is Rome.", ends_turn=True),
        SpokenText(9000, 9500, "Anything else?", ends_turn=True),
    ]
    assert lay_out_captions(texts, 60_000) == [
        Caption(1000, 2000, "The capital of Italy"),
        Caption(2000, 4100, "The capital of Italy is Rome."),
        Caption(9000, 11000, "Anything else?"),
    ]


def test_a_long_turn_begins_a_new_caption() -> None:
    texts = [
        SpokenText(1000 * n, 1000 * n + 900, "x" * 30 + " ", ends_turn=False) for n in range(6)
    ]
    assert [len(caption.text) for caption in lay_out_captions(texts, 60_000)] == [
        30,
        61,
        30,
        61,
        30,
        61,
    ]
