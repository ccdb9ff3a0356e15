"""A long conversation takes no more of Redis than its newest part, and loses nothing."""

import asyncio
from pathlib import Path

import numpy as np
import orjson
import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.edge.protocols.duplex import DuplexMachine
from antiphon.edge.protocols.machine import Send
from antiphon.edge.session.resume import first_seq, load_missed_messages
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    ChunkIn,
    HalfDuplexPrepareIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    StreamPosition,
)
from antiphon.shared_schemas.states import EndReason, SessionKind
from antiphon.shared_schemas.unit_result import UnitResult
from support.edge_harness import base64_audio, running_edge
from support.recorder_conversations import read_wav
from support.recorder_process import in_process, quick
from support.resuming_client import Resumer
from support.stack import until
from support.worker_harness import SID, StreamClient, running_worker, stream_client

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]

LENGTH_S = 400
LOST_AT_S = 320
"""The second at which the first worker is lost."""

BOUND = 10 * 2**20
"""Bytes of a session in Redis. All of it has 20 MB."""

KEPT = {"stream_kept_s": 0.1}
"""Seconds of this test are a hundred times as fast."""


def level(second: int) -> float:
    """The sound of a second tells which one it is."""
    return second / 2**15


SHORT = INPUT_RATE // 4
"""Samples of a piece that most tests send in place of a second: trimming counts entries.

Redis trims whole nodes of 4096 bytes, so an entry must be larger.
"""


def chunk(second: int, size: int) -> ChunkIn:
    samples = np.full(size, level(second), dtype=np.float32)
    return ChunkIn(audio=to_pcm16(samples).tobytes(), pcm=PcmFormat.S16)


def speaks_sometimes(unit: int) -> UnitResult:
    """Every fifth unit speaks for a second."""
    if unit % 5:
        return UnitResult(is_listen=True, memo={"unit": unit})
    audio = np.full(OUTPUT_RATE, level(unit), dtype=np.float32)
    return UnitResult(is_listen=False, text=f"unit {unit}", audio=audio, memo={"unit": unit})


@pytest.fixture
def settings(settings: BrokerSettings) -> BrokerSettings:
    """A busy machine may hold up the only event loop for longer than a lease."""
    return settings.model_copy(update={"lease_s": 120.0, "heartbeat_ttl_s": 900.0})


async def bytes_of(raw: Redis, broker: Broker) -> int:
    usages = [await raw.memory_usage(key, samples=0) for key in broker.keys.streams(SID)]
    return sum(usage or 0 for usage in usages)


async def until_progress(broker: Broker, ticket: int, second: int) -> None:
    """A busy machine must not let the recorder fall behind as no recorder does in real time."""
    async with asyncio.timeout(120):
        while True:
            progress = await broker.recorder_progress.load(ticket)
            if progress and StreamPosition.parse(progress["out"]).n > second:
                return
            await asyncio.sleep(0.02)


class Talk:
    """A client that sends one second, or a short piece in its place, after the other."""

    def __init__(self, broker: Broker, raw: Redis, client: StreamClient, size: int = SHORT) -> None:
        self._size = size
        self.most = 0
        self.recorded = False
        self._broker = broker
        self._raw = raw
        self._client = client

    async def prepare(self, config: DuplexConfig) -> None:
        await self._client.send(PrepareIn(system_prompt="Listen.", config=config))
        await self._client.expect(PreparedOut)

    async def seconds(self, seconds: range) -> None:
        for second in seconds:
            await self._client.send(chunk(second, self._size))
            result = await self._client.expect(ResultOut)
            assert (result.input_n, result.memo) == (second + 1, {"unit": second})
            if second % 50 == 0:
                self.most = max(self.most, await bytes_of(self._raw, self._broker))
                if self.recorded:
                    await until_progress(self._broker, self._client.ticket, second - 50)


async def test_f1_a_long_session_is_recovered_resumed_and_recorded_from_bounded_memory(
    broker: Broker, settings: BrokerSettings, raw: Redis, tmp_path: Path
) -> None:
    """The first worker is lost near the end, and the client resumes at the end, far behind."""
    async with in_process(quick(settings, tmp_path)), stream_client(broker) as client:
        talk = Talk(broker, raw, client, INPUT_RATE)
        talk.recorded = True
        async with running_worker(broker, settings, speaks_sometimes, "w1", **KEPT):
            await talk.prepare(DuplexConfig())
            await talk.seconds(range(1, LOST_AT_S + 1))
        await broker.registry.worker_gone("w1")
        async with running_worker(broker, settings, speaks_sometimes, "w2", **KEPT) as second:
            await talk.seconds(range(LOST_AT_S + 1, LENGTH_S + 1))
            units, before = second.view.replayed, range(1, LOST_AT_S + 1)
            assert [unit.memo for unit in units] == [{"unit": n} for n in before]
            levels = [float(unit.audio[0]) for unit in units if unit.audio is not None]
            assert np.allclose(levels, [level(n) for n in before], atol=2**-15)

            numbers = [first_seq(StreamPosition(client.ticket, 2, n)) for n in range(LENGTH_S + 2)]
            last = LENGTH_S - 36
            missed = await load_missed_messages(broker, SID, client.ticket, 2, numbers[last])
            sent = missed.actions(DuplexMachine(SID, "r"))
            wires = [action.message.wire() async for action in sent if isinstance(action, Send)]
            assert [wire["seq"] for wire in wires] == numbers[last + 1 :]
            spoken = [wire["text"] for wire in wires if not wire["is_listen"]]
            assert spoken == [f"unit {n}" for n in range(last, LENGTH_S + 1) if n % 5 == 0]

            await missed.inputs.append(StopIn())
            await client.expect(StoppedOut)
            assert (await client.ended()).reason is EndReason.STOPPED
        folder = tmp_path / "sessions" / "r"
        await until((folder / "recording.json").exists, within_s=120)
    assert 0 < talk.most < BOUND
    chunks = orjson.loads((folder / "recording.json").read_bytes())["chunks"]
    assert len(chunks) == LENGTH_S
    for number, recorded in enumerate(chunks, start=1):
        rate, samples = read_wav(folder / recorded["user_audio"])
        assert (rate, len(samples)) == (INPUT_RATE, INPUT_RATE)
        assert (samples == round(level(number) * 32767)).all()
        assert recorded["result"].get("text", "") == speaks_sometimes(number).text, recorded


async def test_what_is_not_recorded_yet_is_kept(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    inputs, outputs = broker.keys.inbound(SID), broker.keys.outbound(SID)
    async with (
        stream_client(broker) as client,
        running_worker(broker, settings, speaks_sometimes, **KEPT),
    ):
        talk = Talk(broker, raw, client)
        await talk.prepare(DuplexConfig())
        await talk.seconds(range(1, 151))
        assert await raw.xlen(inputs) == await raw.xlen(outputs) == 151
        recorded = StreamPosition(client.ticket, 1, 30).id()
        progress = {"in": recorded, "out": recorded, "at": 1}
        await broker.recorder_progress.save({client.ticket: progress})
        await talk.seconds(range(151, 171))
        for key in (inputs, outputs):
            (oldest, _), *_ = await raw.xrange(key, count=1)
            assert oldest.decode() == recorded


async def test_a_session_without_consent_waits_for_no_recorder(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    async with (
        stream_client(broker) as client,
        running_worker(broker, settings, speaks_sometimes, **KEPT),
    ):
        talk = Talk(broker, raw, client)
        await talk.prepare(DuplexConfig(record=False))
        seconds = iter(range(1, 10_000))
        while await raw.xlen(broker.keys.inbound(SID)) == next(seconds):
            await talk.seconds(range(client.writer.last.n, client.writer.last.n + 1))


async def test_silence_between_turns_is_trimmed(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    content, blobs = flatten([ConversationMessage(Role.SYSTEM, (TextPart("Be brief."),))])
    config = HalfDuplexConfig(record=False)
    async with (
        stream_client(broker, SessionKind.HALF_DUPLEX) as client,
        running_worker(broker, settings, **KEPT),
    ):
        await client.send(HalfDuplexPrepareIn(content=content, blobs=blobs, config=config))
        await client.expect(PreparedOut)
        sent = 1
        while await raw.xlen(broker.keys.inbound(SID)) == sent:
            await client.send(ChunkIn(audio=bytes(3200), pcm=PcmFormat.S16))
            sent += 1


async def test_a_client_resumes_behind_the_trimmed_part(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    outputs = broker.keys.outbound(SID)
    client, audio = Resumer(f"/ws/duplex/{SID}"), base64_audio(SHORT)
    limits = dict.fromkeys(("input_ahead_s", "input_messages_per_s", "input_bytes_per_s"), 10**9)
    async with (
        running_edge(settings, **limits) as edge,
        running_worker(broker, settings, speaks_sometimes, **KEPT),
    ):
        async with client.connected(edge.ws):
            await client.expect("queue_done", skip=("queued", "queue_update"))
            await client.send("prepare", record=False)
            prepared = await client.expect("prepared")
            while (await raw.xrange(outputs, count=1))[0][0].endswith(b"-1"):
                await client.send("audio_chunk", audio=audio)
                await client.expect("result")
            await client.abort()
        async with client.back(edge.ws, seq=sorted(client.received)[-21]):
            for _ in range(20):
                await client.expect("result")
        query = {"resume": 1, "resume_token": client.token, "seq": prepared["seq"]}
        async with client._open(client._url(edge.ws, **query)):
            assert await client.close_code() == 4410
            assert client.socket.close_reason == "resume_expired"
