"""A file in memory that is written without going back, and read while it is written."""

import io
from typing import Any


class UnseekableFile(io.RawIOBase):
    """Keeps what was written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()

    @property
    def size(self) -> int:
        """Bytes that were not taken."""
        return len(self._written)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        data, self._written = bytes(self._written), bytearray()
        return data
