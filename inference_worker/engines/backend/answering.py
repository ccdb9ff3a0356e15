"""Turn-based requests to a backend server. Half-duplex turns and chats share this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from antiphon.inference_worker.engines.backend.messages import check_for_llama
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server_pool import BackendServer, ServerPool
from antiphon.inference_worker.engines.backend.view import BackendView
from antiphon.inference_worker.engines.processor import AnsweringView
from antiphon.inference_worker.engines.types import Delta, EngineLost, UnsupportedContent
from antiphon.shared_schemas.content import ConversationMessage


class BackendAnsweringView(BackendView, AnsweringView):
    """Each request has a session of its own: a server keeps the context of earlier requests otherwise."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._answering = False
        self._broken = False

    def _begin(self, history: Sequence[ConversationMessage], *, thinks: bool = False) -> None:
        """Start a session that can take this history. Raises UnsupportedContent."""

        def payload(server: BackendServer) -> dict[str, Any]:
            if server.is_llama:
                check_for_llama(history)
                if thinks:
                    text = "llama-omni-server cannot think before it answers"
                    raise UnsupportedContent(text, "enable_thinking")
            return {"mode": "turn_based"}

        self._open_session(payload)

    def _answer(self, request: dict[str, Any]) -> Iterator[Delta]:
        """Send the request and yield the answer, then end the session."""
        connection, limit_s = self._prepared(), self._options.stall_timeout_s
        connection.append(request)
        self._answering, streamed = True, False
        while not self._interrupted():
            event = connection.next(limit_s)
            if event is None:
                if self._interrupted():
                    break
                raise EngineLost(f"the backend server has sent nothing for {limit_s:g} s")
            self._note(event)
            if event.kind == "done":
                tokens = int(event.metrics.get("n_tokens", 0))
                text = "" if streamed else event.text
                yield Delta(text=text, audio=event.audio, n_tokens=tokens)
                break
            if event.kind in ("text", "audio"):
                streamed = True
                yield Delta(text=event.text, audio=event.audio)
        self._answering = False
        self._close_session()

    def _interrupted(self) -> bool:
        return self._stopped.is_set() or self._broken
