"""An edge is killed during an answer and the client resumes on another: nothing is lost or repeated."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pybase64
import pytest

from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.states import EndReason, SessionState
from support.resuming_client import Resumer
from support.stack import Stack, until
from support.synthetic_speech import ITALY, silence, spoken, units_of
from support.two_edges import QUICK, broker_of, ended, published_audio, two_edges


def audio(samples: Samples) -> str:
    return pybase64.b64encode_as_string(samples.astype("<f4").tobytes())


def received_audio(client: Resumer, field: str = "audio_data") -> bytes:
    """Every sample that the client has received, in the order of the numbers."""
    received = [client.received[seq] for seq in sorted(client.received)]
    assert sorted(client.received) == list(range(1, client.last + 1))
    return b"".join(pybase64.b64decode(message.get(field) or "") for message in received)


@pytest.mark.speech
async def test_f4_a_spoken_answer_continues_on_another_edge(stack: Stack) -> None:
    edges, _ = two_edges(stack), stack.recorder()
    stack.worker("local", slots=1)
    client = Resumer("/ws/duplex/adx_1")

    async def one_second(samples: Samples) -> dict[str, Any]:
        await client.send("audio_chunk", audio=audio(samples))
        return await client.expect("result")

    async with client.connected(edges.first):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", config={"temperature": 0.0})
        prepared = await client.expect("prepared")
        units = iter(units_of(np.concatenate([spoken(ITALY), silence(9.0)])))
        while (unit := await one_second(next(units)))["is_listen"]:
            pass
        assert not unit["end_of_turn"]
        for _ in range(2):  # answered while no client is connected, or lost with the edge
            await client.send("audio_chunk", audio=audio(silence(1.0)))
        edges.one.kill()
    async with client.back(edges.other):
        while not unit["end_of_turn"]:
            unit = await one_second(silence(1.0))
        await client.send("stop")
        await client.expect("stopped", skip=("result",))
        assert received_audio(client) == await published_audio(stack, "adx_1")
    await recorded(stack, prepared["recording_session_id"], client)


async def recorded(stack: Stack, recording: str, client: Resumer) -> None:
    """The recording is complete and contains what the client received."""
    folder = stack.data_dir / "sessions" / recording
    await until(lambda: _meta(folder).get("state") == "complete")
    kept = b"".join(_pcm(path) for path in sorted((folder / "ai_audio").glob("*.wav")))
    samples = np.frombuffer(received_audio(client), "<f4")
    assert len(kept) // 2 == len(samples) > 24_000
    assert np.abs(np.frombuffer(kept, "<i2") / 32767 - samples).max() < 1e-3


def _meta(folder: Path) -> dict[str, Any]:
    path = folder / "meta.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _pcm(path: Path) -> bytes:
    with wave.open(str(path)) as file:
        return file.readframes(file.getnframes())


@pytest.mark.speech
async def test_f4_half_duplex_continues_on_another_edge(stack: Stack) -> None:
    edges = two_edges(stack)
    stack.worker(engine_options=QUICK)
    client = Resumer("/ws/half_duplex/hdx_1")
    async with client.connected(edges.first):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", config={"vad": {"threshold": 0.6}})
        await client.expect("prepared")
        question = np.concatenate([silence(0.7), spoken(ITALY), silence(1.6)])
        for half in units_of(question, INPUT_RATE // 2):
            await client.send("audio_chunk", audio_base64=audio(half))
        await client.expect("chunk", skip=("vad_state", "generating"))
        edges.one.kill()
    async with client.back(edges.other):
        done = await client.expect("turn_done", skip=("chunk",))
        received = [client.received[seq] for seq in sorted(client.received)]
        assert "".join(m.get("text_delta", "") for m in received) == done["text"]
        assert received_audio(client) == await published_audio(stack, "hdx_1")
        await client.send("stop")
        await client.expect("stopped")


async def test_f4_a_chat_continues_on_another_edge(stack: Stack) -> None:
    edges = two_edges(stack)
    stack.worker(engine_options=QUICK)
    client = Resumer("/ws/chat")
    async with client.connected(edges.first):
        request = {"messages": [{"role": "user", "content": "Hello"}], "tts": {"enabled": True}}
        await client.socket.send(json.dumps(request))
        sid = (await client.expect("queue_done"))["resume_token"].partition(".")[0]
        await client.expect("chunk", skip=("prefill_done",))
        edges.one.kill()
    async with client.back(edges.other):
        done = await client.expect("done", skip=("chunk",))
        assert (await client.closed())[0] == 1000
    received = [client.received[seq] for seq in sorted(client.received)]
    assert "".join(m.get("text_delta", "") for m in received) == done["text"]
    assert received_audio(client) == await published_audio(stack, sid)
    assert await ended(stack, sid) is EndReason.STOPPED


async def test_f4_realtime_continues_on_another_edge(stack: Stack) -> None:
    edges = two_edges(stack)
    stack.worker(engine_options=QUICK)
    client = Resumer("/v1/realtime?mode=audio")
    async with client.connected(edges.first):
        await client.expect("session.queue_done", skip=("session.queued", "session.queue_update"))
        await client.send("session.update", session={"instructions": "Be brief."})
        sid = (await client.expect("session.created"))["session_id"]
        kind = "response.listen"
        while kind == "response.listen":
            await client.send("input_audio_buffer.append", audio=audio(silence(1.0)))
            kind = (await client.message())["type"]
        await client.send("input_audio_buffer.append", audio=audio(silence(1.0)))
        edges.one.kill()
    async with client.back(edges.other):
        for _ in range(3):
            await client.send("input_audio_buffer.append", audio=audio(silence(1.0)))
        while not client.received[client.last].get("end_of_turn"):
            await client.send("input_audio_buffer.append", audio=audio(silence(1.0)))
            await client.message()
        answer = received_audio(client, "audio")
        assert answer == (await published_audio(stack, sid))[: len(answer)]
        await client.send("session.close")
        await client.expect(
            "session.closed", skip=("response.listen", "response.output_audio.delta")
        )


async def test_f4_a_dead_edge_ends_only_sessions_that_cannot_be_resumed(stack: Stack) -> None:
    times = {"resume_grace_s": 8, "broker_patience_s": 5}
    edges = two_edges(stack, **times)
    stack.worker(slots=2, **times)
    client, plain = Resumer("/ws/duplex/adx_1"), Resumer("/ws/duplex/adx_2")
    async with client.connected(edges.first):
        await client.expect("queue_done")
        async with plain._open(f"{edges.first}/ws/duplex/adx_2"):
            assert await plain.receive() == {"type": "queue_done"}
            edges.one.kill()
    assert await ended(stack, "adx_2") is EndReason.EDGE_LOST
    async with broker_of(stack) as broker:
        row = await broker.sessions.get("adx_1")
        assert row is not None
        assert row.state is SessionState.ASSIGNED
    assert await ended(stack, "adx_1") is EndReason.EDGE_LOST  # no client resumed


async def test_f20_tokens_are_never_logged(stack: Stack) -> None:
    edges = two_edges(stack, log_level="DEBUG")
    stack.worker(engine_options=QUICK)
    client = Resumer("/ws/duplex/adx_1")
    tokens = []
    async with client.connected(edges.first):
        await client.expect("queue_done")
        tokens.append(client.token)
        await client.drop()
    async with client.back(edges.other):
        tokens.append(client.token)
        await client.send("stop")
        await client.expect("stopped")
    async with client._open(f"{edges.first}/ws/duplex/adx_1?resume_token={tokens[0]}&seq=1"):
        assert (await client.closed())[0] == 4410
    secrets = [token.partition(".")[2] for token in tokens]
    assert len(set(secrets)) == 2
    assert not [s for service in stack.services for s in secrets if s in service.log]
