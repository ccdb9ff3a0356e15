"""A clause in pieces: the same sound as at once, each piece in time, and each word in its piece."""

import math
import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local import duplex
from antiphon.inference_worker.engines.local.answer import spoken_clauses
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.duplex import LocalDuplexView
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.speech import Clause, joined
from antiphon.inference_worker.engines.local.voices import pieces
from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)
from antiphon.inference_worker.engines.local.voices.catalogue import NATURAL_VOICES, VOICES
from antiphon.inference_worker.engines.local.voices.kokoro import (
    STEP_SAMPLES,
    Kokoro,
    Melody,
    load_statistics,
)
from antiphon.inference_worker.engines.local.voices.pieces import (
    STEP_S,
    PieceMaker,
    SpeechPiece,
    first_steps,
    in_background,
)
from antiphon.inference_worker.engines.local.voices.queue import SynthesisQueue
from antiphon.inference_worker.engines.local.voices.said_before import SaidBefore
from antiphon.inference_worker.engines.local.voices.speaker import Speaker
from antiphon.inference_worker.engines.local.voices.voice import KokoroVoice, symbols_in
from antiphon.shared_schemas.audio import Samples
from support.speech import transcribe
from support.synthetic_speech import STEADY, run_unit, silence

SENTENCE = "The largest ocean on Earth is the Pacific Ocean."


@pytest.fixture
def voice(local_engine: LocalProcessor) -> KokoroVoice:
    """On a machine of usual speed, whatever this one is."""
    assert local_engine._models is not None
    emma = local_engine._models.voices.by_id["emma"]
    assert isinstance(emma, KokoroVoice)
    return KokoroVoice(emma._network, SynthesisQueue(0.02), NATURAL_VOICES["emma"], SaidBefore())


def clause(text: str = SENTENCE) -> Clause:
    return Clause(words_of(text), ends_sentence=True)


@pytest.mark.speech
def test_pieces_have_no_seam_and_are_understood(voice: KokoroVoice) -> None:
    network, cancellation = voice._network, Cancellation()
    ids = symbols_in(clause().spoken, "en-GB").ids
    melody = network.melody(ids, voice._style, 1.0, cancellation)

    def said(*bounds: int) -> Samples:
        return np.concatenate(
            [
                network.piece(melody, begin, end, voice._statistics, cancellation)
                for begin, end in pairwise((0, *bounds, melody.length))
            ]
        )

    whole, parts, exact = said(), said(20, 36, 60), network.sound(melody, cancellation)
    assert len(parts) == len(whole) == len(exact) == melody.length * STEP_SAMPLES
    # Each run rounds its values to bytes, by the largest of them.
    assert np.corrcoef(whole, parts)[0, 1] > 0.95
    assert np.corrcoef(exact, parts)[0, 1] > 0.8
    assert 0.7 < np.sqrt(np.mean(parts**2) / np.mean(exact**2)) < 1.4
    assert transcribe(parts) == transcribe(exact)


@pytest.mark.speech
def test_each_word_is_in_the_part_in_which_it_begins(voice: KokoroVoice) -> None:
    parts = list(voice.speak_in_pieces(clause(), 0.0))
    assert len(parts) > 1
    assert len(parts[0].audio) < 24_000
    for part in parts:
        assert len(part.starts) == len(part.words)
        assert all(0 <= place < len(part.audio) for place in (*part.starts, *part.phonemes))
    whole, at_once = joined(parts), voice.speak(clause(), 0.0)
    assert whole.words == at_once.words == clause().words
    # Where sound is audible differs by a few milliseconds.
    assert np.abs(np.subtract(whole.starts, at_once.starts)).max() < 24 * 25
    assert np.abs(np.subtract(whole.phonemes, at_once.phonemes)).max() < 24 * 25
    assert abs(len(whole.audio) - len(at_once.audio)) < 24 * 50
    said_again = list(voice.speak_in_pieces(clause(), 0.0))
    assert [part.words for part in said_again] == [clause().words], "what was said twice is kept"


@pytest.mark.speech
@pytest.mark.parametrize(
    ("seconds_per_letter", "needed_at"),
    [(0.02, math.inf), (0.2, 0.0), (0.0005, None)],
    ids=["nobody waits", "a slow machine", "a fast machine"],
)
def test_a_clause_is_said_at_once_where_pieces_are_no_help(
    voice: KokoroVoice,
    seconds_per_letter: float,
    needed_at: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(voice, "_queue", SynthesisQueue(seconds_per_letter))
    moment = pieces.time.perf_counter() if needed_at is None else needed_at
    (part,) = voice.speak_in_pieces(clause("The opposite of hot is cold."), moment)
    assert len(part.words) == 6


@pytest.mark.speech
def test_a_short_piece_begins_a_short_unit_and_no_long_one(
    local_engine: LocalProcessor, new_view: LocalDuplexView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it, a unit of a second would be silent to its end, in the middle of a clause."""
    assert local_engine._models is not None
    waits, go_on, make = threading.Event(), threading.Event(), Kokoro.piece

    def piece(network: Kokoro, melody: Melody, begin: int, *rest: Any) -> Samples:
        if begin:
            waits.set()
            assert go_on.wait(60)
        return make(network, melody, begin, *rest)

    monkeypatch.setattr(Kokoro, "piece", piece)
    monkeypatch.setattr(pieces, "first_steps", lambda *_: 40)  # whatever the machine's speed
    monkeypatch.setattr(local_engine._models.voices.by_id["emma"], "_queue", SynthesisQueue(0.02))
    monkeypatch.setattr(duplex, "_WAIT_SHARE", 0.1)
    greets = {"greeting": SENTENCE, "voice": "emma"}
    new_view.prepare("", STEADY.model_copy(update=greets))
    try:
        assert run_unit(new_view, silence(1.0)).is_listen
        assert waits.wait(60)
        assert run_unit(new_view, silence(1.0)).is_listen
        short = run_unit(new_view, silence(0.2))
        assert len(short.audio) == 24_000 // 5
    finally:
        go_on.set()


@pytest.mark.speech
def test_the_text_of_an_answer_comes_with_its_sound(voice: KokoroVoice) -> None:
    text = "Bees make **honey**. They collect the nectar - of flowers, in summer."
    speaker, cancellation = Speaker(voice, voice), Cancellation()
    answer = [
        list(deltas) for deltas, _ in spoken_clauses([(text, 9)], speaker, "en", cancellation)
    ]
    deltas = [delta for each in answer for delta in each]
    assert len(deltas) > len(answer)
    assert "".join(delta.text for delta in deltas) == text
    assert sum(delta.n_tokens for delta in deltas) == 9
    assert all(len(delta.audio) for delta in deltas if delta.text)


class TimedKokoro(Kokoro):
    """Makes silence, in a time of its own."""

    def __init__(self, seconds_per_step: float, length: int) -> None:
        self.now = 100.0
        self.bounds: list[tuple[int, int]] = []
        self._seconds_per_step = seconds_per_step
        self._length = length

    def melody(self, *_: Any) -> Melody:
        features = np.zeros((1, 1, 2 * self._length), np.float32)
        return Melody(features, features, features[0], np.array([self._length]))

    def piece(self, melody: Melody, begin: int, end: int, *_: Any) -> Samples:
        first, last = max(0, begin - 5), min(melody.length, end + 5)
        self.bounds.append((begin, end))
        self.now += (last - first) * self._seconds_per_step
        return np.zeros((end - begin) * STEP_SAMPLES, np.float32)


@pytest.mark.parametrize("speed", [0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.2])
@pytest.mark.parametrize("length", [21, 40, 77, 200, 510])
@pytest.mark.parametrize("expected", [0.2, 1.0])
def test_each_piece_is_ready_before_the_one_before_has_been_played(
    speed: float, length: int, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`speed`: seconds of computation per second of sound; `expected` is its share that was foreseen."""
    network = TimedKokoro(speed * STEP_S, length)
    monkeypatch.setattr(pieces, "time", SimpleNamespace(perf_counter=lambda: network.now))
    nothing = np.zeros((1, 1), np.float32)
    whole_s = expected * speed * STEP_S * length * 1.125
    maker = PieceMaker(network, (), nothing, nothing, 1.0, whole_s, network.now, Cancellation())
    given: list[tuple[float, SpeechPiece]] = []
    maker.make(lambda piece: given.append((network.now, piece)))
    played_until = given[0][0]
    for ready_at, piece in given:
        assert ready_at <= played_until + 1e-9
        played_until += len(piece.audio) / 24_000
    assert [piece.last for _, piece in given] == [*[False] * (len(given) - 1), True]
    assert network.bounds[0][0] == 0
    assert network.bounds[-1][1] == length
    assert all(before[1] == after[0] for before, after in pairwise(network.bounds))


def test_the_first_piece_is_longer_on_a_slow_machine_and_for_a_long_text() -> None:
    by_speed = [first_steps(100, speed * STEP_S) for speed in (0.1, 0.3, 0.5, 0.7, 0.9, 2.0)]
    by_length = [first_steps(length, 0.7 * STEP_S) for length in (20, 50, 100, 200)]
    for lengths in (by_speed, by_length):
        assert lengths == sorted(lengths)
        assert lengths[0] < lengths[2] < lengths[3]
    assert by_speed[0] == 16


def _piece() -> SpeechPiece:
    return SpeechPiece(np.zeros(1, np.float32), np.zeros(1, np.int64), last=False)


def test_pieces_do_not_wait_until_they_are_taken() -> None:
    done = threading.Event()

    def work(give: Callable[[SpeechPiece], None]) -> None:
        for _ in range(3):
            give(_piece())
        done.set()

    made = in_background(work)
    next(made)
    assert done.wait(60)
    assert len(list(made)) == 2


def test_pieces_that_nobody_takes_are_not_made() -> None:
    ended, go_on = threading.Event(), threading.Event()

    def work(give: Callable[[SpeechPiece], None]) -> None:
        give(_piece())
        assert go_on.wait(60)
        try:
            give(_piece())
        except SynthesisCancelled:
            ended.set()

    made = in_background(work)
    next(made)
    made.close()
    go_on.set()
    assert ended.wait(60)


def test_an_error_arrives_where_the_pieces_are_taken() -> None:
    def work(give: Callable[[SpeechPiece], None]) -> None:
        give(_piece())
        raise MemoryError("no memory for the voice")

    made = in_background(work)
    next(made)
    with pytest.raises(MemoryError, match="no memory for the voice"):
        next(made)


@pytest.mark.parametrize(
    "style", [voice.style for voices in VOICES.values() for voice in voices.values()]
)
def test_each_voice_has_its_statistics(style: str) -> None:
    statistics = load_statistics(style)
    assert statistics.shape == (88, 256)
    assert np.isfinite(statistics).all()
    assert (np.abs(statistics).max(axis=1) > 0).all()


@pytest.mark.speech
def test_an_answer_pauses_before_its_next_clause_only(voice: KokoroVoice) -> None:
    speaker = Speaker(voice, voice)
    first = list(speaker.speak(clause(), StageCosts()))
    second = list(speaker.speak(clause(), StageCosts()))
    pause = 24_000 * 3 // 10
    assert (first[0].starts[0], second[0].starts[0]) == (0, pause)
    assert not second[0].audio[:pause].any()
    later = [part for part in (*first, *second[1:]) if len(part.audio)]
    assert all(part.audio[:pause].any() for part in later)
