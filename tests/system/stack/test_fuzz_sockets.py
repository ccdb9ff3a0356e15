"""Hostile clients cause no traceback and leave no slot, session, key or socket behind."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import orjson
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from antiphon.broker.keys import Keys
from antiphon.edge.access.guards import signature_of
from antiphon.shared_schemas.states import SessionState
from antiphon.shared_schemas.wire import BINARY_PROTOCOL, split_frame
from support.chat_mode_samples import CHAT_MODE
from support.fuzz_frames import Sent, hostile_frames, sent
from support.live_samples import LIVE
from support.openai_realtime_samples import OPENAI_REALTIME
from support.protocol_driver import Protocol
from support.protocol_samples import CHAT, PROTOCOLS, REALTIME, REALTIME_V2
from support.realtime_schema import SERVER, SERVER_V2, is_valid
from support.stack import Stack, new_stack, until
from support.twilio_peer import TOKEN
from support.twilio_samples import TWILIO

pytestmark = pytest.mark.extended

PATIENCE_S = 45.0
CLIENTS_FAULT = {1000, 1003, 1007, 1008, 1009, 4410}
"""Close codes that are not an error of the server."""
NEVER_QUEUED = (LIVE, OPENAI_REALTIME, TWILIO)
"""Their clients are not told of the queue."""
AT_ONCE = {"prepare_ms": 0, "prefill_ms": 0, "listen_ms": 0, "speak_ms": 2, "finalize_ms": 0}

PREPARED = ("prepared", "session.created", "session.started", "prefill_done")

_numbers = itertools.count()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An edge, a worker with cheap answers, and a recorder."""
    folder = tmp_path_factory.mktemp("fuzz")
    token = folder / "twilio_auth_token"
    token.write_text(TOKEN)
    with new_stack(folder) as running:
        running.edge(twilio_auth_token_file=token)
        running.worker(slots=4, engine_options=orjson.dumps(AT_ONCE).decode())
        running.recorder(recorder_settle_s=0.1)
        yield running


@pytest.fixture(autouse=True)
async def nothing_is_left(stack: Stack) -> AsyncIterator[None]:
    """Asserts that nothing of the sessions remains."""
    yield
    async with Redis.from_url(stack.redis.url, decode_responses=True) as redis:
        await until(lambda: _all_recorded(stack, redis))
        assert await _unfinished(stack, redis) == []
    await until(lambda: not _client_sockets(stack), within_s=PATIENCE_S)
    assert stack.tracebacks() == []


def _client_sockets(stack: Stack) -> list[Any]:
    sockets = psutil.Process(stack.services[0].process.pid).net_connections()
    clients = [socket for socket in sockets if socket.laddr.port == stack.edge_port]
    return [socket for socket in clients if socket.status != psutil.CONN_LISTEN]


async def _all_recorded(stack: Stack, redis: Redis) -> bool:
    """The recorder has everything: streams are empty and keep a fence for a while only."""
    keys = Keys(stack.settings.key_prefix)
    for pattern in (keys.inbound("*"), keys.outbound("*")):
        async for key in redis.scan_iter(pattern):
            if await redis.xlen(key) or await redis.ttl(key) < 0:
                return False
    return True


async def _unfinished(stack: Stack, redis: Redis) -> list[str]:
    """Sessions that wait or run, and rows without a TTL."""
    keys = Keys(stack.settings.key_prefix)
    left = [*await redis.zrange(keys.queue, 0, -1), *await redis.zrange(keys.leases, 0, -1)]
    async for key in redis.scan_iter(keys.session("*")):
        ended = await redis.hget(key, "state") == SessionState.ENDED
        if not ended or await redis.ttl(key) < 0:
            left.append(key)
    return left


class FuzzClient:
    def __init__(
        self, socket: ClientConnection, protocol: Protocol, *, strict: bool = True
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self._socket = socket
        self._protocol = protocol
        self._strict = strict and socket.subprotocol is None
        self._aborted = False
        self._listener = asyncio.create_task(self._listen())

    async def begin(self, prepared: bool) -> None:
        """Prepares the session if the frames can have an effect only then."""
        if self._protocol not in (CHAT, *NEVER_QUEUED):
            await self._receive("queue_done", "session.queue_done")
        if prepared:
            await self.send(sent(next(iter(self._protocol.messages.values()))))
            if self._protocol is not TWILIO:  # it is told nothing
                await self._receive(*PREPARED)

    async def send(self, *messages: Sent) -> None:
        """Sends nothing after the server has closed."""
        with suppress(ConnectionClosed):
            for message in messages:
                self._aborted = self._aborted or message.breaks_the_protocol
                whole = len(message.pieces) == 1
                data = message.pieces[0] if whole else iter(message.pieces)
                await self._socket.send(data, text=message.text)

    async def end(self, how: str) -> None:
        """Stops if that is possible now, closes, or disconnects; returns after the end of the connection."""
        if how == "abort":
            self._aborted = True
            self._socket.transport.abort()
        elif how == "close" or not self._may_stop():
            await self._socket.close()
        else:
            await self.send(sent(self._protocol.messages[self._protocol.stop]))
        async with asyncio.timeout(PATIENCE_S):
            await self._listener
        assert self._aborted or self._socket.close_code in CLIENTS_FAULT

    def check(self) -> None:
        """At most one terminal message, and none about a defect."""
        types = self._types()
        assert not set(types[:-1]) & self._protocol.terminal
        assert not [message for message in self.messages if message.get("code") == "internal"]
        if self._protocol in (REALTIME, REALTIME_V2, CHAT_MODE) and self._strict:
            events = SERVER if self._protocol is REALTIME else SERVER_V2
            assert all(is_valid(message, events) for message in self.messages)

    def _may_stop(self) -> bool:
        """Realtime sessions have to be created first; OpenAI's have no message that ends them."""
        if self._protocol in (REALTIME, REALTIME_V2):
            return "session.created" in self._types()
        return bool(self._protocol.stop)

    def _types(self) -> list[str]:
        return [message.get("type") or message["event"] for message in self.messages]

    async def _receive(self, *types: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not set(types) & {*self._types()}:
                assert not self._listener.done(), self.messages
                await asyncio.sleep(0.001)

    async def _listen(self) -> None:
        with suppress(ConnectionClosed):
            async for raw in self._socket:
                text = raw if isinstance(raw, str) else split_frame(raw)[0]
                self.messages.append(orjson.loads(text))


def _headers(protocol: Protocol, stack: Stack) -> dict[str, str]:
    if protocol is not TWILIO:
        return {}
    return {"X-Twilio-Signature": signature_of(TOKEN, stack.ws_url + protocol.path)}


def _path(protocol: Protocol) -> str:
    return protocol.path.format(session_id=f"adx_{next(_numbers)}")


FUZZED = PROTOCOLS | {protocol.name: protocol for protocol in (CHAT_MODE, *NEVER_QUEUED)}
OPTIONS = (
    "timing",
    "capabilities",
    "notices",
    "progress",
    "playback_ack",
    "transcript",
    "word_times",
)


@pytest.mark.parametrize("path", FUZZED)
@settings(max_examples=20)
@given(
    data=st.data(),
    options=st.sets(st.sampled_from(OPTIONS)),
    offered=st.sampled_from([None, [Subprotocol(BINARY_PROTOCOL)]]),
    prepared=st.booleans(),
    end=st.sampled_from(["stop", "close", "abort"]),
)
async def test_f14_hostile_frames_are_refused(
    stack: Stack,
    path: str,
    data: st.DataObject,
    options: set[str],
    offered: list[Subprotocol] | None,
    prepared: bool,
    end: str,
) -> None:
    protocol = FUZZED[path]
    frames = data.draw(st.lists(hostile_frames(protocol), max_size=8), label="frames")
    query = "&".join(f"{option}=1" for option in sorted(options))
    url = f"{stack.ws_url}{_path(protocol)}{'&' if '?' in protocol.path else '?'}{query}"
    headers = _headers(protocol, stack)
    async with connect(
        url, subprotocols=offered, additional_headers=headers, compression=None, proxy=None
    ) as socket:
        fuzz = FuzzClient(socket, protocol, strict=not options)
        await fuzz.begin(prepared)
        await fuzz.send(*frames)
        await fuzz.end(end)
    fuzz.check()
    await stack.no_session_left()


_PATHS = st.sampled_from(["/ws/duplex/", "/ws/half_duplex/", "/ws/chat", "/v1/realtime", "/ws/"])
_QUERIES = st.sampled_from(["mode", "resume", "resume_token", "seq", "timing", "capabilities"])
_ODD_BYTES = st.binary(max_size=80) | st.text(max_size=40).map(str.encode)
_TOKENS = st.text("abcXYZ019.-_!~", min_size=1, max_size=30)


@settings(max_examples=20)
@given(
    path=st.tuples(_PATHS, _ODD_BYTES.map(quote)).map("".join),
    query=st.dictionaries(_QUERIES, _ODD_BYTES.map(quote), max_size=3),
    offered=st.lists(_TOKENS | _TOKENS.map("antiphon.{}".format), max_size=3),
    origin=st.none() | _TOKENS | st.just("null"),
)
async def test_f12_hostile_handshakes_are_refused(
    stack: Stack, path: str, query: dict[str, str], offered: list[str], origin: str | None
) -> None:
    url = f"{stack.ws_url}{path}?{'&'.join(map('='.join, query.items()))}"
    try:
        async with connect(url, subprotocols=offered, origin=origin, proxy=None) as socket:
            fuzz = FuzzClient(socket, CHAT)
            await fuzz.end("close")
    except InvalidStatus as refused:
        assert refused.response.status_code < 500  # noqa: PT017 - either outcome is right
    await stack.no_session_left()
