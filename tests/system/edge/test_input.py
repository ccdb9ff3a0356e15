"""Bad input: a clear error, the session continues, and nothing reaches the worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import numpy as np
import pybase64
import pytest
from websockets.exceptions import ConnectionClosed

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn, PauseIn, ResumeIn
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import (
    Client,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    picture,
    played_worker,
    prepared_session,
    running_edge,
)


def _floats(*values: float) -> str:
    return pybase64.b64encode_as_string(np.array(values, dtype="<f4").tobytes())


def _base64(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


BAD = {
    "no type": ({}, "missing_field", "type"),
    "unknown type": ({"type": "dance"}, "unknown_type", "type"),
    "type is a number": ({"type": 5}, "unknown_type", "type"),
    "no audio": ({"type": "audio_chunk"}, "missing_field", "audio"),
    "audio is a list": ({"type": "audio_chunk", "audio": [1]}, "invalid_field", "audio"),
    "audio is not base64": ({"type": "audio_chunk", "audio": "!!"}, "invalid_field", "audio"),
    "audio has line breaks": (
        {"type": "audio_chunk", "audio": "AAAA\nAAAA"},
        "invalid_field",
        "audio",
    ),
    "audio is empty": ({"type": "audio_chunk", "audio": ""}, "invalid_field", "audio"),
    "odd bytes": ({"type": "audio_chunk", "audio": _base64(b"12345")}, "invalid_field", "audio"),
    "NaN": ({"type": "audio_chunk", "audio": _floats(0, float("nan"))}, "invalid_field", "audio"),
    "Inf": ({"type": "audio_chunk", "audio": _floats(float("inf"))}, "invalid_field", "audio"),
    "six seconds": (
        {"type": "audio_chunk", "audio": base64_audio(6 * 16_000)},
        "invalid_field",
        "audio",
    ),
    "force_listen is a word": (
        {"type": "audio_chunk", "audio": base64_audio(10), "force_listen": "yes"},
        "invalid_field",
        "force_listen",
    ),
    "ten slices": (
        {"type": "audio_chunk", "audio": base64_audio(10), "max_slice_nums": 10},
        "invalid_field",
        "max_slice_nums",
    ),
    "five frames": (
        {"type": "audio_chunk", "audio": base64_audio(10), "frame_base64_list": [""] * 5},
        "invalid_field",
        "frame_base64_list",
    ),
    "second frame is text": (
        {
            "type": "audio_chunk",
            "audio": base64_audio(10),
            "frame_base64_list": [_base64(picture()), _base64(b"hello")],
        },
        "invalid_field",
        "frame_base64_list.1",
    ),
    "a GIF": ({"type": "video_frame", "frame": _base64(picture("GIF"))}, "invalid_field", "frame"),
    "no frame": ({"type": "video_frame"}, "missing_field", "frame"),
    "resume without pause": ({"type": "resume"}, "not_ready", "type"),
    "second prepare": ({"type": "prepare"}, "not_ready", "type"),
    "negative pause": ({"type": "pause", "timeout": -1}, "invalid_field", "timeout"),
    "endless pause": ({"type": "pause", "timeout": 1e9}, "invalid_field", "timeout"),
    "huge number": ({"type": "pause", "timeout": 10**40}, "invalid_field", "timeout"),
    "deep diagnostic": (
        {"type": "client_diagnostic", "metrics": {"a": json.loads("[" * 500 + "]" * 500)}},
        "invalid_field",
        "metrics",
    ),
}


@pytest.fixture
async def pair(
    settings: BrokerSettings, broker: Broker
) -> AsyncIterator[tuple[Client, PlayedSession]]:
    async with (
        running_edge(settings, max_message_bytes=1_000_000) as edge,
        played_worker(broker) as worker,
        prepared_session(edge, worker) as both,
    ):
        yield both


async def _continues(client: Client, session: PlayedSession) -> None:
    """Asserts that the worker's next entry is the valid chunk, and that its answer arrives."""
    await client.send("audio_chunk", audio=base64_audio())
    await session.answer()
    await client.expect("result")


async def test_each_bad_message_is_named_and_changes_nothing(
    pair: tuple[Client, PlayedSession],
) -> None:
    client, session = pair
    for case, (message, code, field) in BAD.items():
        await client.socket.send(json.dumps(message))
        error = await client.expect("error")
        assert (error["code"], error.get("field")) == (code, field), (case, error)
        assert error["error"] == error["message"]
    await _continues(client, session)


@pytest.mark.parametrize("value", [[], "audio_chunk", 1, None, [{"type": "stop"}]])
async def test_json_that_is_not_an_object(pair: tuple[Client, PlayedSession], value: Any) -> None:
    client, session = pair
    await client.socket.send(json.dumps(value))
    await client.expect_error("invalid_field", "type")
    await _continues(client, session)


async def test_a_message_over_the_limit(pair: tuple[Client, PlayedSession]) -> None:
    client, session = pair
    await client.send("audio_chunk", audio="A" * 1_000_001)
    await client.expect_error("message_too_large")
    await _continues(client, session)


async def test_a_frame_of_16_mib_closes_with_1009(pair: tuple[Client, PlayedSession]) -> None:
    client, session = pair
    with suppress(ConnectionClosed):  # the server may close before all of it is sent
        await client.socket.send("A" * (16 * 1024 * 1024 + 1))
    assert await client.close_code() == 1009
    assert (await ended(session.broker, session.claim.sid)).reason is EndReason.CLIENT_GONE


MALFORMED = {
    "half an object": '{"type": "stop"',
    "nothing": "",
    "bare word": "stop",
    "NaN": '{"type": "pause", "timeout": NaN}',
    "binary": b'{"type": "stop"}',
}


@pytest.mark.parametrize("frame", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_json_closes_with_1003(
    pair: tuple[Client, PlayedSession], frame: str | bytes
) -> None:
    client, session = pair
    await client.socket.send(frame)
    await client.expect_error("invalid_json")
    assert await client.close_code() == 1003
    assert (await ended(session.broker, session.claim.sid)).reason is EndReason.ERROR


@pytest.mark.parametrize(
    "message",
    [
        b'{"type": "\xff"}',
        [b'{"type": "\xe2', b'\x82"}'],
        b'{"type": "' + bytes(2_000_000) + b'\xff"}',
    ],
    ids=["short", "in fragments", "long"],
)
async def test_invalid_utf8_closes_with_1007(
    pair: tuple[Client, PlayedSession],
    caplog: pytest.LogCaptureFixture,
    message: bytes | list[bytes],
) -> None:
    """RFC 6455 demands 1007 before the application sees a message."""
    client, session = pair
    await client.socket.send(message, text=True)
    assert await client.close_code() == 1007
    await ended(session.broker, session.claim.sid)
    assert "Traceback" not in caplog.text


async def test_a_pause_accepts_only_resume(pair: tuple[Client, PlayedSession]) -> None:
    client, session = pair
    await client.send("pause")
    for type_, fields in (
        ("audio_chunk", {"audio": base64_audio(10)}),
        ("video_frame", {"frame": _base64(picture())}),
        ("pause", {}),
        ("prepare", {}),
    ):
        await client.send(type_, **fields)
        error = await client.expect_error("paused", "type")
        assert "paused" in error["error"]
    await client.send("resume")
    await session.expect(PauseIn)
    await session.expect(ResumeIn)
    await _continues(client, session)


async def test_chunks_before_prepare(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with edge.client("adx_1") as client:
        session = await worker.claim()
        await client.expect("queue_done")
        await client.send("audio_chunk", audio=base64_audio(10))
        error = await client.expect_error("not_ready", "type")
        assert "prepare" in error["message"]
        await client.send("prepare")
        await client.send("audio_chunk", audio=base64_audio(10))
        await client.expect_error("not_ready", "type")
        await session.prepare()
        await client.expect("prepared")
        await _continues(client, session)


@pytest.mark.parametrize(
    "sid", ["with space", "a.b", "x" * 65, "sl/ash", "%2e%2e", "caf\u00e9", "nul%00", ""]
)
async def test_an_id_outside_the_alphabet(edge: RunningEdge, sid: str) -> None:
    async with edge.client(sid.replace(" ", "%20")) as client:
        await client.expect_error("invalid_session_id", "session_id")
        assert await client.close_code() == 1008
        assert (await edge.edge.broker.queue.snapshot()).waiting == ()


@pytest.mark.edge(input_ahead_s=3.0)
async def test_audio_faster_than_real_time_is_refused(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with prepared_session(edge, worker) as (client, session):
        for _ in range(6):
            await client.send("audio_chunk", audio=base64_audio(8_000))
        await client.send("audio_chunk", audio=base64_audio(5 * 16_000))
        await client.expect_error("input_backpressure", "audio")
        for _ in range(6):
            await session.expect(ChunkIn)
        await client.send("client_diagnostic")
        await client.send("stop")


@pytest.mark.edge(input_messages_per_s=5.0)
async def test_a_flood_of_messages_is_refused_and_the_session_continues(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with prepared_session(edge, worker) as (client, session):
        for _ in range(500):
            await client.send("resume")
        codes = [(await client.expect("error"))["code"] for _ in range(500)]
        assert codes[0] == "not_ready"
        assert "input_backpressure" in codes
        assert (await session.row()).reason is None


async def test_reference_paths(settings: BrokerSettings, broker: Broker, tmp_path: Any) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    (tmp_path / "secret.wav").write_bytes(b"RIFF")
    (assets / "link.wav").symlink_to(tmp_path / "secret.wav")
    async with (
        running_edge(settings, assets_dir=assets) as edge,
        played_worker(broker) as worker,
        edge.client("adx_1") as client,
    ):
        await worker.claim()
        await client.expect("queue_done")
        for path in (
            "assets/ref_audio/ref_minicpm_signature.wav",
            "../secret.wav",
            "/etc/passwd",
            "link.wav",
            "nul\0.wav",
            "x" * 5000,
            ".",
        ):
            await client.send("prepare", ref_audio_path=path)
            error = await client.expect_error("invalid_field", "ref_audio_path")
            assert "secret" not in error["message"]
