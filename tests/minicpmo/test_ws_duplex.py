"""Conversations over /ws/duplex: edge, Redis, worker and the tiny model, in real processes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from minicpmo import golden_set
from redis_server import RedisServer
from stack import Stack

from client.duplex import connect_duplex
from shared_schemas.config import DuplexConfig

SESSIONS = 3
GREEDY = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0)
Said = list[tuple[bool, str, bool]]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with RedisServer(tmp_path / "redis") as redis:
        running = Stack(tmp_path, redis)
        try:
            yield running
        finally:
            running.close()
    assert running.tracebacks() == []


async def conversation(url: str) -> Said:
    wave, said = golden_set.waves()["w_window"], []
    async with connect_duplex(url) as session:
        await session.prepare("Streaming Omni Conversation.", config=GREEDY)
        results = aiter(session.results())
        for n in range(4):
            await session.send_audio(wave[n * 16000 : (n + 1) * 16000])
            async with asyncio.timeout(30):
                unit = await anext(results)
            said.append((unit.is_listen, unit.text, unit.end_of_turn))
    return said


async def test_three_conversations_say_what_the_reference_says(stack: Stack) -> None:
    stack.edge()
    stack.worker("minicpmo", model_path=golden_set.CHECKPOINT, slots=SESSIONS)
    talks = await asyncio.gather(*(conversation(stack.ws_url) for _ in range(SESSIONS)))
    units = golden_set.facts("g_window_basic")["units"][:4]
    want = [(u["is_listen"], u["text"], u["end_of_turn"]) for u in units]
    assert talks == [want] * SESSIONS
