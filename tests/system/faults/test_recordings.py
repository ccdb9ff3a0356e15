"""Recorders, as processes, while clocks jump and disks or recorders fail; the test is edge and worker."""

from __future__ import annotations

import asyncio
import base64
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import orjson
import pytest

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.recording import REPLAY_WAV, Meta, RecordingState
from antiphon.shared_schemas.states import SessionKind
from support.fault_stack import SIMULATED, FaultStack, Talker, fault_stack, talkers
from support.recorder_conversations import LiveTalk, chunk, meta_of, result, until_finished
from support.recorder_process import QUICK, process, quick
from support.redis_server import RedisServer, can_fake_time, free_port
from support.resuming_client import Resumer
from support.stack import Service, Stack, until
from support.turn_conversations import chat_talk, half_duplex_talk

HOUR_MS = 3_600_000.0
DAY_S = 86_400.0
CHAT = orjson.dumps({"messages": [{"role": "user", "content": "Hello"}]}).decode()
CHAT_MESSAGES = ("queue_update", "queue_done", "prefill_done", "chunk")
SECOND = base64.b64encode(bytes(4 * INPUT_RATE)).decode()


@pytest.fixture
def quickly(settings: BrokerSettings, tmp_path: Path) -> RecorderSettings:
    return quick(settings, tmp_path / "data")


@asynccontextmanager
async def _two_writers(
    broker: Broker, settings: BrokerSettings, kind: SessionKind
) -> AsyncIterator[tuple[LiveTalk, Broker]]:
    """A session whose edge writes with the clock of `broker`, and whose worker has another one."""
    async with open_broker(settings) as worker:
        talk = await LiveTalk.assigned(broker, kind=kind)
        assert talk.claim is not None
        epoch = talk.claim.epoch
        talk.out = await worker.streams.output_writer(talk.sid, talk.ticket, epoch)
        yield talk, worker


def _jump(broker: Broker, ms: float) -> None:
    """What the next synchronization of a process does after Redis' clock has jumped."""
    broker.clock.offset_ms += ms


async def _unit(talk: LiveTalk, seed: int) -> None:
    position = await talk.into.append(chunk(seed, n=8000))
    await talk.out.append(result(position.n, speak=seed % 2 == 0, end_of_turn=seed % 2 == 0))


async def test_f27_redis_clock_jumps_and_back(
    broker: Broker, settings: BrokerSettings, quickly: RecorderSettings
) -> None:
    """The edge notices each jump before the worker does. The sessions end with the true clock."""
    talks = []
    async with process(quickly):
        for kind in SessionKind:
            for step in (HOUR_MS, -100_000.0):
                async with _two_writers(broker, settings, kind) as (talk, worker):
                    talks.append(talk)
                    part = _duplex_part if kind.is_duplex else _turns_part
                    await part(talk, broker, worker, step)
                    await part(talk, broker, worker, -step)
                    await talk.end()
        metas = await until_finished(quickly.data_dir, *talks)
    assert [meta.app_type for meta in metas] == [talk.kind for talk in talks]
    for meta in metas:
        _assert_bounded(quickly.data_dir, meta)


@pytest.mark.skipif(not can_fake_time(), reason="needs a clock that can be set")
async def test_f27_the_clock_of_redis_jumps_below_a_whole_stack(tmp_path: Path) -> None:
    """A day ahead, two days back, and a day ahead.

    At each jump, one client talks, another one has just lost its connection, a half-duplex client is
    silent, and a chat waits for a worker. A session begins before it and ends after it.
    """
    with RedisServer(tmp_path / "redis", can_jump=True) as redis:
        stack = Stack(tmp_path, redis)
        try:
            edge = stack.edge()
            stack.worker(slots=4, engine_options=SIMULATED)
            for _ in range(2):
                stack.recorder(**QUICK | {"recorder_silence_s": 10.0})
            faults = FaultStack(stack, AsyncExitStack())
            began = time.monotonic()
            cut, turns = Resumer("/ws/duplex/adx_cut"), Resumer("/ws/half_duplex/hdx_1")
            async with talkers(faults, 1) as (steady,), turns.connected(stack.ws_url):
                await _prepare(turns)
                async with cut.connected(stack.ws_url):
                    await _prepare(cut)
                for number, ahead_s in enumerate((DAY_S, -DAY_S, 0.0), start=1):
                    chat = Resumer("/ws/chat")
                    async with talkers(faults, 1, first=number) as (client,):
                        await client.talk(1)
                        async with chat.connected(stack.ws_url):
                            await chat.socket.send(CHAT)
                            await chat.expect("queued")
                            await until(lambda n=number: _detached(edge, "adx_cut") == n)
                            redis.set_clock(ahead_s)
                            async with cut.back(stack.ws_url):
                                await cut.send("audio_chunk", audio=SECOND)
                                await cut.expect("result", skip=("queue_update", "queue_done"))
                            await steady.talk(2)
                            await client.talk(1)
                            await _stop(client)
                            await chat.expect("done", skip=CHAT_MESSAGES)
                            assert (await chat.closed())[0] == 1000
                async with cut.back(stack.ws_url):
                    await cut.send("stop")
                    await cut.expect("stopped", skip=("queue_update",))
                await turns.send("stop")
                await turns.expect("stopped", skip=("queue_update",))
                await _stop(steady)
            lasted = time.monotonic() - began
            metas = await _complete(stack, 9)
        finally:
            await asyncio.to_thread(stack.close)
    assert stack.tracebacks() == []
    for meta in metas:
        assert meta.missing == []
        assert meta.duration_s is not None
        assert 0 < meta.duration_s < lasted + 60


def _detached(edge: Service, sid: str) -> int:
    """How often the client of this session has left and may resume."""
    lines = edge.log.splitlines()
    return sum('"session_detached"' in line and f'"{sid}"' in line for line in lines)


async def _prepare(client: Resumer) -> None:
    await client.expect("queue_done", skip=("queued", "queue_update"))
    await client.send("prepare", config={})
    await client.expect("prepared", skip=("queue_update",))


async def _stop(client: Talker) -> None:
    client.check()
    await client.wire.send(type="stop")
    await client.wire.until("stopped")


async def _complete(stack: Stack, count: int) -> list[Meta]:
    """The recordings, once so many are complete."""

    def found() -> list[Meta]:
        folders = stack.data_dir.glob("sessions/[!.]*")
        metas = [meta_of(stack.data_dir, folder.name) for folder in folders]
        return [meta for meta in metas if meta and meta.state is RecordingState.COMPLETE]

    await until(lambda: len(found()) == count, within_s=90)
    return found()


async def _duplex_part(talk: LiveTalk, edge: Broker, worker: Broker, step: float) -> None:
    if talk.into.last.n == 0:
        await talk.prepare()
    await _unit(talk, 0)
    _jump(edge, step)
    for seed in range(1, 4):
        await _unit(talk, seed)
    _jump(worker, step)
    for seed in range(4, 6):
        await _unit(talk, seed)


async def _turns_part(talk: LiveTalk, edge: Broker, worker: Broker, step: float) -> None:
    """The first jump comes in the first half of the talk, the second one in the second half."""
    entries = chat_talk() if talk.kind is SessionKind.CHAT else half_duplex_talk()
    begun = talk.into.last.n > 0
    half = len(entries) // 2
    for place, entry in enumerate(entries[half:] if begun else entries[:half]):
        if place == 1:
            _jump(edge, step)
        if place == 3:
            _jump(worker, step)
        await talk.say([entry])


def _assert_bounded(data_dir: Path, meta: Meta) -> None:
    """All of it took less than half a minute; 12 units hold 6 s of the user's sound."""
    assert meta.state is RecordingState.COMPLETE
    assert meta.duration_s is not None
    assert 0 < meta.duration_s < 30
    assert meta.ended_at is not None
    lasted = meta.ended_at - meta.created_at
    assert abs(lasted - timedelta(seconds=meta.duration_s)) <= timedelta(milliseconds=1)
    assert meta.merged_replay == REPLAY_WAV
    replay = data_dir / "sessions" / meta.recording_id / REPLAY_WAV
    assert replay.stat().st_size < 30 * 4 * 24_000


async def _health(port: int) -> dict[str, object]:
    """Of the recorder; {} while it starts."""
    async with httpx.AsyncClient() as http:
        try:
            reply = await http.get(f"http://127.0.0.1:{port}/health")
        except httpx.TransportError:
            return {}
    assert reply.status_code == 200
    health: dict[str, object] = reply.json()
    return health


async def test_f26_a_disk_that_is_not_writable_when_the_recorder_starts(stack: Stack) -> None:
    """A file is where a folder must be, which refuses root, too."""
    obstacle = stack.folder / "volume"
    obstacle.write_bytes(b"")
    data_dir, port = obstacle / "data", free_port()
    recorder = stack.recorder(**QUICK | {"recorder_health_port": port}, data_dir=data_dir)

    async def is_degraded() -> bool:
        return (await _health(port)).get("status") == "degraded"

    async def is_healthy() -> bool:
        return (await _health(port)).get("status") == "healthy"

    await until(is_degraded)
    assert (await _health(port))["disk_error"] == "Not a directory"
    assert "recorder_degraded" in recorder.log
    async with open_broker(stack.settings) as broker:
        talk = await LiveTalk.begin(broker)
        await _unit(talk, 0)
        await until(lambda: "recording_degraded" in recorder.log)
        obstacle.unlink()
        await _unit(talk, 1)
        await talk.end()
        (meta,) = await until_finished(data_dir, talk)
        await until(is_healthy)
    assert meta.state is RecordingState.COMPLETE
    assert meta.chunks == 2
    assert [outage.error for outage in meta.degraded] == ["Not a directory"]
    assert "recorder_disk_writable" in recorder.log
    assert recorder.stop() == 0


@asynccontextmanager
async def _conversation(folder: Path) -> AsyncIterator[tuple[FaultStack, Service, Talker]]:
    """A client in the middle of a conversation that is recorded."""
    async with fault_stack(folder) as faults:
        await faults.edge()
        await faults.worker(slots=1)
        recorder = await faults.recorder(**QUICK)
        async with talkers(faults, 1) as (talker,):
            await talker.talk(3)
            await until(lambda: len(_sounds(faults)) == 3)
            yield faults, recorder, talker


def _sounds(faults: FaultStack) -> list[Path]:
    """The chunks on disk."""
    return sorted(faults.stack.data_dir.glob("sessions/[!.]*/user_audio/*.wav"))


async def _finished(faults: FaultStack, talker: Talker) -> Meta:
    """Stops the conversation, none of whose results was lost; returns the recording's meta."""
    talker.check()
    await talker.wire.send(type="stop")
    await talker.wire.until("stopped")
    (folder,) = faults.stack.data_dir.glob("sessions/[!.]*")

    def meta() -> Meta | None:
        found = meta_of(faults.stack.data_dir, folder.name)
        return None if found is None or found.is_busy else found

    await until(meta)
    found = meta()
    assert found is not None
    assert (found.state, found.missing) == (RecordingState.COMPLETE, [])
    assert found.chunks == len(talker.results) == len(_sounds(faults))
    assert found.merged_replay == REPLAY_WAV
    return found


async def test_f26_a_full_disk_delays_only_the_recording(tmp_path: Path) -> None:
    async with _conversation(tmp_path) as (faults, recorder, talker):
        _, unlimited = resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE, (1000, unlimited))
        await talker.talk(4)
        await until(lambda: "recording_degraded" in recorder.log)
        await talker.talk(1)
        assert len(_sounds(faults)) == 3
        resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        meta = await _finished(faults, talker)
    (outage,) = meta.degraded
    assert outage.error == "File too large"
    (chunks,) = (late for late in outage.late if late.stream == "in")
    assert (chunks.first_chunk, chunks.last_chunk) == (3, 7)


async def test_f26_a_recorder_that_may_open_no_more_files_delays_only_the_recording(
    tmp_path: Path,
) -> None:
    async with _conversation(tmp_path) as (faults, recorder, talker):
        pid = recorder.process.pid
        most, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
        await talker.talk(4)
        await until(lambda: "recording_degraded" in recorder.log)
        assert len(_sounds(faults)) == 3
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
        meta = await _finished(faults, talker)
    (outage,) = meta.degraded
    assert outage.error == "Too many open files"


async def test_f26_a_killed_recorder_is_replaced(tmp_path: Path) -> None:
    async with _conversation(tmp_path) as (faults, recorder, talker):
        recorder.kill()
        await talker.talk(4)
        assert len(_sounds(faults)) == 3
        await faults.recorder("second", **QUICK)
        await _finished(faults, talker)


async def test_f26_a_slow_recorder_catches_up(tmp_path: Path) -> None:
    async with _conversation(tmp_path) as (faults, recorder, talker):
        recorder.freeze()
        await talker.talk(10)
        assert len(_sounds(faults)) == 3
        recorder.thaw()
        await _finished(faults, talker)


async def test_f26_a_session_that_ends_without_a_recorder_is_recorded_later(tmp_path: Path) -> None:
    async with _conversation(tmp_path) as (faults, recorder, talker):
        recorder.kill()
        await talker.talk(1)
        talker.check()
        await talker.wire.send(type="stop")
        await talker.wire.until("stopped")
        await faults.no_slot_leaked()
        await faults.recorder("second", **QUICK)
        (folder,) = faults.stack.data_dir.glob("sessions/[!.]*")
        await until(lambda: (folder / REPLAY_WAV).exists())


async def test_f26_cleanup_keeps_an_active_session(tmp_path: Path) -> None:
    async with _conversation(tmp_path) as (faults, _, talker):
        cleanup = faults.stack.start("cleanup_job", max_storage_gb=0, retention_days=0)
        await until(lambda: "cleanup_swept" in cleanup.log)
        await talker.talk(1)
        await _finished(faults, talker)
