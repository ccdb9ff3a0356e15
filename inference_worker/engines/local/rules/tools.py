"""The rules as functions for a language model that calls tools, in the form of OpenAI's API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from antiphon.inference_worker.engines.local.rules.arithmetic import answer_sum
from antiphon.inference_worker.engines.local.rules.dates import answer_date
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
            answer_date,
        ),
        _Tool("calculate", "An exact result.", "17 * 23", lambda text, _: answer_sum(text)),
        _Tool(
            "convert_units",
            "Converts lengths, weights, volumes, temperatures and times.",
            "5 miles in kilometres",
            lambda text, _: answer_conversion(text),
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
