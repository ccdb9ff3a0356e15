import threading
import time
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.engines.local.speech import (
    SpeechQueue,
    SpokenClause,
    UnitSpeech,
    Word,
)

FAR = 1_000_000


def clause(*words: str, spacing: int = 100, tokens: int = 1) -> SpokenClause:
    """A word every `spacing` samples; each sample is the number of its word from 1."""
    audio = np.repeat(np.arange(1, len(words) + 1, dtype=np.float32), spacing)
    return SpokenClause(
        words=tuple(Word(word, tokens, word) for word in words),
        audio=audio,
        starts=tuple(index * spacing for index in range(len(words))),
        phonemes=tuple(range(0, len(audio), 50)),
    )


def drain(queue: SpeechQueue, samples: int, tokens: int = FAR) -> list[UnitSpeech]:
    units = []
    while not queue.exhausted:
        units.append(queue.take(samples, tokens))
    return units


def test_a_unit_has_the_words_that_begin_in_it_and_a_continued_one_a_leading_space() -> None:
    queue = SpeechQueue()
    queue.push(clause("one", "two", "three"))
    queue.finish()
    first, second = drain(queue, 150)
    assert (first.text, len(first.audio), first.last) == ("one two", 150, False)
    assert (second.text, len(second.audio), second.last) == (" three", 150, True)
    assert (first.phonemes, second.phonemes) == (3, 3)


def test_the_token_limit_ends_the_audio_before_the_first_omitted_word() -> None:
    queue = SpeechQueue()
    queue.push(clause("one", "two", "three", tokens=2))
    queue.finish()
    unit = queue.take(FAR, 5)
    assert (unit.text, unit.tokens, len(unit.audio)) == ("one two", 4, 200)


def test_a_word_over_the_token_limit_is_still_spoken_alone() -> None:
    queue = SpeechQueue()
    queue.push(clause("antidisestablishmentarianism", "yes", tokens=9))
    queue.finish()
    assert [unit.text for unit in drain(queue, FAR, 1)] == ["antidisestablishmentarianism", " yes"]


def test_text_without_audio_is_paced_by_tokens() -> None:
    queue = SpeechQueue()
    words = tuple(Word(word, 1, word) for word in ("a", "b", "c"))
    queue.push(SpokenClause(words, np.zeros(0, dtype=np.float32), (0, 0, 0), ()))
    queue.finish()
    assert [unit.text for unit in drain(queue, 24_000, 2)] == ["a b", " c"]


def test_a_continued_turn_begins_with_a_space() -> None:
    queue = SpeechQueue(continues=True)
    queue.push(clause("more"))
    assert queue.take(FAR, FAR).text == " more"


def test_an_unfinished_answer_does_not_end_when_the_queue_is_empty() -> None:
    queue = SpeechQueue()
    queue.push(clause("one"))
    assert not queue.take(FAR, FAR).last
    assert not queue.exhausted
    queue.finish()
    assert queue.exhausted
    assert queue.take(FAR, FAR).last


def test_remaining_has_the_words_that_have_not_begun() -> None:
    queue = SpeechQueue()
    assert queue.remaining() is None
    queue.push(clause("one", "two", "three"))
    queue.take(150, FAR)
    assert queue.remaining() == ([Word("three", 1, "three")], True)
    queue.finish()
    assert queue.remaining() == ([Word("three", 1, "three")], False)


def test_a_part_of_a_clause_that_is_shorter_than_a_unit_does_not_begin_a_reply() -> None:
    queue = SpeechQueue()
    queue.push(replace(clause("one", "two"), more=True))
    assert queue.may_begin(200)
    assert not queue.may_begin(201)
    queue.push(clause("three"))
    assert queue.may_begin(FAR), "the clause is complete"
    queue.push(replace(clause("four"), more=True))
    assert not queue.may_begin(FAR)
    queue.finish()
    assert queue.may_begin(FAR), "nothing follows"


def test_wait_ends_when_a_complete_unit_is_queued() -> None:
    queue = SpeechQueue()
    pusher = threading.Thread(target=lambda: [queue.push(clause("one", "two")) for _ in range(3)])
    pusher.start()
    queue.wait(400, FAR, time.perf_counter() + 60)
    assert len(queue.take(400, FAR).audio) == 400
    pusher.join()


def test_wait_ends_with_the_answer() -> None:
    queue = SpeechQueue()
    finisher = threading.Thread(target=queue.finish)
    finisher.start()
    queue.wait(FAR, FAR, time.perf_counter() + 60)
    assert queue.exhausted
    finisher.join()


def test_wait_ends_at_the_deadline() -> None:
    queue = SpeechQueue()
    queue.wait(FAR, FAR, time.perf_counter() + 0.01)
    assert not queue.exhausted


@given(
    st.lists(st.lists(st.sampled_from(["a", "bb", "ccc"]), min_size=1, max_size=5), max_size=5),
    st.integers(min_value=1, max_value=700),
    st.integers(min_value=1, max_value=6),
)
def test_nothing_is_lost_or_repeated(clauses: list[list[str]], samples: int, tokens: int) -> None:
    queue = SpeechQueue()
    pushed = [clause(*words) for words in clauses]
    for item in pushed:
        queue.push(item)
    queue.finish()
    units = drain(queue, samples, tokens)
    assert "".join(unit.text for unit in units) == " ".join(w for words in clauses for w in words)
    assert all(len(unit.audio) <= samples and unit.tokens <= tokens for unit in units)
    played = np.concatenate([np.zeros(0), *(unit.audio for unit in units)])
    assert np.array_equal(played, np.concatenate([np.zeros(0), *(c.audio for c in pushed)]))
    assert [unit.last for unit in units] == [False] * (len(units) - 1) + [True] * bool(units)
    assert sum(unit.phonemes for unit in units) == sum(len(c.phonemes) for c in pushed)
