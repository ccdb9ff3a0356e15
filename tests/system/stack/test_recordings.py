"""The recorded replay of a conversation, and sessions that ask not to be recorded."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import wave
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import soxr
from redis.asyncio import Redis

from antiphon.client.duplex import connect_duplex
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.recording import Meta, parse_meta
from support.raw_client import Wire, open_path, open_wire
from support.stack import Stack, until
from support.timed_conversations import jpeg, noise

SECONDS = 5
ENGINE = '{"slots": 4, "cycle_units": 4, "prepare_ms": 10, "answer_pieces": 2, "speak_ms": 50}'
Track = np.ndarray[Any, np.dtype[np.int16]]


async def merged(stack: Stack, recording: str) -> Path:
    """The session's directory after all services have finished it."""
    folder = stack.data_dir / "sessions" / recording

    def meta() -> Meta | None:
        path = folder / "meta.json"
        return parse_meta(path.read_bytes()) if path.exists() else None

    await until(lambda: (found := meta()) is not None and not found.is_busy)
    return folder


def replay_of(folder: Path) -> Track:
    with wave.open(str(folder / "merged_replay.wav")) as file:
        assert (file.getnchannels(), file.getframerate()) == (2, OUTPUT_RATE)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)


def find(track: Track, samples: Track, start: int, stop: int) -> int:
    """The exact position of the samples, if they begin between `start` and `stop`."""
    for place in range(max(0, start), min(stop, len(track) - len(samples) + 1)):
        if track[place] == samples[0] and np.array_equal(
            track[place : place + len(samples)], samples
        ):
            return place
    raise AssertionError(f"not between {start / OUTPUT_RATE} s and {stop / OUTPUT_RATE} s")


def find_user(track: Track, sent: Samples, received_ms: list[float]) -> float:
    """The second at which the sent audio is in the user's channel, in one stretch.

    `received_ms`: when each second of it came, to a tenth of a millisecond; none can have begun later.
    """
    received = to_pcm16(sent).astype(np.float32) / 32767
    begun_ms = min(came - 1000 * (place + 1) for place, came in enumerate(received_ms))
    near = round(begun_ms * INPUT_RATE / 1000)
    for start in range(max(0, near - 2), near + 3):
        laid = np.concatenate([np.zeros(start, np.float32), received])
        expected = (soxr.resample(laid, INPUT_RATE, OUTPUT_RATE) * 32767)[: len(track)]
        if np.abs(track[: len(expected)] - expected).max() <= 1.0:
            return start / INPUT_RATE
    raise AssertionError("what was sent does not lie there")


async def test_the_replay_contains_what_the_client_sent_and_received(stack: Stack) -> None:
    """In real time, as a microphone sends and a loudspeaker plays; aligned within a chunk."""
    stack.edge()
    stack.recorder()
    stack.worker(engine_options=ENGINE, slots=4)
    sent = [noise(second, 1.0, INPUT_RATE) for second in range(SECONDS)]
    received: list[tuple[float, Track]] = []
    async with connect_duplex(stack.ws_url) as session:
        await session.wait_for_turn()
        asked = time.monotonic()
        prepared = await session.prepare("Be brief.", DuplexConfig(force_listen_count=0))
        units = session.results()
        opened = time.monotonic()
        for second, chunk in enumerate(sent):
            await asyncio.sleep(opened + second + 1 - time.monotonic())
            await session.send_audio(chunk)
            unit = await anext(units)
            if not unit.is_listen:
                received.append((time.monotonic() - asked, to_pcm16(unit.audio)))
        await session.stop()
    assert prepared.recording_session_id is not None
    folder = await merged(stack, prepared.recording_session_id)
    recording = json.loads((folder / "recording.json").read_text())
    assert recording["merged_replay"] == "merged_replay.wav"
    track = replay_of(folder)
    received_ms = [chunk["receive_ts_ms"] for chunk in recording["chunks"]]
    user_s = find_user(track[:, 0], np.concatenate(sent), received_ms)
    assert abs(user_s - (opened - asked)) < 1.0
    assert len(received) >= 2
    pen = 0
    for at_s, samples in received:
        place = find(track[:, 1], samples, pen, round((at_s + 1) * OUTPUT_RATE))
        assert abs(place / OUTPUT_RATE - max(at_s, pen / OUTPUT_RATE)) < 1.0
        pen = place + len(samples)
    assert np.count_nonzero(track[pen:, 1]) == 0


async def _duplex(wire: Wire) -> str:
    prepared = await wire.begin(record=False)
    await wire.send(type="video_frame", frame=_base64(jpeg(64, 48, (9, 9, 9))))
    await wire.send_second()
    await wire.until("result")
    await wire.send(type="stop")
    await wire.until("stopped")
    return str(prepared["recording_session_id"])


async def _half_duplex(wire: Wire) -> str:
    prepared = await wire.begin(config={"record": False})
    await wire.send_second()
    await wire.send(type="stop")
    await wire.until("stopped")
    return str(prepared["recording_session_id"])


async def _realtime(wire: Wire) -> None:
    await wire.until("session.queue_done")
    settings = {"instructions": "Be brief.", "record": False}
    await wire.send(type="session.update", session=settings)
    await wire.until("session.created")
    await wire.send_second()  # an unknown event, which changes nothing
    await wire.send(type="session.close")
    await wire.closed()


async def test_sessions_that_ask_not_to_be_recorded_leave_nothing_on_disk(stack: Stack) -> None:
    """Every protocol, and a chat with a picture; a session without the option is recorded at the same time."""
    stack.edge()
    stack.recorder(recorder_settle_s=0.2)
    stack.worker(engine_options=ENGINE, slots=4)
    image = {"type": "image", "data": _base64(jpeg(64, 48, (200, 9, 9)))}
    asked = {"messages": [{"role": "user", "content": [image, {"type": "text", "text": "?"}]}]}
    async with open_wire(stack.ws_url, "omni_1") as wire:
        refused = [await _duplex(wire)]
    async with open_path(stack.ws_url, "/ws/half_duplex/hdx_1") as wire:
        refused.append(await _half_duplex(wire))
    async with open_path(stack.ws_url, "/v1/realtime?mode=audio") as wire:
        await _realtime(wire)
    async with httpx.AsyncClient(base_url=stack.http_url, timeout=20) as http:
        answer = (await http.post("/api/chat", json={**asked, "record": False})).json()
        assert answer["success"] is True, answer
        refused.append(answer["recording_session_id"])
        kept = (await http.post("/api/chat", json=asked)).json()["recording_session_id"]
        folder = await merged(stack, kept)
        assert (folder / "user_images/img_0.jpg").is_file()
        for recording in refused:
            assert (await http.get(f"/api/sessions/{recording}")).status_code == 404
    await until(lambda: _streams_are_empty(stack))
    sessions = stack.data_dir / "sessions"
    assert [path.name for path in sessions.iterdir()] == [kept]
    outside = [p for p in stack.data_dir.rglob("*") if p.is_file() and kept not in p.parts]
    assert outside == []


async def _streams_are_empty(stack: Stack) -> bool:
    async with Redis.from_url(stack.redis.url) as raw:
        keys = [key async for key in raw.scan_iter(match=f"{stack.prefix}:*", _type="stream")]
        return all([await raw.xlen(key) == 0 for key in keys])


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
