"""A reply in which the language model calls the rules as tools."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any

from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.language_model import Generation
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS, call_rule

Stream = Callable[[Sequence[LlmMessage], Sequence[dict[str, Any]]], Generation]
"""Starts a reply to messages, with tools."""

_MOST_CALLS = 3
"""In a row, before the model must answer. A small model may call the same function for ever."""


class ToolRounds(Generation):
    """Answers the model's calls, and lets it go on with the results, until it calls nothing more.

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
