"""No step of reading a long chat handles more than a piece of it: all other threads would wait."""

import json
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pybase64
import pytest

from antiphon.edge.json_text import MAX_OTHER_BYTES, Utf8Text
from antiphon.edge.protocols.chat import decode_request
from antiphon.edge.protocols.realtime_chat import decode_chat_event
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import ChatIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.long_bytes import PIECE_BYTES
from antiphon.shared_schemas.wire import to_frame
from support.edge_harness import no_uploaded_voices

MIB = 1024 * 1024
VIDEO = b"\0\0\0\x20ftypisom" + bytes(20 * MIB)
TEXT = pybase64.b64encode_as_string(VIDEO)
SETTINGS = EdgeSettings()

Read = Callable[[bytearray], Awaitable[Any]]


async def _http(data: bytearray) -> Any:
    return await decode_request(Utf8Text(data), SETTINGS, no_uploaded_voices, streaming=False)


async def _realtime(data: bytearray) -> Any:
    return await decode_chat_event(Utf8Text(data), SETTINGS, no_uploaded_voices)


async def _binary(data: bytearray) -> Any:
    return await decode_request(data, SETTINGS, no_uploaded_voices)


def _request(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], **fields}


def _text(*parts: dict[str, Any], **fields: Any) -> bytearray:
    return bytearray(orjson.dumps(_request(*parts, **fields)))


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of everything that a parser or decoder gets. Each of them holds the interpreter's lock."""
    sizes = [0]

    def watch(module: Any, name: str) -> None:
        called = getattr(module, name)

        def watched(data: Any, *args: Any, **kwargs: Any) -> Any:
            sizes.append(len(data))
            return called(data, *args, **kwargs)

        monkeypatch.setattr(module, name, watched)

    watch(orjson, "loads")
    watch(json, "loads")
    watch(pybase64, "b64decode")
    return sizes


@pytest.mark.parametrize("kind", ["video", "escaped", "realtime", "binary"])
async def test_no_call_gets_a_long_text(kind: str, longest: list[int]) -> None:
    item = {"type": "video", "data": "VIDEO"}
    read: Read = _http
    data = _text(item).replace(b"VIDEO", TEXT.encode())
    if kind == "escaped":
        data = data.replace(b"/", b"\\/")
    if kind == "realtime":
        read = _realtime
        data[:0] = b'{"type":"input.append","input":'
        data += b"}"
    if kind == "binary":
        frame = to_frame(_request({"type": "video", "data": VIDEO}))
        assert isinstance(frame, bytes)
        read, data = _binary, bytearray(frame)
    tracemalloc.start()
    try:
        entry = await read(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(entry, ChatIn)
    assert entry.blobs == (VIDEO,)
    assert max(longest) <= PIECE_BYTES + 8
    assert peak < 2.2 * len(VIDEO), "the pieces and the whole; no copy of the text"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_text({"type": "text", "text": "x"}, more="A" * (20 * MIB))[:-1], "not JSON"),
        (_text({"type": "text", "text": '"' * (10 * MIB)}), ErrorCode.MESSAGE_TOO_LARGE),
        (_text({"type": "text", "text": "\n" * (10 * MIB)}), ErrorCode.INVALID_FIELD),
    ],
)
async def test_no_call_gets_a_long_text_that_is_refused(
    text: bytearray, code: str, longest: list[int]
) -> None:
    with pytest.raises(Exception) as refused:  # noqa: PT011 - the code is checked
        await _http(text)
    error = refused.value
    assert (error.code if isinstance(error, InvalidInput) else "not JSON") == code
    assert max(longest) <= MAX_OTHER_BYTES


LONG = "A" * (2 * MIB)
ITEM = {"type": "text", "text": "x"}


def _tool(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (_request({"type": "text", "text": LONG}), "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": LONG}]}, "messages.0.content.0.text"),
        (_request({"type": LONG}), "messages.0.content.0"),
        (_request(ITEM, tts={"ref_audio_path": LONG}), "tts.ref_audio_path"),
        (_request(ITEM, tts=LONG), "tts"),
        (_request(ITEM, tools=[_tool(description=LONG)]), "tools.0.function.description"),
        (
            _request(ITEM, tools=[_tool(parameters={"x": [LONG]})]),
            "tools.0.function.parameters",
        ),
    ],
)
async def test_a_text_that_is_too_long_is_named(request_: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await _http(bytearray(orjson.dumps(request_)))
    assert refused.value.field == field
    assert len(refused.value.message) < 300


async def test_unknown_fields_may_be_long() -> None:
    entry = await _http(_text(ITEM, unknown=LONG))
    assert entry.blobs == ()


async def test_texts_are_limited_together() -> None:
    messages = [{"role": "user", "content": "x" * 1024}] * 1000
    assert await _http(bytearray(orjson.dumps({"messages": messages})))
    messages += [{"role": "assistant", "content": "x" * 512 * 1024}]
    with pytest.raises(InvalidInput, match="characters of text") as refused:
        await _http(bytearray(orjson.dumps({"messages": messages[1:]})))
    assert (refused.value.code, refused.value.field) == (
        ErrorCode.MESSAGE_TOO_LARGE,
        "messages.999",
    )
