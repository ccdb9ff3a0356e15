"""The language model: the llama.cpp server in this process, with one slot per session."""

import math
import re
import secrets
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import orjson
import structlog

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.doubt import NumberDoubt, asks_number
from antiphon.inference_worker.engines.local.language_model import (
    Generation,
    LanguageModel,
    ModelAway,
)
from antiphon.inference_worker.engines.local.remote.faults import NO_ANSWER
from antiphon.inference_worker.engines.types import ContextFull, EngineError, EngineLoadError
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig

_SMALL_MODEL_SAMPLING = {"min_p": 0.7, "dry_multiplier": 0.8, "dry_allowed_length": 4}
"""Keeps a very small model on its subject and out of loops. Applied to every client's sampling.

At the protocol's temperature of 0.7, four easy questions had 97 correct answers of 128 with `min_p`
0.2, 115 with 0.5, and 128 with 0.7, where the wording still varies. A repetition penalty was worse,
because it also forbids the words of the question.

DRY keeps llama.cpp's breakers, among them the newline between turns. Without them it forbids "The
capital of" of the answer before: 1 of 4 such answers was right instead of 4. It did not end more loops
(4 of 12 both times); AnswerGuard ends those.
"""

_MOST_IN_TOKEN = 128
"""Characters. Known models have tokens of up to 64 spaces; the library takes minutes for 64 MiB of text."""

_SILENT = -1

_LIKELY_TOKENS = 40
_ENDS_TEXT = re.compile(r"$|\n|\s*[.?!。？！]")
"""Of tokens: the end token, whose text is empty, a new line, and the end of a sentence."""

_TOP_K = 20
"""Of answers, unless the client gives it; the same as the default of full-duplex sessions."""

_ONLY_THINKS = "the model only thinks, and says nothing; use one that answers without thoughts"
_EMPTY = "the model gave an empty answer"

log = structlog.get_logger()


class LocalGeneration(Generation):
    """`call` fills the queue; a None in it ends the iteration.

    `note` gets why the answer is empty, or an empty text if it is not.
    """

    def __init__(
        self,
        counter: TokenCounter | None,
        doubt: NumberDoubt | None = None,
        note: Callable[[str], None] | None = None,
        *,
        may_be_empty: bool = False,
    ) -> None:
        super().__init__()
        self._doubt = doubt
        self._note = note
        self._may_be_empty = may_be_empty
        self._cut_off = False
        self._chunks: SimpleQueue[Any] = SimpleQueue()
        self._counter = counter
        self._counted = (0, 0)
        self._call: Future[None] | None = None

    def start(self, call: Future[None]) -> None:
        self._call = call
        call.add_done_callback(lambda _: self._chunks.put(None))

    def take(self, chunk: dict[str, Any]) -> bool:
        """Called by the library, which swallows exceptions here. True ends the call."""
        self._chunks.put(chunk)
        return self._stop.is_set()

    def __iter__(self) -> Generator[str, None, None]:
        said = False
        try:
            while (chunk := self._chunks.get()) is not None:
                if text := self._read(chunk):
                    said = said or not text.isspace()
                    yield text
            if self._call is not None and not self._stop.is_set():
                self._call.result()
                self._check_end(said=said)
        finally:
            self._stop.set()

    def _check_end(self, *, said: bool) -> None:
        """Raises ModelAway if the model itself ended an empty answer, or only thought."""
        reason = ""
        if not said and not self._calls and not self._may_be_empty:
            reason = _ONLY_THINKS if self.thought else "" if self._cut_off else _EMPTY
        if self._note is not None:
            self._note(reason)
        if reason:
            raise ModelAway(NO_ANSWER, reason)

    def cancel(self) -> None:
        self._stop.set()
        self._chunks.put(None)

    def _read(self, chunk: dict[str, Any]) -> str:
        _raise_refusal(chunk)
        if timings := chunk.get("timings"):
            self._count(timings)
        if usage := chunk.get("usage"):
            self.context_tokens = int(usage["total_tokens"])
        choices = chunk.get("choices", ())
        if self._doubt is None:
            return "".join(map(self._read_choice, choices))
        said = [self._doubt.feed(self._read_choice(choice), choice) for choice in choices]
        if self._doubt.unsure:
            self.complete = True
            self._stop.set()
        return "".join(said)

    def _read_choice(self, choice: dict[str, Any]) -> str:
        self._cut_off = self._cut_off or choice.get("finish_reason") == "length"
        return super()._read_choice(choice)

    def _count(self, timings: dict[str, Any]) -> None:
        """`timings` has the totals of the reply so far."""
        totals = (_new_tokens(timings), int(timings["predicted_n"]))
        if self._counter is not None:
            read, written = (
                now - before for now, before in zip(totals, self._counted, strict=True)
            )
            self._counter.add(input_text=read, output_text=written)
        self._counted = totals
        self.written_tokens = totals[1]


class LocalLanguageModel(LanguageModel):
    """A GGUF model with `slots` contexts of `context_tokens` each.

    `doubts_numbers`: do not say a number that the model is not sure of.
    """

    def __init__(
        self,
        path: Path,
        slots: int,
        context_tokens: int,
        threads: int,
        *,
        doubts_numbers: bool = False,
    ) -> None:
        self._doubts_numbers = doubts_numbers
        self._most_characters = context_tokens * _MOST_IN_TOKEN
        library = import_library("xllamacpp")
        # The library always opens a port on the loopback interface; a random key keeps others out.
        self._key = secrets.token_urlsafe(32)
        try:
            self._server: Any = library.Server(
                _parameters(library, path, slots, context_tokens, threads, self._key)
            )
        except RuntimeError as error:
            raise EngineLoadError(f"{path} does not load as a GGUF model: {error}") from error
        self._calls = ThreadPoolExecutor(slots * 2, thread_name_prefix="local-llm")
        # Wait until the server's loop runs: if freed before, it never ends.
        self.prefill([{"role": "user", "content": "Hello."}], slot=0)
        self._end_token = self._find_end_token()
        self.knows_tools = self._find_tools()  # whether its template shows them

    def stream(
        self,
        messages: Sequence[LlmMessage],
        slot: int,
        config: DuplexConfig | GenerationConfig,
        max_tokens: int,
        counter: TokenCounter | None = None,
        tools: Sequence[dict[str, Any]] = (),
        *,
        must_call: bool = False,
    ) -> LocalGeneration:
        request = {
            "messages": list(messages),
            "id_slot": slot,
            "max_tokens": max_tokens,
            **sampling(config, self._end_token),
            "stream": True,
            "stream_options": {"include_usage": True},
            "timings_per_token": True,
        }
        if tools:
            request |= {"tools": list(tools), "dry_multiplier": 0.0}  # JSON repeats itself
        doubt = NumberDoubt() if self._doubts_numbers and asks_number(messages[-1]) else None
        if doubt is not None:
            request |= {"logprobs": True, "top_logprobs": 1}
        continues = messages[-1]["role"] == "assistant"
        generation = LocalGeneration(
            counter, doubt, self._note, may_be_empty=continues or must_call
        )
        if must_call:
            generation.start(self._calls.submit(self._force_call, request, generation))
            return generation
        generation.start(self._calls.submit(self._complete, request, generation.take))
        return generation

    def _complete(self, request: dict[str, Any], *take: Callable[[dict[str, Any]], bool]) -> Any:
        """Raises EngineError if the model's template does not take the messages."""
        try:
            return self._server.handle_chat_completions(request, *take)
        except (ValueError, RuntimeError) as error:
            raise EngineError(f"the language model refused: {error}") from error

    def _force_call(self, request: dict[str, Any], generation: LocalGeneration) -> None:
        """A grammar allows nothing but a call. With `tool_choice`, the library allows any text before it."""
        messages, tools = request.pop("messages"), request.pop("tools")
        written: list[str] = []

        def take(chunk: dict[str, Any]) -> bool:
            written.extend(choice["text"] for choice in chunk.pop("choices", ()))
            return generation.take(chunk)

        request |= {"prompt": self._prompt(messages, tools), "json_schema": call_schema(tools)}
        self._server.handle_completions(request, take)
        try:
            call = orjson.loads("".join(written))
        except orjson.JSONDecodeError:  # the limit of tokens cut it off
            return
        choice = {"delta": {"tool_calls": [{"function": call}]}, "finish_reason": "tool_calls"}
        generation.take({"choices": [choice]})

    def prefill(
        self,
        messages: Sequence[LlmMessage],
        slot: int,
        *,
        reuse_cache: bool = True,
        counter: TokenCounter | None = None,
        tools: Sequence[dict[str, Any]] = (),
    ) -> int:
        """Read `messages` into the slot's context; returns their length in tokens.

        With `reuse_cache`, text that the slot has already read is not read again. The result of
        llama.cpp for a token depends slightly on its batch, so only an empty context gives the same
        bits for the same messages.
        """
        length = sum(len(str(message["content"])) for message in messages)
        if length > self._most_characters:
            raise ContextFull(f"the conversation does not fit: it has {length} characters")
        request = {
            "messages": list(messages),
            "id_slot": slot,
            "max_tokens": 0,
            "cache_prompt": reuse_cache,
        }
        if tools:
            request["tools"] = list(tools)
        answer = self._complete(request)
        _raise_refusal(answer)
        if counter is not None:
            counter.add(input_text=_new_tokens(answer["timings"]))
        return int(answer["usage"]["prompt_tokens"])

    def end_probability(
        self,
        messages: Sequence[LlmMessage],
        slot: int,
        counter: TokenCounter | None = None,
        tools: Sequence[dict[str, Any]] = (),
    ) -> float | None:
        """Costs one token more than to read `messages`, which the slot then has in its context."""
        prompt, text = self._prompt(messages, tools), str(messages[-1]["content"])
        place = prompt.rfind(text)
        if not text or place < 0:  # the template has changed the text
            return None
        request = {
            "prompt": prompt[: place + len(text)],
            "id_slot": slot,
            "n_predict": 1,
            "temperature": 0.0,
            "n_probs": _LIKELY_TOKENS,
            "logprobs": _LIKELY_TOKENS,
        }
        answer = self._server.handle_completions(request)
        _raise_refusal(answer)
        if counter is not None:
            counter.add(input_text=_new_tokens(answer["timings"]))
        (choice,) = answer["choices"]
        return sum(
            math.exp(token["logprob"])
            for token in choice["logprobs"]["content"][0]["top_logprobs"]
            if token["id"] == self._end_token or _ENDS_TEXT.match(token["token"])
        )

    def _prompt(self, messages: Sequence[LlmMessage], tools: Sequence[dict[str, Any]]) -> str:
        """`messages` in the model's template, which the library fills in only over HTTP."""
        connection = HTTPConnection(urlsplit(self._server.listening_address).netloc)
        with closing(connection):
            body = orjson.dumps({"messages": list(messages), **({"tools": tools} if tools else {})})
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request("POST", "/apply-template", body, headers)
            answer = orjson.loads(connection.getresponse().read())
        _raise_refusal(answer)
        return str(answer["prompt"])

    def _find_tools(self) -> bool:
        """Whether tools make a prompt longer."""
        question = [{"role": "user", "content": "Hello."}]
        function = {"name": "probe", "description": "A probe.", "parameters": {}}
        tools = [{"type": "function", "function": function}]
        return len({self.prefill(question, slot=0, tools=shown) for shown in ((), tools)}) > 1

    def _find_end_token(self) -> int | None:
        """The end token: the one that the model selects if the grammar allows no text."""
        request = {
            "messages": [{"role": "user", "content": "Hello."}],
            "id_slot": 0,
            "max_tokens": 1,
            "temperature": 0.0,
            "grammar": 'root ::= ""',
            "logprobs": True,
        }
        answer = self._server.handle_chat_completions(request)
        _raise_refusal(answer)
        taken = (answer["choices"][0].get("logprobs") or {}).get("content")
        return int(taken[0]["id"]) if taken else None

    def _note(self, reason: str) -> None:
        """Log a change of why the answers are empty."""
        before, self.trouble = self.trouble, reason
        if reason and reason != before:
            log.warning("language_model_gives_no_answer", reason=reason)

    def close(self) -> None:
        self._calls.shutdown()
        self._server = None


def call_schema(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The JSON schema of a call of one of `tools`."""
    functions = [tool["function"] for tool in tools]
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {
                    "name": {"const": function["name"]},
                    "arguments": function.get("parameters") or {"type": "object"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for function in functions
        ]
    }


def sampling(config: DuplexConfig | GenerationConfig, end_token: int | None) -> dict[str, Any]:
    """Temperature 0 selects the most likely token. A length penalty divides the odds of the end token."""
    fields: dict[str, Any] = {
        "temperature": config.temperature,
        "top_p": config.top_p,
        "top_k": _TOP_K if config.top_k is None else config.top_k,
        **_SMALL_MODEL_SAMPLING,
    }
    if isinstance(config, GenerationConfig) and end_token is not None:
        fields["logit_bias"] = [[end_token, -math.log(config.length_penalty)]]
    return fields


def _parameters(
    library: Any, path: Path, slots: int, context_tokens: int, threads: int, key: str
) -> Any:
    parameters = library.CommonParams()
    parameters.model.path = str(path)
    parameters.n_parallel = slots
    parameters.n_ctx = slots * context_tokens
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.verbosity = _SILENT
    parameters.cache_ram_mib = 0
    parameters.enable_reasoning = 0  # thoughts would take all tokens of a spoken answer
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.n_threads_http = 1
    return parameters


def _new_tokens(timings: dict[str, Any]) -> int:
    """Prompt tokens that the slot had not read before. It reads the last one again in any case."""
    read = int(timings["prompt_n"])
    return 0 if read == 1 and timings["cache_n"] else read


def _raise_refusal(answer: dict[str, Any]) -> None:
    error = answer.get("error")
    if error is None:
        return
    if error.get("type") == "exceed_context_size_error":
        raise ContextFull(f"the conversation does not fit: {error['message']}")
    raise EngineError(f"the language model refused: {error.get('message', error)}")
