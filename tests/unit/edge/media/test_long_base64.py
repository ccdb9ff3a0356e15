"""Long base64 is decoded in pieces, and with escape sequences."""

import os

import pybase64
import pytest

from antiphon.edge.media.decode import read_media
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.long_bytes import PIECE_BYTES, LongText


def _escape_slash(text: bytes) -> bytes:
    return text.replace(b"/", b"\\/")


def _escape_plus(text: bytes) -> bytes:
    return text.replace(b"+", b"\\u002B").replace(b"/", b"\\u002f")


@pytest.mark.parametrize("escape", [bytes, _escape_slash, _escape_plus])
@pytest.mark.parametrize("size", [PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 2])
def test_base64_in_pieces_is_that_of_the_whole(size: int, escape: type[bytes]) -> None:
    data = os.urandom(size)
    text = escape(pybase64.b64encode(data))
    assert read_media(LongText(memoryview(text)), "audio").data == data


@pytest.mark.parametrize("escape", [b"\\/", b"\\u002f"])
@pytest.mark.parametrize("shift", range(-8, 8))
def test_an_escape_sequence_between_two_pieces(escape: bytes, shift: int) -> None:
    start = b"A" * (PIECE_BYTES + shift)
    text = start + escape + b"A" * (-(len(start) + 1) % 4)
    whole = text.replace(escape, b"/")
    assert read_media(LongText(memoryview(text)), "audio").data == pybase64.b64decode(whole)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"A" * (PIECE_BYTES + 1), "cut off: one character is left over"),
        (b"A" * (PIECE_BYTES - 2) + b"==" + b"A" * 4, "text follows the padding"),
        (b"AA==" + b"A" * PIECE_BYTES, "text follows the padding"),
        (b"A" * PIECE_BYTES + b"===" + b"A", "text follows the padding"),
        (b"A" * PIECE_BYTES + b"A\nAA%", "it contains '%'"),
        (b"A" * PIECE_BYTES + b"\\", "it contains"),
        (b"A" * PIECE_BYTES + b"\\u00e9AAA", "it contains '\u00e9'"),
        (b"A" * PIECE_BYTES + "\u00e9AA".encode(), "it contains '\u00e9'"),
        (b"A" * (PIECE_BYTES - 1) + b"\\\\/AA", "it contains"),
    ],
)
def test_what_is_not_base64_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^audio: not valid base64: .*{words}"):
        read_media(LongText(memoryview(text)), "audio")
