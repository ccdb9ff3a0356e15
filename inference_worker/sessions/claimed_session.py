"""A session that this worker has claimed: its registry row and its output stream."""

from __future__ import annotations

from functools import partial
from typing import Any

from antiphon.broker.client import Broker
from antiphon.broker.connections.client import retry_until_available
from antiphon.broker.errors import StaleFence
from antiphon.broker.streams import StreamWriter
from antiphon.shared_schemas.entries import InEntry, OutEntry, StreamPosition
from antiphon.shared_schemas.registry import Claim, Latency
from antiphon.shared_schemas.states import EndReason, SessionState


class ClaimedSession:
    """Writes are fenced by the epoch of the claim.

    Every method retries while Redis is unavailable, and raises StaleFence if another worker has the
    session.
    """

    def __init__(self, broker: Broker, worker_id: str, claim: Claim, writer: StreamWriter) -> None:
        self.claim = claim
        self.state = SessionState.ASSIGNED
        self.latency: Latency | None = None
        """Of the newest answer by this worker."""
        self._broker = broker
        self._worker_id = worker_id
        self._writer = writer

    @classmethod
    async def open(cls, broker: Broker, worker_id: str, claim: Claim) -> ClaimedSession:
        """Become the only writer of the output stream."""
        writer = await retry_until_available(
            lambda: broker.streams.output_writer(claim.sid, claim.ticket, claim.epoch),
            "open a session's output",
        )
        return cls(broker, worker_id, claim, writer)

    @property
    def last_output(self) -> StreamPosition:
        return self._writer.last

    def record_latency(self, ms: float) -> None:
        count = self.latency.count if self.latency else 0
        self.latency = Latency(count + 1, round(ms, 1))

    async def publish(self, entry: OutEntry) -> StreamPosition:
        """Append an entry to the output."""
        return await retry_until_available(partial(self._writer.append, entry), "publish")

    async def save_prepare(self, n: int, prepare: InEntry) -> None:
        """Store the accepted `prepare`, input `n`, until the session ends."""
        position = StreamPosition(self.claim.ticket, self.claim.epoch, n)
        await retry_until_available(
            lambda: self._broker.streams.save_prepare(self.claim.sid, position, prepare),
            "store a session's `prepare`",
        )

    async def move(self, state: SessionState, summary: dict[str, Any] | None = None) -> None:
        sid, epoch = self.claim.sid, self.claim.epoch
        moved = await retry_until_available(
            lambda: self._broker.leases.move(sid, self._worker_id, epoch, state, summary=summary),
            "move a session",
        )
        if not moved:
            raise StaleFence(f"session {sid} is no longer held under epoch {epoch}")
        self.state = state

    async def end(self, reason: EndReason) -> None:
        sid, epoch, ticket = self.claim.sid, self.claim.epoch, self.claim.ticket
        await retry_until_available(
            lambda: self._broker.sessions.end(sid, reason, epoch=epoch, ticket=ticket),
            "end a session",
        )
        self.state = SessionState.ENDED
