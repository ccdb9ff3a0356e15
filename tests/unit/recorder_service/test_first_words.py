from pathlib import Path

from antiphon.shared_schemas.states import SessionKind
from support.recorder_conversations import result
from support.timed_conversations import TimedTalk, noise
from support.turn_conversations import chat_request, delta


def test_the_users_words_come_first(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    talk.chunk(1.0, noise(0, 1.0, 16_000))
    talk.speak(1.2, noise(1, 0.1, 24_000), text="Hello! ")
    assert talk.record(tmp_path / "model").meta.first_words == "Hello!"
    talk.chunk(2.0, noise(0, 1.0, 16_000))
    talk.out(2.1, result(3, memo={"user": " What  is the\ncapital of Italy? "}))
    assert talk.record(tmp_path / "user").meta.first_words == "What is the capital of Italy?"


def test_they_are_short(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    for second in range(3):
        talk.chunk(1.0 + second, noise(0, 1.0, 16_000))
        talk.out(1.1 + second, result(second + 2, memo={"user": f"{second} " + 30 * "a"}))
    words = talk.record(tmp_path / "short").meta.first_words
    assert words == " ".join(f"{second} " + 30 * "a" for second in range(3))
    talk.chunk(5.0, noise(0, 1.0, 16_000))
    talk.out(5.1, result(5, memo={"user": 300 * "b"}))
    words = talk.record(tmp_path / "long").meta.first_words
    assert (len(words), words.split()[-1]) == (120, (120 - 3 * 33) * "b")


def test_those_of_a_chat_are_the_question(tmp_path: Path) -> None:
    talk = TimedTalk(SessionKind.CHAT)
    talk.into(0.0, chat_request())
    talk.out(0.5, delta(1))
    recorded = talk.record(tmp_path)
    asked = recorded.recording.turns[0].input.text  # type: ignore[union-attr]
    assert asked
    assert recorded.meta.first_words == asked


def test_silence_has_no_words(tmp_path: Path) -> None:
    talk = TimedTalk.prepared()
    talk.chunk(1.0, noise(0, 1.0, 16_000))
    assert talk.record(tmp_path).meta.first_words == ""
