"""A language model behind OpenAI's chat completions: Ollama, llama-server, vLLM, LM Studio, hosted ones."""

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from typing import Any

import orjson
import pybase64
import structlog

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.common.exchange import MAX_BODY, Exchange, ModelServer
from antiphon.inference_worker.engines.common.pictures import picture_part
from antiphon.inference_worker.engines.local.dialogue import STYLE_HINT, LlmMessage
from antiphon.inference_worker.engines.local.language_model import (
    LanguageModel,
    ModelAway,
)
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.pictures import text_part
from antiphon.inference_worker.engines.local.remote import faults
from antiphon.inference_worker.engines.local.remote.generation import (
    RemoteGeneration,
    estimated_tokens,
    texts_of,
)
from antiphon.inference_worker.engines.local.remote.request import (
    LlmRequest,
    latest,
    refusal_in,
    tail_of,
)
from antiphon.inference_worker.engines.local.remote.sse import ThoughtHabit
from antiphon.inference_worker.engines.local.remote.terms import THOUGHT_TOKENS, ServerTerms
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS
from antiphon.inference_worker.engines.types import EngineError, UnsupportedContent
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig

_LIST_S = 5.0
"""For the list of models at load."""

_WARM_UP_S = 300.0
"""For the first answer after load: the server may read the model from its disk."""

_WARM_UP_TOKENS = 300
"""A model whose answers begin with thoughts shows where they end."""

_PICTURE = pybase64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAIklEQVR42u3BAQ0AAADCoPdPbQ8HFAAAAAAAAAAAAAAA8G4wQAAB"
    "7OHIlwAAAABJRU5ErkJggg=="
)
"""A black PNG of 64 by 64 pixels: some models take no smaller ones."""

_ASK_AGAIN_S = 15.0
"""Between two questions to a server that does not answer."""

_LONGEST_PAUSE_S = 3.0
"""A Retry-After up to this is waited for, once."""

_UNUSED_S = 60.0
"""Since the last answer. The server may have removed the model from its memory then."""

_OF_CLIENTS = (400, 413, 415, 422, 500, 501)
"""Of answers to tools or pictures that the model does not take."""

_GO_ON = "Your answer was interrupted here. Continue after its last word, and repeat nothing of it."

log = structlog.get_logger()


class RemoteLanguageModel(LanguageModel):
    """Each reply is a request on a separate connection, so a cancelled one ends on the server too.

    `timeout_s` limits the time to the first token, and between two.
    """

    resumes_text = False

    def __init__(
        self,
        address: ModelServer,
        model: str,
        timeout_s: float,
        *,
        sees: bool,
        read_key: Callable[[], str] | None = None,
        offers_rules: bool = False,
    ) -> None:
        """`read_key` returns the key as it is now, or raises ValueError. `offers_rules`: sessions do."""
        self.sees = sees
        self._address = address
        self._read_key = read_key
        self._offers_rules = offers_rules
        self._model = model
        self._timeout_s = timeout_s
        self._terms = ServerTerms()
        self._habit = ThoughtHabit()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._is_away = False
        self._watched = False
        self._warming_up = False
        self._answered = time.monotonic()
        """When the model is known to have been in the server's memory."""
        self._probing: RemoteGeneration | None = None
        self._loading: Exchange | None = None
        """Of a request that continues after its user heard that there is no answer."""

    @classmethod
    def of(cls, options: LocalOptions) -> "RemoteLanguageModel":
        """Raises ValueError if the file with the key cannot be read any more."""
        return cls(
            ModelServer(options.llm_url or "", options.read_key()),
            options.llm_model or "",
            options.llm_timeout_s,
            sees=options.llm_sees,
            read_key=options.read_key,
            offers_rules=options.offers_rules,
        )

    @property
    def refuses_rules(self) -> bool:
        return self._terms.refuses_rules

    def stream(
        self,
        messages: Sequence[LlmMessage],
        slot: int,  # noqa: ARG002  # the server has its own
        config: DuplexConfig | GenerationConfig,
        max_tokens: int,
        counter: TokenCounter | None = None,
        tools: Sequence[dict[str, Any]] = (),
        *,
        must_call: bool = False,
    ) -> RemoteGeneration:
        timeout_s = self._timeout_s
        if self._probing is not None and self._probing.written_tokens:
            self._probing.cancel()  # its answer is long, and a small server has one place
        return self._begin(messages, config, max_tokens, timeout_s, counter, tools, must_call)

    def prefill(
        self,
        messages: Sequence[LlmMessage],
        slot: int,  # noqa: ARG002
        *,
        reuse_cache: bool = True,  # noqa: ARG002
        counter: TokenCounter | None = None,  # noqa: ARG002
        tools: Sequence[dict[str, Any]] = (),
    ) -> int:
        """An estimate: `stream` raises ContextFull if the server says so.

        When a session begins after a pause, a short request lets the server load the model again.
        """
        begins = all(message["role"] == "system" for message in messages)
        if begins and time.monotonic() - self._answered > _UNUSED_S:
            self._in_background(self._warm_up)
        return estimated_tokens(messages, tools)

    def open(self) -> None:
        """Look for the model, then let the server load it in the background. Raises nothing."""
        try:
            self.find()
        except EngineError as error:
            self.note(error)
        else:
            self._in_background(self._warm_up)

    def find(self) -> list[str]:
        """The models that the server lists. Raises EngineError if it is away or refuses the key."""
        exchange = Exchange(self._server())
        answer: SimpleQueue[list[str] | Exception] = SimpleQueue()

        def ask() -> None:
            try:
                answer.put(self._list(exchange))
            except (OSError, HTTPException, EngineError) as error:
                answer.put(error)
            finally:
                exchange.close()

        self._in_background(ask)  # nothing can end an attempt to connect
        place = self._address.place
        try:
            found = answer.get(timeout=_LIST_S)
        except Empty:
            exchange.cancel()
            raise faults.away(f"{place} lists no models within {_LIST_S:g} s") from None
        if isinstance(found, Exception):
            raise faults.of_exception(found, place) from found
        return found

    def probe(self, timeout_s: float) -> float:
        """Ask for a short answer, as sessions do; returns the seconds to its begin. Raises EngineError."""
        begun = time.monotonic()
        parts = [text_part("Hello."), picture_part(_PICTURE)]
        content = parts if self.sees else "Hello."
        question: list[LlmMessage] = [
            {"role": "system", "content": STYLE_HINT},
            {"role": "user", "content": content},
        ]
        tools = RULE_TOOLS if self._offers_rules and not self.refuses_rules else ()
        for _ in range(2):  # the first answer can show that the model thinks
            generation = self._begin(
                question, DuplexConfig(), _WARM_UP_TOKENS, timeout_s, None, tools
            )
            self._probing = generation
            begun_at, is_empty = generation.wait()
            if not (is_empty and self._habit.thinks):
                return begun_at - begun
        text = (
            f"the model gives only thoughts in {THOUGHT_TOKENS} tokens; turn them off on the server"
        )
        raise ModelAway(faults.NO_ANSWER, text)

    def close(self) -> None:
        self._closed.set()
        if self._probing is not None:
            self._probing.cancel()
        if (loading := self._loading) is not None:
            loading.stays_open = False
            loading.cancel()

    def note(self, error: EngineError | None) -> None:
        """Log a change of why the server does not answer; None if it does.

        While it does not, it is asked again from time to time, so that it is ready for the next user.
        A model that gives no text is not asked: its thoughts may cost money.
        """
        reason = error.reason if isinstance(error, ModelAway) else ""
        with self._lock:
            before, self.trouble = self.trouble, reason
            self._is_away = bool(reason) and str(error) != faults.NO_ANSWER
            watch, self._watched = (
                self._is_away and not self._watched,
                self._watched or self._is_away,
            )
        if error is None:
            self._answered = time.monotonic()
        if watch:
            self._in_background(self._watch)
        if reason and reason != before:
            log.warning("language_model_away", reason=reason)
        elif before and not reason:
            log.info("language_model_back")

    def _in_background(self, step: Callable[[], object]) -> None:
        threading.Thread(target=step, name="remote-llm-probe", daemon=True).start()

    def _watch(self) -> None:
        while self._is_away and not self._closed.wait(_ASK_AGAIN_S):
            self._warm_up()
        with self._lock:
            self._watched = False

    def _warm_up(self) -> None:
        """Let the server read the model from its disk, unless a request for that waits already."""
        with self._lock:
            if self._warming_up or self._closed.is_set():
                return
            self._warming_up = True
        try:
            self.probe(_WARM_UP_S)
        except EngineError as error:
            if not self._closed.is_set():
                self.note(error)
        else:
            self.note(None)
        finally:
            self._warming_up = False

    def _begin(
        self,
        messages: Sequence[LlmMessage],
        config: DuplexConfig | GenerationConfig,
        max_tokens: int,
        timeout_s: float,
        counter: TokenCounter | None,
        tools: Sequence[dict[str, Any]],
        must_call: bool = False,
    ) -> RemoteGeneration:
        again = functools.partial(
            self._begin, messages, config, max_tokens, timeout_s, counter, tools, must_call
        )
        continues, tail = messages[-1]["role"] == "assistant", tail_of(messages)
        if continues:
            messages, tail = [*messages, {"role": "user", "content": _GO_ON}], tail + 1
        is_spoken = isinstance(config, DuplexConfig)
        messages = latest(messages, self._terms.room, tail) if is_spoken else list(messages)
        body = self._body(messages, config, max_tokens, tools, must_call=must_call)
        if thinks := self._habit.thinks:
            body["reasoning_effort"] = "none"
            body["max_tokens"] += THOUGHT_TOKENS
        address = self._server()
        request, exchange = LlmRequest(address, body, is_spoken, tail), Exchange(address)

        def note(error: EngineError | None) -> None:
            if isinstance(error, faults.NoToken) and not self._stays(request, exchange):
                self._in_background(self._warm_up)
            self.note(error)

        reply = RemoteGeneration(
            exchange,
            address.place,
            timeout_s,
            note,
            counter,
            messages,
            tools,
            habit=self._habit,
            text_tokens=max_tokens if thinks else math.inf,
            again=None if thinks else again,
            may_be_empty=continues,
        )
        reply.start(lambda exchange: self._ask_until_loaded(exchange, request))
        return reply

    def _body(
        self,
        messages: Sequence[LlmMessage],
        config: DuplexConfig | GenerationConfig,
        max_tokens: int,
        tools: Sequence[dict[str, Any]],
        *,
        must_call: bool,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if tools:
            body["tools"] = list(tools)
        if must_call:
            body["tool_choice"] = "required"
        return body

    def _stays(self, request: LlmRequest, exchange: Exchange) -> bool:
        """Whether `request` continues without its user, one at a time: without one, servers end the load."""
        with self._lock:
            if request.answered or self._loading is not None or self._closed.is_set():
                return False
            self._loading, exchange.stays_open = exchange, True
            return True

    def _ask_until_loaded(self, exchange: Exchange, request: LlmRequest) -> HTTPResponse:
        """As `_ask`. An answer that no user waits for any more is ended at its begin."""
        try:
            response = self._ask(exchange, request)
        finally:
            with self._lock:
                request.answered, stayed = True, exchange.stays_open
                if stayed:
                    self._loading, exchange.stays_open = None, False
        if stayed:
            exchange.cancel()
            self.note(None)
        return response

    def _server(self) -> ModelServer:
        """With the key as it is in its file now, or was when the file had one."""
        if self._read_key is not None:
            with suppress(ValueError):
                self._address = replace(self._address, key=self._read_key())
        return self._address

    def _ask(self, exchange: Exchange, request: LlmRequest) -> HTTPResponse:
        """The answer with status 200. Raises EngineError, OSError, HTTPException."""
        while True:
            sent = self._terms.accepted(request.body)
            response = exchange.ask("POST", "chat/completions", sent)
            said = refusal_in(response)
            if not said and response.status == 200:
                self._terms.limit(request.room)
                return response
            if response.status == 429 and not request.waited:
                request.waited = True
                if (pause_s := _pause(response)) <= _LONGEST_PAUSE_S:
                    exchange.ended.wait(pause_s)
                    continue
            if self._terms.learn(request, sent, response.status, said):
                continue
            self._terms.forget(request)
            if response.status == 200:
                return response
            raise self._refusal(exchange, response.status, said, request)

    def _refusal(
        self, exchange: Exchange, status: int, said: bytes, request: LlmRequest
    ) -> EngineError:
        key, private = request.address.key, list(texts_of(request.body["messages"]))
        text = faults.message_of(said, [key, *private])
        if status == 404:
            try:
                known = self._list(exchange)
            except (EngineError, OSError, HTTPException):
                known = []
            return faults.of_unknown_model(self._model, known, text)
        if status in _OF_CLIENTS and (name := request.refused_field(said.decode(errors="replace"))):
            reason = f": {text}" if text else ""
            return UnsupportedContent(f"{name}: the language model refuses them{reason}", name)
        return faults.of_status(status, said, key, private)

    def _list(self, exchange: Exchange) -> list[str]:
        response = exchange.ask("GET", "models")
        body = response.read(MAX_BODY)
        if response.status == 404:
            return []  # not every server has a list
        if response.status != 200:
            raise faults.of_status(response.status, body, self._address.key)
        try:
            return [str(model["id"]) for model in orjson.loads(body)["data"] or ()]
        except (ValueError, KeyError, TypeError) as error:
            text = f"{self._address.place} has no list of models in the form of OpenAI's API"
            raise faults.away(text) from error


def _pause(response: HTTPResponse) -> float:
    """Seconds of Retry-After; a date or nothing is too long to wait for."""
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return math.inf
