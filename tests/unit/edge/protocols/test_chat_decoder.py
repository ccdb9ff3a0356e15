"""Chat: a request becomes a stream entry, or an error that names the wrong field."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pybase64
import pytest
import soundfile
from pydantic import ValidationError

from antiphon.edge.errors import NotJson
from antiphon.edge.json_text import Utf8Text
from antiphon.edge.protocols.chat import ChatDecoder, decode_request
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.entries import ChatIn, StopIn, pack, unpack
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.chat import ChatRequest
from support.edge_harness import no_uploaded_voices, picture
from support.tools import WEATHER, asks_weather, calls_weather, weather_result

MP4 = b"\0\0\0\x20ftypisom" + bytes(40)
MOV = b"\0\0\0\x08wide\0\0\0\x20mdat" + bytes(40)
WEBM = b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm" + bytes(40)
MKV = b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x88matroska" + bytes(80)


def _base64(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


def _pcm(samples: int) -> bytes:
    return np.full(samples, 0.5, "<f4").tobytes()


async def _read(request: object, **settings: Any) -> ChatIn:
    return await decode_request(
        orjson.dumps(request).decode(), EdgeSettings(**settings), no_uploaded_voices
    )


def _user(*parts: object, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], **fields}


HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


async def test_the_shortest_request() -> None:
    entry = await _read(HELLO)
    assert entry.messages() == (ConversationMessage(Role.USER, (TextPart("Hello"),)),)
    assert entry.options == ChatOptions()
    assert entry.ref_audio == b""


async def test_a_thousand_messages_with_long_texts_are_accepted() -> None:
    turn = {"type": "text", "text": "a list: " + "x, " * 20}
    roles = ("user", "assistant")
    history = [{"role": roles[i % 2], "content": [turn, turn]} for i in range(1000)]
    assert len((await _read({"messages": history})).messages()) == 1000


async def test_a_request_of_only_structure_is_refused_before_it_is_parsed() -> None:
    text = f'{{"messages":[{{"role":"user","content":"a"}}],"x":[{",".join(["[]"] * 1_000_000)}]}}'
    for frame in (text, Utf8Text(text.encode())):
        with pytest.raises(InvalidInput, match="brackets and commas; send less") as refused:
            await decode_request(frame, EdgeSettings(), no_uploaded_voices)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_checking_stops_at_the_first_wrong_part() -> None:
    """Collecting the errors of thousands of parts would take longer than reading them."""
    wrong = {"messages": [{"role": "user", "content": [0] * 900}] * 100}
    with pytest.raises(ValidationError) as refused:
        ChatRequest.model_validate(wrong)
    assert refused.value.error_count() == 1


async def test_over_http_nothing_is_streamed() -> None:
    body = Utf8Text(orjson.dumps({**HELLO, "streaming": True}))
    request = await decode_request(body, EdgeSettings(), no_uploaded_voices, streaming=False)
    assert not request.options.streaming


async def test_a_request_with_everything() -> None:
    jpeg, pcm = picture(), _pcm(100)
    entry = await _read(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Look:"}]},
                {"role": "assistant", "content": "Yes?"},
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "data": _base64(jpeg)},
                        {"type": "audio", "data": _base64(pcm), "sample_rate": 16000},
                        {"type": "video", "data": _base64(MP4), "stack_frames": 2},
                        {"type": "text", "text": ""},
                    ],
                },
            ],
            "streaming": False,
            "generation": {"max_new_tokens": 50, "do_sample": False, "length_penalty": 1.2},
            "image": {"max_slice_nums": 4},
            "tts": {"enabled": True, "mode": "omni", "ref_audio_data": _base64(_pcm(50))},
            "omni_mode": True,
            "enable_thinking": True,
        }
    )
    assert [message.role for message in entry.messages()] == ["system", "user", "assistant", "user"]
    assert entry.messages()[3].parts == (
        ImagePart(jpeg),
        AudioPart(pcm),
        VideoPart(MP4, 2),
        TextPart(""),
    )
    options = entry.options
    assert (options.streaming, options.tts.enabled, options.use_tts_template) == (False, True, True)
    assert (options.max_slice_nums, options.omni_mode, options.enable_thinking) == (4, True, True)
    generation = options.generation
    assert (generation.max_new_tokens, generation.length_penalty) == (50, 1.2)
    assert generation.temperature == 0.0  # do_sample
    assert entry.ref_audio == _pcm(50)


async def test_tools_calls_and_results() -> None:
    history = [asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome", "sunny")]
    call = {
        "id": "call_Rome",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
    }
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "weather Rome"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_Rome", "content": "sunny"},
    ]
    entry = await _read({"messages": messages, "tools": [{**WEATHER, "unknown": 1}]})
    assert list(entry.messages()) == history
    assert entry.options.tools == [WEATHER]
    assert unpack(dict(zip(*[iter(pack(entry))] * 2, strict=True))) == entry
    del messages[1]["content"]
    assert list((await _read({"messages": messages})).messages()) == history
    assert (await _read({**HELLO, "tools": None})).options.tools == []
    short = {"type": "function", "function": {"name": "now"}}
    assert (await _read({**HELLO, "tools": [short]})).options.tools == [short]


def _deep(levels: int) -> dict[str, Any]:
    return {"x": _deep(levels - 1)} if levels else {}


def _tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "now", **function}}


@pytest.mark.parametrize(
    ("tools", "field", "words"),
    [
        ("now", "tools", "valid list"),
        ([{}], "tools.0.type", "required"),
        ([{"type": "web_search"}], "tools.0.type", "'function'"),
        ([{"type": "function"}], "tools.0.function", "required"),
        ([{"type": "function", "function": {}}], "tools.0.function.name", "required"),
        ([_tool(name="what time")], "tools.0.function.name", "match pattern"),
        ([_tool(name="x" * 65)], "tools.0.function.name", "match pattern"),
        ([_tool(description=7)], "tools.0.function.description", "valid string"),
        ([_tool(parameters=[])], "tools.0.function.parameters", "valid dictionary"),
        ([_tool(parameters={"type": "array"})], "tools.0.function.parameters", "is `object`"),
        ([_tool(parameters=_deep(40))], "tools.0.function.parameters", "flatter"),
        ([_tool(), _tool()], "tools.1.function.name", "an earlier tool"),
        ([_tool(description="x" * 70_000)], "tools", "fewer or shorter"),
        (
            [_tool(parameters={"properties": {str(n): {} for n in range(9000)}})],
            "tools.0.function.parameters",
            "smaller schema",
        ),
        ([_tool()] * 129, "tools", "at most 128"),
    ],
)
async def test_wrong_tools_are_refused_by_name(tools: object, field: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        await _read({**HELLO, "tools": tools})
    assert refused.value.field == field


def _call(**function: Any) -> dict[str, Any]:
    named = {"name": "now", "arguments": "{}", **function}
    return {
        "role": "assistant",
        "tool_calls": [{"id": "call_1", "type": "function", "function": named}],
    }


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "noon"}


@pytest.mark.parametrize(
    ("messages", "field", "words"),
    [
        ([{"role": "assistant"}], "messages.1.content", "required"),
        ([{"role": "assistant", "tool_calls": []}], "messages.1.content", "required"),
        (
            [_call(arguments={"a": 1})],
            "messages.1.tool_calls.0.function.arguments",
            "valid string",
        ),
        ([_call(arguments="[]")], "messages.1.tool_calls.0.function.arguments", "JSON object"),
        ([_call(arguments="{")], "messages.1.tool_calls.0.function.arguments", "JSON object"),
        ([{**_call(), "role": "user", "content": "x"}], "messages.1.tool_calls", "assistant"),
        ([RESULT], "messages.1.tool_call_id", "no earlier message"),
        ([_call(), {**RESULT, "tool_call_id": None}], "messages.2.tool_call_id", "required"),
        ([_call(), {**RESULT, "role": "user"}], "messages.2.tool_call_id", "role `tool`"),
        ([_call(), {**RESULT, "content": None}], "messages.2.content", "required"),
        (
            [_call(), {**RESULT, "content": [{"type": "image", "data": "AAAA"}]}],
            "messages.2.content.0",
            "must be text",
        ),
    ],
)
async def test_wrong_calls_and_results_are_refused_by_name(
    messages: list[Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        await _read({"messages": [{"role": "user", "content": "What time is it?"}, *messages]})
    assert refused.value.field == field


async def test_null_sections_are_the_defaults() -> None:
    entry = await _read({**HELLO, "generation": None, "image": None, "tts": None})
    assert entry.options == ChatOptions()


async def test_the_output_voice(tmp_path: Path) -> None:
    data = _base64(_pcm(32_000))

    async def voice(**tts: Any) -> bytes:
        return (await _read({**HELLO, "tts": tts}, assets_dir=tmp_path)).ref_audio

    assert await voice(enabled=False, ref_audio_data=data) == b""
    assert await voice(enabled=True, mode="default", ref_audio_data=data) == b""
    assert len(await voice(enabled=True, ref_audio_data=data, ref_audio_max_ms=1000)) == 64_000
    soundfile.write(tmp_path / "voice.wav", np.zeros(800), 8000)
    assert len(await voice(enabled=True, ref_audio_path="voice.wav")) == 6400


@pytest.mark.parametrize("video", [MP4, MOV, WEBM])
async def test_videos_are_recognised_by_their_first_bytes(video: bytes) -> None:
    entry = await _read(_user({"type": "video", "data": _base64(video)}))
    assert entry.messages()[0].parts == (VideoPart(video, 1),)


async def test_instructions_alone_are_a_request() -> None:
    entry = await _read({"messages": [{"role": "system", "content": "Greet the user."}]})
    assert [message.role for message in entry.messages()] == ["system"]


_MISSING, _INVALID = ErrorCode.MISSING_FIELD, ErrorCode.INVALID_FIELD
_LARGE = ErrorCode.MESSAGE_TOO_LARGE
_DATA = "messages.0.content.0.data"
BAD: dict[str, tuple[object, ErrorCode, str]] = {
    "a list": ([], _INVALID, "messages"),
    "nothing": ({}, _MISSING, "messages"),
    "no messages": ({"messages": []}, _INVALID, "messages"),
    "no role": ({"messages": [{"content": "Hi"}]}, _MISSING, "messages.0.role"),
    "odd role": (
        {"messages": [{"role": "user", "content": ""}, {"role": "king", "content": ""}]},
        _INVALID,
        "messages.1.role",
    ),
    "no content": ({"messages": [{"role": "user"}]}, _MISSING, "messages.0.content"),
    "content is a number": (
        {"messages": [{"role": "user", "content": 5}]},
        _INVALID,
        "messages.0.content",
    ),
    "odd part": (_user({"type": "smell", "data": ""}), _INVALID, "messages.0.content.0"),
    "no text": (_user({"type": "text"}), _MISSING, "messages.0.content.0.text"),
    "image by path": (_user({"type": "image", "path": "/etc/passwd"}), _MISSING, _DATA),
    "image is text": (_user({"type": "image", "data": "aGVsbG8="}), _INVALID, _DATA),
    "image is a GIF": (
        _user({"type": "text", "text": ""}, {"type": "image", "data": _base64(picture("GIF"))}),
        _INVALID,
        "messages.0.content.1.data",
    ),
    "huge image": (
        _user({"type": "image", "data": _base64(picture("JPEG", (64, 64)) + bytes(2048))}),
        _LARGE,
        _DATA,
    ),
    "audio of three bytes": (_user({"type": "audio", "data": "AAAA"}), _INVALID, _DATA),
    "audio at 8 kHz": (
        _user({"type": "audio", "data": "", "sample_rate": 8000}),
        _INVALID,
        "messages.0.content.0.sample_rate",
    ),
    "long audio": (_user({"type": "audio", "data": _base64(_pcm(17_000))}), _INVALID, _DATA),
    "video is Matroska": (_user({"type": "video", "data": _base64(MKV)}), _INVALID, _DATA),
    "huge video": (_user({"type": "video", "data": _base64(MP4 + bytes(2048))}), _LARGE, _DATA),
    "no stack": (
        _user({"type": "video", "data": "", "stack_frames": 0}),
        _INVALID,
        "messages.0.content.0.stack_frames",
    ),
    "streaming is a word": ({**HELLO, "streaming": "yes"}, _INVALID, "streaming"),
    "tokens": (
        {**HELLO, "generation": {"max_new_tokens": 0}},
        _INVALID,
        "generation.max_new_tokens",
    ),
    "slices": ({**HELLO, "image": {"max_slice_nums": 10}}, _INVALID, "image.max_slice_nums"),
    "mode": ({**HELLO, "tts": {"enabled": True, "mode": "opera"}}, _INVALID, "tts.mode"),
    "voice": (
        {**HELLO, "tts": {"enabled": True, "ref_audio_data": "AAAA"}},
        _INVALID,
        "tts.ref_audio_data",
    ),
    "voice by path": (
        {**HELLO, "tts": {"enabled": True, "ref_audio_path": "../secret.wav"}},
        _INVALID,
        "tts.ref_audio_path",
    ),
}


@pytest.mark.parametrize(("request_", "code", "field"), BAD.values(), ids=BAD.keys())
async def test_bad_requests_name_their_field(request_: object, code: ErrorCode, field: str) -> None:
    limits = {"max_image_bytes": 2048, "max_video_bytes": 2048, "max_chat_audio_s": 1}
    with pytest.raises(InvalidInput) as refused:
        await _read(request_, **limits)
    assert (refused.value.code, refused.value.field) == (code, field)


async def test_requests_that_are_too_long_or_not_json() -> None:
    with pytest.raises(InvalidInput, match="the limit is 1024"):
        await _read(_user({"type": "text", "text": "a" * 1024}), max_chat_bytes=1024)
    with pytest.raises(NotJson):
        await decode_request("{", EdgeSettings(), no_uploaded_voices)
    with pytest.raises(NotJson):
        await decode_request(Utf8Text(b"\xff"), EdgeSettings(), no_uploaded_voices)


async def test_after_the_request_only_a_stop_is_accepted() -> None:
    decoder = ChatDecoder(EdgeSettings())
    assert await decoder.decode('{"type": "stop"}') == StopIn()
    for text in ("{}", "[]", '{"messages": []}'):
        with pytest.raises(InvalidInput, match="one request per connection"):
            await decoder.decode(text)
