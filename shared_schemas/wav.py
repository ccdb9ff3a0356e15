"""WAV files: complete, cut off, or with the header of a recorder that did not finish it.

Sizes in the header are hints. A recorder that writes into a pipe, or that was killed, leaves 0 or
0xFFFFFFFF there; the sound then continues to the end of the file.
"""

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.shared_schemas.audio import Samples

RATES = range(4_000, 384_001)
"""Hz that a WAV file may have."""
MAX_CHANNELS = 64

HEADER_BYTES = 44
"""Of the header that `wav_header` makes."""
_MAX_DATA_BYTES = 2**32 - HEADER_BYTES
_UNKNOWN_SIZE = 0xFFFFFFFF

_BYTE_ORDER = {b"RIFF": "<", b"RIFX": ">", b"RF64": "<", b"BW64": "<"}
_PCM, _FLOAT, _A_LAW, _MU_LAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_SUBFORMAT = bytes.fromhex("000000001000800000aa00389b71")
"""The end of the GUID of a format in WAVE_FORMAT_EXTENSIBLE; its first two bytes are the format."""
_SUBFORMAT_AT = 24
_CODECS = {
    0x0002: "ADPCM",
    0x0011: "IMA ADPCM",
    0x0031: "GSM",
    0x0045: "G.726",
    0x0050: "MPEG audio",
    0x0055: "MP3",
    0x00FF: "AAC",
    0x674F: "Vorbis",
    0xA106: "AAC",
}
_KNOWN_CHUNKS = frozenset(
    b"fmt |data|LIST|fact|bext|JUNK|junk|PEAK|cue |smpl|inst|id3 |ID3 |iXML|cart|ds64|PAD |FLLR|"
    b"plst|note|labl|ltxt|adtl|DISP|acid|axml|chna|umid|_PMX|SAUR|levl|link|afsp|LGWV|olym".split(
        b"|"
    )
)
_PIECE_FRAMES = 1 << 18
"""Frames that are mixed at a time: a file with many channels needs no second copy of itself."""


class UnreadableWav(ValueError):
    """The file has no sound that can be read; the message says why, without the name of the file."""


class CompressedWav(UnreadableWav):
    """The sound has a codec such as ADPCM or MP3."""


@dataclass(frozen=True, slots=True)
class WavSound:
    """The sound of a WAV file, not yet decoded."""

    rate: int
    channels: int
    dtype: str
    """numpy's type of one sample, `a` or `u` for A-law and µ-law, or `<i3`, `>i3` for 24 bits."""
    data: memoryview = field(repr=False)

    @property
    def width(self) -> int:
        return 1 if self.dtype in ("a", "u") else int(self.dtype[-1])

    @property
    def frames(self) -> int:
        return len(self.data) // (self.width * self.channels)

    def mono(self) -> Samples:
        """The mean of all channels, at `rate`; PCM is within -1 and 1."""
        size = self.width * self.channels
        step = _PIECE_FRAMES * size
        whole = self.frames * size
        with np.errstate(over="ignore", invalid="ignore"):  # callers refuse NaN and infinity
            parts = [
                _decode(self.data[start : min(start + step, whole)], self.dtype)
                .reshape(-1, self.channels)
                .mean(axis=1, dtype=np.float32)
                for start in range(0, whole, step)
            ]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def wav_header(size: int | None, rate: int, channels: int = 1) -> bytes:
    """The header for `size` bytes of 16-bit PCM, or for sound whose size is not known yet (None).

    Raises ValueError when a WAV cannot hold them.
    """
    if size is not None and size > _MAX_DATA_BYTES:
        raise ValueError(f"{size} bytes of sound are more than a WAV can hold")
    frame = 2 * channels
    whole, sound = (_UNKNOWN_SIZE,) * 2 if size is None else (HEADER_BYTES - 8 + size, size)
    riff = struct.pack("<4sI4s", b"RIFF", whole, b"WAVE")
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, _PCM, channels, rate, rate * frame, frame, 16)
    return riff + form + struct.pack("<4sI", b"data", sound)


def is_wav(head: bytes) -> bool:
    return head[:4] in _BYTE_ORDER and head[8:12] == b"WAVE"


def open_wav(data: bytes) -> WavSound:
    """The sound of a file. Raises UnreadableWav."""
    if not is_wav(data):
        raise UnreadableWav("it is not a WAV file")
    order = _BYTE_ORDER[data[:4]]
    form, sound = _find_chunks(memoryview(data), order)
    if form is None:
        raise UnreadableWav("its header is cut off or damaged: it has no chunk `fmt `")
    rate, channels, dtype = _read_format(bytes(form), order)
    if sound is None:
        raise UnreadableWav("it has no sound: the chunk `data` is missing")
    opened = WavSound(rate, channels, dtype, sound)
    if not opened.frames:
        raise UnreadableWav("it has no sound")
    return opened


def _find_chunks(file: memoryview, order: str) -> tuple[memoryview | None, memoryview | None]:
    """The contents of `fmt ` and `data`, in any order; the rest of the file where a size is wrong."""
    form: memoryview | None = None
    sound: memoryview | None = None
    long_size: int | None = None
    at = 12
    while at + 8 <= len(file) and (form is None or sound is None):
        name, start = bytes(file[at : at + 4]), at + 8
        (size,) = struct.unpack_from(order + "I", file, at + 4)
        if name == b"data":
            size = _data_size(file, start, size, long_size)
            sound = file[start : start + size] if sound is None else sound
        elif name == b"fmt " and form is None:
            form = file[start : start + size]
        elif name == b"ds64" and size >= 16 and start + 16 <= len(file):
            (long_size,) = struct.unpack_from("<Q", file, start + 8)
        at = _next_chunk(file, start + size, size)
    return form, sound


def _data_size(file: memoryview, start: int, size: int, long_size: int | None) -> int:
    rest = len(file) - start
    if size == _UNKNOWN_SIZE and long_size:
        return min(long_size, rest)
    if size == 0 and bytes(file[start : start + 4]) not in _KNOWN_CHUNKS:
        return rest
    return min(size, rest)


def _next_chunk(file: memoryview, end: int, size: int) -> int:
    """A chunk of odd length is followed by a byte that some programs omit."""
    if size % 2 and bytes(file[end : end + 4]) not in _KNOWN_CHUNKS:
        return end + 1
    return end


def _read_format(form: bytes, order: str) -> tuple[int, int, str]:
    """Rate, channels, and the type of a sample. Raises UnreadableWav."""
    if len(form) < 16:
        raise UnreadableWav("its header is cut off or damaged: the chunk `fmt ` is too short")
    tag, channels, rate, _, align, bits = struct.unpack_from(order + "HHIIHH", form)
    if tag == _EXTENSIBLE:
        if len(form) < 40 or form[_SUBFORMAT_AT + 2 : 40] != _subformat(order):
            raise CompressedWav("its format is unknown")
        (tag,) = struct.unpack_from(order + "H", form, _SUBFORMAT_AT)
    if not 0 < channels <= MAX_CHANNELS:
        raise UnreadableWav(f"its header says {channels} channels")
    if rate not in RATES:
        raise UnreadableWav(f"its header says {rate} Hz")
    return rate, channels, _sample_type(tag, bits, align, channels, order)


def _subformat(order: str) -> bytes:
    if order == "<":
        return _SUBFORMAT
    return struct.pack(">HHH", 0, 0, 0x10) + _SUBFORMAT[6:]


def _sample_type(tag: int, bits: int, align: int, channels: int, order: str) -> str:
    if tag in (_A_LAW, _MU_LAW):
        return "a" if tag == _A_LAW else "u"
    if tag == _FLOAT:
        if bits not in (16, 32, 64):
            raise UnreadableWav(f"its header says floats of {bits} bits")
        return f"{order}f{bits // 8}"
    if tag != _PCM:
        codec = _CODECS.get(tag, f"format 0x{tag:04x}")
        raise CompressedWav(f"its sound is compressed ({codec})")
    if not 8 <= bits <= 32 and bits != 64:
        raise UnreadableWav(f"its header says samples of {bits} bits")
    width = (bits + 7) // 8
    if width == 3 and align == 4 * channels:  # 24 bits, each in four bytes
        width = 4
    return "u1" if width == 1 else f"{order}i{width}"


def _decode(data: memoryview, dtype: str) -> NDArray[Any]:
    if dtype in ("a", "u"):
        return _law_table(dtype)[np.frombuffer(data, np.uint8)]
    if dtype[-2:] == "i3":
        return _decode_24_bits(data, dtype[0])
    values = np.frombuffer(data, dtype)
    if dtype == "u1":
        return (values.astype(np.float32) - 128) / 128
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    return values.astype(np.float32) / np.float32(2.0 ** (8 * values.itemsize - 1))


def _decode_24_bits(data: memoryview, order: str) -> NDArray[np.float32]:
    parts = np.frombuffer(data, np.uint8).reshape(-1, 3)
    if order == ">":
        parts = parts[:, ::-1]
    wide = np.zeros((len(parts), 4), np.uint8)
    wide[:, 1:] = parts
    return wide.view("<i4")[:, 0].astype(np.float32) / np.float32(2.0**31)


def _law_table(law: str) -> NDArray[np.float32]:
    """The sample of each byte of A-law or µ-law (ITU-T G.711)."""
    codes = np.arange(256, dtype=np.int32) ^ (0x55 if law == "a" else 0xFF)
    exponent, mantissa = codes >> 4 & 7, codes & 15
    if law == "a":
        high = (mantissa * 16 + 0x108) << np.maximum(exponent - 1, 0)
        size = np.where(exponent == 0, mantissa * 16 + 8, high)
        positive = codes & 0x80 != 0
    else:
        size = ((mantissa * 8 + 0x84) << exponent) - 0x84
        positive = codes & 0x80 == 0
    return (np.where(positive, size, -size) / 32768).astype(np.float32)
