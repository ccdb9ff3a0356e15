import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
from structlog.contextvars import bound_contextvars, get_contextvars

from antiphon.inference_worker.sessions.worker_context import EngineExecutor


@pytest.fixture
async def engine() -> AsyncIterator[EngineExecutor]:
    thread = EngineExecutor(1)
    yield thread
    thread.close()


async def test_pieces_arrive_while_the_iterator_runs(engine: EngineExecutor) -> None:
    go_on = threading.Event()

    def pieces() -> Iterator[int]:
        yield 1
        go_on.wait()
        yield 2

    async with aclosing(engine.stream(pieces)) as stream:
        assert await anext(stream) == 1
        go_on.set()
        assert [piece async for piece in stream] == [2]


async def test_a_failure_follows_the_pieces_before_it(engine: EngineExecutor) -> None:
    def pieces() -> Iterator[int]:
        yield 1
        raise ValueError("enough")

    async with aclosing(engine.stream(pieces)) as stream:
        assert await anext(stream) == 1
        with pytest.raises(ValueError, match="enough"):
            await anext(stream)


@pytest.mark.parametrize("cancel", [True, False])
async def test_closing_a_stream_waits_for_its_current_piece(
    engine: EngineExecutor, *, cancel: bool
) -> None:
    closed, works, go_on = threading.Event(), threading.Event(), threading.Event()

    def pieces() -> Iterator[int]:
        try:
            yield 1
            works.set()
            go_on.wait(60)
            yield 2
            yield 3
        finally:
            closed.set()

    first = asyncio.Event()

    async def listen() -> None:
        async with aclosing(engine.stream(pieces)) as stream:
            async for _ in stream:
                await asyncio.to_thread(works.wait, 60)
                first.set()
                if not cancel:
                    return

    listening = asyncio.create_task(listen())
    await first.wait()
    if cancel:
        listening.cancel()
    await asyncio.sleep(0)
    assert not listening.done()
    go_on.set()
    await asyncio.wait([listening])
    assert closed.is_set()
    assert await engine.call(lambda: "free") == "free"


async def test_log_lines_of_the_thread_have_the_callers_session(engine: EngineExecutor) -> None:
    with bound_contextvars(session="adx_1"):
        assert await engine.call(get_contextvars) == {"session": "adx_1"}
    with bound_contextvars(session="adx_2"):
        async with aclosing(engine.stream(lambda: iter([get_contextvars()]))) as stream:
            assert [piece async for piece in stream] == [get_contextvars()]
    assert await engine.call(get_contextvars) == {}


async def test_a_call_completes_despite_repeated_cancellation(engine: EngineExecutor) -> None:
    go_on = threading.Event()
    calling = asyncio.create_task(engine.call(go_on.wait, 10))
    for _ in range(3):
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.sleep(0)
        assert not calling.done()
    go_on.set()
    await asyncio.wait([calling])
    assert calling.cancelled()


async def test_closing_a_stream_completes_despite_repeated_cancellation(
    engine: EngineExecutor,
) -> None:
    works, go_on, first = threading.Event(), threading.Event(), asyncio.Event()

    def pieces() -> Iterator[int]:
        yield 1
        works.set()
        go_on.wait(60)
        yield 2

    async def listen() -> None:
        async with aclosing(engine.stream(pieces)) as stream:
            async for _ in stream:
                first.set()

    listening = asyncio.create_task(listen())
    await first.wait()
    await asyncio.to_thread(works.wait, 60)
    for _ in range(3):
        listening.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not listening.done()
    go_on.set()
    await asyncio.wait([listening])
    assert listening.cancelled()


async def test_an_iterator_that_others_hold_ends_on_the_engine_thread(
    engine: EngineExecutor,
) -> None:
    """It may wait for the engine, which the event loop must not."""
    ended_on = list[str]()

    def answer() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            ended_on.append(threading.current_thread().name)

    held = answer()
    async with aclosing(engine.stream(lambda: held)) as pieces:
        async for _ in pieces:
            break
    assert ended_on == ["engine_0"]
