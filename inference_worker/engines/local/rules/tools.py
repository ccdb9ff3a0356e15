"""The rules as tools of a language model, in the form of OpenAI's API, and a reply that calls them."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from antiphon.inference_worker.engines.local.chinese.script import STOPS
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.language_model import (
    BrokenCall,
    Generation,
    ModelAway,
    RequestRefused,
)
from antiphon.inference_worker.engines.local.remote.faults import NO_ANSWER
from antiphon.inference_worker.engines.local.rules.quantities.arithmetic import answer_sum
from antiphon.inference_worker.engines.local.rules.quantities.clock import answer_clock
from antiphon.inference_worker.engines.local.rules.quantities.dates import answer_date
from antiphon.inference_worker.engines.local.rules.quantities.distances import answer_distance
from antiphon.inference_worker.engines.local.rules.quantities.units import answer_conversion
from antiphon.inference_worker.engines.local.rules.text import LONGEST_CHARS, plain


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    description: str
    example: str
    answer: Callable[[str, datetime], str | None]

    @property
    def definition(self) -> dict[str, Any]:
        question = {"type": "string", "description": f"In English, such as: {self.example}"}
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": {"question": question},
                    "required": ["question"],
                },
            },
        }


_TOOLS = {
    tool.name: tool
    for tool in (
        _Tool(
            "calendar",
            "The user's time, date and weekday now, and the days between dates.",
            "what time is it",
            lambda text, now: answer_clock(text, now) or answer_date(text, now),
        ),
        _Tool("calculate", "An exact result.", "17 * 23", lambda text, _: answer_sum(text)),
        _Tool(
            "convert_units",
            "Converts lengths, weights, volumes, temperatures and times.",
            "5 miles in kilometres",
            lambda text, _: answer_conversion(text),
        ),
        _Tool(
            "distance",
            "How far one large city is from another, and how long the flight takes.",
            "how far is Paris from Rome",
            lambda text, _: answer_distance(text),
        ),
    )
}

RULE_TOOLS: tuple[dict[str, Any], ...] = tuple(tool.definition for tool in _TOOLS.values())


def call_rule(name: str, arguments: str, now: datetime) -> str:
    """What the model reads. A call that cannot be answered gets the reason."""
    tool = _TOOLS.get(name)
    if tool is None:
        return f"There is no such function. These exist: {', '.join(_TOOLS)}."
    given = orjson.loads(arguments)
    question = given.get("question") if isinstance(given, dict) else None
    if not isinstance(question, str) or not 0 < len(question) <= LONGEST_CHARS:
        return f'"question" must be a text of at most {LONGEST_CHARS} characters: {tool.example}'
    return tool.answer(plain(question), now) or f"Not understood. Ask such as: {tool.example}"


Stream = Callable[[Sequence[LlmMessage], Sequence[dict[str, Any]]], Generation]
"""Starts a reply to messages, with tools."""

_MOST_CALLS = 3
"""In a row, before the model must answer. A small model may call the same function for ever."""

_BROKEN = "The call was not understood. It needs a name, and its arguments must be a JSON object."

_RESULTS = "Use these exact results, and call nothing:"


class ToolRounds(Generation):
    """Answers the model's calls, and lets it continue with the results, until it calls nothing more.

    The calls are not kept in the dialogue: the answer says what they found. If a server refuses the
    request with the results, it gets them once more as a part of the question.
    """

    def __init__(
        self, stream: Stream, messages: Sequence[LlmMessage], now: Callable[[], datetime]
    ) -> None:
        super().__init__()
        self._stream = stream
        self._question = messages
        self._messages = list(messages)
        self._results: list[str] = []
        self._now = now
        self._pieces = 0
        self._last_piece = " "
        self._current = stream(messages, RULE_TOOLS)

    def cancel(self) -> None:
        self._stop.set()
        self._current.cancel()

    def __iter__(self) -> Generator[str, None, None]:  # its reader closes it
        for left in reversed(range(_MOST_CALLS + 1)):
            said = ""
            try:
                for text in self._round():
                    said += text
                    yield text
            except BrokenCall:
                if not left:
                    raise
            reply = self._current
            if self._stop.is_set() or not (reply.tool_calls or reply.broken_calls):
                return
            if not left:
                if not said:
                    raise ModelAway(NO_ANSWER, "the model only calls functions, and says nothing")
                return
            self._answer_calls(reply, said)
            self._begin(self._messages, RULE_TOOLS if left > 1 else ())

    def _begin(self, messages: Sequence[LlmMessage], tools: Sequence[dict[str, Any]]) -> None:
        self._current = self._stream(messages, tools)
        if self._stop.is_set():  # before there was a new reply
            self._current.cancel()

    def _round(self) -> Generator[str, None, None]:
        """The text of the current reply, or of one to the results as text if the server refuses it."""
        pieces = self._pieces
        try:
            yield from self._text()
        except RequestRefused:
            if self._stop.is_set() or not self._results or self._pieces > pieces:
                raise
            self._begin(self._question_with_results(), ())
            yield from self._text()

    def _text(self) -> Generator[str, None, None]:
        before, current, first = self.written_tokens, self._current, True
        try:
            for text in current:
                last, begin = self._last_piece[-1:], text[:1]
                if first and not (last.isspace() or begin.isspace() or last in STOPS):
                    yield " "
                first, self._last_piece = False, text
                self._pieces += 1
                yield text
        finally:
            self.complete = current.complete
            self.context_tokens = current.context_tokens
            self.written_tokens = before + current.written_tokens

    def _answer_calls(self, reply: Generation, said: str) -> None:
        now = self._now()
        found = [(call.id, call_rule(call.name, call.arguments, now)) for call in reply.tool_calls]
        self._results += [result for _, result in found]
        self._messages.append(reply.message_of_calls(said))
        for identity, result in (*found, *((broken, _BROKEN) for broken in reply.broken_calls)):
            self._messages.append({"role": "tool", "tool_call_id": identity, "content": result})

    def _question_with_results(self) -> list[LlmMessage]:
        told = "\n".join([_RESULTS, *self._results])
        messages = list(self._question)
        users = (at for at, message in enumerate(messages) if message["role"] == "user")
        if (last := max(users, default=None)) is None:
            return [*messages, {"role": "user", "content": told}]
        content = messages[last]["content"]
        if isinstance(content, str):
            content = f"{content}\n\n{told}"
        else:
            content = [*content, {"type": "text", "text": told}]
        messages[last] = messages[last] | {"content": content}
        return messages
