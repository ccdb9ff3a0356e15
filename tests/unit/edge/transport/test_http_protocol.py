"""What the edge accepts, refuses and bounds in HTTP, of bytes as they arrive."""

import asyncio
import socket
import tracemalloc
from typing import Any

import pytest
import uvloop

from antiphon.edge.access import http_limits
from antiphon.edge.access.http_limits import CHUNK_BURST
from antiphon.edge.transport import http_protocol
from antiphon.edge.transport.fair_queue import PER_ITERATION
from antiphon.edge.transport.http_checks import MAX_FRAMING_BYTES, MAX_HEADERS
from antiphon.edge.transport.http_protocol import (
    EVENTS_PER_TURN,
    PIECE_BYTES,
    REFUSED_BODY_BYTES,
    SEND_BYTES,
    EdgeHttpProtocol,
)
from antiphon.edge.transport.http_server import ACCEPTS_PER_ITERATION, STARTS_PER_ITERATION
from support.edge_protocols import (
    Address,
    IterationCounter,
    accepting,
    exchange,
    limiter_of,
    serving,
)

GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
ANSWER = b"HTTP/1.1 200 OK"


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of these tests send on after the answer."""
    linger: Any = EdgeHttpProtocol._linger
    monkeypatch.setattr(linger, "__defaults__", (0.3, REFUSED_BODY_BYTES))


async def respond(send: Any, body: bytes = b"ok", status: int = 200) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def ignore_body(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once with the path."""
    await respond(send, scope["path"].encode())


async def read_body(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    await respond(send, b"%d" % size)


async def answers(app: Any, *pieces: bytes) -> bytes:
    async with serving(app) as (address, _):
        return await exchange(address, *pieces)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: y\n\nGET /status HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: y\rz\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n folded\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: x\r\n\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET http://other/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT other:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: \0\r\n\r\n",
        UPGRADE + b"Content-Length: 5\r\n\r\n",
        UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda data: repr(bytes(data[:60])),
)
async def test_what_a_proxy_may_understand_differently_is_refused(data: bytes) -> None:
    received = await answers(ignore_body, data + LAST)
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n"), received
    assert received.count(b"HTTP/1.1 ") == 1, received
    assert b'"message":"' in received
    assert b"connection: close" in received


@pytest.mark.parametrize(
    "data",
    [
        CHUNKED + b"1\na\r\n0\r\n\r\n",
        CHUNKED + b"1\r\na\n0\r\n\r\n",
        CHUNKED + b"1;a\nb\r\na\r\n0\r\n\r\n",
        CHUNKED + b"0\r\nX: y\n\r\n",
        CHUNKED + b"1 \r\na\r\n0\r\n\r\n",
        CHUNKED + b"-1\r\na\r\n0\r\n\r\n",
        CHUNKED + b"0\r\n" + b"a:b\r\n" * (MAX_HEADERS + 1) + b"\r\n",
        CHUNKED + b"1;" + b"a" * 1_000_000,
        CHUNKED + b"1;a=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\na\r\n" * 1500,
    ],
    ids=lambda data: repr(bytes(data[-30:])),
)
async def test_malformed_or_padded_chunks_end_the_request(data: bytes) -> None:
    received = await answers(read_body, data)
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n"), received
    assert received.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 13_000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * MAX_HEADERS + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2 * MAX_FRAMING_BYTES, 431),
        (b"\r\n" * MAX_FRAMING_BYTES, 431),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * (MAX_HEADERS - 2), 200),
    ],
)
async def test_a_head_is_bounded(data: bytes, status: int) -> None:
    end = b"Connection: close\r\n\r\n" if status == 200 else b""
    received = await answers(ignore_body, data + end)
    assert received.startswith(b"HTTP/1.1 %d " % status), received


async def test_trailers_are_not_taken_for_headers() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await read_body(scope, receive, send)
        seen.extend(scope["headers"])

    trailers = b"0\r\nAuthorization: Bearer abc\r\n\r\n"
    received = await answers(app, CHUNKED, b"3\r\nabc\r\n" + trailers + LAST)
    assert received.count(ANSWER) == 2
    assert b"authorization" not in dict(seen)


class CountedHttp(EdgeHttpProtocol):
    """Counts the events of the parser, and the bytes that the server has read."""

    iterations: IterationCounter

    def _count(self) -> None:
        self.iterations.count("events")

    def data_received(self, data: bytes) -> None:
        for _ in range(len(data) // 1024):
            self.iterations.count("KiB")
        super().data_received(data)

    def on_chunk_header(self) -> None:
        self._count()
        super().on_chunk_header()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count()
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        self._count()
        super().on_message_begin()


def counted() -> type[CountedHttp]:
    return type("Counted", (CountedHttp,), {"iterations": IterationCounter()})


MOST_EVENTS = 2 * (EVENTS_PER_TURN + PIECE_BYTES // len(b"1\r\n \r\n"))
"""A connection may read and have a turn in one iteration."""


def test_an_iteration_parses_a_bounded_number_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "CHUNK_BURST", 10**6)
    count = 60_000

    async def run() -> tuple[bytes, int, int]:
        http = counted()
        async with serving(read_body, http=http) as (address, _):
            received = await exchange(
                address, CHUNKED + b"1\r\n \r\n" * count + b"0\r\n\r\n" + LAST
            )
        return received, http.iterations.total("events"), http.iterations.most("events")

    received, total, most = uvloop.run(run())  # as in a service
    assert b"\r\n\r\n%d" % count in received
    assert total > count
    assert most <= MOST_EVENTS


async def test_a_flood_of_small_chunks_is_refused() -> None:
    http = counted()
    async with serving(read_body, http=http) as (address, _):
        received = await exchange(address, CHUNKED, *[b"1\r\n \r\n" * 10_000] * 20)
    assert received.startswith(b"HTTP/1.1 400 "), received
    assert b"too many chunks" in received
    assert http.iterations.total("events") < 2 * CHUNK_BURST + MOST_EVENTS


async def test_large_chunks_are_not_counted() -> None:
    chunk = b"400\r\n" + bytes(1024) + b"\r\n"
    received = await answers(
        read_body, CHUNKED, *[chunk * 100] * 30, b"0\r\n\r\n", LAST.replace(b"GET", b"HEAD")
    )
    assert b"\r\n\r\n%d" % (3000 * 1024) in received


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 17000000\r\n\r\n",
        CHUNKED + b"fffffff\r\n",
        CHUNKED[:-2] + b"Connection: close\r\n\r\nfffffff\r\n",
        b"POST / HTTP/1.0\r\nContent-Length: 10000000000\r\n\r\n",
    ],
    ids=["a length", "a get", "chunked", "chunked and close", "http 1.0"],
)
async def test_little_is_read_of_a_body_after_its_answer(head: bytes) -> None:
    http = counted()
    async with serving(ignore_body, http=http) as (address, _):
        received = await exchange(address, head, *[bytes(65_536)] * 300)
    assert received.startswith(ANSWER)
    assert b"connection: close" in received
    most_in_a_read = 256
    assert http.iterations.total("KiB") <= REFUSED_BODY_BYTES // 1024 + 2 * most_in_a_read


@pytest.mark.parametrize("left", [100, 10**9])
async def test_a_body_that_is_not_continued_after_its_answer_ends(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "REFUSED_BODY_S", 0.2)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % left
    received = await answers(ignore_body, head, b"a")
    assert received.startswith(ANSWER)


async def test_a_body_of_known_length_may_follow_its_answer() -> None:
    head = b"POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\n"
    received = await answers(ignore_body, head, *[bytes(1_000_000)] * 16, LAST)
    assert received.count(ANSWER) == 2
    assert received.endswith(b"/last")


@pytest.mark.parametrize("header", [b"Connection: close", b"Connection: keep-alive"])
async def test_a_client_that_reads_nothing_before_it_has_sent_a_long_body_gets_the_answer(
    header: bytes,
) -> None:
    size = 16_000_000
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n\r\n" % (size, header)
    loop = asyncio.get_running_loop()
    async with serving(ignore_body) as (address, _):
        with socket.socket() as client:
            client.setblocking(False)
            async with asyncio.timeout(60):
                await loop.sock_connect(client, address)
                await loop.sock_sendall(client, head + bytes(size))
                assert (await loop.sock_recv(client, 65536)).startswith(ANSWER)


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    count = 500
    requests = b"".join(
        b"GET /%d HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a client that does not wait\r\n\r\n"
        % n
        for n in range(count)
    )
    received = await answers(ignore_body, requests + LAST)
    expected = [b"/%d" % n for n in range(count)] + [b"/last"]
    assert [part.split(b"\r\n\r\n")[1] for part in received.split(ANSWER)[1:]] == expected


async def test_a_flood_of_pipelined_requests_ends_the_connection() -> None:
    tiny = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
    received = await answers(ignore_body, tiny * 50_000)
    assert 0 < received.count(ANSWER) < 100
    assert received.count(b"HTTP/1.1 ") == received.count(ANSWER), "nothing is answered twice"


def test_an_iteration_begins_a_bounded_number_of_requests_on_open_connections() -> None:
    connections = 60

    async def run() -> tuple[int, int]:
        iterations = IterationCounter()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            iterations.count("requests")
            await respond(send)

        async with serving(app) as (address, _):
            clients = [socket.create_connection(address) for _ in range(connections)]
            for round_ in range(1, 4):
                for client in clients:
                    client.sendall(GET)
                await iterations.wait_for("requests", round_ * connections)
            for client in clients:
                client.close()
        return iterations.total("requests"), iterations.most("requests")

    total, most = uvloop.run(run())
    assert total == 3 * connections
    assert most <= PER_ITERATION


def test_waiting_connections_are_accepted_together() -> None:
    """uvloop takes one in each iteration."""
    connections = 100

    async def run() -> tuple[int, int]:
        iterations = IterationCounter()

        class Http(EdgeHttpProtocol):
            def connection_made(self, transport: Any) -> None:
                iterations.count("made")
                assert transport.get_extra_info("socket").getsockopt(
                    socket.IPPROTO_TCP, socket.TCP_NODELAY
                )
                super().connection_made(transport)

        async with accepting(ignore_body, Http, limiter_of()) as address:
            clients = [socket.create_connection(address) for _ in range(connections)]
            await iterations.wait_for("made", connections)
            for client in clients:
                client.close()
        return iterations.span("made"), iterations.most("made")

    span, most = uvloop.run(run())
    assert span <= connections // STARTS_PER_ITERATION + 3
    assert most <= STARTS_PER_ITERATION


async def test_connections_above_the_rate_of_an_address_are_closed_and_cost_no_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_limits, "CONNECTION_BURST", 3)
    monkeypatch.setattr(http_limits, "CONNECTIONS_PER_S", 0.001)
    limiter = limiter_of(address="203.0.113.9")
    http = counted()
    assert ACCEPTS_PER_ITERATION > 5
    async with accepting(ignore_body, http, limiter) as address:
        received = [await exchange(address, LAST) for _ in range(5)]
    assert [data[:15] for data in received] == [ANSWER] * 3 + [b""] * 2


@pytest.mark.parametrize(
    "second",
    [UPGRADE + b"\r\n", b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: y\n\n"],
    ids=["handshake", "garbage", "line feeds"],
)
async def test_what_cannot_follow_a_request_in_progress_does_not_mix_with_its_answer(
    second: bytes,
) -> None:
    types: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        types.append(scope["type"])
        await asyncio.sleep(0.05)
        await respond(send)

    received = await answers(app, GET + second)
    assert received.startswith(ANSWER)
    assert received.count(b"HTTP/1.1 ") == 1
    assert types == ["http"]


async def test_an_upgrade_to_another_protocol_is_ignored_and_ends_the_connection() -> None:
    head = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    received = await answers(ignore_body, head + GET)
    assert received.startswith(ANSWER)
    assert received.count(b"HTTP/1.1 ") == 1


async def test_a_malformed_body_ends_the_wait_of_the_application() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            pass
        seen.append(message["type"])

    received = await answers(app, CHUNKED, b"1\r\na\r\nxyz\r\n")
    assert received.startswith(b"HTTP/1.1 400 ")
    assert seen == ["http.disconnect"]


async def test_a_body_that_is_refused_at_once_gets_no_continue() -> None:
    head = CHUNKED[:-2] + b"Expect: 100-continue\r\n\r\n"
    received = await answers(ignore_body, head)
    assert received.startswith(ANSWER)


async def slow_reader(address: Address, size: int) -> int:
    """Reads up to `size` bytes in small steps, without a pause that counts as no progress."""
    loop, read = asyncio.get_running_loop(), 0
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, address)
        await loop.sock_sendall(client, GET)
        while read < size:
            try:
                data = await loop.sock_recv(client, 4096)
            except ConnectionError:
                break
            if not data:
                break
            read += len(data)
            await asyncio.sleep(0.002)
    return read


@pytest.mark.parametrize(("rate", "complete"), [(10**9, False), (1, True)])
async def test_a_reader_must_keep_up_with_a_rate(
    rate: int, complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "MIN_DOWNLOAD_RATE", rate)
    size, piece = 4_800_000, bytes(60_000)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(size // len(piece)):
            last = number == size // len(piece) - 1
            await send({"type": "http.response.body", "body": piece, "more_body": not last})

    async with serving(app, limiter=limiter_of(0.4)) as (address, _):
        async with asyncio.timeout(60):
            read = await slow_reader(address, size)
    assert (read >= size) == complete


async def test_an_unread_response_fills_no_buffer_and_is_not_copied() -> None:
    """Also if the application sends it at once, as it does with files that it keeps in memory."""
    body, made = bytes(range(256)) * 128 * 1024, list[EdgeHttpProtocol]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, body)

    async with serving(app, made.append) as (address, _):
        tracemalloc.start()
        try:
            clients = [await asyncio.open_connection(*address, limit=1024) for _ in range(8)]
            for _, writer in clients:
                writer.write(GET)
            async with asyncio.timeout(60):
                while len(made) < len(clients) or not all(each.flow.write_paused for each in made):
                    await asyncio.sleep(0.01)
            assert tracemalloc.get_traced_memory()[1] < len(body) / 8
        finally:
            tracemalloc.stop()
        unsent = [each.transport.get_write_buffer_size() for each in made]
        assert max(unsent) < 3 * SEND_BYTES
        for _, writer in clients[1:]:
            writer.transport.abort()
        reader, writer = clients[0]
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(len(body)) == body
        writer.transport.abort()
