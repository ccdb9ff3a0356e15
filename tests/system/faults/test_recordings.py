"""Recorders, as processes, while clocks jump and disks or recorders fail; the test is edge and worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.recording import REPLAY_WAV, Meta, RecordingState
from antiphon.shared_schemas.states import SessionKind
from support.recorder_conversations import LiveTalk, chunk, result, until_finished
from support.recorder_process import process, quick
from support.turn_conversations import chat_talk, half_duplex_talk

HOUR_MS = 3_600_000.0


@pytest.fixture
def quickly(settings: BrokerSettings, tmp_path: Path) -> RecorderSettings:
    return quick(settings, tmp_path / "data")


@asynccontextmanager
async def _two_writers(
    broker: Broker, settings: BrokerSettings, kind: SessionKind
) -> AsyncIterator[tuple[LiveTalk, Broker]]:
    """A session whose edge writes with the clock of `broker`, and whose worker has another one."""
    async with open_broker(settings) as worker:
        talk = await LiveTalk.assigned(broker, kind=kind)
        assert talk.claim is not None
        epoch = talk.claim.epoch
        talk.out = await worker.streams.output_writer(talk.sid, talk.ticket, epoch)
        yield talk, worker


def _jump(broker: Broker, ms: float) -> None:
    """What the next synchronization of a process does after Redis' clock has jumped."""
    broker.clock._offset_ms += ms


async def _unit(talk: LiveTalk, seed: int) -> None:
    position = await talk.into.append(chunk(seed, n=8000))
    await talk.out.append(result(position.n, speak=seed % 2 == 0, end_of_turn=seed % 2 == 0))


async def test_f27_redis_clock_jumps_by_an_hour_and_back(
    broker: Broker, settings: BrokerSettings, quickly: RecorderSettings
) -> None:
    """The edge notices each jump before the worker does. The sessions end with the true clock."""
    talks = []
    async with process(quickly):
        for kind in SessionKind:
            for step in (HOUR_MS, -HOUR_MS):
                async with _two_writers(broker, settings, kind) as (talk, worker):
                    talks.append(talk)
                    part = _duplex_part if kind.is_duplex else _turns_part
                    await part(talk, broker, worker, step)
                    await part(talk, broker, worker, -step)
                    await talk.end()
        metas = await until_finished(quickly.data_dir, *talks)
    assert [meta.app_type for meta in metas] == [talk.kind for talk in talks]
    for meta in metas:
        _assert_bounded(quickly.data_dir, meta)


async def _duplex_part(talk: LiveTalk, edge: Broker, worker: Broker, step: float) -> None:
    if talk.into.last.n == 0:
        await talk.prepare()
    await _unit(talk, 0)
    _jump(edge, step)
    for seed in range(1, 4):
        await _unit(talk, seed)
    _jump(worker, step)
    for seed in range(4, 6):
        await _unit(talk, seed)


async def _turns_part(talk: LiveTalk, edge: Broker, worker: Broker, step: float) -> None:
    """The first jump comes in the first half of the talk, the second one in the second half."""
    entries = chat_talk() if talk.kind is SessionKind.CHAT else half_duplex_talk()
    begun = talk.into.last.n > 0
    half = len(entries) // 2
    for place, entry in enumerate(entries[half:] if begun else entries[:half]):
        if place == 1:
            _jump(edge, step)
        if place == 3:
            _jump(worker, step)
        await talk.say([entry])


def _assert_bounded(data_dir: Path, meta: Meta) -> None:
    """All of it took less than half a minute; 12 units hold 6 s of the user's sound."""
    assert meta.state is RecordingState.COMPLETE
    assert meta.duration_s is not None
    assert 0 < meta.duration_s < 30
    assert meta.ended_at is not None
    lasted = meta.ended_at - meta.created_at
    assert abs(lasted - timedelta(seconds=meta.duration_s)) <= timedelta(milliseconds=1)
    assert meta.merged_replay == REPLAY_WAV
    replay = data_dir / "sessions" / meta.recording_id / REPLAY_WAV
    assert replay.stat().st_size < 30 * 4 * 24_000
