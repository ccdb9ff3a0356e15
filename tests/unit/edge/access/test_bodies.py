"""The size, time and total of request bodies, without a server."""

import asyncio
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry, Counter
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from antiphon.edge.access.bodies import BodyRoute, RequestBodies
from antiphon.edge.access.guards import AccessPolicy, Guard
from antiphon.edge.access.limits import ByteBudget
from antiphon.edge.errors import HttpError
from antiphon.shared_schemas.errors import ErrorCode


def _allow(_: AccessPolicy, connection: HTTPConnection) -> None:
    if "x-api-key" not in connection.headers:
        raise HttpError(401, ErrorCode.UNAUTHORIZED, "an API key is required")


GUARD = Guard("key", "For the test.", _allow)
PARSED = BodyRoute("/parsed", re.compile("^/parsed$"), frozenset({"POST"}), GUARD, parsed=True)
STREAMED = BodyRoute("/streamed", re.compile("^/streamed$"), frozenset({"POST"}), GUARD, False)
KEY = (b"x-api-key", b"any")


class Pieces:
    """A client that sends pieces when the test releases them."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.released = asyncio.Event()
        self.read = 0

    async def receive(self) -> Message:
        if self.read == len(self._pieces) - 1:
            await self.released.wait()
        piece = self._pieces[self.read]
        self.read += 1
        more = self.read < len(self._pieces)
        return {"type": "http.request", "body": piece, "more_body": more}


def _open() -> tuple[RequestBodies, list[bytes]]:
    taken: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        taken.append(b"")
        while (message := await receive()).get("more_body"):
            taken[-1] += message["body"]
        taken[-1] += message["body"]

    return RequestBodies(app, [PARSED, STREAMED], 1000, {}), taken


def _post(
    middleware: RequestBodies,
    client: Pieces,
    path: str,
    *headers: tuple[bytes, bytes],
) -> asyncio.Task[tuple[int, dict[str, Any]] | None]:
    counter = Counter("rejections", "For the test.", ["reason"], registry=CollectorRegistry())
    edge = SimpleNamespace(metrics=SimpleNamespace(rejected=counter), access=None)
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "http_version": "1.1",
        "headers": [(b"transfer-encoding", b"chunked"), *headers],
        "app": SimpleNamespace(state=SimpleNamespace(edge=edge)),
    }
    answer: list[Any] = []

    async def send(message: Message) -> None:
        answer.append(message.get("status") or orjson.loads(message["body"]))

    async def call() -> tuple[int, dict[str, Any]] | None:
        await middleware(scope, client.receive, send)
        return (answer[0], answer[1]) if answer else None

    return asyncio.create_task(call())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(90):
        while not condition():
            await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/parsed", "/streamed"])
async def test_the_key_is_checked_before_the_first_byte(path: str) -> None:
    middleware, taken = _open()
    client = Pieces(b"[", b"]")
    answer = await _post(middleware, client, path)
    assert answer is not None
    assert (answer[0], answer[1]["code"]) == (401, "unauthorized")
    assert client.read == 0
    assert not taken


async def test_a_parsed_body_is_checked_before_the_route_runs() -> None:
    middleware, taken = _open()
    client = Pieces(b'{"a":', b"NaN}")
    client.released.set()
    answer = await _post(middleware, client, "/parsed", KEY)
    assert answer is not None
    assert (answer[0], answer[1]["code"]) == (400, "invalid_json")
    assert not taken
    client = Pieces(b'{"a":', b"1}")
    client.released.set()
    assert await _post(middleware, client, "/parsed", KEY) is None
    assert taken == [b'{"a":1}']


async def test_a_path_without_a_guard_may_read_64_kib() -> None:
    middleware, _ = _open()
    client = Pieces(bytes(60_000), bytes(60_000))
    client.released.set()
    with pytest.raises(HttpError) as refused:  # the app's handlers answer it
        await _post(middleware, client, "/elsewhere")
    assert refused.value.status_code == 413


async def test_all_unfinished_bodies_together_are_limited() -> None:
    budget = ByteBudget(300_000, "request bodies", always=64 * 1024)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    middleware = RequestBodies(app, [PARSED], 200_000, {}, budget=budget)
    text = b'"' + b"x" * 190_000
    first, second, small = (
        Pieces(text, b'"'),
        Pieces(text, b'"'),
        Pieces(b'"' + b"x" * 60_000, b'"'),
    )
    held = _post(middleware, first, "/parsed", KEY)
    await _until(lambda: budget.held == len(text))
    answer = await _post(middleware, second, "/parsed", KEY)
    assert answer is not None
    assert answer[0] == 503
    assert answer[1]["retryable"]
    assert "of request bodies already" in answer[1]["message"]
    small.released.set()
    assert await _post(middleware, small, "/parsed", KEY) is None
    first.released.set()
    assert await held is None
    assert budget.held == 0


async def test_a_server_that_stops_answers_unfinished_requests() -> None:
    middleware, taken = _open()
    client = Pieces(b'{"a":', b"1}")
    waiting = _post(middleware, client, "/parsed", KEY)
    await _until(lambda: client.read == 1)
    waiting.cancel()
    answer = await waiting
    assert answer is not None
    assert (answer[0], answer[1]["code"]) == (503, "server_shutdown")
    assert not taken
