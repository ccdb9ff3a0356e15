"""Uploads a client's own recording: checked while it arrives, then moved into its recording at once."""

import errno
import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from pydantic import BaseModel
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from antiphon.broker.service.disk import check_reserve
from antiphon.edge.media.file_types import HEAD_BYTES, Container, container_of
from antiphon.edge.recordings.store import AtomicFile, DiskFull, RecordingNotFound, RecordingStore

FILE_STEM = "frontend_replay"
"""Name of the uploaded file; the suffix is its container."""

FORM_FIELD = "file"

MEDIA_TYPES = {
    "audio/wav": Container.WAV,
    "audio/wave": Container.WAV,
    "audio/x-wav": Container.WAV,
    "audio/webm": Container.WEBM,
    "video/webm": Container.WEBM,
    "audio/mp4": Container.MP4,
    "video/mp4": Container.MP4,
}
"""Accepted media types."""

_BLOCK_BYTES = 1024 * 1024
_MAX_PARTS = 100
"""Of a form. The parser takes 0.2 ms for each, and limits the headers of a part."""

_SHOWN_CHARS = 60


class InvalidUpload(ValueError):
    """The body is not one file of an accepted type."""


class UploadTooLarge(Exception):
    """The file is larger than the limit."""


class UploadSaved(BaseModel):
    """The asset that the upload became."""

    status: str
    path: str
    size_bytes: int


class UploadInfo(BaseModel):
    """The asset that a client uploaded, if any."""

    path: str | None = None
    size_bytes: int | None = None


def find_upload(store: RecordingStore, recording: str) -> UploadInfo:
    """What a client has uploaded. Raises what RecordingStore raises."""
    for container in Container:
        name = f"{FILE_STEM}.{container}"
        try:
            with store.open(recording, name) as file:
                return UploadInfo(path=name, size_bytes=os.fstat(file.fileno()).st_size)
        except RecordingNotFound:
            continue
    return UploadInfo()


async def save_upload(
    request: Request, store: RecordingStore, recording: str, limit: int, reserve_gb: float
) -> UploadSaved:
    """Save the body's file in a recording; replaces an earlier upload.

    Raises InvalidUpload, UploadTooLarge, DiskFull, ClientDisconnect, and what RecordingStore raises; the
    recording is unchanged then.
    """
    reserve = partial(_check_reserve, store.root, reserve_gb)
    await run_in_threadpool(reserve)
    file = await run_in_threadpool(AtomicFile, store)
    try:
        container, size = await _receive(request, file, limit, reserve)
        name = f"{FILE_STEM}.{container}"
        await run_in_threadpool(file.commit, recording, name)
    finally:
        await run_in_threadpool(file.discard)
    for other in set(Container) - {container}:
        await run_in_threadpool(store.remove, recording, f"{FILE_STEM}.{other}")
    return UploadSaved(status="ok", path=name, size_bytes=size)


def check_type(content_type: str, head: bytes) -> Container:
    """The container, if the first bytes match the stated media type. Raises InvalidUpload."""
    stated = content_type.partition(";")[0].strip().lower()
    if stated not in MEDIA_TYPES:
        accepted = ", ".join(sorted(MEDIA_TYPES))
        shown = stated[:_SHOWN_CHARS]
        raise InvalidUpload(f"file: type {shown!r} is not accepted; one of {accepted}")
    found = container_of(head[:HEAD_BYTES])
    if found is None:
        raise InvalidUpload("file: the content is neither WAV, WebM nor MP4")
    if found is not MEDIA_TYPES[stated]:
        raise InvalidUpload(f"file: stated as {stated}, but the content is {found}")
    return found


def _check_reserve(root: Path, reserve_gb: float) -> None:
    try:
        check_reserve(root, reserve_gb)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return  # the write itself reports what is wrong
        raise DiskFull(f"the server's disk is full: {error.strerror}") from error


async def _receive(
    request: Request, file: AtomicFile, limit: int, check_space: Callable[[], None]
) -> tuple[Container, int]:
    container, size = None, 0
    async for stated, block in _blocks(request):
        if container is None:  # the first block is longer than HEAD_BYTES, or it is the whole file
            container = check_type(stated, block)
        size += len(block)
        if size > limit:
            raise UploadTooLarge(f"file: longer than {limit} bytes")
        await run_in_threadpool(check_space)
        await run_in_threadpool(file.write, block)
    if container is None:
        raise InvalidUpload("file: is empty")
    return container, size


async def _blocks(request: Request) -> AsyncIterator[tuple[str, bytes]]:
    """The stated media type of the file, and its bytes in blocks that are large enough to write."""
    stated, held, size = "", list[bytes](), 0
    async for stated, chunk in _chunks(request):
        held.append(chunk)
        size += len(chunk)
        if size >= _BLOCK_BYTES:
            yield stated, b"".join(held)
            held, size = [], 0
    if size:
        yield stated, b"".join(held)


async def _chunks(request: Request) -> AsyncIterator[tuple[str, bytes]]:
    """The stated media type and the bytes of the file: the body itself, or the file in a form."""
    stated = request.headers.get("content-type", "")
    if not stated.lower().startswith("multipart/"):
        async for chunk in request.stream():
            yield stated, chunk
        return
    form = MultipartForm(stated)
    async for chunk in request.stream():
        data = await run_in_threadpool(form.feed, chunk)
        yield form.content_type, data
    form.end()


class MultipartForm:
    """Extracts the file of a `multipart/form-data` body chunk by chunk; ignores other fields.

    Starlette's parser is not used: it writes the whole file to /tmp first, which is memory in a container.
    """

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise InvalidUpload("the body must be multipart/form-data with a boundary")
        self.content_type = ""
        self.found = False
        self._name, self._value = b"", b""
        self._headers: dict[bytes, bytes] = {}
        self._parts = 0
        self._is_file = False
        self._ended = False
        self._data: list[bytes] = []
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_data,
                    "on_end": self._on_end,
                },
            )
        except FormParserError as error:
            raise InvalidUpload(f"the form cannot be read: {error}") from None

    def feed(self, chunk: bytes) -> bytes:
        """The part of the file in this chunk of the body. Raises InvalidUpload."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise InvalidUpload(f"the form cannot be read: {error}") from None
        data = b"".join(self._data)
        self._data.clear()
        return data

    def end(self) -> None:
        """Raises InvalidUpload if the body was incomplete or had no file."""
        if not self._ended:
            raise InvalidUpload("the form is incomplete")
        if not self.found:
            raise InvalidUpload(f"the form has no file under the name {FORM_FIELD!r}")

    def _on_part_begin(self) -> None:
        self._headers.clear()
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise InvalidUpload(f"the form has more than {_MAX_PARTS} parts")

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name, self._value = b"", b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        self._is_file = options.get(b"name") == FORM_FIELD.encode()
        if not self._is_file:
            return
        if self.found:
            raise InvalidUpload(f"the form has more than one {FORM_FIELD!r}")
        self.found = True
        self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._data.append(data[start:end])

    def _on_end(self) -> None:
        self._ended = True
