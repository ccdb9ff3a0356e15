"""Reads the chunks of a streamed answer, and leaves out what the model thinks before it answers."""

from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

import orjson

from antiphon.inference_worker.engines.common.exchange import MAX_BODY
from antiphon.inference_worker.engines.local.language_model import word_pieces
from antiphon.inference_worker.engines.local.remote import faults

_MAX_LINE = 1024 * 1024
_DONE = b"[DONE]"


def chunks_of(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The chunks of an answer, and `done` after its end. A server that does not stream sends all at once.

    Raises EngineError, OSError, HTTPException.
    """
    kind = response.headers.get_content_type()
    if kind == "text/event-stream":
        yield from _events(response)
    elif kind.endswith("json"):
        yield from _whole(_parsed(response.read(MAX_BODY)))
    else:
        raise faults.away(f"the server sends {kind}: --llm-url is no OpenAI-compatible address")


def _events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """Lines other than `data:` are comments, which keep the connection open, or names of events."""
    while line := response.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise faults.away(f"the server sends a line of more than {_MAX_LINE} bytes")
        if not line.endswith(b"\n") and _DONE not in line:
            return  # cut off
        name, _, data = line.partition(b":")
        if name != b"data" or not (data := data.strip()):
            continue
        if data == _DONE:
            yield {"done": True}
            return
        yield _parsed(data)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = orjson.loads(data.decode(errors="replace")) if _is_cut_text(data) else None
    if not isinstance(value, dict):
        raise faults.away("the server sends something else than JSON objects")
    return value


def _is_cut_text(data: bytes) -> bool:
    """Whether this is JSON but for characters that a token has cut."""
    try:
        orjson.loads(data.decode(errors="replace"))
    except orjson.JSONDecodeError:
        return False
    return True


def _whole(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The text of an answer in one piece, word by word, then the rest of it."""
    for choice in answer.get("choices") or ():
        message = choice.get("message") or {}
        for piece in word_pieces(message.pop("content", None) or ""):
            yield {"choices": [{"delta": {"content": piece}}]}
    yield answer | {"done": True}


_BEGIN, _END = "<think>", "</think>"


class ThoughtFilter:
    """Leaves out the text between <think> and </think>, which may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""
        self._thinks = False
        self._begun = False

    def feed(self, text: str) -> str:
        """What is certain to be answer."""
        self._held += text
        shown = ""
        while True:
            mark = _END if self._thinks else _BEGIN
            before, found, after = self._held.partition(mark)
            if not found:
                break
            shown += "" if self._thinks else before
            self._held, self._thinks = after, not self._thinks
        held = _overlap(self._held, mark)
        cut = len(self._held) - held
        shown += "" if self._thinks else self._held[:cut]
        self._held = self._held[cut:]
        return self._without_lead(shown)

    def flush(self) -> str:
        """The text that only looked like the begin of a mark."""
        held, self._held = self._held, ""
        return "" if self._thinks else held

    def _without_lead(self, shown: str) -> str:
        """The lines between the thoughts and the answer are no part of it."""
        if not self._begun:
            shown = shown.lstrip("\r\n")
            self._begun = bool(shown)
        return shown


def _overlap(text: str, mark: str) -> int:
    """The length of the longest end of `text` that begins `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)
