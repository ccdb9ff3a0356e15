"""Whose connection it is: the peer's address, or what a trusted proxy says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

Address = IPv4Address | IPv6Address

_HOUSEHOLD_BITS = 64
"""An IPv6 subscriber has a whole network of this prefix to call from."""


class Proxies:
    """The proxies whose `X-Forwarded-*` headers count. Raises ValueError on what is no network."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [ip_network(text, strict=False) for text in trusted]

    def trust(self, address: Address | None) -> bool:
        """True for one of them."""
        return address is not None and any(
            address.version == network.version and address in network for network in self._networks
        )

    def caller(self, connection: HTTPConnection) -> Address | None:
        """Who calls: the nearest address that is no trusted proxy. None: not an IP connection."""
        caller = peer(connection)
        hops = _listed(connection.headers.getlist("x-forwarded-for"))
        while self.trust(caller) and hops:
            behind = parse(hops.pop())
            if behind is None:
                break
            caller = behind
        return caller

    def host(self, connection: HTTPConnection) -> str | None:
        """The host that the client asked for."""
        forwarded = _listed(connection.headers.getlist("x-forwarded-host"))
        if forwarded and self.trust(peer(connection)):
            return forwarded[-1]
        return connection.headers.get("host")


def peer(connection: HTTPConnection) -> Address | None:
    """The other end of the TCP connection."""
    return parse(connection.client.host) if connection.client else None


def parse(text: str) -> Address | None:
    """An address with or without port and brackets; IPv4 within IPv6 is IPv4. None: it is none."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def household(address: Address) -> str:
    """What limits are counted by: an IPv4 address, or the network that an IPv6 subscriber has."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, _HOUSEHOLD_BITS), strict=False))
    return str(address)


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine reaches."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = parse(name)
    return address is not None and address.is_loopback


def host_name(host: str | None) -> str:
    """A Host header without its port; empty when it makes no sense."""
    try:
        return urlsplit(f"//{host or ''}").hostname or ""
    except ValueError:
        return ""


def _listed(values: Sequence[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]
