"""One full-duplex session on vLLM-Omni: a WebSocket that is connected again when it breaks."""

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import structlog
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.inference_worker.engines.backend.server import (
    ServerAccess,
    ServerFull,
    ServerUnavailable,
    cause_of,
)
from antiphon.inference_worker.engines.backend.vllm_omni.events import (
    EventKind,
    OmniEvent,
    UnreadableOmniEvent,
    read_event,
)
from antiphon.inference_worker.engines.backend.websocket import CONNECT_FAILURES, ServerSocket
from antiphon.inference_worker.engines.types import EngineError

log = structlog.get_logger()

_PATH = "/v1/realtime?duplex=1&autostart=0"
"""Without `autostart=0` the server may open a session with its own settings."""
_RESUME_ANSWER_S = 10.0
_CLOSE_TIMEOUT_S = 10.0
_CUT_AFTER_S = 1.0
_WAKE_S = 0.1
"""How soon a call ends after its session was stopped."""
_RESUME_FOR_S = 10.0
"""The server keeps a session without a connection for 30 s unless it is set otherwise."""
_RESUME_PAUSE_S = 0.25
_HEARTBEAT_S = 30.0
"""A paused session sends nothing else. The server ends one that is silent for 300 s."""
_KEEPALIVE: dict[str, Any] = {"ping_interval": 10.0, "ping_timeout": 10.0}
_LIMIT = re.compile(r"\blimit=(\d+)")
_ENDS = (EventKind.ENDED, EventKind.EXPIRED, EventKind.REPLACED)


class SessionLost(Exception):
    """The server is gone, or has forgotten the session. The message says why."""


class NotOffered(Exception):
    """The server serves no full duplex."""


class OmniSession:
    """Used by one thread. `session` describes it as the server does, with its `capabilities`."""

    def __init__(self, access: ServerAccess, stopped: Callable[[], bool]) -> None:
        self._access = access
        self._stopped = stopped
        self._socket: ServerSocket | None = None
        self._id = self._token = ""
        self._newest: int | None = None
        self._acknowledged: int | None = None
        self._unknown: set[str] = set()
        self._closed = threading.Event()
        self.session: dict[str, Any] = {}

    @property
    def capabilities(self) -> dict[str, Any]:
        value = self.session.get("capabilities")
        return value if isinstance(value, dict) else {}

    def can(self, capability: str) -> bool:
        """`resume` for `supports_session_resume`, and so on."""
        return self.capabilities.get(f"supports_{capability}") is True

    def open(self, update: dict[str, Any], timeout_s: float) -> None:
        """Raises ServerFull, ServerUnavailable, NotOffered, and EngineError if the server refuses the
        session for another reason.
        """
        self._socket = self._connect()
        with suppress(ConnectionClosed):  # its reason has arrived before
            self._transmit(update)
        try:
            created = self._await(EventKind.CREATED, timeout_s)
        except ConnectionClosed as error:
            text = "the server has closed the connection instead of opening a session"
            raise ServerUnavailable(f"{self._access.address}: {text}") from error
        if created is None:
            if self._stopped():
                raise EngineError("the session was stopped")
            text = f"{self._access.address} has opened no session within {timeout_s:g} s"
            raise ServerUnavailable(text)
        if created.kind is EventKind.ERROR:
            raise self._refusal(created)
        self._adopt(created)
        threading.Thread(target=self._beat, name="vllm-omni-heartbeat", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Raises SessionLost if the server cannot be reached again."""
        try:
            self._transmit(message)
        except ConnectionClosed as error:
            self._resume(error)
            with suppress(ConnectionClosed):  # the next call resumes once more
                self._transmit(message)

    def next(self, timeout_s: float) -> OmniEvent | None:
        """The next event that the engine uses; None after `timeout_s`, and if the session was stopped.

        Raises SessionLost.
        """
        by = time.monotonic() + timeout_s
        while not self._stopped():
            left_s = by - time.monotonic()
            try:
                event = self._receive(max(0.0, min(left_s, _WAKE_S)))
            except TimeoutError:
                if left_s <= _WAKE_S:
                    return None
                continue
            except ConnectionClosed as error:
                self._resume(error)
                continue
            if event is not None and self._concerns(event):
                return event
        return None

    def acknowledge(self) -> None:
        """Let the server forget the events that have arrived."""
        if self._newest is not None and self._newest != self._acknowledged:
            self._acknowledged = self._newest
            with suppress(ConnectionClosed):  # `next` resumes
                self._transmit({"type": "session.event_ack", "server_event_seq": self._newest})

    def close(self) -> str:
        """End the session, and wait until its place is free. Returns a problem; empty if there is none."""
        self._closed.set()
        problem = self._end(self._socket) if self._socket and self._id else ""
        self._disconnect()
        return problem

    def _disconnect(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close(_CUT_AFTER_S)

    def _end(self, socket: ServerSocket) -> str:
        by = time.monotonic() + _CLOSE_TIMEOUT_S
        try:
            socket.send(orjson.dumps({"type": "session.close"}).decode())
            while True:
                raw = socket.recv(max(0.0, by - time.monotonic()))
                with suppress(UnreadableOmniEvent):
                    if read_event(raw).kind in _ENDS:
                        return ""
        except ConnectionClosed:
            return ""  # it frees the place itself
        except TimeoutError:
            return f"{self._access.address} has not ended a session within {_CLOSE_TIMEOUT_S:g} s"

    def _connect(self) -> ServerSocket:
        """Raises ServerUnavailable, NotOffered."""
        self._disconnect()
        address = self._access.address
        try:
            opened = ServerSocket(self._access, _PATH, max_queue=None, **_KEEPALIVE)
        except InvalidStatus as error:
            status = error.response.status_code
            if refusal := self._access.refused_key("/v1/realtime", status):
                raise ServerUnavailable(refusal) from error
            if status == 404:
                raise NotOffered("it has no /v1/realtime") from error
            raise ServerUnavailable(f"{address}/v1/realtime answered {status}") from error
        except CONNECT_FAILURES as error:
            raise ServerUnavailable(f"{address} does not answer ({cause_of(error)})") from error
        return opened

    def _refusal(self, error: OmniEvent) -> Exception:
        reason = f"{error.code}: {error.text}" if error.code else error.text
        if error.code == "resource_exhausted":
            limit = _LIMIT.search(error.text)
            text = f"{self._access.address} is full ({error.text})"
            return ServerFull(text, int(limit[1]) if limit else None)
        if error.code == "unsupported":
            return NotOffered(reason)
        if error.code in ("multi_api_duplex_unsupported", "internal_error", "engine_error"):
            return ServerUnavailable(f"{self._access.address} opens no session ({reason})")
        return EngineError(f"vLLM-Omni refuses the session: {reason}")

    def _adopt(self, event: OmniEvent) -> None:
        self._id = event.session_id or self._id
        self._token = event.resume_token or self._token
        self.session = event.session or self.session

    def _await(self, kind: EventKind, timeout_s: float) -> OmniEvent | None:
        """The first event of this kind, or an error."""
        by = time.monotonic() + timeout_s
        while not self._stopped() and time.monotonic() < by:
            with suppress(TimeoutError):
                event = self._receive(_WAKE_S)
                if event is not None and event.kind in (kind, EventKind.ERROR, EventKind.RESYNC):
                    return event
        return None

    def _receive(self, timeout_s: float) -> OmniEvent | None:
        """None for a message that is not used. Raises TimeoutError, ConnectionClosed."""
        assert self._socket is not None, "the session is open"
        try:
            event = read_event(self._socket.recv(timeout_s))
        except UnreadableOmniEvent as error:
            log.warning("backend_message_unreadable", error=str(error))
            return None
        if event.number is not None:
            if self._newest is not None and event.number <= self._newest:
                return None  # a resumed connection repeats it
            self._newest = event.number
        if event.kind is EventKind.UNKNOWN and event.name not in self._unknown:
            self._unknown.add(event.name)
            log.warning("backend_event_unknown", type=event.name)
        return event

    def _concerns(self, event: OmniEvent) -> bool:
        """Raises SessionLost for the end of the session."""
        if event.kind in _ENDS:
            reason = f": {event.text}" if event.text else ""
            raise SessionLost(
                f"{self._access.address} has ended the session ({event.name}{reason})"
            )
        if event.kind is EventKind.ERROR:
            log.warning("backend_error", code=event.code, error=event.text)
        if event.kind is EventKind.RESYNC:
            self._token = ""  # it cannot resume this session
        return event.kind not in (EventKind.UNUSED, EventKind.UNKNOWN, EventKind.RESYNC)

    def _transmit(self, message: dict[str, Any]) -> None:
        assert self._socket is not None, "the session is open"
        self._socket.send(orjson.dumps(message).decode())

    def _resume(self, lost: ConnectionClosed) -> None:
        """Connect again. Raises SessionLost."""
        reason = lost.rcvd.reason if lost.rcvd else ""
        cause = f"the connection to {self._access.address} is lost{reason and f' ({reason})'}"
        by = time.monotonic() + _RESUME_FOR_S
        if not self._token or not self.can("session_resume"):
            raise SessionLost(cause)
        log.warning("backend_connection_lost", address=self._access.address, reason=reason)
        while not self._stopped() and time.monotonic() < by:
            try:
                self._socket = self._connect()
                if self._resumed():
                    log.info("backend_connection_resumed", address=self._access.address)
                    return
            except (ServerUnavailable, NotOffered, ConnectionClosed) as error:
                cause = f"{cause.partition(';')[0]}; {error}"
            time.sleep(_RESUME_PAUSE_S)
        if not self._stopped():
            raise SessionLost(cause)

    def _resumed(self) -> bool:
        """Raises SessionLost if the server does not have the session any more."""
        newest = self._newest or 0
        self._transmit(
            {
                "type": "session.resume",
                "session_id": self._id,
                "resume_token": self._token,
                "last_received_server_event_seq": newest,
            }
        )
        event = self._await(EventKind.RESUMED, _RESUME_ANSWER_S)
        if event is None:
            return False
        if event.kind is EventKind.RESUMED:
            self._adopt(event)
            return True
        if event.code == "runtime_resume_failed":
            return False
        raise SessionLost(
            f"{self._access.address} has lost the session ({event.code or event.name})"
        )

    def _beat(self) -> None:
        while not self._closed.wait(_HEARTBEAT_S):
            if (socket := self._socket) is not None:
                # The thread that receives resumes; it may have closed this socket.
                with suppress(ConnectionClosed, RuntimeError):
                    socket.send('{"type":"session.heartbeat"}')
