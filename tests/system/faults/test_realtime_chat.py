"""`/v1/realtime?mode=chat` when its worker dies, and when its client is lost without a word."""

from __future__ import annotations

import asyncio

import orjson

from antiphon.client.realtime_chat import connect_realtime_chat
from antiphon.shared_schemas.recording import TurnRecording, parse_meta, parse_recording
from antiphon.shared_schemas.states import EndReason
from support.fault_stack import SIMULATED
from support.raw_client import open_path
from support.stack import Stack, until
from support.two_edges import ended

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
        assert chat.done is not None
        first = chat.done
        assert (first.reason, bool(first.text)) == ("turn_end", True)
        second = await chat.whole("And now?")
        sid = chat.created.session_id
    await until(lambda: len(_recorded(stack)) == 2, within_s=60)
    recorded = _recorded(stack)
    texts = {name: each.turns[0].output.text for name, each in recorded.items()}
    assert texts == {f"{sid}-1": first.text, f"{sid}-2": second.text}
    assert {each.mode for each in recorded.values()} == {"chat"}


async def test_a_half_open_client_frees_the_slot_of_its_request(stack: Stack) -> None:
    stack.edge(ping_interval_s=0.5, ping_timeout_s=3.0)
    stack.worker(slots=1, engine_options=SLOW)
    async with open_path(stack.ws_url, "/v1/realtime?mode=chat") as wire:
        await wire.expect("session.queue_done")
        await wire.send(type="session.init", payload={})
        sid = (await wire.expect("session.created"))["session_id"]
        request = {"messages": [{"role": "user", "content": "Hello."}]}
        await wire.send(type="input.append", input=request)
        await wire.expect("response.output.delta")
        wire.socket.transport.pause_reading()  # no pong, and no FIN
        assert await ended(stack, f"{sid}-1") is EndReason.CLIENT_GONE
        wire.socket.transport.resume_reading()
