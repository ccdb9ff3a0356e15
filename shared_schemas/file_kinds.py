"""What kind of file some bytes are, from its first bytes. Names and media types of files are often wrong."""

import re
from enum import StrEnum

QUICKTIME_BOXES = frozenset((b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"))
"""First boxes of MP4 and QuickTime files. QuickTime came before `ftyp`, and some cameras omit it."""

TEXT_BYTES = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
"""The bytes of ASCII text."""


class FileKind(StrEnum):
    """The value names the kind in a sentence."""

    WAV = "a WAV file"
    WAVE64 = "a Wave64 file"
    MP3 = "an MP3 file"
    AAC = "an AAC file"
    OGG = "an Ogg file"
    FLAC = "a FLAC file"
    MP4 = "an MP4 file"
    WEBM = "a WebM file"
    MATROSKA = "a Matroska file"
    AVI = "an AVI file"
    AIFF = "an AIFF file"
    AU = "an AU file"
    CAF = "a CAF file"
    AMR = "an AMR file"
    WMA = "a WMA file"
    JPEG = "a JPEG picture"
    PNG = "a PNG picture"
    WEBP = "a WebP picture"
    GIF = "a GIF picture"
    HEIC = "a HEIC or AVIF picture"
    BMP = "a BMP picture"
    TIFF = "a TIFF picture"
    PDF = "a PDF document"
    ZIP = "a ZIP archive"
    GZIP = "a GZIP archive"
    HTML = "an HTML page"


_RIFF = {b"WAVE": FileKind.WAV, b"AVI ": FileKind.AVI, b"WEBP": FileKind.WEBP}
_PICTURE_BRANDS = (b"heic", b"heix", b"hevc", b"mif1", b"msf1", b"avif", b"avis")

_STARTS: dict[bytes, tuple[tuple[bytes, FileKind], ...]] = {
    b"fLaC": ((b"fLaC\0\0\0\x22", FileKind.FLAC),),
    b"OggS": ((b"OggS\0", FileKind.OGG),),
    b"riff": ((b"riff\x2e\x91\xcf\x11", FileKind.WAVE64),),
    b".snd": ((b".snd\0\0", FileKind.AU),),
    b"caff": ((b"caff\0\1", FileKind.CAF),),
    b"#!AM": ((b"#!AMR", FileKind.AMR),),
    b"\x30\x26\xb2\x75": ((b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", FileKind.WMA),),
    b"\x89PNG": ((b"\x89PNG\r\n\x1a\n", FileKind.PNG),),
    b"\xff\xd8\xff\xe0": ((b"\xff\xd8\xff\xe0\0", FileKind.JPEG),),
    b"\xff\xd8\xff\xdb": ((b"\xff\xd8\xff\xdb\0", FileKind.JPEG),),
    b"GIF8": ((b"GIF87a", FileKind.GIF), (b"GIF89a", FileKind.GIF)),
    b"II*\0": ((b"II*\0\x08\0\0\0", FileKind.TIFF),),
    b"MM\0*": ((b"MM\0*\0\0\0\x08", FileKind.TIFF),),
    b"%PDF": ((b"%PDF-", FileKind.PDF),),
    b"ID3\2": ((b"ID3\2\0", FileKind.MP3),),
    b"ID3\3": ((b"ID3\3\0", FileKind.MP3),),
    b"ID3\4": ((b"ID3\4\0", FileKind.MP3),),
}
"""By the first four bytes: longer beginnings. Two samples of 16 bits may be any four bytes by chance."""

_EBML = b"\x1aE\xdf\xa3"
_DOC_TYPE = b"\x42\x82"
_EBML_HEAD_BYTES = 4096
_JPEG_OF_CAMERA = b"\xff\xd8\xff\xe1"
_ZIP = b"PK\3\4"
_ZIP_VERSIONS = 64
_GZIP = b"\x1f\x8b\x08"
_GZIP_SYSTEMS = (*range(14), 255)
_LONGEST_FTYP = 4096
_EBML_KINDS = {b"webm": FileKind.WEBM, b"matroska": FileKind.MATROSKA}

_FIRST_BYTES = frozenset(
    {start[:1] for start in (*_STARTS, _EBML, _ZIP, _GZIP)} | {bytes([n]) for n in b"RFB\xff< \r\n"}
)

_HTML = re.compile(rb"\s*(<!doctype html|<html)", re.IGNORECASE)

_MPEG_KBITS = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Kilobits a second of Layer III by the index in its header, of MPEG 1 (3) and of MPEG 2 and 2.5."""
_MPEG_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_MPEG_FRAMES = 3
"""Consecutive frames that make an MP3 or AAC file. A single header occurs in PCM, too."""
_MPEG_SEARCH_BYTES = 4096
"""A file that was cut begins within a frame, which is shorter."""


def file_kind(data: bytes) -> FileKind | None:
    """The kind of a file; None for others, and for PCM."""
    if data[4:8] not in QUICKTIME_BOXES and data[:1] not in _FIRST_BYTES:
        return None  # nearly all PCM
    found = (check(data) for check in (_listed, _chunked, _boxed, _ebml, _mpeg_audio, _other))
    return next((kind for kind in found if kind is not None), None)


def _listed(data: bytes) -> FileKind | None:
    for beginning, kind in _STARTS.get(data[:4], ()):
        if data.startswith(beginning):
            return kind
    return None


def _chunked(data: bytes) -> FileKind | None:
    if data[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64"):
        return _RIFF.get(data[8:12])
    is_aiff = data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC")
    return FileKind.AIFF if is_aiff else None


def _ebml(data: bytes) -> FileKind | None:
    if not data.startswith(_EBML):
        return None
    return _EBML_KINDS.get(_doc_type(data[:_EBML_HEAD_BYTES]))


def _other(data: bytes) -> FileKind | None:
    """Kinds with a short beginning, of which a later byte is looked at, too."""
    start = data[:4]
    if start == _JPEG_OF_CAMERA and data[6:10] in (b"Exif", b"http"):
        return FileKind.JPEG
    if start == _ZIP and len(data) > 5 and data[4] < _ZIP_VERSIONS and not data[5]:
        return FileKind.ZIP
    if start[:3] == _GZIP and len(data) > 9 and data[3] < 32 and data[9] in _GZIP_SYSTEMS:
        return FileKind.GZIP
    if start[:2] == b"BM" and data[6:10] == bytes(4) and len(data) > 26:
        return FileKind.BMP
    return FileKind.HTML if _HTML.match(data, 0, 1024) else None


def _boxed(data: bytes) -> FileKind | None:
    if data[4:8] not in QUICKTIME_BOXES:
        return None
    if data[4:8] != b"ftyp":
        return FileKind.MP4
    if not 8 <= int.from_bytes(data[:4], "big") <= _LONGEST_FTYP:
        return None
    return FileKind.HEIC if data[8:12] in _PICTURE_BRANDS else FileKind.MP4


def _doc_type(head: bytes) -> bytes:
    """The DocType of an EBML header: id, one byte of length, text."""
    at = head.find(_DOC_TYPE, len(_EBML))
    if at < 0 or at + 3 > len(head):
        return b""
    length = head[at + 2] & 0x7F
    return head[at + 3 : at + 3 + length].rstrip(b"\0")


def find_mpeg_audio(data: bytes) -> FileKind | None:
    """An MP3 or AAC file of which the beginning was cut off."""
    at = data.find(b"\xff", 0, _MPEG_SEARCH_BYTES)
    while at >= 0:
        if (kind := _mpeg_audio(data, at)) is not None:
            return kind
        at = data.find(b"\xff", at + 1, _MPEG_SEARCH_BYTES)
    return None


def _mpeg_audio(data: bytes, at: int = 0) -> FileKind | None:
    for kind, length in ((FileKind.MP3, _mp3_frame), (FileKind.AAC, _aac_frame)):
        place = at
        for _ in range(_MPEG_FRAMES):
            size = length(data[place : place + 7])
            if not size:
                break
            place += size
        else:
            return kind
    return None


def _mp3_frame(head: bytes) -> int:
    """Bytes of the frame of Layer III that begins here; 0 if none does."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return 0
    version, bits, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version not in _MPEG_RATES or bits in (0, 15) or rate == 3:
        return 0
    kbits = _MPEG_KBITS[3 if version == 3 else 2][bits]
    padding = head[2] >> 1 & 1
    return (144 if version == 3 else 72) * kbits * 1000 // _MPEG_RATES[version][rate] + padding


def _aac_frame(head: bytes) -> int:
    """Bytes of the ADTS frame that begins here; 0 if none does."""
    if len(head) < 7 or head[0] != 0xFF or head[1] & 0xF6 != 0xF0 or head[2] >> 2 & 15 > 12:
        return 0
    size = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    return size if size > 7 else 0
