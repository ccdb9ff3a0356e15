"""Invalid WebSocket frames for fuzzing: altered messages, unusual JSON, random bytes."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pybase64
from hypothesis import strategies as st

from support.protocol_driver import Protocol


@dataclass(frozen=True)
class Sent:
    """One outgoing message. Several pieces are sent as fragments."""

    pieces: tuple[bytes, ...]
    text: bool = True

    @property
    def breaks_the_protocol(self) -> bool:
        """True for text that is not UTF-8: the server may close the connection at once."""
        try:
            b"".join(self.pieces).decode()
        except UnicodeDecodeError:
            return self.text
        return False

    def __repr__(self) -> str:
        shown = [bytes(piece[:200]) for piece in self.pieces]
        return f"Sent({shown}, {sum(map(len, self.pieces))} bytes, text={self.text})"


def sent(frame: str | bytes) -> Sent:
    return Sent((frame.encode(),)) if isinstance(frame, str) else Sent((frame,), text=False)


def _base64(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


def _pcm(*values: float) -> str:
    return _base64(np.resize(np.array(values, "<f4"), 4000).tobytes())


def _nested(opening: str, closing: str, depth: int) -> str:
    return opening * depth + "0" + closing * depth


_ODD_MEDIA = {
    "empty": "",
    "three bytes": "AAAA",
    "no base64": "not base64!",
    "wrong padding": "A" * 100_001,
    "half a WAV": _base64(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0"),
    "half a JPEG": _base64(b"\xff\xd8\xff\xe0 no picture"),
    "a huge PNG": _base64(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\xff" * 8 + b"\x08\x02\0\0\0"),
    "half an MP4": _base64(b"\0\0\0\x18ftypmp42\0\0\0\0"),
    "NaN": _pcm(np.nan),
    "infinite": _pcm(np.inf, -np.inf),
    "loud": _pcm(3e38),
    "a text": _base64(b"The quick brown fox jumps over the lazy dog. " * 400),
    "16-bit numbers": _pcm(32_767.0, -32_768.0),
    "as loud as allowed": _pcm(8.0, -8.0),
    "silence": _pcm(0.0),
}
_ODD_TEXT = {
    "NUL": "\0",
    "right to left": "\u202e",
    "below the surrogates": "\ud7ff",
    "many notes": "𝄞" * 300,
    "too long": "a" * 20_001,
}
_LITERALS = {
    "nothing": "",
    "a space": " ",
    "NaN": "NaN",
    "minus infinity": "-Infinity",
    "too great a number": "1e999",
    "a lone surrogate": '"\\ud800"',
    "a lone surrogate as type": '{"type":"\\udfff"}',
    "a lone surrogate as prompt": '{"type":"prepare","system_prompt":"\\ud83d"}',
    "a pause of NaN": '{"type":"pause","timeout":NaN}',
    "an endless pause": '{"type":"pause","timeout":1e999}',
    "two types": '{"type":"stop","type":"prepare"}',
    "a stop with too great a number": '{"type":"stop","a":[1e309,-1e309]}',
    "half a pair as name": '{"type":"stop","\\ud800":1}',
    "400 digits": '{"type":' + "1" * 400 + "}",
    "a number that is cut short": '{"type":1e309',
    "5000 digits": '{"type":' + "1" * 5000 + "}",
    "deep messages": '{"messages":' + _nested("[", "]", 900) + "}",
    "deep lists": _nested("[", "]", 200),
    "very deep lists": _nested("[", "]", 100_000),
    "deep objects": _nested('{"a":', "}", 200),
    "very deep objects": _nested('{"a":', "}", 100_000),
    "deep metrics": '{"type":"client_diagnostic","metrics":{"m":' + _nested("[", "]", 250) + "}}",
    "deeper metrics": '{"type":"client_diagnostic","metrics":{"m":'
    + _nested("[", "]", 1000)
    + "}}",
}


def _any_of(named: dict[str, str]) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(named)).map(named.__getitem__)


_NUMBERS = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([-(2**63), 2**63, 2**64, 10**30, -0.0, 5e-324, 1e308]),
    st.floats(allow_nan=False, allow_infinity=False),
)
_STRINGS = st.text(max_size=20) | _any_of(_ODD_TEXT) | _any_of(_ODD_MEDIA)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_STRINGS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def _altered(draw: st.DrawFn, protocol: Protocol) -> str:
    """A valid message with one value, at any depth, replaced, added or removed."""
    name = draw(st.sampled_from(sorted(protocol.messages)))
    message = orjson.loads(protocol.messages[name])
    place: Any = message
    while (inner := _containers(place)) and draw(st.booleans()):
        place = inner[draw(st.integers(0, len(inner) - 1))]
    keys = [*place, "config"] if isinstance(place, dict) else range(len(place))
    key = draw(st.sampled_from(keys))
    if draw(st.integers(0, 4)) or key == "config":
        place[key] = draw(_VALUES)
    else:
        del place[key]
    return _json(message)


def _containers(place: Any) -> list[Any]:
    values = place.values() if isinstance(place, dict) else place
    return [value for value in values if isinstance(value, dict | list) and value]


def _json(value: Any) -> str:
    """orjson accepts no integers beyond 64 bits."""
    return json.dumps(value, ensure_ascii=False)


@st.composite
def _fragments(draw: st.DrawFn, frame: str) -> Sent:
    """Cut anywhere, also within a character."""
    data = frame.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), min_size=1, max_size=4)))
    return Sent(tuple(data[i:j] for i, j in pairwise([0, *cuts, len(data)])))


_MEDIA_FIELDS = ("audio", "audio_base64", "frame", "ref_audio_base64", "system_content", "messages")


@st.composite
def _binary(draw: st.DrawFn, protocol: Protocol) -> Sent:
    """A header that points to its payload, or elsewhere, or states a wrong length."""
    message = orjson.loads(protocol.messages[draw(st.sampled_from(sorted(protocol.messages)))])
    place = {
        "at": draw(st.sampled_from([0, 4, -1, 2**63, "0", None])),
        "bytes": draw(st.sampled_from([16_000, 8_000, 1, 0, -4, 10**12, 1.5])),
        "format": draw(st.sampled_from(["f32", "s16", "mp3", 7])),
    }
    message[draw(st.sampled_from(_MEDIA_FIELDS))] = draw(st.sampled_from([place, [place, place]]))
    header = _json(message).encode()
    length = draw(st.sampled_from([len(header), len(header), 0, 2**32 - 1]))
    payload = draw(
        st.sampled_from([bytes(16_000), np.full(4000, np.nan, "<f4").tobytes(), b"\xff"])
    )
    return Sent((length.to_bytes(4, "little") + header + payload,), text=False)


def good_frames(protocol: Protocol) -> st.SearchStrategy[Sent]:
    """The messages of the protocol's document."""
    return st.sampled_from(sorted(protocol.messages)).map(
        lambda name: sent(protocol.messages[name])
    )


def hostile_frames(protocol: Protocol) -> st.SearchStrategy[Sent]:
    """Any frame, including valid ones; most of them pass the JSON parser."""
    names = st.sampled_from(["type", "audio", "config", "session", "messages"])
    odd = st.dictionaries(names, _VALUES, max_size=3).map(_json)
    altered = _altered(protocol)
    return st.one_of(
        good_frames(protocol),
        *[altered.map(sent)] * 4,
        odd.map(sent),
        _binary(protocol),
        altered.flatmap(_fragments),
        _any_of(_LITERALS).map(sent),
        st.text(max_size=20).map(sent),
        st.binary(max_size=20).map(sent),
        st.binary(max_size=20).map(lambda data: Sent((data,))),
    )
