"""Rebuilds a conversation from the units that another worker ran, by the notes it left.

A unit's memo holds, each only where it says something:
`user`: what the user was heard to say in utterances that ended in the unit, and
`until`: the sample of the unit's audio at which the last of them was over;
`words`: on a speaking unit, [millisecond of its sound, text] of each word begun in it, and
`sound_ms`: how long that sound is;
`rest`: on a speaking unit, [text, tokens] of each word made but not yet begun, and
`more`: whether the reply had yet more words to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.inference_worker.engines.local.dialogue import Dialogue
from antiphon.inference_worker.engines.local.ear import Ear, Heard
from antiphon.inference_worker.engines.local.reply import Rest
from antiphon.inference_worker.engines.local.speech import Piece, UnitSpeech, Word
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_REHEARD_SAMPLES = 30 * INPUT_RATE
"""Audio of an unfinished utterance that is heard again, at most."""


def memo_of_hearing(heard: Heard) -> dict[str, Any]:
    """The note on what the user said."""
    return {"user": heard.text, "until": heard.until} if heard.text else {}


def memo_of_speech(speech: UnitSpeech) -> dict[str, Any]:
    """The note on what was said when."""
    return {"words": [list(piece) for piece in speech.pieces], "sound_ms": speech.sound_ms}


def memo_of_rest(rest: Rest) -> dict[str, Any]:
    """The note on what is still to be said."""
    return {"rest": [[word.text, word.tokens] for word in rest.words], "more": rest.more}


def retell(units: Sequence[PastUnit], dialogue: Dialogue) -> None:
    """Fill `dialogue` with what was said in `units`."""
    for unit in units:
        if unit.played_ms is not None:
            dialogue.played(unit.played_ms)
        if text := unit.memo.get("user"):
            dialogue.hear(str(text))
        if unit.is_listen:
            dialogue.break_off()
            continue
        words = unit.memo.get("words", [(0.0, unit.text)] if unit.text else [])
        pieces = [Piece(float(at_ms), str(text)) for at_ms, text in words]
        dialogue.speak(pieces, float(unit.memo.get("sound_ms", 0.0)))
        if unit.end_of_turn:
            dialogue.end_turn()


def rehear(units: Sequence[PastUnit], ear: Ear) -> str:
    """Let `ear` hear again what followed the last noted utterance.

    Returns the text of utterances that ended in it all the same, "" if none did.
    """
    texts = [ear.feed(audio).text for audio in _unheard_audio(units)]
    return " ".join(text for text in texts if text)


def rest_of(units: Sequence[PastUnit]) -> Rest | None:
    """What remains of the reply that `units` break off in, None when they do not."""
    if not units or units[-1].is_listen or units[-1].end_of_turn:
        return None
    memo = units[-1].memo
    words = tuple(Word(str(text), int(tokens)) for text, tokens in memo.get("rest", ()))
    return Rest(words, bool(memo.get("more", True)))


def _unheard_audio(units: Sequence[PastUnit]) -> list[Samples]:
    audio: list[Samples] = []
    total = 0
    for unit in reversed(units):
        if unit.audio is None or total >= _REHEARD_SAMPLES:
            break
        audio.insert(0, unit.audio[int(unit.memo.get("until", 0)) :])
        total += len(audio[0])
        if "user" in unit.memo:
            break
    return audio
