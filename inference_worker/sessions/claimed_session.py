"""A session that this worker has claimed: its registry row and its output stream."""

from functools import partial
from typing import Any

from antiphon.broker.client import Broker
from antiphon.broker.errors import StaleFence
from antiphon.broker.retry import retry_until_available
from antiphon.broker.streams import StreamWriter
from antiphon.inference_worker.engines.types import UnusableResult
from antiphon.shared_schemas.entries import (
    OutEntry,
    StreamPosition,
    UnreadableEntry,
    check_readable,
)
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
    async def open(cls, broker: Broker, worker_id: str, claim: Claim) -> "ClaimedSession":
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
        """Append an entry to the output. Raises UnusableResult for one that no edge could read."""
        try:
            check_readable(entry)
        except UnreadableEntry as error:
            raise UnusableResult(f"the engine's values cannot be used: {error}") from error
        return await retry_until_available(partial(self._writer.append, entry), "publish")

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
