"""Plays a recorded full-duplex session against a running stack: the same sound, in real time or faster."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from antiphon.cli.comparison import Pair, Said
from antiphon.cli.conversation import units
from antiphon.cli.latency import UnitLatency
from antiphon.cli.score import Score, Step
from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import ClientError, ServerError
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.errors import ErrorCode

_SECOND_S = 1.0
_MOST_SILENCE = 5
_TOO_EARLY_S = 1.0
"""Wait before a chunk that the edge found too far ahead of real time is sent again."""


class ReplayFailed(Exception):
    """The replay could not be brought to its end; the message says why."""


async def replay(
    score: Score, url: str, *, fast: bool, patience_s: float, api_key: str | None = None
) -> list[Pair]:
    """Each step with what came of it then and now. Fast: one step as soon as the last is answered.

    A step stays without an answer when none came for `patience_s`. Raises ClientError, ReplayFailed,
    NotStored.
    """
    async with connect_duplex(url, video=score.with_video, api_key=api_key) as session:
        await session.wait_for_turn()
        await session.prepare(
            score.prompt,
            score.config,
            ref_audio=score.ref_audio,
            tts_ref_audio=score.tts_ref_audio,
        )
        ear = _Ear(session)
        listening = asyncio.create_task(ear.listen(), name="replay-listen")
        try:
            await (_step_by_step if fast else _in_time)(score, ear, patience_s)
            if not score.broke_off:
                await _hear_out(ear, patience_s, 0.0 if fast else _SECOND_S)
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
    return _pairs(score.steps, ear.answers)


def _pairs(steps: Sequence[Step], answers: Mapping[int, Said]) -> list[Pair]:
    """Steps of the recording, then what was still said after them."""
    played = [
        Pair(step.index, step.at_s, step.was, answers.get(place))
        for place, step in enumerate(steps)
    ]
    index, at_s = steps[-1].index, steps[-1].at_s
    return played + [
        Pair(index + late, at_s + late * _SECOND_S, None, answers[place])
        for late, place in enumerate(sorted(place for place in answers if place >= len(steps)), 1)
    ]


async def _in_time(score: Score, ear: _Ear, patience_s: float) -> None:
    start = time.monotonic()
    for step in score.steps:
        await asyncio.sleep(start + step.at_s - time.monotonic())
        await ear.play(step)
        if ear.refused:
            raise ReplayFailed("the edge takes no more sound: it came too far ahead of real time")
    await ear.answered(len(score.steps) - 1, patience_s)


async def _step_by_step(score: Score, ear: _Ear, patience_s: float) -> None:
    for place, step in enumerate(score.steps):
        await ear.play(step)
        await ear.answered(place, patience_s)
        while ear.refused:
            ear.take_back()
            await asyncio.sleep(_TOO_EARLY_S)
            await ear.play(step)
            await ear.answered(place, patience_s)


async def _hear_out(ear: _Ear, patience_s: float, pause_s: float) -> None:
    """Silence, until a turn that is under way at the end has been spoken to its end."""
    silence = np.zeros(INPUT_RATE, np.float32)
    for _ in range(_MOST_SILENCE):
        if not ear.mid_turn:
            return
        await asyncio.sleep(pause_s)
        await ear.answered(await ear.send(silence), patience_s)


class _Ear:
    """Sends steps and holds each answer against the step whose sound it answers."""

    def __init__(self, session: DuplexSession) -> None:
        self.answers: dict[int, Said] = {}
        self.refused = False
        self.mid_turn = False
        self._session = session
        self._ends_ms: list[int] = []
        self._news = asyncio.Event()
        self._over: ClientError | None = None

    async def play(self, step: Step) -> None:
        """Raises ClientError when the session has ended, NotStored when the sound is gone."""
        samples = await asyncio.to_thread(step.samples)
        frames = await asyncio.to_thread(step.pictures)
        await self.send(samples, frames, force_listen=step.force_listen)

    async def send(
        self, samples: Samples, frames: Sequence[bytes] = (), *, force_listen: bool = False
    ) -> int:
        """Send one chunk; returns its place, under which its answer will be."""
        before = self._ends_ms[-1] if self._ends_ms else 0
        self._ends_ms.append(before + round(len(samples) * 1000 / INPUT_RATE))
        await self._session.send_audio(samples, frames=frames, force_listen=force_listen)
        return len(self._ends_ms) - 1

    def take_back(self) -> None:
        """Forget the last step, which the edge refused."""
        self._ends_ms.pop()
        self.refused = False

    async def answered(self, place: int, patience_s: float) -> None:
        """Wait for the answer to a step, or its refusal. Raises ClientError when the session is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while place not in self.answers and not self.refused:
                    if self._over is not None:
                        raise self._over
                    self._news.clear()
                    await self._news.wait()

    async def listen(self) -> None:
        """Until the session is over."""
        try:
            async for unit in units(self._session, self):
                self.unit(unit, None)
            self._over = ClientError("the session ended before the replay did")
        except ClientError as error:
            self._over = error
        finally:
            self._news.set()

    def unit(self, unit: Unit, latency: UnitLatency | None) -> None:  # noqa: ARG002 - a Witness
        """One unit's result has come; a repeated one, after a change of workers, changes nothing."""
        message = unit.message
        place = bisect_left(self._ends_ms, message.current_time)
        said = Said(not message.is_listen, message.text, message.wall_clock_ms)
        self.answers.setdefault(place, said)
        self.mid_turn = said.speaks and not message.end_of_turn
        self._news.set()

    def error(self, error: ServerError) -> None:
        """A step that was refused may be sent again; one that failed stays without an answer."""
        if error.code == ErrorCode.INPUT_BACKPRESSURE:
            self.refused = True
        self._news.set()
