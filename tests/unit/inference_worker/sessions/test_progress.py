"""The progress of a long prefill."""

import asyncio
from typing import cast

import pytest

from antiphon.broker.errors import StaleFence
from antiphon.inference_worker.sessions.chat import ProgressPublisher
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.shared_schemas.entries import OutEntry, ProgressOut


class PublishedProgress:
    """Records published progress, and can raise an error."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.entries: list[float] = []
        self._failure = failure

    async def publish(self, entry: OutEntry) -> None:
        if self._failure is not None:
            raise self._failure
        assert isinstance(entry, ProgressOut)
        self.entries.append(entry.done)

    @property
    def session(self) -> ClaimedSession:
        return cast("ClaimedSession", self)

    async def has(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.entries) < count:
                await asyncio.sleep(0.001)


async def read(published: PublishedProgress, failure: Exception | None = None) -> None:
    progress = ProgressPublisher(interval_s=0.001)
    async with progress.publish_to(published.session):
        progress(0.5)
        await asyncio.sleep(0.05)
        if failure is not None:
            raise failure


async def test_only_increasing_progress_is_published() -> None:
    published, progress = PublishedProgress(), ProgressPublisher(interval_s=0.001)
    async with progress.publish_to(published.session):
        progress(0.25)
        await published.has(1)
        progress(0.1)
        await asyncio.sleep(0.02)
        progress(7.0)
        await published.has(2)
    assert published.entries == [0.25, 1.0]


async def test_progress_continues_after_another_worker() -> None:
    published, progress = PublishedProgress(), ProgressPublisher(0.5, interval_s=0.001)
    async with progress.publish_to(published.session):
        progress(0.25)
        await asyncio.sleep(0.02)
        progress(0.75)
        await published.has(1)
    assert published.entries == [0.75]


async def test_a_short_prefill_publishes_no_progress() -> None:
    published, progress = PublishedProgress(), ProgressPublisher(interval_s=60)
    async with progress.publish_to(published.session):
        progress(0.5)
        await asyncio.sleep(0)
    assert published.entries == []


async def test_a_lost_session_is_noticed() -> None:
    with pytest.raises(StaleFence):
        await read(PublishedProgress(StaleFence("gone")))


async def test_the_error_of_the_context_is_raised() -> None:
    with pytest.raises(ValueError, match="inside"):
        await read(PublishedProgress(StaleFence("gone")), ValueError("inside"))
