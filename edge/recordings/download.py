"""Downloads of a recording: one file with ranges, the whole recording as a ZIP, copies without its id."""

import os
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import BinaryIO, Self

from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from antiphon.edge.media.unseekable_file import UnseekableFile
from antiphon.edge.recordings.store import RecordingNotFound, RecordingStore, StoredFile, media_type
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE

FILES_WITH_ID = (META_FILE, RECORDING_FILE)
"""The files that contain the recording's id."""

_BLOCK_BYTES = 256 * 1024
_ZIP64_BYTES = 2**31
_TEXTS = frozenset({".json", ".txt", ".vtt", ".srt"})
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
        if is_text(path):  # the server may compress it, so its bytes can differ
            self.headers["etag"] = f"W/{self.headers['etag']}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if is_unchanged(self.headers, Headers(scope=scope)):
                kept = {name: self.headers[name] for name in _NOT_MODIFIED_HEADERS}
                await Response(status_code=304, headers=kept)(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def is_text(path: str) -> bool:
    """Audio and images do not shrink enough to be worth the time."""
    return PurePosixPath(path).suffix.lower() in _TEXTS


def is_unchanged(response: Headers, request: Headers) -> bool:
    """True if a condition of the request says that the client has this file already."""
    if (tags := request.get("if-none-match")) is not None:
        known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
        return "*" in known or response["etag"].removeprefix("W/") in known
    try:
        since = parsedate_to_datetime(request["if-modified-since"])
        return parsedate_to_datetime(response["last-modified"]) <= since
    except (KeyError, ValueError, TypeError, OverflowError):  # absent, no date, or no time zone
        return False


class RedactedFile:
    """A file of a recording, read in blocks, with a share token in place of the recording's id."""

    def __init__(self, file: BinaryIO, recording: str, token: str) -> None:
        self._file = file
        self._id = recording.encode()
        self._token = token.encode()
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """About `size` bytes; empty at the end. An id may span two blocks."""
        block = self._file.read(size)
        data = (self._rest + block).replace(self._id, self._token)
        end = max(0, len(data) - len(self._id) + 1) if block else len(data)
        self._rest = data[end:]
        return data[:end] or (self.read(size) if block else b"")

    def blocks(self) -> Iterator[bytes]:
        """The content; closes the file."""
        with self:
            while block := self.read(_BLOCK_BYTES):
                yield block


class RedactedResponse(StreamingResponse):
    """Sends a file without the recording's id, in blocks that a thread reads."""

    def __init__(self, file: RedactedFile) -> None:
        self._source = file
        super().__init__(file.blocks(), headers=_HEADERS, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._source:
            if scope["method"] == "HEAD":
                await Response(headers=dict(self.headers))(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)


def zip_blocks(
    store: RecordingStore,
    recording: str,
    files: list[StoredFile],
    top: str,
    token: str | None,
) -> Iterator[bytes]:
    """A ZIP of `files` in blocks of a few hundred kB.

    Files are placed in the folder `top`. A `token` replaces the recording's id in them.
    A note in the ZIP lists files that were deleted during the download.
    """
    buffer, missing = UnseekableFile(), list[str]()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in files:
            try:
                source = _open(store, recording, file, token)
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
    store: RecordingStore, recording: str, file: StoredFile, token: str | None
) -> BinaryIO | RedactedFile:
    source = store.open(recording, file.path)
    if token is None or file.path not in FILES_WITH_ID:
        return source
    return RedactedFile(source, recording, token)


def _add(
    source: BinaryIO | RedactedFile, archive: zipfile.ZipFile, name: str, file: StoredFile
) -> Iterator[None]:
    """Add one file; yields after each block."""
    modified = datetime.fromtimestamp(file.modified, UTC)
    date = (max(modified.year, _FIRST_ZIP_YEAR), *modified.timetuple()[1:6])
    entry = zipfile.ZipInfo(name, date)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED if is_text(name) else zipfile.ZIP_STORED
    with archive.open(entry, "w", force_zip64=file.size >= _ZIP64_BYTES) as target:
        while block := source.read(_BLOCK_BYTES):
            target.write(block)
            yield
