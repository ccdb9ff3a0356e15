"""The calls of one edge."""

import asyncio
from contextlib import ExitStack

import pytest

from antiphon.edge.calls import Calls
from antiphon.edge.errors import TooManyConnections


def test_an_address_cannot_take_all_ports_with_calls_that_do_not_connect() -> None:
    calls = Calls()
    with ExitStack() as waiting:
        for _ in range(16):
            waiting.enter_context(calls.connecting.hold("198.51.100.7"))
        with pytest.raises(TooManyConnections), calls.connecting.hold("198.51.100.7"):
            pass
        with calls.connecting.hold("198.51.100.8"):
            pass
    with calls.connecting.hold("198.51.100.7"):
        pass


@pytest.mark.parametrize("way", ["close", "end", "hang_up"])
async def test_a_call_that_ends_before_its_first_step_is_closed(way: str) -> None:
    calls, closed = Calls(), asyncio.Event()

    async def connect() -> bool:
        await asyncio.Event().wait()
        return True

    async def serve() -> None:
        raise AssertionError

    async def close() -> None:
        await asyncio.sleep(0)
        closed.set()

    calls.start("rtc_1", connect, serve, close)
    if way == "hang_up":
        assert calls.hang_up("rtc_1")
    elif way == "close":
        await calls.close()
    await calls.end()
    assert closed.is_set()
    assert not calls.hang_up("rtc_1")
