"""A turn that fills the speech context, with a scripted speech model that ends as soon as it may."""

from typing import Any

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import (
    ANSWER_SPEECH,
    AnswerSpeech,
    SpeechContext,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SpeechSettings
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    DecodeCodes,
    DecodeSpeech,
    SpeechCondition,
    Steps,
)

END = 99
CODE = 5


class Model:
    """Answers the steps of one slot, and checks that each one continues its cache."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.fed: list[SpeechCondition] = []
        """Existing speech that was fed."""

    def run(self, work: Steps[Any]) -> Any:
        answer: Any = None
        while True:
            try:
                step = work.send(answer)
            except StopIteration as end:
                return end.value
            answer = self.answer(step)

    def answer(self, step: object) -> Any:
        if isinstance(step, SpeechCondition):
            self.fed += [step] if step.codes else []
            return torch.zeros(len(step.tokens) + 1 + step.text_ends + len(step.codes), 4)
        assert isinstance(step, DecodeSpeech | DecodeCodes)
        assert step.start <= self.length  # codes that were not used are written over
        if isinstance(step, DecodeSpeech):
            self.length = step.start + step.size
            assert self.length <= self.capacity
            return END if step.row.may_end else CODE
        drawn = [CODE if n < step.held else END for n in range(step.size)]
        self.length = step.start + (drawn.index(END) + 1 if END in drawn else step.size)
        assert self.length <= self.capacity
        return drawn


def context(capacity: int, settings: SpeechSettings) -> SpeechContext:
    return SpeechContext(slot=0, capacity=capacity, end_code=END, settings=settings)


@pytest.mark.parametrize(("units", "words"), [(130, 8), (100, 19)])
def test_a_monologue_of_more_than_two_minutes_keeps_its_speech(units: int, words: int) -> None:
    speech, model = context(EngineOptions().speech_tokens, SpeechSettings()), Model(4096)
    speech.position = model.length = 1  # the turn has begun
    said: list[list[int]] = []
    for unit in range(units):
        tokens = [unit] * words
        states = [torch.zeros(4)] * words
        said.append(model.run(speech.generate_codes(tokens, states, may_end=False)))
        assert (speech.fed_again > 0) == (
            len(model.fed) > 0 and model.fed[-1].tokens[0] == unit - 1
        )
    assert [len(codes) for codes in said] == [25] * units
    # The two units before the one that did not fit.
    [before, last] = model.fed
    assert last.tokens[0] == before.tokens[0] + 1
    assert (before.codes, last.codes) == ((CODE,) * 25, (CODE,) * 25)


def test_as_many_units_are_fed_again_as_there_is_room_for() -> None:
    """A context of 64 positions holds one unit of 8 tokens, and one of 100 holds two."""
    for capacity, fed_again in ((64, 0), (70, 1), (100, 1), (110, 2)):
        speech, model = context(capacity, SpeechSettings()), Model(capacity)
        for _ in range(6):
            speech.position = speech.position or 1
            model.length = model.length or 1
            codes = model.run(speech.generate_codes([7] * 8, [torch.zeros(4)] * 8, may_end=False))
            assert len(codes) == 25
        assert speech.fed_again == fed_again, capacity


def test_a_new_turn_feeds_nothing_again() -> None:
    speech, model = context(110, SpeechSettings()), Model(110)
    for _ in range(3):
        for _ in range(2):
            model.run(speech.generate_codes([7] * 8, [torch.zeros(4)] * 8, may_end=False))
        speech.reset()
        model.length = 0
    assert model.fed == []


def test_a_long_written_answer_keeps_its_speech() -> None:
    """Its conditions end by themselves, after 15 codes here."""

    class Ends(Model):
        drawn = 0

        def answer(self, step: object) -> Any:
            if isinstance(step, DecodeSpeech):
                self.drawn = 1
            answer = super().answer(step)
            if isinstance(step, DecodeCodes):
                self.drawn += 1
                return [END if self.drawn > 15 else CODE]
            return CODE if isinstance(step, DecodeSpeech) else answer

    speech, model = context(256, ANSWER_SPEECH), Ends(256)
    speech.codes_per_step = 1
    heard: list[int] = []
    speaker = AnswerSpeech(speech, lambda codes, _last: heard.extend(codes))
    for token in range(120):
        model.run(speaker.continue_text())
        speaker.add_token(token, torch.zeros(4))
    model.run(speaker.finish(text_ends=True))
    assert model.fed
    assert all(len(piece.tokens) == 10 and piece.codes for piece in model.fed)
    assert speech.position == 0
    assert heard
