"""The HTTP exchange of `POST /api/chat` as a connection."""

from __future__ import annotations

import orjson
from starlette.requests import Request

from antiphon.edge.errors import Close, TooManyConnections, explain
from antiphon.edge.protocols.chat import encode_http_error
from antiphon.edge.routes.chat import HttpExchange


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
