"""A connected session refuses wrong arguments by name, and continues."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.client.half_duplex import connect_half_duplex
from antiphon.client.realtime import RealtimeSession, connect_realtime
from support.scripted_server import Scripted, Wire, talking_to

SECOND = np.zeros(16_000, dtype=np.float32)
FILE = Path("role.txt")

Call = Callable[[Any], Coroutine[Any, Any, object]]


async def read_all(wire: Wire) -> None:
    await wire.send("queue_done")
    await wire.finish()


async def grant(wire: Wire) -> None:
    await wire.send("session.queue_done")
    while (await wire.next())["type"] not in ("session.close", "session.stop"):
        pass
    await wire.send("session.closed", reason="stopped")


async def first(units: Any) -> None:
    async for _ in units:
        break


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.prepare(FILE), r"system_prompt is a \w*Path, a str is needed: read_text\(\)"),
        (lambda s: s.prepare(b"Be brief."), "system_prompt is a bytes, a str is needed"),
        (lambda s: s.prepare("\udcff"), "system_prompt is a str, it has half of a surrogate"),
        (lambda s: s.prepare(greeting=SECOND), "greeting is a ndarray, a str is needed"),
        (lambda s: s.prepare(ref_audio_path=FILE), r"ref_audio_path is a \w*Path, a str is needed"),
        (lambda s: s.prepare(config={"voice": FILE}), r"config\.voice is a \w*Path, its content"),
        (lambda s: s.prepare(ref_audio=[0.0]), "^ref_audio is a list, a numpy array is needed"),
        (lambda s: s.prepare(tts_ref_audio=SECOND[:0]), "^tts_ref_audio has no samples"),
        (lambda s: s.send_diagnostic({"log": FILE}), r"metrics\.log is a \w*Path, its content"),
        (lambda s: s.wait_for_turn(5), "on_update is a int, a function is needed"),
        (lambda s: s.wait_for_turn(no_worker_s="5"), "no_worker_s is a str, a number of seconds"),
        (lambda s: first(s.converse(SECOND, frames=[])), "frames is a list, a function is needed"),
    ],
)
async def test_full_duplex(call: Call, words: str) -> None:
    async with talking_to(read_all) as session:
        with pytest.raises((TypeError, ValueError), match=words):
            await call(session)
        with pytest.raises(TypeError, match="on_change is a NoneType, a function is needed"):
            session.watch_connection(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.prepare(None), "system is a NoneType, a str or a list of texts and sounds"),
        (lambda s: s.prepare(SECOND), "system is a ndarray, a str or a list of texts and sounds"),
        (lambda s: s.prepare([FILE]), r"^system\[0\] is a \w*Path, a numpy array is needed"),
        (lambda s: s.prepare(["\udcff"]), r"system\[0\] is a str, it has half of a surrogate"),
        (lambda s: s.prepare(barge_in=FILE), r"barge_in is a \w*Path"),
        (lambda s: s.prepare(config={"vad": {"threshold": FILE}}), r"config\.vad\.threshold is a"),
    ],
)
async def test_half_duplex(call: Call, words: str) -> None:
    async with Scripted(read_all).running() as server, connect_half_duplex(server.url) as session:
        with pytest.raises((TypeError, ValueError), match=words):
            await call(session)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.update(FILE), r"instructions is a \w*Path, a str is needed"),
        (lambda s: s.update(max_slice_nums=FILE), r"max_slice_nums is a \w*Path"),
        (lambda s: s.update(config=[("voice", "emma")]), "config is a list, a mapping of settings"),
        (lambda s: s.update(config={1: 2}), "config has no setting 1"),
        (lambda s: s.update(config={"voice": FILE}), r"config\.voice is a \w*Path"),
        (lambda s: s.update(ref_audio=SECOND.astype(np.int16)), "^ref_audio is int16, float32"),
        (lambda s: s.stop(FILE), r"reason is a \w*Path, a str is needed"),
    ],
)
async def test_realtime(version: Any, call: Call, words: str) -> None:
    session: RealtimeSession
    async with (
        Scripted(grant).running() as server,
        connect_realtime(server.url, version=version) as session,
    ):
        await session.wait_for_turn()
        with pytest.raises((TypeError, ValueError), match=words):
            await call(session)
