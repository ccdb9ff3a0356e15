"""A session this worker holds: its place in the registry and its voice, both fenced by the epoch."""

from __future__ import annotations

from typing import Any

from antiphon.broker.client import Broker
from antiphon.broker.errors import StaleFence
from antiphon.broker.retry import retry_until_available
from antiphon.broker.streams import StreamWriter
from antiphon.shared_schemas.entries import InEntry, OutEntry
from antiphon.shared_schemas.registry import Claim, Latency
from antiphon.shared_schemas.states import EndReason, SessionState
from antiphon.shared_schemas.stream_position import StreamPosition


class HeldSession:
    """Every call sits out outages of Redis, and raises StaleFence once the session is someone else's."""

    def __init__(self, broker: Broker, worker_id: str, claim: Claim, writer: StreamWriter) -> None:
        self.claim = claim
        self.state = SessionState.ASSIGNED
        self.latency: Latency | None = None
        """Of its newest answer here."""
        self._broker = broker
        self._worker_id = worker_id
        self._writer = writer

    @classmethod
    async def open(cls, broker: Broker, worker_id: str, claim: Claim) -> HeldSession:
        """Take the out stream over from whoever wrote it before."""
        writer = await retry_until_available(
            lambda: broker.streams.output_writer(claim.sid, claim.ticket, claim.epoch),
            "open a session's output",
        )
        return cls(broker, worker_id, claim, writer)

    def answered(self, after_ms: float) -> None:
        """Its client has been answered again, or is being so from now on."""
        count = self.latency.count if self.latency else 0
        self.latency = Latency(count + 1, round(after_ms, 1))

    async def publish(self, entry: OutEntry) -> None:
        """Say one thing to the client's edge and the recorder."""
        await retry_until_available(lambda: self._writer.append(entry), "publish")

    async def save_prepare(self, n: int, prepare: InEntry) -> None:
        """Keep input `n`, the `prepare` that was accepted, for as long as the session lives."""
        position = StreamPosition(self.claim.ticket, self.claim.epoch, n)
        await retry_until_available(
            lambda: self._broker.streams.save_prepare(self.claim.sid, position, prepare),
            "keep a session's beginning",
        )

    async def move(self, state: SessionState, summary: dict[str, Any] | None = None) -> None:
        """Enter the next state."""
        sid, epoch = self.claim.sid, self.claim.epoch
        moved = await retry_until_available(
            lambda: self._broker.leases.move(sid, self._worker_id, epoch, state, summary=summary),
            "move a session",
        )
        if not moved:
            raise StaleFence(f"session {sid} is no longer held under epoch {epoch}")
        self.state = state

    async def end(self, reason: EndReason) -> None:
        """End it for everyone."""
        sid, epoch, ticket = self.claim.sid, self.claim.epoch, self.claim.ticket
        await retry_until_available(
            lambda: self._broker.sessions.end(sid, reason, epoch=epoch, ticket=ticket),
            "end a session",
        )
        self.state = SessionState.ENDED
