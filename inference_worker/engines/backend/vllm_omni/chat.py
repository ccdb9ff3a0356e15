"""Turn-based requests to vLLM-Omni: half-duplex turns and chats, over its chat completions."""

import threading
from collections.abc import Iterator, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any

import orjson
import pybase64
import structlog

from antiphon.inference_worker.engines.backend.half_duplex import HistoryView, TurnHistory
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server import ServerUnavailable, cause_of
from antiphon.inference_worker.engines.backend.server_pool import ServerPool
from antiphon.inference_worker.engines.backend.view import BackendView
from antiphon.inference_worker.engines.backend.vllm_omni.messages import (
    chat_request,
    chat_settings,
)
from antiphon.inference_worker.engines.backend.vllm_omni.server import VllmOmniServer
from antiphon.inference_worker.engines.common.exchange import Exchange, ModelServer
from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineError,
    EngineLost,
    ProgressCallback,
    no_progress,
)
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import ConversationMessage
from antiphon.shared_schemas.unit_result import TokenUsage
from antiphon.shared_schemas.wav import UnreadableWav, open_wav

log = structlog.get_logger()

_MAX_LINE = 64 * 1024 * 1024
"""Bytes of one event. An answer without streaming inside the server comes in one piece."""
_MAX_ERROR = 64 * 1024
_BUSY = (429, 503)


class VllmOmniAnsweringView(BackendView[VllmOmniServer]):
    """Sends one request for each answer. It costs no session of the server."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._exchange: Exchange | None = None
        self._ended = threading.Event()
        """The current answer was interrupted."""
        self._used: TokenUsage | None = None
        self._context_tokens = 0

    def stop(self) -> None:
        super().stop()
        self._cancel()

    def cleanup(self) -> None:
        self.stop()
        self._leave_server()

    @property
    def kv_cache_length(self) -> int:
        """Tokens of the newest request and its answer, as the server counted them."""
        return min(self._context_tokens, self._options.context_tokens)

    def take_usage(self) -> TokenUsage | None:
        used, self._used = self._used, None
        return used

    def _cancel(self) -> None:
        self._ended.set()
        if exchange := self._exchange:
            exchange.cancel()

    def _answer(self, request: dict[str, Any]) -> Iterator[Delta]:
        """Send the request and yield the answer. Raises EngineError, EngineBusy, EngineLost."""
        exchange, response = self._on_a_server(
            lambda server, _: self._ask(server, {"model": server.model, **request})
        )
        finished = False
        try:
            for chunk in _events(response):
                finished = finished or chunk is None
                if chunk is not None:
                    self._count(chunk)
                    yield from self._read(chunk)
            if not finished and not self._interrupted():
                raise EngineLost("the backend server has cut off its answer")
        except (OSError, HTTPException) as error:
            if not self._interrupted():
                text = f"the connection to the backend server is lost ({cause_of(error)})"
                raise EngineLost(f"{text}; please start a new conversation") from error
        finally:
            self._exchange = None
            exchange.close()

    def _interrupted(self) -> bool:
        return self._stopped.is_set() or self._ended.is_set()

    def _ask(
        self, server: VllmOmniServer, request: dict[str, Any]
    ) -> tuple[Exchange, HTTPResponse]:
        access = server.access
        exchange = Exchange(ModelServer(f"{access.address}/v1", more_headers=access.headers))
        self._exchange = exchange
        if self._interrupted():
            exchange.cancel()
        try:
            response = exchange.ask("POST", "chat/completions", request)
        except (OSError, HTTPException) as error:
            exchange.close()
            if self._interrupted():
                raise EngineError("the answer was interrupted") from error
            raise ServerUnavailable(
                f"{access.address} does not answer ({cause_of(error)})"
            ) from error
        if response.status == 200:
            return exchange, response
        said = _message(response.read(_MAX_ERROR))
        exchange.close()
        if response.status in _BUSY:
            raise ServerUnavailable(
                f"{access.address}: vLLM-Omni answered {response.status}: {said}"
            )
        raise EngineError(f"vLLM-Omni answered {response.status}: {said}")

    def _count(self, chunk: dict[str, Any]) -> None:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            read, written = int(usage.get("prompt_tokens") or 0), _written(usage)
            self._used = TokenUsage(input_text=read, output_text=written)
            self._context_tokens = read + written

    @staticmethod
    def _read(chunk: dict[str, Any]) -> Iterator[Delta]:
        """Text, or sound: the server marks the chunks of each."""
        if chunk.get("error"):
            raise EngineError(f"vLLM-Omni failed: {_message(orjson.dumps(chunk))}")
        for choice in chunk.get("choices") or ():
            content = (choice.get("delta") or {}).get("content")
            if not content:
                continue
            if chunk.get("modality", "text") == "audio":
                yield Delta(audio=_sound(content))
            else:
                yield Delta(text=str(content), n_tokens=1)


def _events(response: HTTPResponse) -> Iterator[dict[str, Any] | None]:
    """The chunks of a streamed answer, and None at its end. Unreadable ones are left out."""
    while line := response.readline(_MAX_LINE):
        name, _, data = line.partition(b":")
        data = data.strip()
        if name != b"data" or not data:
            continue
        if data == b"[DONE]":
            yield None
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            log.warning("backend_message_unreadable", error=str(error))
            continue
        if isinstance(chunk, dict):
            yield chunk


def _written(usage: dict[str, Any]) -> int:
    return int(usage.get("completion_tokens") or 0)


def _sound(content: str) -> Samples:
    """One piece of the answer, as one WAV file."""
    try:
        wav = open_wav(pybase64.b64decode(content, validate=True))
    except (UnreadableWav, ValueError) as error:
        log.warning("backend_message_unreadable", error=str(error))
        return SILENCE
    if wav.rate != OUTPUT_RATE:
        raise EngineError(f"vLLM-Omni sends sound at {wav.rate} Hz, and not {OUTPUT_RATE} Hz")
    return wav.mono()


def _message(body: bytes) -> str:
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = body.decode(errors="replace")
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    return " ".join(str(value).split())[:300] or "no reason given"


class VllmOmniHalfDuplexView(VllmOmniAnsweringView, HistoryView):
    """The conversation is sent with each turn."""

    _answering = False

    def prefill(self, utterance: Samples) -> None:
        self._ended.clear()
        super().prefill(utterance)

    def _answers(self, history: TurnHistory) -> Iterator[Delta]:
        config = self._config
        self._answering = True
        try:
            yield from self._answer(
                chat_request(
                    history.messages(), config.generation, self._voice, speaks=config.tts.enabled
                )
            )
        finally:
            self._answering = False

    def set_break(self) -> None:
        """Has no effect before the request is sent."""
        if self._answering:
            self._cancel()


class VllmOmniChatView(VllmOmniAnsweringView, ChatView):
    """The server receives the history with `generate`, so `prefill` reports no tokens of it."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._request: dict[str, Any] = {}

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,  # noqa: ARG002  # the server reports none
    ) -> int:
        speaks = options.tts.enabled
        request = chat_request(messages, options.generation, ref_audio, speaks=speaks)
        self._request = request | chat_settings(options)
        return self.kv_cache_length

    def generate(self) -> Iterator[Delta]:
        return self._answer(self._request)
