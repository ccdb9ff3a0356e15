"""Downloads of a recording: one file with ranges, the whole recording as a ZIP, copies without its id."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, BinaryIO

import orjson
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from antiphon.edge.recordings.store import (
    RecordingNotFound,
    RecordingStore,
    StoredFile,
    media_type,
)
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE

FILES_WITH_ID = (META_FILE, RECORDING_FILE)
"""The files that contain the recording's id."""

_BLOCK_BYTES = 256 * 1024
_ZIP64_BYTES = 2**31
_COMPRESSED = frozenset({".json", ".txt", ".vtt", ".srt"})
"""Audio and images do not shrink enough to be worth the time."""
_FIRST_ZIP_YEAR = 1980
_MISSING_NOTE = "MISSING.txt"

_HEADERS = {
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "default-src 'none'; media-src 'self'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_NOT_MODIFIED_HEADERS = ("etag", "last-modified", "cache-control")


class AssetResponse(FileResponse):
    """Sends an open file, so that the checked file is the one that is sent; closes it.

    Starlette answers ranges (206, 416, `If-Range`) and sets `ETag` and `Last-Modified`.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        known = media_type(path)
        self._file = file
        super().__init__(
            f"/proc/self/fd/{file.fileno()}",
            headers=_HEADERS,
            media_type=known or "application/octet-stream",
            filename=PurePosixPath(path).name,
            stat_result=os.fstat(file.fileno()),
            content_disposition_type="inline" if known else "attachment",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if is_unchanged(self.headers, Headers(scope=scope)):
                kept = {name: self.headers[name] for name in _NOT_MODIFIED_HEADERS}
                await Response(status_code=304, headers=kept)(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def is_unchanged(response: Headers, request: Headers) -> bool:
    """True if a condition of the request says that the client has this file already."""
    if (tags := request.get("if-none-match")) is not None:
        known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
        return "*" in known or response["etag"] in known
    try:
        since = parsedate_to_datetime(request["if-modified-since"])
        return parsedate_to_datetime(response["last-modified"]) <= since
    except (KeyError, ValueError, TypeError, OverflowError):  # absent, no date, or no time zone
        return False


def redact_id(data: bytes, token: str) -> bytes:
    """Replace the recording's id by a share token. Raises ValueError if `data` is not JSON."""
    content: dict[str, Any] = orjson.loads(data)
    if "recording_id" in content:
        content["recording_id"] = token
    return orjson.dumps(content, option=orjson.OPT_INDENT_2)


def zip_blocks(
    store: RecordingStore,
    recording: str,
    files: list[StoredFile],
    top: str,
    replaced: Mapping[str, bytes] = MappingProxyType({}),
) -> Iterator[bytes]:
    """A ZIP of `files` in blocks of a few hundred kB.

    Files are placed in the folder `top`; `replaced` holds other contents for some of them.
    A note in the ZIP lists files that were deleted during the download.
    """
    buffer, missing = _WriteBuffer(), list[str]()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in files:
            try:
                source = _open(store, recording, file, replaced)
            except RecordingNotFound:
                missing.append(file.path)
                continue
            with source:
                for _ in _add(source, archive, f"{top}/{file.path}", file):
                    if buffer.size >= _BLOCK_BYTES:
                        yield buffer.take()
        if missing:
            note = "Deleted while this archive was made:\n" + "\n".join(missing) + "\n"
            archive.writestr(f"{top}/{_MISSING_NOTE}", note)
    yield buffer.take()


def _open(
    store: RecordingStore, recording: str, file: StoredFile, replaced: Mapping[str, bytes]
) -> BinaryIO:
    if file.path in replaced:
        return io.BytesIO(replaced[file.path])
    return store.open(recording, file.path)


def _add(source: BinaryIO, archive: zipfile.ZipFile, name: str, file: StoredFile) -> Iterator[None]:
    """Add one file; yields after each block."""
    modified = datetime.fromtimestamp(file.modified, UTC)
    date = (max(modified.year, _FIRST_ZIP_YEAR), *modified.timetuple()[1:6])
    entry = zipfile.ZipInfo(name, date)
    entry.external_attr = 0o644 << 16
    is_text = PurePosixPath(name).suffix.lower() in _COMPRESSED
    entry.compress_type = zipfile.ZIP_DEFLATED if is_text else zipfile.ZIP_STORED
    with archive.open(entry, "w", force_zip64=file.size >= _ZIP64_BYTES) as target:
        while block := source.read(_BLOCK_BYTES):
            target.write(block)
            yield


class _WriteBuffer(io.RawIOBase):
    """Collects what ZipFile writes; not seekable."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        self.size += len(data)
        return len(data)

    def take(self) -> bytes:
        content = b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        return content
