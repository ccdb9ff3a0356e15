"""Which voices interrupt the model."""

from collections.abc import Callable

import numpy as np
import pytest

from antiphon.inference_worker.engines.common.barge_in import (
    BargeInGuard,
    UserVoice,
    VoiceJudge,
    Words,
    is_backchannel,
    is_command,
    is_hesitation,
    is_question,
)
from antiphon.inference_worker.engines.common.loudness import Background, UserLevel, level_db
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from support.synthetic_speech import GERMANY, ITALY, cough, silence, spoken

SHORT = INPUT_RATE // 5


@pytest.mark.parametrize(
    "text",
    [
        *("Mm-hmm.", "Yeah, yeah.", "Uh-huh", "Oh, really?", "I see.", "I. C..", "Got it."),
        *("All right.", "Amen.", "A man whom?", "Of course."),
    ],
)
def test_a_listener_says_this(text: str) -> None:
    assert is_backchannel(text)


@pytest.mark.parametrize(
    "text",
    ["", "Okay, but why?", "I", "And it", "Yes, tell me more", "No.", "Stop.", "What?"],
)
def test_a_speaker_says_this(text: str) -> None:
    assert not is_backchannel(text)


def test_hesitations_and_commands() -> None:
    assert is_hesitation("Um, uh.")
    assert not is_hesitation("Um, wait.")
    assert not is_hesitation("")
    assert is_command("Stop.")
    assert is_command("Okay, stop.")
    assert not is_command("Okay, but")
    assert not is_command("You")
    assert not is_command("")


def judged(
    clear_ms: float,
    voiced_ms: float,
    text: str | None,
    certainty: float = 0.0,
    *,
    goes_on: bool = True,
) -> UserVoice:
    words = None if text is None else Words(text, certainty)
    return VoiceJudge().judge(0, clear_ms, voiced_ms, goes_on=goes_on, words=lambda: words)


@pytest.mark.parametrize(
    ("clear_ms", "voiced_ms", "text", "meant"),
    [
        (64, 96, "What?", UserVoice.NONE),
        (96, 160, "What?", UserVoice.MAYBE),
        (224, 256, "What is the", UserVoice.SPEECH),
        (224, 256, None, UserVoice.SPEECH),
        (224, 256, "Yeah.", UserVoice.NONE),
        (900, 1200, "Yeah, yeah.", UserVoice.NONE),
        (900, 1500, "Yeah, yeah.", UserVoice.SPEECH),
        (900, 1500, "", UserVoice.SPEECH),
        (300, 400, "Always.", UserVoice.MAYBE),
        (500, 520, "Always.", UserVoice.SPEECH),
        (300, 400, "Hello?", UserVoice.SPEECH),
        (0, 800, "in the noise", UserVoice.SPEECH),
        (224, 256, "", UserVoice.MAYBE),
    ],
)
def test_a_voice_that_goes_on(
    clear_ms: float, voiced_ms: float, text: str | None, meant: UserVoice
) -> None:
    assert judged(clear_ms, voiced_ms, text) is meant


def test_a_short_word_that_is_over() -> None:
    assert judged(160, 320, "Stop.", goes_on=False) is UserVoice.SPEECH
    assert judged(160, 320, "You", goes_on=False) is UserVoice.NONE
    assert judged(160, 320, None, goes_on=False) is UserVoice.NONE


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (Words("Paris."), UserVoice.SPEECH),
        (Words("Yes."), UserVoice.SPEECH),
        (Words("Um."), UserVoice.NONE),
        (Words("Hammer.", -0.5), UserVoice.NONE),
        (Words(""), UserVoice.NONE),
    ],
)
def test_a_word_after_a_question_is_its_answer(said: Words, meant: UserVoice) -> None:
    def judge(*, asked: bool) -> UserVoice:
        return VoiceJudge().judge(0, 300, 400, goes_on=False, words=lambda: said, asked=asked)

    assert judge(asked=True) is meant
    assert judge(asked=False) is UserVoice.NONE


def test_questions() -> None:
    assert all(map(is_question, ("And you?", "Rome. Shall I go on? ", "“Why?”", "你好吗？")))
    assert not any(map(is_question, ("", "Why? Because.", "Rome.")))


def test_words_that_the_recogniser_does_not_believe_are_waited_for() -> None:
    assert judged(256, 300, "A mem home.", -0.5) is UserVoice.NONE  # written for a hum
    assert judged(256, 300, "I thought.", -0.5) is UserVoice.MAYBE
    assert judged(256, 520, "I thought.", -0.5) is UserVoice.NONE
    assert judged(256, 300, "I thought.", -0.5, goes_on=False) is UserVoice.NONE
    assert judged(600, 800, "I thought.", -0.5) is UserVoice.SPEECH


def test_a_backchannel_stays_one_while_it_fades() -> None:
    judge = VoiceJudge()
    heard = [("Sure.", True), ("Shore house.", True), ("Shore house.", False)]
    found = [
        judge.judge(5, 300, 400, goes_on=goes_on, words=lambda text=text: Words(text))
        for text, goes_on in heard
    ]
    assert found == [UserVoice.NONE, UserVoice.MAYBE, UserVoice.NONE]


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        (("Okay, but.", "Okay, but what"), [UserVoice.MAYBE, UserVoice.SPEECH]),
        (("Okay, but.", "Okay."), [UserVoice.MAYBE, UserVoice.NONE]),
        (("Okay, stop.",), [UserVoice.SPEECH]),
    ],
)
def test_a_backchannel_becomes_speech_by_other_words_twice_or_a_command(
    texts: tuple[str, ...], meant: list[UserVoice]
) -> None:
    judge = VoiceJudge()
    found = [
        judge.judge(5, 300, 600, goes_on=True, words=lambda text=text: Words(text))
        for text in ("Okay.", *texts)
    ]
    assert found == [UserVoice.NONE, *meant]


def test_one_short_word_that_is_over_is_no_interruption_unless_it_is_a_command() -> None:
    assert judged(320, 448, "Hammer.", goes_on=False) is UserVoice.NONE  # written for "hmm"
    assert judged(320, 448, "Louder.", goes_on=False) is UserVoice.SPEECH


@pytest.mark.parametrize(
    ("clear_ms", "text", "certainty", "goes_on", "meant"),
    [
        (384, "Paris.", -0.2, False, UserVoice.SPEECH),
        (384, "Paris.", -0.2, True, UserVoice.MAYBE),
        (384, "Done.", -0.33, False, UserVoice.NONE),  # written for "uh"
        (320, "Tim.", -0.19, False, UserVoice.NONE),  # written for "hmm"
    ],
)
def test_a_single_word_that_is_certain_and_long_interrupts_when_it_is_over(
    clear_ms: float, text: str, certainty: float, goes_on: bool, meant: UserVoice
) -> None:
    assert judged(clear_ms, 448, text, certainty, goes_on=goes_on) is meant


@pytest.mark.parametrize(
    ("voiced_ms", "text", "certainty", "meant"),
    [
        (960, "That's it.", -0.84, UserVoice.NONE),  # written for a laugh
        (960, "", 0.0, UserVoice.NONE),
        (960, "Lean, be quiet", -0.53, UserVoice.SPEECH),
        (1500, "That's it.", -0.84, UserVoice.SPEECH),
        (320, "No.", -0.67, UserVoice.MAYBE),  # written for "uh"
        (320, "No.", -0.55, UserVoice.SPEECH),
        (512, "Wait", -1.17, UserVoice.SPEECH),  # in noise
    ],
)
def test_improbable_words_need_a_longer_voice(
    voiced_ms: float, text: str, certainty: float, meant: UserVoice
) -> None:
    assert judged(voiced_ms, voiced_ms, text, certainty) is meant


def test_a_short_command_that_is_improbable_is_ignored() -> None:
    assert judged(160, 320, "No.", -0.67, goes_on=False) is UserVoice.NONE


def fed(guard: BargeInGuard, audio: Samples, *, model_speaks: bool = True) -> set[UserVoice]:
    return {
        guard.feed(audio[at : at + SHORT], model_speaks=model_speaks)
        for at in range(0, len(audio), SHORT)
    }


def with_pauses(sound: Samples) -> Samples:
    return np.concatenate([silence(0.4), sound, silence(0.8)])


@pytest.mark.parametrize(
    ("sound", "meant"),
    [
        (lambda: spoken(GERMANY, lead_s=0.0), UserVoice.SPEECH),
        (cough, UserVoice.MAYBE),
        (lambda: 0.12 * spoken(GERMANY, lead_s=0.0), UserVoice.NONE),
        (lambda: silence(1.0), UserVoice.NONE),
    ],
    ids=["speech", "cough", "far away", "silence"],
)
def test_a_guard_knows_the_level_of_its_user(
    sound: Callable[[], Samples], meant: UserVoice
) -> None:
    guard = BargeInGuard()
    fed(guard, with_pauses(spoken(ITALY, lead_s=0.0)), model_speaks=False)
    assert max(fed(guard, with_pauses(sound()))) is meant


def test_a_guard_keeps_the_speech_with_its_first_word() -> None:
    guard = BargeInGuard(lambda _: Words("What"))
    sound = spoken(GERMANY, lead_s=0.0)
    audio, sent = np.concatenate([silence(1.0), sound]), 0
    while guard.feed(audio[sent : sent + SHORT]) is not UserVoice.SPEECH:
        sent += SHORT
    began = INPUT_RATE - (sent + SHORT - len(guard.speech))
    assert 0 <= began <= 0.3 * INPUT_RATE


def test_a_voice_that_is_much_quieter_than_the_users_is_somebody_elses() -> None:
    level = UserLevel()
    assert not level.is_other(-60)
    assert level.take(-20)
    assert level.is_other(-33)
    assert not level.is_other(-31)
    level.take(-5)  # a shout
    assert not level.is_other(-27)


def test_a_user_who_has_moved_away_is_heard_after_some_utterances() -> None:
    level = UserLevel()
    level.take(-20)
    assert [level.take(-40) for _ in range(4)] == [False, False, False, True]
    assert not level.is_other(-45)


def test_the_level_is_forgotten_slowly() -> None:
    level = UserLevel()
    level.take(-20)
    level.passed(60.0)
    assert not level.is_other(-34)


def stands_out(audio: Samples) -> list[bool]:
    background = Background()
    return [
        background.stands_out(frame) for frame in audio[: len(audio) // 512 * 512].reshape(-1, 512)
    ]


def test_what_is_as_loud_as_the_noise_does_not_stand_out() -> None:
    noise = np.random.default_rng(1).normal(0, 0.02, 4 * INPUT_RATE).astype(np.float32)
    assert not any(stands_out(noise))
    voice = noise.copy()
    voice[2 * INPUT_RATE : 3 * INPUT_RATE] *= 8
    found = stands_out(voice)
    assert all(found[66:92])
    assert not any(found[:60] + found[98:])


@pytest.mark.parametrize("before", [0.0, 0.003], ids=["silence", "a quiet fan"])
def test_noise_that_begins_stands_out_for_three_seconds(before: float) -> None:
    random = np.random.default_rng(1)
    quiet = before * random.normal(0, 1, 4 * INPUT_RATE)
    noise = random.normal(0, 0.02, 5 * INPUT_RATE)
    noise[4 * INPUT_RATE :] *= 8
    found = stands_out(np.concatenate([quiet, noise]).astype(np.float32))
    frames_a_second = INPUT_RATE // 512
    assert found[4 * frames_a_second + 10]
    assert not any(found[round(7.3 * frames_a_second) : round(7.9 * frames_a_second)])
    assert all(found[round(8.3 * frames_a_second) :])


def test_in_a_quiet_room_everything_stands_out() -> None:
    voice = np.random.default_rng(1).normal(0, 0.001, INPUT_RATE).astype(np.float32)
    assert all(stands_out(voice))
    assert level_db(voice) == pytest.approx(-60, abs=0.5)
    assert level_db(silence(0.0)) == -120
