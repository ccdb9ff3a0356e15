"""The servers of this engine, and their room for sessions. One that fails is in quarantine until it
answers again.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from antiphon.inference_worker.engines.backend.demo_protocol.server import DEMO, LLAMA, DemoServer
from antiphon.inference_worker.engines.backend.server import (
    HttpFailure,
    Server,
    ServerAccess,
    ServerUnavailable,
    cause_of,
)
from antiphon.inference_worker.engines.backend.vllm_omni.server import VllmOmniServer
from antiphon.inference_worker.engines.types import EngineBusy, EngineLoadError

log = structlog.get_logger()

_CHECK_INTERVAL_S = 1.0
_WAKE_S = 0.1


@dataclass(eq=False)
class PooledServer:
    """One address. `problem` is why it takes no session now; empty if it can."""

    access: ServerAccess
    server: Server | None = None
    problem: str = "not checked yet"
    admitted: int = 0
    """Sessions that the server holds for this worker at once, at most."""
    used: int = 0
    refused: int = 0
    """Of `admitted`, those that it refused lately: other programs use it, too."""

    @property
    def usable(self) -> int:
        """Sessions that run or could."""
        room = 0 if self.problem else self.admitted - self.refused
        return max(self.used, room)

    @property
    def has_room(self) -> bool:
        return self.usable > self.used

    @property
    def trouble(self) -> str:
        """For operators; empty if nothing is wrong."""
        if self.problem or not self.refused:
            return self.problem
        count = f"{self.refused} of its {self.admitted} sessions"
        return f"{self.access.address} is full: other programs use {count}"


class ServerPool:
    """Gives each server to as many sessions as it admits. Safe to use from any thread."""

    def __init__(self, accesses: Sequence[ServerAccess], slots: int) -> None:
        self._servers = [PooledServer(access) for access in accesses]
        self._slots = slots
        self.first: Server | None = None
        """The server that answered first. The others must speak its protocol."""
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._checking: threading.Thread | None = None

    def start(self, timeout_s: float) -> Server:
        """Return when a server answers. Raises EngineLoadError if none does."""
        self._checking = threading.Thread(target=self._check, name="backend-health", daemon=True)
        self._checking.start()
        with self._changed:
            self._changed.wait_for(lambda: self.first, timeout_s)
            if self.first is None:
                raise EngineLoadError(f"no backend server answers: {self._problems()}")
            return self.first

    @property
    def servers(self) -> list[Server]:
        """Those that have answered at least once."""
        with self._changed:
            return [one.server for one in self._servers if one.server is not None]

    @property
    def usable(self) -> int:
        """How many sessions can run at once now."""
        with self._changed:
            return sum(one.usable for one in self._servers)

    @property
    def problems(self) -> str:
        """Why servers take no session now, for operators; empty if all do."""
        with self._changed:
            return self._problems()

    def acquire(self, by: float, stopped: Callable[[], bool]) -> PooledServer:
        """Take the server with the fewest sessions. Waits until `by` (monotonic). Raises EngineBusy."""
        with self._changed:
            while not (free := self._with_room()):
                if time.monotonic() >= by or stopped() or self._closed.is_set():
                    problems = self._problems() or "all are in use"
                    raise EngineBusy(f"no backend server is free: {problems}")
                self._changed.wait(_WAKE_S)
            chosen = min(free, key=lambda one: one.used)
            chosen.used += 1
            return chosen

    def release(self, place: PooledServer, problem: str = "") -> None:
        """Return a place; a server with a problem serves again when it answers."""
        if problem:
            log.warning("backend_quarantined", address=place.access.address, reason=problem)
        with self._changed:
            place.used -= 1
            place.problem = problem or place.problem
            self._changed.notify_all()

    def refuse(self, place: PooledServer, limit: int | None, reason: str) -> None:
        """Return a place that the server does not have. It is tried again every second."""
        log.info("backend_full", address=place.access.address, reason=reason)
        with self._changed:
            place.used -= 1
            if limit is not None:
                place.admitted = min(place.admitted, limit)
            place.refused = max(0, place.admitted - place.used)
            self._changed.notify_all()

    def close(self) -> None:
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        if self._checking:
            self._checking.join()

    def _with_room(self) -> list[PooledServer]:
        return [one for one in self._servers if one.has_room]

    def _problems(self) -> str:
        return "; ".join(one.trouble for one in self._servers if one.trouble)

    def _check(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                away = [one for one in self._servers if one.problem]
                full = [one for one in self._servers if one.refused and not one.problem]
            for one in away:
                self._try(self._readmit, one)
            for one in full:
                self._try(self._look_for_room, one)
            with self._changed:
                idle = not any(one.problem or one.refused for one in self._servers)
                if idle and not self._closed.is_set():
                    self._changed.wait()
            self._closed.wait(_CHECK_INTERVAL_S if away or full else 0)

    def _try(self, step: Callable[[PooledServer], None], one: PooledServer) -> None:
        try:
            step(one)
        except ServerUnavailable as error:
            problem = str(error)
        except Exception as error:
            log.exception("backend_check_failed", address=one.access.address)
            problem = f"{one.access.address} sends what is not understood ({cause_of(error)})"
        else:
            return
        with self._changed:
            one.problem = problem

    def _readmit(self, one: PooledServer) -> None:
        server, used = recognise(one.access), one.used
        if self.first is not None and self.first.protocol != server.protocol:
            text = f"{server.address} is {server.product}: it needs a separate worker"
            raise ServerUnavailable(text)
        running = used + server.room(self._slots - used)
        with self._changed:
            self.first = self.first or server
            one.server, one.problem = server, ""
            one.admitted = max(running, min(self._slots, server.limit or running))
            one.refused = one.admitted - running
            self._changed.notify_all()
        log.info(
            "backend_answers", address=server.address, product=server.product, sessions=one.admitted
        )

    def _look_for_room(self, one: PooledServer) -> None:
        """For one more session: others need the room, too."""
        assert one.server is not None, "it has refused a session"
        room = one.server.room(1)
        with self._changed:
            one.refused = max(0, one.refused - room)
            self._changed.notify_all()


_TIMEOUT_S = 5.0


def recognise(access: ServerAccess) -> Server:
    """Raises ServerUnavailable, also for a server that is none of those that the engine knows."""
    try:
        status, page = access.call("GET", "/health", timeout_s=_TIMEOUT_S)
    except HttpFailure as error:
        raise ServerUnavailable(str(error)) from error
    if refusal := access.refused_key("GET /health", status):
        raise ServerUnavailable(refusal)
    if status != 200:
        raise ServerUnavailable(f"GET {access.address}/health answered {status}")
    if page.get("engine") == "comni":
        return DemoServer(access, LLAMA)
    if "backend" in page or "active_session_id" in page:
        return DemoServer(access, DEMO)
    if page.get("status") == "healthy":
        return VllmOmniServer(access)
    shown = ", ".join(sorted(page)) or "no JSON object"
    known = "llama-omni-server, the demo's backend, nor vLLM-Omni"
    text = f"{access.address} is neither {known}: GET /health answered with {shown}"
    raise ServerUnavailable(text)
