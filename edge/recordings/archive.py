"""A recording as one ZIP, made while it is sent: never more of it in memory than a piece."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import BinaryIO

from antiphon.edge.recordings.shelf import Item, NotThere, Shelf

_PIECE = 256 * 1024
_LARGE = 2**31
_TEXTS = frozenset({".json", ".txt", ".vtt", ".srt"})
"""Worth the time that compressing takes; sound and pictures give little for it."""

_FIRST_ZIP_YEAR = 1980
_NOTE = "MISSING.txt"


class _Outlet(io.RawIOBase):
    """What was written since it was last emptied; it cannot be sought in."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.held = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        """Hold it."""
        self._parts.append(bytes(data))
        self.held += len(data)
        return len(data)

    def empty(self) -> bytes:
        """Everything held until now."""
        whole = b"".join(self._parts)
        self._parts.clear()
        self.held = 0
        return whole


def zip_pieces(
    shelf: Shelf, recording: str, top: str, instead: Mapping[str, bytes] | None = None
) -> Iterator[bytes]:
    """The archive, in pieces of a few hundred kB. Raises NotThere, NoShelf before the first.

    Its files lie below the folder `top`; `instead` holds contents that replace those of some files.
    What vanishes meanwhile is named in a note inside.
    """
    items = shelf.files(recording)
    return _pieces(shelf, recording, items, top, instead or {})


def _pieces(
    shelf: Shelf, recording: str, items: list[Item], top: str, instead: Mapping[str, bytes]
) -> Iterator[bytes]:
    outlet, missing = _Outlet(), list[str]()
    with zipfile.ZipFile(outlet, "w") as archive:
        for item in items:
            try:
                source = _source(shelf, recording, item, instead)
            except NotThere:
                missing.append(item.path)
                continue
            with source:
                for _ in _copy(source, archive, f"{top}/{item.path}", item):
                    if outlet.held >= _PIECE:
                        yield outlet.empty()
        if missing:
            note = "Deleted while this archive was made:\n" + "\n".join(missing) + "\n"
            archive.writestr(f"{top}/{_NOTE}", note)
    yield outlet.empty()


def _source(shelf: Shelf, recording: str, item: Item, instead: Mapping[str, bytes]) -> BinaryIO:
    if item.path in instead:
        return io.BytesIO(instead[item.path])
    return shelf.open(recording, item.path)


def _copy(source: BinaryIO, archive: zipfile.ZipFile, name: str, item: Item) -> Iterator[None]:
    """Put one file in; yields after each piece of it."""
    moment = datetime.fromtimestamp(item.modified, UTC)
    date = (max(moment.year, _FIRST_ZIP_YEAR), *moment.timetuple()[1:6])
    entry = zipfile.ZipInfo(name, date)
    entry.external_attr = 0o644 << 16
    is_text = PurePosixPath(name).suffix.lower() in _TEXTS
    entry.compress_type = zipfile.ZIP_DEFLATED if is_text else zipfile.ZIP_STORED
    with archive.open(entry, "w", force_zip64=item.size >= _LARGE) as target:
        while piece := source.read(_PIECE):
            target.write(piece)
            yield
