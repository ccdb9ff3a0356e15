"""The client refuses wrong options and arguments before it sends anything."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from antiphon.client.arguments import check_json, config_fields
from antiphon.client.assistant import Client
from antiphon.client.chat import ask, request_fields
from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import CannotConnect, Unauthorized
from antiphon.client.half_duplex import connect_half_duplex
from antiphon.client.options import ClientOptions
from antiphon.client.realtime import connect_realtime, connect_realtime_chat
from antiphon.client.recordings import Recordings
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.config import DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
)

TONE = np.sin(np.arange(16000) / 10).astype(np.float32)


FUNCTIONS = [
    *(connect_duplex, connect_half_duplex, connect_realtime, connect_realtime_chat),
    *(ask, Client),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_options_are_parameters(function: Callable[..., object]) -> None:
    parameters = inspect.signature(function).parameters
    assert parameters["api_key"].annotation == str | None
    assert set(ClientOptions.__annotations__) <= set(parameters)
    assert parameters["resume_for_s"].default == 15.0
    assert all(one.kind is not one.VAR_KEYWORD for one in parameters.values())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_parameter_is_described_where_editors_show_it(
    function: Callable[..., object],
) -> None:
    """`help` and editors show the docstring; an editor also shows that of an option's field."""
    text = inspect.getdoc(function.__init__ if isinstance(function, type) else function)
    described = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", text or "", re.MULTILINE))
    described = {name: " ".join(words.split()) for name, words in described.items()}
    assert list(described) == list(inspect.signature(function).parameters)
    fields = re.findall(
        r'^    (\w+): .+\n    """(.+)"""', inspect.getsource(ClientOptions), re.MULTILINE
    )
    assert dict(fields).items() <= described.items()
    assert set(dict(fields)) == set(ClientOptions.__annotations__)


async def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'api_keys'; did you mean 'api_key'"
    ):
        Client("ws://127.0.0.1:1", api_keys="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'resum'; did you mean 'resume'"):
        async with connect_duplex("ws://127.0.0.1:1", resum=True):  # type: ignore[call-arg]
            pass


@pytest.mark.parametrize(
    ("option", "error", "words"),
    [
        ({"binary": "yes"}, TypeError, "binary is a str, True or False is needed"),
        ({"api_key": 5}, TypeError, "api_key is a int, a str is needed"),
        ({"other_edges": "ws://b"}, TypeError, "other_edges is a str, a list of addresses"),
        ({"open_timeout_s": "3"}, TypeError, "open_timeout_s is a str, a number of seconds"),
        ({"resume_for_s": -1}, ValueError, "resume_for_s is -1, 0 or more seconds are needed"),
        ({"pcm": "s24"}, ValueError, "pcm is 's24', 'f32' or 's16' is needed"),
    ],
)
def test_a_wrong_option_is_refused(
    option: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Client("ws://127.0.0.1:1", **option)


def test_the_name_of_a_pcm_format_is_enough() -> None:
    Client("ws://127.0.0.1:1", binary=True, pcm="s16")


@pytest.mark.parametrize("key", ["k0123456789abcdef\n", "k 0123456789abcdef", "ключ0123456789abc"])
def test_a_key_that_no_edge_has_is_refused_without_showing_it(key: str) -> None:
    client = Client("ws://127.0.0.1:1", api_key=key)
    for call in (lambda: client.ask(TONE), client.recordings.list):
        with pytest.raises(Unauthorized, match=r"strip\(\)") as refused:
            call()
        assert key.strip() not in refused.value.message


@pytest.mark.parametrize(
    ("patience", "error"), [("5", TypeError), (-5, ValueError), (float("nan"), ValueError)]
)
def test_a_wrong_patience_is_refused(patience: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="patience_s is"):
        Client("ws://127.0.0.1:1").ask(TONE, patience_s=patience)


def test_a_text_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`antiphon\.ask` text"):
        Client("ws://127.0.0.1:1").ask("What is the capital of Italy?")


@pytest.mark.parametrize(
    ("kind", "config", "words"),
    [
        (
            DuplexConfig,
            {"temperatur": 0.5},
            "config has no setting 'temperatur'; did you mean 'temp",
        ),
        (DuplexConfig, "hot", "config is a str, a mapping of settings is needed"),
        (
            HalfDuplexConfig,
            {"vad": {"treshold": 0.5}},
            r"config\.vad has no setting 'treshold'; did",
        ),
        (HalfDuplexConfig, {"vad": 0.5}, r"config\.vad is a float, a mapping"),
    ],
)
def test_a_wrong_setting_is_refused(kind: type[BaseModel], config: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        config_fields(config, kind)


def test_an_address_that_is_no_text_is_refused() -> None:
    wrong: Any = None
    with pytest.raises(TypeError, match="the edge's address is a NoneType, a str is needed"):
        Client(wrong).ask(TONE)


async def test_a_session_id_that_no_edge_accepts_is_refused() -> None:
    for connect in (connect_duplex, connect_half_duplex):
        with pytest.raises(ValueError, match="session_id is 'my call', 1 to 64 of A-Z"):
            async with connect("ws://127.0.0.1:1", session_id="my call"):
                pass
        wrong: Any = 5
        with pytest.raises(ValueError, match="session_id is 5, 1 to 64 of A-Z"):
            async with connect("ws://127.0.0.1:1", session_id=wrong):
                pass


@pytest.mark.parametrize("version", ["2", 3])
def test_a_version_that_no_edge_has_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match=f"version is {version!r}, 1 or 2 is needed"):
        connect_realtime("ws://127.0.0.1:1", version=version)


@pytest.mark.parametrize("other", [5, "ws://h/ws/duplex/x", "::::"])
async def test_a_wrong_address_of_another_edge_is_refused_at_once(other: Any) -> None:
    words = "is a int, a str is needed|has the path of a session|no address of an edge"
    with pytest.raises((CannotConnect, TypeError), match=words):
        async with connect_duplex("ws://127.0.0.1:1", resume=True, other_edges=[other]):
            pass


@pytest.mark.parametrize("field", ["generation", "tts", "options"])
async def test_a_wrong_field_of_a_chat_is_refused(field: str) -> None:
    wrong: Any = {field: {"wrong": 1}}
    with pytest.raises(TypeError, match=f"{field} has no setting 'wrong'"):
        async with ask("ws://127.0.0.1:1", "Hello", **wrong):
            pass


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (None, "history is a NoneType, a text or messages are needed"),
        ({"role": "user", "content": "Hello"}, r"a list of messages is needed: \[message\]"),
        (["Hello"], r"history\[0\] is a str, a message is needed"),
    ],
)
async def test_a_wrong_history_is_refused(history: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        async with ask("ws://127.0.0.1:1", history):
            pass


PHOTO = Path("photo.jpg")
NESTED: list[Any] = []
NESTED.append(NESTED)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (PHOTO, r"v is a \w*Path, its content is needed: read_bytes\(\) for media, read_text\(\)"),
        ({"a": [1, {PHOTO}]}, r"v\.a\[1\] is a set, a list is needed: list\(value\)"),
        (object(), "v is a object, a value of JSON, or bytes, are needed"),
        (bytearray(2), r"v is a bytearray, bytes are needed: bytes\(value\)"),
        (2**70, "v is a int, JSON has whole numbers of at most 64 bits"),
        (["\udcff"], r"v\[0\] is a str, it has half of a surrogate pair"),
        ({1: 2}, "v has the key 1, keys must be str"),
        ({"\udcff": 2}, "a key of v is a str, it has half of a surrogate pair"),
        (np.array([object()]), r"v is a ndarray, its bytes are needed: tobytes\(\)"),
        (NESTED, "^v is nested more than 100 levels deep"),
    ],
)
def test_what_is_no_json_is_named(value: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        check_json("v", value)


def test_numbers_of_numpy_media_and_texts_can_be_sent() -> None:
    check_json("v", {"a": [np.int64(1), np.float32(0.5), None, True, b"\xff", "é", (1.5,)]})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"history": [{"role": "user", "content": [{"type": "image", "data": PHOTO}]}]}, "history"),
        ({"tts": {"voice": PHOTO}}, r"tts\.voice"),
        ({"generation": {"temperature": PHOTO}}, r"generation\.temperature"),
        ({"options": {"omni_mode": PHOTO}}, r"options\.omni_mode"),
        ({"tools": [{"function": PHOTO}]}, r"tools\[0\]\.function"),
        ({"streaming": PHOTO}, "streaming"),
    ],
)
def test_a_file_in_a_chat_is_refused_before_the_connection(
    wrong: dict[str, Any], words: str
) -> None:
    if words == "history":
        words = r"history\[0\]\.content\[0\]\.data"
    with pytest.raises(TypeError, match=rf"^{words} is a \w*Path, its content is needed"):
        ask("ws://127.0.0.1:1", **{"history": "Hello", **wrong})


@pytest.mark.parametrize("tools", [5, "add", {"type": "function"}])
def test_tools_that_are_no_list_are_refused(tools: Any) -> None:
    with pytest.raises(
        TypeError, match=f"tools is a {type(tools).__name__}, a list of definitions"
    ):
        ask("ws://127.0.0.1:1", "Hello", tools=tools)


@pytest.mark.parametrize(
    ("parts", "error", "words"),
    [
        ("Hello", TypeError, r"history\[0\]\.parts is a str, a list or a tuple of TextPart or"),
        (("Hello",), TypeError, r"history\[0\]\.parts\[0\] is a str, TextPart or AudioPart or"),
        ((ImagePart(PHOTO),), TypeError, r"content\[0\]\.data is a \w*Path, its content is"),  # type: ignore[arg-type]
        ((AudioPart(TONE),), TypeError, r"content\[0\]\.data is a ndarray, its bytes are"),  # type: ignore[arg-type]
        (
            (AudioPart(b"123"),),
            ValueError,
            r"history\[0\]\.parts\[0\]\.data: 3 bytes is not a whole",
        ),
    ],
)
def test_a_wrong_part_of_a_message_is_named(parts: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ask("ws://127.0.0.1:1", [ConversationMessage(Role.USER, parts)])


def test_a_wrong_tool_call_is_named() -> None:
    calls: Any = [{"id": "1"}]
    message = ConversationMessage(Role.ASSISTANT, (TextPart(""),), calls)
    with pytest.raises(TypeError, match=r"history\[0\]\.tool_calls\[0\] is a dict, ToolCall is"):
        ask("ws://127.0.0.1:1", [message])


def test_sound_of_16_bits_in_a_chat_is_sent_as_float32() -> None:
    """The base64 of a text message has no format."""
    sound = ConversationMessage(
        Role.USER, (AudioPart(np.array([16384], "<i2").tobytes(), PcmFormat.S16),)
    )
    request = request_fields([sound], True, None, None, (), None)
    sent = request["messages"][0]["content"][0]["data"]
    assert np.frombuffer(sent.data, "<f4")[0] == pytest.approx(0.5, abs=1e-3)
    assert sent.pcm is PcmFormat.F32


async def test_an_unusable_mode_is_refused() -> None:
    wrong: Any = "chat"
    with pytest.raises(ValueError, match="mode is 'chat', 'video' or 'audio' is needed"):
        connect_realtime("ws://127.0.0.1:1", mode=wrong)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda r: r.meta(5), TypeError, "name is a int, a str is needed"),
        (lambda r: r.save("r", "x.wav", file=5), TypeError, "file is a int, a str is needed"),
        (lambda r: r.list({"text": "x"}), TypeError, "query is a dict, a RecordingQuery is needed"),
        (lambda r: r.meta("\udcff"), CannotConnect, "nothing listens there"),
    ],
)
def test_a_wrong_argument_of_recordings_is_refused(
    call: Callable[[Any], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call(Recordings("ws://127.0.0.1:1"))


@pytest.mark.parametrize("option", [{"api_key": 5}, {"tls": True}])
def test_a_wrong_option_of_recordings_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(option))} is a"):
        Recordings("ws://127.0.0.1:1", **option)
