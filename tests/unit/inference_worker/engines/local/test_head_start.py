"""An answer of which the model writes the first words, and the rest when they are made."""

import re
from collections.abc import Generator

import pytest

from antiphon.inference_worker.engines.local.duplex import LocalDuplexView
from antiphon.inference_worker.engines.local.head_start import FIRST_TOKENS, HeadStartGeneration
from antiphon.inference_worker.engines.local.language_model import Generation
from antiphon.shared_schemas.config import GenerationConfig
from support.situations import NOW
from support.synthetic_speech import STEADY

STORY = "Once upon a time, there was a dog named Max, who loved bones.\nHe slept well."


class Written(Generation):
    """Writes `tokens` of `texts` and counts them, as the model does."""

    def __init__(self, texts: list[str], tokens: int) -> None:
        super().__init__()
        self._texts, self._tokens = texts, tokens
        self.cancelled = False

    def __iter__(self) -> Generator[str, None, None]:
        for text in self._texts[: self._tokens]:
            self.written_tokens += 1
            yield text
        self.complete = len(self._texts) < self._tokens
        self.context_tokens = 100 + self.written_tokens

    def cancel(self) -> None:
        self.cancelled = True


class Model:
    """Writes the rest of a story in tokens of `letters`, each with the space before it."""

    def __init__(self, letters: int = 3, story: str = STORY) -> None:
        self._token = re.compile(rf"\s*\S{{1,{letters}}}")
        self._story = story
        self.asked: list[tuple[str, int]] = []
        self.parts: list[Written] = []

    def begin(self, said: str, tokens: int) -> Written:
        assert self._story.startswith(said)
        self.asked.append((said, tokens))
        self.parts.append(Written(self._token.findall(self._story[len(said) :]), tokens))
        return self.parts[-1]


@pytest.mark.parametrize("letters", [1, 2, 3, 5, 80])
@pytest.mark.parametrize("story", [STORY, "Yes.", "A" * 40, f" {STORY}", "One\n\ntwo  three " * 9])
def test_the_text_is_the_same_as_in_one_go(letters: int, story: str) -> None:
    model = Model(letters, story)
    answer = HeadStartGeneration(model.begin, 500)
    assert "".join(answer).split() == story.split()
    assert answer.complete
    assert answer.written_tokens == sum(part.written_tokens for part in model.parts)
    assert answer.context_tokens == model.parts[-1].context_tokens


def test_the_rest_is_written_when_the_reader_wants_it() -> None:
    model = Model()
    texts = iter(HeadStartGeneration(model.begin, 50))
    said = ""
    while not said.endswith("time, "):
        said += next(texts)
    assert model.asked == [("", FIRST_TOKENS)]
    rest = "".join(texts)
    assert said + rest == STORY
    [_, (before, tokens)] = model.asked
    assert before == "Once upon a time, there was a"
    assert tokens == 50 - FIRST_TOKENS + 1  # its last word is written again


def test_a_short_limit_ends_the_answer() -> None:
    model = Model()
    assert "".join(HeadStartGeneration(model.begin, 5)) == "Once upon a"
    assert model.asked == [("", 5)]
    model = Model()
    assert "".join(HeadStartGeneration(model.begin, FIRST_TOKENS)).split()[-1] == "dog"
    assert model.asked == [("", FIRST_TOKENS)]


def test_a_cancelled_answer_does_not_go_on() -> None:
    model = Model()
    answer = HeadStartGeneration(model.begin, 50)
    texts = iter(answer)
    next(texts)
    answer.cancel()
    list(texts)
    assert len(model.parts) == 1
    assert model.parts[0].cancelled


@pytest.mark.speech
def test_the_bundled_model_goes_on_with_its_words(view: LocalDuplexView) -> None:
    greedy = GenerationConfig(temperature=0.0, top_p=1.0, top_k=0, length_penalty=1.0)
    question = [{"role": "user", "content": "Tell me a long story about a cat."}]
    whole, spoken = (
        "".join(view._slot.stream(question, greedy, 60, lambda: NOW.now, spoken=spoken))
        for spoken in (False, True)
    )
    assert len(spoken.split()) > 2 * FIRST_TOKENS
    assert spoken.split()[: FIRST_TOKENS - 2] == whole.split()[: FIRST_TOKENS - 2]
    assert "  " not in spoken


@pytest.mark.speech
def test_only_a_spoken_answer_without_doubts_rests(view: LocalDuplexView) -> None:
    def answer(content: str, *, spoken: bool) -> Generation:
        question = [{"role": "user", "content": content}]
        reply = view._slot.stream(question, STEADY, 20, lambda: NOW.now, spoken=spoken)
        list(reply)
        return reply

    assert isinstance(answer("Tell me a story.", spoken=True), HeadStartGeneration)
    assert not isinstance(answer("Tell me a story.", spoken=False), HeadStartGeneration)
    assert not isinstance(answer("How old is Paris?", spoken=True), HeadStartGeneration)
