"""Turn-based requests to a backend server: half-duplex turns and chats."""

from collections.abc import Iterator, Sequence
from typing import Any

from antiphon.inference_worker.engines.backend.demo_protocol.messages import turn_input
from antiphon.inference_worker.engines.backend.demo_protocol.server import DemoServer
from antiphon.inference_worker.engines.backend.demo_protocol.view import DemoView
from antiphon.inference_worker.engines.backend.half_duplex import HistoryView, TurnHistory
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server_pool import ServerPool
from antiphon.inference_worker.engines.processor import AnsweringView, ChatView
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineLost,
    ProgressCallback,
    no_progress,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage


class BackendAnsweringView(DemoView, AnsweringView):
    """Opens a new session for each request: otherwise, a server keeps the context of earlier requests."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._answering = False
        self._broken = False

    def _begin(self, history: Sequence[ConversationMessage], *, thinks: bool = False) -> None:
        """Start a session that can take this history. Raises UnsupportedContent."""

        def payload(server: DemoServer) -> dict[str, Any]:
            server.dialect.check_request(history, thinks=thinks)
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
                counted = int(event.metrics.get("n_tokens", 0))
                tokens = 0 if self._dialect.counts_prompt else counted
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


class BackendHalfDuplexView(BackendAnsweringView, HistoryView):
    """The protocol has no half duplex, so the view keeps the conversation and sends it with each turn.

    `llama-omni-server` uses the newest sound only: it knows its own earlier answers, and not what the
    user said.
    """

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        self._begin([])
        self._dialect.check_system(system)
        return super().prepare(system, config, ref_audio)

    def prefill(self, utterance: Samples) -> None:
        self._answering = self._broken = False
        super().prefill(utterance)

    def _answers(self, history: TurnHistory) -> Iterator[Delta]:
        self._begin([])
        messages, config = self._dialect.turns(history), self._config
        yield from self._answer(
            turn_input(messages, config.generation, self._voice, speaks=config.tts.enabled)
        )

    def set_break(self) -> None:
        """Has no effect before the request is sent."""
        self._broken = self._answering


class BackendChatView(BackendAnsweringView, ChatView):
    """The server receives the history with `generate`, so `prefill` reports no tokens of it."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._request: dict[str, Any] = {}

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,  # noqa: ARG002  # a server reports none
    ) -> int:
        self._begin(messages, thinks=options.enable_thinking)
        speaks = options.tts.enabled
        self._request = turn_input(messages, options.generation, ref_audio, speaks=speaks) | {
            "omni_mode": options.omni_mode,
            "use_tts_template": options.use_tts_template or speaks,
            "enable_thinking": options.enable_thinking,
        }
        if options.max_slice_nums is not None:
            self._request["image"] = {"max_slice_nums": options.max_slice_nums}
        return self.kv_cache_length

    def generate(self) -> Iterator[Delta]:
        return self._answer(self._request)
