"""A language model behind OpenAI's chat completions: Ollama, llama-server, vLLM, LM Studio, hosted ones."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any

import orjson
import structlog

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.common.exchange import MAX_BODY, Exchange, ModelServer
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.language_model import (
    LanguageModel,
    ModelAway,
)
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.remote import faults
from antiphon.inference_worker.engines.local.remote.generation import (
    RemoteGeneration,
    estimated_tokens,
    texts_of,
)
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig

_LIST_S = 5.0
"""For the list of models at load."""

_WARM_UP_S = 300.0
"""For the first answer after load: the server may read the model from its disk."""

_WARM_UP_TOKENS = 16
_ASK_AGAIN_S = 15.0
"""Between two questions to a server that does not answer."""

_LONGEST_PAUSE_S = 3.0
"""A Retry-After up to this is waited for, once."""

_OPTIONAL = ("stream_options", "temperature", "top_p")
"""Fields that a server may refuse. The request is then sent again without, as without the rules."""

_GO_ON = "Your answer was interrupted here. Continue after its last word, and repeat nothing of it."

_log = structlog.get_logger()


class RemoteLanguageModel(LanguageModel):
    """Each reply is a request on a separate connection, so a cancelled one ends on the server too.

    `timeout_s` limits the time to the first token, and between two.
    """

    resumes_text = False

    def __init__(self, address: ModelServer, model: str, timeout_s: float, *, sees: bool) -> None:
        self.sees = sees
        self._address = address
        self._model = model
        self._timeout_s = timeout_s
        self._refused: set[str] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._watched = False
        self._probing: RemoteGeneration | None = None

    @classmethod
    def of(cls, options: LocalOptions) -> "RemoteLanguageModel":
        """Raises ValueError if the file with the key cannot be read any more."""
        address = ModelServer(options.llm_url or "", options.read_key())
        model, timeout_s = options.llm_model or "", options.llm_timeout_s
        return cls(address, model, timeout_s, sees=options.llm_sees)

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
        """An estimate: nothing is sent. `stream` raises ContextFull if the server says so."""
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
        exchange = Exchange(self._address)
        timer = threading.Timer(_LIST_S, exchange.cancel)
        timer.daemon = True
        timer.start()
        try:
            return self._list(exchange)
        except (OSError, HTTPException, EngineError) as error:
            if exchange.ended.is_set():
                raise faults.away(
                    f"{self._address.place} lists no models within {_LIST_S:g} s"
                ) from error
            raise faults.of_exception(error, self._address.place) from error
        finally:
            timer.cancel()
            exchange.close()

    def probe(self, timeout_s: float) -> float:
        """Ask for a short answer; returns the seconds to its begin. Raises EngineError."""
        begun = time.monotonic()
        question = [{"role": "user", "content": "Hello."}]
        generation = self._begin(question, DuplexConfig(), _WARM_UP_TOKENS, timeout_s, None, ())
        self._probing = generation
        generation.wait()
        return time.monotonic() - begun

    def close(self) -> None:
        self._closed.set()
        if self._probing is not None:
            self._probing.cancel()

    def note(self, error: EngineError | None) -> None:
        """Log a change of why the server does not answer; None if it does.

        While it does not, it is asked again from time to time, so that it is ready for the next user.
        """
        reason = error.reason if isinstance(error, ModelAway) else ""
        with self._lock:
            before, self.trouble = self.trouble, reason
            watch, self._watched = bool(reason) and not self._watched, self._watched or bool(reason)
        if watch:
            self._in_background(self._watch)
        if reason and reason != before:
            _log.warning("language_model_away", reason=reason)
        elif before and not reason:
            _log.info("language_model_back")

    def _in_background(self, step: Callable[[], object]) -> None:
        threading.Thread(target=step, name="remote-llm-probe", daemon=True).start()

    def _watch(self) -> None:
        while self.trouble and not self._closed.wait(_ASK_AGAIN_S):
            self._warm_up()
        with self._lock:
            self._watched = False

    def _warm_up(self) -> None:
        """Let the server read the model from its disk."""
        try:
            self.probe(_WARM_UP_S)
        except EngineError as error:
            if not self._closed.is_set():
                self.note(error)
        else:
            self.note(None)

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
        continues = messages[-1]["role"] == "assistant"
        if continues:
            messages = [*messages, {"role": "user", "content": _GO_ON}]
        body: dict[str, Any] = {
            "model": self._model,
            "messages": list(messages),
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
        reply = RemoteGeneration(
            Exchange(self._address),
            self._address.place,
            timeout_s,
            self.note,
            counter,
            messages,
            tools,
            may_be_empty=continues,
        )
        reply.start(lambda exchange: self._ask(exchange, body))
        return reply

    def _ask(self, exchange: Exchange, body: dict[str, Any]) -> HTTPResponse:
        """The answer with status 200. Raises EngineError, OSError, HTTPException."""
        waited = False
        tried: set[str] = set()
        while True:
            sent = self._accepted(body)
            response = exchange.ask("POST", "chat/completions", sent)
            if response.status == 200:
                return response
            said = response.read(MAX_BODY)
            pause_s = _pause(response)
            if response.status == 429 and pause_s <= _LONGEST_PAUSE_S and not waited:
                waited = True
                exchange.ended.wait(pause_s)
            elif _refuses_rules(response.status, said, sent):
                self.refuses_rules = True
                del body["tools"]
            elif response.status in (400, 422) and (name := _refused_field(said, sent)):
                tried.add(name)
                self._refused.add(name)
            else:
                self._refused -= tried  # they were not the reason
                raise self._refusal(exchange, response.status, said, body)

    def _refusal(
        self, exchange: Exchange, status: int, said: bytes, body: dict[str, Any]
    ) -> EngineError:
        private = list(texts_of(body["messages"]))
        if status == 404:
            text = faults.message_of(said, [self._address.key, *private])
            try:
                known = self._list(exchange)
            except (EngineError, OSError, HTTPException):
                known = []
            return faults.of_unknown_model(self._model, known, text)
        return faults.of_status(status, said, self._address.key, private)

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

    def _accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """`body` without what the server has refused before."""
        sent = {name: value for name, value in body.items() if name not in self._refused}
        if "max_tokens" in self._refused:
            sent["max_completion_tokens"] = body["max_tokens"]
        return sent


def _refused_field(said: bytes, sent: dict[str, Any]) -> str | None:
    """The field without which a refused request is sent again.

    OpenAI's newer models take `max_completion_tokens` in place of `max_tokens`, and no temperature.
    A refusal that names no field can be about `stream_options`.
    """
    if not isinstance(faults.of_status(400, said, ""), ModelAway):
        return None
    text = said.decode(errors="replace")
    named = (name for name in ("max_tokens", *_OPTIONAL) if name in sent and name in text)
    return next(named, "stream_options" if "stream_options" in sent else None)


def _refuses_rules(status: int, said: bytes, sent: dict[str, Any]) -> bool:
    """Whether the model, such as some of Ollama's, takes no tools, and the client sent none."""
    ours = sent.get("tools") == list(RULE_TOOLS)
    return ours and 400 <= status <= 500 and b"tool" in said.lower()


def _pause(response: HTTPResponse) -> float:
    """Seconds of Retry-After; a date or nothing is too long to wait for."""
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return math.inf
