"""The recorded replay of a conversation, and sessions that ask not to be recorded."""

import asyncio
import json
import time
import wave
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import soxr

from antiphon.client.duplex import connect_duplex
from antiphon.recorder_service.manifest.plan import JITTER_S
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.recording import Meta, parse_meta
from support.stack import Stack, until
from support.timed_conversations import noise

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


def find_user(track: Track, sent: Sequence[Samples], received_ms: list[float]) -> None:
    """Asserts that each second that was sent is in the user's channel, where it must be.

    `received_ms`: when each of them came, to a tenth of a millisecond; none can have begun later.
    """
    begun = begins(received_ms)
    for errors in product(range(-2, 3), repeat=2):  # in samples: before a gap, and after it
        laid = np.zeros(len(track), np.float32)
        for n, (place, second) in enumerate(zip(begun, sent, strict=True)):
            start = max(0, place + errors[place > begun[0] + n * INPUT_RATE])
            laid[start : start + INPUT_RATE] = to_pcm16(second).astype(np.float32) / 32767
        expected = (soxr.resample(laid, INPUT_RATE, OUTPUT_RATE) * 32767)[: len(track)]
        if np.abs(track - expected).max() <= 1.0:
            return
    raise AssertionError("what was sent does not lie there")


def begins(received_ms: list[float]) -> list[int]:
    """The first sample of each second. There is a gap only before those that all came late."""
    found: list[int] = []
    for place in range(len(received_ms)):
        ended = min(came - 1000 * n for n, came in enumerate(received_ms[place:]))
        start, earliest = round((ended - 1000) * INPUT_RATE / 1000), INPUT_RATE + (found or [0])[-1]
        is_late = place == 0 or start - earliest > JITTER_S * INPUT_RATE
        found.append(start if is_late else earliest)
    return found


async def test_the_replay_contains_what_the_client_sent_and_received(stack: Stack) -> None:
    """In real time, as a microphone sends and a loudspeaker plays."""
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
    find_user(track[:, 0], sent, received_ms)
    assert len(received) >= 2
    pen = 0
    for at_s, samples in received:
        place = find(track[:, 1], samples, pen, round((at_s + 1) * OUTPUT_RATE))
        pen = place + len(samples)
    assert np.count_nonzero(track[pen:, 1]) == 0
