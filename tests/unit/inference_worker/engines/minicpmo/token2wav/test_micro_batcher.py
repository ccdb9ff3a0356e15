"""Dynamic batching: requests that arrive while a batch runs form the next batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from antiphon.inference_worker.engines.minicpmo.token2wav.micro_batcher import MicroBatcher

ASKERS = 5


class Kitchen:
    """Returns ten times each request; the first batch waits until it is released."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.began, self.go = threading.Event(), threading.Event()

    def serve(self, asked: list[int]) -> Sequence[int | BaseException]:
        self.batches.append(asked)
        self.began.set()
        assert self.go.wait(30)
        if 13 in asked:
            raise ValueError("no oven")
        return [10 * n if n >= 0 else LookupError(str(n)) for n in asked]


def asked_at_once(kitchen: Kitchen, questions: list[int]) -> dict[int, int | str]:
    """One request starts a batch; the others arrive while it runs."""
    meeting = MicroBatcher[int, int](kitchen.serve)
    answers: dict[int, int | str] = {}

    def ask(n: int) -> None:
        try:
            answers[n] = meeting.run(n)
        except (LookupError, ValueError) as error:
            answers[n] = str(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in questions]
    threads[0].start()
    assert kitchen.began.wait(30)
    for thread in threads[1:]:
        thread.start()
    while meeting._inbox.qsize() < len(questions) - 1:
        threading.Event().wait(0.001)
    kitchen.go.set()
    for thread in threads:
        thread.join(30)
    assert meeting.run(7) == 70
    meeting.close()
    return answers


def test_those_who_wait_are_served_together() -> None:
    kitchen = Kitchen()
    answers = asked_at_once(kitchen, list(range(ASKERS)))
    assert answers == {n: 10 * n for n in range(ASKERS)}
    assert [sorted(batch) for batch in kitchen.batches] == [[0], [1, 2, 3, 4], [7]]


def test_each_gets_its_own_failure() -> None:
    kitchen = Kitchen()
    assert asked_at_once(kitchen, [1, -2, 3]) == {1: 10, -2: "-2", 3: 30}


def test_a_batch_that_fails_is_told_to_all_of_it_and_the_next_is_served() -> None:
    kitchen = Kitchen()
    answers = asked_at_once(kitchen, [1, 13, 3])
    assert answers == {1: 10, 13: "no oven", 3: "no oven"}


def test_a_lone_question_waits_for_nobody() -> None:
    kitchen = Kitchen()
    kitchen.go.set()
    meeting = MicroBatcher[int, int](kitchen.serve)
    assert [meeting.run(n) for n in (1, 2)] == [10, 20]
    with pytest.raises(LookupError, match="-1"):
        meeting.run(-1)
    assert meeting.run_batch([4, 5]) == [40, 50]
    assert kitchen.batches == [[1], [2], [-1], [4, 5]]
    meeting.close()
    assert not meeting._thread.is_alive()


def test_too_few_answers_are_nobodys() -> None:
    """The thread continues afterwards."""
    meeting = MicroBatcher[int, int](lambda asked: [1] if len(asked) == 1 else [])
    with pytest.raises(RuntimeError, match="0 answers to 2 questions"):
        meeting.run_batch([1, 2])
    assert meeting.run(1) == 1
    meeting.close()
