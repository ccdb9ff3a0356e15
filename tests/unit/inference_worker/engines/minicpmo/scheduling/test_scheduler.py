"""Which steps share a batch, and that a failing job ends alone."""

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import bucket, ragged_bucket
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import EngineJob, Scheduler
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import CodeRow, SpeechSettings
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    ClearSlot,
    DecodeCodes,
    DecodeSpeech,
    EncodeAudio,
    EncodeClips,
    EncodeImages,
    EngineStep,
    Feed,
    ShiftCache,
    Steps,
)

MISSING = torch.zeros(0)


def feed(slot: int, count: int) -> Feed:
    return Feed(slot, 0, (tuple(range(count)),))


def job_of(step: EngineStep) -> EngineJob:
    job = EngineJob(iter(()))  # type: ignore[arg-type]
    job.step = step
    return job


def test_pieces_of_similar_length_share_a_batch() -> None:
    scheduler = Scheduler(most=8)
    jobs = [job_of(feed(n, count)) for n, count in enumerate([11, 1, 13, 70, 1, 70])]
    for job in jobs:
        scheduler.add(job)
    order = []
    while len(scheduler):
        order.append([jobs.index(job) for job in scheduler.next_batch()])
    assert order == [[0, 2], [1, 4], [3], [5]]
    assert scheduler.next_batch() == []


def test_ragged_batches_take_feeds_of_any_length() -> None:
    """Up to the limits of a feed, of a batch and of the slots. Other types have their own batches."""
    scheduler = Scheduler(most=6, ragged=True)
    counts = [11, 1, 77, 129, 2, 128, 128, 128, 70, 1]
    jobs = [job_of(feed(n, count)) for n, count in enumerate(counts)]
    row = CodeRow(SpeechSettings(), (), may_end=True)
    jobs += [job_of(DecodeSpeech(0, 0, torch.zeros(count, 4), row)) for count in (1, 20)]
    for job in jobs:
        scheduler.add(job)
    order = []
    while len(scheduler):
        order.append([jobs.index(job) for job in scheduler.next_batch()])
    assert order == [[0, 1, 2, 4, 5, 6], [3], [7, 8, 9], [10, 11]]
    scheduler = Scheduler(most=9, ragged=True)
    jobs = [job_of(feed(n, count)) for n, count in enumerate([128] * 3 + [100, 29, 28])]
    for job in jobs:
        scheduler.add(job)
    assert [jobs.index(job) for job in scheduler.next_batch()] == [0, 1, 2, 3, 5]


def test_clips_run_alone_and_batches_have_a_limit() -> None:
    scheduler = Scheduler(most=2)
    for job in [job_of(EncodeClips([])), *(job_of(feed(n, 1)) for n in range(3))]:
        scheduler.add(job)
    assert [len(scheduler.next_batch()) for _ in range(3)] == [1, 2, 1]


def codes(slot: int, due: float = 0.0, *, stopped: bool = False) -> DecodeCodes:
    row = CodeRow(SpeechSettings(), (7,), may_end=True)
    return DecodeCodes(slot, 0, 7, row, (0.5,) * 5, due=due, stopped=lambda: stopped)


def test_codes_that_are_not_urgent_wait_but_join_others() -> None:
    """They start a batch of their own only when nothing else waits, or when they are due."""
    now = 10.0
    scheduler = Scheduler(most=8, clock=lambda: now)
    jobs = [job_of(step) for step in (codes(0, 12.0), feed(1, 1), codes(2), codes(3, 12.0))]
    for job in jobs:
        scheduler.add(job)
    order = []
    while len(scheduler):
        order.append([jobs.index(job) for job in scheduler.next_batch()])
    assert order == [[1], [0, 2, 3]]
    for due, first in ((12.0, 1), (9.0, 0)):
        jobs = [job_of(codes(0, due)), job_of(feed(1, 1))]
        for job in jobs:
            scheduler.add(job)
        assert scheduler.next_batch() == [jobs[first]]
        assert scheduler.next_batch() == [jobs[1 - first]]


def test_what_ends_goes_first() -> None:
    """The reader of an interrupted answer waits, and so does a session that stopped."""
    scheduler = Scheduler(most=8, clock=lambda: 10.0)
    stopped = codes(0, 12.0, stopped=True)
    jobs = [job_of(step) for step in (feed(0, 1), codes(1, 12.0), stopped)]
    for job in jobs[1:]:
        scheduler.add(job)
    scheduler.add(jobs[0])
    assert scheduler.next_batch() == [jobs[1], jobs[2]]  # the other one joins
    for job in (jobs[0], jobs[1]):
        scheduler.add(job)
    jobs[1].abandoned = True
    assert scheduler.next_batch() == [jobs[1]]


def test_a_shift_of_the_cache_runs_alone() -> None:
    scheduler = Scheduler(most=8)
    for slot in range(2):
        scheduler.add(job_of(ShiftCache(slot, 9, 3, 5)))
    assert [len(scheduler.next_batch()) for _ in range(2)] == [1, 1]


def test_codes_beside_other_steps_go_first() -> None:
    scheduler = Scheduler(most=8, codes_first=True)
    jobs = [job_of(feed(0, 1)), job_of(codes(1)), job_of(feed(2, 1))]
    for job in jobs:
        scheduler.add(job)
    assert scheduler.next_batch() == [jobs[1]]
    scheduler.add(jobs[1])
    assert scheduler.next_batch(with_codes=False) == [jobs[0], jobs[2]]


def test_buckets_are_powers_of_two() -> None:
    assert [bucket(n) for n in (1, 2, 3, 4, 11, 16, 17)] == [1, 2, 4, 4, 16, 16, 32]
    assert [ragged_bucket(n) for n in (3, 17, 33, 49, 97, 385)] == [4, 32, 48, 64, 128, 512]


@pytest.mark.parametrize(
    ("frames", "leading", "trailing", "size"),
    [(102, 0, 2, 50), (104, 2, 2, 50), (102, 0, 0, 51), (104, 0, 0, 52), (100, 0, 0, 50)],
)
def test_size_of_an_audio_chunk(frames: int, leading: int, trailing: int, size: int) -> None:
    assert EncodeAudio(0, 0, torch.zeros(80, frames), leading, trailing).size == size


def test_a_job_ends_with_the_result_or_the_exception_of_its_generator() -> None:
    def work(*, fail: bool) -> Steps[int]:
        yield ClearSlot(0)
        if fail:
            raise ValueError("no")
        return 5

    good, bad = EngineJob(work(fail=False)), EngineJob(work(fail=True))
    for job in (good, bad):
        assert job.advance(None)
        assert not job.advance(None)
    assert good.future.result() == 5
    with pytest.raises(ValueError, match="no"):
        bad.future.result()


def test_batches_of_audio_and_of_pictures_have_a_limit() -> None:
    scheduler = Scheduler(most=64)
    for slot in range(20):
        scheduler.add(job_of(EncodeAudio(slot, 0, torch.zeros(80, 102), 0, 2)))
    assert [len(scheduler.next_batch()) for _ in range(2)] == [16, 4]
    for slices in (1, 2, 3, 1):
        scheduler.add(job_of(EncodeImages([MISSING] * slices, [(28, 37)] * slices)))
    batches = [[job.step for job in scheduler.next_batch()] for _ in range(3)]
    counts = [
        [len(step.grids) for step in batch if isinstance(step, EncodeImages)] for batch in batches
    ]
    assert counts == [[1, 1], [2], [3]]
