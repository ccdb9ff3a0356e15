"""The servers of this engine. One that fails is in quarantine until it answers again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog

from antiphon.inference_worker.engines.backend.connection import HttpFailure, call
from antiphon.inference_worker.engines.types import EngineLoadError, EngineLost
from antiphon.shared_schemas.findings import Finding, failure, ok

log = structlog.get_logger()

_CHECK_TIMEOUT_S = 5.0
_CHECK_INTERVAL_S = 1.0
_WAKE_S = 0.1


@dataclass(eq=False)
class BackendServer:
    """One address. `is_llama` is set once its health page says that it is `llama-omni-server`."""

    address: str
    is_llama: bool = False

    def check(self) -> str:
        """Why the server can take no session now; empty if it can."""
        try:
            status, body = call(self.address, "GET", "/health", timeout_s=_CHECK_TIMEOUT_S)
        except HttpFailure as error:
            return str(error)
        if status != 200:
            return f"GET {self.address}/health answered {status}"
        self.is_llama = body.get("engine") == "comni"
        if body.get("active_session_id"):
            return f"{self.address} still has a session"
        return ""


class ServerPool:
    """Gives each server to one session at a time. Safe to use from any thread."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._free: list[BackendServer] = []
        self._quarantined = {BackendServer(address): "not checked yet" for address in addresses}
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._checking: threading.Thread | None = None

    def start(self, timeout_s: float) -> None:
        """Return when a server answers. Raises EngineLoadError if none does."""
        self._checking = threading.Thread(target=self._check, name="backend-health", daemon=True)
        self._checking.start()
        with self._changed:
            if not self._changed.wait_for(lambda: self._free, timeout_s):
                raise EngineLoadError(f"no backend server answers: {self._problems()}")

    @property
    def quarantined(self) -> int:
        with self._changed:
            return len(self._quarantined)

    def acquire(self, by: float, stopped: Callable[[], bool]) -> BackendServer:
        """Take a free server. Waits until `by` (monotonic). Raises EngineLost."""
        with self._changed:
            while not self._free:
                if time.monotonic() >= by or stopped() or self._closed.is_set():
                    raise EngineLost(f"no backend server is free: {self._problems()}")
                self._changed.wait(_WAKE_S)
            return self._free.pop(0)

    def release(self, server: BackendServer, problem: str = "") -> None:
        """Return a server; one with a problem serves again when its health page answers."""
        if problem:
            log.warning("backend_quarantined", address=server.address, reason=problem)
        with self._changed:
            if problem:
                self._quarantined[server] = problem
            else:
                self._free.append(server)
            self._changed.notify_all()

    def close(self) -> None:
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        if self._checking:
            self._checking.join()

    def _problems(self) -> str:
        return "; ".join(self._quarantined.values()) or "all are in use"

    def _check(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                waiting = list(self._quarantined)
            for server in waiting:
                self._readmit(server, server.check())
            with self._changed:
                if not self._quarantined and not self._closed.is_set():
                    self._changed.wait()
            self._closed.wait(_CHECK_INTERVAL_S if waiting else 0)

    def _readmit(self, server: BackendServer, problem: str) -> None:
        with self._changed:
            if problem:
                self._quarantined[server] = problem
                return
            del self._quarantined[server]
            self._free.append(server)
            self._changed.notify_all()
        log.info("backend_answers", address=server.address, llama=server.is_llama)


def examine(addresses: Sequence[str]) -> Iterator[Finding]:
    """For `antiphon doctor`: whether each server answers."""
    for address in addresses:
        if problem := BackendServer(address).check():
            yield failure(address, problem, "start the server, or correct `addresses`")
        else:
            yield ok(address, "answers")
