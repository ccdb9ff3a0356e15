"""Bodies that many requests get."""

import gzip
import os

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
def test_a_client_gets_an_encoding_that_it_accepts(accepted: str, encoding: str | None) -> None:
    stored = StoredBody(TEXT, gzip.compress(TEXT), b"made by the build")
    answer = stored.response(request(accepted), "text/javascript")
    assert answer.headers.get("content-encoding") == encoding
    body = bytes(answer.body)
    if encoding == "gzip":
        body = gzip.decompress(body)
    assert body == (b"made by the build" if encoding == "br" else TEXT)


@pytest.mark.parametrize("body", [b"short", os.urandom(5000)], ids=["short", "random"])
def test_a_body_that_does_not_shrink_is_sent_as_it_is(body: bytes) -> None:
    answer = StoredBody.compressed(body).response(request("gzip"), "image/png")
    assert answer.body == body
    assert "content-encoding" not in answer.headers
    assert answer.headers["vary"] == "Accept-Encoding"
