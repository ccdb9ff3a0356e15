"""Addresses of Redis: the forms of `ANTIPHON_REDIS_URL`, and the options of TLS."""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

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
OPEN_LOGIN = "default:no-password"
"""A login in the URL of a Redis without a password, which takes any. It is no secret."""

_LOGIN = "with user:password@ after // if needed"
_TLS_OPTIONS = (
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_check_hostname",
    "ssl_cert_reqs",
)

_URL = re.compile(
    r"[^:]+://(?P<servers>[^/?#]*)(?P<path>[^?#]*)(\?(?P<query>[^#]*))?(?P<rest>#.*)?", re.DOTALL
)
"""From Python 3.14 on, `urlsplit` refuses a list of hosts that has an IPv6 address."""

_HOST = re.compile(r"(\[(?P<v6>[^\[\]]+)\]|(?P<name>[^:\[\]]*))(:(?P<port>[^:]*))?")
_V6 = re.compile(r"\[.*|.*\].*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%.*)?")
"""An IPv6 address in a place where it is wrong."""

_ESCAPES = "write / ? # in a user or password as %2F %3F %23, and @ as %40"

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
        url = url.strip()
        scheme = url.partition("://")[0].lower()
        parts = _URL.fullmatch(url)
        if scheme not in _FORMS or not parts:
            meant = _nearest(scheme)
            others = ", ".join(f"{name}://" for name in _FORMS if name != meant)
            raise ValueError(f"must be a URL of the form {_FORMS[meant]}, or with {others}")
        try:
            return cls(**dict(_fields(scheme, parts)))
        except ValueError as error:
            raise ValueError(f"{error}; the form is {_FORMS[scheme]}, {_LOGIN}") from None


def _nearest(scheme: str) -> str:
    """The right scheme in place of a wrong one. The text may be anything, also a password."""
    secure = "s" if scheme.startswith("rediss") else ""
    kinds = (kind for kind in ("sentinel", "cluster") if kind in scheme)
    if kind := next(kinds, None):
        return f"redis{secure}+{kind}"
    return "unix" if "unix" in scheme else "redis"


def _fields(scheme: str, parts: re.Match[str]) -> Iterator[tuple[str, Any]]:
    """The fields of an address. Raises ValueError."""
    base, _, kind = scheme.partition("+")
    login, _, hosts = parts["servers"].rpartition("@")
    if parts["rest"] or ("@" in parts["path"] and (hosts or base != "unix")):
        raise ValueError(_ESCAPES)
    if "://" in parts["path"] or (kind and "//" in parts["path"]):
        raise ValueError("the scheme is written once, before the first host")
    options = _options(parts["query"] or "")
    user, _, password = login.partition(":")
    yield "kind", RedisKind(kind or "single")
    yield "user", unquote(user) or None
    yield "password", unquote(password) or None
    path = unquote(parts["path"], errors="surrogateescape")
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
    for name in options:
        if name in _TLS_OPTIONS and base == "redis":
            raise ValueError(f"the option {name} needs {scheme.replace('redis', 'rediss')}://")
        raise ValueError(f"the option {name} is unknown or not for {scheme}://")


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
        forms = f"{_FORMS['redis+sentinel']} or {_FORMS['redis+cluster']}"
        raise ValueError(f"several hosts need {forms}")
    db = options.pop("db", "")
    if db and path:
        raise ValueError("the database is given twice")
    yield "db", _db(db or path or "0")


def _options(query: str) -> dict[str, str]:
    """Raises ValueError. Names are shown only if they cannot be a part of a password."""
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if "@" in query and name not in ("db", *_TLS_OPTIONS):
            raise ValueError(_ESCAPES)
        if not value:
            raise ValueError(f"the option {name} has no value")
        if name in options:
            raise ValueError(f"the option {name} is given twice")
        options[name] = value
    return options


def _endpoint(text: str, default_port: int) -> Endpoint:
    if re.search(r"\s", text):
        raise ValueError("a host has no spaces")
    found = _HOST.fullmatch(text)
    if not found and _V6.fullmatch(text):
        raise ValueError("an IPv6 address is in brackets, such as [::1]:6379")
    port = found["port"] or str(default_port) if found else ""
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _HIGHEST_PORT):
        raise ValueError(f"a port is a number from 1 to {_HIGHEST_PORT}")
    assert found
    host = unquote(found["v6"] or found["name"])
    if not host:
        raise ValueError("a host is missing")
    return host.lower(), int(port)


def _db(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
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
    except ssl.SSLError as error:
        reason = _WRONG_FILES.get(error.reason) or _NOT_PEM[name]
        raise ValueError(f"{name} {file} cannot be used ({reason})") from error
    except OSError as error:
        raise ValueError(f"{name} {file} cannot be used ({error.strerror})") from error


_WRONG_FILES = {"KEY_VALUES_MISMATCH": "the key does not belong to the certificate"}
_NOT_PEM = {
    "ssl_ca_certs": "it has no certificate in PEM format",
    "ssl_certfile": "a certificate and its private key without a password are needed, in PEM "
    "format; ssl_keyfile names the file of the key",
}
"""OpenSSL does not say which of the two files it could not read."""
