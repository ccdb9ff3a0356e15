"""What an edge adds to a session's trace, where traces are wanted."""

from __future__ import annotations

from antiphon.broker.connection import RedisClock
from antiphon.broker.service.tracing import OpenSpan, Tracing
from antiphon.shared_schemas.entries import InEntry, OutEntry
from antiphon.shared_schemas.states import SessionKind


class SessionTrace:
    """One connection's span, and under it one for each entry that comes or goes.

    `parent`: the connection before, whose client has come back; without one a trace begins here.
    """

    def __init__(
        self, tracing: Tracing, clock: RedisClock, sid: str, kind: SessionKind, parent: bytes = b""
    ) -> None:
        self._tracing = tracing
        self._clock = clock
        about = {"antiphon.session": sid, "antiphon.kind": str(kind)}
        self._span = tracing.begin("session", clock.now_ms(), parent, **about)

    @property
    def context(self) -> bytes:
        """What other processes' spans belong under."""
        return self._span.context

    def taken(self, entry: InEntry, waited_s: float) -> OpenSpan:
        """An entry that came `waited_s` ago is about to be appended; to be ended when it is."""
        began_ms = self._clock.now_ms() - waited_s * 1000
        about = {"antiphon.entry": entry.tag}
        return self._tracing.begin("edge.in", began_ms, self.context, **about)

    def appended(self, span: OpenSpan) -> None:
        """The entry is in the stream."""
        span.end(self._clock.now_ms())

    def told(self, answer: OutEntry) -> None:
        """What a worker appended has been handed to the client's socket."""
        if answer.trace:
            about = {"antiphon.entry": answer.tag}
            now_ms = self._clock.now_ms()
            self._tracing.record("edge.out", answer.trace, answer.at, now_ms, **about)

    def end(self) -> None:
        """The connection is closed."""
        self._span.end(self._clock.now_ms())
