"""JSON text of clients: its structure is counted before it is parsed, and bad values are named.

Long strings are cut out of a long text, so that the parser reads a short one: it stops all other threads.
"""

import json
import math
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from antiphon.edge.errors import NotJson
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput, field_name
from antiphon.shared_schemas.long_bytes import LongText

MAX_JSON_TOKENS = 100_000
"""Opening brackets and commas of one message, including those in its texts.

A parser makes an object of each and blocks all other sessions: 60 MiB of `[],` take it 8 s, this many
0.03 s. A chat of 1000 messages has 6000; the longest context has fewer commas than tokens.
"""

_TOKEN_BYTES = 100
"""Each bracket or comma is charged like this many bytes of plain text."""

_MAX_FINDS = 16
_BLOCK_BYTES = 1024 * 1024
"""Count and search in blocks of this size. Counting stops after the first block over the limit."""

_LONG_BYTES = 1024 * 1024
"""The long strings of longer texts are not parsed, because other threads wait for the parser.

Of these strings, those of up to this length become `str`, and longer ones LongText.
"""

_SOUND_BYTES = 16 * 1024
"""The `audio` of messages from this length is not parsed: most of what an edge receives."""

_MAX_BYTES_AROUND_SOUND = 1024
"""Of a message: longer ones are parsed whole."""

_SOUND = re.compile(rb'"(audio|audio_base64)"\s*:\s*"')
_SOUND_NAME = secrets.token_hex(16)
"""Holds the place of sound. It does not leave the process, so no message contains it."""
_SOUND_PLACE = _SOUND_NAME.encode()

MAX_OTHER_BYTES = 4 * 1024 * 1024
"""Of the text without its long strings. The parser takes 6 ms for this many."""

_WINDOW_BYTES = 2048
"""A string of twice this length contains a whole window, whose only quotes would be its own."""

_AFTER_A_STRING = b" \t\r\n,:]}"
"""A quote before one of these ends a string, as the second one of `{"a": "b", "c": 1}` does before `: `. So
the text between two strings is not taken for one, and a long string that begins like this is not cut out."""

_MAX_DEPTH = 1000
"""orjson refuses deeper texts. The standard library's parser does on Python 3.11 and 3.12 only."""

_MAX_DIGITS = 308
"""Every number of so many digits fits into a float."""


@dataclass(frozen=True, slots=True)
class Utf8Text:
    """Text in UTF-8. Decoding a long text takes long, and the parser reads and checks UTF-8."""

    data: bytes | bytearray

    def __len__(self) -> int:
        return len(self.data)


ClientFrame = str | bytes | bytearray | Utf8Text
"""A text message, or a binary one."""

_Path = tuple["_Path", "int | str"] | None
"""The way from the root to a value, the last step first."""


def load_json(
    text: str | bytes | bytearray, frame_bytes: int = 0, charge: Callable[[int], None] | None = None
) -> object:
    """The value of a JSON text. `charge` is called with the cost in bytes before it is parsed.

    Long strings of a long text are LongText, and so is long `audio`. Only media may be that long.

    Raises NotJson; InvalidInput for JSON that is too complex or has a value that cannot be used, such
    as 1e999 or half of a surrogate pair; and what `charge` raises.
    """
    if not isinstance(text, str) and _SOUND_BYTES <= len(text) <= _LONG_BYTES:
        value = _load_sound(text, frame_bytes, charge)
        if value is not None:
            return value
    tokens = count_json_tokens(text)
    if charge is not None:
        charge(frame_bytes + tokens * _TOKEN_BYTES)
    if not isinstance(text, str) and len(text) > _LONG_BYTES:
        return _load_long(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _refusal(text, str(error)) from None


def _load_sound(
    text: bytes | bytearray, frame_bytes: int, charge: Callable[[int], None] | None
) -> dict[str, Any] | None:
    """A message with a LongText as its `audio`; None for any other message, which is not charged.

    If the text is JSON, the last quote of _SOUND opens a string. It ends at the next quote unless a
    backslash precedes that.
    """
    found = _SOUND.search(text, 0, _MAX_BYTES_AROUND_SOUND)
    if found is None:
        return None
    name, start = found[1].decode(), found.end()
    end = text.find(b'"', start)
    if end - start < _SOUND_BYTES // 2 or text[end - 1] == ord("\\"):
        return None
    rest = b"".join((text[:start], _SOUND_PLACE, text[end:]))
    if len(rest) > _MAX_BYTES_AROUND_SOUND:
        return None
    try:
        value = orjson.loads(rest)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict) or value.get(name) != _SOUND_NAME:
        return None
    if charge is not None:
        charge(frame_bytes + count_json_tokens(rest) * _TOKEN_BYTES)
    value[name] = LongText(memoryview(text)[start:end])
    return value


def _load_long(text: bytes | bytearray) -> object:
    """Raises NotJson or InvalidInput. The error has no position: it would be that of the cut text."""
    cut = cut_long_strings(text)
    try:
        value = orjson.loads(cut.text)
    except orjson.JSONDecodeError as error:
        raise _refusal(cut.text, error.msg) from None
    return _restore(value, cut.strings) if cut.strings else value


@dataclass(frozen=True, slots=True)
class CutText:
    """A JSON text with a short name in the place of each long string."""

    text: bytes
    strings: dict[str, memoryview]
    """The content of each long string, as it is written in the text, by its name."""


def cut_long_strings(text: bytes | bytearray) -> CutText:
    """Raises InvalidInput if what is left is longer than MAX_OTHER_BYTES.

    If the text is JSON, what is left is JSON; if it is not, the parser refuses what is left, or what
    was cut out is not valid. No text can contain one of the names, which are random.
    """
    view, prefix = memoryview(text), secrets.token_hex(8)
    left: list[bytes] = []
    strings: dict[str, memoryview] = {}
    kept = size = 0
    for start, end in _long_strings(text):
        name = f"{prefix}-{len(strings)}"
        strings[name] = view[start:end]
        size = _add(left, view[kept:start], size)
        size = _add(left, memoryview(name.encode()), size)
        kept = end
    _add(left, view[kept:], size)
    return CutText(b"".join(left), strings)


def _add(left: list[bytes], piece: memoryview, size: int) -> int:
    """Raises InvalidInput before it copies too much."""
    size += len(piece)
    if size > MAX_OTHER_BYTES:
        limit = f"the limit is {MAX_OTHER_BYTES}; send less text"
        raise InvalidInput(
            f"message with more than {size} bytes that are not media, {limit}",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    left.append(bytes(piece))
    return size


def _long_strings(text: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """The content of each long string without quotes in it.

    Looks at whole windows: text that is full of quotes takes no longer than other text.
    """
    opening, at = -1, 0
    while at < len(text):
        last = text.rfind(b'"', at, at + _WINDOW_BYTES)
        if last >= 0:
            opening, at = last, at + _WINDOW_BYTES
            continue
        closing = _find_quote(text, at + _WINDOW_BYTES)
        if closing < 0:
            return
        if opening >= 0 and _is_string(text, opening, closing):
            yield opening + 1, closing
        opening, at = closing, closing + 1


def _find_quote(text: bytes | bytearray, start: int) -> int:
    for at in range(start, len(text), _BLOCK_BYTES):
        if (found := text.find(b'"', at, at + _BLOCK_BYTES)) >= 0:
            return found
    return -1


def _is_string(text: bytes | bytearray, opening: int, closing: int) -> bool:
    """Whether what is between two quotes is one whole string, if the text is JSON.

    A backslash before the first quote: that quote is part of a string, or ends one. A backslash before
    the second one: it may be part of the string.
    """
    backslash = ord("\\")
    return (
        text[opening - 1 : opening] != b"\\"
        and text[closing - 1] != backslash
        and text[opening + 1] not in _AFTER_A_STRING
    )


def _restore(value: object, strings: Mapping[str, memoryview]) -> object:
    """Puts the strings that were cut out into their places."""
    root = [value]
    waiting: list[tuple[_Path, Any]] = [(None, root)]
    while waiting:
        path, outer = waiting.pop()
        if isinstance(outer, dict) and not strings.keys().isdisjoint(outer):
            name = _name(path) or "message"
            raise InvalidInput(f"{name}: the name of a field is too long", field=_name(path))
        for key, item in outer.items() if isinstance(outer, dict) else enumerate(outer):
            if isinstance(item, dict | list):
                waiting.append(((path, key), item))
            elif isinstance(item, str) and item in strings:
                outer[key] = _string(strings[item], (path, key))
    return root[0]


def _string(content: memoryview, path: _Path) -> str | LongText:
    if len(content) > _LONG_BYTES:
        return LongText(content)
    text = b'"' + content + b'"'
    try:
        string: str = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        refused = _refusal(text, error.msg)
        if isinstance(refused, NotJson):
            raise refused from None
        name = _name(path)
        _, _, reason = refused.message.partition(": ")
        raise InvalidInput(f"{name or 'message'}: {reason}", field=name) from None
    return string


def count_json_tokens(text: str | bytes | bytearray) -> int:
    """Opening brackets and commas. Raises InvalidInput if there are more than MAX_JSON_TOKENS."""
    total = 0
    tokens: Any = "[{," if isinstance(text, str) else (b"[", b"{", b",")
    for start in range(0, len(text), _BLOCK_BYTES):
        block = text[start : start + _BLOCK_BYTES]
        for token in tokens:
            # If tokens are few, `find` takes a twentieth of the time: audio is one long string.
            at = -1
            for _ in range(_MAX_FINDS):
                at = block.find(token, at + 1)
                if at < 0:
                    break
                total += 1
            else:
                total += block.count(token, at + 1)
        if total > MAX_JSON_TOKENS:
            raise InvalidInput(
                f"message with more than {MAX_JSON_TOKENS} brackets and commas; send less at once",
                code=ErrorCode.MESSAGE_TOO_LARGE,
            )
    return total


def check_depth(value: object, limit: int) -> None:
    """Raises InvalidInput if objects and lists are nested deeper than `limit`."""
    if _is_deeper(value, limit):
        raise _too_deep()


def _is_deeper(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [inner for outer in level for inner in _items(outer) if _items(inner)]
        if not level:
            return False
    return True


def _items(value: object) -> Collection[object]:
    """What a list or an object holds; of other values nothing."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> InvalidInput:
    text = "lists and objects are nested too deep; send a flatter message"
    return InvalidInput(text, code=ErrorCode.TOO_COMPLEX)


def _refusal(text: str | bytes | bytearray, fault: str) -> NotJson | InvalidInput:
    """Why orjson refused a text: it is not JSON, or it has a value that orjson cannot represent.

    Integers become their numbers of digits, because Python takes long to convert long ones.
    """
    try:
        value = json.loads(
            text if isinstance(text, str) else text.decode(),
            parse_int=len,
            parse_constant=_not_a_number,
        )
    except RecursionError:
        return _too_deep()
    except ValueError:
        return NotJson(f"not valid JSON: {fault}")
    if _is_deeper(value, _MAX_DEPTH):
        return _too_deep()
    name, reason = next(_unusable(value), (None, "contains a value that cannot be used"))
    return InvalidInput(f"{name or 'message'}: {reason}", field=name)


def _not_a_number(name: str) -> NoReturn:
    """NaN and Infinity, which the parser knows, are not JSON."""
    raise ValueError(name)


def _unusable(value: object) -> Iterator[tuple[str | None, str]]:
    """The name of each field that orjson refuses, and the reason. Not recursive: JSON may be deep."""
    waiting: list[tuple[_Path, Any]] = [(None, [value])]
    while waiting:
        path, outer = waiting.pop()
        if isinstance(outer, dict) and any(map(_has_half_pair, outer)):
            yield _name(path), "a name contains half of a surrogate pair"
        for key, item in outer.items() if isinstance(outer, dict) else enumerate(outer):
            if isinstance(item, dict | list):
                waiting.append(((path, key), item))
            elif reason := _fault(item):
                yield _name((path, key)), reason


def _fault(value: object) -> str | None:
    if isinstance(value, str):
        return "contains half of a surrogate pair" if _has_half_pair(value) else None
    if isinstance(value, float):
        too_large = math.isinf(value)
    else:
        too_large = isinstance(value, int) and value > _MAX_DIGITS
    return "the number is out of range" if too_large else None


def _has_half_pair(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _name(path: _Path) -> str | None:
    """The root itself is the only item of a list."""
    parts: list[int | str] = []
    while path is not None:
        path, part = path
        parts.append(part)
    return field_name(parts[-2::-1])
