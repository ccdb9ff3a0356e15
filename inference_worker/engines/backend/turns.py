"""Turn-based requests to a backend server: half-duplex turns and chats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.inference_worker.engines.backend.messages import check_for_llama, turn_input
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server_pool import BackendServer, ServerPool
from antiphon.inference_worker.engines.backend.view import BackendView
from antiphon.inference_worker.engines.processor import AnsweringView, ChatView, HalfDuplexView
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineError,
    EngineLost,
    PastTurn,
    ProgressCallback,
    UnsupportedContent,
    no_progress,
)
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.config import ChatOptions, HalfDuplexConfig
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, Role, TextPart


class BackendAnsweringView(BackendView, AnsweringView):
    """Opens a new session for each request: otherwise, a server keeps the context of earlier requests."""

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
                # `llama-omni-server` counts by how much its context grew, which includes the prompt.
                tokens = 0 if self._on_llama else int(event.metrics.get("n_tokens", 0))
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


KEPT_TURNS = 8
"""The newest turns that are sent with their sound; of older ones only the answers are sent."""
_KEPT_SAMPLES = 120 * INPUT_RATE
"""Most sound of earlier turns. `llama-omni-server` accepts messages of up to 16 MiB."""


@dataclass(frozen=True, slots=True)
class _Turn:
    utterance: Samples | None
    answer: str = ""


class BackendHalfDuplexView(BackendAnsweringView, HalfDuplexView):
    """The protocol has no half duplex, so the view keeps the conversation and sends it with each turn.

    `llama-omni-server` uses the newest sound only: it knows its own earlier answers, and not what the
    user said.
    """

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._system: ConversationMessage | None = None
        self._config = HalfDuplexConfig()
        self._voice: Samples | None = None
        self._turns: list[_Turn] = []
        self._tokens_before = 0

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        self._begin([])
        for index, part in enumerate(system.parts):
            if self._on_llama and not isinstance(part, TextPart | AudioPart):
                text = "llama-omni-server uses no pictures of a system message"
                raise UnsupportedContent(text, f"system_content.{index}")
        self._system, self._config, self._voice = system, config, ref_audio
        self._turns.clear()
        return self.kv_cache_length

    def prefill(self, utterance: Samples) -> None:
        """Keep the utterance for `generate`."""
        if self._system is None:
            raise EngineError("the session is not prepared")
        self._answering = self._broken = False
        self._tokens_before = self._context_tokens
        self._turns.append(_Turn(utterance))

    def generate(self) -> Iterator[Delta]:
        said, config = "", self._config
        self._begin([])
        history = tuple(self._history())
        request = turn_input(history, config.generation, self._voice, speaks=config.tts.enabled)
        try:
            for delta in self._answer(request):
                said += delta.text
                yield delta
        finally:
            self._turns[-1] = replace(self._turns[-1], answer=said)

    def memo(self) -> dict[str, Any]:
        return {}

    def rollback(self) -> None:
        if self._turns:
            self._turns.pop()
            self._context_tokens = self._tokens_before

    def replay(self, turns: Sequence[PastTurn]) -> None:
        self._turns = [_Turn(turn.audio, turn.text) for turn in turns]

    def set_break(self) -> None:
        """Has no effect before the request is sent."""
        self._broken = self._answering

    def _history(self) -> Iterator[ConversationMessage]:
        assert self._system is not None, "prefill has checked it"
        yield self._system
        *past, newest = self._turns
        for turn, sound in zip(past, self._sounds(past), strict=True):
            if sound is not None:
                yield ConversationMessage(Role.USER, (sound,))
            if turn.answer:
                yield ConversationMessage(Role.ASSISTANT, (TextPart(turn.answer),))
        # llama-omni-server drops the history unless the newest message has text.
        text = (TextPart(" "),) if past and self._on_llama else ()
        assert newest.utterance is not None, "only past turns lack it"
        yield ConversationMessage(Role.USER, (AudioPart(float_bytes(newest.utterance)), *text))

    def _sounds(self, past: Sequence[_Turn]) -> list[AudioPart | None]:
        """The sound of each turn, or None if it is not sent."""
        sounds: list[AudioPart | None] = []
        left = 0 if self._on_llama else _KEPT_SAMPLES
        for turn in reversed(past):
            sound = turn.utterance if len(sounds) < KEPT_TURNS else None
            left -= 0 if sound is None else len(sound)
            sounds.append(None if sound is None or left < 0 else AudioPart(float_bytes(sound)))
        return sounds[::-1]


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
