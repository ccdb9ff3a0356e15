"""The socket to an edge: its address, text or binary frames, and resume after a broken connection."""

import asyncio
import ipaddress
import secrets
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import cycle
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidProxy, InvalidURI
from websockets.proxy import get_proxy
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from antiphon.client.errors import CannotConnect, connection_error
from antiphon.client.keepalive import Keepalive
from antiphon.client.options import ClientOptions, check_key, check_options, with_defaults
from antiphon.client.results import read_frame
from antiphon.client.sound import check_samples
from antiphon.shared_schemas.audio import PcmFormat, Samples, float_bytes, pcm16_bytes
from antiphon.shared_schemas.ids import is_session_id
from antiphon.shared_schemas.wire import BINARY_PROTOCOL, MediaBytes, to_frame, to_text

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_ROUTES = ("/ws/", "/v1/")
_DEFAULT_PORT = 8006
_NO_ADDRESS = "is no address of an edge; one looks like ws://127.0.0.1:8006"


def new_session_id(prefix: str) -> str:
    """A new id. Its prefix is the kind: `adx` audio, `omni` audio and frames, `hdx` half-duplex."""
    return f"{prefix}_{int(time.time() * 1000):x}_{secrets.token_hex(4)}"


def checked_session_id(session_id: str | None) -> str | None:
    """The same id, None or "" if the program chooses none. Raises ValueError for one no edge accepts."""
    if session_id and not (isinstance(session_id, str) and is_session_id(session_id)):
        raise ValueError(f"session_id is {session_id!r}, 1 to 64 of A-Z a-z 0-9 _ - are needed")
    return session_id


def edge_address(url: str, path: str, **query: str | None) -> str:
    """The address of `path` under an edge's `url`; `http` becomes `ws`, a path of `url` is kept.

    A `url` without a scheme has the edge's default port. Omits query values that are None. Raises
    CannotConnect if `url` is not an address of an edge, and TypeError if it is no text.
    """
    if not isinstance(url, str):
        raise TypeError(f"the edge's address is a {type(url).__name__}, a str is needed")
    url = url.strip()
    if "//" not in url and _is_ipv6(url):
        url = f"[{url}]"
    try:
        parts = urlsplit(url if "//" in url else f"ws://{url}")
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:  # no port, an unclosed bracket, or a host such as `.`
        raise CannotConnect(f"{url!r} {_NO_ADDRESS} ({error})") from None
    if parts.scheme not in _SCHEMES or not parts.hostname or not url.isprintable():
        raise CannotConnect(f"{url!r} {_NO_ADDRESS}")
    if parts.path.startswith(_ROUTES):
        base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        raise CannotConnect(f"{url!r} has the path of a session; give the edge's address: {base}")
    netloc = parts.netloc
    if "//" not in url and port is None:
        netloc = f"{netloc.rstrip(':')}:{_DEFAULT_PORT}"
    added = urlencode({name: value for name, value in query.items() if value is not None})
    joined = "&".join(part for part in (parts.query, added) if part)
    whole = f"{parts.path.rstrip('/')}{path}"
    return urlunsplit(SplitResult(_SCHEMES[parts.scheme], netloc, whole, joined, ""))


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def is_loopback_url(address: str) -> bool:
    """True if the address is on this machine, so that no proxy is used."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_tls(address: str, tls: ssl.SSLContext | None) -> None:
    """Raises CannotConnect if the program asks for TLS by its context alone."""
    if tls is not None and not address.startswith("wss:"):
        raise CannotConnect("`tls` needs an address that begins with wss:// or https://")


CLOSE_TIMEOUT_S = 2.0
_PING_S = 20.0
_MAX_MESSAGE = 128 * 1024 * 1024
"""An answer that is not streamed comes in one message: this has 17 minutes of sound."""

_RETRY_PAUSES_S = (0.1, 0.3, 0.5, 1.0)
"""Pauses between attempts to resume; the last one repeats."""

_BROKEN = frozenset({None, 1005, 1006, 1001, 1012})
"""Close codes of a broken connection and of an edge that shuts down; all others are final."""

_STALLED = ("slow_consumer", "keepalive ping timeout")
"""Reasons of an edge that received nothing from a client. It keeps the session as after a broken connection."""

_REPLACED, _EXPIRED = 4409, 4410
_ATTEMPT_S = 4.0
"""An attempt to resume without an answer is abandoned after this time."""

_DUPLICATE_CODES = ("not_ready", "paused")
"""Codes of a refusal of the second of two requests. Its text begins with their type."""

Reopen = Callable[[str, int, int], Awaitable[ClientConnection]]
"""Opens a new socket to the session: resume token, number of the last message, number of the attempt."""


class Link:
    """One open socket. `binary` is true if the edge agreed to binary frames."""

    resumes = False

    def __init__(self, socket: ClientConnection, pcm: PcmFormat) -> None:
        self.socket = socket
        self.binary = socket.subprotocol == BINARY_PROTOCOL
        self._pcm = pcm if self.binary else PcmFormat.F32
        self._keepalive = Keepalive()
        self.on_change: Callable[[bool], None] = lambda _: None

    @property
    def remedy(self) -> str:
        """After a lost connection."""
        return "a client with `resume` continues the session"

    def sound(
        self, samples: Samples, longest_s: float | None = None, name: str = "audio"
    ) -> MediaBytes:
        """Audio (float32 mono 16 kHz) as a field of a message. Raises InvalidAudio."""
        check_samples(samples, longest_s=longest_s, name=name)
        if self._pcm is PcmFormat.S16:
            return MediaBytes(pcm16_bytes(samples), self._pcm)
        return MediaBytes(float_bytes(samples))

    async def frames(self) -> AsyncGenerator[str | bytes, None]:
        """Received frames until the socket closes. Raises ConnectionClosed after an abnormal close."""
        async with self._keepalive.of(self.socket):
            async for frame in self.socket:
                yield frame

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message; its media are `MediaBytes` sound or `bytes`. Raises ConnectionClosed."""
        await self._send_on(self.socket, message)

    async def request(self, message: Mapping[str, Any]) -> None:
        """Send a message that the server answers. Raises ConnectionClosed."""
        await self.send(message)

    def request_done(self) -> None:
        """The last request has its answer, or needs none."""

    async def close(self) -> None:
        """Takes at most CLOSE_TIMEOUT_S. The socket alone would wait for a message that cannot be sent."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self.socket.close()
        finally:
            self.socket.transport.abort()

    async def _send_on(self, socket: ClientConnection, message: Mapping[str, Any]) -> None:
        frame = to_frame(message) if self.binary else to_text(message)
        async with self._keepalive.sending(len(frame)):
            await socket.send(frame)


class ResumingLink(Link):
    """Several sockets that look like one connection. `send` waits while the connection is broken."""

    resumes = True

    def __init__(
        self, socket: ClientConnection, pcm: PcmFormat, reopen: Reopen, resume_for_s: float
    ) -> None:
        super().__init__(socket, pcm)
        self._reopen = reopen
        self._resume_for_s = resume_for_s
        self._token = ""
        self._seq = 0
        self._attempts = 0
        self._abandoned = False
        self._request: Mapping[str, Any] | None = None
        self._repeated = ""
        """The type of a request that was sent twice, until its refusal arrives."""
        self._over = False
        self._connected = asyncio.Event()
        self._connected.set()

    @property
    def remedy(self) -> str:
        return "no edge continues the session" if self._token else "connect again"

    async def frames(self) -> AsyncGenerator[str | bytes, None]:
        """Every frame once, in order, until the session is over or cannot be resumed.

        Raises UnreadableMessage.
        """
        try:
            while True:
                with suppress(ConnectionClosed):
                    async with self._keepalive.of(self.socket):
                        async for frame in self.socket:
                            if self._is_new(frame):
                                yield frame
                if not await self._resume():
                    return
        finally:
            self._over = True
            self._connected.set()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message, after a resume if necessary. Raises ConnectionClosed after the end."""
        while True:
            await self._connected.wait()
            socket = self.socket
            try:
                return await super().send(message)
            except ConnectionClosed:
                if self._over:
                    raise
                if socket is self.socket:
                    self._connected.clear()

    async def request(self, message: Mapping[str, Any]) -> None:
        """Send a message that the server answers; a resume repeats it until it is answered."""
        if message["type"] == self._repeated:
            self._repeated = ""  # the server refuses both for the same reason
        self._request = message
        await self.send(message)

    def request_done(self) -> None:
        self._request = None

    async def close(self) -> None:
        self._over = True
        await super().close()

    def _track(self, frame: str | bytes) -> dict[str, Any]:
        """The message of a frame; keeps its number and resume token for the next resume.

        Raises UnreadableMessage.
        """
        message, _ = read_frame(frame)
        self._seq = message.get("seq", self._seq)
        self._token = message.get("resume_token", self._token)
        if message["type"] == "response.done":  # of `mode=chat`: only a request can be resumed
            self._token = ""
        return message

    def _is_resumed(self, frame: str | bytes) -> bool:
        kind: str = self._track(frame)["type"]
        return kind == "resumed"

    def _is_new(self, frame: str | bytes) -> bool:
        """False for the error about a request that was sent twice."""
        message = self._track(frame)
        if not (self._repeated and message["type"] == "error"):
            return True
        error = fields if isinstance(fields := message.get("error"), dict) else message
        if not str(error.get("message")).startswith(f"{self._repeated}: "):
            return True
        self._repeated = ""
        return error.get("code") not in _DUPLICATE_CODES

    async def _resume(self) -> bool:
        if self._over or not self._token or not self._is_broken():
            return False
        self._connected.clear()
        self._report(False)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._resume_for_s):
                for attempt in range(10_000):
                    if (resumed := await self._attempt()) is not None:
                        if resumed:
                            self._report(True)
                        return resumed
                    await asyncio.sleep(_RETRY_PAUSES_S[min(attempt, len(_RETRY_PAUSES_S) - 1)])
        return False

    def _report(self, connected: bool) -> None:
        """The event loop reports an exception of the program's function, and the session continues."""
        asyncio.get_running_loop().call_soon(self.on_change, connected)

    def _is_broken(self) -> bool:
        """True if the session can continue on another connection."""
        code = self.socket.close_code
        if code == _REPLACED:  # perhaps by an abandoned attempt that arrived late
            abandoned, self._abandoned = self._abandoned, False
            return abandoned
        return code in _BROKEN or self.socket.close_reason in _STALLED

    async def _attempt(self) -> bool | None:
        """True if the session is resumed, False if it no longer exists, None to try again."""
        socket: ClientConnection | None = None
        self._attempts += 1
        try:
            async with asyncio.timeout(_ATTEMPT_S):
                socket = await self._reopen(self._token, self._seq, self._attempts)
                first = await socket.recv()
            if not self._is_resumed(first):
                await socket.close()
                return None
            if self._request is not None:
                self._repeated = self._request["type"]
                await self._send_on(socket, self._request)
            self.socket = socket
            self._connected.set()
        except CannotConnect:
            return None
        except TimeoutError:
            self._abandoned = True
            return None
        except ConnectionClosed:
            if socket is None or socket.close_code != _EXPIRED:
                return None
            self.socket = socket
            return False
        finally:
            if socket is not None and socket is not self.socket:  # also after a cancellation
                socket.transport.abort()
        return True


async def open_link(url: str, path: str, how: ClientOptions, **query: str | None) -> Link:
    """Connect to `path` of an edge such as `ws://127.0.0.1:8006`. Raises CannotConnect."""
    check_options(how)
    chosen = with_defaults(how)
    pcm = PcmFormat(chosen["pcm"]) if chosen["binary"] else PcmFormat.F32
    query["pcm"] = None if pcm is PcmFormat.F32 else str(pcm)
    query["transcript"] = "1" if chosen["transcript"] else None
    if not chosen["resume"]:
        return Link(await open_socket(edge_address(url, path, **query), how, pings=False), pcm)
    query["resume"] = "1"
    for other in chosen["other_edges"]:
        edge_address(other, path)  # raises now, instead of when it is needed
    edges = cycle([url, *chosen["other_edges"]])

    async def reopen(token: str, seq: int, attempt: int) -> ClientConnection:
        resume = {**query, "resume_token": token, "seq": str(seq), "attempt": str(attempt)}
        return await open_socket(edge_address(next(edges), path, **resume), how, pings=False)

    socket = await open_socket(edge_address(url, path, **query), how, pings=False)
    return ResumingLink(socket, pcm, reopen, chosen["resume_for_s"])


async def open_socket(address: str, how: ClientOptions, *, pings: bool = True) -> ClientConnection:
    """Without `pings`, a `Link` sends them. Raises CannotConnect."""
    chosen = with_defaults(how)
    key, tls = chosen["api_key"], chosen["tls"]
    check_key(key)
    check_tls(address, tls)
    trust: dict[str, Any] = {} if tls is None else {"ssl": tls}  # ssl=None would disable TLS
    proxy = None
    try:
        if not is_loopback_url(address):
            proxy = get_proxy(parse_uri(address))
        return await connect(
            address,
            **trust,
            additional_headers={"Authorization": f"Bearer {key}"} if key else None,
            subprotocols=[Subprotocol(BINARY_PROTOCOL)] if chosen["binary"] else None,
            compression=None,
            max_size=_MAX_MESSAGE,
            open_timeout=chosen["open_timeout_s"],
            close_timeout=CLOSE_TIMEOUT_S,
            ping_interval=_PING_S if pings else None,
            proxy=proxy,
        )
    except (OSError, InvalidHandshake, InvalidURI, InvalidProxy, ImportError, ValueError) as error:
        raise connection_error(address, error, proxy) from error
