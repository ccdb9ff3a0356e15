"""Lookups of host names. A name server that does not answer delays neither other lookups nor the exit.

`loop.getaddrinfo` uses few threads for all hosts, and the process waits for them when it ends. uvloop has
two, so that two names without an answer delay all others.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from concurrent.futures import Future

_lookups: dict[str, Future[list[str]]] = {}
"""By host: the lookup in progress, or the last one."""


async def addresses_of(host: str) -> list[str]:
    """In the order in which to try them. Callers that come during a lookup of the host share it.

    Raises OSError.
    """
    if _is_address(host):
        return [host]
    lookup = _lookups.get(host)
    if lookup is None or lookup.done():
        lookup = _lookups[host] = _begin(host)
    return await asyncio.wrap_future(lookup)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _begin(host: str) -> Future[list[str]]:
    lookup: Future[list[str]] = Future()
    lookup.set_running_or_notify_cancel()  # a caller that gives up cannot cancel it for the others

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except Exception as error:  # noqa: BLE001 - the callers get it
            lookup.set_exception(error)
        else:
            lookup.set_result([str(place[0]) for *_, place in found])

    threading.Thread(target=look_up, name="host-lookup", daemon=True).start()
    return lookup
