"""Stores a conversation's older units or turns for recovery, and trims the session's streams behind them.

A session's share of Redis does not grow with its length, except by what recovery needs of each unit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Generic

import structlog

from antiphon.broker.connections.outages import retry_until_available
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.streams import StreamWriter
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.context import WorkerContext
from antiphon.inference_worker.sessions.past_steps import FinishedStep, StepT, encode_steps
from antiphon.inference_worker.sessions.trimming import TrimBounds, TrimPoints
from antiphon.shared_schemas.entries import StreamPosition

log = structlog.get_logger()

_ADVANCES = 9
"""How often input without a finished turn is trimmed in `stream_kept_s`."""


class ConversationPast(Generic[StepT]):
    """Stores steps in batches of `batch`, except those whose `count` is within `lag` of the newest.

    Trimmed is what is stored, is no longer needed for a resume, and is on the recorder's disk.
    `recorded` is False if there is nothing to wait for, because the client does not consent.
    """

    def __init__(
        self, context: WorkerContext, session: ClaimedSession, *, lag: int, batch: int
    ) -> None:
        self.recorded = True
        self.keeps_audio = context.processor.info.replayed_audio > 0
        self._broker = context.broker
        self._session = session
        self._lag = lag
        self._batch = batch
        steps = context.processor.info.replayed_audio
        self._max_entries = -(-steps // batch) + 1 if steps else None
        self._writer: StreamWriter | None = None
        self._recent: deque[FinishedStep[StepT]] = deque()
        self._points = TrimPoints(session.claim.ticket, context.settings.stream_kept_s)
        self._advance_s = context.settings.stream_kept_s / _ADVANCES
        self._advanced_s = 0.0
        self._trimmed: TrimBounds | None = None

    async def open(self) -> None:
        """Shut out the previous worker. Required before the past is read for recovery."""
        streams, claim = self._broker.streams, self._session.claim
        key = claim.sid, claim.ticket, claim.epoch
        self._writer = await retry_until_available(
            lambda: streams.past_writer(*key, self._max_entries), "open a session's past"
        )

    def restore(self, covered: TrimBounds | None, recent: Sequence[FinishedStep[StepT]]) -> None:
        """Continue after another worker, which has stored the steps up to `covered`."""
        if covered is not None:
            self._points.add(time.monotonic(), covered)
        self._recent.extend(recent)

    async def add(self, finished: FinishedStep[StepT]) -> None:
        """Add the newest unit or turn."""
        self._recent.append(finished)
        before = finished.count - self._lag
        due = sum(item.count <= before for item in self._recent)
        if due >= self._batch:
            await self._store(due)

    async def advance(self, position: StreamPosition) -> None:
        """No utterance is open at this input: recovery does not need anything before it."""
        now_s = time.monotonic()
        if now_s - self._advanced_s >= self._advance_s:
            self._advanced_s = now_s
            self._points.add(now_s, self._points.covered._replace(inputs=position))
            await self._trim()

    async def _store(self, count: int) -> None:
        if self._writer is None:
            await self.open()
        assert self._writer is not None
        steps = [self._recent.popleft() for _ in range(count)]
        entry = encode_steps(steps, with_audio=self.keeps_audio)
        await retry_until_available(partial(self._writer.append, entry), "store a session's past")
        last = steps[-1]
        self._points.add(last.at_s, TrimBounds(last.last_input, last.last_output))
        await self._trim()

    async def _trim(self) -> None:
        """A failure delays it until the next step is stored."""
        broker, claim = self._broker, self._session.claim
        bounds = self._points.due(time.monotonic(), self._session.last_output)
        if bounds is None:
            return
        try:
            if self.recorded:
                progress = await broker.recorder_progress.load(claim.ticket)
                if progress is None:
                    return
                on_disk = (StreamPosition.parse(progress[side]) for side in ("in", "out"))
                bounds = bounds.up_to(*on_disk)
            if bounds != self._trimmed:
                await broker.streams.trim(claim.sid, *bounds)
                self._trimmed = bounds
        except BrokerUnavailable as error:
            log.info("trim_delayed", error=str(error))
