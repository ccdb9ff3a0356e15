"""A natural voice says all of a text that is too long for one run of its network."""

from collections.abc import Sequence

import numpy as np
import pytest

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.speech import Clause, joined
from antiphon.inference_worker.engines.local.voices.catalogue import DEFAULT_VOICE
from antiphon.inference_worker.engines.local.voices.kokoro import (
    STEP_SAMPLES,
    Kokoro,
    Melody,
    Style,
    split_symbols,
)
from antiphon.inference_worker.engines.local.voices.network import LEAD_STEPS
from antiphon.inference_worker.engines.local.voices.speaker import Speaker
from antiphon.shared_schemas.audio import OUTPUT_RATE, Samples
from support.speech import transcribe

_SPACE, _COMMA, _LETTER = 16, 3, 50
_STEPS = 2
_SILENCE = 40
"""Steps of the last pad, of which the audio has none."""


class _Network(Kokoro):
    """Its audio has the value of each symbol, for two steps."""

    def __init__(self) -> None:
        pass

    def melody(self, ids: Sequence[int], style: Style, *_: object) -> Melody:
        steps = np.full(len(ids) + 2, _STEPS)
        steps[0], steps[-1] = LEAD_STEPS, _SILENCE
        sound = np.repeat(np.array((0, *ids), np.float32), steps[:-1])
        return Melody(sound, sound, style, steps)

    def sound(self, melody: Melody, *_: object) -> Samples:
        return np.repeat(melody.features, STEP_SAMPLES)


def test_symbols_are_cut_after_marks_and_words() -> None:
    word = [_LETTER] * 9
    ids = [*word, _COMMA, _SPACE] * 20 + [*word, _SPACE] * 40 + word * 40
    parts = split_symbols(ids)
    assert [one for part in parts for one in part] == ids
    assert max(map(len, parts)) <= 250
    assert [part[-1] for part in parts[:3]] == [_COMMA, _SPACE, _SPACE]
    assert split_symbols([]) == [[]]


def test_each_symbol_of_a_long_text_begins_where_it_sounds() -> None:
    network = _Network()
    ids = [20 + at % 100 if at % 7 else _SPACE for at in range(700)]
    said = network.speak(ids, np.zeros((512, 256), np.float32))
    assert len(said.steps) == len(ids) + 2
    begins = np.cumsum(said.steps)[:-1] * STEP_SAMPLES
    assert [int(said.audio[begin]) for begin in begins[:-1]] == ids
    assert begins[-1] == len(said.audio)


@pytest.mark.speech
def test_a_long_text_is_said_to_its_end(local_engine: LocalProcessor) -> None:
    assert local_engine._models is not None
    voice = local_engine._models.voices.by_id[DEFAULT_VOICE]
    text = ", ".join(map(str, range(1, 31))) + "."
    clause = Clause(words_of(text), ends_sentence=True)
    said = joined(Speaker(voice, voice).speak(clause, StageCosts()))
    assert list(said.starts) == sorted(set(said.starts))
    last = transcribe(said.audio[said.starts[-1] - OUTPUT_RATE // 20 :])
    assert "30" in last or "thirty" in last.lower()
    assert len(said.audio) - said.starts[-1] < 1.5 * OUTPUT_RATE
    for at in (14, 20, 25):
        heard = transcribe(said.audio[said.starts[at] : said.starts[at + 2]]).lower()
        number = clause.spoken[at].strip(",").replace("-", " ")
        assert str(at + 1) in heard or number in heard.replace("-", " "), (at, heard)
