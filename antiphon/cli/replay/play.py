"""Plays a recorded session to a running stack, in real time or faster."""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from antiphon.cli.conversation.conversation import in_background, units
from antiphon.cli.replay.compare import OutcomePair, ReplayOutcome
from antiphon.cli.replay.plan import ChatPlan, DuplexPlan, HalfDuplexPlan, ReplayPlan, ReplayStep
from antiphon.client.chat import ask
from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import ClientError, ServerError
from antiphon.client.half_duplex import HalfDuplexSession, connect_half_duplex
from antiphon.client.session import prepared_within
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.messages.half_duplex import Generating, TurnDone

_MAX_TAIL_CHUNKS = 5
_RETRY_S = 1.0
"""Wait before sending a chunk again that the edge refused as too far ahead of real time."""

_PIECE = INPUT_RATE // 2
_PIECE_S = _PIECE / INPUT_RATE
_LEAD_S = 0.7
"""Silence before an utterance, so that voice detection can start, with its padding."""

_LONGEST_PATIENCE = 2
"""After words in the middle of a sentence, an engine waits so many times the session's silence."""

_ENDED_EARLY = "the session ended before the replay did"


class ReplayFailed(Exception):
    """The replay could not be completed; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """`fast` does not wait for real time. A step without an answer in `patience_s` has none."""

    url: str
    fast: bool
    patience_s: float
    api_key: str | None = None


async def play(plan: ReplayPlan, options: ReplayOptions) -> list[OutcomePair]:
    """Play the plan; returns its steps with both answers.

    Raises ClientError, CannotLoad, ReplayFailed.
    """
    match plan:
        case DuplexPlan():
            return await _play_duplex(plan, options)
        case HalfDuplexPlan():
            return await _play_half_duplex(plan, options)
        case ChatPlan():
            return await _play_chat(plan, options)


async def _play_chat(plan: ChatPlan, options: ReplayOptions) -> list[OutcomePair]:
    outcome: ReplayOutcome | None = None
    async with ask(options.url, **plan.request, api_key=options.api_key) as answer:
        await answer.wait_for_turn(no_worker_s=options.patience_s)
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(options.patience_s):
                done = await answer.whole()
                outcome = ReplayOutcome(True, done.text, _ms_since(began))
    return [OutcomePair(0, 0.0, plan.recorded, outcome)]


async def _play_half_duplex(plan: HalfDuplexPlan, options: ReplayOptions) -> list[OutcomePair]:
    """Speaks each utterance after the answer to the one before."""
    silence_s = _LONGEST_PATIENCE * plan.config.vad.min_silence_duration_ms / 1000 + 2 * _PIECE_S
    async with connect_half_duplex(options.url, api_key=options.api_key) as session:
        await session.wait_for_turn(no_worker_s=options.patience_s)
        async with prepared_within(options.patience_s):
            await session.prepare(plan.system, plan.config, ref_audio=plan.ref_audio)
        player = _HalfDuplexPlayer(session, options, silence_s)
        if plan.config.greeting.strip():
            await player.wait_for_greeting()
        return [
            OutcomePair(step.index, step.at_s, step.recorded, await player.play(step))
            for step in plan.steps
        ]


class _HalfDuplexPlayer:
    """Speaks utterances, and stops speaking as soon as an answer begins."""

    def __init__(
        self, session: HalfDuplexSession, options: ReplayOptions, silence_s: float
    ) -> None:
        self._session = session
        self._patience_s = options.patience_s
        self._silence_s = silence_s
        self._pace_s = 0.0 if options.fast else _PIECE_S

    async def wait_for_greeting(self) -> None:
        """The server discards sound that arrives before the end of the greeting. Raises ClientError."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s) as limit:
                await self._read_answer(limit)

    async def play(self, step: ReplayStep) -> ReplayOutcome | None:
        """Speak the utterance; returns the answer, or None if none follows within the patience.

        Raises ClientError, CannotLoad.
        """
        speech = await asyncio.to_thread(step.samples)
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                async with in_background(self._speak(speech, limit)) as speaking:
                    return await self._read_answer(limit, speaking)
        return None

    async def _speak(self, speech: Samples, limit: asyncio.Timeout) -> None:
        margins = (round(seconds * INPUT_RATE) for seconds in (_LEAD_S, self._silence_s))
        sound = np.pad(speech, tuple(margins))
        for start in range(0, len(sound), _PIECE):
            await self._session.send_audio(sound[start : start + _PIECE])
            await asyncio.sleep(self._pace_s)
        self._wait_from_now(limit)

    async def _read_answer(
        self, limit: asyncio.Timeout, speaking: asyncio.Task[None] | None = None
    ) -> ReplayOutcome:
        began = 0.0
        while True:
            try:
                async for event in self._session.events():
                    if isinstance(event, Generating):
                        began = time.monotonic()
                        if speaking is not None:
                            speaking.cancel()
                        self._wait_from_now(limit)
                    elif isinstance(event, TurnDone):
                        return ReplayOutcome(True, event.text, _ms_since(began))
            except ServerError as error:
                if error.code == ErrorCode.INPUT_BACKPRESSURE:
                    self._pace_s = _PIECE_S
            else:
                raise ClientError(_ENDED_EARLY)

    def _wait_from_now(self, limit: asyncio.Timeout) -> None:
        limit.reschedule(asyncio.get_running_loop().time() + self._patience_s)


async def _play_duplex(plan: DuplexPlan, options: ReplayOptions) -> list[OutcomePair]:
    async with connect_duplex(
        options.url, video=plan.with_video, api_key=options.api_key
    ) as session:
        await session.wait_for_turn(no_worker_s=options.patience_s)
        async with prepared_within(options.patience_s):
            await session.prepare(
                plan.prompt, plan.config, ref_audio=plan.ref_audio, tts_ref_audio=plan.tts_ref_audio
            )
        player = _DuplexPlayer(session, options)
        async with in_background(player.receive()):
            await player.play(plan.steps)
            if not plan.cut_off:
                await player.finish_turn()
    return player.pairs(plan.steps)


class _DuplexPlayer:
    """Sends steps and assigns each answer to the step whose audio it answers."""

    def __init__(self, session: DuplexSession, options: ReplayOptions) -> None:
        self._session = session
        self._options = options
        self._answers: dict[int, ReplayOutcome] = {}
        self._ends_ms: list[int] = []
        self._refused = False
        self._mid_turn = False
        self._changed = asyncio.Event()
        self._over: ClientError | None = None

    async def play(self, steps: Sequence[ReplayStep]) -> None:
        """Raises ClientError if the session has ended, CannotLoad if a file is missing."""
        start = time.monotonic()
        for place, step in enumerate(steps):
            if not self._options.fast:
                await asyncio.sleep(start + step.at_s - time.monotonic())
            await self._play_step(step)
            while self._options.fast and not await self._wait_for(place):
                await asyncio.sleep(_RETRY_S)
                await self._play_step(step)
            if self._refused:
                raise ReplayFailed("the edge refuses the audio: it came too far ahead of real time")
        await self._wait_for(len(steps) - 1)

    async def finish_turn(self) -> None:
        """Send silence until a turn that is running at the end is complete."""
        for _ in range(_MAX_TAIL_CHUNKS):
            if not self._mid_turn:
                return
            await asyncio.sleep(0.0 if self._options.fast else 1.0)
            await self._send(np.zeros(INPUT_RATE, np.float32))
            await self._wait_for(len(self._ends_ms) - 1)

    def pairs(self, steps: Sequence[ReplayStep]) -> list[OutcomePair]:
        """The recorded steps, then answers that came after the last step."""
        played = [
            OutcomePair(step.index, step.at_s, step.recorded, self._answers.get(place))
            for place, step in enumerate(steps)
        ]
        index, at_s = steps[-1].index, steps[-1].at_s
        late = [outcome for place, outcome in sorted(self._answers.items()) if place >= len(steps)]
        return played + [
            OutcomePair(index + n, at_s + n, None, outcome) for n, outcome in enumerate(late, 1)
        ]

    async def receive(self) -> None:
        """Read results until the session is over."""
        try:
            async for unit in units(self._session, self._take_error):
                self._take(unit)
            self._over = ClientError(_ENDED_EARLY)
        except ClientError as error:
            self._over = error
        finally:
            self._changed.set()

    async def _play_step(self, step: ReplayStep) -> None:
        samples = await asyncio.to_thread(step.samples)
        frames = await asyncio.to_thread(step.images)
        await self._send(samples, frames, force_listen=step.force_listen)

    async def _send(
        self, samples: Samples, frames: Sequence[bytes] = (), *, force_listen: bool = False
    ) -> None:
        before = self._ends_ms[-1] if self._ends_ms else 0
        self._ends_ms.append(before + round(len(samples) * 1000 / INPUT_RATE))
        await self._session.send_audio(samples, frames=frames, force_listen=force_listen)

    async def _wait_for(self, place: int) -> bool:
        """Wait for the answer to a step. False if the edge refused the step; it can be sent again.

        Raises ClientError if the session is over.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.patience_s):
                while place not in self._answers and not self._refused:
                    if self._over is not None:
                        raise self._over
                    self._changed.clear()
                    await self._changed.wait()
        if not self._refused:
            return True
        self._ends_ms.pop()
        self._refused = False
        return False

    def _take(self, unit: Unit) -> None:
        """A result that arrives twice, after a change of workers, counts once."""
        message = unit.message
        place = bisect_left(self._ends_ms, message.current_time)
        outcome = ReplayOutcome(not message.is_listen, message.text, message.wall_clock_ms)
        self._answers.setdefault(place, outcome)
        self._mid_turn = outcome.speaks and not message.end_of_turn
        self._changed.set()

    def _take_error(self, error: ServerError) -> None:
        """A refused step may be sent again; a failed one has no answer."""
        if error.code == ErrorCode.INPUT_BACKPRESSURE:
            self._refused = True
        self._changed.set()


def _ms_since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)
