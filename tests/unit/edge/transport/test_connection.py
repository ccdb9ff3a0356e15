"""The HTTP exchange of `POST /api/chat` as a connection, and the encodings of a socket."""

from __future__ import annotations

import orjson
import pytest
from starlette.requests import Request

from antiphon.edge.errors import Close, TooManyConnections, explain
from antiphon.edge.protocols.chat import encode_http_error
from antiphon.edge.transport.connection import HttpExchange, choose_encoding, choose_subprotocol
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.media import BINARY_PROTOCOL, PLAIN_PROTOCOL


def _exchange() -> HttpExchange:
    return HttpExchange(Request({"type": "http", "method": "POST", "path": "/", "headers": []}))


def test_a_force_closed_exchange_is_temporarily_unavailable() -> None:
    exchange = _exchange()
    exchange.force_close(Close.TRY_LATER, "slow_consumer")
    response = exchange.response()
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    problem = orjson.loads(response.body)
    assert problem["retryable"] is True
    assert problem["error"] == problem["message"] == problem["detail"]


async def test_a_force_close_keeps_an_error_that_was_sent() -> None:
    exchange = _exchange()
    fault = explain(TooManyConnections("wait"))
    for message in encode_http_error(fault):
        await exchange.send(exchange.encoding.encode(message))
    exchange.force_close(Close.TRY_LATER, "rate_limited")
    response = exchange.response()
    assert (response.status_code, orjson.loads(response.body)["code"]) == (429, "rate_limited")


def test_a_client_that_left_gets_no_body() -> None:
    assert _exchange().response().status_code == 499


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ((), None),
        (("antiphon.key.secret",), None),
        ((PLAIN_PROTOCOL, BINARY_PROTOCOL), BINARY_PROTOCOL),
        (("antiphon.key.secret", PLAIN_PROTOCOL), PLAIN_PROTOCOL),
    ],
)
def test_the_subprotocol_is_never_a_key(offered: tuple[str, ...], chosen: str | None) -> None:
    assert choose_subprotocol(offered) == chosen


@pytest.mark.parametrize(
    ("subprotocol", "pcm"), [(None, "s16"), (PLAIN_PROTOCOL, "f32"), (BINARY_PROTOCOL, "mp3")]
)
def test_a_pcm_format_needs_binary_frames(subprotocol: str | None, pcm: str) -> None:
    with pytest.raises(InvalidInput, match="pcm"):
        choose_encoding(subprotocol, pcm)
