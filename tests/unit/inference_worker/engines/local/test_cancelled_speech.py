"""What ends the speech of an answer that nobody waits for: in the queue, in a run, and ahead of a session."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.answer import (
    FixedText,
    LocalAnswer,
    spoken_clauses,
)
from antiphon.inference_worker.engines.local.clauses import clauses_of, words_of
from antiphon.inference_worker.engines.local.guard.answer_guard import AnswerGuard
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.reply import Reply, UnfinishedReply
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.voices import speaker
from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)
from antiphon.inference_worker.engines.local.voices.catalogue import (
    DEFAULT_VOICE,
    NATURAL_VOICES,
)
from antiphon.inference_worker.engines.local.voices.kokoro import Kokoro, Melody
from antiphon.inference_worker.engines.local.voices.queue import SynthesisQueue
from antiphon.inference_worker.engines.local.voices.said_before import SaidBefore
from antiphon.inference_worker.engines.local.voices.speaker import Speaker, Voices
from antiphon.inference_worker.engines.local.voices.voice import KokoroVoice

pytestmark = pytest.mark.speech


@pytest.fixture(scope="module")
def voices(local_engine: LocalProcessor) -> Voices:
    assert local_engine._models is not None
    return local_engine._models.voices


def test_speech_that_nobody_waits_for_leaves_the_queue() -> None:
    """The answer that replaces an interrupted one does not wait for its next clause."""
    queue, running, ends = SynthesisQueue(0.01), threading.Event(), threading.Event()
    cancelled, done = Cancellation(), list[str]()

    def first() -> None:
        running.set()
        ends.wait(60)

    def interrupted() -> None:
        with pytest.raises(SynthesisCancelled):
            queue.run(lambda: done.append("old"), 500, 0.0, cancelled)
        done.append("left")

    threads = [threading.Thread(target=queue.run, args=(first, 1, 0.0))]
    threads[0].start()
    assert running.wait(60)
    threads.append(threading.Thread(target=interrupted))
    threads[1].start()
    while not queue._waiting:
        time.sleep(0.001)
    cancelled.set()
    threads[1].join(60)
    assert done == ["left"]
    assert queue._waiting == []
    ends.set()
    queue.run(lambda: done.append("new"), 1, 1.0)
    threads[0].join(60)
    assert done == ["left", "new"]


def test_a_run_that_nobody_waits_for_ends(voices: Voices) -> None:
    """A run of a long clause takes seconds, in which the next answer would wait."""
    voice, cancellation = voices.by_id["george"], Cancellation()
    assert isinstance(voice, KokoroVoice)
    queue, text = voice._queue, _clause(" ".join(["Wonderful weather everywhere"] * 8))
    usual = queue.estimate_s(100, 0.0)
    threading.Thread(target=_cancel_within_run, args=(queue, cancellation)).start()
    with pytest.raises(SynthesisCancelled):
        voice.speak(text, 0.0, cancellation=cancellation)
    with pytest.raises(SynthesisCancelled):
        voice.speak(text, 0.0, cancellation=cancellation)
    assert queue.estimate_s(100, 0.0) == usual, "it says nothing about the speed"
    assert len(voice.speak(_clause("Yes."), 0.0).audio)


@pytest.mark.parametrize("by", ["reply", "answer", "reading"])
def test_who_cancels_an_answer_ends_its_speech(by: str) -> None:
    speaks = threading.Event()

    class EndlessKokoro(Kokoro):
        def __init__(self) -> None:
            pass

        def melody(
            self, ids: Sequence[int], style: object, speed: float, cancellation: Cancellation
        ) -> Melody:
            ended = threading.Event()
            with cancellation.ends_by(ended.set):
                speaks.set()
                assert ended.wait(60), "nothing has ended the run"
            raise SynthesisCancelled

    queue = SynthesisQueue(0.01)
    voice = KokoroVoice(EndlessKokoro(), queue, NATURAL_VOICES[DEFAULT_VOICE], SaidBefore())
    endless, guard = Speaker(voice, voice), AnswerGuard(filter_obscene=False)
    with ThreadPoolExecutor(1) as pool:
        if by == "reply":
            rest = UnfinishedReply(words_of("You are welcome."), more=False)
            reply = Reply(lambda: FixedText(""), endless, StageCosts(), 9, rest, guard, begun=False)
            reply.start(pool)
            assert speaks.wait(60)
            reply.cancel()
            assert reply._job is not None
            reply._job.result(60)
        elif by == "answer":
            answer = LocalAnswer(FixedText("You are welcome."), endless, guard)
            job = pool.submit(list, answer)
            assert speaks.wait(60)
            answer.end()
            assert job.result(60) == []
        else:
            cancellation = Cancellation()
            text = [("You are welcome.", 3)]
            [(deltas, _)] = spoken_clauses(text, endless, "en", cancellation)
            reading = pool.submit(list, deltas)
            assert speaks.wait(60)
            cancellation.set()
            assert reading.result(60) == []


def test_likely_answers_are_spoken_ahead_until_a_session_opens(
    voices: Voices, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("Rehearsed, it starts at once.", "This one comes too late.")
    monkeypatch.setattr(speaker, "REHEARSED", texts)
    first, second = (list(clauses_of(words_of(text))) for text in texts)
    voice = voices.default
    assert isinstance(voice, KokoroVoice)
    used, begun = Cancellation(), iter(range(len(first) + 1))

    def opens_in_the_second() -> bool:
        if next(begun) == len(first):
            threading.Thread(target=_cancel_within_run, args=(voice._queue, used)).start()
        return False

    assert not voices.rehearse(used, opens_in_the_second)
    assert {voice.estimate_s(one, 0.0) for one in first} == {(0.0, 0.0)}
    assert (0.0, 0.0) not in {voice.estimate_s(one, 0.0) for one in second}
    assert voices.rehearse(Cancellation(), lambda: False)
    assert {voice.estimate_s(one, 0.0) for one in second} == {(0.0, 0.0)}


def _cancel_within_run(queue: SynthesisQueue, cancellation: Cancellation) -> None:
    while queue._running is None:
        time.sleep(0.001)
    cancellation.set()


def _clause(text: str) -> Clause:
    return Clause(words_of(text), ends_sentence=True)
