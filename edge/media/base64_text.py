"""Base64 of clients: strict base64 at once, and its usual variants when that fails.

The variants are data URLs (`data:image/png;base64,…`), line breaks, the alphabet of URLs, and missing
padding. Long text is decoded in pieces: a single call would stop all other threads.
"""

import re
from collections.abc import Iterator
from contextlib import suppress

import orjson
import pybase64

from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.long_bytes import PIECE_BYTES, LongText, pieces

_LONGEST_ESCAPE = len(r"\u002b")
_GROUP = 4

_SPACE = b" \t\r\n"
_STANDARD = bytes.maketrans(b"-_", b"+/")
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DATA_URL = re.compile(rb"data:([^,]{0,256}),", re.IGNORECASE)
_URL = re.compile(rb"(https?|ftp|file|blob):", re.IGNORECASE)
_PYTHON_BYTES = (b"b'", b'b"')


def decode_base64(text: str | LongText, field: str) -> bytes:
    """Raises InvalidInput with the reason."""
    with suppress(ValueError):  # most clients send strict base64
        if isinstance(text, str):
            return pybase64.b64decode(text, validate=True)
        if len(text.data) <= PIECE_BYTES:
            return pybase64.b64decode(text.data, validate=True)
        return b"".join(list(_decode_strict(_plain_pieces(text))))
    try:
        return b"".join(list(_decode_variants(_plain_pieces(text))))
    except ValueError as error:
        raise InvalidInput(f"{field}: not valid base64: {error}", field=field) from None


def _decode_strict(plain_pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Raises ValueError if the pieces are not strict base64 together."""
    ended, rest = False, b""
    for plain in plain_pieces:
        if ended:
            raise ValueError("padding before the end")
        rest += plain
        size = len(rest) - len(rest) % _GROUP
        group, rest = rest[:size], rest[size:]
        decoded = pybase64.b64decode(group, validate=True)
        ended = len(decoded) * _GROUP < size * 3
        yield decoded
    if rest:
        raise ValueError("incomplete at the end")


def _decode_variants(plain_pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Raises ValueError with the reason."""
    begun, ended, rest = False, False, b""
    for plain in plain_pieces:
        text = plain if begun else _without_prefix(plain)
        begun = True
        body, padding, after = text.translate(_STANDARD, _SPACE).partition(b"=")
        if (ended and body) or after.strip(b"="):
            raise ValueError("text follows the padding `=`")
        ended = ended or bool(padding)
        if wrong := body.translate(None, _ALPHABET):
            raise ValueError(f"it contains {_shown(wrong)}")
        rest += body
        size = len(rest) - len(rest) % _GROUP
        group, rest = rest[:size], rest[size:]
        yield pybase64.b64decode(group, validate=True)
    if len(rest) == 1:
        raise ValueError("it is cut off: one character is left over")
    yield pybase64.b64decode(rest + b"=" * (-len(rest) % _GROUP), validate=True)


def _without_prefix(text: bytes) -> bytes:
    """What follows the head of a data URL. Raises ValueError for what begins like other things."""
    text = text.lstrip(_SPACE)
    if head := _DATA_URL.match(text):
        if not head[1].rstrip().lower().endswith(b";base64"):
            raise ValueError("a data URL needs `;base64` before its comma")
        return text[head.end() :]
    if _URL.match(text):
        raise ValueError("this is a URL; send the content of the file")
    if text.startswith(_PYTHON_BYTES):
        raise ValueError("it begins with b' as Python prints bytes; use .decode()")
    return text


def _shown(wrong: bytes) -> str:
    """The first character that base64 does not have."""
    return repr(wrong[:4].decode(errors="replace")[0])


def _plain_pieces(text: str | LongText) -> Iterator[bytes]:
    """The text without escape sequences. Some encoders of JSON escape the characters / and + of base64."""
    if isinstance(text, str):
        yield from pieces(text.encode())
        return
    rest = b""
    for piece in pieces(text.data):
        rest += piece
        cut = rest.rfind(b"\\", max(0, len(rest) - _LONGEST_ESCAPE))
        whole = rest if cut < 0 else rest[:cut]
        yield _unescape(whole)
        rest = rest[len(whole) :]
    if rest:
        yield _unescape(rest)


def _unescape(text: bytes) -> bytes:
    """Raises ValueError for half of an escape sequence."""
    if b"\\" not in text:
        return text
    try:
        unescaped: str = orjson.loads(b'"' + text + b'"')
    except ValueError:
        raise ValueError("it contains '\\\\'") from None
    return unescaped.encode()
