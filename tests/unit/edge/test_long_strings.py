"""Long strings are cut out of JSON text, and what is left is parsed like all other text."""

import json
from typing import Any

import orjson
import pybase64
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.edge.errors import NotJson
from antiphon.edge.json_text import MAX_OTHER_BYTES, cut_long_strings, load_json
from antiphon.edge.media.decode import read_media
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.long_bytes import LongText

MIB = 1024 * 1024
PAD = "A" * (MIB + 1)
"""Makes every message a long one."""

TEXTS = st.builds(
    lambda start, unit, times, end: start + unit * times + end,
    st.sampled_from(["", " ", ",", '"', "\\", ":", "x", "\\\\"]),
    st.sampled_from(["A", "\u4e2d", "\U0001f600", '"', "\\", "\n", "/", "[{,", " ", "ab\\"]),
    st.sampled_from([0, 1, 1000, 4095, 4096, 5000]),
    st.sampled_from(["", '"', "\\", " ", "=", "\\\\"]),
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def _whole(value: Any) -> Any:
    """The value as the parser of the standard library returns it."""
    match value:
        case LongText():
            return json.loads(b'"' + bytes(value.data) + b'"')
        case dict():
            return {key: _whole(item) for key, item in value.items()}
        case list():
            return [_whole(item) for item in value]
    return value


@given(VALUES, st.booleans())
@example(value=-(2**63) - 1, ascii_only=False)  # beyond 64 bits, orjson reads a float
def test_every_json_text_keeps_its_value(value: Any, ascii_only: bool) -> None:
    asked = {"before": value, "pad": PAD, "after": [value]}
    text = json.dumps(asked, ensure_ascii=ascii_only).encode()
    for data in (text, bytearray(text)):
        assert _whole(load_json(data)) == orjson.loads(text)


@pytest.mark.parametrize("size", [4096, 4097, 6000, 8191, 70_000, 3 * MIB])
@pytest.mark.parametrize("before", [0, 1, 2047, 2048, 4000])
def test_a_string_of_twice_a_window_is_cut_out_wherever_it_is(size: int, before: int) -> None:
    cut = cut_long_strings(b'{"x":"' + b"y" * before + b'","z":"' + b"A" * size + b'","end":"x"}')
    assert b"A" * size in [bytes(string) for string in cut.strings.values()]
    assert len(cut.text) < 4200
    assert len(json.loads(cut.text)["z"]) < 40


def test_only_media_remain_long() -> None:
    value = load_json(json.dumps({"long": PAD, "text": "B" * MIB}).encode())
    assert isinstance(value, dict)
    assert isinstance(value["long"], LongText)
    assert value["text"] == "B" * MIB


LONG = b'"' + PAD.encode() + b'"'


@pytest.mark.parametrize(
    "text",
    [
        LONG[:-1],
        b'{"a":' + LONG,
        b'{"a":"b"' + LONG[1:] + b"}",
        b'["a"' + LONG + b"]",
        b'["a"' + LONG[1:-1] + b'"b"]',
        b'["a", ' + LONG[1:-1] + b"]",
        b'["a", ' + LONG + LONG + b"]",
        b"{" + LONG + b"}",
        b'{"a":' + LONG + b',"b":NaN}',
        b'["\t' + b"A" * 5000 + b'",' + LONG + b"]",
        b'["A\t' + b"A" * 5000 + b'",' + LONG + b"]",
        b'["A\xff' + b"A" * 5000 + b'",' + LONG + b"]",
        b'["\\x' + b"A" * 5000 + b'",' + LONG + b"]",
    ],
)
def test_text_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(NotJson) as refused:
        load_json(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (b'{"a":' + LONG + b',"b":[1e309]}', "b.0", "out of range"),
        (b'{"a":' + LONG + b',"b":["\\ud800' + b"A" * 5000 + b'"]}', "b.0", "surrogate"),
        (b'{"a":' + LONG + b',"b":{"' + b"A" * 5000 + b'":1}}', "b", "name of a field"),
        (b"{" + LONG + b":1}", None, "name of a field"),
    ],
)
def test_what_cannot_be_used_is_named(text: bytes, field: str | None, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        load_json(text)
    assert refused.value.field == field
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "text",
    [
        b'"' + b'\\"' * (3 * MIB) + b'"',
        b'"" ' * (2 * MIB),
        b"[" + b"1" * (5 * MIB) + b"]",
        b'["a"' + b" " * (5 * MIB) + b"]",
        b'["' + b"A" * (5 * MIB),
    ],
)
def test_the_rest_of_a_long_text_is_limited(text: bytes) -> None:
    with pytest.raises(InvalidInput, match=f"the limit is {MAX_OTHER_BYTES}") as refused:
        load_json(text)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


SOUND = pybase64.b64encode_as_string(bytes(range(256)) * 64)


@pytest.mark.parametrize(
    ("text", "cut_out"),
    [
        pytest.param(f'{{"type":"audio_chunk","audio":"{SOUND}"}}', True, id="audio"),
        pytest.param(f' {{"audio_base64" :\n "{SOUND}" , "x": [1] }} ', True, id="audio_base64"),
        pytest.param(f'{{"audio":"{SOUND[:-1]}\\/"}}', True, id="escape sequence"),
        pytest.param(f'{{"x\\"audio":"{SOUND}"}}', False, id="quote in a name"),
        pytest.param(f'{{"x":{{"audio":"{SOUND}"}},"audio":""}}', False, id="inner object"),
        pytest.param(f'{{"audio":"{SOUND}","audio":"x"}}', False, id="twice"),
        pytest.param(f'{{"text":"\\"audio\\":\\"{SOUND}"}}', False, id="within a text"),
        pytest.param(f'[{{"audio":"{SOUND}"}}]', False, id="list"),
        pytest.param(f'{{"audio":"{SOUND}\\"{SOUND}"}}', False, id="escaped quote"),
        pytest.param(f'{{"audio":"{SOUND}\\\\"}}', False, id="backslash at the end"),
        pytest.param(f'{{"audio":"{SOUND}","more":"{SOUND}"}}', False, id="another long text"),
    ],
)
def test_sound_is_cut_out_only_where_it_is_the_audio_of_the_message(
    text: str, cut_out: bool
) -> None:
    value = load_json(text.encode())
    assert _whole(value) == json.loads(text)
    items = value.values() if isinstance(value, dict) else ()
    assert any(isinstance(item, LongText) for item in items) == cut_out


@pytest.mark.parametrize(
    "text",
    [
        f'{{"audio":"{SOUND}"',
        f'{{"audio":"{SOUND}}}',
        f'{{"x":"y"audio":"{SOUND}"}}',
        f'"audio":"{SOUND}"',
        f'{{"audio":"{SOUND}"}} x',
    ],
)
def test_a_message_with_sound_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        load_json(text.encode())


def test_sound_is_charged_once_and_without_its_brackets() -> None:
    charged: list[int] = []
    load_json(f'{{"audio":"{SOUND}","x":[]}}'.encode(), 1000, charged.append)
    load_json(f'{{"other":"{SOUND}","x":[]}}'.encode(), 1000, charged.append)
    assert charged == [1300, 1300]


def test_sound_is_decoded_like_other_base64() -> None:
    for sound in (SOUND, SOUND[:-4] + "AA==", SOUND.replace("/", "\\/")):
        value = load_json(f'{{"audio":"{sound}"}}'.encode())
        assert isinstance(value, dict)
        assert isinstance(value["audio"], LongText)
        assert read_media(value["audio"], "audio").data == pybase64.b64decode(
            sound.replace("\\", "")
        )
    for sound in (SOUND[:-3], SOUND + "=A", SOUND[:100] + "=" + SOUND[101:], SOUND + "\u00e4"):
        value = load_json(f'{{"audio":"{sound}"}}'.encode())
        assert isinstance(value, dict)
        with pytest.raises(InvalidInput, match="not valid base64"):
            read_media(value["audio"], "audio")
