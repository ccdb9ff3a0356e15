"""Addresses of Redis: the forms of `ANTIPHON_REDIS_URL`, and the options of TLS."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

_REDIS_PORT = 6379
_SENTINEL_PORT = 26379
_HIGHEST_PORT = 65535

_TLS = "[?ssl_ca_certs=FILE]"
_SENTINEL = "host[:port],host[:port]/service[/db]"
_CLUSTER = "host[:port],host[:port]"
_FORMS = {
    "redis": "redis://host[:port][/db]",
    "rediss": f"rediss://host[:port][/db]{_TLS}",
    "unix": "unix:///path/of/socket[?db=0]",
    "redis+sentinel": f"redis+sentinel://{_SENTINEL}",
    "rediss+sentinel": f"rediss+sentinel://{_SENTINEL}{_TLS}",
    "redis+cluster": f"redis+cluster://{_CLUSTER}",
    "rediss+cluster": f"rediss+cluster://{_CLUSTER}{_TLS}",
}
_LOGIN = "with user:password@ after // if needed"
_TLS_OPTIONS = (
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_check_hostname",
    "ssl_cert_reqs",
)

_URL = re.compile(r"[^:]+://(?P<servers>[^/?#]*)(?P<path>[^?#]*)(\?(?P<query>[^#]*))?", re.DOTALL)
"""From Python 3.14 on, `urlsplit` refuses a list of hosts that has an IPv6 address."""

Endpoint = tuple[str, int]
"""Host and port."""


class RedisKind(StrEnum):
    """How many servers a Redis has, and who knows its masters."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    """Where a Redis is, and what a connection to it needs.

    `endpoints` are servers, Sentinels, or those nodes of a cluster that are asked for the others.
    A Unix socket has a `path` and no endpoint. `service` is the name of the master for Sentinel.
    """

    kind: RedisKind
    endpoints: tuple[Endpoint, ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    user: str | None = None
    password: str | None = None
    tls: ssl.SSLContext | None = None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises ValueError with the right form. The message never contains the password."""
        scheme = url.partition("://")[0].lower()
        parts = _URL.match(url)
        if scheme not in _FORMS or not parts:
            others = ", ".join(f"{name}://" for name in _FORMS if name != "redis")
            raise ValueError(f"must be a URL of the form {_FORMS['redis']}, or with {others}")
        try:
            return cls(**dict(_fields(scheme, parts)))
        except ValueError as error:
            raise ValueError(f"{error}; the form is {_FORMS[scheme]}, {_LOGIN}") from None


def _fields(scheme: str, parts: re.Match[str]) -> Iterator[tuple[str, Any]]:
    """The fields of an address. Raises ValueError."""
    base, _, kind = scheme.partition("+")
    options = _options(parts["query"] or "")
    login, _, hosts = parts["servers"].rpartition("@")
    user, _, password = login.partition(":")
    yield "kind", RedisKind(kind or "single")
    yield "user", unquote(user) or None
    yield "password", unquote(password) or None
    path = unquote(parts["path"])
    if base == "unix":
        if hosts or not path:
            raise ValueError("the path of a Unix socket is absolute")
        yield "path", path
        yield "db", _db(options.pop("db", "0"))
    else:
        default = _SENTINEL_PORT if kind == "sentinel" else _REDIS_PORT
        hosts = hosts or ("" if kind else "localhost")
        yield "endpoints", tuple(_endpoint(each, default) for each in hosts.split(","))
        yield from _place(kind, hosts, path.strip("/"), options)
    if base == "rediss":
        yield "tls", _tls({name: options.pop(name) for name in _TLS_OPTIONS if name in options})
    if options:
        raise ValueError(f"the option {min(options)} is unknown or not for {scheme}://")


def _place(kind: str, hosts: str, path: str, options: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """What follows the hosts: the service of Sentinel and the database."""
    if kind == "cluster":
        if path not in ("", "0"):
            raise ValueError("a cluster has only the database 0")
        return
    if kind == "sentinel":
        service, _, path = path.partition("/")
        if not service:
            raise ValueError("the name of the service is missing")
        yield "service", service
    elif "," in hosts:
        raise ValueError("several hosts need redis+sentinel:// or redis+cluster://")
    yield "db", _db(options.pop("db", "") or path or "0")


def _options(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    for name, value in pairs:
        if not value:
            raise ValueError(f"the option {name} has no value")
    return dict(pairs)


def _endpoint(text: str, default_port: int) -> Endpoint:
    parts = urlsplit(f"//{text}")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"a port is a number up to {_HIGHEST_PORT}") from None
    if port == 0 or parts.path or parts.query:
        raise ValueError("a host or a port is wrong; write / and @ in a password as %2F and %40")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return unquote(parts.hostname), port or default_port


def _db(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("the database is a number")
    return int(text)


def _tls(options: Mapping[str, str]) -> ssl.SSLContext:
    """Raises ValueError for a value that is not allowed, and for a file that cannot be used."""
    authority, certificate, key = (options.get(name) for name in _TLS_OPTIONS[:3])
    if key and not certificate:
        raise ValueError("ssl_keyfile needs ssl_certfile")
    with _reading("ssl_ca_certs", authority):
        context = ssl.create_default_context(cafile=authority)
    if certificate:
        with _reading("ssl_certfile", certificate):
            # The empty password makes an encrypted key fail; otherwise OpenSSL asks for it.
            context.load_cert_chain(certificate, key, password="")
    verifies = _choice(options, "ssl_cert_reqs", {"required": True, "none": False})
    checks_host = _choice(options, "ssl_check_hostname", {"true": True, "false": False})
    context.check_hostname = verifies and checks_host
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    return context


def _choice(options: Mapping[str, str], name: str, values: Mapping[str, bool]) -> bool:
    """The value of an option; the first one by default."""
    chosen = options.get(name, next(iter(values))).lower()
    if chosen not in values:
        raise ValueError(f"{name} is {' or '.join(values)}")
    return values[chosen]


@contextmanager
def _reading(name: str, file: str | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError as well
        reason = error.strerror or error
        raise ValueError(f"{name} {file} cannot be used ({reason})") from error
