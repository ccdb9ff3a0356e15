"""Rebuilds a conversation from the units that another worker ran and their memos.

A unit's memo has these fields, each only if it applies:
`user`: the transcript of utterances that ended in the unit;
`until`: the sample of the unit's audio at which the last of them ended;
`words`: on a speaking unit, [millisecond of its audio, text] of each word that begins in it;
`sound_ms`: the duration of that audio;
`rest`: on a speaking unit, [text, tokens] of each word that was generated but not spoken yet;
`more`: whether the reply has further words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.inference_worker.engines.local.dialogue import Dialogue
from antiphon.inference_worker.engines.local.reply import UnfinishedReply
from antiphon.inference_worker.engines.local.speech import TimedWord, UnitSpeech, Word
from antiphon.inference_worker.engines.local.speech_input import SpeechInput, UnitTranscription
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_REPLAYED_SAMPLES = 30 * INPUT_RATE
"""Maximum audio of an unfinished utterance that is processed again."""


def memo_of_hearing(heard: UnitTranscription) -> dict[str, Any]:
    return {"user": heard.text, "until": heard.until} if heard.text else {}


def memo_of_speech(speech: UnitSpeech) -> dict[str, Any]:
    return {"words": [list(piece) for piece in speech.pieces], "sound_ms": speech.sound_ms}


def memo_of_unfinished(rest: UnfinishedReply) -> dict[str, Any]:
    return {"rest": [[word.text, word.tokens] for word in rest.words], "more": rest.more}


def restore_dialogue(units: Sequence[PastUnit], dialogue: Dialogue) -> None:
    """Add the text of `units` to `dialogue`."""
    for unit in units:
        if unit.played_ms is not None:
            dialogue.set_played(unit.played_ms)
        if text := unit.memo.get("user"):
            dialogue.add_user_text(str(text))
        if unit.is_listen:
            dialogue.interrupt_turn()
            continue
        words = unit.memo.get("words", [(0.0, unit.text)] if unit.text else [])
        pieces = [TimedWord(float(at_ms), str(text)) for at_ms, text in words]
        dialogue.add_spoken(pieces, float(unit.memo.get("sound_ms", 0.0)))
        if unit.end_of_turn:
            dialogue.end_turn()


def replay_audio(units: Sequence[PastUnit], speech_input: SpeechInput) -> str:
    """Feed the audio after the last recorded utterance to `speech_input` again.

    Returns the text of utterances that end in it, empty if none does.
    """
    texts = [speech_input.feed(audio).text for audio in _unprocessed_audio(units)]
    return " ".join(text for text in texts if text)


def unfinished_reply(units: Sequence[PastUnit]) -> UnfinishedReply | None:
    """The rest of the reply that `units` end in; None if they do not end in a reply."""
    if not units or units[-1].is_listen or units[-1].end_of_turn:
        return None
    memo = units[-1].memo
    words = tuple(Word(str(text), int(tokens)) for text, tokens in memo.get("rest", ()))
    return UnfinishedReply(words, bool(memo.get("more", True)))


def _unprocessed_audio(units: Sequence[PastUnit]) -> list[Samples]:
    audio: list[Samples] = []
    total = 0
    for unit in reversed(units):
        if unit.audio is None or total >= _REPLAYED_SAMPLES:
            break
        audio.insert(0, unit.audio[int(unit.memo.get("until", 0)) :])
        total += len(audio[0])
        if "user" in unit.memo:
            break
    return audio
