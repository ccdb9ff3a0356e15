"""Failed attempts are counted in the recording's folder; stops and disk errors are no failures."""

import asyncio
from pathlib import Path

import pytest

from antiphon.broker.errors import BrokerUnavailable
from antiphon.recorder_service.attempts import (
    Attempts,
    MergeStopped,
    TooManyAttempts,
    read_attempts,
)
from antiphon.recorder_service.folder import RecordingFolder, set_aside
from antiphon.recorder_service.journal.state import SessionEnding
from antiphon.recorder_service.sessions.status import unfinished_recordings
from antiphon.shared_schemas.recording import RecordingState, ReplayState, encode_meta
from support.timed_conversations import T0, Recorded, TimedTalk


async def _fail(attempts: Attempts, folder: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        async with attempts.attempt(folder):
            raise error


async def test_failures_are_counted_until_one_attempt_succeeds(tmp_path: Path) -> None:
    for number in range(1, 3):
        await _fail(Attempts(3), tmp_path, ValueError())
        assert read_attempts(tmp_path) == number
        async with Attempts(3).attempt(tmp_path, clears_failures=False):
            pass
        assert read_attempts(tmp_path) == number
    async with Attempts(3).attempt(tmp_path):
        assert read_attempts(tmp_path) == 3, "a recorder that is killed now leaves this number"
    assert list(tmp_path.iterdir()) == []
    for _ in range(3):
        await _fail(Attempts(3), tmp_path, ValueError())
    await _fail(Attempts(3), tmp_path, TooManyAttempts())


@pytest.mark.parametrize(
    "error", [OSError(), BrokerUnavailable(), MergeStopped(), asyncio.CancelledError()]
)
async def test_what_is_no_failure_of_the_recording(tmp_path: Path, error: BaseException) -> None:
    await _fail(Attempts(3), tmp_path, ValueError())
    for _ in range(5):
        await _fail(Attempts(3), tmp_path, error)
    assert read_attempts(tmp_path) == 1


async def test_a_stop_while_an_attempt_begins_is_no_failure(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with Attempts(3).attempt(tmp_path):
            await asyncio.Event().wait()

    for turns in range(40):
        task = asyncio.create_task(attempt())
        for _ in range(turns):
            await asyncio.sleep(0.0001)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        assert read_attempts(tmp_path) == 0


async def test_nothing_is_counted_before_the_folder_exists(tmp_path: Path) -> None:
    async with Attempts(1).attempt(tmp_path / "later"):
        pass
    assert not (tmp_path / "later").exists()


async def test_recordings_that_have_failed_are_worked_on_one_at_a_time(tmp_path: Path) -> None:
    attempts, suspects = Attempts(3), [tmp_path / name for name in "ab"]
    for folder in (*suspects, tmp_path / "c"):
        folder.mkdir()
    for folder in suspects:
        await _fail(attempts, folder, ValueError())
    working: list[str] = []

    async def work(folder: Path) -> None:
        async with attempts.attempt(folder):
            working.append(folder.name)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(work(folder)) for folder in (*suspects, tmp_path / "c")]
    async with asyncio.timeout(60):
        while len(working) < 2:
            await asyncio.sleep(0.01)
    assert "c" in working, "a recording without a failure does not wait"
    counts = sorted(read_attempts(folder) for folder in suspects)
    assert counts == [1, 2]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("begun", [True, False])
def test_a_recording_that_is_set_aside_keeps_its_journal(tmp_path: Path, begun: bool) -> None:
    talk = TimedTalk.prepared()
    folder = RecordingFolder(tmp_path, talk.job)
    for side, position, entry in talk.script:
        folder.add(side, position, entry)
    folder.close()
    journal = (folder.path / "timeline.jsonl").read_bytes()
    if not begun:
        (folder.path / "meta.json").unlink()
    for _ in range(2):  # a recorder that is killed in between repeats it
        set_aside(tmp_path, talk.job, "3 attempts have failed")
    meta = Recorded(folder.path).meta
    assert (meta.state, meta.replay) == (RecordingState.INTERRUPTED, ReplayState.FAILED)
    assert meta.replay_error == "set aside: 3 attempts have failed"
    assert meta.ended_at is not None
    assert meta.ended_at >= meta.created_at
    assert not meta.is_busy
    assert (folder.path / ".timeline.set_aside").read_bytes() == journal
    again = RecordingFolder(tmp_path, talk.job)
    assert again.complete


async def test_a_recording_that_was_set_aside_can_be_finished_later(tmp_path: Path) -> None:
    """As docs/operations.md says."""
    talk = TimedTalk.prepared()
    folder = RecordingFolder(tmp_path, talk.job)
    for side, position, entry in talk.script:
        folder.add(side, position, entry)
    folder.close()
    set_aside(tmp_path, talk.job, "3 attempts have failed")
    meta = Recorded(folder.path).meta.model_copy(update={"state": RecordingState.RECORDING})
    (folder.path / "meta.json").write_bytes(encode_meta(meta))
    (folder.path / ".timeline.set_aside").rename(folder.path / "timeline.jsonl")
    (job,) = unfinished_recordings(tmp_path, -1.0)
    again = RecordingFolder(tmp_path, job)
    ending = SessionEnding(at=round(T0 + 1000))
    assert again.finish(ending) is RecordingState.COMPLETE
    meta = Recorded(folder.path).meta
    assert (meta.replay, meta.replay_error) == (ReplayState.NONE, None)
