"""Loads one edge process: N sessions that send a second of audio a second and get one back.

    python bench/edge_load.py --sessions 100 --seconds 15 --form text

It is `antiphon bench` without an engine. Three processes run beside the edge: redis-server without
persistence, a peer that takes the place of the worker and answers each chunk at once with a second of
speech, and this process with the clients. The latency is from the due time of a chunk to its whole
result, so it includes the time of the peer and of the client. The bytes are those of the WebSocket
messages, without the header of 6 to 14 bytes of each frame.
"""

import argparse
import asyncio
import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import soxr
import uvloop
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.service.listening import free_port
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.commands.bench import client_options
from antiphon.cli.common import BUNDLED_QUESTION
from antiphon.cli.load.plan import AudioTransport, LoadPlan, UserKind
from antiphon.cli.load.report import report_of
from antiphon.cli.load.run import run_load
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.stack.processes import huge_pages
from antiphon.cli.stack.usage import ProcessUsage, with_generator
from antiphon.client.sound import load_wav
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    PcmFormat,
    Samples,
    float_bytes,
    to_pcm16,
)
from antiphon.shared_schemas.entries import (
    ChunkIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    StreamPosition,
)
from antiphon.shared_schemas.registry import Claim, WorkerReport
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState
from antiphon.shared_schemas.unit_result import UnitResult
from antiphon.shared_schemas.wire import BINARY_PROTOCOL, MediaBytes, to_frame, to_text
from processes import ROOT, private_redis, process, wait_for

PEER = "bench-peer"
KINDS = frozenset({SessionKind.AUDIO_DUPLEX})


def recording(rate: int) -> Samples:
    """The bundled question at `rate` Hz. Real speech, because the cost of compression depends on the sound."""
    speech: Samples = soxr.resample(load_wav(BUNDLED_QUESTION), INPUT_RATE, rate)
    return speech


async def run_peer(settings: BrokerSettings, slots: int) -> None:
    """Claim all sessions and answer every chunk at once, until killed."""
    async with open_broker(settings) as broker, asyncio.TaskGroup() as tasks:
        held: dict[str, int] = {}
        await _beat(broker, slots)
        tasks.create_task(_keep_up(broker, slots, held))
        while True:
            claim = await broker.leases.claim(PEER)
            if claim is None:
                await asyncio.sleep(0.02)
            else:
                held[claim.sid] = claim.epoch
                tasks.create_task(_serve(broker, claim, held))


async def _keep_up(broker: Broker, slots: int, held: dict[str, int]) -> None:
    while True:
        await asyncio.sleep(1.0)
        await _beat(broker, slots)
        for sid in await broker.leases.renew(PEER, held):
            held.pop(sid, None)


async def _beat(broker: Broker, slots: int) -> None:
    report = WorkerReport(
        engine=PEER,
        model="none",
        kinds=KINDS,
        slots=slots,
        state=WorkerState.DUPLEX_ACTIVE,
        device="cpu",
        address="",
        open=True,
    )
    await broker.registry.worker_beat(PEER, report)


SPEECH = UnitResult(
    is_listen=False,
    text="one second of speech",
    audio=recording(OUTPUT_RATE)[:OUTPUT_RATE],
    n_tokens=12,
)


async def _serve(broker: Broker, claim: Claim, held: dict[str, int]) -> None:
    writer = await broker.streams.output_writer(claim.sid, claim.ticket, claim.epoch)
    start, received_ms = StreamPosition.before(claim.ticket), 0
    async with broker.reader.subscribe(broker.keys.inbound(claim.sid), start) as inputs:
        async for position, entry in inputs:
            match entry:
                case PrepareIn():
                    await broker.leases.move(claim.sid, PEER, claim.epoch, SessionState.PREPARING)
                    await writer.append(PreparedOut(input_n=position.n, prompt_length=1))
                    await broker.leases.move(claim.sid, PEER, claim.epoch, SessionState.ACTIVE)
                case ChunkIn(at=at):
                    read_at = broker.clock.now_ms()
                    received_ms += 1000
                    await writer.append(answer(position.n, received_ms, at, read_at))
                case StopIn():
                    await writer.append(StoppedOut())
                    break
    held.pop(claim.sid, None)
    await broker.sessions.end(claim.sid, EndReason.STOPPED, ticket=claim.ticket)


def answer(n: int, received_ms: int, received_at: float, read_at: float) -> ResultOut:
    """A second of speech for chunk `n`."""
    return ResultOut.of(
        replace(SPEECH, current_time=received_ms),
        input_n=n,
        received_at=received_at,
        read_at=read_at,
        prefill_ms=0.0,
        wall_clock_ms=0.0,
    )


async def message_sizes(url: str, form: AudioTransport) -> dict[str, int]:
    """Bytes of one chunk's message and of its result's, on a separate connection."""
    sound = recording(INPUT_RATE)[:INPUT_RATE]
    query, subprotocols = "", None
    chunk: str | bytes = to_text({"type": "audio_chunk", "audio": MediaBytes(float_bytes(sound))})
    if form is not AudioTransport.TEXT:
        pcm = PcmFormat(form)
        data = float_bytes(sound) if pcm is PcmFormat.F32 else to_pcm16(sound).tobytes()
        chunk = to_frame({"type": "audio_chunk", "audio": MediaBytes(data, pcm)})
        query, subprotocols = f"?pcm={pcm}", [Subprotocol(BINARY_PROTOCOL)]
    address = f"{url}/ws/duplex/adx_sizes{query}"
    async with connect(address, compression=None, max_size=None, subprotocols=subprotocols) as link:
        for request, answer in (
            (None, '"queue_done"'),
            ('{"type":"prepare"}', '"prepared"'),
            (chunk, '"result"'),
        ):
            if request is not None:
                await link.send(request)
            while answer.encode() not in (message := await link.recv(decode=False))[:60]:
                pass
        await link.send('{"type":"stop"}')
    return {"bytes_up_per_chunk": len(chunk), "bytes_down_per_result": len(message)}


async def measure(url: str, plan: LoadPlan, pids: dict[str, int]) -> dict[str, Any]:
    """The load, with the CPU time of the edge and of Redis."""
    inputs = LoadInputs.of([recording(INPUT_RATE)], plan.speak_ratio)
    measured = with_generator(pids)
    how = client_options(plan.form)
    result = await run_load(url, how, plan, inputs, lambda: ProcessUsage.of(measured))
    sizes = await message_sizes(url, plan.form)
    return report_of(result, {"engine": PEER, **sizes})


def load_plan(
    sessions: int, seconds: float, form: AudioTransport = AudioTransport.TEXT
) -> LoadPlan:
    """All users speak all the time, and each second is answered with a second of speech."""
    return LoadPlan(
        kinds=(UserKind.AUDIO,), sessions=sessions, seconds=seconds, speak_ratio=1.0, form=form
    )


def run_edge(plan: LoadPlan) -> dict[str, Any]:
    """Start the processes, measure, and stop them."""
    with private_redis() as (redis_url, redis_pid):
        return run_edge_with(redis_url, {"redis": redis_pid}, plan)


def run_edge_with(redis_url: str, redis_pids: dict[str, int], plan: LoadPlan) -> dict[str, Any]:
    """Measure an edge with a Redis that runs."""
    port = free_port()
    with ExitStack() as stack:
        edge_pid = stack.enter_context(
            process(
                *(sys.executable, "-m", "antiphon.edge"),
                folder=ROOT,
                ANTIPHON_REDIS_URL=redis_url,
                ANTIPHON_PORT=str(port),
                ANTIPHON_DRAIN_S="0",
                **huge_pages(),
            )
        )
        peer = (sys.executable, __file__, "--peer", redis_url, "--sessions", str(plan.sessions))
        stack.enter_context(process(*peer, PYTHONPATH=str(ROOT)))
        wait_for(f"http://127.0.0.1:{port}/health")
        pids = {"edge": edge_pid, **redis_pids}
        return uvloop.run(measure(f"ws://127.0.0.1:{port}", plan, pids))


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument(
        "--form", choices=list(AudioTransport), type=AudioTransport, default=AudioTransport.TEXT
    )
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        uvloop.run(run_peer(BrokerSettings(redis_url=options.peer), options.sessions))
        return
    plan = load_plan(options.sessions, options.seconds, options.form)
    print(json.dumps(run_edge(plan), indent=2))


if __name__ == "__main__":
    main()
