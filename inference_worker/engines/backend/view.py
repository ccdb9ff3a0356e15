"""What the views of all servers share: their place on a server."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server import (
    Server,
    ServerFull,
    ServerUnavailable,
)
from antiphon.inference_worker.engines.backend.server_pool import PooledServer, ServerPool
from antiphon.inference_worker.engines.processor import SessionView
from antiphon.inference_worker.engines.types import EngineError, PastUnit
from antiphon.shared_schemas.audio import Samples

_PAST_CHARACTERS = 4000


class ServerSession(Protocol):
    """An open session on a server."""

    def close(self) -> str:
        """Returns what is wrong with the server, or an empty text."""


@dataclass(slots=True)
class UnitInArrival:
    """What has arrived of a full-duplex unit since the last result."""

    texts: list[str] = field(default_factory=list)
    sound: list[Samples] = field(default_factory=list)
    settles_at: float | None = None


def prompt_with_past(prompt: str, units: Sequence[PastUnit]) -> str:
    """A prompt that contains what was said, for servers that cannot rebuild a context; empty if nothing was."""
    said = "".join(f"{unit.text}\n" if unit.end_of_turn else unit.text for unit in units)
    past = said.strip()[-_PAST_CHARACTERS:]
    return f"{prompt}\nEarlier in this conversation you said:\n{past}" if past else ""


ServerT = TypeVar("ServerT", bound=Server)
OpenedT = TypeVar("OpenedT")
SessionT = TypeVar("SessionT", bound=ServerSession)


class BackendView(SessionView, Generic[ServerT]):
    """Takes a place on a server with the first session that it opens, and keeps it until `cleanup`."""

    waits_for_server = False
    """Without a free server, wait for one. Otherwise the session returns to the queue."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        self._options = options
        self._servers = servers
        self._place: PooledServer | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def _interrupted(self) -> bool:
        """True if the current call must end."""
        return self._stopped.is_set()

    def _on_a_server(self, begin: Callable[[ServerT, float], OpenedT]) -> OpenedT:
        """`begin` on the view's server, or on others if it cannot be used. Its second argument is the
        time (monotonic) until which it may take.

        Raises EngineBusy if no server is free, within `open_timeout_s` if the view waits.
        """
        by = time.monotonic() + self._options.open_timeout_s
        while True:
            if self._place is None:
                patience = by if self.waits_for_server else 0.0
                self._place = self._servers.acquire(patience, self._stopped.is_set)
            try:
                return begin(self._server(self._place), by)
            except ServerFull as full:
                place, self._place = self._place, None
                self._servers.refuse(place, full.limit, str(full))
            except ServerUnavailable as error:
                self._leave_server(str(error))

    def _server(self, place: PooledServer) -> ServerT:
        """The pool gives a view servers of its family only."""
        return place.server  # type: ignore[return-value]

    def _leave_server(self, problem: str = "") -> None:
        place, self._place = self._place, None
        if place is not None:
            self._servers.release(place, problem)


class OneSessionView(BackendView[ServerT], Generic[ServerT, SessionT]):
    """Has one session at a time on its server."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._session: SessionT | None = None

    def cleanup(self) -> None:
        self.stop()
        self._close_session()
        self._leave_server()

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None and (problem := session.close()):
            self._leave_server(problem)

    def _prepared(self) -> SessionT:
        if self._session is None:
            raise EngineError("the session is not prepared")
        return self._session
