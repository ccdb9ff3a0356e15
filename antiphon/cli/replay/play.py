"""Plays a recorded session to a running stack, in real time or faster."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from antiphon.cli.conversation.conversation import stop_speaking, units
from antiphon.cli.replay.compare import OutcomePair, ReplayOutcome
from antiphon.cli.replay.plan import (
    ChatPlan,
    DuplexPlan,
    HalfDuplexPlan,
    ReplayPlan,
    ReplayStep,
)
from antiphon.client.chat import ask
from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import ClientError, ServerError
from antiphon.client.half_duplex import HalfDuplexSession, connect_half_duplex
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.half_duplex_messages import Generating, TurnDone

_SECOND_S = 1.0
_MAX_TAIL_CHUNKS = 5
_RETRY_S = 1.0
"""Wait before sending a chunk again that the edge refused as too far ahead of real time."""

_PIECE = INPUT_RATE // 2
_PIECE_S = _PIECE / INPUT_RATE
_LEAD_S = 0.7
"""Silence before an utterance, so that voice detection can start, with its padding."""


class ReplayFailed(Exception):
    """The replay could not be completed; the message says why."""


async def play(
    plan: ReplayPlan, url: str, *, fast: bool, patience_s: float, api_key: str | None = None
) -> list[OutcomePair]:
    """Play the plan; returns its steps with both answers. `fast` does not wait for real time.

    A step has no new answer if none arrives within `patience_s`. Raises ClientError, CannotLoad,
    ReplayFailed.
    """
    match plan:
        case DuplexPlan():
            return await _play_duplex(plan, url, fast, patience_s, api_key)
        case HalfDuplexPlan():
            return await _play_half_duplex(plan, url, fast, patience_s, api_key)
        case ChatPlan():
            return await _play_chat(plan, url, patience_s, api_key)


async def _play_chat(
    plan: ChatPlan, url: str, patience_s: float, api_key: str | None
) -> list[OutcomePair]:
    outcome: ReplayOutcome | None = None
    async with ask(
        url,
        plan.history,
        generation=plan.generation,
        tts=plan.tts,
        options=plan.options,
        api_key=api_key,
    ) as answer:
        await answer.wait_for_turn()
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                done = await answer.whole()
                outcome = ReplayOutcome(True, done.text, _ms_since(began))
    return [OutcomePair(0, 0.0, plan.recorded, outcome)]


async def _play_half_duplex(
    plan: HalfDuplexPlan, url: str, fast: bool, patience_s: float, api_key: str | None
) -> list[OutcomePair]:
    """Speaks each utterance after the answer to the one before."""
    silence_s = plan.config.vad.min_silence_duration_ms / 1000 + 2 * _PIECE_S
    async with connect_half_duplex(url, api_key=api_key) as session:
        await session.wait_for_turn()
        await session.prepare(plan.system, plan.config, ref_audio=plan.ref_audio)
        player = _HalfDuplexPlayer(session, patience_s, silence_s, 0.0 if fast else _PIECE_S)
        return [
            OutcomePair(step.index, step.at_s, step.recorded, await player.play(step))
            for step in plan.steps
        ]


class _HalfDuplexPlayer:
    """Speaks utterances, and stops speaking as soon as an answer begins."""

    def __init__(
        self, session: HalfDuplexSession, patience_s: float, silence_s: float, pace_s: float
    ) -> None:
        self._session = session
        self._patience_s = patience_s
        self._silence_s = silence_s
        self._pace_s = pace_s

    async def play(self, step: ReplayStep) -> ReplayOutcome | None:
        """Speak the utterance; returns the answer, or None if none follows within the patience.

        Raises ClientError, CannotLoad.
        """
        speech = await asyncio.to_thread(step.samples)
        try:
            async with asyncio.timeout(None) as limit:
                speaking = asyncio.create_task(self._speak(speech, limit))
                try:
                    return await self._read_answer(speaking, limit)
                finally:
                    await stop_speaking(speaking)
        except TimeoutError:
            return None

    async def _speak(self, speech: Samples, limit: asyncio.Timeout) -> None:
        silences = (np.zeros(round(s * INPUT_RATE), np.float32) for s in (_LEAD_S, self._silence_s))
        lead, rest = silences
        sound = np.concatenate([lead, speech, rest])
        for start in range(0, len(sound), _PIECE):
            await self._session.send_audio(sound[start : start + _PIECE])
            await asyncio.sleep(self._pace_s)
        self._wait_from_now(limit)

    async def _read_answer(
        self, speaking: asyncio.Task[None], limit: asyncio.Timeout
    ) -> ReplayOutcome:
        began = 0.0
        while True:
            try:
                async for event in self._session.events():
                    if isinstance(event, Generating):
                        began = time.monotonic()
                        speaking.cancel()
                        self._wait_from_now(limit)
                    elif isinstance(event, TurnDone):
                        return ReplayOutcome(True, event.text, _ms_since(began))
            except ServerError as error:
                if error.code == ErrorCode.INPUT_BACKPRESSURE:
                    self._pace_s = _PIECE_S
            else:
                raise ClientError("the session ended before the replay did")

    def _wait_from_now(self, limit: asyncio.Timeout) -> None:
        limit.reschedule(asyncio.get_running_loop().time() + self._patience_s)


async def _play_duplex(
    plan: DuplexPlan, url: str, fast: bool, patience_s: float, api_key: str | None
) -> list[OutcomePair]:
    async with connect_duplex(url, video=plan.with_video, api_key=api_key) as session:
        await session.wait_for_turn()
        await session.prepare(
            plan.prompt,
            plan.config,
            ref_audio=plan.ref_audio,
            tts_ref_audio=plan.tts_ref_audio,
        )
        player = _DuplexPlayer(session)
        receiving = asyncio.create_task(player.receive(), name="replay-receive")
        try:
            await (_step_by_step if fast else _in_real_time)(plan, player, patience_s)
            if not plan.cut_off:
                await _finish_turn(player, patience_s, 0.0 if fast else _SECOND_S)
        finally:
            receiving.cancel()
            with suppress(asyncio.CancelledError):
                await receiving
    return _pairs(plan.steps, player.answers)


def _pairs(steps: Sequence[ReplayStep], answers: Mapping[int, ReplayOutcome]) -> list[OutcomePair]:
    """The recorded steps, then answers that came after the last step."""
    played = [
        OutcomePair(step.index, step.at_s, step.recorded, answers.get(place))
        for place, step in enumerate(steps)
    ]
    index, at_s = steps[-1].index, steps[-1].at_s
    return played + [
        OutcomePair(index + late, at_s + late * _SECOND_S, None, answers[place])
        for late, place in enumerate(sorted(place for place in answers if place >= len(steps)), 1)
    ]


async def _in_real_time(plan: DuplexPlan, player: _DuplexPlayer, patience_s: float) -> None:
    start = time.monotonic()
    for step in plan.steps:
        await asyncio.sleep(start + step.at_s - time.monotonic())
        await player.play(step)
        if player.refused:
            raise ReplayFailed("the edge refuses the audio: it came too far ahead of real time")
    await player.wait_for(len(plan.steps) - 1, patience_s)


async def _step_by_step(plan: DuplexPlan, player: _DuplexPlayer, patience_s: float) -> None:
    for place, step in enumerate(plan.steps):
        await player.play(step)
        await player.wait_for(place, patience_s)
        while player.refused:
            player.retract()
            await asyncio.sleep(_RETRY_S)
            await player.play(step)
            await player.wait_for(place, patience_s)


async def _finish_turn(player: _DuplexPlayer, patience_s: float, pause_s: float) -> None:
    """Send silence until a turn that is running at the end is complete."""
    silence = np.zeros(INPUT_RATE, np.float32)
    for _ in range(_MAX_TAIL_CHUNKS):
        if not player.mid_turn:
            return
        await asyncio.sleep(pause_s)
        await player.wait_for(await player.send(silence), patience_s)


class _DuplexPlayer:
    """Sends steps and assigns each answer to the step whose audio it answers."""

    def __init__(self, session: DuplexSession) -> None:
        self.answers: dict[int, ReplayOutcome] = {}
        self.refused = False
        self.mid_turn = False
        self._session = session
        self._ends_ms: list[int] = []
        self._changed = asyncio.Event()
        self._over: ClientError | None = None

    async def play(self, step: ReplayStep) -> None:
        """Raises ClientError if the session has ended, CannotLoad if a file is missing."""
        samples = await asyncio.to_thread(step.samples)
        frames = await asyncio.to_thread(step.images)
        await self.send(samples, frames, force_listen=step.force_listen)

    async def send(
        self, samples: Samples, frames: Sequence[bytes] = (), *, force_listen: bool = False
    ) -> int:
        """Send one chunk; returns the key of its answer in `answers`."""
        before = self._ends_ms[-1] if self._ends_ms else 0
        self._ends_ms.append(before + round(len(samples) * 1000 / INPUT_RATE))
        await self._session.send_audio(samples, frames=frames, force_listen=force_listen)
        return len(self._ends_ms) - 1

    def retract(self) -> None:
        """Forget the last step, which the edge refused."""
        self._ends_ms.pop()
        self.refused = False

    async def wait_for(self, place: int, patience_s: float) -> None:
        """Wait for the answer to a step or its refusal. Raises ClientError if the session is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while place not in self.answers and not self.refused:
                    if self._over is not None:
                        raise self._over
                    self._changed.clear()
                    await self._changed.wait()

    async def receive(self) -> None:
        """Read results until the session is over."""
        try:
            async for unit in units(self._session, self._take_error):
                self._take(unit)
            self._over = ClientError("the session ended before the replay did")
        except ClientError as error:
            self._over = error
        finally:
            self._changed.set()

    def _take(self, unit: Unit) -> None:
        """A result that arrives twice, after a change of workers, counts once."""
        message = unit.message
        place = bisect_left(self._ends_ms, message.current_time)
        outcome = ReplayOutcome(not message.is_listen, message.text, message.wall_clock_ms)
        self.answers.setdefault(place, outcome)
        self.mid_turn = outcome.speaks and not message.end_of_turn
        self._changed.set()

    def _take_error(self, error: ServerError) -> None:
        """A refused step may be sent again; a failed one has no answer."""
        if error.code == ErrorCode.INPUT_BACKPRESSURE:
            self.refused = True
        self._changed.set()


def _ms_since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)
