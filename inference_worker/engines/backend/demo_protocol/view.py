"""What the views of all kinds share: their session on a server of the `/backend` protocol."""

import time
from collections.abc import Callable
from typing import Any

from antiphon.inference_worker.engines.backend.demo_protocol.connection import (
    BackendConnection,
    BackendEvent,
)
from antiphon.inference_worker.engines.backend.demo_protocol.server import DEMO, DemoServer, Dialect
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server import ServerUnavailable
from antiphon.inference_worker.engines.backend.server_pool import ServerPool
from antiphon.inference_worker.engines.backend.view import OneSessionView
from antiphon.shared_schemas.unit_result import TokenUsage


class DemoView(OneSessionView[DemoServer, BackendConnection]):
    """Counts its tokens as the server does."""

    waits_for_server = True  # `llama-omni-server` may have to be started again for each session

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._context_tokens = 0
        self._counted: TokenUsage | None = None
        """Tokens of the current session on the server, as it counts them."""
        self._taken = TokenUsage()

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

    @property
    def _dialect(self) -> Dialect:
        """Of the current server."""
        return DEMO if self._place is None else self._server(self._place).dialect

    def _open_session(self, payload: Callable[[DemoServer], dict[str, Any]]) -> None:
        """End the view's session and start a new one.

        `payload` may refuse the session for the server that it is asked about. Raises EngineError, and
        EngineBusy if no server is available within `open_timeout_s`.
        """
        self._close_session()

        def begin(server: DemoServer, by: float) -> BackendEvent:
            content = payload(server)
            try:
                self._session = BackendConnection(server.access, self._interrupted)
                return self._session.open(content, by - time.monotonic())
            except ServerUnavailable:
                self._close_session()
                raise

        created = self._on_a_server(begin)
        self._counted, self._taken = None, TokenUsage()
        self._note(created)

    def _note(self, event: BackendEvent) -> None:
        """Keep the length of the context and the token counts."""
        if event.usage is not None:
            self._counted = event.usage
        elif event.chunk_usage is not None:
            self._counted = (self._counted or TokenUsage()) + event.chunk_usage
        length = event.metrics.get("kv_cache_length")
        if isinstance(length, int):
            self._context_tokens = max(0, min(length, self._options.context_tokens))
