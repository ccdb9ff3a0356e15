"""Recorders are killed, stopped or doubled, Redis and the disk fail: no entry is lost or doubled."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.service import GROUP, Recorder
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.recording import RecordingState
from support.control_plane import join
from support.recorder_conversations import (
    PATIENCE_S,
    LiveTalk,
    assert_undisturbed,
    journal_lines,
    meta_of,
    unacknowledged,
    until,
    until_acknowledged,
    until_finished,
)
from support.recorder_process import ended, in_process, process, quick
from support.redis_server import RedisServer, can_fake_time

DAY_S = 86_400.0


def _state(settings: RecorderSettings, talk: LiveTalk) -> str:
    meta = meta_of(settings.data_dir, talk.recording)
    return meta.state.value if meta else "recording"


async def test_two_replicas_share_the_sessions_and_the_survivor_takes_over(
    broker: Broker, quickly: RecorderSettings
) -> None:
    async with process(quickly) as first, process(quickly):
        async with asyncio.timeout(PATIENCE_S):
            while await _readers(broker) < 2:
                await asyncio.sleep(0.05)
        talks: list[LiveTalk] = []
        while len(talks) < 4 or len(await _owners(broker)) < 2:
            talks.append(await LiveTalk.begin(broker))
            await asyncio.sleep(0.3)
            assert len(talks) < 60, "one replica gets every session"
        for seed in range(10):
            for talk in talks:
                await talk.exchange(seed)
        first.kill()
        for seed in range(10, 20):
            for talk in talks:
                await talk.exchange(seed)
        for talk in talks:
            await talk.end()
        await until_finished(quickly.data_dir, *talks)
        await until_acknowledged(broker)
    assert_undisturbed(quickly.data_dir, *talks)


async def _readers(broker: Broker) -> int:
    clients = await broker._redis.call("CLIENT LIST")
    return sum(client["cmd"] == "xreadgroup" for client in clients)


async def _owners(broker: Broker) -> set[bytes]:
    group = await broker.events.join_group("recorder", "probe")
    await group.close()
    reply = await broker._redis.call(
        "XPENDING", broker.keys.events, "recorder", "-", "+", 1000, parse_detail=True
    )
    return {row["consumer"] for row in reply}


async def test_the_owner_learns_of_an_end_that_another_replica_received(
    broker: Broker, quickly: RecorderSettings
) -> None:
    """Each transition goes to one replica only; only the watch informs the other one of a session's end."""
    slow = quickly.model_copy(update={"recorder_look_s": 1000, "recorder_silence_s": 1000})
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(in_process(slow))
        talks = [await LiveTalk.begin(broker) for _ in range(12)]
        for talk in talks:
            await talk.exchange(0)
        for talk in talks:
            await talk.end()
        metas = await until_finished(slow.data_dir, *talks)
        assert {meta.state for meta in metas} == {RecordingState.COMPLETE}
        await until_acknowledged(broker)


async def test_sigterm_hands_sessions_over_and_finishes_ended_ones(
    broker: Broker, quickly: RecorderSettings
) -> None:
    slow = quickly.model_copy(update={"recorder_silence_s": 60, "recorder_settle_s": 1.0})
    over, unfinished = await LiveTalk.begin(broker), await LiveTalk.begin(broker)
    async with process(slow) as child:
        for talk in (over, unfinished):
            await until(lambda t=talk: meta_of(slow.data_dir, t.recording) is not None, "begun")  # type: ignore[misc]
        await over.end()
        child.terminate()
        assert await ended(child) == 0
    assert _state(slow, over) == "complete"
    assert _state(slow, unfinished) == "recording"
    await unfinished.exchange(0)
    async with in_process(slow):  # silence_s is a minute: only a hand-over can be this quick
        await unfinished.end()
        await until_finished(slow.data_dir, unfinished)
    assert_undisturbed(slow.data_dir, unfinished)


async def test_an_outage_of_redis_loses_nothing(redis_server: RedisServer, tmp_path: Path) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    quickly = quick(settings, tmp_path / "data")
    async with in_process(quickly), open_broker(settings) as broker:
        talk = await LiveTalk.begin(broker)
        for seed in range(5):
            await talk.exchange(seed)
        await until(lambda: meta_of(quickly.data_dir, talk.recording) is not None, "begun")
        redis_server.stop()
        await asyncio.sleep(1)
        redis_server.start()
        for seed in range(5, 10):
            await talk.exchange(seed)
        await talk.end()
        await until_finished(quickly.data_dir, talk)
        await until_acknowledged(broker)
    assert_undisturbed(quickly.data_dir, talk)


async def test_a_wrong_password_is_logged_with_its_remedy(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    url = redis_server.url.replace("//", "//:wrong@", 1)
    with capture_logs() as logs:
        async with in_process(quick(BrokerSettings(redis_url=url), tmp_path / "data")):
            await until(lambda: logs, "logged")
    assert logs[0]["event"] == "recorder_waits_for_redis"
    assert "remove it from ANTIPHON_REDIS_URL" in logs[0]["error"]


async def test_a_redis_that_restarts_empty(redis_server: RedisServer, tmp_path: Path) -> None:
    """Recorded entries are kept and marked; later sessions are recorded as usual."""
    settings = BrokerSettings(redis_url=redis_server.url)
    quickly = quick(settings, tmp_path / "data")
    async with in_process(quickly):
        async with open_broker(settings) as broker:
            lost = await LiveTalk.begin(broker, "adx_lost")
            for seed in range(5):
                await lost.exchange(seed)
            await until(
                lambda: journal_lines(quickly.data_dir, lost) == 12, "all of it is recorded"
            )
        redis_server.kill()
        redis_server.start(empty=True)
        async with open_broker(settings) as broker:
            await until_finished(quickly.data_dir, lost)
            again = await LiveTalk.begin(broker, "adx_lost")
            await again.exchange(0)
            await again.end()
            await until_finished(quickly.data_dir, again)
            await until_acknowledged(broker)
    meta = meta_of(quickly.data_dir, lost.recording)
    assert meta is not None
    assert (meta.state, meta.chunks, meta.reason) == (RecordingState.INTERRUPTED, 5, None)
    assert _state(quickly, again) == "complete"


async def test_a_recording_is_deleted_while_it_is_written(
    broker: Broker, quickly: RecorderSettings, tmp_path: Path
) -> None:
    """After an operator's `rm -r` the recording is written again from the streams."""
    talk = await LiveTalk.begin(broker)
    async with in_process(quickly):
        await talk.exchange(0)
        await until(lambda: journal_lines(quickly.data_dir, talk) == 4, "recorded so far")
        folder = quickly.data_dir / "sessions" / talk.recording
        folder.rename(tmp_path / "gone")
        await talk.exchange(1)
        await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
    assert meta.degraded != []
    assert_undisturbed(quickly.data_dir, talk, meta=False)


@pytest.mark.parametrize("lost", ["transition", "everything"])
async def test_an_orphaned_recording_is_adopted(
    broker: Broker, quickly: RecorderSettings, lost: str
) -> None:
    talk = await LiveTalk.begin(broker)
    async with process(quickly) as child:
        await talk.exchange(0)
        await until(lambda: journal_lines(quickly.data_dir, talk) == 4, "recorded so far")
        child.kill()
    redis = broker._redis
    await redis.call("DEL", broker.keys.events)
    if lost == "everything":
        await redis.call("DEL", broker.keys.session(talk.sid))
        await redis.call("DEL", broker.keys.inbound(talk.sid))
        await redis.call("DEL", broker.keys.outbound(talk.sid))
    async with in_process(quickly.model_copy(update={"recorder_adopt_s": 0.4})):
        if lost == "transition":
            await talk.exchange(1)
            await until(lambda: journal_lines(quickly.data_dir, talk) == 6, "it continues")
            await talk.end()
        (meta,) = await until_finished(quickly.data_dir, talk)
    complete, interrupted = RecordingState.COMPLETE, RecordingState.INTERRUPTED
    assert meta.state is (complete if lost == "transition" else interrupted)
    assert meta.chunks == (2 if lost == "transition" else 1)


async def test_a_recorder_that_was_frozen_stops(broker: Broker, quickly: RecorderSettings) -> None:
    """It continues after a takeover: it stops, and entries that both wrote count once."""
    talk = await LiveTalk.begin(broker)
    async with process(quickly) as frozen:
        await until(lambda: journal_lines(quickly.data_dir, talk) == 2, "recorded so far")
        frozen.send_signal(signal.SIGSTOP)
        async with in_process(quickly):
            for seed in range(10):
                await talk.exchange(seed)
            await until(
                lambda: journal_lines(quickly.data_dir, talk) >= 22, "the other has taken over"
            )
            frozen.send_signal(signal.SIGCONT)
            for seed in range(10, 20):
                await talk.exchange(seed)
                await asyncio.sleep(0.05)
            await talk.end()
            await until_finished(quickly.data_dir, talk)
            await until_acknowledged(broker)
            assert frozen.poll() is None
    assert_undisturbed(quickly.data_dir, talk)


async def test_f27_a_recorder_follows_redis_clock(
    broker: Broker, quickly: RecorderSettings
) -> None:
    """It compares its clock with times that others have written."""
    offset = broker.clock.offset_ms
    broker.clock.offset_ms += 3_600_000
    running = asyncio.create_task(Recorder(broker, quickly, RecorderMetrics()).serve())
    await until(lambda: abs(broker.clock.offset_ms - offset) < 60_000, "the clock is right")
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.skipif(not can_fake_time(), reason="needs a clock that can be set")
async def test_f27_only_dead_recorders_lose_their_sessions_when_redis_clock_jumps(
    tmp_path: Path,
) -> None:
    """One recorder lives while the clock jumps ahead. It has died when the clock jumps back."""
    with RedisServer(tmp_path / "redis", can_jump=True) as server:
        settings = quick(BrokerSettings(redis_url=server.url), tmp_path / "data")
        patient = settings.model_copy(update={"recorder_silence_s": 600.0})
        async with open_broker(settings) as broker:
            await join(broker, "adx_1")
            owner = await broker.events.join_group(GROUP, "owner")
            event_ids = [event.id for event in await owner.read()]
            other = Recorder(broker, patient, RecorderMetrics())
            await other.start()
            for ahead_s in (0.0, DAY_S):
                server.set_clock(ahead_s)
                await other._reclaim()
                assert await owner.touch(event_ids) == set()
            server.set_clock(0.0)
            successor = Recorder(broker, settings, RecorderMetrics())
            await successor.start()
            async with asyncio.timeout(PATIENCE_S):
                while await _owners(broker) != {successor.id.encode()}:
                    await successor._reclaim()
            await owner.close()
            await other.stop()
            await successor.stop()


async def test_cancelling_the_task_at_any_await_changes_no_byte(
    broker: Broker, quickly: RecorderSettings
) -> None:
    """Cancelled at random awaits, without an orderly stop."""
    quickly = quickly.model_copy(update={"recorder_silence_s": 0.05})
    (quickly.data_dir / "sessions").mkdir(parents=True)
    rng = random.Random(7)
    talk = await LiveTalk.begin(broker)
    for seed in range(40):
        recorder = Recorder(broker, quickly, RecorderMetrics())
        await recorder.start()
        running = asyncio.create_task(recorder.run())
        await talk.exchange(seed)
        if seed % 4 == 0:
            await until(
                lambda s=seed: journal_lines(quickly.data_dir, talk) > 2 * s,
                "some entries are recorded",
            )  # type: ignore[misc]
        for _ in range(rng.randrange(1, 60)):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await recorder._active.stop()
        await recorder._disconnect()
    assert await unacknowledged(broker) == 1
    await talk.end()
    async with in_process(quickly):
        await until_finished(quickly.data_dir, talk)
    assert_undisturbed(quickly.data_dir, talk)


@pytest.mark.parametrize("held", [True, False])
async def test_a_file_that_is_lost_before_a_restart_costs_nothing_after_it(
    broker: Broker, quickly: RecorderSettings, held: bool
) -> None:
    """Redis may still hold everything since, or only the last entries of a long session."""
    talk = await LiveTalk.begin(broker)
    async with process(quickly) as child:
        for seed in range(8):
            await talk.exchange(seed)
        await until(lambda: journal_lines(quickly.data_dir, talk) == 18, "all is recorded")
        child.kill()
    folder = quickly.data_dir / "sessions" / talk.recording
    (folder / "user_audio" / "001.wav").unlink()
    if not held:
        for key in (broker.keys.inbound(talk.sid), broker.keys.outbound(talk.sid)):
            await broker._redis.call("XTRIM", key, "MAXLEN", 2)
    with capture_logs() as logs:
        async with in_process(quickly):
            await talk.exchange(8)
            await talk.end()
            (meta,) = await until_finished(quickly.data_dir, talk)
    assert (meta.state, meta.chunks, meta.missing) == (RecordingState.COMPLETE, 9, [])
    lost = [line for line in logs if line["event"] == "recording_file_lost"]
    assert len(lost) == (0 if held else 1)
    assert (folder / "user_audio" / "001.wav").exists() is held
    if held:
        assert_undisturbed(quickly.data_dir, talk)
