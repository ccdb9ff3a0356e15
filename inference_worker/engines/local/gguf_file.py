"""Reads the header of a GGUF file: what it is, and whether all of its tensors are there."""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

GGUF = b"GGUF"
"""The first bytes of a GGUF file."""

_VERSIONS = (2, 3)

_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_FRACTIONS = "fd"
_TEXT, _ARRAY = 8, 9
"""Types of values. The others, with their formats for `struct`, are _NUMBERS."""

_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""Of a type of tensors: elements of a block, and its bytes. Of a newer type, no bytes are expected."""

_MOST_DIMENSIONS = 4
_ALIGNMENT = 32
"""Of the begin of the tensors, unless the file names another."""


_DAMAGED = "has a damaged header"


class NotGguf(ValueError):
    """The text says what is wrong. It continues a sentence that begins with the file's name."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """`size` in bytes is what the file has at least if no tensor is cut off."""

    architecture: str
    has_tokenizer: bool
    tensors: int
    size: int


def read_header(path: Path) -> GgufHeader:
    """Raises NotGguf, and OSError if the file cannot be read."""
    with path.open("rb") as file:
        if file.read(len(GGUF)) != GGUF:
            raise NotGguf("is not a GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Reader(data).header()
            except struct.error:
                raise NotGguf("is cut off in its header") from None
            except UnicodeDecodeError:
                raise NotGguf(_DAMAGED) from None


class _Reader:
    """Reads from the place after the first bytes. Raises struct.error at the end of the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._place = len(GGUF)

    def header(self) -> GgufHeader:
        if (version := self._number("I")) not in _VERSIONS:
            raise NotGguf(f"has version {version} of the GGUF format, which is unknown")
        tensors, values = self._number("Q"), self._number("Q")
        known = {self._text(): self._value(self._number("I")) for _ in range(values)}
        ends = [self._tensor_end() for _ in range(tensors)]
        alignment = known.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise NotGguf(_DAMAGED)
        begin = math.ceil(self._place / alignment) * alignment
        return GgufHeader(
            str(known.get("general.architecture", "unknown")),
            "tokenizer.ggml.model" in known,
            tensors,
            begin + max(ends, default=0),
        )

    def _number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f"<{kind}", self._data, self._place)
        self._place += struct.calcsize(f"<{kind}")
        return int(value)

    def _text(self) -> str:
        length = self._number("Q")
        begin = self._place
        self._skip(length)
        return self._data[begin : begin + length].decode()

    def _value(self, kind: int) -> int | str | None:
        """None for what is not needed: arrays, and numbers with a fraction."""
        if kind == _TEXT:
            return self._text()
        if kind == _ARRAY:
            self._skip_array(self._number("I"), self._number("Q"))
            return None
        if (number := _NUMBERS.get(kind)) is None:
            raise NotGguf(_DAMAGED)
        if number in _FRACTIONS:
            self._skip(struct.calcsize(f"<{number}"))
            return None
        return self._number(number)

    def _skip_array(self, kind: int, length: int) -> None:
        if kind in _NUMBERS:
            self._skip(length * struct.calcsize(f"<{_NUMBERS[kind]}"))
        elif kind == _TEXT:
            read, data, end = struct.Struct("<Q").unpack_from, self._data, len(self._data)
            place = self._place
            for _ in range(length):  # hundreds of thousands
                place += 8 + read(data, place)[0]
                if place > end:
                    break
            self._skip(place - self._place)
        else:
            raise NotGguf(_DAMAGED)

    def _tensor_end(self) -> int:
        """Where the next tensor's data ends, in bytes after the begin of all data."""
        self._text()
        if (dimensions := self._number("I")) > _MOST_DIMENSIONS:
            raise NotGguf(_DAMAGED)
        elements = math.prod(self._number("Q") for _ in range(dimensions))
        block, size = _BLOCKS.get(self._number("I"), (1, 0))
        return self._number("Q") + elements // block * size

    def _skip(self, size: int) -> None:
        self._place += size
        if self._place > len(self._data):
            raise struct.error
