import dataclasses
import math
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import soxr

from antiphon.inference_worker.engines.common.barge_in import UserVoice
from antiphon.inference_worker.engines.local import duplex
from antiphon.inference_worker.engines.local.chinese.script import said_in
from antiphon.inference_worker.engines.local.conversation import STILL_THERE
from antiphon.inference_worker.engines.local.dialogue import CUT
from antiphon.inference_worker.engines.local.duplex import LocalDuplexView
from antiphon.inference_worker.engines.local.hearing.speech_input import (
    BARGE_IN_MS,
    SpeechInput,
    endpoint_rules,
)
from antiphon.inference_worker.engines.local.llm import LocalLanguageModel, sampling
from antiphon.inference_worker.engines.local.models import LocalSlot
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.rules.answer import ENGLISH_ONLY
from antiphon.inference_worker.engines.local.rules.situation import CAMERA_OFF
from antiphon.inference_worker.engines.local.sight.watch import Watch
from antiphon.inference_worker.engines.local.stored_models import bundled_model, check_gguf
from antiphon.inference_worker.engines.local.voices.speaker import Speaker
from antiphon.inference_worker.engines.types import (
    ContextFull,
    EngineError,
    EngineLoadError,
    InputRefused,
    PastUnit,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig
from antiphon.shared_schemas.entries import TextKind
from antiphon.shared_schemas.unit_result import UnitResult
from support.pictures import photograph
from support.synthetic_speech import (
    GERMANY,
    JAPAN,
    PERSONA,
    STEADY,
    ask_until_speech,
    audio_of,
    converse,
    cough,
    listen,
    past,
    run_unit,
    run_units,
    silence,
    spoken,
    text_of,
    units_of,
)

pytestmark = pytest.mark.speech

GREETING = "Good morning and welcome to you all! How can I help you with your questions?"
STORY = "Tell me a story about a dog and a cat who live on a farm."


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def turns(view: LocalDuplexView) -> list[tuple[str, str]]:
    """Without the mark of a cut answer."""
    assert view._conversation is not None
    messages = view._conversation.dialogue.messages()[1:]
    return [(m["role"], m["content"].removesuffix(CUT)) for m in messages]


def transcript(engine: LocalProcessor, audio: Samples) -> str:
    assert engine._models is not None
    chunks = soxr.resample(audio, OUTPUT_RATE, INPUT_RATE).astype(np.float32)
    return engine._models.recogniser.transcribe(chunks).text


def user_turns(results: list[UnitResult]) -> str:
    return " ".join(result.memo["user"] for result in results if "user" in result.memo)


def test_a_question_about_the_camera_is_answered(view: LocalDuplexView) -> None:
    """And that it is off, when it is off."""
    assert text_of(converse(view, "What do you see?")) == CAMERA_OFF
    view.prefill(silence(1.0), [photograph("cat")])
    view.generate()
    view.finalize()
    watch = view._prepared()[0]._view
    assert isinstance(watch, Watch)
    assert watch._work is not None
    watch._work.result()
    seen = []
    for unit in units_of(spoken("What do you see?")):
        view.prefill(unit, [photograph("cat")])
        seen.append(view.generate())
        view.finalize()
    assert text_of([*seen, *listen(view)]) == "I see a brown cat."


def test_speech_in_another_language_is_not_answered_by_the_language_model(
    view: LocalDuplexView,
) -> None:
    """Its words sound like English ones: "The fever by Natatina's skin."."""
    asked = spoken("Wer hat Faust geschrieben?", voice="de+Hugo")
    results = [*run_units(view, units_of(asked)), *listen(view)]
    assert user_turns(results)
    assert text_of(results) == ENGLISH_ONLY
    assert "Paris" in text_of(converse(view, "What is the capital of France?"))


def test_a_spoken_question_gets_a_spoken_answer_that_says_its_text(
    local_engine: LocalProcessor, new_view: LocalDuplexView
) -> None:
    new_view.prepare(PERSONA, STEADY)
    new_view.take_usage()
    results = converse(new_view, JAPAN)
    assert_accounts_for_the_work(results)
    usage = new_view.take_usage()
    assert usage.input_text > len(JAPAN.split())
    assert usage.output_text >= sum(result.n_tokens for result in results)
    speaking = [result for result in results if not result.is_listen]
    text = text_of(results)
    assert "Japan" in user_turns(results)
    assert "Tokyo" in text
    assert text == " ".join(text.split())
    answer_units, chunks = words(text), set(words(transcript(local_engine, audio_of(results))))
    assert sum(word in chunks for word in answer_units) >= 0.6 * len(answer_units)

    first = results.index(speaking[0])
    assert results[first:] == speaking
    assert [result.end_of_turn for result in speaking] == [False] * (len(speaking) - 1) + [True]
    assert all(len(result.audio) <= OUTPUT_RATE for result in speaking)
    assert all(result.audio.dtype == np.float32 for result in speaking)
    assert all(not result.text and not result.audio.size for result in results[:first])


def test_the_end_of_the_answer_to_a_goodbye_is_marked_on_request(view: LocalDuplexView) -> None:
    bye = converse(view, "See you later.")
    assert text_of(bye).endswith("It was nice to talk with you.")
    assert not any("goodbye" in result.memo for result in bye)
    view.prepare("Be brief.", STEADY.model_copy(update={"end_on_goodbye": True}))
    results = [*converse(view, "Hello."), *converse(view, "See you later.")]
    marks = [result.memo.get("goodbye", False) for result in results]
    assert marks == [False] * (len(marks) - 1) + [True]


def assert_accounts_for_the_work(results: list[UnitResult]) -> None:
    assert [result.current_time for result in results] == [
        1000 * (number + 1) for number in range(len(results))
    ]
    speaking = [result for result in results if not result.is_listen]
    assert all(result.n_tokens > 0 for result in speaking if result.text)
    assert sum(result.n_tts_tokens for result in speaking) > 10
    assert sum(result.cost_llm_ms for result in results) > 0
    assert sum(result.cost_tts_ms for result in results) > 0
    assert all(result.cost_all_ms > 0 for result in results)
    assert not any(result.simulated for result in results)
    assert results[-1].kv_cache_length > results[0].kv_cache_length > 0


def test_barge_in_stops_the_answer_and_is_answered(view: LocalDuplexView) -> None:
    before = ask_until_speech(view, STORY)
    assert not before[-1].end_of_turn
    overlap = units_of(spoken(JAPAN, lead_s=0.0))
    after = run_units(view, overlap)
    assert after[0].is_listen
    answer = [*after, *listen(view)]
    assert "Tokyo" in text_of(answer)
    assert not any(result.end_of_turn for result in answer[:-1])
    assert turns(view) == [
        ("user", user_turns(before)),
        ("assistant", text_of(before)),
        ("user", user_turns(answer)),
        ("assistant", text_of(answer)),
    ]


def test_short_units_answer_and_yield_as_long_ones(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    """And sooner: the answer stops in the fifth of a second whose end has enough of the user's voice."""
    short, quiet = INPUT_RATE // 5, silence(0.2)
    chunks = units_of(spoken(STORY), short)
    before = run_units(view, chunks)
    while sum(not result.is_listen for result in before) < 3:
        assert len(before) < 300, "no answer began"
        chunks.append(quiet)
        before.append(run_unit(view, quiet))
    overlap = units_of(spoken(JAPAN, lead_s=0.0), short)
    answer = run_units(view, overlap)
    yielded = next(number for number, result in enumerate(answer) if result.is_listen)
    assert 1 <= yielded <= 3
    while not answer[-1].end_of_turn:
        assert len(answer) < 300, "no answer ended"
        answer.append(run_unit(view, quiet))
    assert "Tokyo" in text_of(answer)
    heard = [*before, *answer[:yielded]]
    assert turns(view) == [
        ("user", user_turns(before)),
        ("assistant", text_of(heard)),
        ("user", user_turns(answer)),
        ("assistant", text_of(answer[yielded:])),
    ]
    assert all(len(result.audio) <= OUTPUT_RATE // 5 for result in [*before, *answer])
    times = [at for one in answer for at, _ in one.memo.get("word_times", ())]
    assert times
    assert all(0 <= at <= 200 for at in times)

    other_view.prepare("You are a helpful assistant.", STEADY)
    rest = [quiet] * (len(answer) - len(overlap))
    other_view.replay(past([*before, *answer], [*chunks, *overlap, *rest]))
    assert turns(other_view) == turns(view)


def test_units_that_are_behind_do_not_wait_for_speech(
    view: LocalDuplexView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the turn took 0.5 s to find, so two units came meanwhile. They wait until their own times."""
    now = 100.0
    monkeypatch.setattr(duplex, "time", SimpleNamespace(perf_counter=lambda: now))
    came = []
    for begun, done in [(100.0, 100.5), (100.501, 100.51), (100.511, 100.52), (100.6, 100.61)]:
        now = begun
        view.prefill(silence(0.2))
        assert view._unit is not None
        came.append(view._unit.came)
        now = done
        view.generate()
        view.finalize()
    assert came == pytest.approx([100.0, 100.2, 100.4, 100.6])


def first_clause(result: UnitResult) -> tuple[str, float]:
    """The words of a speaking unit before its last clause, and a time at which the next ones began."""
    notes = result.memo["word_times"]
    assert len(notes) > 2
    return "".join(text for _, text in notes[:-1]), notes[-1][0]


def test_the_unplayed_part_of_an_interrupted_answer_is_not_remembered(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    chunks = [*units_of(spoken(STORY)), silence(1.0), silence(1.0)]
    before = run_units(view, chunks)
    while len([result for result in before if not result.is_listen]) < 3:
        chunks.append(silence(1.0))
        before.append(run_unit(view, silence(1.0)))
    clause, played_ms = first_clause(next(result for result in before if not result.is_listen))
    view.played(played_ms)
    overlap = units_of(spoken(JAPAN, lead_s=0.0))
    answer = [*run_units(view, overlap), *listen(view)]
    assert turns(view) == [
        ("user", user_turns(before)),
        ("assistant", clause),
        ("user", user_turns(answer)),
        ("assistant", text_of(answer)),
    ]
    assert len(clause) < len(text_of(before)) / 2
    assert "Tokyo" in text_of(answer)

    units = past([*before, answer[0]], [*chunks, overlap[0]])
    units[-1] = dataclasses.replace(units[-1], played_ms=played_ms)
    other_view.prepare("You are a helpful assistant.", STEADY)
    other_view.replay(units)
    assert turns(other_view) == turns(view)[:2]


def greeted(view: LocalDuplexView) -> None:
    greeting = {"greeting": GREETING, "force_listen_count": 3}
    view.prepare("You are a helpful assistant.", STEADY.model_copy(update=greeting))


@pytest.mark.parametrize("spoken_units", [0, 1])
def test_a_question_ends_the_greeting(new_view: LocalDuplexView, spoken_units: int) -> None:
    greeted(new_view)
    begun = [result for result, _ in zip(listen(new_view), range(spoken_units), strict=False)]
    assert not any(result.is_listen for result in begun)
    answer = converse(new_view, JAPAN)
    assert "Tokyo" in text_of(answer)
    assert GREETING.split()[-1] not in text_of([*begun, *answer])


@pytest.mark.parametrize(
    ("said", "answers"), [("Shall I tell you a story?", True), ("I can tell you a story.", False)]
)
def test_yes_over_the_end_of_a_question_is_an_answer(
    new_view: LocalDuplexView, said: str, answers: bool
) -> None:
    new_view.prepare("You are a helpful assistant.", STEADY.model_copy(update={"greeting": said}))
    greeting = [run_unit(new_view, silence(0.5))]
    while said not in text_of(greeting):
        greeting.append(run_unit(new_view, silence(0.5)))
    run_units(new_view, units_of(np.concatenate([spoken("Yes.", lead_s=0.0), silence(1.0)])))
    assert (("user", "Yes.") in turns(new_view)) is answers


def coughing(view: LocalDuplexView) -> tuple[list[UnitResult], list[Samples]]:
    """The user asks for a story and coughs in it. The units of the question, the cough and a second more."""
    coughed = silence(1.0)
    sound = cough()
    coughed[1600 : 1600 + len(sound)] = sound
    before = ask_until_speech(view, STORY)
    question = units_of(spoken(STORY))
    chunks = [*question, *[silence(1.0)] * (len(before) + 1 - len(question)), coughed]
    return [*before, run_unit(view, silence(1.0)), run_unit(view, coughed)], chunks


def test_a_cough_does_not_interrupt_the_answer(
    local_engine: LocalProcessor, view: LocalDuplexView
) -> None:
    """Although it is as long as a word, and the recogniser finds one in it."""
    results, chunks = coughing(view)
    chunks.append(silence(1.0))
    results.append(run_unit(view, chunks[-1]))
    assert local_engine._models is not None
    speech_input = SpeechInput(local_engine._models.recogniser, endpoint_rules(480, 1.0))
    *_, during, after = [speech_input.feed(chunk) for chunk in chunks]
    assert during.voiced_ms >= BARGE_IN_MS > during.clear_ms
    assert during.text or after.text
    assert not any(result.is_listen for result in results[-3:])
    assert "user" not in results[-2].memo | results[-1].memo
    assert [role for role, _ in turns(view)] == ["user", "assistant"]


def test_an_answer_waits_half_a_second_at_most_for_a_voice_that_may_be_a_cough() -> None:
    view = LocalDuplexView(cast("LocalSlot", None))
    assert [view._may_pause(UserVoice.MAYBE, 0.2) for _ in range(4)] == [True, True, False, False]
    assert not view._may_pause(UserVoice.NONE, 0.2)
    assert view._may_pause(UserVoice.MAYBE, 0.2)
    view._may_pause(UserVoice.NONE, 0.2)
    assert not view._may_pause(UserVoice.MAYBE, 1.0)


def test_a_cough_in_silence_is_not_answered(view: LocalDuplexView) -> None:
    """Although the recogniser finds a filler in it. Words after it are answered."""
    coughed = np.concatenate([silence(0.3), cough(), silence(3.0)])
    assert all(result.is_listen for result in run_units(view, units_of(coughed)))
    assert not turns(view)
    assert "Tokyo" in text_of(converse(view, JAPAN))


def test_words_that_do_not_interrupt_count_if_the_client_interrupts(view: LocalDuplexView) -> None:
    coughing(view)
    forced = run_unit(view, silence(1.0), force_listen=True)
    assert forced.is_listen
    assert turns(view)[-1] == ("user", forced.memo["user"])


def test_the_first_units_listen_and_their_question_is_answered_later(
    new_view: LocalDuplexView,
) -> None:
    new_view.prepare(
        "You are a helpful assistant.", STEADY.model_copy(update={"force_listen_count": 6})
    )
    results = converse(new_view, JAPAN)
    assert all(result.is_listen for result in results[:6])
    assert any("user" in result.memo for result in results[:6])
    assert "Tokyo" in text_of(results)


def test_text_only_sessions_have_no_audio(new_view: LocalDuplexView) -> None:
    config = STEADY.model_copy(
        update={"generate_audio": False, "max_new_speak_tokens_per_chunk": 4}
    )
    new_view.prepare("You are a helpful assistant.", config)
    results = converse(new_view, JAPAN)
    assert "Tokyo" in text_of(results)
    assert audio_of(results).size == 0
    assert all(result.n_tokens <= 4 or len(result.text.split()) == 1 for result in results)
    assert sum(not result.is_listen for result in results) >= 2


def test_units_may_be_long(view: LocalDuplexView) -> None:
    size = 5 * INPUT_RATE
    results = run_units(view, units_of(np.concatenate([spoken(JAPAN), silence(0.8)]), size))
    while not results[-1].end_of_turn:
        assert len(results) < 400
        results.append(run_unit(view, silence(size / INPUT_RATE)))
    assert "Tokyo" in text_of(results)
    assert all(len(result.audio) <= size * OUTPUT_RATE // INPUT_RATE for result in results)


def test_a_very_large_listen_prob_scale_keeps_it_silent(new_view: LocalDuplexView) -> None:
    new_view.prepare("", STEADY.model_copy(update={"listen_prob_scale": 100.0}))
    results = run_units(new_view, [*units_of(spoken(JAPAN)), *[silence(1.0)] * 5])
    assert all(result.is_listen for result in results)


def test_words_after_a_pause_extend_the_question(new_view: LocalDuplexView) -> None:
    new_view.prepare(
        "You are a helpful assistant.", STEADY.model_copy(update={"force_listen_count": 9})
    )
    parts = [spoken("I have a question."), silence(0.8), spoken(JAPAN), silence(0.8)]
    run_units(new_view, units_of(np.concatenate(parts)))
    (role, text) = turns(new_view)[0]
    assert role == "user"
    assert "question" in text
    assert "Japan" in text
    assert len(turns(new_view)) == 1


def ending_in_its_unit(text: str, pause_s: float) -> list[Samples]:
    """`text` in units; its end is `pause_s` before the end of its last unit."""
    speech = spoken(text)
    lead = -(len(speech) + round(pause_s * INPUT_RATE)) % INPUT_RATE
    return units_of(np.concatenate([silence(lead / INPUT_RATE), speech, silence(pause_s)]))


def reply_of(view: LocalDuplexView) -> object:
    assert view._conversation is not None
    return view._conversation._reply


def test_an_answer_is_prepared_before_the_end_of_the_utterance_is_certain(
    view: LocalDuplexView,
) -> None:
    asked = run_units(view, ending_in_its_unit(JAPAN, 0.16))
    made = reply_of(view)
    assert made is not None
    assert all(result.is_listen for result in asked)
    assert turns(view) == []
    made.queue.wait(OUTPUT_RATE, tokens=1000, deadline=time.perf_counter() + 60)
    answer = run_unit(view, silence(1.0))
    assert "Japan" in user_turns([answer])
    assert not answer.is_listen
    assert reply_of(view) in (made, None)
    assert "Tokyo" in text_of([answer] if answer.end_of_turn else [answer, *listen(view)])


def test_an_answer_to_half_a_question_is_not_spoken(view: LocalDuplexView) -> None:
    first = run_units(view, ending_in_its_unit("I have a question.", 0.16))
    half = reply_of(view)
    rest = units_of(np.concatenate([spoken(JAPAN, lead_s=0.0), silence(1.0)]))
    results = [*first, *run_units(view, rest), *listen(view)]
    assert half is not None
    assert "question" in user_turns(results)
    assert "Japan" in user_turns(results)
    assert turns(view) == [("user", user_turns(results)), ("assistant", text_of(results))]
    assert len([result for result in results if "user" in result.memo]) == 1


def test_nothing_is_spoken_before_the_silence_that_ends_an_utterance(view: LocalDuplexView) -> None:
    assert run_units(view, ending_in_its_unit(JAPAN, 0.1))[-1].is_listen
    pause = run_unit(view, silence(0.1))
    assert reply_of(view) is not None
    assert pause.is_listen


@pytest.mark.parametrize("unit_s", [1.0, 0.2])
def test_a_pause_within_a_sentence_is_not_answered(view: LocalDuplexView, unit_s: float) -> None:
    parts = [
        spoken("What do you know about"),
        silence(1.1),
        spoken("the capital of Japan?", lead_s=0),
    ]
    units = units_of(np.concatenate(parts), round(unit_s * INPUT_RATE))
    results = [*run_units(view, units[:-1]), *listen(view, silence(unit_s))]
    assert all(result.is_listen for result in results[: len(units) - 1])
    (said,) = [result.memo["user"] for result in results if "user" in result.memo]
    assert said.startswith("What do you know about")
    assert "Japan" in said
    assert turns(view) == [("user", said), ("assistant", text_of(results))]


def test_a_sentence_that_is_never_completed_is_answered(view: LocalDuplexView) -> None:
    run_units(view, ending_in_its_unit("What do you know about", 0.5))
    first, second = run_units(view, [silence(0.6), silence(0.4)])
    assert first.is_listen
    assert "user" in second.memo
    assert not second.is_listen


def test_a_whole_question_is_answered_after_a_shorter_silence(view: LocalDuplexView) -> None:
    assert not run_units(view, ending_in_its_unit(JAPAN, 0.4))[-1].is_listen


def test_an_expected_answer_does_not_know_the_unplayed_part(view: LocalDuplexView) -> None:
    converse(view, JAPAN)
    view.played(0.0)
    run_units(view, ending_in_its_unit(GERMANY, 0.16))
    results = list(listen(view))
    assert "Germany" in user_turns(results)
    assert [role for role, _ in turns(view)] == ["user", "assistant"]


def test_two_sessions_run_at_once(view: LocalDuplexView, other_view: LocalDuplexView) -> None:
    other_view.prepare("You are a helpful assistant.", STEADY)
    with ThreadPoolExecutor(2) as pool:
        japan = pool.submit(converse, view, JAPAN)
        germany = pool.submit(converse, other_view, GERMANY)
        japan_results, germany_results = japan.result(), germany.result()
    assert "Japan" in user_turns(japan_results)
    assert "Germany" in user_turns(germany_results)
    assert "Tokyo" in text_of(japan_results)
    assert "Berlin" in text_of(germany_results)
    assert len(turns(view)) == len(turns(other_view)) == 2


def test_replay_during_an_answer_continues_it(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    results, chunks = ask_until_speech(view, STORY), units_of(spoken(STORY))
    chunks += [silence(1.0)] * (len(results) - len(chunks))
    other_view.prepare("You are a helpful assistant.", STEADY)
    other_view.replay(past(results, chunks))
    answer_units = list(listen(other_view))
    promised = " ".join(text for text, _ in results[-1].memo["rest"])
    assert not answer_units[0].is_listen
    assert answer_units[0].text.startswith(" ")
    assert text_of(answer_units).startswith(f" {promised}")
    assert answer_units[0].current_time == results[-1].current_time + 1000
    assert turns(other_view)[-1] == ("assistant", text_of(results) + text_of(answer_units))


def test_replay_during_an_utterance_processes_it_again(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    chunks = units_of(spoken(GERMANY))
    cut = len(chunks) - 1
    results = run_units(view, chunks[:cut])
    other_view.prepare("You are a helpful assistant.", STEADY)
    other_view.replay(past(results, chunks[:cut]))
    rest = [*run_units(other_view, chunks[cut:]), *listen(other_view)]
    assert "Germany" in user_turns(rest)


def test_replay_during_a_video_call_knows_what_the_camera_shows(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    chunks, frame = units_of(spoken("What do you see?")), photograph("cat")
    results = run_units(view, chunks[:-1])
    other_view.prepare("You are a helpful assistant.", STEADY)
    units = past(results, chunks[:-1])
    units[0] = dataclasses.replace(units[0], frames=(photograph("horse"),))
    units[-1] = dataclasses.replace(units[-1], frames=(frame,))
    other_view.replay(units)
    watch = other_view._prepared()[0]._view
    assert isinstance(watch, Watch)
    assert watch._work is not None
    watch._work.result()
    answer = [*run_units(other_view, chunks[-1:]), *listen(other_view)]
    assert text_of(answer) == "I see a brown cat."


def test_replay_long_after_the_camera_was_off_shows_nothing(view: LocalDuplexView) -> None:
    chunks = [silence(1.0)] * 5
    units = past(run_units(view, chunks), chunks)
    units[0] = dataclasses.replace(units[0], frames=(photograph("cat"),))
    view.replay(units)
    watch = view._prepared()[0]._view
    assert isinstance(watch, Watch)
    assert not watch.is_behind
    assert watch.scene is None


def asked_and_cut(view: LocalDuplexView) -> tuple[list[UnitResult], list[Samples]]:
    """The client cuts the answer after its first unit. The results and the sound."""
    question = "What can you do?"
    results, chunks = ask_until_speech(view, question), units_of(spoken(question))
    results.append(run_unit(view, silence(1.0), force_listen=True))
    return results, [*chunks, *[silence(1.0)] * (len(results) - len(chunks))]


def test_replay_keeps_the_place_of_added_texts_and_the_rest_of_a_cut_answer(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    results, chunks = asked_and_cut(view)
    view.add_text(TextKind.USER, "My name is Bob.")
    view.add_text(TextKind.ASSISTANT, "Hello Bob.")
    view.add_text(TextKind.USER, "All right.")
    results.append(run_unit(view, silence(1.0)))
    other_view.prepare("You are a helpful assistant.", STEADY)
    other_view.replay(past(results, [*chunks, silence(1.0)]))
    messages, restored = (one._prepared()[0].dialogue.messages() for one in (view, other_view))
    assert restored == messages
    assert messages[2]["content"].endswith(CUT)


def test_another_worker_can_go_on_with_a_cut_answer(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    results, chunks = asked_and_cut(view)
    other_view.prepare("You are a helpful assistant.", STEADY)
    other_view.replay(past(results, chunks))
    promised = " ".join(text for text, _ in results[-2].memo["rest"])
    assert promised
    assert text_of(converse(other_view, "Please continue.")) == promised


def test_replay_answers_an_open_question(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    chunks = [*units_of(spoken(JAPAN)), silence(1.0)]
    results = [run_unit(view, audio, force_listen=True) for audio in chunks]
    other_view.prepare("You are a helpful assistant.", STEADY)
    other_view.replay(past(results, chunks))
    assert "Tokyo" in text_of(listen(other_view))


def test_a_history_longer_than_the_context_is_trimmed(view: LocalDuplexView) -> None:
    turn = "a river that runs from the mountains to the sea and never turns back " * 2
    units = [
        PastUnit(
            audio=silence(1.0),
            is_listen=False,
            text=f"Number {number} is {turn}",
            end_of_turn=True,
            memo={"user": f"Tell me about number {number}."},
        )
        for number in range(30)
    ]
    view.replay(units)
    assert text_of(converse(view, JAPAN))
    roles_and_texts = turns(view)
    assert roles_and_texts[0][0] == "user"
    assert len(roles_and_texts) < 20
    assert "number 29" in roles_and_texts[-4][1]
    assert 64 < view.kv_cache_length <= 512


def test_a_failure_in_the_background_affects_only_its_session(
    view: LocalDuplexView, other_view: LocalDuplexView
) -> None:
    other_view.prepare("You are a helpful assistant.", STEADY)
    assert other_view._conversation is not None
    other_view._conversation.user_said("word " * 5000)
    with pytest.raises(ContextFull, match="does not fit"):
        list(listen(other_view))
    assert "Tokyo" in text_of(converse(view, JAPAN))


@pytest.mark.parametrize("text", ["…", ""])
def test_a_commentary_without_words_blocks_no_other(view: LocalDuplexView, text: str) -> None:
    for commentary in (text, "Dinner is ready.", text):
        view.add_text(TextKind.COMMENTARY, commentary)
    assert text_of(listen(view)).strip() == "Dinner is ready."
    run_unit(view, silence(1.0))
    assert "to_say" not in run_unit(view, silence(1.0)).memo


def test_commentary_that_waits_has_a_limit(view: LocalDuplexView) -> None:
    view.add_text(TextKind.COMMENTARY, "x" * 5000)
    with pytest.raises(InputRefused, match="more than 8000 characters waits"):
        view.add_text(TextKind.COMMENTARY, "y" * 3001)
    view.add_text(TextKind.COMMENTARY, "y" * 3000)


def test_a_commentary_that_fails_blocks_no_other(
    view: LocalDuplexView, monkeypatch: pytest.MonkeyPatch
) -> None:
    for commentary in ("Lunch is late.", "Dinner is ready."):
        view.add_text(TextKind.COMMENTARY, commentary)
    with monkeypatch.context() as fault:
        fault.setattr(Speaker, "speak", lambda *_: 1 / 0)
        with pytest.raises(EngineError, match="division by zero"):
            run_units(view, repeat(silence(1.0), 40))
    assert text_of(listen(view)).strip() == "Dinner is ready."


def test_commentary_and_check_ins_are_in_the_language_of_the_worker(
    new_view: LocalDuplexView,
) -> None:
    new_view._slot.options = new_view._slot.options.model_copy(update={"language": "zh"})
    new_view.prepare("", STEADY.model_copy(update={"generate_audio": False, "check_in_s": 1.0}))
    sentence = "你好，今天是3月5日。"
    new_view.add_text(TextKind.COMMENTARY, sentence)
    results = list(listen(new_view))
    assert text_of(results).strip() == sentence
    shown = [text for result in results for _, text in result.memo.get("word_times", ())]
    assert [text.strip() for text in shown[:3]] == ["你", "好，", "今"]
    new_view._check_in.user_said("你好。")
    assert text_of(listen(new_view)).strip() == said_in("zh", STILL_THERE[0])


def test_a_system_prompt_that_does_not_fit_is_refused(new_view: LocalDuplexView) -> None:
    with pytest.raises(ContextFull):
        new_view.prepare("word " * 350, STEADY)
    with pytest.raises(ContextFull):
        new_view.prepare("word " * 9000, STEADY)
    assert new_view.prepare("Be kind.", STEADY) > 5


@pytest.fixture
def terminated() -> Iterator[threading.Event]:
    """Set when this process's SIGTERM handler runs."""
    event = threading.Event()
    previous = signal.signal(signal.SIGTERM, lambda *_: event.set())
    yield event
    signal.signal(signal.SIGTERM, previous)


def test_loading_a_model_keeps_the_process_signal_handlers(terminated: threading.Event) -> None:
    model = LocalLanguageModel(bundled_model(), slots=1, context_tokens=512, threads=1)
    signal.raise_signal(signal.SIGTERM)
    assert terminated.is_set()
    model.close()


def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match="there is no model file"):
        check_gguf(tmp_path / "none.gguf")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"not a model")
    with pytest.raises(EngineLoadError, match="is not a GGUF file; correct --model-path"):
        check_gguf(bad)
    with pytest.raises(EngineLoadError, match="does not load as a GGUF model"):
        LocalLanguageModel(bad, slots=1, context_tokens=512, threads=1)


def test_sampling_follows_the_config() -> None:
    asked = {"temperature": 1.5, "top_p": 0.5, "top_k": 7}
    assert sampling(DuplexConfig(**asked), 2).items() >= asked.items()
    answer = sampling(GenerationConfig(**asked, length_penalty=2.0), 2)
    assert answer.items() >= asked.items()
    assert answer["logit_bias"] == [[2, -math.log(2.0)]]
