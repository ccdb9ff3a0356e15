"""The spans that an edge adds to a session's trace."""

from antiphon.broker.clock import RedisClock
from antiphon.broker.service.tracing import OpenSpan, Tracing
from antiphon.shared_schemas.entries import InEntry, OutEntry
from antiphon.shared_schemas.states import SessionKind


class SessionTrace:
    """A connection's span, and below it one for each entry in either direction.

    `parent`: the span of the first connection, if this one resumed; otherwise a trace begins here.
    """

    def __init__(
        self, tracing: Tracing, clock: RedisClock, sid: str, kind: SessionKind, parent: bytes = b""
    ) -> None:
        self._tracing = tracing
        self._clock = clock
        attributes = {"antiphon.session": sid, "antiphon.kind": str(kind)}
        self._span = tracing.begin("session", clock.now_ms(), parent, **attributes)

    @property
    def context(self) -> bytes:
        """The parent of other processes' spans."""
        return self._span.context

    def begin_input(self, entry: InEntry, waited_s: float) -> OpenSpan:
        """Begin the span of an entry that arrived `waited_s` ago and is to be appended now."""
        began_ms = self._clock.now_ms() - waited_s * 1000
        attributes = {"antiphon.entry": entry.tag}
        return self._tracing.begin("edge.in", began_ms, self.context, **attributes)

    def end_input(self, span: OpenSpan) -> None:
        span.end(self._clock.now_ms())

    def record_output(self, answer: OutEntry) -> None:
        """Record an entry of the worker that was queued for the client's socket."""
        if answer.trace:
            attributes = {"antiphon.entry": answer.tag}
            now_ms = self._clock.now_ms()
            self._tracing.record("edge.out", answer.trace, answer.at, now_ms, **attributes)

    def end(self) -> None:
        self._span.end(self._clock.now_ms())
