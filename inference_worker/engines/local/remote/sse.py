"""Reads the chunks of a streamed answer, and leaves out what the model thinks before it answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

import orjson

from antiphon.inference_worker.engines.common.exchange import MAX_BODY
from antiphon.inference_worker.engines.local.language_model import word_pieces
from antiphon.inference_worker.engines.local.remote import faults

_MAX_LINE = 1024 * 1024
_DONE = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")


def chunks_of(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The chunks of an answer, and `done` after its end. A server that does not stream sends all at once.

    The first bytes tell the form, because some servers name another type. Raises EngineError, OSError,
    HTTPException.
    """
    kind = response.headers.get_content_type()
    begin = response.peek(64).removeprefix(_BYTE_ORDER_MARK).lstrip()
    is_object = begin.startswith(b"{")
    if begin.startswith(_EVENT_FIELDS) or (kind == "text/event-stream" and not is_object):
        yield from _events(response)
    elif is_object or kind.endswith("json"):
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
        name, _, data = line.removeprefix(_BYTE_ORDER_MARK).partition(b":")
        if name != b"data" or not (data := data.strip()):
            continue
        if data == _DONE:
            yield {"done": True}
            return
        yield _parsed(data)


def _parsed(data: bytes) -> dict[str, Any]:
    data = data.removeprefix(_BYTE_ORDER_MARK)
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
        if isinstance(content := message.get("content"), str):
            del message["content"]
            for piece in word_pieces(_after_lone_end(content)):
                yield {"choices": [{"delta": {"content": piece}}]}
    yield answer | {"done": True}


_MARKS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}
"""The begin and the end of thoughts, as models write them at the begin of an answer."""

_BEGINS, _ENDS = tuple(_MARKS), tuple(_MARKS.values())
_QUOTES = "`'\"“‘"


@dataclass(slots=True)
class ThoughtHabit:
    """What the answers of a model have shown about its thoughts. All its answers share it.

    `end` is the mark with which the thoughts end that its answers begin with, without another mark in
    front; empty if they do not. Such a model's template writes that other mark.
    """

    thinks: bool = False
    end: str = ""


class ThoughtFilter:
    """Leaves out the thoughts at the begin of an answer. Their marks may be cut anywhere.

    A lone end of thoughts comes too late in the answer that teaches it: its thoughts have been shown.
    """

    def __init__(self, habit: ThoughtHabit) -> None:
        self._habit = habit
        self._held = ""
        self._shown = ""
        self._end = habit.end
        """The mark that is waited for; empty if none is."""
        self._begun = False
        self._lead: str | None = "\r\n"
        """The characters that the answer does not begin with; None for all white space."""

    def feed(self, text: str) -> str:
        """What is certain to be answer."""
        self._held += text
        while not self._begun:
            if self._end and not self._drop_thoughts():
                return ""
            if not self._begin():
                return ""
        return self._answer()

    def flush(self, *, ended: bool) -> str:
        """The text that only looked like a part of a mark. `ended`: the model ended the answer itself."""
        held, self._held = self._held, ""
        if not self._end:
            return held
        if not ended or self._habit.end != self._end or self._begun:
            return ""
        self._habit.end = ""  # this answer has no thoughts
        return held

    def _drop_thoughts(self) -> bool:
        _, found, after = self._held.partition(self._end)
        if found:
            self._held, self._end, self._lead = after, "", None
        return bool(found)

    def _begin(self) -> bool:
        """Whether the next step is known. It is more thoughts, or the answer."""
        lead = self._held.lstrip()
        if begin := next(filter(lead.startswith, _BEGINS), ""):
            self._held, self._end = lead[len(begin) :], _MARKS[begin]
            self._habit.thinks = True
        elif end := next(filter(lead.startswith, _ENDS), ""):
            self._held, self._lead = lead[len(end) :], None
        elif any(mark.startswith(lead) for mark in (*_BEGINS, *_ENDS)):
            return False
        else:
            self._held, self._begun = self._held.lstrip(self._lead), True
        return True

    def _answer(self) -> str:
        shown = ""
        while end := _first_lone_end(self._shown, self._held):
            before, _, self._held = self._held.partition(end)
            shown += before
            self._shown += before
            self._habit.end, self._habit.thinks = end, True
        cut = len(self._held) - _overlap(self._held)
        shown += self._held[:cut]
        self._shown += self._held[:cut]
        self._held = self._held[cut:]
        return shown


def _first_lone_end(before: str, text: str) -> str:
    """The mark in `text` that ends thoughts, unless the answer, `before` and `text`, only speaks of it."""
    found = [(at, end) for end in _ENDS if (at := text.find(end)) >= 0]
    if not found:
        return ""
    at, end = min(found)
    before += text[:at]
    return "" if before.endswith(tuple(_QUOTES)) or any(map(before.__contains__, _BEGINS)) else end


def _after_lone_end(text: str) -> str:
    """`text` without the thoughts that it begins with, if only their end is marked."""
    if text.lstrip().startswith(_BEGINS) or not (end := _first_lone_end("", text)):
        return text
    return text.partition(end)[2].lstrip()


def _overlap(text: str) -> int:
    """The length of the longest end of `text` that begins a mark of _ENDS."""
    lengths = range(min(len(text), max(map(len, _ENDS)) - 1), 0, -1)
    return next((n for n in lengths if any(end.startswith(text[-n:]) for end in _ENDS)), 0)
