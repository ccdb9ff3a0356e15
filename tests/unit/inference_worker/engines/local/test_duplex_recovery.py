from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from antiphon.inference_worker.engines.local.dialogue import Dialogue
from antiphon.inference_worker.engines.local.duplex import (
    memo_of_input,
    memo_of_speech,
    memo_of_unfinished,
    replay_audio,
    restore_dialogue,
    unfinished_reply,
)
from antiphon.inference_worker.engines.local.hearing.speech_input import (
    SpeechInput,
    UnitTranscription,
)
from antiphon.inference_worker.engines.local.reply import UnfinishedReply
from antiphon.inference_worker.engines.local.speech import TimedWord, UnitSpeech, Word
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.audio import Samples

AUDIO = np.zeros(16_000, dtype=np.float32)


def listened(user: str = "") -> PastUnit:
    memo = {"user": user, "until": 100} if user else {}
    return PastUnit(audio=AUDIO, is_listen=True, text="", end_of_turn=False, memo=memo)


def spoke(text: str, *, end: bool = False, **memo: object) -> PastUnit:
    return PastUnit(audio=AUDIO, is_listen=False, text=text, end_of_turn=end, memo=memo)


def speaking_unit(*pieces: TimedWord) -> PastUnit:
    """A second of speech with the engine's memo."""
    speech = UnitSpeech(pieces, np.zeros(24_000, dtype=np.float32), 1, 1, last=False)
    return spoke(speech.text, **memo_of_speech(speech))


def history_of(*units: PastUnit) -> list[tuple[str, str]]:
    dialogue = Dialogue("")
    restore_dialogue(units, dialogue)
    return [(message["role"], message["content"]) for message in dialogue.messages()[1:]]


def test_history_is_rebuilt_from_memos_and_texts() -> None:
    units = [
        listened(),
        listened("Hello"),
        spoke("Hi"),
        spoke(" there.", end=True),
        spoke("A bird.", end=True, user="What is it?"),
    ]
    assert history_of(*units) == [
        ("user", "Hello"),
        ("assistant", "Hi there."),
        ("user", "What is it?"),
        ("assistant", "A bird."),
    ]


def test_an_interrupted_turn_keeps_what_was_spoken() -> None:
    units = [listened("Sing"), spoke("La la"), listened(), listened("Stop")]
    assert history_of(*units) == [("user", "Sing"), ("assistant", "La la"), ("user", "Stop")]


def test_another_worker_knows_the_playback_position() -> None:
    song = [
        listened("Sing"),
        speaking_unit(TimedWord(0.0, "La"), TimedWord(700.0, " la")),
        speaking_unit(TimedWord(100.0, " lu"), TimedWord(800.0, " lei")),
    ]
    cut = replace(listened(), played_ms=1200.0)
    assert history_of(*song, cut)[-1] == ("assistant", "La la lu —")
    late = replace(listened("Stop"), played_ms=500.0)
    assert history_of(*song, cut, late) == [
        ("user", "Sing"),
        ("assistant", "La —"),
        ("user", "Stop"),
    ]


REST = (Word("there", 1, "there"), Word("was a", 2, "was a"), Word("king.", 1, "king."))


@pytest.mark.parametrize(
    "after", [(listened("Stop."),), (listened(), listened("Stop."))], ids=["at once", "later"]
)
def test_another_worker_knows_the_rest_of_an_interrupted_answer(
    after: tuple[PastUnit, ...],
) -> None:
    begun = speaking_unit(TimedWord(0.0, "Once upon a time"))
    memo = begun.memo | memo_of_unfinished(UnfinishedReply(REST, more=False))
    dialogue = Dialogue("")
    units = [listened("Tell me a story."), replace(begun, memo=memo), *after]
    restore_dialogue([*units, spoke("All right.", end=True), listened("Go on.")], dialogue)
    assert dialogue.rest_of_cut_answer == "there was a king."
    assert dialogue.messages()[2]["content"] == "Once upon a time —"


def test_an_answer_of_a_worker_that_stored_no_rest_has_none() -> None:
    dialogue = Dialogue("")
    restore_dialogue([listened("Sing"), spoke("La la"), listened("Stop")], dialogue)
    assert dialogue.rest_of_cut_answer == ""


def test_the_rest_of_an_earlier_answer_is_not_that_of_the_next() -> None:
    memo = memo_of_unfinished(UnfinishedReply(REST, more=False))
    dialogue = Dialogue("")
    units = [spoke("Once", **memo), listened("Stop"), listened("Sing"), spoke("La"), listened()]
    restore_dialogue(units, dialogue)
    assert dialogue.rest_of_cut_answer == ""


def test_texts_that_were_added_during_a_call_stay_where_they_were() -> None:
    dialogue = Dialogue("")
    added = replace(listened("Hello?"), memo={"user": "Hello?", "texts": [["user", "I am Bob."]]})
    units = [listened("I am Ann."), spoke("Hello Ann.", end=True), added]
    restore_dialogue(units, dialogue, lambda _, text: dialogue.add_user_text(text))
    assert [message["content"] for message in dialogue.messages()[1:]] == [
        "I am Ann.",
        "Hello Ann.",
        "I am Bob. Hello?",
    ]


def test_only_an_interrupted_unit_leaves_a_rest() -> None:
    rest = UnfinishedReply((Word("2 =", 1, "two equals"), Word("x", 2, "x")), more=False)
    memo = memo_of_unfinished(rest)
    assert unfinished_reply([spoke("one", **memo)]) == rest
    assert unfinished_reply([spoke("one", **memo), listened()]) is None
    assert unfinished_reply([spoke("one", end=True)]) is None
    assert unfinished_reply([]) is None


def test_a_rest_without_its_speech_is_spoken_as_it_is_shown() -> None:
    memo = {"rest": [["two", 1], ["three.", 2]], "more": True}
    assert unfinished_reply([spoke("one", **memo)]) == UnfinishedReply(
        (Word("two", 1, "two"), Word("three.", 2, "three."))
    )


def test_a_listening_unit_leaves_no_memo() -> None:
    assert memo_of_input(UnitTranscription("", 0, 0.0, 0.0, 0.0)) == {}
    assert memo_of_input(UnitTranscription("Hi", 7, 0.0, 0.0, 0.0)) == {"user": "Hi", "until": 7}


class ScriptedInput:
    """Hears one text in each unit."""

    def __init__(self, *texts: str) -> None:
        self._texts = list(texts)

    def feed(self, audio: Samples) -> UnitTranscription:
        return UnitTranscription(self._texts.pop(0), 0, 0.0, 0.0, 0.0)


def test_another_worker_ignores_noise_and_what_was_said_over_the_model() -> None:
    units = [listened("Sing"), spoke("La"), spoke("la"), listened()]
    for texts, found in (
        (("", "", "Uh?", ""), ""),
        (("", "", "", "Stop"), "Stop"),
        (("", "", "", "Uh?"), ""),
    ):
        assert replay_audio(units, cast("SpeechInput", ScriptedInput(*texts))) == found
