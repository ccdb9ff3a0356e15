"""One session on a backend server: a WebSocket from `session.init` to its end, and short HTTP requests."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pybase64
from websockets.exceptions import ConnectionClosed

from antiphon.inference_worker.engines.backend.server import (
    HttpFailure,
    ServerAccess,
    ServerUnavailable,
    cause_of,
)
from antiphon.inference_worker.engines.backend.websocket import CONNECT_FAILURES, ServerSocket
from antiphon.inference_worker.engines.types import EngineError, EngineLost
from antiphon.shared_schemas.audio import SILENCE, PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.unit_result import TokenUsage

CLOSE_TIMEOUT_S = 10.0
_WAKE_S = 0.1
"""How soon a call ends after its session was stopped."""

# `llama-omni-server` answers no ping while it decodes, and closes a connection that is silent for 300 s.
_KEEPALIVE: dict[str, Any] = {"ping_interval": 20.0, "ping_timeout": None}

_LLAMA_RESPONSE = re.compile(r"_resp_(\d+)$")
"""`llama-omni-server` numbers the inputs of a session in the ids of its responses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEvent:
    """One message of a server.

    `kind` is that of a delta (`listen`, `text`, `audio`), or `created`, `done` or `closed`. `input_number`
    is that of the input that the event answers, from 1; None if the server does not say.
    """

    kind: str
    input_number: int | None = None
    text: str = ""
    audio: Samples = field(default_factory=lambda: SILENCE, repr=False)
    metrics: dict[str, Any] = field(default_factory=dict)
    session_id: str = ""
    usage: TokenUsage | None = None
    """Tokens of the session so far, if the server counts."""
    chunk_usage: TokenUsage | None = None
    """Tokens since the last event with a count."""


class BackendConnection:
    """Not safe to use from several threads."""

    def __init__(self, access: ServerAccess, stopped: Callable[[], bool]) -> None:
        self.address = access.address
        self._access = access
        self.inputs = 0
        """Number of inputs sent."""
        self._stopped = stopped
        self._session_id = ""
        self._is_lost = False
        try:
            self._socket = ServerSocket(
                access, "/backend", close_timeout=CLOSE_TIMEOUT_S, **_KEEPALIVE
            )
        except CONNECT_FAILURES as error:
            text = f"{self.address} does not answer ({cause_of(error)})"
            raise ServerUnavailable(text) from error

    def open(self, payload: dict[str, Any], timeout_s: float) -> BackendEvent:
        """Start the session; returns `session.created`.

        Raises ServerUnavailable if the server ends the connection without a reason or sends nothing,
        EngineError if it refuses the session.
        """
        try:
            self._send({"type": "session.init", "payload": payload})
            event = self._receive(timeout_s)
        except ConnectionClosed as error:
            raise ServerUnavailable(f"{self.address} has closed the connection") from error
        if self._stopped():
            raise EngineError("the session was stopped")
        if event is None:
            text = f"{self.address} has opened no session within {timeout_s:g} s"
            raise ServerUnavailable(text)
        if event.kind == "closed":
            raise EngineError(f"the backend server refuses the session: {event.text}")
        self._session_id = event.session_id
        return event

    def append(self, content: dict[str, Any]) -> None:
        """Send one input. Raises EngineLost."""
        self.inputs += 1
        message = {"type": "input.append", "input": {**content, "input_id": str(self.inputs)}}
        try:
            self._send(message)
        except ConnectionClosed as error:
            raise self._lost(error) from error

    def next(self, timeout_s: float) -> BackendEvent | None:
        """The next event; None after `timeout_s` and if the session was stopped. Raises EngineLost."""
        try:
            event = self._receive(timeout_s)
        except ConnectionClosed as error:
            raise self._lost(error) from error
        if event and event.kind == "closed":
            raise EngineLost(f"the backend server has ended the session: {event.text}")
        return event

    def close(self) -> str:
        """End the session. Returns why the server may not take another one; empty if it can."""
        problem = f"{self.address} has lost a connection" if self._is_lost else ""
        if not self._session_id:
            problem = f"{self.address} was starting a session"
        else:
            path = f"/sessions/{self._session_id}/close"
            try:
                status, _ = self._access.call("POST", path, {}, timeout_s=CLOSE_TIMEOUT_S)
            except HttpFailure as error:
                problem = str(error)
            else:
                if status not in (200, 404):  # 404: it has ended already
                    problem = f"POST {self.address}{path} answered {status}"
        self._socket.close(CLOSE_TIMEOUT_S + 1)
        return problem

    def _lost(self, error: ConnectionClosed) -> EngineLost:
        self._is_lost = True
        reason = error.rcvd.reason if error.rcvd else ""
        cause = f" ({reason})" if reason else ""
        text = f"the connection to the backend server is lost{cause}"
        return EngineLost(f"{text}; please start a new conversation")

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.send(orjson.dumps(message).decode())

    def _receive(self, timeout_s: float) -> BackendEvent | None:
        by = time.monotonic() + timeout_s
        while not self._stopped():
            left_s = by - time.monotonic()
            try:
                raw = self._socket.recv(max(0.0, min(left_s, _WAKE_S)))
            except TimeoutError:
                if left_s <= _WAKE_S:
                    return None
                continue
            event = read_event(raw)
            if event is not None:
                return event
        return None


def read_event(raw: str | bytes) -> BackendEvent | None:
    """None for an event that this engine does not use. Raises EngineLost for one it cannot read."""
    try:
        message = orjson.loads(raw)
        kind = _KINDS.get(message["type"], "")
        kind = str(message["kind"]) if kind == "delta" else kind
        audio = message.get("audio")
        if not kind:
            return None
        return BackendEvent(
            kind=kind,
            input_number=_input_number(message),
            text=_reason(message) if kind == "closed" else str(message.get("text") or ""),
            audio=samples_from_bytes(pybase64.b64decode(audio), PcmFormat.F32)
            if audio
            else SILENCE,
            metrics=message.get("metrics") or {},
            session_id=str(message.get("session_id") or ""),
            usage=_usage(message.get("usage")),
            chunk_usage=_usage(message.get("chunk_usage")),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        text = f"the backend server has sent an unreadable message ({error})"
        raise EngineLost(text) from error


_KINDS = {
    "session.created": "created",
    "response.output.delta": "delta",
    "response.done": "done",
    "session.closed": "closed",
}


def _input_number(message: dict[str, Any]) -> int | None:
    input_id = message.get("input_id")
    if isinstance(input_id, str) and input_id.isdecimal():
        return int(input_id)
    found = _LLAMA_RESPONSE.search(str(message.get("response_id") or ""))
    return int(found[1]) if found else None


def _usage(counts: dict[str, Any] | None) -> TokenUsage | None:
    if not counts:
        return None

    def count(side: str, *kinds: str) -> int:
        details = counts.get(f"{side}_token_details") or {}
        return sum(max(0, int(details.get(f"{kind}_tokens") or 0)) for kind in kinds)

    return TokenUsage(
        input_text=count("input", "text"),
        input_audio=count("input", "audio"),
        input_vision=count("input", "image", "video"),
        output_text=count("output", "text"),
        output_audio=count("output", "audio"),
    )


def _reason(message: dict[str, Any]) -> str:
    detail = message.get("diagnostic") or {}
    parts = [message.get("reason"), detail.get("message")]
    return ": ".join(str(part) for part in parts if part) or "no reason given"
