"""An edge is killed during an answer and the client resumes on another: nothing is lost or repeated."""

import asyncio
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pybase64
import pytest

from antiphon.shared_schemas.audio import Samples
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
    return b"".join(pybase64.b64decode(message.get(field) or "") for message in received)


@pytest.mark.extended
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
        said = iter(units_of(np.concatenate([spoken(ITALY), silence(9.0)])))
        unit = await one_second(next(said))
        while unit["is_listen"]:
            if (samples := next(said, None)) is None:  # a busy machine needs longer for its answer
                await asyncio.sleep(0.9)
            unit = await one_second(silence(1.0) if samples is None else samples)
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
        await client.abort()
    async with client.back(edges.other):
        tokens.append(client.token)
        await client.send("stop")
        await client.expect("stopped")
    async with client._open(f"{edges.first}/ws/duplex/adx_1?resume_token={tokens[0]}&seq=1"):
        assert await client.close_code() == 4410
    secrets = [token.partition(".")[2] for token in tokens]
    assert len(set(secrets)) == 2
    assert not [s for service in stack.services for s in secrets if s in service.log]
