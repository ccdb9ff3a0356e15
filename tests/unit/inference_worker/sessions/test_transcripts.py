"""Waiting for the transcript of an utterance."""

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from antiphon.inference_worker.sessions import transcripts
from antiphon.inference_worker.sessions.transcripts import utterance_text


async def test_waiting_takes_no_thread_of_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many sessions may wait; recovery and name lookups need the same threads."""
    monkeypatch.setattr(transcripts, "_PATIENCE_S", 60.0)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    words: Future[str] = Future()
    waiting = asyncio.create_task(utterance_text(words))
    await asyncio.sleep(0)
    async with asyncio.timeout(90):
        assert await asyncio.to_thread(lambda: "other work") == "other work"
    assert not waiting.done()
    words.set_result("hello")
    assert await waiting == "hello"


async def test_a_transcript_that_comes_too_late_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A recogniser that is slower than the turns would never catch up, and hold the sound of all."""
    monkeypatch.setattr(transcripts, "_PATIENCE_S", 0.01)
    with ThreadPoolExecutor(1) as recogniser:
        busy = threading.Event()
        recogniser.submit(busy.wait, 60)
        waiting = recogniser.submit(lambda: "too late")
        assert await utterance_text(waiting) == ""
        busy.set()
    assert waiting.cancelled()


async def test_without_a_transcript_in_time_there_is_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcripts, "_PATIENCE_S", 0.01)
    late: Future[str] = Future()
    assert late.set_running_or_notify_cancel()
    assert await utterance_text(late) == ""
    late.set_exception(RuntimeError("after the turn"))  # nothing is reported to the event loop
    failed: Future[str] = Future()
    failed.set_exception(RuntimeError("no model"))
    assert await utterance_text(failed) == ""
    cancelled: Future[str] = Future()
    cancelled.cancel()
    assert await utterance_text(cancelled) == ""
