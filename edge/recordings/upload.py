"""Takes a recording that a client made itself: measured and judged while it arrives, then put in its place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from antiphon.edge.recordings.form import BadForm, FormFile
from antiphon.edge.recordings.incoming import Incoming, remove
from antiphon.edge.recordings.shelf import NotThere, Shelf
from antiphon.edge.recordings.sniff import HEAD_BYTES, Container, check_content, stated

STEM = "frontend_replay"
"""A client's own recording lies under this name, with the suffix of its form."""

_BLOCK = 1024 * 1024
_SILENCE_S = 30.0


class UploadTooLarge(Exception):
    """The file is longer than it may be."""


class UploadStalled(Exception):
    """The client stopped sending."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was put where; `size` in bytes."""

    path: str
    size: int


def stored(shelf: Shelf, recording: str) -> Stored | None:
    """What a client has uploaded, if it has. Raises what Shelf raises."""
    for container in Container:
        name = f"{STEM}.{container}"
        try:
            with shelf.open(recording, name) as file:
                return Stored(name, os.fstat(file.fileno()).st_size)
        except NotThere:
            continue
    return None


async def store(request: Request, shelf: Shelf, recording: str, limit: int) -> Stored:
    """Put the body's file into a recording, in the place of an earlier one.

    Raises BadForm, NotARecording, UploadTooLarge, UploadStalled, and what Shelf raises; then nothing
    has changed.
    """
    incoming = await run_in_threadpool(Incoming, shelf)
    try:
        container, size = await _receive(request, incoming, limit)
        name = f"{STEM}.{container}"
        await run_in_threadpool(incoming.keep, recording, name)
    finally:
        await run_in_threadpool(incoming.discard)
    for other in set(Container) - {container}:
        await run_in_threadpool(remove, shelf, recording, f"{STEM}.{other}")
    return Stored(name, size)


async def _receive(request: Request, incoming: Incoming, limit: int) -> tuple[Container, int]:
    source = _Source(request)
    container, size = None, 0
    async for block in _blocks(source.pieces()):
        if container is None:  # the first block is longer than any head, or all there is
            container = check_content(block[:HEAD_BYTES], stated(source.content_type))
        size += len(block)
        if size > limit:
            raise UploadTooLarge(f"file: longer than {limit} bytes")
        await run_in_threadpool(incoming.write, block)
    if container is None:
        raise BadForm("file: is empty")
    return container, size


class _Source:
    """The file's bytes: the body itself, or the file in a form."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.content_type = request.headers.get("content-type", "")
        self._form = None
        if self.content_type.lower().startswith("multipart/"):
            self._form = FormFile(self.content_type)

    async def pieces(self) -> AsyncIterator[bytes]:
        form = self._form
        async for chunk in _unstalled(self._request):
            data = chunk if form is None else form.feed(chunk)
            if form is not None and form.found:
                self.content_type = form.content_type
            if data:
                yield data
        if form is not None:
            form.end()


async def _unstalled(request: Request) -> AsyncIterator[bytes]:
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(_SILENCE_S):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise UploadStalled(f"nothing came for {_SILENCE_S:g} s") from None
        except ClientDisconnect:
            raise UploadStalled("the client left") from None
        yield chunk


async def _blocks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in blocks that are worth a visit to the disk."""
    held, size = list[bytes](), 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
