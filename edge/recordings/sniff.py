"""What an uploaded recording is, judged by its first bytes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HEAD_BYTES = 4096
"""As many are enough to tell."""


class Container(StrEnum):
    """The forms that are taken; the value is the file's suffix."""

    WAV = "wav"
    WEBM = "webm"
    MP4 = "mp4"


ACCEPTED = {
    "audio/wav": Container.WAV,
    "audio/wave": Container.WAV,
    "audio/x-wav": Container.WAV,
    "audio/webm": Container.WEBM,
    "video/webm": Container.WEBM,
    "audio/mp4": Container.MP4,
    "video/mp4": Container.MP4,
}
"""Media types that a client may state."""

_WAVES = (b"RIFF", b"RF64")
_EBML = b"\x1aE\xdf\xa3"
_DOC_TYPE = b"\x42\x82"
_MP4_BRANDS = (b"iso", b"mp4", b"avc", b"M4A", b"M4V", b"dash", b"msd", b"cmf")


class NotARecording(ValueError):
    """The content, or what the client says of it, is none of the accepted forms."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a client says that it sends."""

    media_type: str
    container: Container


def stated(content_type: str) -> Stated:
    """The form behind a `Content-Type`, parameters (`;codecs=…`) ignored. Raises NotARecording."""
    plain = content_type.partition(";")[0].strip().lower()
    if plain not in ACCEPTED:
        accepted = ", ".join(sorted(ACCEPTED))
        raise NotARecording(f"file: type {plain[:60]!r} is not accepted; one of {accepted}")
    return Stated(plain, ACCEPTED[plain])


def check_content(head: bytes, claim: Stated) -> Container:
    """The form that the first bytes show, if it is the one that was stated. Raises NotARecording."""
    found = sniff(head)
    if found is None:
        raise NotARecording("file: the content is neither WAV, WebM nor MP4")
    if found is not claim.container:
        raise NotARecording(f"file: stated as {claim.media_type}, but the content is {found}")
    return found


def sniff(head: bytes) -> Container | None:
    """The form of a file that begins with `head`."""
    if head[:4] in _WAVES and head[8:12] == b"WAVE":
        return Container.WAV
    if head[4:8] == b"ftyp" and head[8:12].startswith(_MP4_BRANDS):
        return Container.MP4
    if head.startswith(_EBML) and _doc_type(head) == b"webm":
        return Container.WEBM
    return None


def _doc_type(head: bytes) -> bytes:
    """The DocType of an EBML header: id, a length of one byte, text."""
    at = head.find(_DOC_TYPE, len(_EBML))
    if at < 0 or at + 3 > len(head):
        return b""
    length = head[at + 2] & 0x7F
    return head[at + 3 : at + 3 + length].rstrip(b"\0")
