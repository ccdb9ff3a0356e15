"""Clients that vanish, do not read, send too fast, connect twice, or stop at the worst moment."""

import asyncio
import os
import random
import socket
import struct
from contextlib import AsyncExitStack, suppress
from typing import Any

import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from antiphon.shared_schemas.states import EndReason
from support.edge_harness import base64_audio
from support.fault_stack import SIMULATED
from support.raw_client import Wire, open_path, open_wire
from support.resuming_client import Resumer
from support.stack import Stack
from support.tcp_proxy import tcp_proxy
from support.two_edges import ended, two_edges

MIB = 1024 * 1024
ALWAYS_SPEAKS = SIMULATED[:-1] + ',"speak_ratio":1.0}'
SCALE = int(os.environ.get("FAULTS_SCALE", "1"))
"""Multiplies the number of clients that vanish (96)."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def reset(wire: Wire) -> None:
    """RST instead of FIN; nothing if the connection is closed already."""
    with suppress(OSError):
        opened: socket.socket = wire.socket.transport.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    wire.socket.transport.abort()


async def test_f9_clients_that_vanish_around_their_grant_leave_nothing(stack: Stack) -> None:
    """One slot: most of them wait, and each is reset at a random time around its grant."""
    stack.edge()
    stack.worker(slots=1, engine_options=SIMULATED)
    rng = random.Random(9)

    async def vanish(name: str, after_s: float) -> None:
        async with open_wire(stack.ws_url, name) as wire:
            await asyncio.sleep(after_s)
            reset(wire)

    async def vanish_when_granted(name: str) -> None:
        async with open_wire(stack.ws_url, name) as wire:
            await wire.until("queue_done")
            reset(wire)

    for turn in range(4 * SCALE):
        names = [f"adx_{turn}_{n}" for n in range(24)]
        vanishing = [vanish(name, rng.uniform(0.0, 0.1)) for name in names[::2]]
        granted = [vanish_when_granted(name) for name in names[1::2]]
        await asyncio.gather(*vanishing, *granted)
    async with open_wire(stack.ws_url, "adx_next") as wire:
        await wire.begin()
    await stack.no_session_left()


async def test_f11_a_client_that_does_not_read_costs_little_and_delays_no_other(
    stack: Stack,
) -> None:
    """Each result is five seconds of sound: more than the buffers of the sockets hold."""
    edge = stack.edge(send_stall_s=1.0, input_ahead_s=600.0, input_bytes_per_s=8 * MIB)
    stack.worker(slots=2, engine_options=ALWAYS_SPEAKS, backlog_chunks=1000)
    always = {"force_listen_count": 0}
    async with (
        open_wire(stack.ws_url, "adx_slow") as slow,
        open_wire(stack.ws_url, "adx_good") as good,
    ):
        await slow.begin(config=always)
        await good.begin(config=always)
        before = psutil.Process(edge.process.pid).memory_info().rss
        slow.socket.transport.pause_reading()
        chunk = base64_audio(5 * 16_000)
        for _ in range(30):
            await slow.send(type="audio_chunk", audio=chunk)
        for number in range(1, 6):
            await good.send_second()
            assert (await good.expect("result"))["current_time"] == 1000 * number
        assert await ended(stack, "adx_slow") is EndReason.CLIENT_GONE
        grown = psutil.Process(edge.process.pid).memory_info().rss - before
        assert grown < 64 * MIB
        slow.socket.transport.resume_reading()
        assert await slow.close_code_after_all() == 1013
        await good.send_second()
        await good.expect("result")
    await stack.no_session_left()


@pytest.mark.extended
async def test_f11_a_client_at_a_kilobyte_per_second_is_served_and_delays_no_other(
    stack: Stack,
) -> None:
    stack.edge()
    stack.worker(slots=2, engine_options=SIMULATED)
    async with (
        tcp_proxy(stack.edge_port) as proxy,
        open_wire(f"ws://{proxy.address}", "adx_slow") as slow,
        open_wire(stack.ws_url, "adx_good") as good,
    ):
        proxy.limit(1000.0)
        await asyncio.gather(slow.begin(), good.begin())
        for number in range(1, 6):
            await slow.send(type="audio_chunk", audio=base64_audio(160))
            await good.send_second()
            assert (await good.expect("result"))["current_time"] == 1000 * number
        for number in range(1, 6):
            assert (await slow.expect("result"))["current_time"] == 10 * number
        await slow.send(type="stop")
        await slow.expect("stopped")
    await stack.no_session_left()


async def test_f21_two_sockets_resume_one_session_and_one_of_them_has_it(stack: Stack) -> None:
    edges = two_edges(stack)
    stack.worker(slots=1, engine_options=SIMULATED)
    client = Resumer("/ws/duplex/adx_1")
    async with client.connected(edges.first):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare")
        await client.expect("prepared")
        await client.abort()
    query = f"?resume=1&resume_token={client.token}&seq={client.last}"
    async with AsyncExitStack() as closing:
        wires = [
            await closing.enter_async_context(open_wire(base, "adx_1", query))
            for base in (edges.first, edges.other)
        ]
        closed = [asyncio.create_task(_close_code(wire)) for wire in wires]
        await asyncio.wait(closed, return_when=asyncio.FIRST_COMPLETED, timeout=90)
        assert sorted(task.done() for task in closed) == [False, True]
        loser = next(n for n, task in enumerate(closed) if task.done())
        assert closed[loser].result()[0] in (4409, 4410)
        owner = wires[1 - loser]
        await owner.send_second()
        await owner.send(type="stop")
        code, messages = await closed[1 - loser]
        assert code == 1000
        messages = [m for m in messages if m["type"] != "queue_update"]
        assert [m["type"] for m in messages] == ["resumed", "result", "stopped"]
        assert [m["seq"] - client.last for m in messages] == [0, 16, 32]
    assert await ended(stack, "adx_1") is EndReason.STOPPED


async def _close_code(wire: Wire) -> tuple[int, list[dict[str, Any]]]:
    messages = []
    while True:
        try:
            messages.append(await wire.message())
        except ConnectionClosed:
            assert wire.socket.close_code is not None
            return wire.socket.close_code, messages


async def test_f22_a_stop_at_any_moment_of_an_answer_gives_one_end(stack: Stack) -> None:
    """Stops and disconnects race with the answer, which takes about 100 ms."""
    stack.edge()
    engine = '{"prefill_ms":10,"speak_ms":10,"answer_pieces":10}'
    stack.worker(slots=8, engine_options=engine)
    rng = random.Random(22)

    async def chat(number: int) -> None:
        async with open_path(stack.ws_url, "/ws/chat") as wire:
            await wire.send(messages=[{"role": "user", "content": "Hello"}])
            await wire.until("prefill_done")
            await asyncio.sleep(rng.uniform(0.0, 0.25))
            if number % 4 == 0:
                reset(wire)
                return
            with suppress(ConnectionClosed):
                await wire.send(type="stop")
            code, messages = await _close_code(wire)
            types = [message["type"] for message in messages]
            assert (code, types.count("done"), types[-1]) == (1000, 1, "done")
            assert set(types[:-1]) <= {"chunk"}

    await asyncio.gather(*(chat(number) for number in range(32)))
    await stack.no_session_left()


async def test_f23_limits_that_are_reached_at_once_give_one_end(stack: Stack) -> None:
    """The limit of the session, the silence of its client and a full context, within 0.6 s."""
    two_units = SIMULATED[:-1] + ',"unit_tokens":4096}'
    stack.edge(realtime_audio_s=4.0)
    stack.worker(slots=16, engine_options=two_units, silence_timeout_s=3.9)
    rng = random.Random(23)
    reasons = set()

    async def session() -> None:
        async with open_path(stack.ws_url, "/v1/realtime?mode=audio") as wire:
            await wire.until("session.queue_done")
            await wire.send(type="session.update", session={"instructions": "Be brief."})
            await wire.until("session.created")
            await asyncio.sleep(rng.uniform(3.3, 3.9))
            with suppress(ConnectionClosed):
                for _ in range(4):
                    await wire.send(type="input_audio_buffer.append", audio=base64_audio(16_000))
            code, messages = await _close_code(wire)
            types = [message["type"] for message in messages]
            assert (code, types.count("session.closed"), types[-1]) == (1000, 1, "session.closed")
            reasons.add(messages[-1]["reason"])

    await asyncio.gather(*(session() for _ in range(16)))
    assert reasons <= {"timeout", "context_full"}
    await stack.no_session_left()
