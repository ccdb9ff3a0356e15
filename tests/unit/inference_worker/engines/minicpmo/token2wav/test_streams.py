"""Dynamic batching: requests that arrive while a batch runs form the next batch."""

import threading
from collections.abc import Sequence

import pytest

from antiphon.inference_worker.engines.minicpmo.token2wav.streams import MicroBatcher

ASKERS = 5


class TenfoldServer:
    """Returns ten times each request; the first batch waits until it is released."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.began, self.go = threading.Event(), threading.Event()

    def serve(self, requests: list[int]) -> Sequence[int | BaseException]:
        self.batches.append(requests)
        self.began.set()
        assert self.go.wait(90)
        if 13 in requests:
            raise ValueError("no oven")
        return [10 * n if n >= 0 else LookupError(str(n)) for n in requests]


def asked_at_once(server: TenfoldServer, requests: list[int]) -> dict[int, int | str]:
    """One request starts a batch; the others arrive while it runs."""
    batcher = MicroBatcher[int, int](server.serve)
    answers: dict[int, int | str] = {}

    def ask(n: int) -> None:
        try:
            answers[n] = batcher.run(n)
        except (LookupError, ValueError) as error:
            answers[n] = str(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in requests]
    threads[0].start()
    assert server.began.wait(90)
    for thread in threads[1:]:
        thread.start()
    while batcher._inbox.qsize() < len(requests) - 1:
        threading.Event().wait(0.001)
    server.go.set()
    for thread in threads:
        thread.join(30)
    assert batcher.run(7) == 70
    batcher.close()
    return answers


def test_queued_requests_form_one_batch() -> None:
    server = TenfoldServer()
    answers = asked_at_once(server, list(range(ASKERS)))
    assert answers == {n: 10 * n for n in range(ASKERS)}
    assert [sorted(batch) for batch in server.batches] == [[0], [1, 2, 3, 4], [7]]


def test_each_request_raises_its_exception() -> None:
    server = TenfoldServer()
    assert asked_at_once(server, [1, -2, 3]) == {1: 10, -2: "-2", 3: 30}


def test_a_failed_batch_fails_all_its_requests_and_the_next_one_runs() -> None:
    server = TenfoldServer()
    answers = asked_at_once(server, [1, 13, 3])
    assert answers == {1: 10, 13: "no oven", 3: "no oven"}


def test_a_single_request_runs_at_once() -> None:
    server = TenfoldServer()
    server.go.set()
    batcher = MicroBatcher[int, int](server.serve)
    assert [batcher.run(n) for n in (1, 2)] == [10, 20]
    with pytest.raises(LookupError, match="-1"):
        batcher.run(-1)
    assert batcher.run_batch([4, 5]) == [40, 50]
    assert server.batches == [[1], [2], [-1], [4, 5]]
    batcher.close()
    assert not batcher._thread.is_alive()


def test_a_wrong_number_of_results_fails_the_batch() -> None:
    """The thread continues afterwards."""
    batcher = MicroBatcher[int, int](lambda requests: [1] if len(requests) == 1 else [])
    with pytest.raises(RuntimeError, match="0 answers to 2 questions"):
        batcher.run_batch([1, 2])
    assert batcher.run(1) == 1
    batcher.close()
