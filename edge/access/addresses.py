"""Client addresses, trusted proxies and allowed web origins."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

Address = IPv4Address | IPv6Address

ANY_ORIGIN = "*"

_SUBSCRIBER_BITS = 64
"""An IPv6 subscriber gets a network with this prefix."""

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
"""A host and its port, and nothing else: no user, no zone of an interface, no path."""

_ADDRESS = re.compile(
    r"\[([0-9a-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+)(?::[0-9]{1,5})?|([0-9a-f:.]+)", re.IGNORECASE
)

_LAST_PORT = 65_535

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class TrustedProxies:
    """Proxies whose `X-Forwarded-*` headers count. Raises ValueError for an invalid network."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [_network(text) for text in networks]

    def trust(self, address: Address | None) -> bool:
        return address is not None and any(
            address.version == network.version and address in network for network in self._networks
        )

    def client_address(self, connection: HTTPConnection) -> Address | None:
        """The nearest address that is not a trusted proxy. None: not an IP connection."""
        client = peer_address(connection)
        hops = _split(connection.headers.getlist("x-forwarded-for"))
        while self.trust(client) and hops:
            previous = parse_address(hops.pop())
            if previous is None:
                break
            client = previous
        return client

    def requested_host(self, connection: HTTPConnection) -> str | None:
        """The host that the client asked for, with its port."""
        forwarded = _split(connection.headers.getlist("x-forwarded-host"))
        if forwarded and self.trust(peer_address(connection)):
            return forwarded[-1]
        return connection.headers.get("host")


class AllowedOrigins:
    """Web pages that may use this edge: its own and the listed ones. Raises ValueError for an invalid entry."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(_parse_origin(text) for text in allowed)

    @property
    def any(self) -> bool:
        return ANY_ORIGIN in self._allowed

    def hosts(self) -> list[str]:
        """The host names of the listed origins."""
        return [name for origin in self._allowed if (name := urlsplit(origin).hostname)]

    def allow(self, origin: str | None, host: str | None) -> bool:
        """True if a page of `origin` may call `host`. Clients that are not browsers send no origin."""
        if origin is None or self.any:
            return True
        origin = origin.lower()
        return origin in self._allowed or same_origin(origin, host)


class AllowedHosts:
    """Names under which the edge answers: the listed ones, addresses, and names of this machine.

    A web page can point its own name at any address and then has the same origin. Unless `strict`,
    every name is allowed.
    """

    def __init__(self, allowed: Iterable[str], *, strict: bool) -> None:
        self._allowed = frozenset(_plain_name(text) for text in allowed)
        self._strict = strict

    def allow(self, host: str | None) -> bool:
        if not self._strict or not host:
            return True
        name = _plain_name(host_name(host))
        return name in self._allowed or is_loopback(name) or parse_address(name) is not None


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        example = "write for example 10.0.0.5,10.1.0.0/16"
        raise ValueError(f"{text!r} is no address or network; {example}") from None


def same_origin(origin: str, host: str | None) -> bool:
    """Compares host and port but not the scheme, because a proxy may terminate TLS."""
    scheme, _, rest = origin.partition("://")
    default = _DEFAULT_PORTS.get(scheme)
    page, asked = _authority(rest), _authority(host or "")
    if default is None or page is None or asked is None:
        return False
    return (page[0], page[1] or default) == (asked[0], asked[1] or default)


def peer_address(connection: HTTPConnection) -> Address | None:
    """The other end of the TCP connection."""
    return parse_peer(connection.client.host) if connection.client else None


def parse_peer(host: str) -> Address | None:
    """The address that the system names, without the zone of a link-local one."""
    return parse_address(host.partition("%")[0])


def parse_address(text: str) -> Address | None:
    """Accepts a port and brackets; turns IPv4-mapped IPv6 into IPv4. None: not an address."""
    found = _ADDRESS.fullmatch(text.strip().strip('"'))
    try:
        address = ip_address(next(filter(None, found.groups()))) if found else None
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def rate_limit_key(address: Address) -> str:
    """An IPv4 address, or the network of an IPv6 subscriber."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, _SUBSCRIBER_BITS), strict=False))
    return str(address)


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine can reach."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = parse_address(name)
    return address is not None and address.is_loopback


def host_name(host: str | None) -> str:
    """A Host header without its port; empty if it is invalid."""
    found = _authority(host or "")
    return found[0] if found else ""


def _authority(text: str) -> tuple[str, int | None] | None:
    """The lower-case host without brackets, and its port. None: there is more, or the port is invalid."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    port = int(found[2]) if found[2] else None
    return None if port is not None and port > _LAST_PORT else (found[1].lower().strip("[]"), port)


def _plain_name(name: str) -> str:
    return name.lower().rstrip(".")


def _parse_origin(text: str) -> str:
    if text in (ANY_ORIGIN, "null"):
        return text
    parts = urlsplit(text.rstrip("/").lower())
    if (
        not (parts.scheme and _authority(parts.netloc))
        or parts.path
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"allowed_origins: {text!r} is not like https://app.example")
    default = _DEFAULT_PORTS.get(parts.scheme)
    netloc = parts.netloc
    if default is not None and parts.port == default:
        netloc = netloc.rpartition(":")[0]
    return f"{parts.scheme}://{netloc}"


def _split(values: Sequence[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]
