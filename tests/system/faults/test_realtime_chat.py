"""`/v1/realtime?mode=chat` when its worker dies, its client is lost without a word, or its edge shuts down."""

import asyncio

import orjson
import pytest

from antiphon.client.realtime import connect_realtime_chat
from antiphon.shared_schemas.recording import TurnRecording, parse_meta, parse_recording
from support.fault_stack import SIMULATED
from support.raw_client import Wire, open_path
from support.realtime_schema import SERVER_V2
from support.stack import Stack, until

SLOW = orjson.dumps({**orjson.loads(SIMULATED), "speak_ms": 100, "answer_pieces": 200}).decode()
"""An answer of 20 seconds."""


def _recorded(stack: Stack) -> dict[str, TurnRecording]:
    """The complete recordings by session."""
    found = {}
    for folder in (stack.data_dir / "sessions").glob("*"):
        meta, content = folder / "meta.json", folder / "recording.json"
        if meta.exists() and content.exists() and not parse_meta(meta.read_bytes()).is_busy:
            recording = parse_recording(content.read_bytes())
            assert isinstance(recording, TurnRecording)
            found[recording.session_id] = recording
    return found


async def test_a_request_continues_on_another_worker_and_is_recorded(stack: Stack) -> None:
    stack.edge()
    stack.recorder(recorder_settle_s=0.1)
    lost = stack.worker(engine_options=SLOW)
    async with connect_realtime_chat(stack.ws_url) as chat:
        pieces = chat.ask("Hello.")
        assert (await anext(pieces)).text
        await asyncio.to_thread(lost.kill)
        await asyncio.to_thread(stack.worker, engine_options=SIMULATED)
        rest = [piece async for piece in pieces]
        assert rest
        first = chat.done
        assert (first.reason, bool(first.text)) == ("turn_end", True)
        second = await chat.whole("And now?")
        sid = chat.created.session_id
    await until(lambda: len(_recorded(stack)) == 2, within_s=60)
    recorded = _recorded(stack)
    texts = {name: each.turns[0].output.text for name, each in recorded.items()}
    assert texts == {f"{sid}-1": first.text, f"{sid}-2": second.text}
    assert {each.mode for each in recorded.values()} == {"chat"}


CHAT_MODE = "/v1/realtime?mode=chat"
ASK = {"messages": [{"role": "user", "content": "Hello."}]}


async def _create(wire: Wire) -> None:
    await wire.until("session.queue_done")
    await wire.send(type="session.init", payload={"mode": "turn_based"})
    await wire.until("session.created")


async def _is_closed(wire: Wire) -> None:
    closed = await wire.expect("session.closed")
    SERVER_V2.validate(closed)
    assert closed["reason"] == "server_shutdown"
    assert closed["diagnostic"]["message"]
    assert await wire.close_code_after_all() == 1012


@pytest.mark.extended
async def test_sigterm_lets_an_answer_end_and_closes_connections_between_two_requests(
    stack: Stack,
) -> None:
    edge = stack.edge(drain_s=300.0)
    stack.worker(engine_options=SLOW.replace("200", "20"), slots=3)
    async with (
        open_path(stack.ws_url, CHAT_MODE) as waits,
        open_path(stack.ws_url, "/v1/realtime") as asked_once,
        open_path(stack.ws_url, CHAT_MODE) as asks,
    ):
        await waits.until("session.queue_done")
        for wire, message in ((asked_once, "response.done"), (asks, "response.output.delta")):
            await _create(wire)
            await wire.send(type="input.append", input=ASK)
            await wire.until(message)
        stopping = asyncio.create_task(asyncio.to_thread(edge.stop))
        await _is_closed(waits)
        await _is_closed(asked_once)
        await asks.until("response.done")
        await _is_closed(asks)
        assert await stopping == 0
