"""A full, slow or missing disk: sessions continue, and delayed entries are written late."""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path

import pytest

from antiphon.broker.client import Broker
from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.recording import Meta, RecordingState, ReplayState
from support.recorder_conversations import (
    LiveTalk,
    assert_undisturbed,
    journal_lines,
    meta_of,
    until,
    until_acknowledged,
    until_finished,
)
from support.recorder_process import count, in_process, process

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def limit_files(pid: int, size: int) -> None:
    """Limit the size of this process's files, to simulate a full disk."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def is_degraded(log: list[str]) -> bool:
    return any('"recording_degraded"' in line for line in log)


async def end_before_merging(pid: int, data_dir: Path, talk: LiveTalk) -> None:
    """Records the whole session, on a disk that is too full for its replay."""
    for seed in range(12):
        await talk.exchange(seed)
    await until(lambda: journal_lines(data_dir, talk) == 26, "the entries are recorded")
    limit_files(pid, 40_000)
    await talk.end()
    await until(lambda: _meta(data_dir, talk).replay is ReplayState.MERGING, "recorded")


async def test_a_disk_that_is_full_for_a_while(broker: Broker, quickly: RecorderSettings) -> None:
    talk = await LiveTalk.begin(broker)
    log: list[str] = []
    async with process(quickly, log) as child:
        for seed in range(3):
            await talk.exchange(seed)
        await until(lambda: journal_lines(quickly.data_dir, talk) == 8, "the entries are recorded")
        limit_files(child.pid, 1000)
        for seed in range(3, 6):  # the session is not affected
            await talk.exchange(seed)
        await until(lambda: is_degraded(log), "the disk has refused an entry")
        assert journal_lines(quickly.data_dir, talk) == 8
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, UNLIMITED)
        await until(lambda: journal_lines(quickly.data_dir, talk) == 15, "it has resumed")
        await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
        await until_acknowledged(broker)
    assert meta.state is RecordingState.COMPLETE
    (outage,) = meta.degraded
    assert outage.error == "File too large"
    assert outage.resumed_at is not None
    assert outage.resumed_at > outage.at
    late = {(x.stream, x.first, x.last, x.first_chunk, x.last_chunk) for x in outage.late}
    assert late == {("in", 5, 7, 3, 5), ("out", 5, 7, None, None)}
    assert_undisturbed(quickly.data_dir, talk, meta=False)


async def test_a_disk_too_full_for_the_replay(broker: Broker, quickly: RecorderSettings) -> None:
    """The session is recorded and acknowledged; its replay is made when the disk has space."""
    talk = await LiveTalk.begin(broker)
    async with process(quickly) as child:
        await end_before_merging(child.pid, quickly.data_dir, talk)
        await asyncio.sleep(0.5)
        meta = _meta(quickly.data_dir, talk)
        assert (meta.state, meta.is_busy) == (RecordingState.COMPLETE, True)
        assert await talk.script() == [], "nothing waits in Redis for a replay"
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, UNLIMITED)
        (meta,) = await until_finished(quickly.data_dir, talk)
    assert meta.replay is ReplayState.READY
    assert_undisturbed(quickly.data_dir, talk)


@pytest.mark.parametrize("lost", ["nothing", "transitions", "everything"])
async def test_the_replay_of_a_dead_recorder_is_made_by_another(
    broker: Broker, quickly: RecorderSettings, lost: str
) -> None:
    """The recording on disk is complete and unmerged, whether or not Redis still has the session."""
    talk = await LiveTalk.begin(broker)
    async with process(quickly) as child:
        await end_before_merging(child.pid, quickly.data_dir, talk)
        child.kill()
    keys = broker.keys
    if lost != "nothing":
        await broker._redis.call("DEL", keys.events)
    if lost == "everything":
        await broker._redis.call("DEL", keys.session(talk.sid))
        await broker._redis.call("DEL", keys.recorded(talk.ticket))
    async with in_process(quickly.model_copy(update={"recorder_adopt_s": 0.4})):
        await until_finished(quickly.data_dir, talk)
    assert_undisturbed(quickly.data_dir, talk)


async def test_a_recorder_that_cannot_open_more_files_continues(
    broker: Broker, quickly: RecorderSettings
) -> None:
    """Only the search for orphaned recordings fails at the same time."""
    quickly = quickly.model_copy(update={"recorder_adopt_s": 0.4})
    talk = await LiveTalk.begin(broker)
    async with process(quickly) as child:
        await talk.exchange(0)
        await until(lambda: journal_lines(quickly.data_dir, talk) == 4, "the entries are recorded")
        allowed = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (3, allowed[1]))
        await asyncio.sleep(1.0)
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, allowed)
        await talk.exchange(1)
        await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
        assert child.poll() is None
    assert meta.state is RecordingState.COMPLETE


def _meta(data_dir: Path, talk: LiveTalk) -> Meta:
    meta = meta_of(data_dir, talk.recording)
    assert meta is not None
    return meta


async def test_entries_that_the_disk_rejected_for_too_long_are_lost_and_listed(
    broker: Broker, quickly: RecorderSettings
) -> None:
    talk = await LiveTalk.begin(broker)
    log: list[str] = []
    async with process(quickly, log) as child:
        await talk.exchange(0)
        await until(lambda: journal_lines(quickly.data_dir, talk) == 4, "the entries are recorded")
        limit_files(child.pid, 100)
        for seed in range(1, 4):
            await talk.exchange(seed)
        await until(lambda: is_degraded(log), "the disk has refused an entry")
        key = broker.keys.inbound(talk.sid)
        await broker._redis.call("XTRIM", key, "MAXLEN", 0)
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, UNLIMITED)
        await talk.exchange(4)
        await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
    assert meta.state is RecordingState.INTERRUPTED
    (gap,) = meta.missing
    assert (gap.stream, gap.first, gap.last) == ("in", 3, 5)
    assert "the disk had refused to take them: File too large" in gap.why


async def test_a_slow_disk_delays_no_other_session(
    broker: Broker, quickly: RecorderSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session's writes take 0.2 s each; no entry is lost."""
    slow, fast = await LiveTalk.begin(broker), await LiveTalk.begin(broker)
    undelayed = RecordingFolder.add

    def add(folder: RecordingFolder, *entry: object) -> None:
        if folder.path.name == slow.recording:
            time.sleep(0.2)
        undelayed(folder, *entry)  # type: ignore[arg-type]

    monkeypatch.setattr(RecordingFolder, "add", add)
    metrics = RecorderMetrics()
    async with in_process(quickly, metrics):
        for seed in range(10):
            await slow.exchange(seed)
            await fast.exchange(seed)
        await slow.end()
        await fast.end()
        await until_finished(quickly.data_dir, fast)
        assert journal_lines(quickly.data_dir, slow) < 22
        await until_finished(quickly.data_dir, slow)
    assert count(metrics, "lag_seconds_count") > count(metrics, "lag_seconds_bucket", le="1.0")
    assert count(metrics, "entries_total") >= 40
    monkeypatch.undo()
    assert_undisturbed(quickly.data_dir, slow)


async def test_the_metrics_show_it(broker: Broker, quickly: RecorderSettings) -> None:
    metrics = RecorderMetrics()
    talk, other = await LiveTalk.begin(broker), await LiveTalk.begin(broker)
    obstacle = quickly.data_dir / "sessions" / talk.recording
    obstacle.parent.mkdir(parents=True)
    obstacle.write_bytes(b"")  # a file where a directory must be
    async with in_process(quickly, metrics):
        await talk.exchange(2)
        await until(
            lambda: metrics.degraded == 1 and count(metrics, "disk_errors_total") > 1,
            "the error is logged",
        )
        assert metrics.sessions == 2
        obstacle.unlink()
        await until(lambda: metrics.degraded == 0, "the disk is writable again")
        await talk.end()
        await other.end()
        await until_finished(quickly.data_dir, talk, other)
        await until_acknowledged(broker)
        states = ("complete", "interrupted")
        assert [count(metrics, "recordings_total", state=state) for state in states] == [2, 0]
        assert count(metrics, "declined_sessions_total") == 0
        assert (metrics.sessions, metrics.merges_waiting) == (0, 0)
        assert count(metrics, "merges_total", outcome="done") == 1
    assert count(metrics, "lag_seconds_count") == count(metrics, "entries_total") >= 4
