"""Recorders, as processes, while clocks jump and disks or recorders fail; the test is edge and worker."""

import asyncio
import base64
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import orjson
import pytest

from antiphon.broker.client import open_broker
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.recording import REPLAY_WAV, Meta, RecordingState
from support.fault_stack import SIMULATED, FaultStack, Talker, fault_stack, talkers
from support.ports import free_port
from support.recorder_conversations import LiveTalk, chunk, meta_of, result, until_finished
from support.recorder_process import QUICK
from support.redis_server import RedisServer, can_fake_time
from support.resuming_client import Resumer
from support.stack import Service, Stack, until

DAY_S = 86_400.0
CHAT = orjson.dumps({"messages": [{"role": "user", "content": "Hello"}]}).decode()
CHAT_MESSAGES = ("queue_update", "queue_done", "prefill_done", "chunk")
FULL_BYTES = 16_000
"""Less than a second of sound, and more than the recorder logs."""
SECOND = base64.b64encode(bytes(4 * INPUT_RATE)).decode()


async def _unit(talk: LiveTalk, seed: int) -> None:
    position = await talk.into.append(chunk(seed, n=8000))
    await talk.out.append(result(position.n, speak=seed % 2 == 0, end_of_turn=seed % 2 == 0))


@pytest.mark.extended
@pytest.mark.skipif(not can_fake_time(), reason="needs a clock that can be set")
async def test_f27_the_clock_of_redis_jumps_below_a_whole_stack(tmp_path: Path) -> None:
    """A day ahead, two days back, and a day ahead.

    At each jump, one client talks, another one has just lost its connection, a half-duplex client is
    silent, and a chat waits for a worker. A session begins before it and ends after it.
    """
    with RedisServer(tmp_path / "redis", can_jump=True) as redis:
        stack = Stack(tmp_path, redis)
        stack.environment["ANTIPHON_RESUME_GRACE_S"] = "300"  # a busy machine is long away
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
                            assert await chat.close_code() == 1000
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
        limits = (FULL_BYTES, unlimited)
        resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE, limits)
        await talker.talk(4)
        await until(lambda: "recording_degraded" in recorder.log)
        await talker.talk(1)
        assert len(_sounds(faults)) == 3
        resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        meta = await _finished(faults, talker)
    # A short file may still be written between two attempts: then there are two outages.
    assert {outage.error for outage in meta.degraded} == {"File too large"}
    chunks = [late for outage in meta.degraded for late in outage.late if late.stream == "in"]
    assert (chunks[0].first_chunk, chunks[-1].last_chunk) == (3, 7)


async def test_f26_a_killed_recorder_is_replaced(tmp_path: Path) -> None:
    async with _conversation(tmp_path) as (faults, recorder, talker):
        recorder.kill()
        await talker.talk(4)
        assert len(_sounds(faults)) == 3
        await faults.recorder("second", **QUICK)
        await _finished(faults, talker)


@pytest.mark.extended
async def test_f26_cleanup_keeps_an_active_session(tmp_path: Path) -> None:
    async with _conversation(tmp_path) as (faults, _, talker):
        cleanup = faults.stack.start("cleanup_job", max_storage_gb=0, retention_days=0)
        await until(lambda: "cleanup_swept" in cleanup.log)
        await talker.talk(1)
        await _finished(faults, talker)
