"""Listening sockets, and errors that say why an address cannot be used."""

import errno
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_CAUSES = {
    errno.EADDRINUSE: "port {port} is in use; choose another port",
    errno.EADDRNOTAVAIL: "{host} is not an address of this machine; choose another host",
}

_NOT_A_HOST = re.compile(r"[/\[\]]|^[^:]+:\d*$")
"""A URL, an address in brackets, or one with a port; IPv6 has more than one colon."""


class CannotListen(OSError):
    """No service can listen there; the message names the service, the cause and the remedy."""

    def __init__(self, what: str, host: str, port: int, error: OSError) -> None:
        cause = _CAUSES.get(error.errno or 0, "{host}:{port} cannot be used: {error}")
        if isinstance(error, socket.gaierror) or error.errno == socket.EAI_NONAME:
            cause = "the host name {host} is unknown"
        if _NOT_A_HOST.search(host):
            cause = (
                "{host} is not a host; use an address or a name without scheme, brackets and port"
            )
        self.cause = cause.format(host=host, port=port, error=error.strerror)
        super().__init__(f"{what} cannot listen: {self.cause}")


def check_bind(what: str, host: str, port: int) -> None:
    """Raises CannotListen if no service can listen there."""
    with _naming(what, host, port), socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def listen(what: str, host: str, port: int, backlog: int | None = None) -> socket.socket:
    """A listening socket of the service `what`. Raises CannotListen."""
    with _naming(what, host, port):
        return socket.create_server((host, port), family=_family(host), backlog=backlog)


def free_port() -> int:
    """A TCP port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _naming(what: str, host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotListen(what, host, port, error) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
