"""Bodies that many requests get."""

from __future__ import annotations

import asyncio
import gzip
import os
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from antiphon.edge.routes.stored import StoredBody

TEXT = b"export const words = 'the same words again';\n" * 100


def request(accepted: str) -> HTTPConnection:
    headers = [(b"accept-encoding", accepted.encode())]
    return HTTPConnection({"type": "http", "headers": headers})


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("", None),
        ("identity", None),
        ("gzip", "gzip"),
        ("deflate, GZIP;q=0.5", "gzip"),
        ("gzip, br", "br"),
    ],
)
async def test_a_client_gets_an_encoding_that_it_accepts(
    accepted: str, encoding: str | None
) -> None:
    stored = StoredBody(TEXT, b"made by the build")
    answer = await stored.response(request(accepted), "text/javascript")
    assert answer.headers.get("content-encoding") == encoding
    body = bytes(answer.body)
    if encoding == "gzip":
        body = gzip.decompress(body)
    assert body == (b"made by the build" if encoding == "br" else TEXT)


async def test_a_body_is_compressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    compress = gzip.compress

    def counted(data: bytes, *arguments: Any, **options: Any) -> bytes:
        calls.append(len(data))
        return compress(data, *arguments, **options)

    monkeypatch.setattr(gzip, "compress", counted)
    stored = StoredBody(TEXT)
    await asyncio.gather(*(stored.response(request("gzip"), "text/javascript") for _ in range(50)))
    assert calls == [len(TEXT)]


@pytest.mark.parametrize("body", [b"short", os.urandom(5000)], ids=["short", "random"])
async def test_a_body_that_does_not_shrink_is_sent_as_it_is(body: bytes) -> None:
    answer = await StoredBody(body).response(request("gzip"), "image/png")
    assert answer.body == body
    assert "content-encoding" not in answer.headers
    assert answer.headers["vary"] == "Accept-Encoding"
