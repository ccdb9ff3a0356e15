"""Reads the calls of tools in what a model writes, in the form that Qwen's templates ask for.

A call is the JSON object {"name": …, "arguments": {…}} between <tool_call> and </tool_call>.
"""

import json
import uuid
from collections.abc import Collection, Generator
from contextlib import closing
from dataclasses import replace

import orjson

from antiphon.inference_worker.engines.types import Delta
from antiphon.shared_schemas.content import ToolCall
from antiphon.shared_schemas.tools import is_usable_object

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class ToolCallReader:
    """Splits a text that arrives in pieces into text and calls of the tools `names`.

    Anything between the marks that is not such a call stays text, also one that a message cannot carry.
    Space around a call is dropped, and so is a call whose end never arrives.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""
        self._found = False

    def feed(self, piece: str) -> tuple[str, tuple[ToolCall, ...]]:
        """The text that can be shown now, and the calls that are complete now."""
        self._held += piece
        shown: list[str] = []
        calls: list[ToolCall] = []
        while (start := self._held.find(_OPEN)) >= 0:
            end = self._held.find(_CLOSE, start)
            if end < 0:
                break
            end += len(_CLOSE)
            if call := self._read(self._held[start + len(_OPEN) : end - len(_CLOSE)]):
                shown.append(self._held[:start].rstrip())
                calls.append(call)
                self._found = True
                self._held = self._held[end:].lstrip()
            else:
                shown.append(self._held[:end])
                self._held = self._held[end:]
        shown.append(self._take_safe())
        return "".join(shown), tuple(calls)

    def finish(self) -> str:
        held, self._held = self._held, ""
        if _OPEN in held:
            return ""
        return held.rstrip() if self._found else held

    def _take_safe(self) -> str:
        """The held text up to a call, or to what may become the begin of one, and the space before."""
        start = self._held.find(_OPEN)
        if start < 0:
            start = next(
                at
                for at in range(max(0, len(self._held) - len(_OPEN) + 1), len(self._held) + 1)
                if _OPEN.startswith(self._held[at:])
            )
        safe = self._held[:start].rstrip()
        self._held = self._held[len(safe) :]
        return safe

    def _read(self, text: str) -> ToolCall | None:
        try:
            call = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(call, dict):
            return None
        name, arguments = call.get("name"), call.get("arguments", {})
        if not (isinstance(name, str) and name in self._names and is_usable_object(arguments)):
            return None
        written = json.dumps(arguments, ensure_ascii=False)
        return ToolCall(f"call_{uuid.uuid4().hex[:24]}", name, written)


def read_tool_calls(
    answer: Generator[Delta, None, None], names: Collection[str]
) -> Generator[Delta, None, None]:
    """The pieces of an answer, with calls of the tools `names` in place of their text."""
    reader = ToolCallReader(names)
    with closing(answer) as pieces:
        for piece in pieces:
            text, calls = reader.feed(piece.text)
            yield replace(piece, text=text, tool_calls=calls)
    if rest := reader.finish():
        yield Delta(text=rest)
