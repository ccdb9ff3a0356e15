"""Recorders are killed forty times during their work: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from antiphon.broker.client import Broker
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.entries import ChunkIn, Entry
from antiphon.shared_schemas.states import SessionKind
from support.recorder_conversations import (
    LiveTalk,
    assert_undisturbed,
    meta_of,
    result,
    until_acknowledged,
    until_finished,
)
from support.recorder_forks import Forks, forks
from support.recorder_process import environment
from support.timed_conversations import jpeg, noise
from support.turn_conversations import chat_talk, half_duplex_talk

KILLS = 40
AT_ONCE = 2
STEP_S = 0.05


class SessionLoad:
    """Sessions that begin and end while recorders die."""

    def __init__(self, broker: Broker) -> None:
        self.over = asyncio.Event()
        self.recorded: list[LiveTalk] = []
        self._broker = broker
        self._claiming = asyncio.Lock()

    async def run_sessions(self, rng: random.Random) -> None:
        """Run sessions of every kind one after the other."""
        kinds = [SessionKind.OMNI_DUPLEX, SessionKind.HALF_DUPLEX, SessionKind.CHAT]
        while not self.over.is_set():
            kind = rng.choice(kinds)
            async with self._claiming:
                talk = await LiveTalk.assigned(self._broker, kind=kind)
            if kind is SessionKind.OMNI_DUPLEX:
                await _duplex(talk, rng.randrange(5, 40))
            else:
                chat = kind is SessionKind.CHAT
                await _turns(talk, chat_talk() if chat else half_duplex_talk())
            await talk.end()
            self.recorded.append(talk)


async def _duplex(talk: LiveTalk, units: int) -> None:
    await talk.prepare()
    for unit in range(units):
        colour = (unit * 40 % 256, 90, 90)
        audio = float_bytes(noise(unit, 0.5, 16_000))
        position = await talk.into.append(ChunkIn(audio=audio, frames=(jpeg(64, 48, colour),)))
        await talk.out.append(result(position.n, speak=unit % 3 == 0, end_of_turn=unit % 9 == 6))
        await asyncio.sleep(STEP_S)


async def _turns(talk: LiveTalk, entries: list[tuple[str, Entry]]) -> None:
    for side, entry in entries:
        await (talk.into if side == "in" else talk.out).append(entry)
        await asyncio.sleep(STEP_S)


async def _kill_at_random(recorders: Forks, data_dir: Path, load: SessionLoad) -> Counter[str]:
    """Returns the states of the unfinished recordings at each kill.

    Each recorder lives until it has visibly worked, and a random time longer.
    """
    rng, met = random.Random(2), Counter[str]()
    for number in range(KILLS):
        before = _journals(data_dir) if number % 4 else _half_replays(data_dir)
        pid = await recorders.start()
        if number % 4 == 0:
            await _until(lambda known=before: _half_replays(data_dir) - known)  # type: ignore[misc]
            await asyncio.sleep(rng.uniform(0.0, 0.01))
        elif number % 10:
            await _until(lambda known=before: _journals(data_dir) != known)  # type: ignore[misc]
            await asyncio.sleep(rng.uniform(0.0, 0.05))
        else:
            await asyncio.sleep(rng.uniform(0.0, 0.1))  # perhaps before it has begun
        await recorders.kill(pid)
        met.update(_states(data_dir))
    load.over.set()
    return met


async def _until(condition: Callable[[], object]) -> None:
    """The disk sends no events, so this polls. The test's time limit bounds the wait."""
    while not condition():
        await asyncio.sleep(0.02)


def _journals(data_dir: Path) -> set[tuple[str, int]]:
    """The journals and their sizes: only a recorder changes them."""
    sizes: set[tuple[str, int]] = set()
    for journal in data_dir.glob("sessions/[!.]*/timeline.jsonl"):
        with suppress(FileNotFoundError):
            sizes.add((journal.parent.name, journal.stat().st_size))
    return sizes


def _half_replays(data_dir: Path) -> set[Path]:
    """The unfinished replay files."""
    return set(data_dir.glob("sessions/[!.]*/.merged*.tmp"))


def _states(data_dir: Path) -> set[str]:
    states: set[str] = set()
    for journal in data_dir.glob("sessions/[!.]*/timeline.jsonl"):
        meta = meta_of(data_dir, journal.parent.name)
        states.add("beginning" if meta is None else str(meta.replay or meta.state))
        states.update("half a file" for _ in journal.parent.glob("*/.*.tmp"))
        states.update("half a replay" for _ in journal.parent.glob(".merged*.tmp"))
    return states


async def test_forty_kills_change_no_byte(broker: Broker, quickly: RecorderSettings) -> None:
    quickly = quickly.model_copy(update={"recorder_silence_s": 0.2, "recorder_max_attempts": KILLS})
    load = SessionLoad(broker)
    async with forks(environment(quickly)) as recorders:
        async with asyncio.TaskGroup() as group:
            for seed in range(AT_ONCE):
                group.create_task(load.run_sessions(random.Random(seed)))
            kills = group.create_task(_kill_at_random(recorders, quickly.data_dir, load))
        pid = await recorders.start()
        await until_finished(quickly.data_dir, *load.recorded)
        await until_acknowledged(broker)
        await recorders.kill(pid)
    met = kills.result()
    assert met["recording"] > KILLS / 4
    assert met["merging"] > KILLS / 10, "some were killed during a merge"
    assert_undisturbed(quickly.data_dir, *load.recorded)
