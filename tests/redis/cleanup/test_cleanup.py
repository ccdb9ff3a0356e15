"""The cleanup job with and without Redis: which recordings it keeps, and which keys it removes."""

import asyncio
import os
from pathlib import Path

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.cleanup_job.report import RedisReport, SweepReport, SweepStatus
from antiphon.cleanup_job.service import run_once
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.stack.stack_file import StackFile, publish_stack
from antiphon.shared_schemas.states import SessionState
from support.constants import variables
from support.control_plane import join
from support.fork_server import run_antiphon
from support.recorder_conversations import LiveTalk


def cleanup(settings: BrokerSettings, data: Path, **more: float) -> CleanupSettings:
    return CleanupSettings(**settings.model_dump(), data_dir=data, **more)


def make(data: Path, recording: str) -> Path:
    folder = data / "sessions" / recording
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text("{}")
    return folder


def removed(report: SweepReport) -> set[str]:
    return {removal.session for removal in report.removed}


async def test_a_live_session_is_kept_and_an_ended_one_is_deleted(
    settings: BrokerSettings, broker: Broker, tmp_path: Path
) -> None:
    live, waiting, over = await LiveTalk.begin(broker), await LiveTalk.queue(broker), "ab" * 16
    for recording in (live.recording, waiting.recording, over):
        make(tmp_path, recording)
    report = await run_once(
        cleanup(settings, tmp_path, max_storage_gb=0, retention_days=0, orphan_hours=1e-9)
    )
    assert removed(report) == {over}
    assert report.live == 2
    assert report.redis.error is None
    await live.end()
    report = await run_once(cleanup(settings, tmp_path, max_storage_gb=0, orphan_hours=1e-9))
    assert removed(report) == {live.recording}


async def test_share_links_are_deleted_with_their_recording(
    settings: BrokerSettings, broker: Broker, tmp_path: Path
) -> None:
    gone, kept = "ab" * 16, "cd" * 16
    make(tmp_path, gone)
    links = [await broker.shares.create(recording) for recording in (gone, gone, kept)]
    rules = {"max_storage_gb": 0, "orphan_hours": 1e-9}
    rehearsal = await run_once(cleanup(settings, tmp_path, **rules, dry_run=True))
    assert (removed(rehearsal), rehearsal.redis.shares) == ({gone}, 0)
    assert await broker.shares.recording(links[0].token) == gone
    report = await run_once(cleanup(settings, tmp_path, **rules))
    assert report.redis.shares == 2
    opens = [await broker.shares.recording(link.token) for link in links]
    assert opens == [None, None, kept]


async def test_orphaned_keys_are_removed_even_if_no_recording_is_deleted(
    settings: BrokerSettings, broker: Broker, raw: Redis, tmp_path: Path
) -> None:
    await join(broker, "adx_1")
    await raw.zrem(broker.keys.queue, "adx_1")
    rules = cleanup(settings, tmp_path, max_storage_gb=-1, retention_days=-1)
    rehearsal = await run_once(rules.model_copy(update={"dry_run": True}))
    assert (rehearsal.status, rehearsal.redis) == (SweepStatus.DISABLED, RedisReport(rows=1))
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert row.state is SessionState.QUEUED
    assert (await run_once(rules)).redis == RedisReport(rows=1)
    assert (await run_once(rules)).redis == RedisReport()


async def test_without_redis_recordings_are_still_deleted(tmp_path: Path) -> None:
    make(tmp_path, "ab" * 16)
    settings = CleanupSettings(
        data_dir=tmp_path, max_storage_gb=0, orphan_hours=1e-9, redis_url="redis://127.0.0.1:1/0"
    )
    report = await run_once(settings)
    assert removed(report) == {"ab" * 16}
    assert report.redis.error is not None
    assert "Redis does not answer" in report.redis.error


async def test_the_command_finds_the_redis_of_the_stack_in_its_folder(
    settings: BrokerSettings, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, data = await LiveTalk.begin(broker), tmp_path / "data"
    folder = make(data, live.recording)
    monkeypatch.delenv("ANTIPHON_REDIS_URL", raising=False)
    rules = {"key_prefix": settings.key_prefix, "max_storage_gb": 0, "orphan_hours": 1e-9}
    for name, value in variables(rules).items():
        monkeypatch.setenv(name, value)
    stack = StackFile(pid=os.getpid(), redis_url=settings.redis_url, edge_url="ws://e")
    with publish_stack(data) as publish:
        publish(stack)
        done = await asyncio.to_thread(
            run_antiphon,
            *("cleanup", "--once"),
            folder=tmp_path,
            environment=dict(os.environ),
        )
    report = SweepReport.model_validate_json(done.stdout)
    assert (report.redis.error, report.live, folder.exists()) == (None, 1, True)
