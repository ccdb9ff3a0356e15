"""uvicorn's server with another accept loop."""

import asyncio
import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
import uvicorn

from antiphon.broker.service.status_port import HttpServer
from antiphon.edge.access.http_limits import HttpConnectionLimiter
from antiphon.edge.transport.http_protocol import EdgeHttpProtocol

log = structlog.get_logger()

ACCEPTS_PER_ITERATION = 64
"""Connections that are accepted, or refused, in one iteration of the event loop."""

STARTS_PER_ITERATION = 16
"""Of them, those that are served: about 0.1 ms each."""

_PAUSE_S = 0.5
"""After an error that repeats itself, for example without file descriptors."""

_GONE = (errno.ECONNABORTED, errno.EPROTO, errno.EINTR)
"""The client left before it was accepted."""


class Acceptor:
    """Accepts waiting connections until none is left.

    uvloop accepts one connection in an iteration of its loop. While each iteration serves many
    requests, newcomers would wait for all of those that came before them.
    """

    def __init__(
        self,
        listener: socket.socket,
        limiter: HttpConnectionLimiter,
        protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._listener = listener
        self._limiter = limiter
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._starting: set[asyncio.Task[object]] = set()
        self._read()

    def close(self) -> None:
        """Close the listener. May be called again."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()

    def _read(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        started = 0
        for _ in range(ACCEPTS_PER_ITERATION):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _GONE:
                    continue
                self._rest(error)
                return
            if not self._limiter.admit(str(address[0])):
                accepted.close()
                continue
            self._start(accepted)
            started += 1
            if started == STARTS_PER_ITERATION:
                return

    def _start(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        task = self._loop.create_task(self._serve(accepted))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:  # the client left
            accepted.close()
            log.debug("connection_not_started", error=str(error))

    def _rest(self, error: OSError) -> None:
        log.warning("edge_cannot_accept", error=str(error))
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(_PAUSE_S, self._read)


class EdgeServer(HttpServer):
    """Accepts by an Acceptor instead of the event loop."""

    def __init__(self, config: uvicorn.Config, limiter: HttpConnectionLimiter) -> None:
        super().__init__(config)
        self._limiter = limiter
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        listener = (sockets or [])[0]
        await super().startup(sockets=[])
        create: Any = self.config.http_protocol_class
        protocol = partial(
            create,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self._acceptor = Acceptor(listener, self._limiter, protocol)

    def refuse_newcomers(self) -> None:
        """Close the listener, and connections on which no request runs. WebSockets stay.

        So every load balancer sends what is new to another edge, whatever it checks.
        """
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self.server_state.connections):
            if isinstance(connection, EdgeHttpProtocol):
                connection.shutdown()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.refuse_newcomers()
        await super().shutdown(sockets)
