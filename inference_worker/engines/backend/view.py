"""What the views of all kinds share: their server, and their session on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from antiphon.inference_worker.engines.backend.connection import (
    BackendConnection,
    BackendEvent,
    ServerUnavailable,
)
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server_pool import BackendServer, ServerPool
from antiphon.inference_worker.engines.processor import SessionView
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.unit_result import TokenUsage


class BackendView(SessionView):
    """Takes a server with the first session that it opens, and keeps it until `cleanup`."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        self._options = options
        self._servers = servers
        self._server: BackendServer | None = None
        self._connection: BackendConnection | None = None
        self._stopped = threading.Event()
        self._context_tokens = 0
        self._counted: TokenUsage | None = None
        """Tokens of the current session on the server, as it counts them."""
        self._taken = TokenUsage()

    def stop(self) -> None:
        self._stopped.set()

    def cleanup(self) -> None:
        self.stop()
        self._close_session()
        self._leave_server()

    @property
    def kv_cache_length(self) -> int:
        """As the server last reported it."""
        return self._context_tokens

    def take_usage(self) -> TokenUsage | None:
        counted, taken = self._counted, self._taken
        if counted is None:
            return None
        self._taken = counted
        return counted - taken

    def _interrupted(self) -> bool:
        """True if the current call must end."""
        return self._stopped.is_set()

    @property
    def _on_llama(self) -> bool:
        """The current server is `llama-omni-server`."""
        return self._server is not None and self._server.is_llama

    def _open_session(self, payload: Callable[[BackendServer], dict[str, Any]]) -> None:
        """End the view's session and start a new one, on another server if this one fails.

        `payload` may refuse the session for the server that it is asked about. Raises EngineError, and
        EngineLost if no server is available within `open_timeout_s`.
        """
        self._close_session()
        by = time.monotonic() + self._options.open_timeout_s
        while True:
            if self._server is None:
                self._server = self._servers.acquire(by, self._stopped.is_set)
            content = payload(self._server)
            try:
                connection = BackendConnection(self._server.address, self._interrupted)
                self._connection = connection
                created = connection.open(content, by - time.monotonic())
            except ServerUnavailable as error:
                self._close_session()
                self._leave_server(str(error))
            else:
                self._counted, self._taken = None, TokenUsage()
                self._note(created)
                return

    def _close_session(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and (problem := connection.close()):
            self._leave_server(problem)

    def _leave_server(self, problem: str = "") -> None:
        server, self._server = self._server, None
        if server is not None:
            self._servers.release(server, problem)

    def _prepared(self) -> BackendConnection:
        if self._connection is None:
            raise EngineError("the session is not prepared")
        return self._connection

    def _note(self, event: BackendEvent) -> None:
        """Keep the length of the context and the token counts."""
        if event.usage is not None:
            self._counted = event.usage
        elif event.chunk_usage is not None:
            self._counted = (self._counted or TokenUsage()) + event.chunk_usage
        length = event.metrics.get("kv_cache_length")
        if isinstance(length, int):
            self._context_tokens = max(0, min(length, self._options.context_tokens))
