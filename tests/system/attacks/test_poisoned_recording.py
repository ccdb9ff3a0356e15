"""A session that sends what is costly to record cannot exhaust a recorder's memory."""

from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.entries import DiagnosticIn
from antiphon.shared_schemas.recording import (
    RECORDING_FILE,
    DuplexRecording,
    RecordingState,
    ReplayState,
    parse_recording,
)
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.ports import free_port
from support.recorder_conversations import (
    LiveTalk,
    until,
    until_acknowledged,
    until_finished,
)
from support.recorder_process import process, quick
from support.turn_conversations import chat_done, chat_request

SECONDS = 6
PER_SECOND = 45
"""Diagnostics of 60 kB that the edge accepts."""

METRICS = {f"metric_{n}": n for n in range(3500)}
MOST_MIB = 40
"""Without a limit, the recorder takes 500 MiB for twelve seconds."""


@pytest.fixture
def quickly(settings: BrokerSettings, tmp_path: Path) -> RecorderSettings:
    return quick(settings, tmp_path / "data")


def _peak_mib(pid: int) -> float:
    """The largest resident memory of a process so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


async def test_diagnostics_do_not_exhaust_the_recorders_memory(
    broker: Broker, quickly: RecorderSettings
) -> None:
    quiet = await LiveTalk.begin(broker)
    async with process(quickly) as child:
        await quiet.exchange(0)
        await _end(quiet)
        await until_finished(quickly.data_dir, quiet)
        before = _peak_mib(child.pid)
        talk = await LiveTalk.begin(broker)
        for seed in range(SECONDS):
            await talk.exchange(seed)
            for _ in range(PER_SECOND):
                await talk.into.append(DiagnosticIn(metrics=METRICS))
        folder = quickly.data_dir / "sessions" / talk.recording
        await until(lambda: len(list(folder.glob("user_audio/*"))) == SECONDS, "sound is recorded")
        assert (folder / "timeline.jsonl").stat().st_size < 2**20
        await _end(talk)
        (meta,) = await until_finished(quickly.data_dir, talk)
        assert _peak_mib(child.pid) - before < MOST_MIB
    assert (meta.state, meta.chunks, meta.missing) == (RecordingState.COMPLETE, SECONDS, [])
    recording = parse_recording((folder / RECORDING_FILE).read_bytes())
    assert isinstance(recording, DuplexRecording)
    assert 0 < len(recording.diagnostics) <= 4
    left_out = recording.diagnostics_left_out or 0
    assert len(recording.diagnostics) + left_out == SECONDS * PER_SECOND


async def _end(talk: LiveTalk) -> None:
    """Without a copy of the entries in this process."""
    assert await talk.broker.sessions.end(talk.sid, EndReason.STOPPED, ticket=talk.ticket)


async def test_a_recording_that_cannot_be_finished_is_set_aside(
    broker: Broker, quickly: RecorderSettings
) -> None:
    """A defect fails on this request every time: it names a sound that it does not have."""
    sound = {"type": "audio", "blob": 5, "pcm": "f32"}
    request = replace(chat_request(), content=[{"role": "user", "parts": [sound]}], blobs=())
    chat = await LiveTalk.assigned(broker, kind=SessionKind.CHAT)
    port = free_port()
    quickly = quickly.model_copy(update={"recorder_health_port": port, "recorder_silence_s": 0.4})
    async with process(quickly) as child:
        await chat.say([("in", request), ("out", chat_done("Yes."))])
        await _end(chat)
        (meta,) = await until_finished(quickly.data_dir, chat)
        assert (meta.state, meta.replay) == (RecordingState.INTERRUPTED, ReplayState.FAILED)
        assert meta.replay_error == "set aside: 3 attempts have failed"
        await until_acknowledged(broker)
        assert await chat.script() == [], "nothing waits in Redis"
        neighbour = await LiveTalk.begin(broker)
        await neighbour.exchange(0)
        await _end(neighbour)
        (meta,) = await until_finished(quickly.data_dir, neighbour)
        assert meta.state is RecordingState.COMPLETE
        async with httpx.AsyncClient() as http:
            metrics = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
        assert 'antiphon_recorder_recordings_total{state="set_aside"} 1.0' in metrics
        assert child.poll() is None
