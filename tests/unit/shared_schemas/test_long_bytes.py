"""Long bytes are copied in pieces."""

import os

import pytest

from antiphon.shared_schemas.long_bytes import PIECE_BYTES, copy_bytes, pieces


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7])
def test_copies_are_equal(size: int) -> None:
    data = os.urandom(size)
    for source in (bytearray(data), memoryview(data)):
        assert copy_bytes(source) == data
    assert all(len(piece) <= PIECE_BYTES for piece in pieces(data))
