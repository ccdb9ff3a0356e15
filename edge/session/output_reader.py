"""Reads the output stream of one session: each entry once, in order, also after the session's end."""

import asyncio
from collections.abc import Awaitable, Callable

from antiphon.broker.retry import retry_until_available
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import SlowConsumer
from antiphon.edge.session.admission import AdmittedSession
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    DeltaOut,
    OutEntry,
    ResultOut,
    StreamPosition,
)
from antiphon.shared_schemas.states import EndReason

_LAST_ENTRY_S = 1.0
"""How long to wait for the worker's last entry after the session ended."""

_WORKER_REPORTS = frozenset(
    {
        EndReason.STOPPED,
        EndReason.PAUSE_TIMEOUT,
        EndReason.CONTEXT_FULL,
        EndReason.SERVER_SHUTDOWN,
        EndReason.ERROR,
    }
)
"""Ends that a worker causes, usually with a last entry in the stream."""

Deliver = Callable[[StreamPosition, OutEntry, float], Awaitable[None]]
"""Takes an entry, and the time of the Redis clock at which it was read."""


class OutputReader:
    """Delivers one entry at a time. `limit`: entries that may wait to be delivered.

    `position` is that of the last entry that was delivered.
    """

    def __init__(
        self, context: EdgeContext, admitted: AdmittedSession, limit: int, deliver: Deliver
    ) -> None:
        self.position = StreamPosition.before(admitted.ticket.number)
        self._broker = context.broker
        self._metrics = context.metrics
        self._patience_s = context.settings.broker_patience_s
        self._key = context.broker.keys.outbound(admitted.sid)
        self._trace = admitted.trace
        self._limit = limit
        self._deliver = deliver
        self._one_at_a_time = asyncio.Lock()

    async def follow(self) -> None:
        """Deliver entries as they arrive. Raises SlowConsumer once too many wait."""
        async with self._broker.reader.subscribe(
            self._key, self.position, limit=self._limit, patience_s=self._patience_s
        ) as entries:
            async for position, entry in entries:
                await self._take(position, entry)
                del entry  # the next wait would keep its audio in memory
        raise SlowConsumer

    async def finish(self, reason: EndReason | None, finished: asyncio.Event) -> None:
        """The session has ended: leave `follow` time for its last entry, then deliver the rest.

        Reads what `follow` has not, for example after an outage. Raises BrokerUnavailable if Redis
        does not return in time with what the worker has sent.
        """
        if reason in _WORKER_REPORTS:
            await self._wait_for_follow(finished)
        if not finished.is_set():
            rest = await retry_until_available(
                self._read_rest,
                "read the last answers of a session",
                patience_s=self._patience_s,
            )
            for position, entry in rest:
                await self._take(position, entry)

    async def _wait_for_follow(self, finished: asyncio.Event) -> None:
        """Return when `finished`, or once `follow` has delivered nothing for a while.

        It may have in memory what Redis no longer has: the recorder discards the stream of an ended
        session, also while a slow client takes its entries.
        """
        position = None
        while self._one_at_a_time.locked() or position != self.position:
            position = self.position
            try:
                async with asyncio.timeout(_LAST_ENTRY_S):
                    await finished.wait()
            except TimeoutError:
                continue  # `follow` may not be able to read the last entry
            return

    async def _read_rest(self) -> list[tuple[StreamPosition, OutEntry]]:
        """Everything at once: the stream may be discarded while a slow client takes the first entries."""
        history = self._broker.streams.history(self._key, self.position.ticket, self.position)
        return [found async for found in history]

    async def _take(self, position: StreamPosition, entry: OutEntry) -> None:
        async with self._one_at_a_time:
            if not position.follows(self.position):
                return
            self.position = position
            now_ms = self._broker.clock.now_ms()
            self._metrics.out_wait.observe(max(0.0, now_ms - entry.at) / 1000)
            await self._deliver(position, entry, now_ms)
            if isinstance(entry, ResultOut | DeltaOut | ChatDoneOut) and entry.first_audio:
                sent_ms = self._broker.clock.now_ms()
                self._metrics.observe_first_audio(entry.first_audio, sent_ms)
            if self._trace:
                self._trace.record_output(entry)
