"""Carrying out what a session's machine decides, until the session or its connection is over."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from antiphon.broker.errors import BrokerUnavailable, StaleFence
from antiphon.edge.boarding import Admitted
from antiphon.edge.context import EdgeContext
from antiphon.edge.dialects import Dialect
from antiphon.edge.errors import Close, Fault, Replaced, ResumeExpired, explain
from antiphon.edge.inbox import Inbox
from antiphon.edge.ledger import Ledger
from antiphon.edge.protocols.contract import Actions, Finish, Forward, Machine, Tell
from antiphon.edge.settings import Unsent, capabilities
from antiphon.edge.teller import PlainTeller, Teller
from antiphon.edge.transport.connection import ClientConnection
from antiphon.edge.transport.send_queue import SendQueue
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.stream_position import StreamPosition

log = structlog.get_logger()


class Conduct:
    """The session's ways in and out, and how it ends. `ledger`: its client may come back."""

    def __init__(
        self,
        edge: EdgeContext,
        line: ClientConnection,
        admitted: Admitted,
        machine: Machine[Any],
        dialect: Dialect,
        unsent: Unsent,
    ) -> None:
        limits, metrics = edge.settings, edge.metrics
        sid, number, hold = admitted.seat.sid, admitted.ticket.number, admitted.hold
        patience_s, trace = limits.broker_patience_s, admitted.trace
        self.inbox = Inbox(edge.broker, sid, number, patience_s, metrics.append, trace)
        self.outbox = SendQueue(line, unsent, limits.send_stall_s, metrics.send)
        self.finished = asyncio.Event()
        self.reason = EndReason.CLIENT_GONE
        self.ledger: Ledger | None = None
        self._dialect = dialect
        offer = capabilities(limits) if admitted.wishes.capabilities else None
        self.teller: Teller = PlainTeller(self.outbox, line.encoding, offer)
        if hold:
            book = (machine, self.inbox, self.outbox, line.encoding)
            self.teller = self.ledger = Ledger(*book, hold.token, number, offer)

    def do(self, actions: Actions, heard: StreamPosition | None = None) -> None:
        """Carry out what one event led to; `heard`: it was the output entry there."""
        if self.finished.is_set():
            return
        for action in actions:
            match action:
                case Tell(message=message):
                    self.teller.tell(message)
                case Forward(entry=entry):
                    self.inbox.put(entry)
                case Finish():
                    self.finish(action)
                    return
        self.teller.settle(heard)

    def finish(self, finish: Finish) -> None:
        """The session is over; its connection closes behind what was told."""
        self.reason = finish.reason
        self.finished.set()
        self.teller.flush()
        self.outbox.close_after_sent(finish.close)

    def say_why(self, fault: Fault, *then: Finish) -> None:
        """Tell of a fault."""
        self.do([*(Tell(message) for message in self._dialect(fault)), *then])

    def fail(self, error: Exception) -> None:
        """Something else went wrong: the client is told, and its connection closed.

        Raises Replaced when it only was that another connection has the session by now.
        """
        if self.ledger and isinstance(error, StaleFence):
            raise Replaced from error
        if isinstance(error, ResumeExpired):
            self.outbox.close_after_sent(Close.RESUME_EXPIRED)
            return
        if self.ledger and self.ledger.token_told and isinstance(error, BrokerUnavailable):
            log.warning("session_let_go", error=str(error))
            self.outbox.close_after_sent(
                Close.RESTART
            )  # not over: it waits for its client, as after a drain
            return
        fault = explain(error)
        if fault.expected:
            log.info("session_failed", error=str(error))
        else:
            log.error("session_crashed", exc_info=error)
        self.say_why(fault, Finish(fault.close or Close.INTERNAL, EndReason.ERROR))
