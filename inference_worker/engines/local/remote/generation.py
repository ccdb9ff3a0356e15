"""One reply of a language model on a server."""

import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from http.client import HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from typing import Any

import orjson
import structlog

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.common.exchange import Exchange
from antiphon.inference_worker.engines.local.dialogue import LlmMessage, parts_of, turn_tokens
from antiphon.inference_worker.engines.local.language_model import (
    BrokenCall,
    Generation,
    ModelAway,
)
from antiphon.inference_worker.engines.local.remote import faults
from antiphon.inference_worker.engines.local.remote.sse import (
    ThoughtFilter,
    ThoughtHabit,
    chunks_of,
)
from antiphon.inference_worker.engines.types import EngineError

_PICTURE_TOKENS = 600
_CHARACTERS_PER_TOKEN = 6.0
_LAST_S = 1.0
"""For the count of tokens after the end of an answer. Some servers then keep the connection open."""

_MALFORMED = (AttributeError, KeyError, TypeError, ValueError)
"""What reading an answer raises that is not in the form of OpenAI's API."""

_FAILURES = (OSError, HTTPException, EngineError, *_MALFORMED)
log = structlog.get_logger()


class RemoteGeneration(Generation):
    """A separate thread reads the answer, so that the iteration can end at any time.

    The text ends after `text_tokens`, an estimate, which do not count the thoughts. `again` begins an
    answer with room for thoughts, in place of one that was all thoughts.
    """

    def __init__(
        self,
        exchange: Exchange,
        place: str,
        timeout_s: float,
        note: Callable[[EngineError | None], None],
        counter: TokenCounter | None,
        messages: Sequence[LlmMessage],
        tools: Sequence[dict[str, Any]],
        *,
        habit: ThoughtHabit,
        text_tokens: float,
        again: "Callable[[], RemoteGeneration] | None",
        may_be_empty: bool,
    ) -> None:
        super().__init__()
        self._exchange = exchange
        self._place = place
        self._timeout_s = timeout_s
        self._note = note
        self._counter = counter
        self._messages = messages
        self._prompt_tokens = estimated_tokens(messages, tools)
        self._may_be_empty = may_be_empty
        self._usage: dict[str, Any] = {}
        self._habit = habit
        self._filter = ThoughtFilter(habit)
        self._text_tokens_left = text_tokens
        self._again = again
        self._second: RemoteGeneration | None = None
        self._finish = ""
        self._queue: SimpleQueue[dict[str, Any] | Exception | None] = SimpleQueue()

    def start(self, ask: Callable[[Exchange], HTTPResponse]) -> None:
        threading.Thread(target=self._run, args=(ask,), name="remote-llm", daemon=True).start()

    def cancel(self) -> None:
        self._stop.set()
        self._queue.put(None)
        self._exchange.cancel()
        if self._second is not None:
            self._second.cancel()

    def wait(self) -> tuple[float, bool]:
        """Read the whole answer; returns the time of its begin, and whether it is empty.

        One that was cancelled is not empty. Raises EngineError.
        """
        begun_at, said = math.inf, False
        try:
            for text in self._texts():
                begun_at = min(begun_at, time.monotonic())
                said = said or bool(text)
            if self._stop.is_set():
                return begun_at, False
            if not self._finish:
                raise faults.away(f"{self._place} broke off in an answer")
            return begun_at, not said and not self._calls
        finally:
            self.cancel()

    def __iter__(self) -> Generator[str, None, None]:
        said = False
        try:
            for text in self._texts():
                if text and not self._stop.is_set():
                    said = True
                    yield text
            if self._again is not None and self._is_all_thoughts(said=said):
                self._second = self._again()
                if self._stop.is_set():  # before there was a second
                    self._second.cancel()
                yield from self._second
            else:
                self._check_end(said=said)
        except EngineError as error:
            if self._stop.is_set():
                return
            if not isinstance(error, BrokenCall) and self._second is None:
                self._note(error)
            if isinstance(error, ModelAway) and said:
                raise ModelAway(faults.CUT_OFF, error.reason) from error
            raise
        finally:
            self.cancel()
            self._count()
            if self._second is not None:
                self._continue_as(self._second)

    def _is_all_thoughts(self, *, said: bool) -> bool:
        has_thought = self._habit.thinks and self._finish == "length"
        return has_thought and not said and not self.tool_calls and not self._stop.is_set()

    def _continue_as(self, second: "RemoteGeneration") -> None:
        self.complete, self.context_tokens = second.complete, second.context_tokens
        self.written_tokens += second.written_tokens
        self._calls = second._calls  # noqa: SLF001 - of the same class
        self._thoughts_for_server = second._thoughts_for_server  # noqa: SLF001

    def _texts(self) -> Iterator[str]:
        while (text := self._next_text()) is not None:
            yield text
            if text:
                self._text_tokens_left -= max(1.0, len(text) / _CHARACTERS_PER_TOKEN)
            if self._text_tokens_left <= 0:
                self._finish, self.complete = "length", False
                return
        yield self._filter.flush(ended=self._finish == "stop")

    def _next_text(self) -> str | None:
        try:
            chunk = self._next(any_text=self.written_tokens > 0)
            return None if chunk is None else self._read(chunk)
        except _MALFORMED as error:
            text = f"{self._place} sends what is not in the form of OpenAI's API"
            raise faults.away(text) from error

    def _check_end(self, *, said: bool) -> None:
        """Raises ModelAway if the answer is cut off, or empty."""
        if self._stop.is_set():
            return
        if not self._finish:
            raise faults.away(f"{self._place} broke off in an answer")
        if said or self.tool_calls or self._may_be_empty:
            self._note(None)
            return
        if self.broken_calls:
            self._note(None)  # a slip of the model, which answers other questions
            text = f"the model's call of a tool is broken (finish_reason {self._finish})"
            log.warning("tool_call_broken", reason=text)
            raise BrokenCall(faults.NO_ANSWER, text)
        text = f"{self._place} gave an empty answer (finish_reason {self._finish})"
        raise ModelAway(faults.NO_ANSWER, text)

    def _next(self, *, any_text: bool) -> dict[str, Any] | None:
        try:
            item = self._queue.get(timeout=_LAST_S if self._finish else self._timeout_s)
        except Empty:
            if self._finish:
                return None
            if any_text:
                text = f"{self._place} stopped in an answer for {self._timeout_s:g} s"
                raise faults.away(text) from None
            raise faults.NoToken(self._place, self._timeout_s) from None
        if isinstance(item, OSError | HTTPException | EngineError):
            if self._finish:
                return None
            raise faults.of_exception(item, self._place) from item
        if isinstance(item, Exception):
            raise item
        return item

    def _read(self, chunk: dict[str, Any]) -> str:
        if chunk.get("error") or chunk.get("object") == "error":
            raise faults.of_status(500, orjson.dumps(chunk), "", texts_of(self._messages))
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage
        text = ""
        for choice in chunk.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            text += self._read_choice(choice)
            self.written_tokens += bool(choice.get("delta"))
        if chunk.get("done") and not self._finish:
            self._finish, self.complete = "stop", True
        hidden = _count_in(self._usage.get("completion_tokens_details"), "reasoning_tokens")
        self._habit.thinks = self._habit.thinks or self.thought or hidden > 0
        return self._filter.feed(text)

    def _count(self) -> None:
        """Tokens as the server counted them; an estimate if the answer ended early."""
        details = self._usage.get("prompt_tokens_details")
        read = _count_in(self._usage, "prompt_tokens") or self._prompt_tokens
        written = _count_in(self._usage, "completion_tokens") or self.written_tokens
        self.context_tokens = read + written
        self.written_tokens = written
        if self._counter is not None and (self._usage or written):
            cached = _count_in(details, "cached_tokens")
            self._counter.add(input_text=max(0, read - cached), output_text=written)

    def _run(self, ask: Callable[[Exchange], HTTPResponse]) -> None:
        try:
            for chunk in chunks_of(ask(self._exchange)):
                self._queue.put(chunk)
            self._queue.put(None)
        except _FAILURES as error:
            self._queue.put(error)
        finally:
            self._exchange.close()


def _count_in(usage: object, name: str) -> int:
    """A number of tokens as a server sent it; 0 for what is none."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return int(count) if isinstance(count, int | float) else 0


def estimated_tokens(messages: Sequence[LlmMessage], tools: Sequence[dict[str, Any]] = ()) -> int:
    contents = (message["content"] for message in messages)
    pictures = sum("image_url" in part for content in contents for part in parts_of(content))
    texts = sum(turn_tokens(text) for text in texts_of(messages))
    shown = turn_tokens(orjson.dumps(list(tools)).decode()) if tools else 0.0
    return math.ceil(texts + shown) + pictures * _PICTURE_TOKENS


def texts_of(messages: Sequence[LlmMessage]) -> Iterator[str]:
    for message in messages:
        yield from (str(part["text"]) for part in parts_of(message["content"]) if "text" in part)
