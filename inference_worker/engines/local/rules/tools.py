"""The rules as tools of a language model, in the form of OpenAI's API, and a reply that calls them."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.language_model import Generation
from antiphon.inference_worker.engines.local.rules.arithmetic import answer_sum
from antiphon.inference_worker.engines.local.rules.clock import answer_clock
from antiphon.inference_worker.engines.local.rules.dates import answer_date
from antiphon.inference_worker.engines.local.rules.distances import answer_distance
from antiphon.inference_worker.engines.local.rules.text import LONGEST_CHARS, plain
from antiphon.inference_worker.engines.local.rules.units import answer_conversion


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


class ToolRounds(Generation):
    """Answers the model's calls, and lets it continue with the results, until it calls nothing more.

    The calls are not kept in the dialogue: the answer says what they found.
    """

    def __init__(
        self, stream: Stream, messages: Sequence[LlmMessage], now: Callable[[], datetime]
    ) -> None:
        super().__init__()
        self._stream = stream
        self._messages = list(messages)
        self._now = now
        self._current = stream(messages, RULE_TOOLS)

    def cancel(self) -> None:
        self._stop.set()
        self._current.cancel()

    def __iter__(self) -> Generator[str, None, None]:  # its reader closes it
        for left in reversed(range(_MOST_CALLS + 1)):
            before, current, said = self.written_tokens, self._current, ""
            try:
                for text in current:
                    said += text
                    yield text
            finally:
                self.complete = current.complete
                self.context_tokens = current.context_tokens
                self.written_tokens = before + current.written_tokens
            if self._stop.is_set() or not current.tool_calls or not left:
                return
            self._answer_calls(current, said)
            self._current = self._stream(self._messages, RULE_TOOLS if left > 1 else ())
            if self._stop.is_set():  # before there was a new reply
                self._current.cancel()

    def _answer_calls(self, reply: Generation, said: str) -> None:
        now, wire = self._now(), [call.wire() for call in reply.tool_calls]
        self._messages.append({"role": "assistant", "content": said, "tool_calls": wire})
        for call in reply.tool_calls:
            result = call_rule(call.name, call.arguments, now)
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
