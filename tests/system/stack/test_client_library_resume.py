"""The Python clients resume when their edge is killed: nothing is lost or repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

import numpy as np
import pytest

from antiphon.client.chat import ask
from antiphon.client.duplex import Unit, connect_duplex
from antiphon.client.half_duplex import Piece, TurnDone, connect_half_duplex
from antiphon.client.options import ClientOptions
from antiphon.client.realtime import Listen, Spoken, connect_realtime, connect_realtime_chat
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.config import HalfDuplexConfig, VadConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from antiphon.shared_schemas.messages.chat import ChatTts
from antiphon.shared_schemas.states import EndReason
from support.stack import Stack
from support.synthetic_speech import ITALY, silence, spoken, units_of
from support.two_edges import QUICK, TwoEdges, ended, only_session, published_audio, two_edges


@pytest.fixture
def edges(stack: Stack) -> TwoEdges:
    stack.worker(engine_options=QUICK)
    return two_edges(stack)


def resuming(edges: TwoEdges) -> ClientOptions:
    return {"resume": True, "other_edges": [edges.other], "binary": True}


@asynccontextmanager
async def microphone(send: Callable[[Samples], Awaitable[object]]) -> AsyncIterator[None]:
    """Silence, sent without pause, as a client does while its socket breaks."""

    async def speak() -> None:
        while True:
            await send(silence(1.0))
            await asyncio.sleep(0.2)

    speaking = asyncio.create_task(speak())
    try:
        yield
    finally:
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)


def whole(pieces: list[Samples]) -> bytes:
    return b"".join(float_bytes(piece) for piece in pieces)


async def test_duplex(stack: Stack, edges: TwoEdges) -> None:
    units: list[Unit] = []
    async with connect_duplex(edges.first, session_id="adx_1", **resuming(edges)) as session:
        await session.wait_for_turn()
        await session.prepare()
        async with microphone(session.send_audio):
            async for unit in session.results():
                units.append(unit)
                if len(units) == 7:
                    assert not unit.is_listen
                    edges.one.kill()
                if len(units) > 7 and unit.end_of_turn:
                    break
        item = whole([unit.audio for unit in units])
        assert [unit.message.seq for unit in units] == list(range(3, 3 + len(units)))
        assert item == (await published_audio(stack, "adx_1"))[: len(item)]
    assert await ended(stack, "adx_1") is EndReason.STOPPED


@pytest.mark.parametrize("version", [1, 2])
async def test_realtime(stack: Stack, edges: TwoEdges, version: Literal[1, 2]) -> None:
    spoke: list[Spoken] = []
    how = resuming(edges)
    async with connect_realtime(edges.first, mode="audio", version=version, **how) as session:
        await session.wait_for_turn()
        await session.update()
        sid = only_session(stack)
        async with microphone(session.append):
            async for item in session.events():
                if isinstance(item, Listen):
                    if len(spoke) > 2:
                        break  # the end of a turn in version 2
                    continue
                spoke.append(item)
                if len(spoke) == 2:
                    edges.one.kill()
                if len(spoke) > 2 and item.end_of_turn:
                    break
        sound = whole([item.audio for item in spoke])
        assert sound == (await published_audio(stack, sid))[: len(sound)]
    assert await ended(stack, sid) is EndReason.STOPPED


@pytest.mark.speech
async def test_half_duplex(stack: Stack, edges: TwoEdges) -> None:
    pieces: list[Piece] = []
    how = resuming(edges)
    async with connect_half_duplex(edges.first, session_id="hdx_1", **how) as session:
        await session.wait_for_turn()
        await session.prepare(config=HalfDuplexConfig(vad=VadConfig(threshold=0.6)))
        question = np.concatenate([silence(0.7), spoken(ITALY), silence(1.6)])
        for half in units_of(question, INPUT_RATE // 2):
            await session.send_audio(half)
        text = ""
        async for event in session.events():
            if isinstance(event, TurnDone):
                text = event.text
                break
            if isinstance(event, Piece):
                pieces.append(event)
                if len(pieces) == 3:
                    edges.one.kill()
        assert text == "".join(piece.text for piece in pieces) != ""
        assert whole([piece.audio for piece in pieces]) == await published_audio(stack, "hdx_1")
    assert await ended(stack, "hdx_1") is EndReason.STOPPED


async def test_chat(edges: TwoEdges) -> None:
    pieces: list[Piece] = []
    question = [ConversationMessage(Role.USER, (TextPart("Hello"),))]
    tts = ChatTts(enabled=True)
    async with ask(edges.first, question, tts=tts, **resuming(edges)) as answer:
        async for piece in answer.pieces():
            pieces.append(piece)
            if len(pieces) == 3:
                edges.one.kill()
        assert answer.done is not None
        assert answer.done.text == "".join(piece.text for piece in pieces)
    assert len(pieces) == 40
    assert all(len(piece.audio) for piece in pieces)


async def test_chat_over_realtime(edges: TwoEdges) -> None:
    """The connection that the answer continues on serves the next request."""
    pieces: list[Spoken] = []
    async with connect_realtime_chat(edges.first, **resuming(edges)) as chat:
        async for piece in chat.ask("Hello"):
            pieces.append(piece)
            if len(pieces) == 3:
                edges.one.kill()
        assert chat.done is not None
        assert (len(pieces), chat.done.text) == (40, "".join(piece.text for piece in pieces))
        assert (await chat.whole("And now?")).session_id == chat.created.session_id
