"""A full, slow or missing disk: sessions continue, and delayed entries are written late."""

import asyncio
import resource
from pathlib import Path

import pytest

from antiphon.broker.client import Broker
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


@pytest.mark.parametrize("lost", [False, True])
async def test_the_replay_of_a_dead_recorder_is_made_by_another(
    broker: Broker, quickly: RecorderSettings, lost: bool
) -> None:
    """The recording on disk is complete and unmerged, whether or not Redis still has the session."""
    talk = await LiveTalk.begin(broker)
    async with process(quickly) as child:
        await end_before_merging(child.pid, quickly.data_dir, talk)
        child.kill()
    keys = broker.keys
    for key in (keys.events, keys.session(talk.sid), keys.recorded(talk.ticket)) if lost else ():
        await broker._redis.call("DEL", key)
    async with in_process(quickly.model_copy(update={"recorder_adopt_s": 0.4})):
        await until_finished(quickly.data_dir, talk)
    assert_undisturbed(quickly.data_dir, talk)


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
        assert (metrics.sessions, count(metrics, "degraded_sessions")) == (2, 1)
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
