"""An evaluation of an edge on which no case can be tried."""

import asyncio

import pytest
from websockets.exceptions import ConnectionClosed

from antiphon.cli.evaluate import run, scripts
from antiphon.cli.evaluate.plan import Script
from antiphon.cli.evaluate.tracks import Kind
from antiphon.client.options import ClientOptions
from support.scripted_server import Scripted, Wire, speaking


async def test_an_edge_that_speaks_by_itself_ends_the_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = 0

    async def script(wire: Wire) -> None:
        nonlocal calls
        calls += 1
        await wire.begin(chunk_ms=200)
        try:
            while (await wire.next())["type"] == "audio_chunk":
                for _ in range(5):
                    await wire.send("result", **speaking("and so on "))
            await wire.send("stopped", session_id="s")
        except ConnectionClosed:
            return

    monkeypatch.setattr(scripts, "_REST_S", 0.5)
    case = Script(kind=Kind.QUESTION, text="Hello?", voice="emma", phase=0.0)
    async with Scripted(script).running() as server:
        line = run.Line(url=server.url, how=ClientOptions())
        with pytest.raises(run.CallFailed, match="3 times: the model does not fall silent"):
            async with asyncio.timeout(30):
                await run.evaluate(line, [[case]], at_once=1)
    assert calls == 3
