"""Requests of a client session that overlap with others, with errors, with unread results and with the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from antiphon.client import session as sessions
from antiphon.client.duplex import DuplexSession, Unit
from antiphon.client.errors import ServerError, SessionOver, UnreadableMessage
from support.scripted_server import SPOKEN, Wire, speaking, talking_to

SECOND = np.zeros(16_000, dtype=np.float32)


async def send_endlessly(session: DuplexSession) -> None:
    while True:
        await session.send_audio(SECOND)


async def read_all(units: AsyncIterator[Unit]) -> None:
    async for _ in units:
        pass


async def test_two_equal_requests_share_the_answer() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.finish()

    async with asyncio.timeout(60), talking_to(script) as session:
        await session.prepare()
        first, second = await asyncio.gather(session.stop(), session.stop())
        assert first == second


async def test_other_requests_for_the_same_answer_are_sent_in_turn() -> None:
    asked: list[float] = []

    async def script(wire: Wire) -> None:
        await wire.begin()
        for _ in range(2):
            asked.append((await wire.expect("pause"))["timeout"])
            await wire.send("paused", timeout=asked[-1])
        await wire.finish()

    async with asyncio.timeout(60), talking_to(script) as session:
        await session.prepare()
        await asyncio.gather(session.pause(1.0), session.pause(2.0))
        await session.stop()
    assert asked == [1.0, 2.0]


async def test_a_request_goes_on_when_the_same_one_is_cancelled() -> None:
    answers = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("stop")
        await answers.wait()
        await wire.send("stopped", session_id="s")
        await wire.next()

    async with asyncio.timeout(60), talking_to(script) as session:
        await session.prepare()
        first = asyncio.create_task(session.stop())
        second = asyncio.create_task(session.stop())
        await asyncio.sleep(0)
        first.cancel()
        answers.set()
        assert (await second).type == "stopped"


async def test_an_error_about_another_message_is_no_answer_to_a_request() -> None:
    text = "audio_chunk: not allowed while the session waits"

    async def script(wire: Wire) -> None:
        await wire.send("queue_done")
        await wire.expect("audio_chunk")
        await wire.expect("prepare")
        await wire.send("error", error=text, message=text, code="not_ready")
        await wire.send("prepared", prompt_length=12, recording_session_id="rec1")
        await wire.finish()

    async with asyncio.timeout(60), talking_to(script) as session:
        await session.send_audio(SECOND)
        await session.prepare()
        assert session.recording_id == "rec1"
        with pytest.raises(ServerError, match="audio_chunk"):
            await anext(session.results())
        await session.stop()


@pytest.mark.parametrize("resume", [False, True])
async def test_a_program_that_reads_nothing_keeps_its_connection(resume: bool) -> None:
    """The edge hears the pongs of the client, and the client those of the edge."""

    async def script(wire: Wire) -> None:
        await wire.begin()
        for _ in range(1000):
            await wire.send("result", **speaking("word"))
        await (await wire.socket.ping())
        await wire.expect("audio_chunk")
        await wire.finish()

    async with asyncio.timeout(60), talking_to(script, resume=resume) as session:
        await session.prepare()
        await (await session._link.socket.ping())
        await session.send_audio(SECOND)
        await session.stop()
        assert len([unit async for unit in session.results()]) == 1000


@pytest.mark.parametrize("resume", [False, True])
async def test_too_much_that_is_not_read_ends_the_session_and_says_so(
    resume: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "UNREAD_BYTES", 10 * SPOKEN.nbytes)
    over = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.begin()
        for _ in range(11):
            await wire.expect("audio_chunk")
            await wire.send("result", **speaking("word"))
        await over.wait()  # the server does not read either
        with suppress(ConnectionClosed):
            while await wire.next():
                pass

    async with asyncio.timeout(60), talking_to(script, resume=resume) as session:
        await session.prepare()
        with pytest.raises(SessionOver, match="the program has not read the results: "):
            await send_endlessly(session)
        over.set()
        units = session.results()
        for _ in range(8):
            await anext(units)  # what arrived is not lost
        with pytest.raises(SessionOver, match="has not read"):
            await read_all(units)


async def test_readers_end_when_the_block_is_left_while_the_client_reconnects() -> None:
    async def script(wire: Wire) -> None:
        assert wire.socket.request is not None
        if "resume_token" in wire.socket.request.path:
            await wire.socket.wait_closed()  # this edge does not answer
            return
        await wire.send("queue_done", seq=1, resume_token="s.one")
        wire.socket.transport.abort()

    lost = asyncio.Event()
    async with asyncio.timeout(60):
        async with talking_to(script, resume=True) as session:
            session.watch_connection(lambda connected: connected or lost.set())
            results = asyncio.create_task(anext(session.results()))
            waits = asyncio.create_task(anext(session.waits(), None))
            await lost.wait()
        with pytest.raises(SessionOver):
            await results
        assert await waits is None


async def test_a_conversation_leaves_out_the_sound_of_a_pause() -> None:
    wires: list[Wire] = []

    async def script(wire: Wire) -> None:
        wires.append(wire)
        await wire.begin(chunk_ms=200)
        while (await wire.next())["type"] == "audio_chunk":
            await wire.send("result", is_listen=True)
        await wire.send("paused", timeout=60.0)
        await wire.expect("resume")
        await wire.send("resumed")
        await wire.expect("audio_chunk")
        await wire.send("result", **speaking("again"))
        await wire.finish(during_audio=True)

    async with asyncio.timeout(60), talking_to(script) as session:
        await session.prepare()
        units = session.converse(np.zeros(64_000, np.float32))
        assert (await anext(units)).is_listen
        await session.pause()
        await asyncio.sleep(0.5)
        await session.resume()
        async for unit in units:
            if not unit.is_listen:
                break
        assert unit.text == "again"
        await units.aclose()
        await session.stop()
    types = [message["type"] for message in wires[0].received]
    assert types.index("resume") == types.index("pause") + 1


@pytest.mark.parametrize(
    "limits", [5, [1], {"chunk_s": "5"}, {"chunk_s": [5]}, {"reference_audio_s": "long"}]
)
async def test_limits_of_another_type_are_unreadable(limits: object) -> None:
    async def script(wire: Wire) -> None:
        await wire.send("queue_done", capabilities={"limits": limits})
        await wire.socket.wait_closed()

    async with asyncio.timeout(60), talking_to(script) as session:
        with pytest.raises(UnreadableMessage, match="`limits` of capabilities: Expected"):
            await anext(session.results())


@pytest.mark.parametrize(
    "limits", [None, {}, {"chunk_s": None, "later": ["x"], "reference_audio_s": 30}]
)
async def test_limits_that_are_missing_or_unknown_are_ignored(limits: object) -> None:
    async def script(wire: Wire) -> None:
        await wire.send("queue_done", capabilities={"limits": limits})
        await wire.expect("prepare")
        await wire.send("prepared", prompt_length=12)
        await wire.expect("audio_chunk")
        await wire.finish()

    async with asyncio.timeout(60), talking_to(script) as session:
        await session.prepare(ref_audio=SECOND)
        await session.send_audio(SECOND)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "the server sent an error without a text"),
        ({"error": "the disk is full"}, "the disk is full"),
    ],
)
async def test_an_error_always_has_a_text(fields: dict[str, str], words: str) -> None:
    async def script(wire: Wire) -> None:
        await wire.send("error", **fields)
        await wire.finish()

    async with asyncio.timeout(60), talking_to(script) as session:
        with pytest.raises(ServerError, match=words):
            await anext(session.results())
